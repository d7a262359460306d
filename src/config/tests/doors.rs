//! How doors are entered, badly written.

use super::*;

/// Addresses, certificates and tokens, each wrong in a way of its own.
const WRONG_DOORS: &str = r#"mode: observe
listen: 127.0.0.1:7777
tls: { cert: " ", key: k, client_certificates: required }
unix: { mode: "0999", peers: {} }
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

/// The operators' door answers to the names that are given it, and links begin with none of
/// `admin.allowed_hosts`.
#[test]
fn operators_door_has_the_names_it_is_given() {
    let door = "mode: observe\nadmin: { allowed_hosts: [\"10.1.2.3:7778\", gate.internal], public_url: \"https://gate.example:8443\" }\n";
    let (loaded, shown) = load_text(door);
    let admin = loaded.config.unwrap_or_else(|| panic!("{shown}")).admin;
    assert_eq!(
        admin.named_hosts(),
        ["gate.example:8443", "10.1.2.3:7778", "gate.internal"]
    );
    assert_eq!(
        admin.public_url.as_deref(),
        Some("https://gate.example:8443")
    );
    let (loaded, shown) =
        load_text("mode: observe\nadmin: { allowed_hosts: [a, '10.1.2.3:7778'] }\n");
    let admin = loaded.config.unwrap_or_else(|| panic!("{shown}")).admin;
    assert_eq!(
        (admin.public_url, admin.allowed_hosts.len()),
        (None, 2),
        "a host is not where people are sent"
    );
    for wrong in [
        "http://gate.internal",
        "*",
        "gate.internal/metrics",
        "ann@gate",
        "",
    ] {
        let (loaded, shown) = load_text(&format!(
            "mode: observe\nadmin: {{ allowed_hosts: [a, '{wrong}'] }}\n"
        ));
        assert!(loaded.config.is_none(), "{wrong}");
        assert!(
            shown.starts_with("toolgate.yaml:2:29: error: is no host\n"),
            "{shown}"
        );
    }
}

/// A list that names no account lets no agent and no operator in, least of all each of them: it is an error at both doors.
#[test]
fn peers_that_name_nobody_are_an_error() {
    for (peers, is_wrong) in [
        ("{ mode: \"0666\" }", false),
        ("{ peers: { uids: [0] } }", false),
        ("{ peers: { gids: [0], uids: [] } }", false),
        ("{ peers: {} }", true),
        ("{ peers: { uids: [], gids: [] } }", true),
    ] {
        for text in [
            format!("listen: \"unix:/nowhere/a.sock\"\nunix: {peers}\n"),
            format!("admin: {{ listen: \"unix:/nowhere/o.sock\", unix: {peers} }}\n"),
        ] {
            let (_, shown) = load_text(&format!("mode: observe\n{text}"));
            assert_eq!(shown.contains("error: names nobody"), is_wrong, "{shown}");
        }
    }
    let (loaded, shown) =
        load_text("mode: observe\nlisten: \"unix:/nowhere/a.sock\"\nunix: { peers: }\n");
    assert!(loaded.config.is_none(), "{shown}");
}

/// A mode without its quotes is a number to YAML; what is told to be written instead is a mode.
#[test]
fn a_mode_without_quotes_is_told_with_them() {
    for (mode, told) in [("0600", "0600"), ("0660", "0660"), ("432", "0600")] {
        let text = format!("listen: \"unix:/nowhere/a.sock\"\nunix: {{ mode: {mode} }}\n");
        let (_, shown) = load_text(&format!("mode: observe\n{text}"));
        let hint = format!("write `mode: \"{told}\"`");
        assert!(shown.contains(&hint), "{mode}: {shown}");
    }
}
