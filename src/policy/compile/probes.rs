//! Does a probe only look? Known once the contracts of all files are.

use super::{Document, Severity, Stock};
use crate::model::diagnostic::{Diagnostic, Problems};

/// Where the contract `name` names the tool of its probe.
pub(super) fn place(document: &Document, name: &str) -> Diagnostic {
    let mut problems = Problems::default();
    problems.under("contracts", |problems| {
        problems.under(name, |problems| {
            problems.under("idempotency", |problems| {
                problems.under("probe", |problems| problems.under("tool", |problems| problems.error("", "")));
            });
        });
    });
    let problem = problems.into_found().remove(0);
    document.locate(problem)
}

/// A probe is asked when nobody knows what a call has done: it must change nothing itself.
pub(super) fn judge(stock: &mut Stock) {
    for (name, place) in std::mem::take(&mut stock.probes) {
        let rules = stock.contracts.get(&name).and_then(|held| held.rules.idempotency.as_ref());
        let Some(probe) = rules.and_then(|rule| rule.probe()) else { continue };
        let (message, hint) = match stock.contracts.get(&probe.tool) {
            None => (format!("`{}` has no contract", probe.tool), "write one with `actions: [read]`"),
            Some(held) if held.rules.side_effect => {
                (format!("`{}` changes something", probe.tool), "name a tool whose contract has `actions: [read]`")
            }
            Some(_) => continue,
        };
        let hint = Some(hint.to_owned());
        stock.diagnostics.push(Diagnostic { severity: Severity::Error, message, hint, ..place });
    }
}
