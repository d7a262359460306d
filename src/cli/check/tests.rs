//! Scenarios of what `check` prints.

use super::Report;
use std::fs;
use std::path::{Path, PathBuf};

mod planted;

/// What is printed, and the exit code.
fn judge(paths: &[PathBuf]) -> anyhow::Result<(String, u8)> {
    let report: Report = super::judge(paths, false, None)?;
    Ok((report.text(), report.code()))
}

const CONFIG: &str = r#"servers: { fs: { command: x, env: { KEY: "s3cr3t" }, colour: red } }
callers: [{ agent: bot, token: "${TOOLGATE_TEST_NOT_SET}" }]
policies: [p.yaml]
"#;

#[test]
fn problems_are_shown_with_their_line_but_never_with_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("toolgate.yaml"), CONFIG).unwrap();
    fs::write(
        directory.path().join("p.yaml"),
        "contracts:\n  fs__a: { purpose: p, actions: [read] }\n",
    )
    .unwrap();
    for path in [
        directory.path().to_path_buf(),
        directory.path().join("p.yaml"),
    ] {
        let (text, code) = judge(&[path]).unwrap();
        assert_eq!(code, 1);
        assert!(!text.contains("s3cr3t"));
        insta::assert_snapshot!(
            "broken",
            text.replace(&format!("{}/", directory.path().display()), "")
        );
    }
}

#[test]
fn no_configuration_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let error = judge(&[directory.path().to_path_buf()]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no toolgate.yaml in or above"),
        "{error}"
    );
}

#[test]
fn the_quickstart_is_fine() {
    let quickstart = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let (text, code) = judge(&[quickstart]).unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("5 contracts, policy "), "{text}");
}

#[test]
fn several_servers_are_told_what_their_common_address_offers() {
    let directory = tempfile::tempdir().unwrap();
    let config =
        "servers: { one: { command: x }, two: { url: 'http://127.0.0.1:1/mcp' } }\nmode: observe\n";
    fs::write(directory.path().join("toolgate.yaml"), config).unwrap();
    let (text, code) = judge(&[directory.path().to_path_buf()]).unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("note: /mcp offers every revision, whatever its 2 servers speak"),
        "{text}"
    );
}

/// threat-model §13 F1: what the operator's word for a server means is said, and what is risked by
/// it.
#[test]
fn statuses_that_the_operator_vouches_for_are_explained() {
    let directory = tempfile::tempdir().unwrap();
    let config = "servers:
  one: { url: 'http://127.0.0.1:1/mcp', not_executed: [401, 429] }
  two: { url: 'http://127.0.0.1:1/mcp', not_executed: [503], ping_after: 1m }
  gone: { url: 'http://127.0.0.1:1/mcp', not_executed: [401], disabled: true }
mode: observe
";
    fs::write(directory.path().join("toolgate.yaml"), config).unwrap();
    let (text, code) = judge(&[directory.path().to_path_buf()]).unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("note: a call that `one` answers with HTTP 401 or 429 counts as not executed and may be sent")
    );
    assert!(
        text.contains("`two` answers with HTTP 503 ") && !text.contains("`gone`"),
        "{text}"
    );
    assert!(text.contains("warning: HTTP 503 is seldom proof"), "{text}");
    assert!(text.ends_with("0 errors, 1 warning\n"), "{text}");
}

/// 003-114, 003-116: contracts that no sample tests are named, and rules that no call decides.
#[test]
fn what_nobody_tests_and_nothing_reaches_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let contract =
        |tool: &str| format!("  s__{tool}: {{ purpose: p, actions: [read], secrets: [] }}\n");
    let rules = "  s__pay:
    purpose: p
    actions: [read]
    arguments: { properties: { amount: { type: integer, maximum: 100 } } }
    rules:
      - { code: too_much, when: arguments.amount > 100 }
      - { code: nobody, when: '!caller.owner || caller.owner || true' }
      - { code: too_little, when: arguments.amount < 1 }
    secrets: []
";
    write(
        "toolgate.yaml",
        "servers: { s: { command: x } }\ncallers: [{ agent: bot, token: 0123456789abcdef }]\npolicies: [p]\n",
    );
    fs::create_dir_all(directory.path().join("p/tests")).unwrap();
    write(
        "p/p.yaml",
        &format!(
            "contracts:\n{rules}{}{}",
            contract("read"),
            contract("list")
        ),
    );
    let sample = "{ name: a, caller: bot, tool: s__list, expect: allow }";
    write(
        "p/tests/pack.yaml",
        &format!("pack: one\nsamples: [{sample}]\n"),
    );
    let (text, code) = judge(&[directory.path().to_path_buf()]).unwrap();
    let version = regex::Regex::new("policy [0-9a-f]{12}").unwrap();
    assert_eq!(code, 0, "{text}");
    insta::assert_snapshot!(
        "warned",
        version.replace(
            &text.replace(&format!("{}/", directory.path().display()), ""),
            "policy VERSION"
        )
    );
    write("p/tests/pack.yaml", "pack: one\nsamples: []\n");
    let (text, code) = judge(&[directory.path().to_path_buf()]).unwrap();
    assert!(code == 1 && text.contains("samples: []"), "{text}");
}

/// threat-model §3E E4: a secret is warned of wherever the configuration has one, also beside a
/// variable, and a variable is not.
#[test]
fn secrets_that_are_written_out_are_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let write = |text: &str| {
        let text = format!("{text}mode: observe\n");
        fs::write(directory.path().join("toolgate.yaml"), text).unwrap();
    };
    let key = "c2VjcmV0LW9mLXRoZS13ZWJob29rLTAxMjM0NTY3ODk=";
    let mut shown = String::new();
    for (text, warned) in [
        (header("Authorization", "Bearer abc-0123456789"), true),
        (header("x-api-key", "abc-0123456789"), true),
        (
            header("x-api-key", "abc-0123456789${TOOLGATE_NOT_SET:-}"),
            true,
        ),
        (
            header(
                "Authorization",
                "Bearer ${TOOLGATE_NOT_SET:-no-secret-at-all}",
            ),
            false,
        ),
        (header("X-Client", "abc-0123456789"), false),
        (env("ORACLE_TOKEN", "abc-0123456789"), true),
        (env("TOKEN_FILE", "/run/secrets/oracle"), false),
        (env("ORACLE_LEVEL", "abc-0123456789"), false),
        (caller("abc${TOOLGATE_NOT_SET:-0123456789abcdef}"), true),
        (caller("${TOOLGATE_NOT_SET:-0123456789abcdef}"), false),
        (webhook(&format!("whsec_{key}")), true),
        (
            webhook(&format!("whsec_${{TOOLGATE_NOT_SET:-{key}}}")),
            false,
        ),
    ] {
        write(&text);
        let told = warning_of_a_secret(directory.path());
        assert_eq!(told.is_some(), warned, "{text}");
        let told = told.unwrap_or_default();
        assert!(
            !told.contains(key) && !told.contains("0123456789"),
            "{told}"
        );
        shown += &told;
        shown += if warned { "\n\n" } else { "" };
    }
    insta::assert_snapshot!(
        "written_out",
        shown.replace(&format!("{}/", directory.path().display()), "")
    );
}

/// 017: what a pull request can hold neither takes long to judge nor fills a screen: the first problems
/// are shown, and that there are more.
#[test]
fn a_file_of_mistakes_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write(
        "toolgate.yaml",
        "servers: { s: { command: x } }\ncallers: [{ agent: bot, token: 0123456789abcdef }]\npolicies: [p.yaml]\n",
    );
    let entries = |entry: &dyn Fn(usize) -> String| -> String { (0..4_000).map(entry).collect() };
    for (what, policy) in [
        (
            "empty contracts",
            entries(&|number| format!("  s__t{number}: {{}}\n")),
        ),
        (
            "contracts without a value",
            entries(&|number| format!("  s__t{number}:\n")),
        ),
        ("unknown keys", {
            let keys = entries(&|number| format!("    key{number}: x\n"));
            format!("  s__t:\n{keys}")
        }),
        ("contracts of no server", {
            let contract = "purpose: p, actions: [read], secrets: []";
            entries(&|number| format!("  t__t{number}: {{ {contract} }}\n"))
        }),
    ] {
        write("p.yaml", &format!("contracts:\n{policy}"));
        let report = super::judge(&[directory.path().to_path_buf()], false, None).unwrap();
        let text = report.text();
        assert_eq!(report.code(), 1, "{what}");
        assert!(text.len() < 300_000, "{what}: {} bytes", text.len());
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("at least 1001 errors, "), "{what}: {last}");
        assert!(text.contains("more problems not shown"), "{what}");
        assert!(
            text.contains("there are more errors than the 1000"),
            "{what}"
        );
        let read: serde_json::Value = serde_json::from_str(&super::machine::json(&report)).unwrap();
        let shown = read["diagnostics"].as_array().unwrap();
        let of_policy = shown
            .iter()
            .filter(|one| one["file"].as_str().unwrap().ends_with("p.yaml"));
        assert_eq!(of_policy.count(), super::SHOWN_PER_FILE, "{what}");
        let file = directory.path().join("p.yaml").display().to_string();
        assert!(read["not_shown"][file].as_u64().unwrap() >= 801, "{what}");
    }
}

/// 017: aliases stand for no more than a file could hold.
#[test]
fn aliases_of_aliases_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    write(
        "toolgate.yaml",
        "servers: { s: { command: x } }\nmode: observe\npolicies: [p.yaml]\n",
    );
    let mut bomb = vec![format!("l0: &l0 [{}]\n", ["x"; 10].join(", "))];
    for level in 1..5 {
        let below = format!("*l{}", level - 1);
        let all = vec![below; 10].join(", ");
        bomb.push(format!("l{level}: &l{level} [{all}]\n"));
    }
    write("p.yaml", &bomb.concat());
    let (text, code) = judge(&[directory.path().to_path_buf()]).unwrap();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("alias replay limit exceeded"), "{text}");
}

/// A configuration with this header for a tool server.
fn header(name: &str, value: &str) -> String {
    let url = "url: \"https://tools.example/mcp\"";
    format!("servers: {{ s: {{ {url}, headers: {{ {name}: \"{value}\" }} }} }}\n")
}

/// A configuration with this variable for a tool server that is a child process.
fn env(name: &str, value: &str) -> String {
    format!("servers: {{ s: {{ command: x, env: {{ {name}: \"{value}\" }} }} }}\n")
}

/// A configuration with this token of a caller.
fn caller(token: &str) -> String {
    format!("servers: {{ s: {{ command: x }} }}\ncallers: [{{ agent: bot, token: \"{token}\" }}]\n")
}

/// A configuration whose heads of the ledger are sent with this secret.
fn webhook(secret: &str) -> String {
    let address = "https://heads.example/";
    format!(
        "servers: {{ s: {{ command: x }} }}\nledger: {{ heads: {{ webhook: {{ url: \"{address}\", secret: \"{secret}\" }} }} }}\n"
    )
}

/// The first warning of a secret that is written out.
fn warning_of_a_secret(directory: &Path) -> Option<String> {
    let (said, code) = judge(&[directory.to_path_buf()]).unwrap();
    assert_eq!(code, 0, "{said}");
    let begin = said
        .find("warning: a secret is written out")
        .or(said.find("warning: a token is written out"))?;
    said[begin..].split("\n\n").next().map(str::to_owned)
}
