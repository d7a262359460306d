//! The verbs that came last, held to what is held of all: a table fits its terminal, `--wide` and a pipe get
//! whole values, and a program gets JSON.

use super::stage;
use crate::harness::gate::run;
use crate::harness::setup::Setup;
use serde_json::Value;

/// Longer than a line.
const WHY: &str =
    "it pays twice where the bank is slow, and nobody knows yet why that is so, nor when it ends";

/// Verbs with a table, what the table has on a terminal, and what it has only where it is whole.
const TABLES: [(&[&str], &str, &str); 5] = [
    (&["incident", "list"], "bank__pay", WHY),
    (&["incident", "show", "1"], "opened", WHY),
    (&["policy", "list"], "last in force", "Z"),
    (&["calls", "list", "--state", "completed"], "bank__pay", "Z"),
    (&["tasks", "list"], "bot", "Z"),
];

async fn shown(setup: &Setup, words: &[&str], more: &[&str]) -> String {
    let words = [words, more].concat();
    let (code, out, err) = run(setup, &words).await;
    assert_eq!(code, 0, "{words:?}: {out}{err}");
    out
}

/// D24, and issue 17 "tables fit 80 columns", "`--wide`", "`--json` on every verb that prints".
#[tokio::test]
async fn newer_verbs_are_as_strict_as_the_older_ones() {
    let (_server, gate, _) = stage().await;
    let piped = gate.setup.clone();
    let open = ["incident", "open", "--tool", "bank__pay", "--why", WHY];
    shown(&piped, &open, &[]).await;
    let narrow = piped.clone().environment("COLUMNS", "80");
    for (words, narrow_has, whole_has) in TABLES {
        let whole = shown(&piped, words, &[]).await;
        let fits = shown(&narrow, words, &[]).await;
        let wide = shown(&narrow, words, &["--wide"]).await;
        assert_eq!(wide, whole, "{words:?}");
        // Sentences go on in the next line of a terminal, rows of a table must not.
        let is_timed =
            |line: &&str| line.contains(" ago") || line.split(' ').any(|word| word == "now");
        let rows: Vec<&str> = fits.lines().filter(is_timed).collect();
        assert!(!rows.is_empty(), "{words:?}: {fits}");
        for row in rows.iter().filter(|row| !row.starts_with("opened")) {
            assert!(row.chars().count() <= 80, "{words:?}: {row}");
            assert!(!row.contains(whole_has), "{words:?}: {row}");
        }
        assert!(fits.contains(narrow_has), "{words:?}: {fits}");
        assert!(whole.contains(whole_has), "{words:?}: {whole}");
        assert!(!whole.contains(" ago"), "{words:?}: {whole}");
        let json = shown(&narrow, words, &["--json"]).await;
        let values = serde_json::Deserializer::from_str(&json).into_iter::<Value>();
        let values: Result<Vec<Value>, _> = values.collect();
        assert!(
            values.is_ok_and(|values| !values.is_empty()),
            "{words:?}: {json}"
        );
    }
    // A tool that an incident keeps away is not passed over where operators look for those that are away.
    let away = shown(&piped, &["disable"], &[]).await;
    let told = "no tool is disabled\nbank__pay is frozen: `toolgate incident show 1`\n";
    assert_eq!(away, told);
}

/// A number that is none is told what is one, and not how it was read.
#[tokio::test]
async fn an_incident_is_named_by_its_number() {
    let setup = Setup::new();
    for line in [
        &["incident", "show", "abc"][..],
        &["incident", "close", "-", "--why", "x"],
        &["incident", "collect", "99999999999999999999999"],
        &["incident", "sample", "ffffffff", "--incident", "first"],
    ] {
        let (code, out, err) = run(&setup, line).await;
        assert_eq!((code, &*out), (2, ""), "{line:?}: {err}");
        let told = "give its number, as `toolgate incident list` has it";
        assert!(err.contains(told), "{line:?}: {err}");
    }
}
