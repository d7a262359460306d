//! Calls with a claim, as the ledger tells of them: what was meant, what became of it, and how that
//! came to be known.

use super::*;
use crate::store::journal::Item;
use crate::store::state::event::StoreEvent;
use bytes::Bytes;
use serde_json::Value;

const HASHED_KEY: &str = "aa";

fn id(n: u64) -> String {
    format!("0198f1a2-{n:04x}-7000-8000-00000000000a")
}

fn digest(pair: &str) -> String {
    pair.repeat(32)
}

/// An event as the journal keeps it; read and written again, so that it is one.
fn event(value: &Value, body: &str) -> Item {
    let text = Bytes::from(format!("{value}\n{body}"));
    Item::Event(StoreEvent::decode(&text).unwrap().encode().unwrap())
}

pub(super) fn intended(n: u64, key: &str) -> Item {
    let entry = serde_json::to_value(entry(
        n,
        &json!({"event": "enter", "outcome": "dispatching", "state": "execute", "stage": "intent", "fence": n,
                "budget_remaining": {"steps": 4, "cost": 1.5}}),
    ));
    let event_of = json!({ "intended": {
        "key": digest(key), "fingerprint": digest("f0"), "action": id(n), "attempt": 1, "round": 0,
        "at": 1_785_229_200_000_u64 + n, "ttl": 3_600_000, "keep": 0, "task": digest("1a"), "session": digest("5e"),
        "fence": n, "cost": 500_000, "rate": 0, "entry": entry.unwrap(),
    }});
    event(&event_of, "")
}

pub(super) fn settled(n: u64, key: &str, phase: &Value, evidence: &Value, charge: &Value) -> Item {
    let event_of = json!({ "settled": {
        "key": digest(key), "action": id(n), "task": digest("1a"), "session": digest("5e"),
        "at": 1_785_229_260_000_u64 + n, "phase": phase, "evidence": evidence, "charge": charge, "failed": false,
    }});
    event(
        &event_of,
        if phase.get("completed").is_some() {
            "{\"answer\":\"of the tool\"}"
        } else {
            ""
        },
    )
}

/// 1: unknown, asked for again, then an operator knew. 2: its toolgate was killed. 3: still on its
/// way. 6: its toolgate was killed, then an operator knew.
async fn stories() -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), JournalOptions::default()).unwrap();
    let unknown = json!({ "unknown": { "why": "the connection was lost\u{1b}[2J" } });
    let failed = json!({"outcome": "unknown", "event": "fail", "aborted_reason": "outcome_unknown",
                        "fault": "the connection was lost"});
    let again = json!({"outcome": "unknown", "event": "fail", "aborted_reason": "outcome_unknown",
                       "claimed_by": id(1), "stage": "idempotency"});
    let answer = json!({ "completed": { "size": 24, "digest": digest("ee") } });
    let said = json!({ "operator": { "who": "ann", "why": "looked at the bank's page" } });
    let groups = [
        vec![intended(1, HASHED_KEY)],
        vec![
            settled(1, HASHED_KEY, &unknown, &json!("exchange"), &json!("hold")),
            entry(1, &failed).into(),
        ],
        vec![entry(4, &again).into()],
        vec![intended(2, "bb")],
        vec![settled(
            2,
            "bb",
            &unknown,
            &json!("restart"),
            &json!("hold"),
        )],
        vec![settled(
            1,
            HASHED_KEY,
            &answer,
            &said,
            &json!({ "settle": 500_000 }),
        )],
        vec![intended(3, "cc")],
        vec![intended(6, "ee")],
        vec![settled(
            6,
            "ee",
            &unknown,
            &json!("restart"),
            &json!("hold"),
        )],
        vec![settled(
            6,
            "ee",
            &json!("not_sent"),
            &said,
            &json!("release"),
        )],
    ];
    for group in groups {
        drop(journal.append(group).unwrap());
    }
    journal.close().await.unwrap();
    temp
}

/// 003-94, 004-14: who, on what, did what, with what result, under which policy; how it came to be
/// known, by whom; also of a call whose process died.
#[tokio::test]
async fn a_call_is_told_from_its_intent_to_what_an_operator_said() {
    let data = stories().await;
    let mut said = String::new();
    for words in [
        vec!["list"],
        vec!["show", &id(1)],
        vec!["show", &id(2)],
        vec!["show", &id(3)],
        vec!["show", &id(6)],
        vec!["list", "--open"],
    ] {
        let (code, out, err) = ledger(data.path(), &words);
        writeln!(
            said,
            "$ ledger {}\n{out}{err}exit code {code}\n",
            words.join(" ")
        )
        .unwrap();
    }
    insta::assert_snapshot!(said);
}

// guarantees §1, §7: who allowed a held call and why is found again; its arguments are not in what
// is exported.
#[tokio::test]
async fn a_held_call_is_told_with_who_decided() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), JournalOptions::default()).unwrap();
    let at = 1_785_229_200_000_u64;
    let held = json!({ "held": { "key": digest("dd"), "hold": {
        "id": id(5), "asked": at, "approve_by": at + 600_000, "execute_for": 60_000, "needed": 2, "roles": ["lead", "owner"],
        "self_approval": false, "phase": "pending", "question": {
            "agent": "billing", "tool": "mail__send", "irreversible": true, "purpose": "sends", "policy": "3f9a1c",
            "schema_hash": digest("5c"),
        },
    } } });
    let said = |who: &str, allow: bool, phase: &str| {
        let decision = json!({ "who": who, "allow": allow, "why": format!("{who} looked\u{1b}"), "at": at + 1000 });
        let event_of = json!({ "decided": { "key": digest("dd"), "id": id(5), "decision": decision, "phase": phase } });
        event(&event_of, "")
    };
    let refused =
        json!({ "outcome": "refused", "event": "fail", "aborted_reason": "approval_pending" });
    for group in [
        vec![event(&held, "{\"to\":\"nobody@example.com\"}")],
        vec![entry(5, &refused).into()],
        vec![said("ann", true, "pending")],
        vec![said("bob", false, "denied")],
    ] {
        drop(journal.append(group).unwrap());
    }
    journal.close().await.unwrap();
    let (code, told, err) = ledger(temp.path(), &["show", &id(5)]);
    assert_eq!((code, err.as_str()), (0, ""));
    let history: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("history"))
        .collect();
    insta::assert_snapshot!(history.join("\n"));
    let (_, told, _) = ledger(temp.path(), &["show", &id(5), "--json"]);
    let told: Value = told.parse().unwrap();
    let steps: Vec<_> = told["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["event"].clone())
        .collect();
    assert_eq!(steps, ["held", "decided", "decided"]);
    assert_eq!(
        (&told["history"][2]["who"], &told["history"][2]["state"]),
        (&json!("bob"), &json!("denied"))
    );
    let (_, exported, _) = ledger(temp.path(), &["export", "--action", &id(5)]);
    assert_eq!(exported.lines().count(), 4);
    assert!(
        exported.contains("bob looked") && !exported.contains("nobody@example.com"),
        "{exported}"
    );
}

#[tokio::test]
async fn programs_read_the_same() {
    let data = stories().await;
    let (code, out, err) = ledger(data.path(), &["show", &id(1), "--json"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let call: Value = out.parse().unwrap();
    assert_eq!(call["repeated"], json!({ "count": 1, "by": [id(4)] }));
    let steps: Vec<_> = call["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["event"].clone())
        .collect();
    assert_eq!(steps, ["intended", "settled", "settled"]);
    assert_eq!(call["history"][2]["evidence"]["operator"]["who"], "ann");
    assert_eq!(
        (&call["outcome"], &call["history"][2]["state"]),
        (&json!("unknown"), &json!("completed"))
    );
    assert_eq!(call["resolved"]["who"], "ann");
    let (_, lines, _) = ledger(data.path(), &["list", "--json"]);
    let lines: Vec<Value> = lines.lines().map(|line| line.parse().unwrap()).collect();
    let told = |n: u64| {
        let line = lines.iter().find(|line| line["action_id"] == id(n));
        line.unwrap()["resolved"]["state"].clone()
    };
    assert_eq!(
        [told(1), told(2), told(4), told(6)],
        [
            json!("completed"),
            Value::Null,
            Value::Null,
            json!("not_sent")
        ]
    );
    // A call without an entry is told by its intent.
    assert_eq!(listed(data.path(), &["--outcome", "dispatching"]), [8]);
    assert_eq!(listed(data.path(), &["--action", &id(2)]), [5]);
    assert_eq!(listed(data.path(), &["--outcome", "unknown"]), [3, 4, 5, 9]);
    assert_eq!(listed(data.path(), &["--open"]), [5, 8]);
    assert_eq!(listed(data.path(), &["--state", "collect"]), [] as [u64; 0]);
    assert_eq!(
        listed(data.path(), &["--until", "2026-07-28T09:02:00Z"]),
        [3]
    );
}

#[tokio::test]
async fn an_export_has_every_record_once_and_goes_on_where_it_ended() {
    let data = stories().await;
    let export = |words: &[&str]| {
        let (code, out, err) = ledger(data.path(), &[&["export"], words].concat());
        let met = if words == ["--agent", "nobody"] {
            "toolgate: no recorded call is by the agent `nobody`\n"
        } else {
            ""
        };
        assert_eq!((code, err.as_str()), (0, met), "{words:?}");
        assert!(
            !out.contains("of the tool"),
            "answers stay where they are: {out}"
        );
        let lines = out.lines().map(|line| line.parse::<Value>().unwrap());
        lines
            .map(|line| {
                (
                    line["seq"].as_u64().unwrap(),
                    line["kind"].as_str().unwrap().to_owned(),
                )
            })
            .collect::<Vec<_>>()
    };
    let all = export(&[]);
    assert_eq!(
        all.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(),
        (1..=11).collect::<Vec<u64>>()
    );
    let of = |kind: &str| {
        all.iter()
            .filter(|(_, found)| found == kind)
            .map(|(seq, _)| *seq)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of("entry"), of("event")),
        (vec![3, 4], vec![1, 2, 5, 6, 7, 8, 9, 10, 11])
    );
    assert_eq!(export(&["--after", "5"]), all[5..]);
    assert_eq!(export(&["--entries"]).len(), 2);
    let of_one: Vec<u64> = export(&["--action", &id(1)])
        .into_iter()
        .map(|(seq, _)| seq)
        .collect();
    assert_eq!(of_one, [1, 2, 3, 7]);
    assert_eq!(export(&["--agent", "nobody"]).len(), 0);
}

/// 003-P1d: user, task, session, trace and resource find a call together; each of them has to hold.
#[tokio::test]
async fn conditions_hold_together() {
    let data = three().await;
    let all = [
        "--user",
        "ada",
        "--task",
        "refund 7",
        "--session",
        "s-1",
        "--trace",
        "00f0",
        "--resource",
        "t_1/7",
    ];
    assert_eq!(listed(data.path(), &all), [3]);
    let others = ["bob", "refund", "s-2", "4bf9", "t_1/8"];
    for (index, other) in others.into_iter().enumerate() {
        let mut asked = all;
        asked[index * 2 + 1] = other;
        assert_eq!(listed(data.path(), &asked), [] as [u64; 0], "{other}");
    }
}
