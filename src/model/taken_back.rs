//! Which call another one takes back, and who asked for that (003-64).

use super::ids::ActionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The call that is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UndoneCall {
    /// The call.
    #[schemars(with = "String")]
    pub of: ActionId,
    /// The operator who asked for it.
    pub who: String,
}
