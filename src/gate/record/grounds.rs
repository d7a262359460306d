//! What let a call through, for its ledger entry: the layer, the contract, and what its permission
//! rests on (003-96, 003-P1a).

use super::RecordedCall;
use crate::guards::allowlist::Admitted;

/// What stands for the layers where none of them limits the tool.
const NO_LAYER_WORDS: &str = "no layer limits it";

/// Layer and pattern, the contract by its name, and what its permission asked for.
pub(super) fn words(recorded: &RecordedCall<'_>, admitted: &Admitted<'_>) -> Vec<String> {
    let (call, policy) = (recorded.call, recorded.policy);
    let layer = admitted.allowed().map(ToString::to_string);
    let contract = policy.allowlist.contract_name_of(&call.judged.tool);
    let permission = &admitted.rules().permission;
    let mut words = vec![layer.unwrap_or_else(|| NO_LAYER_WORDS.to_owned())];
    words.extend(contract.map(|name| format!("contract {name}")));
    words.extend(permission.grounds(&call.origin.caller, &call.judged.arguments));
    words
}
