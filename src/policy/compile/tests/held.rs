//! Whose calls are held, where a contract has variants.

use super::contracts::said;

/// 003-98, 002-32: no case opts out of what its contract calls irreversible; a case is held to the
/// contract's key, and says nothing again of what the contract has said.
#[test]
fn a_variant_asks_for_what_its_contract_cannot_take_back() {
    let contract = |own: &str, case: &str| {
        format!(
            "  fs__a: {{ purpose: p, actions: [read, write], permission: anyone, {own}, secrets: [], variants: {{ by: /do, cases: {{ \
             list: {{ actions: [read] }}, put: {{ actions: [write], {case} }} }} }} }}"
        )
    };
    for (own, case, message) in [
        (
            "irreversible: true",
            "approval: { ask: never }",
            "the effect is irreversible",
        ),
        (
            "irreversible: true",
            "approval: { ask: on-miss }",
            "the effect is irreversible",
        ),
        (
            "irreversible: true, idempotency: { ttl: 5m }, approval: { approve_by: 1m }",
            "approval: {}",
            "(300 s)",
        ),
        (
            "irreversible: true, idempotency: { ttl: 3h }",
            "approval: { approve_by: 2h }",
            "",
        ),
        (
            "irreversible: true, idempotency: { ttl: 3h }, approval: { approve_by: 2h }",
            "budget: { cost: 1 }",
            "",
        ),
        (
            "irreversible: true, idempotency: { ttl: 3h }",
            "actions: [read], approval: {}",
            "",
        ),
        (
            "irreversible: true",
            "actions: [read], approval: {}",
            "only if it has a key",
        ),
    ] {
        let written = contract(own, case).replace("actions: [write], actions", "actions");
        let shown = said(&written);
        let errors = shown
            .lines()
            .filter(|line| line.contains(": error:"))
            .count();
        assert_eq!(
            errors,
            usize::from(!message.is_empty()),
            "{own} {case}: {shown}"
        );
        assert!(shown.contains(message), "{own} {case}: {shown}");
    }
}
