//! Configurations and policies in which much is wrong: what `check` says of each, and where.

use crate::harness::gate::run;
use crate::harness::setup::Setup;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Configurations by the directory that they are in, each with its other files. The wrong half of
/// what can be written; what is usual and wrong stands beside what judges it.
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
  three: { url: "http://a.example/mcp", share: all }
  four: { command: "${1X}" }
  five: { url: "https://a.example/mcp", not_executed: [401, 200, -32000, 503, 408], ping_after: 2h }
  six: { command: x, not_executed: [401] }
  seven: { command: x, sandbox: { rlimits: { as: 0 } } }
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
  - { agent: served, token: "0123456789abcdef-served-1", users: one, needs_user: true, user_limits: { calls: 1, per: 1m } }
  - { agent: served, token: "0123456789abcdef-served-2", needs_user: true, user_limits: { calls: 2, per: 1m } }
  - { agent: b, token: "", profile: p, environment: e }
front_ends: [ { name: f, token: 0123456789abcdef0123456789abcdef, header: "x y", user_header: authorization } ]
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
            (
                "toolgate.yaml",
                "mode: enforce\nservers: { fs: { command: x } }\npolicies: [p.yaml]\n",
            ),
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
    side_effect: { writes: w, rollback: { tool: fs__a } }
    secrets: []
    permission: { resource: { pointer: /r, allow: ["{x}", ""] } }
    idempotency: { derive: word, upstream: { meta: progressToken } }
    rewrite: [ { name: deep, set: { /a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z/a/b/c/d/e/f/g/h/i: 1 } } ]
  fs__c:
    purpose: p
    actions: [write]
    permission: anyone
    side_effect: { writes: w, rollback: { tool: fs__a } }
    secrets: []
    idempotency: { derive: [], upstream: { header: host } }
  fs__d:
    purpose: p
    actions: [write]
    permission: anyone
    side_effect: { writes: w, rollback: { tool: fs__a } }
    secrets: []
    idempotency: { derive: arguments, window: 1s }
    variants: { by: /do, cases: { "": { actions: [write] } } }
  fs__q*: { purpose: p, actions: [read], secrets: [] }
  "fs__*q": { purpose: p, actions: [read], secrets: [] }
"#,
            ),
        ],
    ),
];

/// Issue 4 "snapshots of every diagnostic", 003-114: all problems of all files in one run, each
/// with its place and what to do.
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
    let all: Vec<&str> = ["check"]
        .into_iter()
        .chain(WRONG.iter().map(|(name, _)| *name))
        .collect();
    let (code, out, err) = run(&setup, &all).await;
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    insta::assert_snapshot!("everything_that_is_wrong", out);
}

/// More of it, file by file, under `wrong`.
#[tokio::test]
async fn what_else_is_wrong_is_said_at_once() {
    let setup = Setup::new();
    let wrong = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/diagnostics");
    let mut names: Vec<String> = std::fs::read_dir(&wrong)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    for name in &names {
        std::fs::create_dir(setup.directory().join(name)).unwrap();
        for file in std::fs::read_dir(wrong.join(name)).unwrap() {
            let file = file.unwrap();
            let text = std::fs::read_to_string(file.path()).unwrap();
            std::fs::write(setup.directory().join(name).join(file.file_name()), text).unwrap();
        }
    }
    let all: Vec<&str> = ["check"]
        .into_iter()
        .chain(names.iter().map(String::as_str))
        .collect();
    let (code, out, err) = run(&setup, &all).await;
    assert_eq!((code, err.as_str()), (1, ""), "{out}");
    insta::assert_snapshot!("what_else_is_wrong", out);
}

/// So many lines of YAML, each with its number for `#`.
fn many(count: usize, line: &str) -> String {
    (0..count)
        .map(|n| line.replace('#', &n.to_string()) + "\n")
        .collect()
}

/// A contract of `fs__a` that only reads, with a section more.
fn reading(section: &str) -> String {
    format!("contracts:\n  fs__a: {{ purpose: p, actions: [read], secrets: [], {section} }}\n")
}

/// What is too long, too deep, or too much of it.
fn beyond() -> Vec<(&'static str, String, String)> {
    let (configs, contracts) = (configs_beyond(), contracts_beyond());
    let configs = configs.map(|(what, config)| (what, config, reading("")));
    let contracts = contracts.map(|(what, policy)| (what, config(""), policy));
    configs.into_iter().chain(contracts).collect()
}

fn config(more: &str) -> String {
    format!(
        "servers: {{ fs: {{ command: x }} }}\ncallers: [ {{ agent: bot, token: token-of-the-agent }} ]\npolicies: [p.yaml]\n{more}"
    )
}

/// Configurations, each before a good policy.
fn configs_beyond() -> [(&'static str, String); 7] {
    let place = "{ server: fs, tool: a, pointer: /t# }";
    let secrets = |secrets: &str| config(&format!("secrets:\n{secrets}"));
    let secret = format!("  s#: {{ env: A, for: [ {place} ] }}");
    let hook = "  - { name: h#, on: after, tools: [fs__a], url: \"http://127.0.0.1:1/\", secret: whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= }";
    let receivers = |each: &str| config(&format!("notify:\n  receivers:\n{each}"));
    let receiver = "    - { name: r#, url: \"https://a.example/\" }";
    let headers = many(17, "X-A#: b,").replace('\n', " ");
    let headed =
        format!("    - {{ name: r, url: \"https://a.example/\", headers: {{ {headers} }} }}\n");
    let servers = many(65, "  s#: { command: x }").replace('\n', ", ");
    let servers = format!("{servers}  fs: {{");
    let places = many(65, &format!("    {place},"));
    let lost = many(65, "{ lost: 00112233aabbccdd },").replace('\n', " ");
    let keys = format!("ledger: {{ seal: {{ previous: [ {lost} ] }} }}\n");
    [
        ("servers", config("").replace("fs: {", &servers)),
        ("secrets", secrets(&many(65, &secret))),
        (
            "places",
            secrets(&format!("  s: {{ env: A, for: [\n{places} ] }}\n")),
        ),
        ("keys", config(&keys)),
        ("hooks", config(&format!("hooks:\n{}", many(17, hook)))),
        ("receivers", receivers(&many(17, receiver))),
        ("receiver headers", receivers(&headed)),
    ]
}

/// Policies, each behind a good configuration.
fn contracts_beyond() -> [(&'static str, String); 10] {
    let (long, good) = (|count| "x".repeat(count), reading(""));
    let errors = many(65, "    { says: x#, means: unknown },");
    let pointers = many(65, "/a#,").replace('\n', " ");
    let (sum, pattern, with) = ("1 + ".repeat(1_100), long(513), long(257));
    let told = many(9, "/a#,").replace('\n', " ");
    let values = many(257, "#,").replace('\n', " ");
    let line = "# a comment that makes the file as long as none may be, line by line";
    [
        (
            "errors",
            reading(&format!("output: {{ errors: [\n{errors} ] }}")),
        ),
        (
            "pointers",
            reading(&format!("rewrite: [ {{ name: s, remove: [{pointers}] }} ]")),
        ),
        (
            "told",
            reading(&format!("approval: {{ ask: always, notify: [{told}] }}")),
        ),
        (
            "near",
            reading("idempotency: { near: { by: [], within: 1h } }"),
        ),
        ("not_for", reading(&format!("not_for: {}", long(201)))),
        (
            "expression",
            reading(&format!(
                "rules: [ {{ code: c, when: \"arguments.a > {sum}1\" }} ]"
            )),
        ),
        (
            "pattern",
            format!(
                "{good}layers: {{ global: {{ deny: [fs__{}] }} }}\n",
                long(253)
            ),
        ),
        (
            "redaction",
            reading(&format!(
                "results: {{ redact: [ {{ pattern: {pattern}, with: {with} }} ] }}"
            )),
        ),
        (
            "values",
            format!(
                "contracts:\n  fs__a:\n    purpose: p\n    actions: [write]\n    permission: anyone\n    secrets: []\n    side_effect: {{ writes: w, rollback: {{ tool: fs__b, arguments: {{ l: [ {values} ] }} }} }}\n  fs__b: {{ purpose: p, actions: [write], permission: anyone, side_effect: {{ writes: w, rollback: {{ tool: fs__a }} }}, secrets: [] }}\n"
            ),
        ),
        ("large", format!("{good}{}", many(20_000, line))),
    ]
}

/// Every bound says what it is, and a long line is cut around the place.
#[tokio::test]
async fn what_is_too_much_is_said() {
    let setup = Setup::new();
    let mut said = String::new();
    for (name, config, policy) in beyond() {
        let directory = setup.directory().join(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("toolgate.yaml"), config).unwrap();
        std::fs::write(directory.join("p.yaml"), policy).unwrap();
    }
    let files = setup.directory().join("files");
    std::fs::create_dir_all(files.join("p/1/2/3/4/5/6/7/8")).unwrap();
    std::fs::create_dir_all(files.join("empty")).unwrap();
    for n in 0..257 {
        std::fs::write(files.join(format!("p/{n:03}.yaml")), "layers: {}\n").unwrap();
    }
    let config = "servers: { fs: { command: x } }\ncallers: [ { agent: bot, token: token-of-the-agent } ]\npolicies: [p, empty]\n";
    std::fs::write(files.join("toolgate.yaml"), config).unwrap();
    let two = setup.directory().join("two");
    std::fs::create_dir(&two).unwrap();
    let breakers = many(40, "  - { tools: [fs__a], refused: # }");
    let both = self::config("").replace("[p.yaml]", "[p.yaml, q.yaml]");
    std::fs::write(two.join("toolgate.yaml"), both).unwrap();
    std::fs::write(two.join("p.yaml"), reading("") + "breakers:\n" + &breakers).unwrap();
    std::fs::write(two.join("q.yaml"), format!("breakers:\n{breakers}")).unwrap();
    let apart = ["files", "two"];
    for name in beyond().iter().map(|(name, ..)| *name).chain(apart) {
        let (code, out, err) = run(&setup, &["check", name]).await;
        assert_eq!((code, err.as_str()), (1, ""), "{out}");
        assert!(out.lines().all(|line| line.chars().count() < 200), "{out}");
        let errors = out
            .split("\n\n")
            .filter(|block| block.starts_with("error") || block.contains("holds no"));
        errors.for_each(|block| writeln!(said, "{block}\n").unwrap());
    }
    insta::assert_snapshot!("what_is_too_much", said);
}

/// Where what authors of policies read is written.
const SOURCES: [&str; 4] = ["src/policy", "src/config", "src/guards", "src/expression"];
/// Texts that are no diagnostics, or that a scenario cannot bring about.
const EXCEPT: [&str; 2] = [
    "its contract allows {most} bytes",
    "cannot be read: {error}",
];

fn below(directory: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, ending, found);
        } else if path.extension().is_some_and(|own| own == ending) {
            found.push(path);
        }
    }
}

/// Are all parts in the line, one behind the other?
fn holds(line: &str, parts: &[&str]) -> bool {
    let behind =
        |from: usize, part: &&str| line[from..].find(part).map(|at| from + at + part.len());
    parts.iter().try_fold(0, behind).is_some()
}

/// Issue 4 "snapshots of every diagnostic": each text that is written where files are judged stands
/// in a snapshot.
#[test]
fn every_diagnostic_is_under_a_snapshot() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut sources, mut snapshots) = (Vec::new(), Vec::new());
    for directory in SOURCES {
        below(&root.join(directory), "rs", &mut sources);
        sources.push(root.join(format!("{directory}.rs")));
    }
    below(&root.join("src"), "snap", &mut snapshots);
    below(&root.join("tests"), "snap", &mut snapshots);
    let shown: String = snapshots
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let shown = shown.replace("\\\"", "\"");
    let begins = r"(?:\.(?:error|warning)\(|let message\s*=|message:|flaw\(|whole\(|note\(|Severity::\w+,|Some\(\()";
    let texts = regex::Regex::new(&format!(
        r#"{begins}\s*&?(?:format!\(\s*)?"((?:[^"\\]|\\(?s:.))+)""#
    ))
    .unwrap();
    let (folded, place) = (
        regex::Regex::new(r"\\\n\s*").unwrap(),
        regex::Regex::new(r"\{[^{}]*\}").unwrap(),
    );
    let (mut count, mut missing) = (0, Vec::new());
    let within = |path: &Path| {
        path.strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    for path in sources
        .iter()
        .filter(|path| !within(path).contains("tests"))
    {
        let source = std::fs::read_to_string(path).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap();
        for text in texts
            .captures_iter(source)
            .map(|found| folded.replace_all(&found[1], "").replace("\\\"", "\""))
        {
            count += 1;
            let parts: Vec<&str> = place.split(&text).collect();
            let is_shown = shown.lines().any(|line| holds(line, &parts));
            if !is_shown && !EXCEPT.contains(&text.as_str()) {
                missing.push(format!("{}: {text}", within(path)));
            }
        }
    }
    assert!(count > 230, "the texts are found: {count}");
    assert_eq!(missing, [""; 0], "no snapshot shows these");
}
