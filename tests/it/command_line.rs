//! What every verb has in common: exit codes, JSON, colours, and the width of tables.

mod warnings;

use crate::harness::gate::{run, runs};
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script};
use serde_json::{Value, json};

/// A toolgate that has run: a call that passed, and one that was refused.
async fn stage() -> (crate::harness::tool_server::ToolServer, Setup) {
    let server = Script::new().tool("look", Behaviour::Answers).start().await;
    let setup = Setup::new()
        .server("oracle", &server)
        .contracts(&[("oracle__look", "read")]);
    let gate = setup.start().await;
    let agent = gate.agent();
    agent.call("oracle__look", json!({})).await;
    agent.call("oracle__nothing", json!({})).await;
    gate.entries(2).await;
    (server, gate.stop().await)
}

/// Issue 17 "exit codes as said": docs/cli.md has the table; here is a line of each kind.
#[tokio::test]
async fn exit_codes_are_as_said() {
    let (_server, setup) = stage().await;
    for (line, expected) in [
        ("--version", 0),
        ("ledger --help", 0),
        ("schema policy", 0),
        ("completions fish", 0),
        ("check", 0),
        ("check absent.yaml", 1),
        ("ledger list --config toolgate.yaml", 0),
        ("ledger verify --data data", 0),
        ("ledger verify --data absent", 1),
        ("ledger show ffffffff --data data", 1),
        ("ledger list --data data --code tool_not_alowlisted", 2),
        ("ledger list --data data --outcome maybe", 2),
        ("ledger list --tool oracel__look", 2),
        ("ledger export --tool look", 2),
        ("ledger tail --tool oracel__look", 2),
        ("ledger tail -f --tool oracel__look", 2),
        ("report --tool oracel__look", 2),
        // Only the server could say whether it has that tool.
        ("ledger list --tool oracle__other", 0),
        ("ledger list --tool files__read --method resources/read", 0),
        // The ledger of a directory alone may be of other servers.
        ("ledger list --data data --tool oracel__look", 0),
        ("ledger --stdio tail -f", 2),
        ("ledger --stdio replay ffffffff", 2),
        ("calls list --state maybe", 2),
        ("explain --agent anonymous --tool oracle__look", 0),
        ("explain --agent anonymous --tool oracle__nothing", 1),
        ("calls resolve ffffffff --applied --why x", 1),
        ("tasks show ffffffff", 1),
        ("disable oracle__nothing --why x", 1),
        ("disable oracle__look --why x", 0),
        ("enable oracle__look --why x", 0),
        ("enable oracle__look --why x", 1),
        ("approvals list", 1),
        ("approvals wait ffffffff", 2),
        ("approvals show xyz", 2),
        ("nosuch", 2),
    ] {
        let (code, out, err) = runs(&setup, line).await;
        assert_eq!(code, expected, "{line}: {out}{err}");
        assert!(code == 0 || !(out + &err).is_empty(), "{line} says nothing");
    }
}

/// D22: what a verb prints, a program can read.
#[tokio::test]
async fn verbs_print_json() {
    let (_server, setup) = stage().await;
    for (line, member) in [
        (
            "explain --agent anonymous --tool oracle__look --json",
            "steps",
        ),
        ("doctor --json", "found"),
        ("ledger verify --json --data data", "head"),
        ("disable oracle__look --why x --json", "who"),
        ("disable --json", "disabled"),
        ("enable oracle__look --why x --json", "who"),
        ("report --json", "versions"),
    ] {
        let (_, out, err) = runs(&setup, line).await;
        let said: Value = out.parse().unwrap_or_else(|_| panic!("{line}: {out}{err}"));
        assert!(!said[member].is_null(), "{line}: {said}");
    }
    let lines = runs(&setup, "ledger list --json").await.1;
    assert_eq!(lines.lines().count(), 2, "{lines}");
}

/// D24, D25: a pipe gets whole values and no colours, unless it is told otherwise.
#[tokio::test]
async fn a_table_is_for_what_reads_it() {
    let (_server, setup) = stage().await;
    let list = ["ledger", "list"];
    let (_, piped, _) = run(&setup, &list).await;
    assert!(piped.lines().any(|line| line.len() > 100), "{piped}");
    assert!(
        !piped.contains('\u{1b}') && !piped.contains("ago"),
        "{piped}"
    );

    let narrow = setup.clone().environment("COLUMNS", "80");
    let (_, shown, _) = run(&narrow, &list).await;
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    assert!(shown.contains("tool_not_allow"), "{shown}");
    let row = shown.lines().last().unwrap();
    let id = row
        .split_whitespace()
        .find(|word| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let (code, entry, err) = run(&setup, &["ledger", "show", id.unwrap()]).await;
    assert_eq!(code, 0, "{shown}\n{entry}{err}");
    let wide = run(&narrow, &["ledger", "list", "--wide"]).await.1;
    assert_eq!(wide, piped);

    let colored = run(&setup, &["--color", "always", "ledger", "list"])
        .await
        .1;
    assert!(
        colored.contains("\u{1b}[33mrefused\u{1b}[0m"),
        "{colored:?}"
    );
    let status = ["--color", "always", "status"];
    let (_, colored_status, _) = run(&setup, &status).await;
    let heading = "\u{1b}[1mtoolgate\u{1b}[0m";
    assert!(colored_status.starts_with(heading), "{colored_status:?}");
    let (_, plain_status, _) = run(&setup, &["status"]).await;
    assert!(!plain_status.contains('\u{1b}'), "{plain_status:?}");

    let forced = setup.clone().environment("CLICOLOR_FORCE", "1");
    assert_eq!(run(&forced, &list).await.1, colored);
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let without = setup.clone().environment(name, value);
        assert_eq!(run(&without, &list).await.1, piped, "{name}");
    }
    let never = forced.environment("NO_COLOR", "1");
    let never = run(&never, &["ledger", "list", "--color", "never"]).await.1;
    assert_eq!(never, piped);
}
