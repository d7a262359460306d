//! Issuers of tokens as people write them, well and badly.

use super::*;

/// Lines and words of the errors.
fn errors(text: &str) -> String {
    let (loaded, _) = load_text(text);
    let errors = loaded.reading.diagnostics.into_iter();
    let errors = errors.filter(|found| found.severity == Severity::Error);
    let words = errors.map(|found| {
        let hint = found.hint.unwrap_or_default();
        format!("{}: {}\n    help: {hint}\n", found.line, found.message)
    });
    words.collect()
}

const KEYS: &str = "jwks_url: \"https://a.example/k\"";

fn many() -> String {
    let one = |number: usize| {
        format!(
            "{{ issuer: \"https://{number}.example\", audience: a, {KEYS}, claims: {{ agent: azp }}, agents: [a{number}] }}"
        )
    };
    let all: Vec<String> = (0..17).map(one).collect();
    format!("mode: observe\nauth: {{ jwt: [ {} ] }}\n", all.join(", "))
}

/// Every problem of issuers is named, at both doors.
#[test]
fn what_is_wrong_with_issuers_is_named() {
    let a = "issuer: \"https://a.example\", audience: a";
    let agent = "claims: { agent: azp }";
    let who = "claims: { name: email, roles: groups }";
    let token = "token: 0123456789abcdef-ann, roles: [approver]";
    let cases = [
        "mode: observe\nauth: { jwt: [ { issuer: login, audience: \" \", jwks_url: \"http://login.example.com/jwks\", claims: { agent: \" azp\" }, agents: [\" \"] } ] }\n"
            .to_owned(),
        format!("mode: observe\nauth: {{ jwt: [ {{ {a}, {agent} }}, {{ {a}, {KEYS}, {agent} }} ] }}\n"),
        "mode: observe\nauth: { public_url: \"https://tools.example.com\" }\n".to_owned(),
        many(),
        format!(
            "mode: observe\nadmin: {{ tokens: [ {{ name: \"ann@example.com\", {token} }} ], jwt: [ {{ {a}, {KEYS}, {who}, roles: {{ sre: [\" \"] }}, header: \"x y\" }}, {{ {a}, {KEYS}, {who}, roles: {{ sre: [] }} }} ] }}\n"
        ),
    ];
    let shown: String = cases.iter().map(|text| errors(text) + "\n").collect();
    insta::assert_snapshot!("what_is_wrong_with_issuers", shown);
}

/// A file of keys is looked at when the configuration is loaded, from the configuration's own place.
#[test]
fn a_file_of_keys_is_judged_at_load() {
    let text = |file: &str| {
        format!(
            "mode: observe\nauth: {{ jwt: [ {{ issuer: \"https://a.example\", audience: a, jwks_file: {file}, claims: {{ agent: azp }} }} ] }}\n"
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let load = |file: &str| {
        let config = text(file);
        write(
            directory.path(),
            &[
                (FILE_NAME, &config),
                ("keys.json", key),
                ("none.json", r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#),
            ],
        );
        let loaded = load_with(&directory.path().join(FILE_NAME), &variables);
        let mut errors = loaded.reading.diagnostics.into_iter();
        let error = errors.find(|found| found.severity == Severity::Error);
        error.map(|found| (found.line, found.message))
    };
    assert_eq!(load("keys.json"), None);
    let (line, missing) = load("missing.json").unwrap();
    assert!(
        line == 2 && missing.contains("missing.json cannot be read: "),
        "{missing}"
    );
    let (_, secret) = load("none.json").unwrap();
    assert!(
        secret.ends_with("none of its keys can check the signature of a token"),
        "{secret}"
    );
}

/// With issuers nobody is let in without a token, and policies may name agents that only tokens do.
#[test]
fn issuers_are_callers() {
    let text = "mode: enforce\nlisten: 0.0.0.0:7777\nunencrypted: true\nservers: { s: { command: x } }\npolicies: [policy.yaml, more.yaml]\nauth: { jwt: [ { issuer: \"https://a.example\", audience: a, jwks_url: \"https://a.example/k\", claims: { agent: azp, roles: roles }, group: g } ] }\n";
    let directory = tempfile::tempdir().unwrap();
    let policy = "contracts: { s__t: { purpose: p, actions: [read], secrets: [], permission: { roles: [any] } } }\n";
    let more = "layers: { agent: { any-bot: { allow: [s__t] } }, group: { g: { allow: [s__t] } } }\nbudgets: { agent: { other-bot: { max_steps: 3 } }, group: { g: { max_steps: 3 } } }\n";
    write(
        directory.path(),
        &[
            (FILE_NAME, text),
            ("policy.yaml", policy),
            ("more.yaml", more),
        ],
    );
    let loaded = load_with(&directory.path().join(FILE_NAME), &variables);
    let said: Vec<String> = loaded
        .reading
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(loaded.config.is_some(), "{said:#?}");
    assert!(
        said.iter().all(|said| !said.contains("no caller")),
        "{said:#?}"
    );
    let policy = loaded.reading.policy.unwrap();
    assert!(policy.identity.identify(None, |_| None).is_err());
}
