//! Tools that operators and incidents have taken away.

use super::Page;
use crate::model::counted::counted;
use crate::model::disabled::{Disabled, FrozenScope, Reason};

/// What open incidents freeze.
pub(super) fn frozen(out: &mut String, frozen: &[FrozenScope], page: Page) {
    let away = frozen
        .iter()
        .map(|scope| words(page, &scope.pattern, &scope.reason));
    page.lines(out, "frozen", away);
}

/// What operators have disabled.
pub(super) fn disabled(out: &mut String, disabled: &Disabled, page: Page) {
    let away = disabled
        .iter()
        .map(|(tool, reason)| words(page, tool.as_str(), reason));
    page.lines(out, "disabled", away);
}

/// That operators have to see to what open incidents freeze, if there are any.
pub(super) fn incidents_open(frozen: &[FrozenScope]) -> Option<String> {
    let open = counted(frozen.len(), "incident");
    (!frozen.is_empty()).then(|| format!("{open} open: `toolgate incident list`"))
}

fn words(page: Page, tools: &str, reason: &Reason) -> String {
    let Reason { who, why, since } = reason;
    format!("{tools} by {who}, {}: {why}", page.ago(since))
}
