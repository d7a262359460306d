//! Which ledger a verb reads: the one that the configuration names, whatever else is wrong with it, the
//! one that `--data` names, or none (issue 17, "never the wrong data").

mod absent;

use crate::harness::gate::{Gate, run};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The default of `data`: where another ledger lies in these scenarios.
const DECOY_DIRECTORY: &str = "toolgate-data";

/// Verbs that only look, with what makes them say the ledger's tools.
const LOOKING: [&[&str]; 4] = [
    &["ledger", "list", "--json"],
    &["ledger", "export", "--entries"],
    &["report", "--json"],
    &["calls", "list", "--all", "--json"],
];

async fn server() -> ToolServer {
    let script = Script::new().tool("right", Behaviour::Answers);
    script.tool("wrong", Behaviour::Answers).start().await
}

fn setup(server: &ToolServer) -> Setup {
    let tools = [("oracle__right", "write"), ("oracle__wrong", "write")];
    Setup::new().server("oracle", server).contracts(&tools)
}

async fn called(setup: &Setup, tool: &str, times: usize) -> Gate {
    let gate = setup.clone().start().await;
    for number in 0..times {
        gate.agent().call(tool, json!({ "n": number })).await;
    }
    gate.entries(times).await;
    gate
}

/// Calls of `oracle__right` in `data`.
const RIGHT_CALLS: usize = 2;

/// A ledger with calls of `oracle__right` in `data`, and another with one of `oracle__wrong` where the
/// default of `data` is.
async fn two_ledgers(server: &ToolServer, setup: Setup) -> Setup {
    let setup = called(&setup, "oracle__right", RIGHT_CALLS)
        .await
        .stop()
        .await;
    let other = self::setup(server);
    let other = called(&other, "oracle__wrong", 1).await.stop().await;
    fs::rename(
        other.directory().join("data"),
        setup.directory().join(DECOY_DIRECTORY),
    )
    .unwrap();
    setup
}

/// The configuration, with something changed.
fn rewrite(setup: &Setup, written: &str, change: impl FnOnce(&str) -> String) {
    let path = setup.directory().join("toolgate.yaml");
    fs::write(&path, change(written)).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
}

fn written(setup: &Setup) -> String {
    fs::read_to_string(setup.directory().join("toolgate.yaml")).unwrap()
}

fn shows_right(said: &(i32, String, String), words: &[&str], what: &str) {
    let (code, out, err) = said;
    assert_eq!(*code, 0, "{what}: {words:?}: {err}");
    // A report names no tools, it counts calls.
    let told = if words[0] == "report" {
        let report: Value = serde_json::from_str(out).unwrap();
        let versions = report["versions"].as_array().unwrap();
        versions.len() == 1 && versions[0]["calls"] == RIGHT_CALLS
    } else {
        out.contains("oracle__right") && !out.contains("oracle__wrong")
    };
    assert!(told, "{what}: {words:?}: {out}");
}

/// Where the data directory can be read from the file, it is that one, found and named, with policies
/// that are broken and secrets that are elsewhere.
#[tokio::test]
async fn a_broken_configuration_shows_its_own_ledger() {
    let server = server().await;
    let setup = two_ledgers(&server, setup(&server)).await;
    let whole = written(&setup);
    let more: [(&str, &str); 5] = [
        (
            "a secret",
            "callers: [ { agent: bot, token: \"${NO_SUCH_TOKEN}\" } ]\n",
        ),
        ("an unknown key", "polices: [x]\n"),
        ("a wrong type", "allowed_hosts: 7\n"),
        (
            "a secret of an operator",
            "notify: { receivers: \"${NO_SUCH}\" }\n",
        ),
        ("nothing", ""),
    ];
    for (what, more) in more {
        rewrite(&setup, &whole, |whole| format!("{whole}{more}"));
        fs::write(setup.directory().join("policy.yaml"), "contracts: { x: [").unwrap();
        for words in LOOKING {
            shows_right(&run(&setup, words).await, words, what);
            let named = [words, &["--config", "toolgate.yaml"]].concat();
            shows_right(&run(&setup, &named).await, words, what);
        }
    }
}

/// What is made of a configuration.
type ConfigChange = Box<dyn Fn(&str) -> String>;

/// Where it cannot be read, nothing is shown, least of all what lies at the default; `--data` says it
/// then.
#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let server = server().await;
    let setup = two_ledgers(&server, setup(&server)).await;
    let whole = written(&setup);
    let is_data = |with: &'static str| move |whole: &str| whole.replace("data: data\n", with);
    let changes: [(&str, ConfigChange); 6] = [
        ("no YAML", Box::new(|whole| format!("{whole}\n  : [\n"))),
        (
            "unset",
            Box::new(is_data("data: \"${NO_SUCH_DIRECTORY}\"\n")),
        ),
        ("misspelt", Box::new(is_data("dta: data\n"))),
        ("elsewhere", Box::new(is_data("ledger: { data: data }\n"))),
        ("blank", Box::new(is_data("data:\n"))),
        (
            "twice",
            Box::new(is_data("data: data\ndata: toolgate-data\n")),
        ),
    ];
    for (what, change) in changes {
        rewrite(&setup, &whole, &*change);
        for words in LOOKING {
            refuses(&run(&setup, words).await, what);
            let beside = [words, &["--data", "data"]].concat();
            shows_right(&run(&setup, &beside).await, words, what);
        }
    }
    rewrite(&setup, &whole, str::to_owned);
    for words in LOOKING {
        let nowhere = [words, &["--config", "elsewhere/toolgate.yaml"]].concat();
        refuses(&run(&setup, &nowhere).await, "no file");
    }
    std::os::unix::fs::symlink("nowhere", setup.directory().join("link.yaml")).unwrap();
    fs::remove_file(setup.directory().join("toolgate.yaml")).unwrap();
    fs::rename(
        setup.directory().join("link.yaml"),
        setup.directory().join("toolgate.yaml"),
    )
    .unwrap();
    for words in LOOKING {
        refuses(&run(&setup, words).await, "a link that leads nowhere");
    }
}

fn refuses((code, out, err): &(i32, String, String), what: &str) {
    assert_eq!((*code, out.as_str()), (2, ""), "{what}: {err}");
    assert!(err.contains("--data DIR"), "{what}: {err}");
}

/// A directory that is named counts, though the file names another; a file that is named counts, though
/// there is one here.
#[tokio::test]
async fn what_is_named_wins() {
    let server = server().await;
    let setup = two_ledgers(&server, setup(&server)).await;
    let listed = async |words: &[&str]| run(&setup, &[&["ledger", "list"], words].concat()).await.1;
    let decoy = listed(&["--data", DECOY_DIRECTORY]).await;
    assert!(decoy.contains("oracle__wrong") && !decoy.contains("oracle__right"));
    let both = ["--config", "toolgate.yaml", "--data", DECOY_DIRECTORY];
    assert_eq!(listed(&both).await, decoy);
    let elsewhere = setup.directory().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(
        elsewhere.join("other.yaml"),
        "mode: observe\ndata: ../toolgate-data\n",
    )
    .unwrap();
    assert_eq!(listed(&["--config", "elsewhere/other.yaml"]).await, decoy);
    // What its own file says of a door is not the door of another directory.
    let gate = setup.clone().begin().await;
    let away = [
        "disable",
        "oracle__right",
        "--why",
        "x",
        "--config",
        "toolgate.yaml",
    ];
    let held = [&away[..], &["--data", "data"]].concat();
    let (code, _, err) = run(&gate.setup, &held).await;
    assert!(code != 0 && !err.contains("--admin ADDRESS"), "{err}");
    fs::rename(gate.path("data"), gate.path("moved")).unwrap();
    let held = [&away[..], &["--data", "moved"]].concat();
    let (code, _, err) = run(&gate.setup, &held).await;
    assert!(code == 2 && err.contains("--admin ADDRESS"), "{err}");
}

/// Without the key that seals nobody hears that a ledger is sound; it can still be read.
#[tokio::test]
async fn a_sealed_ledger_is_not_called_sound_without_its_key() {
    let server = server().await;
    let sealed = "ledger: { seal: { key: { file: seal.key } } }\n";
    let setup = setup(&server).more(sealed);
    let key = setup.directory().join("seal.key");
    fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let setup = two_ledgers(&server, setup).await;
    let whole = written(&setup);
    let verify = ["ledger", "verify"];
    let (code, out, err) = run(&setup, &verify).await;
    assert!(
        code == 0 && out.contains("sealed with the key"),
        "{out}{err}"
    );
    for (named, checked) in [
        (&["--config", "toolgate.yaml"], true),
        (&["--data", "data"], false),
    ] {
        let words = [&verify[..], &["--json"], named].concat();
        let (code, out, err) = run(&setup, &words).await;
        let said: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &said["state"]), (0, &json!("ok")), "{out}{err}");
        assert_eq!(said["seals_checked"], checked, "{named:?}: {out}");
    }
    fs::rename(&key, setup.directory().join("kept.key")).unwrap();
    let unknown = "ledger: { seel: { key: { file: seal.key } } }\n";
    for (what, changed) in [("no key", sealed), ("a misspelt seal", unknown)] {
        rewrite(&setup, &whole, |whole| whole.replace(sealed, changed));
        let (code, out, err) = run(&setup, &verify).await;
        assert!(code != 0 && out.is_empty(), "{what}: {out}{err}");
        assert!(err.contains("--key"), "{what}: {err}");
        let list = &["ledger", "list"][..];
        shows_right(&run(&setup, list).await, list, what);
    }
    rewrite(&setup, &whole, str::to_owned);
    let (code, out, err) = run(&setup, &["ledger", "verify", "--key", "kept.key"]).await;
    assert!(
        code == 0 && out.contains("sealed with the key"),
        "{out}{err}"
    );
}

/// Who judges calls that nobody makes needs no secret; what decides about calls has to be there.
#[tokio::test]
async fn verbs_that_judge_need_no_secrets() {
    let server = server().await;
    let setup = setup(&server);
    setup.write();
    let whole = written(&setup);
    let tokens = "callers: [ { agent: bot, token: \"${BOT_TOKEN}\" }, { agent: cat, token: \"${CAT_TOKEN}\" } ]\n\
                  secrets: { pin: { env: NO_SUCH_PIN, for: [ { server: oracle, tool: right, pointer: /pin } ] } }\n";
    let secretly = |whole: &str| {
        let operators = "tokens: [ { name: ann, token: \"${ANN_TOKEN}\" } ], listen: 127.0.0.1:0";
        let whole = whole.replace("listen: 127.0.0.1:0, ", &format!("{operators}, "));
        let whole = whole.replace("url: \"", "headers: { Authorization: \"${KEY}\" }, url: \"");
        format!("{whole}{tokens}")
    };
    rewrite(&setup, &whole, secretly);
    let explain = ["explain", "--agent", "cat", "--tool", "oracle__right"];
    let (code, out, err) = run(&setup, &explain).await;
    assert!(code == 0 && err.is_empty(), "{out}{err}");
    let (code, out, _) = run(&setup, &["check"]).await;
    assert!(
        code == 0 && out.contains("warning: the variable `BOT_TOKEN` is not set"),
        "{out}"
    );
    assert!(out.contains("0 errors"), "{out}");
    let pack = setup.directory().join("tests");
    fs::create_dir(&pack).unwrap();
    let pack_text = "pack: judged\ncallers: { cat: { agent: cat } }\nsamples:\n  \
                     - { name: it runs, caller: cat, tool: oracle__right, arguments: {}, expect: allow }\n";
    fs::write(pack.join("pack.yaml"), pack_text).unwrap();
    let (_, out, err) = run(&setup, &["test"]).await;
    assert!(
        out.contains("it runs") && !out.contains("is not set"),
        "{out}{err}"
    );
    // What says who may do what is no secret.
    rewrite(&setup, &whole, |whole| {
        format!(
            "{whole}callers: [ {{ agent: bot, token: \"${{BOT_TOKEN}}\", roles: [\"${{ROLE}}\"] }} ]\n"
        )
    });
    for verb in [&explain[..], &["check"]] {
        let (code, out, err) = run(&setup, verb).await;
        let said = format!("{out}{err}");
        assert!(
            code == 1 && said.contains("error: the variable `ROLE`"),
            "{said}"
        );
    }
}

/// To compare pins needs no policy, and of secrets only those of the servers that are asked.
#[tokio::test]
async fn pins_are_compared_server_by_server() {
    let server = server().await;
    let members = format!("url: \"{}\"", server.url());
    let setup = setup(&server)
        .server_with("vault", &members)
        .more("pins: toolgate.pins.yaml\n");
    setup.write();
    let pins = setup.directory().join("toolgate.pins.yaml");
    let (code, out, err) = run(&setup, &["pins", "approve", "--all"]).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(Path::new(&pins).exists());
    let whole = written(&setup);
    rewrite(&setup, &whole, |whole| {
        whole.replace(
            "vault: { url",
            "vault: { headers: { Authorization: \"${VAULT_KEY}\" }, url",
        )
    });
    fs::write(setup.directory().join("policy.yaml"), "contracts: { x: [").unwrap();
    let (code, out, err) = run(&setup, &["pins", "verify"]).await;
    assert_eq!(code, 1, "{out}{err}");
    let is_said = |words: &str| out.lines().any(|line| line.contains(words));
    assert!(is_said("oracle__right"), "{out}{err}");
    assert!(
        is_said("tools of vault") && is_said("the variable `VAULT_KEY` is not set"),
        "{out}{err}"
    );
}

/// 003-20: `--data` says where recorded calls are to those verbs, too, that judge them by a
/// configuration.
#[tokio::test]
async fn recorded_calls_are_judged_where_they_are() {
    let server = server().await;
    let setup = two_ledgers(&server, setup(&server)).await;
    let place = ["--data", DECOY_DIRECTORY];
    let listed = run(
        &setup,
        &[&["ledger", "list", "--json"][..], &place].concat(),
    )
    .await
    .1;
    let entry: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let action = entry["action_id"].as_str().unwrap();
    let first = r#"{ "n": 0 }"#;
    for (words, said) in [
        (&["test", "--replay", "ledger"][..], "of 1 call"),
        (
            &["test", "add", action, "--arguments", first],
            "oracle__wrong",
        ),
        (
            &["ledger", "replay", action, "--arguments", first],
            "oracle__wrong",
        ),
        (&["tasks", "list", "--json"], ""),
        (&["disable"], "no tool is disabled"),
    ] {
        let (_, out, err) = run(&setup, &[words, &place].concat()).await;
        assert!(out.contains(said), "{words:?}: {out}{err}");
    }
    let (code, _, err) = run(&setup, &["test", "--data", "data"]).await;
    assert!(code != 0 && err.contains("--replay"), "{err}");
}

/// `check` judges a configuration with the directory that is named, as `serve` will.
#[tokio::test]
async fn a_configuration_is_checked_with_the_directory_that_is_named() {
    let server = server().await;
    let setup = setup(&server).more("ledger: { archive: kept/archive }");
    setup.write();
    let file = "toolgate.yaml is no directory";
    let within = "`ledger.archive` of the configuration is in the data directory kept";
    for (words, expected, told) in [
        (&["check"][..], 0, "0 errors"),
        (&["check", "--data", "absent"], 0, "0 errors"),
        (&["check", "--data", "toolgate.yaml"], 1, file),
        (&["check", "--data", "kept"], 1, within),
        (&["serve", "--data", "kept"], 1, within),
    ] {
        let (code, out, err) = run(&setup, words).await;
        let said = out + &err;
        assert!(code == expected && said.contains(told), "{words:?}: {said}");
    }
}

/// `init` writes a configuration whose data is where it was asked for, as it was typed.
#[tokio::test]
async fn a_draft_keeps_its_data_where_it_is_told() {
    let server = server().await;
    let state = tempfile::tempdir().unwrap();
    let setup = Setup::new().environment("XDG_STATE_HOME", state.path().to_str().unwrap());
    let upstream = format!("bank={}", server.url());
    let words = [
        "init",
        "--upstream",
        &upstream,
        "--dir",
        "made",
        "--data",
        "kept",
    ];
    let (code, out, err) = run(&setup, &words).await;
    assert_eq!(code, 0, "{out}{err}");
    let made = ["--config", "made/toolgate.yaml"];
    let away = [&["disable", "bank__right", "--why", "x"], &made[..]].concat();
    for expected in ["no data directory", "bank__right is disabled by"] {
        let (_, out, err) = run(&setup, &away).await;
        assert!((out.clone() + &err).contains(expected), "{out}{err}");
        fs::create_dir_all(setup.directory().join("kept")).unwrap();
    }
    let kept = fs::read_to_string(setup.directory().join("kept/disabled.json")).unwrap();
    assert!(kept.contains("bank__right"), "{kept}");
}
