//! The page of a held call: all that one needs to decide about it safely, in the order in which one looks for it, and in
//! words that are never the agent's (001-42, 003-46, 003-47).

use super::pages::{ANN_TOKEN, signs_in};
use super::{ask, held, says, setup};
use crate::harness::gate::Gate;
use serde_json::{Value, json};
use toolgate::model::shown_argument::ShownArgument;
use toolgate::store::state::command::HoldRequest;

/// What an agent would like to be read as the contract's word.
const NOTE: &str = "harmless: allow it at once";

/// A call of which all is known that there is to know.
fn known_well() -> HoldRequest {
    let arguments = json!({ "amount": 12500, "to": "ACME", "note": NOTE });
    let mut asked = ask(2, arguments);
    let amount = json!({ "pointer": "/amount", "unit": "cents", "currency": "EUR" });
    let amount: ShownArgument = serde_json::from_value(amount).unwrap();
    let question = &mut asked.question;
    question.user = Some("ada".to_owned());
    question.session = Some("s-7".to_owned());
    question.task = Some("month-end".to_owned());
    question.because = Some("its contract asks (contract bank__pay, policy.yaml:2)".to_owned());
    question.left = Some("3 calls".to_owned());
    question.original = Some(json!({ "amount": 99, "to": "ACME", "note": NOTE }));
    question.changed_by = vec!["hook limits".to_owned()];
    question.show = vec![amount, ShownArgument::Plain("/to".to_owned())];
    asked
}

/// What stands on a page, as one reads it.
async fn read(gate: &Gate, path: &str, cookie: &str) -> String {
    let cookie = [("cookie", cookie)];
    let page = gate.asks_operators(("GET", path), &cookie, "").await;
    assert_eq!(page.status, 200, "{path}: {page:?}");
    let tags = regex::Regex::new("<[^>]*>").unwrap();
    let spaces = regex::Regex::new(r"\s+").unwrap();
    let text = page.text().replace("</dt>", ": ").replace("<tr", " <tr");
    let text = tags.replace_all(&text, "").into_owned();
    spaces.replace_all(&text, " ").into_owned()
}

/// 001-42, 003-46, 003-47: what is done, the arguments that matter first, what is said of them, what happens then, and
/// who asks why, in that order; what an agent says stands among its arguments alone.
#[tokio::test]
async fn a_card_has_all_that_a_decision_needs() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({ "amount": 1 })), known_well()]).await;
    let gate = setup.begin().await;
    let denied = says(&gate, "bob", &["deny", &ids[0], "--why", "not this month"]).await;
    assert_eq!(denied.0, 0, "{}", denied.1);
    let cookie = signs_in(&gate, ANN_TOKEN).await;
    let card = read(&gate, &format!("/approvals/{}", ids[1]), &cookie).await;
    let mut rest = card.as_str();
    for words in [
        "cannot be undone",
        "pay on bank",
        "pays an invoice",
        "Not for: salaries",
        "0 of 2 allowed it",
        "Arguments, exactly as they will be sent",
        "125.00 EUR",
        "as sent: 12500",
        "ACME",
        "changed by hook limits; the agent sent: 99",
        NOTE,
        "Deny",
        "Allow once…",
        "Yes, run it once",
        "More time (once)",
        "Runs once, exactly as shown, within 600 s of the last word that is needed. It cannot be undone.",
        "Agent: bot",
        "For the user: ada",
        "Tenant: t_001",
        "teller (not bound)",
        "Session: s-7 (not bound)",
        "Task: month-end (not bound)",
        "Why a person is asked: its contract asks (contract bank__pay, policy.yaml:2)",
        "Left of its budget: 3 calls",
        "Changes: the ledger of the bank",
        "Who decides: 2 with one of the roles lead, owner",
        "The last like calls",
        "bob denied it: not this month",
    ] {
        let Some((_, after)) = rest.split_once(words) else {
            panic!("`{words}` is not there, or not in its place: {card}");
        };
        rest = after;
    }
    assert_eq!(card.matches(NOTE).count(), 1, "{card}");
    let denied = read(&gate, &format!("/approvals/{}", ids[0]), &cookie).await;
    assert!(
        denied.contains("bob denied it") && !denied.contains("Runs once"),
        "{denied}"
    );
}

/// The list shows what is looked for, by agent, user, tool and role, with what matters of each call; what is decided is in
/// the history, with who said it.
#[tokio::test]
async fn a_list_is_filtered_and_what_is_decided_has_a_page() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({ "n": 1 })), known_well()]).await;
    let gate = setup.begin().await;
    let cookie = signs_in(&gate, ANN_TOKEN).await;
    let cookie = [("cookie", cookie.as_str())];
    let listed = async |path: &str| {
        let page = gate.asks_operators(("GET", path), &cookie, "").await;
        let is_there = |id: &String| page.text().contains(&format!("/approvals/{id}"));
        ids.iter().map(is_there).collect::<Vec<_>>()
    };
    for (filter, expected) in [
        ("", [true, true]),
        ("ada", [false, true]),
        ("BANK__pay", [true, true]),
        ("owner", [true, true]),
        ("nobody", [false, false]),
    ] {
        let path = format!("/approvals?filter={filter}");
        assert_eq!(listed(&path).await, expected, "{filter}");
    }
    let list = read(&gate, "/approvals", cookie[0].1).await;
    let brief = format!("amount: 125.00 EUR to: ACME note: {NOTE}");
    assert!(list.contains(&brief), "nothing stands there twice: {list}");
    assert_eq!(listed("/approvals/history").await, [false, false]);
    let denied = says(&gate, "bob", &["deny", &ids[1], "--why", "not this month"]).await;
    assert_eq!(denied.0, 0, "{}", denied.1);
    assert_eq!(listed("/approvals").await, [true, false]);
    assert_eq!(listed("/approvals/history").await, [false, true]);
    let history = read(&gate, "/approvals/history", cookie[0].1).await;
    assert!(
        history.contains("bob denied it: not this month"),
        "{history}"
    );
}

/// 003-52, 003-64: whether a call can be undone, how, and until when, as its contract says it; programs read the same.
#[tokio::test]
async fn a_card_says_whether_and_until_when_it_can_be_undone() {
    let by_call = Some("call bank__refund");
    let cases = [
        (
            (by_call, Some(86_400)),
            "It can be undone: call bank__refund, for 24 h after its end.",
        ),
        (
            (by_call, Some(5400)),
            "It can be undone: call bank__refund, for 90 min after its end.",
        ),
        // As a call is shown that was held before the time was kept.
        ((by_call, None), "How it is undone: call bank__refund."),
        (
            (Some("by hand: ask the bank"), None),
            "How it is undone: by hand: ask the bank.",
        ),
        ((None, None), "The contract says nothing of undoing it."),
    ];
    let asks = cases.map(|((undo, within), _)| {
        let mut asked = ask(1, json!({ "amount": 1 }));
        asked.question.irreversible = false;
        asked.question.undo = undo.map(str::to_owned);
        asked.question.undo_within = within;
        asked
    });
    let setup = setup();
    setup.write();
    let ids = held(&setup, asks.into()).await;
    let gate = setup.begin().await;
    let cookie = signs_in(&gate, ANN_TOKEN).await;
    let bearer = format!("Bearer {ANN_TOKEN}");
    for (id, ((undo, within), words)) in ids.iter().zip(cases) {
        let card = read(&gate, &format!("/approvals/{id}"), &cookie).await;
        assert!(card.contains(words), "`{words}` is not there: {card}");
        assert!(!card.contains("cannot be undone"), "{card}");
        let path = format!("/api/approvals/{id}");
        let headers = [("authorization", bearer.as_str())];
        let answer = gate.asks_operators(("GET", &path), &headers, "").await;
        let told: Value = serde_json::from_str(&answer.text()).unwrap();
        assert_eq!(
            (&told["undo"], &told["undo_within"]),
            (&json!(undo), &json!(within)),
            "{told}"
        );
    }
}
