//! Operators, their roles and what these allow change while calls are held and doors are open: what is configured
//! counts from its reading on, for whatever has not happened by then (issue 20 "hot reload of all of it").

use super::grants::pays;
use super::*;
use crate::harness::answer::{Answer, Reading, exchange, open};
use crate::harness::setup::beside;
use crate::harness::stdio::Launched;
use crate::kills::{PROGRAM, build};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

const ANN_TOKEN: &str = "token-of-ann-who-has-the-role";
const EVE_TOKEN: &str = "token-of-eve-who-has-the-role";
const LEA: &str = "{ name: lea, token: token-of-lea-who-is-new-here, roles: [finance, auditor] }, ";
const LEA_TOKEN: &str = "token-of-lea-who-is-new-here";

/// Ann is gone, or is one who decides about nothing that is held here.
fn without_ann() -> [String; 2] {
    let roles = format!("{ANN_TOKEN}, roles: [finance]");
    let ann = format!("{{ name: ann, token: {roles} }},");
    [
        OPERATORS.replacen(&ann, "", 1),
        OPERATORS.replacen(&roles, &roles.replace("finance", "sre"), 1),
    ]
}

/// The same operators, and lea.
fn with_lea() -> String {
    OPERATORS.replacen("[ ", &format!("[ {LEA}"), 1)
}

impl HoldingGate {
    /// Writes these operators into the configuration.
    fn configures(&self, operators: &str) {
        assert_ne!(operators, OPERATORS, "nothing was edited");
        self.gate.setup.clone().operators(operators).write();
        self.gate.hang_up();
    }

    /// What the operators' door answers to who has that token.
    async fn answers(&self, token: &str, path: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        self.gate.asks_operators(("GET", path), &headers, "").await
    }

    /// The stream of what happens to held calls, opened with that token, behind its first lines.
    async fn looks_on(&self, token: &str) -> Reading {
        let request = format!(
            "GET /api/approvals/events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            self.gate.operators
        );
        let mut stream = open(self.gate.operators, request.into_bytes())
            .await
            .unwrap();
        while !stream.line().await.unwrap().is_empty() {}
        stream
    }

    /// Waits until nobody's word on that call counts any more, as eve is shown it.
    async fn is_void(&self, id: &str) {
        until("it is void", || async {
            let shown = self
                .answers(EVE_TOKEN, &format!("/api/approvals/{id}"))
                .await;
            let shown: Value = serde_json::from_str(&shown.text()).unwrap();
            let why = shown["void"].as_str().unwrap_or_default();
            why.contains("is none any more").then_some(())
        })
        .await;
    }

    /// Waits until that grant covers nothing any more.
    async fn is_dead(&self, grant: &str) {
        until("it is dead", || async {
            let shown = self.answers(EVE_TOKEN, "/api/grants").await.text();
            let shown: Value = serde_json::from_str(&shown).unwrap();
            let all = shown["grants"].as_array().unwrap();
            let own = all.iter().find(|one| one["id"] == *grant);
            own.is_none_or(|own| own["state"] != "active").then_some(())
        })
        .await;
    }

    /// Waits until it is answered so.
    async fn is_answered(&self, token: &str, path: &str, status: u16) {
        until(&format!("{status} of {path} for {token}"), || async {
            (self.answers(token, path).await.status == status).then_some(())
        })
        .await;
    }
}

/// guarantees §7, threat-model §3E: what an operator has allowed who is none any more does not run, nor by a role that
/// was taken away.
#[tokio::test]
async fn what_one_who_is_gone_has_allowed_does_not_run() {
    for gone in without_ann() {
        let stage = HoldingGate::new().await;
        let bot = stage.bot();
        let id = held(&call(&bot, "pay", json!({ "n": 1 }), "k").await);
        stage.allows(&id).await;
        stage.configures(&gone);
        stage.is_void(&id).await;
        let told = call(&bot, "pay", json!({ "n": 1 }), "k").await;
        assert_eq!(code(&told).as_deref(), Some("approval_timeout"), "{told}");
        assert_eq!(stage.scripted.executions(), 0);
        let log = stage.gate.log();
        assert!(!log.contains("restart to apply it"), "{log}");
    }
}

/// A bank before which a call waits once it has its turn, as soon as there is that pipe.
async fn pausing(policy: &str) -> (HoldingGate, PathBuf) {
    build();
    let scripted = bank(Offers::default()).await;
    let setup = in_front(&scripted, policy).program(beside(PROGRAM));
    let pipe = setup.directory().join("go-on");
    let setup = setup.environment("TOOLGATE_HOLD", &format!("beginning:{}", pipe.display()));
    // The call that waits there has a thread for itself.
    let gate = setup.environment("TOKIO_WORKER_THREADS", "4").start().await;
    (HoldingGate { scripted, gate }, pipe)
}

/// Lets what waits at `pipe` go on, once one call does.
async fn goes_on(pipe: &Path, meanwhile: impl Future<Output = ()>) {
    let arrived = pipe.with_extension("arrived");
    until("it waits for its turn", || async {
        let length = std::fs::metadata(&arrived).map_or(0, |file| file.len());
        (length == 1).then_some(())
    })
    .await;
    meanwhile.await;
    let writer = std::fs::File::options().write(true).open(pipe).unwrap();
    std::fs::remove_file(pipe).unwrap();
    drop(writer);
}

/// The enemy of the look before: a call that is allowed, or granted, and waits for its turn while its operator is taken
/// away, is not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_its_turn_is_looked_at_again() {
    for (is_granted, gone) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let more = if is_granted { ", ask: on-miss" } else { "" };
        let (stage, pipe) = pausing(&policy(more)).await;
        let (mut id, mut granted) = (String::new(), None);
        if is_granted {
            granted = Some(stage.grants(&["--at-most", "/n=5"]).await);
        } else {
            id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
            stage.allows(&id).await;
        }
        let made = Command::new("mkfifo").arg(&pipe).status().await.unwrap();
        assert!(made.success());
        let taken_away = async {
            stage.configures(&without_ann()[gone]);
            // Eve is shown what ann has allowed as void, or granted as dead.
            match &granted {
                None => stage.is_void(&id).await,
                Some(grant) => stage.is_dead(grant).await,
            }
        };
        let (told, ()) = tokio::join!(
            pays(&stage, json!({ "n": 1 }), "k"),
            goes_on(&pipe, taken_away)
        );
        assert!(
            told.as_ref()
                .is_some_and(|code| code.starts_with("approval_")),
            "{is_granted} {gone}: {told:?}"
        );
        assert_eq!(stage.scripted.executions(), 0, "{is_granted} {gone}");
    }
}

/// An operator whom a reload names decides at once, and one whose role it takes away does not; a role of `admin.verbs`
/// is what the files say; nothing asks for a restart.
#[tokio::test]
async fn who_is_named_decides_at_once() {
    let stage = HoldingGate::new().await;
    assert_eq!(stage.answers(LEA_TOKEN, "/api/approvals").await.status, 401);
    assert_eq!(stage.answers(EVE_TOKEN, "/api/tasks").await.status, 403);
    stage.configures(&format!("{}, verbs: {{ switch: [finance] }}", with_lea()));
    stage.is_answered(LEA_TOKEN, "/api/approvals", 200).await;
    stage.is_answered(EVE_TOKEN, "/api/tasks", 200).await;
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    let body = r#"{ "decision": "allow", "why": "due" }"#;
    let bearer = format!("Bearer {LEA_TOKEN}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/json"),
    ];
    let path = format!("/api/approvals/{id}");
    let allowed = stage
        .gate
        .asks_operators(("POST", &path), &headers, body)
        .await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    let ran = call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await;
    assert_eq!(code(&ran), None, "{ran}");
    stage.gate.setup.write();
    stage.is_answered(LEA_TOKEN, "/api/approvals", 401).await;
    stage.is_answered(EVE_TOKEN, "/api/tasks", 403).await;
    let log = stage.gate.log();
    assert!(!log.contains("restart to apply it"), "{log}");
    assert!(!log.contains(LEA_TOKEN), "{log}");
}

/// Other operators come with the policy of the same files, or not at all: where its packs fail, nobody is named whom
/// the last good files did not name. A token that is taken away is gone all the same.
#[tokio::test]
async fn operators_come_with_their_policy() {
    let scripted = bank(Offers::default()).await;
    let setup = in_front(&scripted, &policy("")).more("packs: require");
    let pack = |expect: &str| {
        let sample = "name: free, caller: bot, tool: bank__free, arguments: {}";
        format!("pack: free\nsamples:\n  - {{ {sample}, expect: {expect} }}\n")
    };
    let put = |setup: &Setup, expect: &str| {
        let tests = setup.directory().join("tests");
        std::fs::create_dir_all(&tests).unwrap();
        std::fs::write(tests.join("free.yaml"), pack(expect)).unwrap();
    };
    put(&setup, "allow");
    let gate = setup.start().await;
    let stage = HoldingGate { scripted, gate };
    let is_refused = async |times: f64| {
        let kept = "toolgate_reloads_total{outcome=\"kept\"}";
        until("it is refused", || async {
            (stage.gate.metric(kept).await >= times).then_some(())
        })
        .await;
    };
    put(&stage.gate.setup, "rbac_denied");
    is_refused(1.0).await;
    stage.configures(&with_lea().replace(EVE_TOKEN, "token-of-eve-that-is-another"));
    is_refused(2.0).await;
    for gone in [EVE_TOKEN, LEA_TOKEN, "token-of-eve-that-is-another"] {
        let answer = stage.answers(gone, "/api/approvals").await;
        assert_eq!(answer.status, 401, "{gone}");
    }
    assert_eq!(stage.answers(ANN_TOKEN, "/api/approvals").await.status, 200);
    put(&stage.gate.setup, "allow");
    stage.is_answered(LEA_TOKEN, "/api/approvals", 200).await;
    let answer = stage
        .answers("token-of-eve-that-is-another", "/api/approvals")
        .await;
    assert_eq!(answer.status, 200);
}

/// threat-model §3E: where the last operator is taken away, nobody is let in any more, and what that one has allowed does
/// not run; the door is opened to nobody, and a new one comes in.
#[tokio::test]
async fn without_operators_the_door_stays_shut() {
    let stage = HoldingGate::new().await;
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    stage.allows(&id).await;
    stage.configures("tokens: []");
    until("the ledger tells of other operators", || async {
        let notes = stage
            .gate
            .setup
            .run(&["ledger", "events", "--data", "data", "--json"])
            .await;
        let notes = String::from_utf8(notes.stdout).unwrap();
        notes.contains(r#""operators":true"#).then_some(())
    })
    .await;
    let log = stage.gate.log();
    assert!(
        log.contains("the last operator is gone from `admin`"),
        "{log}"
    );
    let request = format!(
        "GET /api/status HTTP/1.1\r\nHost: {}\r\n\r\n",
        stage.gate.operators
    );
    let stranger = exchange(stage.gate.operators, request.into_bytes()).await;
    assert_eq!(stranger.unwrap().status, 401);
    assert_eq!(stage.answers(ANN_TOKEN, "/api/approvals").await.status, 401);
    let told = call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await;
    assert_eq!(
        code(&told).as_deref(),
        Some("approver_unreachable"),
        "{told}"
    );
    assert_eq!(stage.scripted.executions(), 0);
    stage.configures(&with_lea());
    stage.is_answered(LEA_TOKEN, "/api/approvals", 200).await;
}

/// What is open for an operator ends when the files say another thing of that one, and of that one alone: a
/// stream of events of a program, and a sign-in on the pages.
#[tokio::test]
async fn what_is_open_ends_with_its_operator() {
    let stage = HoldingGate::new().await;
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let own = format!("http://{}", stage.gate.operators);
    let signs_in = async |token: &str| {
        let headers = [kind, ("origin", own.as_str())];
        let form = format!("token={token}");
        let entered = stage
            .gate
            .asks_operators(("POST", "/login"), &headers, &form)
            .await;
        let cookie = entered.header("set-cookie").unwrap_or_default();
        let (pair, _) = cookie
            .split_once(';')
            .unwrap_or_else(|| panic!("{entered:?}"));
        pair.to_owned()
    };
    let page = async |cookie: &str| {
        let headers = [("Cookie", cookie), ("Accept", "text/html")];
        let shown = stage
            .gate
            .asks_operators(("GET", "/approvals"), &headers, "")
            .await;
        shown.status
    };
    let (mut of_ann, mut of_eve) = (
        stage.looks_on(ANN_TOKEN).await,
        stage.looks_on(EVE_TOKEN).await,
    );
    let cookies = [signs_in(ANN_TOKEN).await, signs_in(EVE_TOKEN).await];
    assert_eq!(
        [page(&cookies[0]).await, page(&cookies[1]).await],
        [200, 200]
    );
    stage.configures(&without_ann()[1]);
    void::at_once(async { while of_ann.line().await.is_some() {} }).await;
    assert_ne!(page(&cookies[0]).await, 200);
    assert_eq!(page(&cookies[1]).await, 200);
    held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    let requested =
        async { while of_eve.line().await.expect("the other goes on") != "event: requested" {} };
    void::at_once(requested).await;
}

/// Tokens that two operators have exchanged prove who has them now, and no sign-in and no stream of who had them before.
#[tokio::test]
async fn exchanged_tokens_are_who_has_them_now() {
    let stage = HoldingGate::new().await;
    let mut of_ann = stage.looks_on(ANN_TOKEN).await;
    let of_uma = "token-of-uma-who-reads-all";
    assert_eq!(stage.answers(ANN_TOKEN, "/api/tasks").await.status, 403);
    assert_eq!(stage.answers(of_uma, "/api/tasks").await.status, 200);
    let exchanged = OPERATORS
        .replace(ANN_TOKEN, "?")
        .replace(of_uma, ANN_TOKEN)
        .replace('?', of_uma);
    stage.configures(&exchanged);
    void::at_once(async { while of_ann.line().await.is_some() {} }).await;
    stage.is_answered(ANN_TOKEN, "/api/tasks", 200).await;
    assert_eq!(stage.answers(of_uma, "/api/tasks").await.status, 403);
}

/// A request of which the head was judged, and the body is still to come.
async fn begins(stage: &HoldingGate, token: &str, path: &str, body: &str) -> TcpStream {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        stage.gate.operators,
        body.len()
    );
    let mut stream = TcpStream::connect(stage.gate.operators).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // What reads the body asks for it.
    let mut told = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut told).await.unwrap();
    assert!(told.starts_with(b"HTTP/1.1 100"), "{told:?}");
    stream
}

async fn ends(mut stream: TcpStream, body: &str) -> String {
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).await.unwrap();
    told
}

/// The enemy of a look at the head of a request alone: the word of an operator whose body comes after the operator is
/// taken away counts for nothing, and neither does that of one whose role allows it no more.
#[tokio::test]
async fn a_word_that_comes_late_counts_for_nothing() {
    let stage = HoldingGate::new().await;
    let id = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    let word = r#"{ "decision": "allow", "why": "due" }"#;
    let of_ann = begins(&stage, ANN_TOKEN, &format!("/api/approvals/{id}"), word).await;
    let (sue, off) = ("token-of-sue-who-switches", r#"{ "why": "no" }"#);
    let of_sue = begins(&stage, sue, "/api/tools/bank__free/disable", off).await;
    stage.configures(&format!(
        "{}, verbs: {{ switch: [finance] }}",
        without_ann()[0]
    ));
    stage.is_answered(ANN_TOKEN, "/api/approvals", 401).await;
    stage.is_answered(EVE_TOKEN, "/api/tasks", 200).await;
    let told = ends(of_ann, word).await;
    assert!(told.starts_with("HTTP/1.1 401"), "{told}");
    let told = ends(of_sue, off).await;
    assert!(told.starts_with("HTTP/1.1 409"), "{told}");
    let again = held(&call(&stage.bot(), "pay", json!({ "n": 1 }), "k").await);
    assert_eq!(again, id, "it waits still");
    assert_eq!(stage.scripted.executions(), 0);
    assert_eq!(
        code(&call(&stage.bot(), "free", json!({}), "k").await),
        None
    );
}

/// Behind stdio there is no door for operators: none can be asked, whatever the files name, before and after a reload.
#[tokio::test]
async fn behind_stdio_nobody_can_be_asked() {
    let scripted = bank(Offers::default()).await;
    let setup = in_front(&scripted, &policy(""));
    setup.write();
    let mut agent = Launched::start(&setup, &["--agent", "bot"], false).await;
    let pay = json!({ "name": "pay", "arguments": { "n": 1 }, "_meta": {} });
    let free = json!({ "name": "free", "arguments": {}, "_meta": {} });
    let refused = agent.ask("tools/call", pay.clone()).await;
    assert_eq!(
        code(&refused).as_deref(),
        Some("approver_unreachable"),
        "{refused}"
    );
    let shut = format!(
        "{}layers: {{ global: {{ deny: [bank__free] }} }}\n",
        policy("")
    );
    // The second is read no sooner than the first.
    setup.clone().operators(&with_lea()).write();
    setup.clone().policy(&shut).operators(&with_lea()).write();
    let reloaded = async { while code(&agent.ask("tools/call", free.clone()).await).is_none() {} };
    void::at_once(reloaded).await;
    let refused = agent.ask("tools/call", pay).await;
    assert_eq!(
        code(&refused).as_deref(),
        Some("approver_unreachable"),
        "{refused}"
    );
    agent.end().await;
    let seen = scripted.seen().into_iter();
    let mut called = seen.filter(|seen| seen.method() == "tools/call");
    assert!(called.all(|seen| seen.body["params"]["name"] == "free"));
}
