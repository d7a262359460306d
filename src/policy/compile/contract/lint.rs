//! Warns of contracts that can be used and probably are not what their author means.

use super::effect::changes;
use crate::model::diagnostic::Problems;
use crate::policy::file::Contract;
use crate::schema::flags;

/// Actions after which a mistake is dear (003-97).
const HIGH_RISK_ACTIONS: [&str; 3] = ["delete", "pay", "grant"];

/// Judges the contract as a whole.
pub(super) fn judge(contract: &Contract, problems: &mut Problems) {
    let Contract {
        actions,
        variants,
        permission,
        owner_only,
        arguments,
        ..
    } = contract;
    let is_one = variants.is_none();
    if is_one && changes(actions) && actions.iter().any(|action| action == "read") {
        let hint = "if an argument says which of the two it is, split the contract by `variants`";
        problems.under("actions", |problems| {
            problems.warning("reads and changes things under the same conditions", hint);
        });
    }
    if let (true, true, Some((name, _))) = (
        is_one,
        changes(actions),
        flags::of(&arguments.0.clone().into()),
    ) {
        problems.under("arguments", |problems| {
            let hint = format!("split the contract by `variants: {{ by: /{name}, cases: … }}`");
            problems.warning(
                format!("`{name}` says what is done, and all of it is judged alike"),
                hint,
            );
        });
    }
    let dear = actions
        .iter()
        .find(|action| HIGH_RISK_ACTIONS.contains(&action.as_str()));
    let is_open = permission.is_open() && !owner_only;
    let in_cases = variants.iter().flat_map(|variants| variants.cases.values());
    let is_guarded =
        in_cases.clone().count() > 0 && in_cases.clone().all(|case| !case.permission.is_open());
    if let (Some(action), true, false) = (dear, is_open, is_guarded) {
        let hint = "add `permission` with `roles`, a `tenant` or a `resource`, or `owner_only`";
        let message =
            format!("every caller who sees the tool may `{action}`, whatever it is about");
        problems.under("actions", |problems| problems.warning(message, hint));
    }
}
