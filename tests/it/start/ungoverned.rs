//! Policies in which nothing says what agents may do (003-123).

use super::{one_server, serve};
use crate::harness::gate::run;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use crate::harness::until;
use serde_json::json;

/// 003-123: enforce mode does not start where no contract says what agents may do; `check` says so,
/// too, with what to do. Limits are there by themselves, contracts are not.
#[tokio::test]
async fn enforce_mode_does_not_start_without_a_contract() {
    let told =
        "no policy file has a contract: enforce mode would refuse everything, so it does not start";
    for policy in [
        "contracts: {}\n",
        "# nothing yet\n",
        "layers: { global: { deny: [s__t] } }\n",
        "budgets: { global: { max_tool_calls: 3 } }\n",
    ] {
        let setup = one_server().policy(policy);
        let said = serve(&setup).await;
        assert!(
            said.contains(told) && said.ends_with("exit code 1\n"),
            "{policy}: {said}"
        );
        let (code, out, _) = run(&setup, &["check", "."]).await;
        assert!(
            code == 1
                && out.contains(told)
                && out.contains("`toolgate init` drafts them")
                && out.contains("--> ./policy.yaml"),
            "{policy}: {out}"
        );
        let observed = setup.mode("observe");
        observed.write();
        let (code, out, _) = run(&observed, &["check", "."]).await;
        assert!(code == 0 && !out.contains(told), "{policy}: {out}");
    }
    let said = serve(&one_server().policy("").more("policies: []")).await;
    assert!(
        said.contains("no policies: enforce mode would refuse everything, so it does not start"),
        "{said}"
    );
}

/// 003-38: a test pack may try a policy file that has no contract, such as one with layers for others.
#[tokio::test]
async fn a_pack_may_test_layers_alone() {
    let setup = one_server()
        .policy("contracts: { s__t: { purpose: Test., actions: [read], secrets: [] } }\n");
    setup.write();
    let write =
        |name: &str, text: &str| std::fs::write(setup.directory().join(name), text).unwrap();
    write(
        "layers.yaml",
        "layers: { global: { deny: [\"db__drop*\"] } }\n",
    );
    std::fs::create_dir(setup.directory().join("tests")).unwrap();
    write(
        "tests/pack.yaml",
        "pack: layers\npolicies: [../layers.yaml]\ncallers: { a: { agent: a } }\n\
         samples:\n  - { name: drops, caller: a, tool: db__drop_all, arguments: {}, expect: tool_not_allowlisted }\n",
    );
    let (code, out, err) = run(&setup, &["test", "tests"]).await;
    assert!(code == 0 && out.contains("1 sample"), "{out}{err}");
}

/// 003-123: a server without tools needs no contract; what else it has is closed unless a layer
/// opens it. A reload that takes the last contract away leaves it in force.
#[tokio::test]
async fn what_is_no_tool_needs_no_contract() {
    let told = "no policy file has a contract, so every tool call is refused";
    let oracle = Script::new().tool("read", Behaviour::Answers).start().await;
    let opened = Setup::new()
        .server("s", &oracle)
        .policy("layers: { global: { resources: { allow: [\"s__*\"] } } }\n");
    opened.write();
    let (code, out, _) = run(&opened, &["check", "."]).await;
    assert!(code == 0 && out.contains(told), "{out}");
    let gate = opened.start().await;
    let refused = gate.agent().modern_call("s__read", json!({})).await;
    assert_eq!(refused.refusal(), "tool_not_allowlisted");

    let gate = Setup::new()
        .server("s", &oracle)
        .contracts(&[("s__read", "read")])
        .start()
        .await;
    std::fs::write(
        gate.setup.directory().join("policy.yaml"),
        "contracts: {}\n",
    )
    .unwrap();
    until("the change is refused", || async {
        (gate
            .metric("toolgate_reloads_total{outcome=\"kept\"}")
            .await
            >= 1.0)
            .then_some(())
    })
    .await;
    assert!(
        gate.agent()
            .modern_call("s__read", json!({}))
            .await
            .is_done()
    );
}
