//! How doors are entered, badly written.

use super::*;

/// Addresses, certificates and tokens, each wrong in a way of its own.
const WRONG_DOORS: &str = r#"mode: observe
listen: 127.0.0.1:7777
tls: { cert: " ", key: k, client_certificates: required }
unix: { mode: "0999" }
admin:
  listen: "unix:"
  tls: { cert: c, key: k, client_ca: a }
  verbs: { resolve: [], switch: [], audit: [] }
  tokens: [ { name: ann, token: "${OP:-0123456789abcdef-op}", previous: [ { token: "${OP:-0123456789abcdef-op}", until: soon } ] } ]
callers:
  - { agent: a, certificate: "spiffe://Example.org/a" }
  - { agent: b, certificate: "b c" }
  - { agent: c, token: "${BOT_TOKEN}", previous: [ { token: "${BOT_TOKEN}", until: "2020-01-01T00:00:00Z" } ] }
"#;

/// A socket that would speak TLS, and files that cannot be used.
const WRONG_SOCKET: &str = r#"mode: observe
listen: "unix:/nowhere/agents.sock"
tls: { cert: c, key: k }
admin: { listen: 127.0.0.1:7778, tls: { cert: c, key: policy.yaml } }
callers:
  - { agent: a, certificate: "spiffe://example.org/a" }
  - { agent: b, certificate: "spiffe://example.org/a" }
"#;

#[test]
fn what_is_wrong_at_a_door_is_named() {
    let shown = [WRONG_DOORS, WRONG_SOCKET].map(|text| load_text(text).1);
    insta::assert_snapshot!(shown.join("\n"));
}

/// Issue 20: with TLS, or as a socket, a door needs no word that it is unencrypted.
#[test]
fn a_door_that_speaks_tls_may_be_reached() {
    let reach = "toolgate speaks no TLS there";
    let callers = "callers: [{ agent: a, token: '${BOT_TOKEN}' }]\n";
    for (listen, is_told) in [
        ("listen: 0.0.0.0:1\n", true),
        ("listen: 0.0.0.0:1\ntls: { cert: c, key: k }\n", false),
        ("listen: \"unix:/nowhere/a.sock\"\n", false),
    ] {
        let (_, shown) = load_text(&format!("mode: observe\n{listen}{callers}"));
        assert_eq!(shown.contains(reach), is_told, "{shown}");
    }
}
