//! Reasons that operators give.

use super::{RolesGate, Rules, token};
use serde_json::json;

/// Reasons that are no plain line.
const NO_REASONS: [&str; 16] = [
    "",
    " ",
    "two\nlines",
    "end\n",
    "a\rb",
    "tab\tbed",
    "esc \u{1b}[2J",
    "c1 \u{9b}2J",
    "del \u{7f}",
    "bidi \u{202e}x",
    "isolate \u{2066}x",
    "zero\u{200b}width",
    "bom\u{feff}",
    "tag\u{e0041}",
    "nel\u{85}",
    "line\u{2028}separator",
];

/// threat-model §13 L3, lane: no reason that the door takes holds what does not print or turns what
/// others read.
#[tokio::test]
async fn a_reason_is_one_plain_line() {
    let rules = &Rules::all()[0];
    let stage = RolesGate::new(rules).await;
    let all = [
        ("resolver", "resolve"),
        ("switch", "disable"),
        ("switch", "enable"),
        ("lead", "allow"),
        ("lead", "deny"),
    ];
    let mut cases = 0;
    let json_of = ("Content-Type", "application/json");
    let hold = |nth: usize| format!("/api/approvals/{}", stage.held[2 + nth]);
    for (name, asked) in all {
        let bearer = format!("Bearer {}", token(name));
        let path = match asked {
            "resolve" => format!("/api/calls/{}/resolve", stage.unknown[name]),
            "disable" | "enable" => format!("/api/tools/oracle__undo/{asked}"),
            _ => hold(0),
        };
        for why in NO_REASONS
            .into_iter()
            .map(str::to_owned)
            .chain(["x".repeat(2001)])
        {
            let body = match asked {
                "resolve" => json!({ "verdict": "abandon", "why": why }),
                "disable" | "enable" => json!({ "why": why }),
                _ => json!({ "decision": asked, "why": why }),
            };
            let headers = [("Authorization", bearer.as_str()), json_of];
            let answer = stage
                .gate
                .asks_operators(("POST", &path), &headers, &body.to_string())
                .await;
            assert_eq!(answer.status, 400, "{asked} {why:?}: {}", answer.text());
            assert!(
                answer.text().contains("say why, on one line"),
                "{}",
                answer.text()
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 5 * 17);
}

/// threat-model §13 L3: the same on the command line; what is taken stands in the ledger with who
/// said it.
#[tokio::test]
async fn a_reason_stands_in_the_ledger() {
    let stage = RolesGate::new(&Rules::all()[0]).await;
    let door = stage.gate.operators.to_string();
    let (call, hold) = (stage.unknown["resolver"].clone(), stage.held[2].clone());
    for (who, words) in [
        ("resolver", &["calls", "resolve", &call, "--abandon"][..]),
        ("switch", &["disable", "oracle__undo"]),
        ("switch", &["enable", "oracle__undo"]),
        ("lead", &["approvals", "deny", &hold]),
    ] {
        let more = ["--config", "toolgate.yaml", "--admin", &door, "--why"];
        let setup = stage.gate.setup.operator(who);
        let said = async |why: &str| setup.run(&[words, &more, &[why]].concat()).await;
        let refused = said("two\nlines").await;
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(
            refused.status.code() == Some(1) && text.contains("on one line"),
            "{words:?}: {text}"
        );
        let taken = said("because of ticket 7").await;
        assert!(
            taken.status.success(),
            "{words:?}: {}",
            String::from_utf8_lossy(&taken.stderr)
        );
    }
    let exported = stage
        .gate
        .setup
        .run(&["ledger", "export", "--data", "data"])
        .await;
    let exported = String::from_utf8(exported.stdout).unwrap();
    for who in ["resolver", "switch", "switch", "lead"] {
        let found = exported
            .lines()
            .filter(|line| line.contains("because of ticket 7") && line.contains(who))
            .count();
        assert_eq!(
            found,
            if who == "switch" { 2 } else { 1 },
            "{who}: {exported}"
        );
    }
}
