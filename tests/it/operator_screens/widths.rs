//! Screens as terminals of 80 and of 160 columns have them.

use super::{screens, stage};
use regex::Regex;

/// What an operator types, as in the scenario above.
const SCREENS: &str = r#"
doctor
check
check --config broken.yaml
explain --agent bot --tool bank__pay --arguments {"tenant_id":"t_001","amount":1}
explain --agent bot --tool bank__pay --arguments {"tenant_id":"t_002","amount":1}
pins verify --config pinned.yaml
pins diff --config pinned.yaml
pins approve --all --config pinned.yaml
pins verify --config pinned.yaml
ledger list
ledger show REFUSED
ledger show UNKNOWN
ledger events
ledger tail
init --from mcp.json --dir made
"#;

/// What differs from run to run, where a screen is for people: times that have passed, short ids, and
/// how long something took.
fn quiet(text: &str) -> String {
    let rows = [
        (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z", "TIME"),
        (r"\b(now|[0-9]+[smhd] ago) {2,}", "AGO  "),
        (r"\b[0-9a-f]{8}\b", "SHORT_ID"),
        (r"\b[0-9a-f]{12}\b", "VERSION"),
        (r"\b[0-9a-f]{16,}\b", "HEX"),
        // Where it is cut depends on how long the process's number is.
        (r"policy [0-9a-f]*…", "policy …"),
        (r"(process|pid) [0-9]+", "$1 PID"),
        (r"\([0-9]+ s\)", "(N s)"),
        // Of a machine where tests run as root.
        (r"(?m)^note     approvals are advisory .*\n", ""),
        (r"[0-9]+\.[0-9]+( ms| s)?\b", "N$1"),
        (r"(?m)^([a-z_]+_ms) +(MS|N|[0-9]+)$", "$1  N"),
        // In what `ledger show` prints as it is kept.
        (
            r"(?m)^([a-z_]*(_ms|_us|_bytes|_at|latency)) +[0-9]+$",
            "$1 N",
        ),
        (r#"("[a-z_]*(ms|us|at|bytes)"): ?[0-9]+"#, "$1:N"),
        (r"\b[0-9]{5,}\b", "N"),
    ];
    rows.iter().fold(text.to_owned(), |text, (pattern, with)| {
        let pattern = Regex::new(pattern).unwrap();
        pattern.replace_all(&text, *with).into_owned()
    })
}

/// D24, D25: nothing that people read depends on a terminal's width but tables, whose lines fit it.
#[tokio::test]
async fn screens_at_80_and_160_columns() {
    for columns in [80, 160] {
        let (server, gate, entries) = stage().await;
        let setup = gate
            .setup
            .clone()
            .environment("COLUMNS", &columns.to_string())
            .environment("HOME", &gate.setup.directory().display().to_string());
        let place = |name: &str| setup.directory().join(name);
        let written = std::fs::read_to_string(place("toolgate.yaml")).unwrap();
        let broken = written.replace("mode: enforce", "mode: enforced");
        std::fs::write(place("broken.yaml"), broken).unwrap();
        let agent = format!(
            r#"{{ "mcpServers": {{ "bank": {{ "url": "{}" }} }} }}"#,
            server.url()
        );
        std::fs::write(place("mcp.json"), agent).unwrap();
        let shown = screens(&setup, &entries, SCREENS).await;
        assert!(!shown.contains('\u{1b}'), "{shown}");
        let table: Vec<&str> = shown
            .split("$ toolgate ")
            .find(|screen| screen.starts_with("ledger list"))
            .unwrap()
            .lines()
            .skip(1)
            .collect();
        assert!(table.len() > 5, "{shown}");
        for line in table {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        insta::assert_snapshot!(format!("at_{columns}_columns"), quiet(&shown));
    }
}
