//! What happens at the same time: one undo asked for a hundred times at three doors, and undos beside
//! the late answers of what they take back.

use super::{RITA, UndoStage, decision, done, name_of};
use crate::approvals::pages::{field, sends, signs_in};
use crate::harness::scripted_server::Reply;
use crate::harness::setup::Setup;
use crate::harness::until;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Mutex;
use tokio::sync::oneshot;

const ANN: &str = "token-of-ann-who-decides";
/// How often one undo is asked for at each door.
const AT_THE_API: usize = 84;
const ON_THE_PAGE: usize = 12;
const BY_COMMAND: usize = 4;
/// Calls whose answers come late.
const LATE: usize = 12;

impl UndoStage {
    /// The same after a restart with another configuration.
    pub(super) async fn again(self, change: impl FnOnce(Setup) -> Setup) -> Self {
        let Self { scripted, gate } = self;
        let setup = change(gate.stop().await);
        let gate = setup.start().await;
        Self { scripted, gate }
    }

    /// A draft of this name in a session of its own.
    async fn drafts(&self, name: &str) -> Value {
        let meta = json!({ "dev.toolgate/idempotencyKey": name, "dev.toolgate/session": name });
        let params = json!({ "name": "bank__draft", "arguments": { "name": name }, "_meta": meta });
        self.bot().modern("tools/call", params).await.message()
    }

    /// Two operators ask for the undo of a call in the moment in which its answer comes, and one of them until
    /// it is taken back.
    async fn undoes_in_that_moment(&self, id: &str, name: &str, release: oneshot::Sender<Reply>) {
        let body = json!({ "why": "a typo" });
        let comes = async {
            let number: usize = name.parse().unwrap();
            assert!(release.send(done(&json!({ "id": number }))).is_ok());
        };
        let (one, (), other) =
            tokio::join!(self.asks(RITA, id, &body), comes, self.asks(ANN, id, &body));
        for (status, said) in [&one, &other] {
            let error = said["error"].as_str().unwrap_or_default();
            let is_early = error.contains("it is not known whether the call");
            let is_second = error.contains("right now") || error.contains("already");
            let is_done = *status == 200 && said["state"] == "done";
            assert!(
                is_done || *status == 409 && (is_early || is_second),
                "{said}"
            );
        }
        until("it is taken back", || async {
            let (status, said) = self.asks(RITA, id, &body).await;
            let error = said["error"].as_str().unwrap_or_default();
            (status == 200 || error.contains("already")).then_some(())
        })
        .await;
    }
}

/// 003-64: a hundred requests at once by two operators, at the API, on the page and by commands, while the
/// call that takes back is on its way: it is sent once, and each of them hears how that ended, or why
/// not.
#[tokio::test]
async fn a_hundred_at_three_doors_undo_once() {
    let stage = UndoStage::new().await;
    let id = stage.made("draft", "k").await;
    let (release, held) = oneshot::channel();
    let held = Mutex::new(Some(held));
    stage.scripted.answers(move |seen| {
        let held = held.lock().unwrap().take_if(|_| name_of(seen) == "bin");
        held.map_or_else(|| done(&json!({})), Reply::Later)
    });
    let cookie = signs_in(&stage.gate, RITA).await;
    let signed = [("Cookie", cookie.as_str())];
    let page = stage.gate.asks_operators(("GET", "/calls"), &signed, "");
    let secret = field(&page.await.text(), "form_secret");
    let form = [
        ("form_secret", secret.as_str()),
        ("action", id.as_str()),
        ("verdict", "undo"),
        ("why", "a typo"),
    ];
    let body = json!({ "why": "a typo" });
    let api = (0..AT_THE_API).map(|nth| {
        let token = if nth % 2 == 0 { RITA } else { ANN };
        stage.asks(token, &id, &body)
    });
    let forms = (0..ON_THE_PAGE).map(|_| sends(&stage.gate, "/calls/undo", &form, &signed));
    let commands = (0..BY_COMMAND).map(|_| stage.undoes(&id));
    let frees = async {
        let is_undo = |seen: &crate::harness::scripted_server::Seen| name_of(seen) == "bin";
        stage.scripted.sees("the undo", is_undo).await;
        let (status, said) = stage.asks(RITA, &id, &body).await;
        assert!(
            status == 409 && said["error"].as_str().unwrap().contains("right now"),
            "{said}"
        );
        assert!(release.send(done(&json!({}))).is_ok());
    };
    let (api, forms, commands, ()) =
        tokio::join!(join_all(api), join_all(forms), join_all(commands), frees);
    let mut good = 0;
    for (status, report) in &api {
        let is_done = *status == 200 && report["state"] == "done";
        assert!(is_done || *status == 409, "{status}: {report}");
        good += usize::from(is_done);
    }
    for answer in &forms {
        let is_done = answer.status == 200 && answer.text().contains("It was taken back by");
        assert!(is_done || answer.status == 409, "{answer:?}");
        good += usize::from(is_done);
    }
    for (code, said) in &commands {
        assert!(*code == 0 || *code == 1, "{said}");
        good += usize::from(*code == 0);
    }
    assert!(good > 0, "nobody heard that it is done");
    assert_eq!(stage.sent("bin").len(), 1, "it is sent once");
}

/// What is asked while nobody knows of the call is refused, also in the moment in which its late answer comes;
/// afterwards each call is taken back once, by its own id.
#[tokio::test]
async fn undos_meet_the_late_answers() {
    let stage = UndoStage::new().await;
    let stage = stage
        .again(|setup| setup.server_member("timeout: 1s"))
        .await;
    let (mut releases, mut late) = (HashMap::new(), HashMap::new());
    for nth in 0..LATE {
        let (release, answer) = oneshot::channel();
        releases.insert(nth.to_string(), release);
        late.insert(nth.to_string(), answer);
    }
    let late = Mutex::new(late);
    stage.scripted.answers(move |seen| {
        let name = seen.body["params"]["arguments"]["name"].as_str();
        let late = name.and_then(|name| late.lock().unwrap().remove(name));
        late.map_or_else(|| done(&json!({})), Reply::Later)
    });
    let names: Vec<String> = (0..LATE).map(|nth| nth.to_string()).collect();
    let answers = join_all(names.iter().map(|name| stage.drafts(name))).await;
    let ids: Vec<String> = answers
        .iter()
        .map(|answer| {
            let said = decision(answer);
            assert_eq!(said["code"], "outcome_unknown", "{answer}");
            said["action_id"].as_str().unwrap().to_owned()
        })
        .collect();
    let meets = names.iter().zip(&ids).map(|(name, id)| {
        let release = releases.remove(name).unwrap();
        stage.undoes_in_that_moment(id, name, release)
    });
    let meets: Vec<_> = meets.collect();
    join_all(meets).await;
    let mut binned: Vec<u64> = stage
        .sent("bin")
        .iter()
        .map(|sent| sent["id"].as_u64().unwrap())
        .collect();
    binned.sort_unstable();
    let expected: Vec<u64> = (0..).take(LATE).collect();
    assert_eq!(binned, expected, "each once, by its own id");
}
