//! Warnings are what `check` is for: it says each of them, once, and no other verb says them before its answer.

use super::stage;
use crate::harness::gate::{run, runs};

/// Two contracts that anybody may use for what costs.
const DOUBTFUL: &str =
    "  oracle__pay: { purpose: a test, actions: [pay], permission: anyone, secrets: [], \
    idempotency: { derive: arguments }, irreversible: true }
  oracle__wipe: { purpose: a test, actions: [delete], permission: anyone, secrets: [], \
    idempotency: { derive: arguments }, irreversible: true }
";

/// Issue 17 D17: four to eight warnings stood before each answer.
#[tokio::test]
async fn warnings_are_said_by_check_alone() {
    let (_server, setup) = stage().await;
    let policy = setup.directory().join("policy.yaml");
    let written = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, written + DOUBTFUL).unwrap();
    let (code, out, err) = run(&setup, &["check"]).await;
    let said = out + &err;
    assert_eq!(code, 0, "{said}");
    for action in ["pay", "delete"] {
        let warning = format!("every caller who sees the tool may `{action}`");
        assert_eq!(said.matches(&warning).count(), 1, "{said}");
    }
    for line in [
        "explain --agent anonymous --tool oracle__look",
        "test --replay ledger",
        "ledger list",
        "ledger events",
        "calls list",
        "tasks list",
        "incident list",
        "policy list",
        "pins verify",
        "report",
        "disable",
        "status",
        "doctor",
    ] {
        let (_, out, err) = runs(&setup, line).await;
        let said = out + &err;
        assert!(!said.contains("every caller who sees"), "{line}: {said}");
        // At most that there are some, and who says them.
        let told = said.matches("warning").count();
        let counted = said.matches("`toolgate check` lists them").count();
        assert!(told == counted && counted <= 1, "{line}: {said}");
    }
}
