//! What let a call through, for its ledger entry: the layer, the contract, and what its permission
//! rests on (003-96, 003-P1a).

use super::RecordedCall;
use crate::guards::allowlist::Admitted;
use std::fmt::Write as _;

/// What stands for the layers where none of them limits the tool.
const NO_LAYER_WORDS: &str = "no layer limits it";
/// Room that is made at once: few calls have more grounds, or a layer of more bytes.
const USUAL_GROUNDS: usize = 4;
const USUAL_LAYER_BYTES: usize = 96;

/// Layer and pattern, the contract by its name, and what its permission asked for.
pub(super) fn words(recorded: &RecordedCall<'_>, admitted: &Admitted<'_>) -> Vec<String> {
    let (call, policy) = (recorded.call, recorded.policy);
    let contract = policy.allowlist.contract_name_of(&call.judged.tool);
    let permission = &admitted.rules().permission;
    // Memory that grows while it is written is copied each time.
    let mut words = Vec::with_capacity(USUAL_GROUNDS);
    let mut layer = String::with_capacity(USUAL_LAYER_BYTES);
    // A text takes whatever is written.
    let _ = match admitted.allowed() {
        Some(allowed) => write!(layer, "{allowed}"),
        None => layer.write_str(NO_LAYER_WORDS),
    };
    words.push(layer);
    words.extend(contract.map(|name| ["contract ", name.as_str()].concat()));
    words.extend(permission.grounds(&call.origin.caller, &call.judged.arguments));
    words
}
