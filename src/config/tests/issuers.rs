//! Issuers of tokens as people write them, well and badly.

use super::*;
use crate::policy::live::{LivePolicy, ReloadOutcome};

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
        format!(
            "mode: observe\nauth: {{ jwt: [ {{ {a}, {KEYS}, {agent} }} ] }}\nadmin: {{ tokens: [], jwt: [ {{ {a}, {KEYS}, {who}, roles: {{ sre: [approver] }} }}, {{ issuer: \"https://b.example\", audience: a, {KEYS}, {who}, roles: {{ sre: [approver] }} }} ] }}\n"
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
    let pipe = directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
    let (_, odd) = load("pipe").unwrap();
    assert!(
        odd.ends_with("pipe cannot be read: it is no regular file"),
        "{odd}"
    );
    let (_, secret) = load("none.json").unwrap();
    assert!(
        secret.ends_with("none of its keys can check the signature of a token"),
        "{secret}"
    );
}

/// Keys that are too short to be taken are told of, beside those that are.
#[test]
fn short_keys_of_a_file_are_told_of() {
    let directory = tempfile::tempdir().unwrap();
    let short = "zUR-Nbi22P5ELj1DcgTlLbIiGlgAigWmxGRxWcMkyYWbgQ52bsnShmPKgo3V9LOy5LBs5gdBx6h85CyCGAcujDW_mS3J6cYWYS52lqbOzBt45RBhcxHYo8LOb0R-1NV7Hi_riUFMNDwQJ8TRw4a7xM1hPjDY8WrfkbdYSiJlsfU";
    let good = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
    let keys = format!(
        r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"1","x":"{good}"}},{{"kty":"RSA","kid":"2","n":"{short}","e":"AQAB"}}]}}"#
    );
    let config = "mode: observe\nauth: { jwt: [ { issuer: \"https://a.example\", audience: a, jwks_file: keys.json, claims: { agent: azp } } ] }\n";
    write(
        directory.path(),
        &[(FILE_NAME, config), ("keys.json", &keys)],
    );
    let loaded = load_with(&directory.path().join(FILE_NAME), &variables);
    let found = loaded.reading.diagnostics.into_iter();
    let found = found.filter(|found| found.line == 2);
    let words =
        found.map(|found| format!("{}\n    help: {}\n", found.message, found.hint.unwrap()));
    insta::assert_snapshot!("short_keys_of_a_file", words.collect::<String>());
}

/// threat-model §10: who may write the keys of an issuer may sign as every agent, or as every operator, so a file
/// that others may change is an error at both doors, and so is a directory on the way to it.
#[test]
fn a_file_of_keys_that_others_may_change_is_an_error() {
    let one = "issuer: \"https://a.example\", audience: a, jwks_file: keys/set.json";
    let key = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    for section in [
        format!("auth: {{ jwt: [ {{ {one}, claims: {{ agent: azp }} }} ] }}"),
        format!(
            "admin: {{ jwt: [ {{ {one}, claims: {{ name: email, roles: groups }}, roles: {{ sre: [approver] }} }} ] }}"
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("keys")).unwrap();
        let config = format!("mode: observe\n{section}\n");
        write(
            directory.path(),
            &[(FILE_NAME, &config), ("keys/set.json", key)],
        );
        for (of_directory, of_file, words) in [
            (0o755, 0o644, None),
            (0o1777, 0o644, None),
            (
                0o755,
                0o666,
                Some("others than its owner may write this file"),
            ),
            (
                0o755,
                0o664,
                Some("others than its owner may write this file"),
            ),
            (0o777, 0o644, Some("whose tokens are taken")),
        ] {
            chmod(&directory.path().join("keys"), of_directory);
            chmod(&directory.path().join("keys/set.json"), of_file);
            let loaded = load_with(&directory.path().join(FILE_NAME), &variables);
            let errors = loaded.reading.diagnostics.into_iter();
            let errors = errors.filter(|found| found.severity == Severity::Error);
            let said: Vec<String> = errors.map(|found| found.message).collect();
            assert_eq!(
                said.len(),
                usize::from(words.is_some()),
                "{of_directory:o} {of_file:o} {section}: {said:?}"
            );
            assert!(
                said.iter().all(|said| said.contains(words.unwrap())),
                "{said:?}"
            );
        }
    }
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

/// Issuers of operators, and the roles that they give, come with the policy of the same files, and not with one that
/// is refused; where the door is takes a restart, and a reload says so.
#[test]
fn issuers_of_operators_come_with_the_policy() {
    let text = |operators: &str, more: &str| {
        format!(
            "mode: observe\nservers: {{ s: {{ command: x }} }}\nauth: {{ jwt: [ {{ issuer: \"https://a.example\", audience: a, {KEYS}, \
             claims: {{ agent: azp }} }} ] }}\nadmin: {{ jwt: [ {{ issuer: \"https://a.example\", audience: desk, {KEYS}, claims: {{ \
             name: email, roles: groups }}, roles: {{ sre: [{operators}] }} }} ]{more} }}\n"
        )
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    let put = |text: String| write(directory.path(), &[(FILE_NAME, &text)]);
    put(text("approver", ""));
    let loaded = load(&path);
    let running = loaded.config.unwrap();
    let live = LivePolicy::start(loaded.reading, reader(path, &running)).unwrap();
    let approvers = running.admin.in_force.approvers();
    let decides = |role: &str| {
        let roles = [role.to_owned()];
        approvers.current().decides("sue@example.com", &roles)
    };
    let swaps = live.swaps();
    assert!(decides("approver") && !decides("finance"));
    put(format!("{}unheard_of: 1\n", text("finance", "")));
    assert_eq!(live.reload(), ReloadOutcome::KeptLastGood);
    assert!(decides("approver") && !decides("finance"));
    put(text("finance", ""));
    assert_ne!(live.reload(), ReloadOutcome::KeptLastGood);
    assert!(!decides("approver") && decides("finance"));
    assert!(swaps.has_changed().unwrap(), "what waits looks again");
    put(text("finance", ", public_url: \"https://gate.example\""));
    live.reload();
    let said = live.status().diagnostics.into_iter();
    let said = said.filter(|found| found.message.contains("has changed"));
    let said: Vec<String> = said
        .map(|found| format!("{}: {}", found.message, found.hint.unwrap()))
        .collect();
    assert_eq!(said, ["`admin` has changed: restart to apply it"]);
}
