//! The share of what changes something that can be taken back, as far as samples show it.

use super::{Path, fs, stage, test};
use serde_json::{Value, json};

/// Two contracts that take each other back, one with variants, and one that nothing takes back.
const POLICY: &str = "
contracts:
  bank__move: { purpose: p, actions: [write], permission: anyone, secrets: [], arguments: { properties: { to: {}, amount: {} } }, side_effect: { writes: accounts, rollback: { tool: bank__return, arguments: { to: arguments#/to, move: result#/id, why: action# } } } }
  bank__return: { purpose: p, actions: [write], permission: anyone, secrets: [], arguments: { properties: { to: {}, move: {}, why: {} } }, side_effect: { writes: accounts, rollback: { tool: bank__move, arguments: { to: arguments#/to } } } }
  bank__note:
    purpose: p
    actions: [read, write]
    permission: anyone
    secrets: []
    variants:
      by: /do
      cases:
        show: { actions: [read] }
        write: { actions: [write], side_effect: { writes: notes, rollback: { tool: bank__return, arguments: { to: notes } } } }
  bank__tell: { purpose: p, actions: [notify], permission: anyone, secrets: [], irreversible: true }
";
const PACK_HEAD: &str =
    "pack: bank\npolicies: [../policy.yaml]\ncallers: { clerk: { agent: clerk } }\nsamples:\n";

/// The samples' tools, arguments and what is expected of them.
type SampleRow = (&'static str, &'static str, &'static str);

const MOVE_SAMPLE: SampleRow = ("move", "to: ann, amount: 7", "allow");
const RETURN_SAMPLE: SampleRow = ("return", "to: ann, move: 17, why: 0190", "allow");
const WRITE_SAMPLE: SampleRow = ("note", "do: write", "allow");
const OFF_SAMPLE: SampleRow = ("return", "to: notes", "allow");

fn staged(samples: &[SampleRow]) -> tempfile::TempDir {
    let sample = |(index, (tool, arguments, expect)): (usize, &SampleRow)| {
        format!(
            "  - {{ name: s{index}, caller: clerk, tool: bank__{tool}, arguments: {{ {arguments} }}, expect: {expect} }}\n"
        )
    };
    let samples: String = samples.iter().enumerate().map(sample).collect();
    let directory = stage(&format!("{PACK_HEAD}{samples}").replace("why: 0190", "why: \"0190\""));
    fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
    directory
}

/// The contracts whose rollback a sample has tried.
fn tested(directory: &Path) -> Vec<String> {
    let report: Value = serde_json::from_str(&test(directory, &["--json"]).0).unwrap();
    let tested = report["rollbacks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["tested"] == true);
    tested
        .map(|one| one["contract"].as_str().unwrap().to_owned())
        .collect()
}

/// 003-106: a rollback counts as tested by a sample that passes and is the very call that takes
/// back what another passing sample has done; a sample of the tool alone, of other arguments or of
/// a call that is refused shows nothing.
#[test]
fn only_a_sample_of_the_way_back_counts() {
    for (samples, expected) in [
        (vec![MOVE_SAMPLE], vec![]),
        (vec![RETURN_SAMPLE], vec![]),
        (vec![MOVE_SAMPLE, RETURN_SAMPLE], vec!["bank__move"]),
        (
            vec![
                MOVE_SAMPLE,
                ("return", "to: bob, move: 17, why: 0190", "allow"),
            ],
            vec![],
        ),
        (
            vec![MOVE_SAMPLE, ("return", "to: ann, move: 17", "allow")],
            vec![],
        ),
        (
            vec![
                MOVE_SAMPLE,
                ("return", "to: ann, move: 17, why: 7", "allow"),
            ],
            vec![],
        ),
        (
            vec![
                MOVE_SAMPLE,
                (
                    "return",
                    "to: ann, move: 17, why: 0190, more: 1",
                    "schema_invalid",
                ),
            ],
            vec![],
        ),
        // It is expected to be refused, or expected to pass and does not.
        (
            vec![
                MOVE_SAMPLE,
                ("return", "to: ann, move: 17, why: 0190", "schema_invalid"),
            ],
            vec![],
        ),
        (
            vec![("move", "to: ann, more: 1", "allow"), RETURN_SAMPLE],
            vec![],
        ),
        // The way back has one of its own.
        (
            vec![("move", "to: ann", "allow"), RETURN_SAMPLE],
            vec!["bank__move", "bank__return"],
        ),
        (vec![WRITE_SAMPLE, OFF_SAMPLE], vec!["bank__note#write"]),
        (vec![("note", "do: show", "allow"), OFF_SAMPLE], vec![]),
    ] {
        assert_eq!(tested(staged(&samples).path()), expected, "{samples:?}");
    }
}

/// 003-106: the report gives the share, and names what no sample tries and what nothing takes back.
#[test]
fn the_report_names_what_is_not_tested() {
    let (out, _) = test(
        staged(&[MOVE_SAMPLE, RETURN_SAMPLE]).path(),
        &["--coverage"],
    );
    let report = out
        .split_once("rollbacks described")
        .map(|(_, rest)| rest.split_once("\n\n").unwrap().0);
    insta::assert_snapshot!(report.unwrap());
    let (out, _) = test(staged(&[MOVE_SAMPLE, RETURN_SAMPLE]).path(), &[]);
    assert!(
        !out.contains("rollbacks described"),
        "only with --coverage: {out}"
    );
}

/// 003-106: every contract of the library that names a way back has a sample that tries it.
#[test]
fn the_librarys_rollbacks_are_tested() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/library");
    let report: Value = serde_json::from_str(&test(&library, &["--json"]).0).unwrap();
    let rollbacks = report["rollbacks"].as_array().unwrap();
    let (named, none): (Vec<_>, Vec<_>) = rollbacks
        .iter()
        .partition(|one| one["rollback"].is_string());
    assert!(named.len() >= 6 && !none.is_empty(), "{rollbacks:?}");
    assert!(named.iter().all(|one| one["tested"] == true), "{named:?}");
    assert!(
        none.iter().all(|one| one["tested"] == json!(false)),
        "{none:?}"
    );
}
