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

#[cfg(test)]
mod tests {
    use super::super::{Held, contract};
    use super::*;
    use crate::model::ids::{ServerName, ToolName};
    use serde_json::json;
    use std::sync::Arc;
    use std::time::Duration;

    fn held(actions: &str, probe: Option<&str>) -> Held {
        let mut written = json!({ "purpose": "p", "actions": [actions], "secrets": [] });
        if let Some(tool) = probe {
            written["idempotency"] = json!({ "probe": { "tool": tool, "found": "/id" } });
        }
        let mut problems = Problems::default();
        let contract = serde_json::from_value(written).unwrap();
        let servers = [ServerName::new("shop")];
        let rules = Arc::new(contract::compile(contract, &servers, Duration::from_mins(1), &mut problems));
        assert_eq!(problems.into_found(), []);
        Held { rules, place: nowhere() }
    }

    fn nowhere() -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            file: String::new(),
            line: 0,
            column: 0,
            message: String::new(),
            hint: None,
        }
    }

    /// SEMANTICS §4: what is asked about an unknown outcome only looks.
    #[test]
    fn a_probe_changes_nothing() {
        let cases =
            [("shop__find", None), ("shop__pay", Some("changes something")), ("shop__no", Some("has no contract"))];
        for (tool, expected) in cases {
            let order = ToolName::new("shop__order");
            let mut stock = Stock { probes: vec![(order.clone(), nowhere())], ..Stock::default() };
            stock.contracts.insert(order, held("write", Some(tool)));
            stock.contracts.insert(ToolName::new("shop__find"), held("read", None));
            stock.contracts.insert(ToolName::new("shop__pay"), held("pay", None));
            judge(&mut stock);
            let said = stock.diagnostics.first().map(|found| found.message.clone());
            assert_eq!(said.as_deref().map(|said| said.split_once(' ').unwrap().1), expected, "{tool}");
        }
    }
}
