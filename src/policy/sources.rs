//! What a policy was made of, as it was read: to be kept, and put back one day.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// What the test packs beside the policies are for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PackTerms {
    /// `toolgate test` runs them.
    #[default]
    OnDemand,
    /// A policy whose packs fail does not come in force.
    Require,
}

/// What was read for one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySources {
    /// The directory of the configuration; empty if nothing could be read.
    pub directory: PathBuf,
    /// What the configuration says that a reload applies, as it is written, without secrets.
    pub settings: Map<String, Value>,
    /// The files besides.
    pub files: Vec<SourceFile>,
}

/// One file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Where.
    pub path: PathBuf,
    /// What it is for.
    pub kind: SourceKind,
    /// All of it.
    pub text: String,
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// It has contracts, layers or budgets.
    Policy,
    /// It has the approved definitions of tools.
    Pins,
    /// It tests the policies.
    Pack,
}
