//! Sixty mistakes in one configuration and its policies: one run names them all (issue 17, D13).

use super::super::{Report, judge, machine};
use crate::guards::pins::Pin;
use crate::mcp::json::Text;
use crate::model::diagnostic::Diagnostic;
use crate::model::ids::ServerName;
use crate::policy::pins::{self, Pins};
use crate::schema::schema_hash;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A mistake, by the number that stands behind its line, and what has to be said of it.
struct Planted<'t> {
    number: &'t str,
    file: &'t str,
    /// What stands at its place; empty: the place is the line's.
    at: &'t str,
    message: &'t str,
    help: &'t str,
}

fn planted(table: &str) -> Vec<Planted<'_>> {
    let row = |line| {
        let cells: Vec<&str> = str::split(line, " |").map(str::trim).collect();
        let [number, file, at, message, help] = cells.as_slice() else {
            panic!("five cells: {line}");
        };
        // Without words any problem at the place would do.
        assert!(!message.is_empty() || !help.is_empty(), "{line}");
        Planted {
            number,
            file,
            at,
            message,
            help,
        }
    };
    table.lines().map(row).collect()
}

/// The pins of the bank, all of whose tools they are.
fn pins() -> String {
    let text = json!({ "type": "string" });
    let transfer = json!({ "type": "object", "properties": {
        "amount": { "type": "integer" }, "iban": text, "note": text, "tenant_id": text, "token": text,
        "lines": text, "kind": text } });
    let open = json!({ "type": "object", "properties": { "kind": text } });
    let none = json!({ "type": "object", "properties": { "id": text } });
    let pin = |(name, schema): (&str, Value)| {
        let definition = Text::of(&json!({ "name": name, "inputSchema": schema }));
        let digest = schema_hash(&definition.value());
        (
            (ServerName::new("bank"), name.to_owned()),
            Pin { digest, definition },
        )
    };
    let tools = [
        ("transfer", transfer),
        ("refund", none.clone()),
        ("get_balance", none.clone()),
        ("get_rates", none.clone()),
        ("open", open),
        ("delete_account", none),
    ];
    let pins: Pins = tools.into_iter().map(pin).collect();
    pins::written(&pins, &BTreeSet::from([ServerName::new("bank")]))
}

/// The report of one run, with paths from the files' own directory.
fn report(directory: &Path) -> Report {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/check/planted");
    for file in ["toolgate.yaml", "p.yaml", "more.yaml"] {
        fs::write(directory.join(file), fs::read(source.join(file)).unwrap()).unwrap();
        // What others may read is another matter.
        let only_owner = fs::Permissions::from_mode(0o600);
        fs::set_permissions(directory.join(file), only_owner).unwrap();
    }
    fs::write(directory.join("toolgate.pins.yaml"), pins()).unwrap();
    let mut report = judge(&[directory.to_path_buf()], false, None).unwrap();
    let within = format!("{}/", directory.display());
    for found in &mut report.found {
        found.file = found.file.replace(&within, "");
    }
    report
}

/// The line of a mistake, from 1, and the column of what stands at its place, from 1.
fn place(planted: &Planted<'_>, text: &str) -> (u32, Option<u32>) {
    let ending = format!(" #{}", planted.number);
    let lines = text.lines().zip(1..);
    let (line, number) = lines
        .into_iter()
        .find(|(line, _)| line.ends_with(&ending))
        .unwrap();
    let at = (!planted.at.is_empty()).then(|| {
        let before = line.find(planted.at).unwrap();
        u32::try_from(line[..before].chars().count()).unwrap() + 1
    });
    (number, at)
}

fn is_said(found: &Diagnostic, planted: &Planted<'_>, (line, column): (u32, Option<u32>)) -> bool {
    found.file == planted.file
        && found.line == line
        && column.is_none_or(|column| found.column == column)
        && found.message.contains(planted.message)
        && found
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains(planted.help))
}

#[test]
fn sixty_mistakes_are_told_in_one_run() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/check/planted");
    let table = fs::read_to_string(source.join("expected.txt")).unwrap();
    let planted = planted(&table);
    assert!(planted.len() >= 60, "{}", planted.len());
    let directory = tempfile::tempdir().unwrap();
    let report = report(directory.path());
    let missing: Vec<String> = planted
        .iter()
        .filter(|planted| {
            let text = fs::read_to_string(source.join(planted.file)).unwrap();
            let place = place(planted, &text);
            !report
                .found
                .iter()
                .any(|found| is_said(found, planted, place))
        })
        .map(|planted| format!("#{} {}: {}", planted.number, planted.file, planted.message))
        .collect();
    let said: Vec<String> = report.found.iter().map(ToString::to_string).collect();
    assert_eq!(missing, [""; 0], "not told:\n{}", said.join("\n"));
    // One mistake is one problem, and what follows from it none.
    assert!(
        report.found.len() <= planted.len() + 6,
        "{}",
        said.join("\n")
    );
    assert_eq!(report.code(), 1);
    let text = report
        .text()
        .replace(&format!("{}/", directory.path().display()), "");
    insta::assert_snapshot!("planted", text);
}

#[test]
fn programs_read_the_same_problems() {
    let directory = tempfile::tempdir().unwrap();
    let report = report(directory.path());
    let read: Value = serde_json::from_str(&machine::json(&report)).unwrap();
    let all = read["diagnostics"].as_array().unwrap();
    assert_eq!(
        (all.len(), &read["ok"]),
        (report.found.len(), &json!(false))
    );
    assert_eq!(
        read["errors"].as_u64().unwrap() + read["warnings"].as_u64().unwrap(),
        report.found.len() as u64
    );
    let slip = all
        .iter()
        .find(|one| one["help"].as_str().unwrap().contains("`==`"))
        .unwrap();
    let column = slip["column"].as_u64().unwrap();
    assert_eq!(slip["end_column"], json!(column + 1), "{slip}");
    insta::assert_snapshot!("planted_json", format!("{slip:#}"));
}

/// What GitHub and the format's own schema require of a log.
#[test]
fn code_hosts_read_the_same_problems() {
    let directory = tempfile::tempdir().unwrap();
    let report = report(directory.path());
    let log: Value = serde_json::from_str(&machine::sarif(&report)).unwrap();
    assert_eq!(log["version"], json!("2.1.0"));
    assert!(
        log["$schema"]
            .as_str()
            .unwrap()
            .ends_with("sarif-2.1.0.json")
    );
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], json!("toolgate"));
    let rules: Vec<&Value> = driver["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| &rule["id"])
        .collect();
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), report.found.len());
    for result in results {
        assert!(rules.contains(&&result["ruleId"]), "{result}");
        assert!(["error", "warning"].contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.starts_with('/') && !uri.contains(' '), "{uri}");
        let number = |key: &str| place["region"][key].as_u64().unwrap();
        assert!(
            number("startLine") >= 1 && number("startColumn") >= 1,
            "{place}"
        );
        assert!(number("endColumn") > number("startColumn"), "{place}");
    }
    insta::assert_snapshot!("planted_sarif", format!("{:#}", results[0]));
}
