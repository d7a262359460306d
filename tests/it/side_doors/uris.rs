//! URIs that are meant to be read in two ways (threat-model §3C C3): what arrives at the server is
//! what the layer allows.

use super::*;

/// Ways out of `/srv/docs` for some program that reads paths.
const OUT: &[&str] = &[
    "file:///srv/docs/../../etc/passwd",
    "file:///srv/docs/..",
    "file:///srv/docs/./../x",
    "file:///srv/docs/%2e%2e/%2e%2e/etc/passwd",
    "file:///srv/docs/%2E./x",
    "file:///srv/docs/..%2f..%2fetc%2fpasswd",
    "file:///srv/docs/..%5c..%5cx",
    "file:///srv/docs/..\\..\\x",
    "file:///srv/docs/%252e%252e/x",
    "file:///srv/docs/%c0%ae%c0%ae/x",
    "file:///srv/docs/%uff0e%uff0e/x",
    "file:///srv/docs/\u{ff0e}\u{ff0e}/x",
    "file:///srv/docs/\u{2025}/x",
    "file:///srv/docs/..;/x",
    "file:///srv/docs/a%00.md",
    "file:///srv/docs/a\u{0}.md",
    "file:///srv/docs/a\n.md",
    "file:///srv/docs/%0a",
    "file:///srv/docs//etc/passwd",
    "file:////srv/docs/a",
    "file://evil/srv/docs/a",
    "file://user:pw@localhost/srv/docs/a",
    "file:///srv/docs/a?x",
    "file:///srv/docs/a#x",
    "file:///srv/docs/\u{202e}a",
    "file:///srv/docs/ a",
    " file:///srv/docs/a",
    "file:srv/docs/a",
    "file:///srv/docs",
    "file:///SRV/docs/a",
    "file:///srv/docs2/a",
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "srv/docs/a",
    "",
    "https://docs.example@evil.example/",
    "https://docs.example.evil.example/",
    "https://docs.example:8443/",
    "https://docs%2eexample/",
    "https://docs.example/../x",
];
/// The same document, as a program may write it.
const IN: &[&str] = &[
    "file:///srv/docs/a.md",
    "FILE:///srv/docs/a.md",
    "File://LocalHost/srv/docs/a.md",
    "file:/srv/docs/a.md",
    "file:///srv/docs/%61.md",
    "file:///srv/docs/sub/a%20b.md",
    "file:///srv/docs/%C3%BC",
    "https://docs.example/a?b=c",
    "HTTPS://Docs.Example:443/a",
];

/// threat-model §3C C3: 40 ways out, 9 ways in, on both wires and both methods; the server counts
/// what arrives.
#[tokio::test]
async fn c3_nothing_leaves_for_what_has_two_readings() {
    let scripted = docs().await;
    let policy = "
contracts: { docs__read: { purpose: t, actions: [read], secrets: [] } }
layers: { agent: { alice: { resources: { allow: [\"docs__file:///srv/docs/*\", \"docs__https://docs.example/*\"] } } } }
";
    let gate = started(&scripted, policy).await;
    let alice = gate.agent().token(ALICE).at("/mcp/docs");
    let mut cases = 0;
    for agent in [alice.clone(), alice.clone().initialized().await] {
        let methods: &[&str] = if agent.is_legacy() {
            &["resources/read", "resources/subscribe"]
        } else {
            &["resources/read"]
        };
        for method in methods {
            let nowhere = told(agent.ask(method, json!({ "uri": "file:///nowhere" })).await);
            for uri in OUT {
                let answer = agent
                    .post(&agent.request(method, json!({ "uri": uri })))
                    .await
                    .whole()
                    .await;
                let refused = answer["error"]["code"].as_i64();
                // NUL does not even come in.
                assert!(
                    told(answer.clone()) == nowhere || (uri.contains('\0') && refused.is_some()),
                    "{uri}: {answer}"
                );
                assert_eq!(scripted.seen().len(), 0, "{uri}: {:?}", scripted.seen());
                cases += 1;
            }
            for uri in IN {
                let answer = agent.ask(method, json!({ "uri": uri })).await;
                assert!(answer["result"].is_object(), "{uri}: {answer}");
                let seen = scripted.seen();
                assert_eq!(
                    (seen.len(), &seen[0].body["params"]["uri"]),
                    (1, &json!(uri)),
                    "it travels as it was written"
                );
                scripted.forget();
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 3 * (OUT.len() + IN.len()));
}
