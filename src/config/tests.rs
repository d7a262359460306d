//! The configuration as people write it, well and badly.

use super::*;
use std::fs;

mod credentials;
mod doors;
mod issuers;
mod ledger;

fn write(directory: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        chmod(&path, 0o644);
    }
}

fn variables(name: &str) -> Option<String> {
    match name {
        "BOT_TOKEN" => Some("0123456789abcdef0123456789abcdef".to_owned()),
        "SPEC\"IAL" | "EMPTY" => Some(String::new()),
        "QUOTES" => Some("a\", b: \"c".to_owned()),
        _ => None,
    }
}

fn load_text(text: &str) -> (Loaded, String) {
    let directory = tempfile::tempdir().unwrap();
    let policy = "contracts: { s__t: { purpose: p, actions: [read], secrets: [] } }\n";
    write(
        directory.path(),
        &[(FILE_NAME, text), ("policy.yaml", policy)],
    );
    let loaded = load_with(&directory.path().join(FILE_NAME), &variables);
    let shown = loaded
        .reading
        .diagnostics
        .iter()
        .fold(String::new(), |text, diagnostic| {
            text + &format!("{diagnostic}\n")
        });
    let shown = shown.replace(&format!("{}/", directory.path().display()), "");
    (loaded, shown)
}

const BROKEN_CONFIG: &str = r#"
listen: localhost:7777
admin:
  listen: 0.0.0.0:7778
  tokns: []
mode: enforced
data: postgres://db/toolgate
servers:
  billing: { command: billing-server, args: [], env: { KEY: "${NOT_SET}", OTHER: "${EMPTY}" }, timeout: 1h }
  search:  { url: "https://ann:hunter2@example.com/mcp", headers: { Authorization: "Bearer s3cr3t-value" } }
  both:    { command: a, url: "http://example.com/mcp" }
  none:    {}
  my__db:  { command: db, comand: x, start_timeout: soon }
  args:    { command: db, args: yes please }
callers:
  - { agent: support-bot, token: "${BOT_TOKEN}", tenant: t_001, roles: [billing_admin] }
  - { agent: other-bot, token: "${BOT_TOKEN}" }
  - { agent: " ", token: short }
  - { agent: lost }
  - { agent: spoken, front_end: gatewy }
front_ends:
  - { name: gateway, token: "${UNCLOSED", header: "x agent" }
policies: [policies]
allowed_hosts: ["https://toolgate.example"]
allowed_origins: ["https://toolgate.example/"]
methods: { deny: ["resources/*"], allow: }
polices: []
"#;

#[test]
fn every_problem_of_a_broken_configuration_is_named_at_once() {
    let (loaded, shown) = load_text(BROKEN_CONFIG);
    assert!(loaded.config.is_none() && loaded.reading.policy.is_none());
    for secret in ["hunter2", "s3cr3t", "0123456789abcdef"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn yaml_that_cannot_be_read_is_one_problem_with_a_place() {
    let cases = [
        "listen: a\nlisten: b\n",
        "callers: [{ agent: a, token: ${BOT_TOKEN} }]\n",
        "servers: [\n",
        "- a list\n",
        "a: &a [x]\nlisten: *b\n",
        "listen: a\n---\nlisten: b\n",
    ];
    let shown: String = cases.iter().map(|text| load_text(text).1 + "\n").collect();
    insta::assert_snapshot!(shown);
}

#[test]
fn a_value_cannot_break_out_of_its_place() {
    let text = "servers: { s: { command: y, args: [no, on, yes, \"${QUOTES}\", \"$${HOME}\", \"${NONE:-d}\", '${EMPTY:-e}'], \
                env: { A: \"${EMPTY}\", B: \"${QUOTES}\" } } }\nmode: observe\n";
    let (loaded, shown) = load_text(text);
    let config = loaded.config.unwrap_or_else(|| panic!("{shown}"));
    let TransportConfig::Child { args, env, .. } = &config.servers[&ServerName::new("s")].transport
    else {
        panic!()
    };
    assert_eq!(
        args,
        &["no", "on", "yes", "a\", b: \"c", "${HOME}", "d", "e"]
    );
    assert_eq!(
        env.keys().collect::<Vec<_>>(),
        ["B"],
        "an empty variable is not set for the child"
    );
    assert!(
        !format!("{config:?}").contains("a\\\", b: \\\"c\" }"),
        "{config:?}"
    );
}

#[test]
fn who_may_connect_follows_from_the_address_and_the_callers() {
    let server = "servers: { s: { url: 'http://127.0.0.1:1/mcp' } }\npolicies: [policy.yaml]\n";
    let cases = [
        (
            "listen: 127.0.0.1:1\n",
            true,
            "every program on this machine is the agent `anonymous`",
        ),
        ("listen: '[::1]:1'\nmode: observe\n", true, ""),
        (
            "listen: 0.0.0.0:1\n",
            false,
            "other machines can reach this address",
        ),
        (
            "admin: { tokens: [{ name: ann, token: '${BOT_TOKEN}' }] }\ncallers: [{ agent: a, token: '${BOT_TOKEN}' }]\n",
            false,
            "an agent or another operator has the same token",
        ),
        (
            "listen: 0.0.0.0:1\ncallers: []\n",
            false,
            "other machines can reach this address",
        ),
        (
            "listen: 0.0.0.0:1\ncallers: [{ agent: a, token: '${BOT_TOKEN}' }]\n",
            false,
            "toolgate speaks no TLS there",
        ),
        (
            "listen: 0.0.0.0:1\nunencrypted: true\ncallers: [{ agent: a, token: '${BOT_TOKEN}' }]\n",
            true,
            "",
        ),
    ];
    for (text, loads, says) in cases {
        let (loaded, shown) = load_text(&format!("{server}{text}"));
        assert_eq!(loaded.config.is_some(), loads, "{text}{shown}");
        assert!(shown.contains(says), "{text}{shown}");
    }
}

#[test]
fn relative_paths_start_at_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let text = "data: d\nservers: { s: { command: x, cwd: sub } }\npolicies: [one.yaml, more]\n";
    let contract = |tool| {
        format!("contracts: {{ s__{tool}: {{ purpose: p, actions: [read], secrets: [] }} }}\n")
    };
    let (one, two, three) = (contract("one"), contract("two"), contract("three"));
    let pack = "cases: []\n";
    write(
        directory.path(),
        &[
            (FILE_NAME, text),
            ("one.yaml", &one),
            ("more/two.yml", &two),
            ("more/below/three.yaml", &three),
            ("more/tests/pack.yaml", pack),
            ("more/.hidden.yaml", pack),
            ("more/notes.txt", pack),
        ],
    );
    let Loaded {
        config, reading, ..
    } = load_with(&directory.path().join(FILE_NAME), &variables);
    let config = config.unwrap_or_else(|| panic!("{:?}", reading.diagnostics));
    assert_eq!(config.data, directory.path().join("d"));
    let mut tools: Vec<String> = reading
        .policy
        .unwrap()
        .allowlist
        .contracts()
        .map(std::string::ToString::to_string)
        .collect();
    tools.sort();
    assert_eq!(tools, ["s__one", "s__three", "s__two"]);
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let big = format!("# {}\n", "x".repeat(1 << 20));
    write(directory.path(), &[("big.yaml", &big), ("latin.yaml", "")]);
    fs::write(directory.path().join("latin.yaml"), b"a: \xe9\n").unwrap();
    for (name, says) in [
        ("absent.yaml", "cannot be read: No such file"),
        ("", "is not a file"),
        ("big.yaml", "is larger than 1048576 bytes"),
        ("latin.yaml", "is not UTF-8"),
    ] {
        let loaded = load_with(&directory.path().join(name), &variables);
        let shown = loaded.reading.diagnostics[0].to_string();
        assert!(shown.contains(says), "{shown}");
    }
}

#[test]
fn s9_files_that_others_may_write_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    write(
        directory.path(),
        &[
            (
                FILE_NAME,
                "servers: { s: { command: x } }\npolicies: [policies]\n",
            ),
            (
                "policies/a.yaml",
                "contracts: { s__t: { purpose: p, actions: [read], secrets: [] } }\n",
            ),
        ],
    );
    let path = directory.path().join(FILE_NAME);
    for file in [FILE_NAME, "policies/a.yaml"] {
        let file = directory.path().join(file);
        let mut fingerprints = Vec::new();
        for (mode, hint) in [
            (0o644, ""),
            (0o666, "chmod go-w"),
            (0o664, "chmod g-w"),
            (0o602, "chmod o-w"),
            (0o400, ""),
        ] {
            chmod(&file, mode);
            let Loaded {
                config, reading, ..
            } = load_with(&path, &variables);
            let good = hint.is_empty();
            assert_eq!(
                (config.is_some(), reading.policy.is_some()),
                (good, good),
                "{mode:o}"
            );
            let errors = reading
                .diagnostics
                .iter()
                .filter(|found| found.severity == Severity::Error);
            let said: Vec<_> = errors.map(ToString::to_string).collect();
            let told = said.iter().all(|said| {
                said.contains("others than its owner may write this file")
                    && said.contains(&format!("{hint} {}", file.display()))
            });
            assert!(
                told && said.len() == usize::from(!good),
                "{mode:o}: {said:?}"
            );
            fingerprints.push(reading.fingerprint);
        }
        let [at_first, open, .., at_last] = fingerprints[..] else {
            panic!()
        };
        assert!(
            at_first == at_last && at_first != open,
            "a reload sees what others may do"
        );
        chmod(&file, 0o644);
    }
}

fn chmod(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Copies `from` with rights of our own: those of a checkout are the developer's.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (
            entry.as_ref().unwrap().path(),
            to.join(entry.unwrap().file_name()),
        );
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
            chmod(&to, 0o644);
        }
    }
}

#[test]
fn what_only_a_restart_applies_is_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    write(
        directory.path(),
        &[(
            FILE_NAME,
            "listen: 127.0.0.1:1\nmode: observe\nservers: { s: { command: x } }\n",
        )],
    );
    let running = load(&path).config.unwrap();
    let read = reader(path, &running);
    let before = read();
    assert!(
        !before
            .diagnostics
            .iter()
            .any(|found| found.message.contains("has changed"))
    );
    write(
        directory.path(),
        &[(
            FILE_NAME,
            "listen: 127.0.0.1:2\nmode: observe\nservers: { s: { command: y } }\n",
        )],
    );
    let after = read();
    let said: Vec<_> = after
        .diagnostics
        .iter()
        .filter(|found| found.message.contains("has changed"))
        .collect();
    assert_eq!(
        said.iter()
            .map(|found| found.message.as_str())
            .collect::<Vec<_>>(),
        ["`listen` has changed", "`servers` has changed"]
    );
    assert!(after.policy.is_some() && after.fingerprint != before.fingerprint);
}

#[test]
fn the_examples_compile_without_a_problem() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut seen = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let example = entry.unwrap().path();
        if !example.join(FILE_NAME).is_file() {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        copy(&example, directory.path());
        let path = directory.path().join(FILE_NAME);
        let loaded = load_with(&path, &|name| {
            (name == "PATH").then(|| "/usr/bin".to_owned())
        });
        let found = &loaded.reading.diagnostics;
        assert!(
            found.is_empty() && loaded.config.is_some(),
            "{}: {found:?}",
            path.display()
        );
        seen += 1;
    }
    assert!(seen >= 1);
}

/// threat-model §3D D2: a server's name is the beginning of its tools' names, so no two may look
/// alike.
#[test]
fn servers_whose_names_look_alike_are_an_error() {
    for (one, other) in [
        ("search", "Search"),
        ("git_hub", "git-hub"),
        ("bi11ing", "billing"),
    ] {
        let text = format!(
            "servers: {{ {one}: {{ command: x }}, {other}: {{ command: x }}, else: {{ command: x }} }}\n"
        );
        let (loaded, shown) = load_text(&text);
        assert!(loaded.reading.policy.is_none(), "{shown}");
        for name in [one, other] {
            assert!(
                shown.contains(&format!("error: can be taken for the server `{name}`")),
                "{shown}"
            );
        }
    }
}

#[test]
fn pins_are_a_file_beside_the_configuration_or_more() {
    for (written, problem) in [
        ("mine.yaml", "mine.yaml: error: cannot be read"),
        (
            "{ require: false }",
            "toolgate.pins.yaml: error: cannot be read",
        ),
        (
            "{ file: a.yaml, requires: true }",
            "did you mean `require`?",
        ),
        ("\"\"", "is blank"),
        ("[a]", "expected text or a mapping"),
    ] {
        let (loaded, shown) = load_text(&format!("pins: {written}\n"));
        assert!(
            loaded.reading.policy.is_none() && shown.contains(problem),
            "{written}: {shown}"
        );
    }
}
