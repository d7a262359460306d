//! Configurations and policies in which much is wrong: what `check` says of each, and where.

use crate::harness::gate::Setup;
use crate::stage::run;

/// Configurations by the directory that they are in, each with its other files. The wrong half of what can be written; what
/// is usual and wrong stands beside what judges it.
const WRONG: &[(&str, &[(&str, &str)])] = &[
    (
        "doors",
        &[(
            "toolgate.yaml",
            r#"mode: enforce
listen: 0.0.0.0:7777
session_header: "a b"
servers:
  one: { command: x, headers: { A: b }, env: { "A=B": c } }
  two: { url: "https://a.example/mcp", args: [x], headers: { "a b": c, C: "d\te" } }
  three: { url: "http://a.example/mcp" }
  four: { command: "${1X}" }
secrets:
  s: { env: "A=B", for: [ { server: one, tool: t, pointer: /p } ] }
policies: []
"#,
        )],
    ),
    (
        "callers",
        &[
            (
                "toolgate.yaml",
                r#"mode: enforce
session_header: cookie
servers: { fs: { command: x }, off: { command: x, disabled: true } }
callers:
  - { agent: a, front_end: f }
  - { agent: a, front_end: f }
  - { agent: b, token: "", profile: p, environment: e }
front_ends: [ { name: f, token: 0123456789abcdef0123456789abcdef, header: "x y" } ]
policies: [p.yaml]
pins: pins.yaml
"#,
            ),
            ("pins.yaml", "pins: { gone: {} }\n"),
            (
                "p.yaml",
                r#"groups: { "g*": [fs__a] }
layers:
  profile: { p: { allow: [off__x], unavailable_only_allowlist: strip } }
  environment: { e: { allow: [off__x] } }
repetition: { stop: 3, warn: 3 }
contracts:
  fs__a: { purpose: p, actions: [read], secrets: [] }
  off__x: { purpose: p, actions: [read], secrets: [] }
"#,
            ),
        ],
    ),
    (
        "contracts",
        &[
            ("toolgate.yaml", "mode: enforce\nservers: { fs: { command: x } }\npolicies: [p.yaml]\n"),
            (
                "p.yaml",
                r#"contracts:
  fs__a:
    purpose: p
    actions: [write]
    side_effect: { writes: w, rollback: { tool: fs__b, arguments: { id: "word#/id" } } }
    secrets: []
    permission: { roles: [""], resource: { pointer: /r, allow: [] } }
    arguments: { properties: { a: { frobnicate: 1 } } }
    idempotency: { require: true, derive: arguments, window: 5m, upstream: { header: "a b", window: 2m, margin: 2m } }
    rules: [ { code: Bad, when: "true" }, { code: cancelled, when: "true" } ]
    results: { redact: [ {}, { pattern: "a*" }, { pattern: "(" } ] }
    providers_allowed: ["open*"]
  fs__b:
    purpose: p
    actions: [write]
    irreversible: true
    secrets: []
    permission: { resource: { pointer: /r, allow: ["{x}", ""] } }
    idempotency: { derive: word, upstream: { meta: progressToken } }
    rewrite: [ { name: deep, set: { /a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z/a/b/c/d/e/f/g/h/i: 1 } } ]
  fs__c:
    purpose: p
    actions: [write]
    irreversible: true
    secrets: []
    idempotency: { derive: [], upstream: { header: host } }
  fs__d:
    purpose: p
    actions: [write]
    irreversible: true
    secrets: []
    idempotency: { derive: arguments, window: 1s }
    variants: { by: /do, cases: { "": { actions: [write], irreversible: true } } }
  fs__q*: { purpose: p, actions: [read], secrets: [] }
  "fs__*q": { purpose: p, actions: [read], secrets: [] }
"#,
            ),
        ],
    ),
];

/// Issue 4 "snapshots of every diagnostic", 003-114: all problems of all files in one run, each with its place and what to do.
#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once() {
    let setup = Setup::new();
    for (name, files) in WRONG {
        let directory = setup.directory().join(name);
        std::fs::create_dir(&directory).unwrap();
        for (file, words) in *files {
            std::fs::write(directory.join(file), words).unwrap();
        }
    }
    let all: Vec<&str> = ["check"].into_iter().chain(WRONG.iter().map(|(name, _)| *name)).collect();
    let (code, out, err) = run(&setup, &all).await;
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    insta::assert_snapshot!("everything_that_is_wrong", out);

    let long = format!("arguments.a > {}", "1 + ".repeat(1_100) + "1");
    let contract = format!(
        "contracts: {{ fs__a: {{ purpose: p, actions: [read], secrets: [], rules: [ {{ code: c, when: \"{long}\" }} ] }} }}\n"
    );
    std::fs::write(setup.directory().join("contracts/p.yaml"), contract).unwrap();
    let (code, out, _) = run(&setup, &["check", "contracts"]).await;
    assert!(code == 1 && out.contains("an expression longer than 4096 bytes"), "{out}");
}
