//! A sample that is also made for real, and taken back, where an operator asks for a drill (003-P4f).

use super::written::{PackBaseline, PackDrill};
use crate::model::ids::ToolName;
use serde_json::{Map, Value};

/// How its drill finds out that nothing is left of the call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DrillTerms {
    /// What is read; none: what its contract checks an undo by.
    pub baseline: Option<BaselineTerms>,
}

/// A read, and what of its result is compared.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BaselineTerms {
    /// What is read with: `server__tool`.
    pub tool: ToolName,
    /// Its arguments; `arguments#/…` stands for a part of those of the call.
    pub arguments: Map<String, Value>,
    /// JSON pointers into the structured result.
    pub fields: Vec<String>,
}

impl From<PackDrill> for DrillTerms {
    fn from(PackDrill { baseline }: PackDrill) -> Self {
        Self {
            baseline: baseline.map(BaselineTerms::from),
        }
    }
}

impl From<PackBaseline> for BaselineTerms {
    fn from(written: PackBaseline) -> Self {
        let PackBaseline {
            tool,
            arguments,
            fields,
        } = written;
        Self {
            tool: ToolName::new(&tool),
            arguments,
            fields,
        }
    }
}
