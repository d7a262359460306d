//! What `check` says of calls that are hard to take back where nothing says which of them are the same.

use crate::harness::gate::run;
use crate::harness::setup::Setup;
use std::fmt::Write as _;

/// 004-08, 004-15: what pays, deletes or grants says by what its calls are known; a plain write, a notice
/// and a read need not.
#[tokio::test]
async fn costly_calls_say_which_of_them_are_the_same() {
    let regimes = [
        ("unsaid", ""),
        ("window", ", idempotency: { window: 5m }"),
        ("retry", ", idempotency: { derive: retry }"),
        ("require", ", idempotency: { require: true }"),
        ("derive", ", idempotency: { derive: [/id] }"),
    ];
    let mut policy = "contracts:\n".to_owned();
    for action in ["pay", "delete", "grant", "write", "notify", "read"] {
        for (name, keys) in regimes {
            let (undone, keys) = match action {
                "read" => ("", ""),
                _ => (", permission: anyone, irreversible: true", keys),
            };
            let contract = format!("{{ purpose: a test, actions: [{action}], secrets: []");
            writeln!(
                policy,
                "  bank__{action}_{name}: {contract}{undone}{keys} }}"
            )
            .unwrap();
        }
    }
    let setup = Setup::new()
        .server_with("bank", "url: \"http://127.0.0.1:9/mcp\"")
        .policy(&policy);
    setup.write();
    let (exit, out, wrong) = run(&setup, &["check", "."]).await;
    assert_eq!((exit, wrong.as_str()), (0, ""), "{out}");
    let warned: Vec<&str> = out
        .lines()
        .filter(|line| line.contains("nothing says which of them"))
        .collect();
    insta::assert_snapshot!("unkeyed_calls", warned.join("\n"));
}
