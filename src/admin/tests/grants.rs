//! Standing grants at the operators' door.

use crate::guards::approval::{GrantJudge, GrantRules, GrantedCall};
use crate::model::ids::ToolName;
use crate::store::state::Millis;
use crate::store::state::grant::Grant;
use serde_json::Value;

/// Nothing can be granted.
pub(super) struct FixedRules;

impl GrantJudge for FixedRules {
    fn rules(&self, _: &ToolName, _: &Value) -> Result<GrantRules, String> {
        Err("nothing can be granted".to_owned())
    }

    fn dead(&self, _: &Grant) -> Option<&'static str> {
        None
    }

    fn missed(&self, _: &Grant, _: &GrantedCall, _: Millis) -> Option<String> {
        None
    }

    fn knows(&self, _: &str, _: Option<&str>) -> bool {
        true
    }
}
