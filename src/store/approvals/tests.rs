//! What operators see of held calls, and what their words do.

use super::super::memory::MemoryStore;
use super::super::state::command::{HoldVoid, Intent, Withdraw};
use super::super::state::hold::INCIDENT_SURFACE;
use super::super::state::tests::{ask, intent, right};
use super::*;
use crate::model::clock::hands::TestClock;
use std::time::Duration;

fn said(who: &str, allow: bool) -> DecisionRequest {
    DecisionRequest {
        who: who.to_owned(),
        right: right(&["approver"], None),
        allow,
        why: " looked at it ".to_owned(),
        usual: None,
        shown: None,
        surface: None,
    }
}

const STATES: [&str; 4] = ["allowed", "denied", "used", "pending"];

/// A call in each of these states, held in their order.
struct HeldCalls {
    hands: &'static TestClock,
    store: MemoryStore,
    ids: Vec<ActionId>,
}

impl HeldCalls {
    async fn of_each_state() -> Self {
        let hands = TestClock::new();
        let mut held = Self {
            hands,
            store: MemoryStore::new(hands.clock()),
            ids: Vec::new(),
        };
        for state in STATES {
            held.hold(state).await;
            hands.pass(Duration::from_millis(1));
        }
        held
    }

    async fn hold(&mut self, state: &str) {
        let ask = ask(state);
        self.run(StoreCommand::Hold(Box::new(ask.clone()))).await;
        self.ids.push(ask.id);
        if state != "pending" {
            decide(
                &self.store,
                &|_| None,
                ask.id,
                said("ann", state != "denied"),
            )
            .await
            .unwrap();
        }
        if state == "used" {
            let call = Intent {
                hold: Some(ask.key),
                ..intent("call", self.store.token())
            };
            self.run(StoreCommand::Begin(Box::new(call))).await;
        }
    }

    async fn run(&self, command: StoreCommand) {
        drop(self.store.run(command, None).await.unwrap().unwrap());
    }

    async fn states(&self) -> Vec<String> {
        let mut states = Vec::new();
        for id in &self.ids {
            states.push(
                show(&self.store, &|_| None, *id)
                    .await
                    .unwrap()
                    .unwrap()
                    .state,
            );
        }
        states
    }
}

/// 001-44: what is shown is what was asked, whole (003-46, 003-47), and what was said of it.
#[tokio::test]
async fn operators_see_all_of_what_will_run() {
    let held = Box::pin(HeldCalls::of_each_state()).await;
    let shown = show(&held.store, &|_| None, held.ids[0])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        shown.arguments,
        Some(serde_json::json!({ "amount": 100, "to": "DE89" }))
    );
    assert_eq!(
        (shown.purpose.as_str(), shown.not_for.as_deref()),
        ("pays an invoice", Some("salaries"))
    );
    assert_eq!(
        (shown.agent.as_str(), shown.tenant.as_deref()),
        ("billing-agent", Some("t_001"))
    );
    assert_eq!(
        (
            shown.allowed_by.as_slice(),
            shown.needed,
            shown.irreversible
        ),
        (&["ann".to_owned()][..], 1, true)
    );
    assert_eq!(
        (shown.decisions[0].why.as_str(), shown.execute_by.is_some()),
        ("looked at it", true)
    );
    let read: OpenHold = serde_json::from_str(&serde_json::to_string(&shown).unwrap()).unwrap();
    assert_eq!(read, shown);
}

/// 001-44: what is open is listed in the order in which it was asked; what is over is not, and can
/// still be looked at.
#[tokio::test]
async fn operators_see_what_is_open() {
    let held = Box::pin(HeldCalls::of_each_state()).await;
    let open = open_holds(&held.store, &|_| None).await.unwrap();
    assert_eq!(
        open.iter().map(|open| &open.state).collect::<Vec<_>>(),
        ["allowed", "pending"]
    );
    assert_eq!(held.states().await, STATES);
    let shown = show(&held.store, &|_| None, held.ids[0])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(shown, open[0]);

    held.hands.pass(Duration::from_mins(1));
    assert_eq!(held.states().await, ["lapsed", "denied", "used", "pending"]);
    held.hands.pass(Duration::from_mins(9));
    assert_eq!(
        held.states().await,
        ["expired", "denied", "used", "expired"]
    );
    assert_eq!(open_holds(&held.store, &|_| None).await.unwrap(), []);
    assert_eq!(
        show(&held.store, &|_| None, ActionId::generate())
            .await
            .unwrap(),
        None
    );
}

/// A call for which two operators have to speak.
struct HeldForTwo {
    hands: &'static TestClock,
    store: MemoryStore,
    id: ActionId,
}

impl HeldForTwo {
    async fn new() -> Self {
        let hands = TestClock::new();
        let store = MemoryStore::new(hands.clock());
        let mut asked = ask("key");
        asked.needed = 2;
        let id = asked.id;
        assert_eq!(
            decide(&store, &|_| None, id, said("ann", true)).await,
            Err(DecisionError::Gone(id)),
            "it is not held yet"
        );
        store
            .run(StoreCommand::Hold(Box::new(asked)), None)
            .await
            .unwrap()
            .unwrap();
        Self { hands, store, id }
    }

    async fn decide(&self, request: DecisionRequest) -> Result<DecisionOutcome, DecisionError> {
        decide(&self.store, &|_| None, self.id, request).await
    }
}

/// A word without a reason, or with one that cannot be shown, is none.
#[tokio::test]
async fn operators_give_reasons() {
    let held = Box::pin(HeldForTwo::new()).await;
    for why in [
        "",
        "  ",
        "a\nb",
        "\u{7}",
        &"x".repeat(MAX_DECISION_REASON_BYTES + 1),
    ] {
        let request = DecisionRequest {
            why: why.to_owned(),
            ..said("ann", true)
        };
        let unfit = held.decide(request).await;
        assert!(matches!(unfit, Err(DecisionError::Unfit(_))), "{why:?}");
    }
}

#[tokio::test]
async fn operators_decide_what_is_theirs() {
    let held = Box::pin(HeldForTwo::new()).await;
    let not_yours = |is_itself| {
        Err(DecisionError::NotYours {
            roles: vec!["approver".to_owned()],
            is_itself,
        })
    };
    let teller = DecisionRequest {
        right: right(&["teller"], None),
        ..said("eve", true)
    };
    assert_eq!(held.decide(teller).await, not_yours(false));
    assert_eq!(
        held.decide(said("billing-agent", true)).await,
        not_yours(true)
    );
    // More time is refused with the same words.
    for (who, role, is_itself) in [
        ("eve", "teller", false),
        ("billing-agent", "approver", true),
    ] {
        let more_time = ExtensionRequest {
            who: who.to_owned(),
            roles: vec![role.to_owned()],
            why: None,
        };
        let extended = extend(&held.store, &|_| None, held.id, more_time).await;
        assert_eq!(extended.err(), not_yours(is_itself).err(), "{who}");
    }
}

/// Whatever an operator is told is what was counted.
#[tokio::test]
async fn operators_are_told_what_their_words_did() {
    let held = Box::pin(HeldForTwo::new()).await;
    let told = |changed, state: &str| {
        let waited = (changed && state == "allowed").then_some(Duration::from_secs(7));
        Ok(DecisionOutcome {
            changed,
            state: state.to_owned(),
            waited,
        })
    };
    assert_eq!(held.decide(said("ann", true)).await, told(true, "pending"));
    assert_eq!(held.decide(said("ann", true)).await, told(false, "pending"));
    held.hands.pass(Duration::from_secs(7));
    let longest = DecisionRequest {
        why: "x".repeat(MAX_DECISION_REASON_BYTES),
        ..said("bob", true)
    };
    assert_eq!(held.decide(longest).await, told(true, "allowed"));
    assert_eq!(held.decide(said("cyd", true)).await, told(false, "allowed"));
    assert_eq!(
        held.decide(said("cyd", false)).await,
        Err(DecisionError::Other { allowed: true })
    );
    held.hands.pass(Duration::from_mins(1));
    assert_eq!(
        held.decide(said("cyd", true)).await,
        Err(DecisionError::Gone(held.id))
    );
}

/// guarantees §7: a call that can never run is nobody's to allow, to deny or to prolong; nothing is written down.
#[tokio::test]
async fn what_is_void_is_said_whatever_the_word() {
    let held = Box::pin(HeldForTwo::new()).await;
    let why = "the tool has changed".to_owned();
    let void: &VoidJudge = &|_| Some("the tool has changed");
    for allow in [true, false] {
        let word = decide(&held.store, void, held.id, said("ann", allow)).await;
        assert_eq!(word, Err(DecisionError::Void(why.clone())), "{allow}");
    }
    let more_time = ExtensionRequest {
        who: "ann".to_owned(),
        roles: vec!["approver".to_owned()],
        why: None,
    };
    let extended = extend(&held.store, void, held.id, more_time).await;
    assert_eq!(extended, Err(DecisionError::Void(why.clone())));
    let shown = show(&held.store, void, held.id).await.unwrap().unwrap();
    assert_eq!(
        (shown.state.as_str(), shown.void.as_deref()),
        ("void", Some(why.as_str()))
    );
    assert_eq!(shown.decisions, []);
    let now = show(&held.store, &|_| None, held.id).await.unwrap();
    assert_eq!(now.unwrap().state, "pending", "nobody has denied it");
}

/// guarantees §7: what was allowed and is void now is not said to stand; what an incident has ended is void for good, by
/// its words, whatever the policy says afterwards.
#[tokio::test]
async fn what_is_void_is_void_after_a_word_and_after_an_incident() {
    let held = Box::pin(HeldCalls::of_each_state()).await;
    let (allowed, denied, id) = (held.ids[0], held.ids[1], held.ids[3]);
    let void: &VoidJudge = &|_| Some("the tool has changed");
    for allow in [true, false] {
        let word = decide(&held.store, void, allowed, said("bob", allow)).await;
        let why = "the tool has changed".to_owned();
        assert_eq!(word, Err(DecisionError::Void(why)), "{allow}");
    }
    let again = decide(&held.store, void, denied, said("bob", false)).await;
    assert!(!again.unwrap().changed, "what was denied is not void");
    let withdraw = Withdraw {
        key: ask("pending").key,
        id,
        who: "ann".to_owned(),
        void: Some(HoldVoid {
            surface: INCIDENT_SURFACE,
            why: "incident 1: odd".to_owned(),
        }),
    };
    held.run(StoreCommand::Withdraw(withdraw)).await;
    for allow in [true, false] {
        let word = decide(&held.store, &|_| None, id, said("bob", allow)).await;
        let why = "incident 1: odd".to_owned();
        assert_eq!(word, Err(DecisionError::Void(why)), "{allow}");
    }
    let shown = show(&held.store, &|_| None, id).await.unwrap().unwrap();
    let told = (shown.state.as_str(), shown.void.as_deref());
    assert_eq!(told, ("void", Some("incident 1: odd")));
}
