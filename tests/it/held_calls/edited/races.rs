//! Operators who change calls and say words on them all at once, while their agents ask again and again: each
//! call runs once, with what was allowed last, or not at all (guarantees §7).

use super::{HoldingGate, editable, given};
use crate::harness::answer::code;
use crate::held_calls::restarts::killed_at;
use crate::held_calls::{ANN, call, held};
use crate::kills::{HELD, build};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Mutex;
use toolgate_faults::dice::{Dice, seed};

/// Calls that are held at once.
const CALLS: u64 = 6;
/// What each operator tries on each of them.
const TRIES: u64 = 12;
/// Where chance begins.
const SEED: u64 = 20_261_128;

/// What operators were shown of calls, and what they allowed.
#[derive(Default)]
struct Witness {
    /// The arguments by what names the call as it was shown.
    shown: HashMap<String, Value>,
    /// As what each call was allowed, by its id.
    allowed: HashMap<String, String>,
    /// How many changes were made.
    edits: usize,
}

/// An operator at the door.
struct AttackingOperator<'a> {
    stage: &'a HoldingGate,
    token: &'static str,
    witness: &'a Mutex<Witness>,
    dice: Dice,
}

impl AttackingOperator<'_> {
    async fn asks(&self, (method, path): (&str, &str), body: &Value) -> (u16, Value) {
        let bearer = format!("Bearer {}", self.token);
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let body = body.to_string();
        let answer = self
            .stage
            .gate
            .asks_operators((method, path), &headers, &body);
        let answer = answer.await;
        (answer.status, answer.message())
    }

    /// Keeps what is shown of a call; gives what names it so.
    fn sees(&self, hold: &Value) -> String {
        let shown = hold["shown"].as_str().unwrap().to_owned();
        let arguments = hold["arguments"].clone();
        let mut witness = self.witness.lock().unwrap();
        let before = witness.shown.insert(shown.clone(), arguments.clone());
        assert!(
            before.as_ref().is_none_or(|before| *before == arguments),
            "one name for two: {before:?} {hold}"
        );
        shown
    }

    /// One of an edit, a forbidden one and a word, on what was shown last.
    async fn tries(&mut self, id: &str) {
        let path = format!("/api/approvals/{id}");
        let (status, hold) = self.asks(("GET", &path), &Value::Null).await;
        if status != 200 || hold["state"] != "pending" {
            return;
        }
        let shown = self.sees(&hold);
        let choice = self.dice.below(10);
        if choice < 4 {
            let word = json!({ "decision": "allow-once", "why": "due", "shown": shown });
            let (status, said) = self.asks(("POST", &path), &word).await;
            if status == 200 && said["state"] == "allowed" && said["changed"] == true {
                let mut witness = self.witness.lock().unwrap();
                let before = witness.allowed.insert(id.to_owned(), shown);
                assert_eq!(before, None, "allowed twice: {said}");
            }
            return;
        }
        let (pointer, value) = match choice {
            4..8 => ("/n", json!(self.dice.below(90) + 1)),
            8 => ("/note", json!(format!("note {}", self.dice.below(9)))),
            _ => ("/to", json!("DE66")),
        };
        let edit = json!({ "changes": { pointer: value }, "why": "less", "shown": shown });
        let (status, hold) = self.asks(("POST", &format!("{path}/edit")), &edit).await;
        assert!(pointer != "/to" || status != 200, "{hold}");
        if status == 200 {
            self.sees(&hold);
            self.witness.lock().unwrap().edits += 1;
        }
    }
}

/// Two operators who may, and one who has no role for it, at each call; its agent asks meanwhile.
async fn attacked(stage: &HoldingGate, ids: &[String], witness: &Mutex<Witness>) {
    let dice = Dice::new(seed(SEED));
    let tokens = [
        "token-of-ann-who-has-the-role",
        "token-of-eve-who-has-the-role",
        "token-of-bob-who-has-another",
    ];
    let mut nth = 0;
    let mut operators = Vec::new();
    for token in tokens {
        for id in ids {
            nth += 1;
            let mut operator = AttackingOperator {
                stage,
                token,
                witness,
                dice: dice.fork(nth),
            };
            operators.push(async move {
                for _ in 0..TRIES {
                    operator.tries(id).await;
                }
            });
        }
    }
    let agents = (0..CALLS).map(|n| async move {
        for _ in 0..TRIES {
            pays(stage, n).await;
        }
    });
    tokio::join!(join_all(operators), join_all(agents));
}

async fn pays(stage: &HoldingGate, n: u64) -> Value {
    let arguments = json!({ "n": 50, "note": "for May", "to": format!("DE{n}") });
    call(&stage.bot(), "pay", arguments, &format!("k{n}")).await
}

/// What the bank was given of the call, each time.
fn executed(stage: &HoldingGate, n: u64) -> Vec<Value> {
    let seen = stage.scripted.seen().into_iter();
    let calls = seen.filter(|seen| seen.method() == "tools/call");
    let arguments = calls.map(|seen| seen.body["params"]["arguments"].clone());
    arguments
        .filter(|arguments| arguments["to"] == format!("DE{n}"))
        .collect()
}

/// guarantees §7: whatever three operators do at once to calls that are held, each runs once at most, exactly as
/// it was shown to the one who allowed it last; what the contract does not name is never changed, and who has
/// no role changes nothing.
#[tokio::test]
async fn each_call_runs_as_it_was_allowed_last() {
    for more in ["", ", required: 2"] {
        let stage = HoldingGate::with(&editable(more), "enforce").await;
        let mut ids = Vec::new();
        for n in 0..CALLS {
            ids.push(held(&pays(&stage, n).await));
        }
        let witness = Mutex::<Witness>::default();
        attacked(&stage, &ids, &witness).await;
        let witness = witness.into_inner().unwrap();
        assert!(
            witness.edits > 0 && !witness.allowed.is_empty(),
            "nothing was tried"
        );
        for (n, id) in (0..CALLS).zip(&ids) {
            let answer = pays(&stage, n).await;
            let ran = executed(&stage, n);
            if let Some(shown) = witness.allowed.get(id) {
                assert_eq!(code(&answer), None, "{answer}");
                assert_eq!(ran, [witness.shown[shown].clone()], "{answer}");
            } else {
                assert_eq!(held(&answer), *id);
                assert_eq!(ran, Vec::<Value>::new());
            }
        }
    }
}

/// guarantees §7, threat-model §12: killed once a word on a changed call is durable, that stands, and the call
/// runs once as it was changed; killed again once it was sent, it is never sent again, nor as it was before.
#[tokio::test]
async fn a_word_on_a_changed_call_outlives_a_kill() {
    build();
    let stage = HoldingGate::editing("").await;
    let pay = async |stage: &HoldingGate| call(&stage.bot(), "pay", given(), "k").await;
    let id = held(&pay(&stage).await);
    assert_eq!(stage.edits(ANN, &id, "/n=20").await.0, 0);
    let stage = killed_at(stage, HELD[1], async |stage| {
        let (status, said) = stage.allows_as_is("eve", &id).await;
        assert_ne!(status, 0, "{said}");
    })
    .await;
    let hold = stage.one(&id).await;
    assert_eq!(
        (&hold["state"], &hold["arguments"]["n"]),
        (&json!("allowed"), &json!(20)),
        "{hold}"
    );
    assert_ne!(stage.edits(ANN, &id, "/n=30").await.0, 0, "it is decided");
    let stage = killed_at(stage, "first-response-byte", async |stage| {
        let bot = stage.bot();
        let lost = tokio::spawn(async move { call(&bot, "pay", given(), "k").await });
        assert!(lost.await.is_err(), "nobody answers");
    })
    .await;
    let answer = pay(&stage).await;
    assert_eq!(
        code(&answer).as_deref(),
        Some("outcome_unknown"),
        "{answer}"
    );
    let sent = stage.scripted.seen().into_iter();
    let mut sent = sent.filter(|seen| seen.method() == "tools/call");
    let ran = sent
        .next()
        .map(|seen| seen.body["params"]["arguments"]["n"].clone());
    assert_eq!((ran, sent.count()), (Some(json!(20)), 0));
}
