//! Held calls at the door: who may see them, who may decide, and what each refusal says.

use super::super::approvals::LISTED_BYTES_MAX;
use super::*;
use crate::model::clock::hands::TestClock;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::Store;
use crate::store::state::command::{HoldBounds, HoldRequest, StoreCommand, Withdraw};
use crate::store::state::hold::HoldQuestion;
use axum::Router;
use std::time::Duration;

pub(super) const BOB_TOKEN: &str = "0123456789abcdef-bob";
const BOT_TOKEN: &str = "0123456789abcdef-bot";

pub(super) struct ApprovalsFixture {
    pub(super) router: Router,
    pub(super) store: Arc<dyn Store>,
    pub(super) hands: &'static TestClock,
    _data: tempfile::TempDir,
}

impl ApprovalsFixture {
    /// Ann may decide; Bob may only read; an operator is named like the agent.
    pub(super) fn new() -> Self {
        let (data, hands) = (tempfile::tempdir().unwrap(), TestClock::new());
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(hands.clock()));
        let secrets = [ANN_TOKEN, BOB_TOKEN, BOT_TOKEN].map(|token| Secret::new(token.to_owned()));
        let names = [
            known("ann", &["approver"]),
            known("bob", &["auditor"]),
            known("bot", &["approver"]),
        ];
        let operators = Operators::of(names.into_iter().zip(&secrets), OperatorVerbs::default());
        let switches = Switches {
            store: store.clone(),
            ..switches(data.path())
        };
        let names = hosts("127.0.0.1:7778".parse().unwrap(), &[]);
        let router = router(
            Arc::new(FixedStatus { ready: true }),
            switches,
            operators,
            DoorReach {
                hosts: names,
                public_url: None,
                places: 8,
            },
        );
        Self {
            router,
            store,
            hands,
            _data: data,
        }
    }

    /// Holds a call; gives its id.
    pub(super) async fn hold(&self, amount: u64) -> String {
        self.hold_with(amount, json!({ "amount": amount })).await
    }

    async fn hold_with(&self, amount: u64, arguments: Value) -> String {
        self.hold_for("approver", amount, arguments).await
    }

    /// The same, for operators with that role.
    pub(super) async fn hold_for(&self, role: &str, amount: u64, arguments: Value) -> String {
        let question = HoldQuestion {
            agent: "bot".to_owned(),
            tenant: None,
            user: None,
            caller_roles: vec!["teller".to_owned()],
            tool: ToolName::new("bank__pay"),
            arguments,
            answers: None,
            beside: None,
            over: None,
            original: None,
            changed_by: Vec::new(),
            unedited: None,
            terms: crate::model::decision_terms::DecisionTerms::default(),
            show: Vec::new(),
            because: None,
            left: None,
            notify: Vec::new(),
            actions: vec!["pay".to_owned()],
            irreversible: true,
            undo: Some("impossible".to_owned()),
            undo_within: None,
            purpose: "pays an invoice".to_owned(),
            not_for: Some("salaries".to_owned()),
            writes: None,
            session: None,
            task: None,
            policy: "3f9a".to_owned(),
            bound_to: None,
            schema_hash: "a".repeat(64),
            undoes: None,
            own_definition: false,
            request: None,
        };
        let ask = HoldRequest {
            key: held_under(amount),
            id: ActionId::generate(),
            approve_for: 600_000,
            execute_for: 60_000,
            needed: 1,
            roles: vec![role.to_owned()],
            self_approval: false,
            question,
            bounds: HoldBounds {
                all: 256,
                agent: 256,
                caller: 256,
            },
        };
        let id = ask.id.to_string();
        self.store
            .run(StoreCommand::Hold(Box::new(ask)), None)
            .await
            .unwrap()
            .unwrap();
        id
    }

    pub(super) async fn ask(
        &self,
        token: Option<&str>,
        path: &str,
        body: Option<&str>,
    ) -> (u16, Value) {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![
            ("host", "127.0.0.1:7778"),
            ("content-type", "application/json"),
        ];
        headers.extend(
            bearer
                .iter()
                .map(|bearer| ("authorization", bearer.as_str())),
        );
        let method = if body.is_some() { "POST" } else { "GET" };
        let request = request(method, path, &headers)
            .map(|_| Body::from(body.unwrap_or_default().to_owned()));
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (
            status,
            String::from_utf8(body.to_vec()).unwrap().parse().unwrap(),
        )
    }

    async fn decide(&self, token: &str, id: &str, decision: &str) -> (u16, Value) {
        let body = json!({ "decision": decision, "why": "looked at it" }).to_string();
        self.ask(Some(token), &format!("/api/approvals/{id}"), Some(&body))
            .await
    }

    /// Nobody has said anything of the call.
    async fn is_undecided(&self, id: &str) {
        let (_, shown) = self
            .ask(Some(ANN_TOKEN), &format!("/api/approvals/{id}"), None)
            .await;
        assert_eq!(
            (&shown["state"], &shown["decisions"]),
            (&json!("pending"), &json!([]))
        );
    }
}

/// The key under which a call of `amount` is held.
fn held_under(amount: u64) -> Digest {
    Digest::of(&amount.to_le_bytes())
}

/// What its agent has taken back is nobody's denial: neither a program nor a person is told so.
#[tokio::test]
async fn what_an_agent_cancels_is_no_decision() {
    let desk = ApprovalsFixture::new();
    let (open, allowed) = (desk.hold(1).await, desk.hold(2).await);
    assert_eq!(desk.decide(ANN_TOKEN, &allowed, "allow").await.0, 200);
    for (amount, id) in [(1, &open), (2, &allowed)] {
        let withdraw = Withdraw {
            key: held_under(amount),
            id: id.parse().unwrap(),
            who: "bot".to_owned(),
            void: None,
        };
        let withdrawn = desk.store.run(StoreCommand::Withdraw(withdraw), None).await;
        assert!(withdrawn.unwrap().is_ok());
        let path = format!("/api/approvals/{id}/wait");
        let (status, told) = desk.ask(Some(ANN_TOKEN), &path, None).await;
        assert_eq!(status, 200, "{told}");
        assert_eq!(
            (&told["decision"], &told["state"], &told["who"]),
            (&Value::Null, &json!("cancelled"), &json!([])),
            "{told}"
        );
        assert_eq!(told["why"], Value::Null, "{told}");
    }
}

/// 001-A3, 003-46, 003-47: operators see all of a held call, decide once, and are told what came of
/// it.
#[tokio::test]
async fn operators_decide_on_held_calls() {
    let desk = ApprovalsFixture::new();
    assert_eq!(
        desk.ask(Some(BOB_TOKEN), "/api/approvals", None).await,
        (200, json!({ "approvals": [], "more": 0 }))
    );
    let (first, second) = (desk.hold(1).await, desk.hold(2).await);
    let (_, listed) = desk.ask(Some(BOB_TOKEN), "/api/approvals", None).await;
    let ids: Vec<_> = listed["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(ids, [first.as_str(), second.as_str()]);
    let (status, shown) = desk
        .ask(Some(BOB_TOKEN), &format!("/api/approvals/{first}"), None)
        .await;
    assert_eq!((status, &shown), (200, &listed["approvals"][0]));
    assert_eq!(
        (&shown["arguments"], &shown["purpose"]),
        (&json!({ "amount": 1 }), &json!("pays an invoice"))
    );
    assert_eq!(
        (&shown["not_for"], &shown["state"]),
        (&json!("salaries"), &json!("pending"))
    );

    let told = |id: &str, changed: bool, state: &str| {
        (
            200,
            json!({ "id": id, "changed": changed, "state": state, "who": "ann" }),
        )
    };
    assert_eq!(
        desk.decide(ANN_TOKEN, &first, "allow").await,
        told(&first, true, "allowed")
    );
    assert_eq!(
        desk.decide(ANN_TOKEN, &first, "allow").await,
        told(&first, false, "allowed")
    );
    assert_eq!(
        desk.decide(ANN_TOKEN, &second, "deny").await,
        told(&second, true, "denied")
    );
    let (_, shown) = desk
        .ask(Some(BOB_TOKEN), &format!("/api/approvals/{first}"), None)
        .await;
    assert_eq!(
        (&shown["allowed_by"], &shown["decisions"][0]["why"]),
        (&json!(["ann"]), &json!("looked at it"))
    );
    let (_, listed) = desk.ask(Some(BOB_TOKEN), "/api/approvals", None).await;
    assert_eq!(
        listed["approvals"].as_array().unwrap().len(),
        1,
        "what is denied is over"
    );
}

/// 001-54, 001-A3, threat-model §3E E11: who decides is who the token names. Every refusal says
/// what is wrong, and changes nothing.
#[tokio::test]
async fn who_may_not_decide_changes_nothing() {
    let desk = ApprovalsFixture::new();
    let id = desk.hold(1).await;
    let path = format!("/api/approvals/{id}");
    let good = r#"{"decision":"allow","why":"x"}"#;
    let unknown = format!("/api/approvals/{}", ActionId::generate());
    for (token, path, body, status) in [
        (None, "/api/approvals", None, 401),
        (None, path.as_str(), None, 401),
        (None, &path, Some(good), 401),
        (Some("x"), &path, Some(good), 401),
        (Some(BOB_TOKEN), &path, Some(good), 403),
        (Some(BOT_TOKEN), &path, Some(good), 403),
        (Some(ANN_TOKEN), &unknown, Some(good), 404),
        (Some(ANN_TOKEN), &unknown, None, 404),
        (Some(ANN_TOKEN), "/api/approvals/0198", Some(good), 400),
        (Some(ANN_TOKEN), "/api/approvals/0198", None, 400),
    ] {
        let (found, told) = desk.ask(token, path, body).await;
        assert_eq!(found, status, "{path}: {told}");
        assert!(
            told["error"].is_string() && told["hint"].is_string(),
            "{told}"
        );
    }
    let (_, told) = desk.decide(BOB_TOKEN, &id, "deny").await;
    assert_eq!(
        told["error"],
        "only an operator with one of these roles can decide: approver"
    );
    let (_, told) = desk.decide(BOT_TOKEN, &id, "allow").await;
    assert_eq!(
        told["error"],
        "a call is not decided by an operator of the same name as its agent or user"
    );
    desk.is_undecided(&id).await;

    assert_eq!(desk.decide(ANN_TOKEN, &id, "deny").await.0, 200);
    let (status, told) = desk.decide(ANN_TOKEN, &id, "allow").await;
    assert_eq!(
        (status, &told["error"]),
        (409, &json!("it is denied already, and that stands"))
    );
}

/// threat-model §3E E11: a body that says more than the decision and its reason decides nothing.
#[tokio::test]
async fn what_is_no_decision_changes_nothing() {
    let desk = ApprovalsFixture::new();
    let id = desk.hold(1).await;
    let path = format!("/api/approvals/{id}");
    for wrong in [
        "",
        "{}",
        "[]",
        r#"["allow","x"]"#,
        r#"{"decision":"allow"}"#,
        r#"{"why":"x"}"#,
        r#"{"decision":"allow","why":""}"#,
        r#"{"decision":"allow","why":"a\nb"}"#,
        r#"{"decision":"Allow","why":"x"}"#,
        r#"{"decision":true,"why":"x"}"#,
        r#"{"decision":"allow","why":"x","who":"ann"}"#,
        r#"{"decision":"allow","why":"x","approver":"ann"}"#,
        r#"{"decision":"allow","why":"x","roles":["approver"]}"#,
        r#"{"decision":"allow","why":"x","arguments":{"amount":2}}"#,
        r#"{"decision":"allow","decision":"deny","why":"x"}"#,
    ] {
        assert_eq!(
            desk.ask(Some(ANN_TOKEN), &path, Some(wrong)).await.0,
            400,
            "{wrong}"
        );
    }
    // What cannot be undone is allowed one by one.
    let always = r#"{"decision":"allow-always","why":"x"}"#;
    assert_eq!(desk.ask(Some(ANN_TOKEN), &path, Some(always)).await.0, 409);
    let (status, told) = desk
        .ask(
            Some(ANN_TOKEN),
            &path,
            Some(&format!("{{\"why\":\"{}\"}}", "x".repeat(1 << 20))),
        )
        .await;
    assert_eq!(status, 413, "{told}");
    assert!(
        told["error"]
            .as_str()
            .unwrap()
            .starts_with("the request is longer than "),
        "{told}"
    );
    desk.is_undecided(&id).await;
}

/// Long arguments keep nobody from reading the list: it has a bound, and says how many more there
/// are.
#[tokio::test]
async fn a_list_has_a_bound() {
    let desk = ApprovalsFixture::new();
    for amount in 0..100 {
        desk.hold_with(amount, json!({ "note": "x".repeat(15_000) }))
            .await;
    }
    let (_, listed) = desk.ask(Some(ANN_TOKEN), "/api/approvals", None).await;
    let (shown, more) = (
        listed["approvals"].as_array().unwrap().len(),
        listed["more"].as_u64().unwrap(),
    );
    assert!(
        shown > 60 && more > 20 && shown as u64 + more == 100,
        "{shown} and {more}"
    );
    assert!(listed.to_string().len() < LISTED_BYTES_MAX + 1000);
}

/// 001-53: too late is as if there were no such thing.
#[tokio::test]
async fn nobody_decides_too_late() {
    let desk = ApprovalsFixture::new();
    let id = desk.hold(1).await;
    desk.hands.pass(Duration::from_mins(10));
    let (late, never) = (
        desk.decide(ANN_TOKEN, &id, "allow").await,
        ActionId::generate().to_string(),
    );
    let gone = format!("approval {id} is expired or not found");
    assert_eq!((late.0, &late.1["error"]), (404, &json!(gone)));
    let unknown = desk.decide(ANN_TOKEN, &never, "allow").await;
    assert_eq!(
        unknown.1["error"],
        gone.replace(&id, &never),
        "nobody is told which"
    );
    let (status, shown) = desk
        .ask(Some(ANN_TOKEN), &format!("/api/approvals/{id}"), None)
        .await;
    assert_eq!((status, &shown["state"]), (200, &json!("expired")));
}
