//! Methods that nobody governs, and cursors that nobody gave (threat-model §3A A9, §3C C2, C3,
//! C13).

use super::{Behaviour, Script, Setup, governed, json, refused, untouched};

/// Not in any revision, or not exactly.
const UNKNOWN: &[&str] = &[
    "tools/Call",
    "TOOLS/CALL",
    "tools/call ",
    " tools/call",
    "tools/call\u{0}x",
    "tools\u{2215}call",
    "tools//call",
    "tools/\u{441}all",
    "tools/execute",
    "x-vendor/run",
    "",
];

#[tokio::test]
async fn a9_c13_methods_that_are_not_exactly_known_go_nowhere_in_enforce_mode() {
    let (oracle, gate) = governed().await;
    let session = gate.agent().declaring(json!({})).await;
    for method in UNKNOWN {
        let params = json!({ "name": "oracle__write", "arguments": {} });
        let answer = session.legacy(method, params.clone()).await;
        if method.contains('\0') {
            refused(method, &answer, -32700, "NUL");
        } else {
            refused(method, &answer, -32601, "is not known");
        }
        // What cannot travel in a header already disagrees with it.
        let answer = gate
            .agent()
            .modern(&method.replace('\0', " "), params)
            .await;
        assert!(
            matches!(
                (answer.status, answer.error()),
                (404, -32601) | (400, -32020)
            ),
            "{method:?}: {answer:?}"
        );
    }
    let seen = oracle.requests();
    assert!(
        UNKNOWN
            .iter()
            .all(|method| !seen.iter().any(|seen| seen == method)),
        "{seen:?}"
    );
    untouched(&oracle, &gate).await;
}

#[tokio::test]
async fn c13_unknown_methods_pass_in_observe_mode_and_where_an_operator_allows_them() {
    let oracle = Script::new()
        .tool("write", Behaviour::Answers)
        .start()
        .await;
    let observing = Setup::new()
        .server("oracle", &oracle)
        .mode("observe")
        .start()
        .await;
    let answer = observing
        .agent()
        .at("oracle")
        .modern("x-vendor/run", json!({}))
        .await;
    assert_eq!(
        answer.words(),
        "no such method",
        "the server's own words: {answer:?}"
    );
    assert!(oracle.requests().iter().any(|seen| seen == "x-vendor/run"));
    let allowing = Setup::new()
        .server("oracle", &oracle)
        .contracts(&[("oracle__write", "write")])
        .more("methods: { allow: [x-vendor/other], deny: [resources/list] }")
        .start()
        .await;
    let agent = allowing.agent().at("oracle");
    assert_eq!(
        agent.modern("x-vendor/other", json!({})).await.words(),
        "no such method"
    );
    assert!(
        oracle
            .requests()
            .iter()
            .any(|seen| seen == "x-vendor/other")
    );
    refused(
        "C3 denied",
        &agent.modern("resources/list", json!({})).await,
        -32601,
        "denied by the configuration",
    );
    assert!(
        !oracle
            .requests()
            .iter()
            .any(|seen| seen == "resources/list")
    );
}

#[tokio::test]
async fn c2_cursors_that_toolgate_did_not_give_are_refused() {
    let (oracle, gate) = governed().await;
    for cursor in [
        json!("x"),
        json!("1"),
        json!(""),
        json!(7),
        json!({}),
        json!("9".repeat(300)),
    ] {
        let answer = gate
            .agent()
            .modern("tools/list", json!({ "cursor": cursor }))
            .await;
        assert_eq!(answer.error(), -32602, "{cursor}: {answer:?}");
    }
    untouched(&oracle, &gate).await;
}
