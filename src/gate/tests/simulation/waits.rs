//! How agents wait for people, on paused time (guarantees §7).

use super::agents::{Request, WantedCall};
use super::bank::Fate;
use super::process::Ground;
use super::{Kind, OUTSIDE, SimulatedWorld, TestClock, in_paused_time};
use crate::guards::idempotency::KEY_META_NAME;
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::absence::DecidingRight;
use crate::outlet::Outgoing;
use crate::store::state::command::{Decide, StoreCommand};
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

mod slept;
mod tasks;

/// What an agent has heard, with the milliseconds after which it did; the last is the answer.
type Heard = Vec<(u128, Value)>;

/// Plays `scene` before a bank whose tools are held for people.
fn play(scene: impl AsyncFnOnce(&Rc<SimulatedWorld>) + 'static) {
    play_by(0, scene);
}

/// The same, where `seed` decides who goes on next.
fn play_by(seed: u64, scene: impl AsyncFnOnce(&Rc<SimulatedWorld>) + 'static) {
    thread_local! {
        static GROUND: Rc<Ground> = Rc::new(Ground::held_for_people());
    }
    in_paused_time(async {
        let ground = GROUND.with(Rc::clone);
        let world = SimulatedWorld::on(ground, seed, TestClock::new(), Kind::Memory);
        let fates = std::iter::repeat_n(Fate::Done, 100);
        world.script.replace(fates.collect());
        world.sends_tasks.set(true);
        let begin = |world: &Rc<SimulatedWorld>| {
            let world = world.clone();
            world.schedule.clone().spawn(OUTSIDE, async move {
                scene(&world).await;
                world.schedule.kill(world.group.get());
            });
        };
        world.plays(begin).await;
    });
}

/// The program that an agent says it is, and the token by which it knows progress.
fn meta(program: &str, token: Option<&str>) -> Value {
    let mut meta = json!({
        KEY_META_NAME: "k",
        "io.modelcontextprotocol/clientInfo": { "name": program, "version": "1" },
    });
    if let Some(token) = token {
        meta["progressToken"] = json!(token);
    }
    meta
}

impl SimulatedWorld {
    fn holds_call(self: &Rc<Self>, tool: &'static str, deed: u64, meta: &Value) -> Request {
        self.holds_round(tool, deed, meta, &json!({}))
    }

    /// The same, with `more` parameters.
    fn holds_round(
        self: &Rc<Self>,
        tool: &'static str,
        deed: u64,
        meta: &Value,
        more: &Value,
    ) -> Request {
        let arguments = json!({ "deed": deed, "amount": 1 });
        let mut params =
            json!({ "name": format!("bank__{tool}"), "arguments": arguments, "_meta": meta });
        let more = more.as_object().into_iter().flatten();
        for (name, value) in more {
            params[name] = value.clone();
        }
        let id = self.book.borrow().actions.len() as u64;
        let wanted = WantedCall {
            deed,
            tool,
            message: Message::request(id, "tools/call", Some(Text::of(&params))),
            arrived: Duration::ZERO,
        };
        self.send(wanted).unwrap()
    }

    /// A person allows the only call that is held, if it is.
    async fn allows(&self) {
        self.decides(true).await;
    }

    /// A person decides about it.
    async fn decides(&self, allow: bool) {
        let gate = self.gate().unwrap();
        let Some((key, hold)) = gate.effects.store.holds(9).await.unwrap().pop() else {
            return;
        };
        let decide = Decide {
            key,
            id: hold.id,
            who: "ann".to_owned(),
            right: DecidingRight {
                roles: vec!["finance".to_owned(), "approver".to_owned()],
                on_behalf: None,
            },
            allow,
            why: "it is due".to_owned(),
            surface: None,
            edits: 0,
        };
        let said = gate.effects.store.run(StoreCommand::Decide(decide), None);
        drop(said.await.unwrap());
    }
}

/// All that is said to an agent that hangs up when it has heard nothing for `idle`.
async fn heard(request: &mut Request, idle: Duration) -> Heard {
    let (began, mut heard) = (Instant::now(), Vec::new());
    while let Ok(Some(said)) = timeout(idle, request.inlet.recv()).await {
        let after = began.elapsed().as_millis();
        match said {
            Outgoing::Message(news) => heard.push((after, news.body.unwrap().value())),
            Outgoing::Comment(_) | Outgoing::Interrupted(_) => heard.push((after, Value::Null)),
            Outgoing::Last(answer) => {
                heard.push((after, answer.body.unwrap().value()));
                return heard;
            }
        }
    }
    heard
}

fn code(answer: &Value) -> &str {
    answer["_meta"][DECISION_META_KEY]["code"]
        .as_str()
        .unwrap_or_default()
}

/// An agent that hangs up after five silent minutes and hears of progress waits twenty minutes, and its
/// call runs once, at once after the decision.
#[test]
fn an_agent_that_hears_of_progress_waits_twenty_minutes() {
    play(async |world| {
        let mut request = world.holds_call("give", 0, &meta("claude-code", Some("p-1")));
        let decides = async {
            sleep(Duration::from_millis(1_200_500)).await;
            world.allows().await;
        };
        let idle = Duration::from_mins(5);
        let (mut heard, ()) = tokio::join!(heard(&mut request, idle), decides);
        let (answered, answer) = heard.pop().unwrap();
        assert_eq!(code(&answer), "", "{answer}");
        assert!(
            answer["structuredContent"]["receipt"].is_string(),
            "{answer}"
        );
        // What is more is the bank's own time.
        assert!((1_200_500..1_201_500).contains(&answered), "{answered}");
        assert_eq!(heard.len(), 121, "every ten seconds, from the first on");
        for (nth, (after, news)) in (0_u64..).zip(&heard) {
            assert_eq!(news["progressToken"], "p-1");
            assert_eq!(news["progress"], json!(nth * 10));
            assert_eq!(news["total"], json!(3600));
            let due = u128::from(nth) * 10_000;
            assert!((due..due + 1_000).contains(after), "{nth}: {after}");
        }
        let words = heard[1].1["message"].as_str().unwrap();
        let begins = "waiting for a person with the role finance: https://gate.example/approvals/";
        assert!(words.starts_with(begins), "{words}");
        assert!(words.ends_with(" (59:50 left)"), "{words}");
        assert_eq!(world.book.borrow().done.len(), 1);
    });
}

/// A decision wakes the agent that waits for it, which does not look now and then.
#[test]
fn a_decision_is_heard_at_once() {
    play(async |world| {
        let mut request = world.holds_call("give", 0, &meta("agent", None));
        sleep(Duration::from_millis(7_777)).await;
        world.allows().await;
        let decided = Instant::now();
        while world.in_flight().is_empty() {
            assert!(decided.elapsed() < Duration::from_millis(100));
            sleep(Duration::from_millis(1)).await;
        }
        let heard = heard(&mut request, Duration::from_mins(1)).await;
        assert_eq!(code(&heard.last().unwrap().1), "");
    });
}

/// Without a token the head is sent at once, and the call is answered after `hold`: to be sent again
/// with the same arguments, in seconds.
#[test]
fn an_agent_without_a_token_comes_again() {
    play(async |world| {
        let mut request = world.holds_call("give", 0, &meta("agent", None));
        let heard = heard(&mut request, Duration::from_mins(1)).await;
        assert_eq!(heard[0], (0, Value::Null), "a comment");
        let (after, answer) = &heard[1];
        assert!((45_000..46_000).contains(after), "{after}");
        assert_eq!(code(answer), "approval_pending");
        let decision = &answer["_meta"][DECISION_META_KEY];
        assert_eq!(decision["retry_after"], 5);
        let id = decision["approval_id"].as_str().unwrap();
        let page = format!("https://gate.example/approvals/{id}");
        assert_eq!(decision["approval_url"], json!(page));
        let words = answer["content"][0]["text"].as_str().unwrap();
        for said in [
            "The tool did not run.",
            "Send the same call with the same arguments again in 5 seconds",
            "it is a second call",
            &page,
        ] {
            assert!(words.contains(said), "{said}: {words}");
        }
        assert!(world.book.borrow().done.is_empty());
    });
}

/// An agent that opens pages is asked to open the hold's, at once. That it says it has done so allows
/// nothing, however often it says it: nothing is sent, and it is asked again after twenty seconds. Once a
/// person has allowed the call, it runs, once.
#[test]
fn an_opened_page_allows_nothing() {
    play(async |world| {
        let mut meta = meta("agent", None);
        meta["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "elicitation": { "url": {} } });
        let asked = async |more: Value| {
            let mut request = world.holds_round("give", 0, &meta, &more);
            let heard = heard(&mut request, Duration::from_mins(1)).await;
            heard.last().unwrap().clone()
        };
        let back = |question: &Value, action: &str| {
            let answers = json!({ "approval": { "action": action } });
            json!({ "inputResponses": answers, "requestState": question["requestState"] })
        };
        let (after, first) = asked(json!({})).await;
        assert!(after < 1_000, "{after}");
        assert_eq!(first["resultType"], "input_required", "{first}");
        let question = &first["inputRequests"]["approval"];
        assert_eq!(question["params"]["mode"], "url", "{first}");
        let page = question["params"]["url"].as_str().unwrap();
        assert!(
            page.starts_with("https://gate.example/approvals/"),
            "{page}"
        );
        for _ in 0..3 {
            let (after, again) = asked(back(&first, "accept")).await;
            assert!((20_000..21_000).contains(&after), "{after}");
            assert_eq!(again["resultType"], "input_required", "{again}");
        }
        let (after, declined) = asked(back(&first, "decline")).await;
        assert!((45_000..46_000).contains(&after), "{after}");
        assert_eq!(code(&declined), "approval_pending", "{declined}");
        let forged = json!({ "inputResponses": { "approval": { "action": "accept" } }, "requestState": "toolgate-page:x" });
        asked(forged).await;
        assert!(world.book.borrow().done.is_empty());
        let allows = async {
            sleep(Duration::from_secs(7)).await;
            world.allows().await;
        };
        let ((after, answer), ()) = tokio::join!(asked(back(&first, "accept")), allows);
        assert!((7_000..8_000).contains(&after), "{after}");
        assert!(
            answer["structuredContent"]["receipt"].is_string(),
            "{answer}"
        );
        assert_eq!(world.book.borrow().done.len(), 1);
    });
}

/// A program that hangs up after a minute is answered five seconds before that from then on; others are
/// not, nor is another version of it. What is held stays so.
#[test]
fn a_program_that_hangs_up_is_answered_before() {
    play(async |world| {
        let impatient = meta("impatient", Some("p"));
        let mut request = world.holds_call("give", 0, &impatient);
        let hung_up = timeout(
            Duration::from_mins(1),
            heard(&mut request, Duration::from_hours(1)),
        );
        assert!(hung_up.await.is_err());
        drop(request);
        sleep(Duration::from_secs(1)).await;
        let store = world.gate().unwrap().effects.store.clone();
        assert_eq!(store.holds(9).await.unwrap().len(), 1, "it stays");
        let mut again = world.holds_call("give", 0, &impatient);
        let (after, answer) = heard(&mut again, Duration::from_hours(1))
            .await
            .pop()
            .unwrap();
        assert_eq!(code(&answer), "approval_pending");
        assert!((55_000..56_000).contains(&after), "{after}");
        let mut newer = impatient.clone();
        newer["io.modelcontextprotocol/clientInfo"]["version"] = json!("2");
        for (deed, other) in [(1, newer), (2, meta("patient", Some("p")))] {
            let mut request = world.holds_call("give", deed, &other);
            let told = heard(&mut request, Duration::from_hours(1)).await;
            let (after, answer) = told.last().unwrap();
            assert_eq!(code(answer), "approval_pending", "{other}");
            assert!((1_800_000..1_801_000).contains(after), "{other}: {after}");
        }
        assert!(world.book.borrow().done.is_empty());
    });
}

/// An agent that does not come back to its stream has hung up, when it stopped to read: its call does not run
/// though it is allowed. One that has come back is there.
#[test]
fn who_does_not_come_back_has_hung_up() {
    play(async |world| {
        let (meta, away) = (meta("agent", Some("p")), Duration::from_secs(30));
        let mut request = world.holds_call("give", 0, &meta);
        let reads = heard(&mut request, Duration::from_hours(1));
        assert!(timeout(Duration::from_secs(90), reads).await.is_err());
        request.inlet.unread_mark().set(Some(away));
        let rest = heard(&mut request, Duration::from_hours(1));
        assert!(timeout(Duration::from_secs(1), rest).await.is_ok());
        let mut again = world.holds_call("give", 0, &meta);
        let told = heard(&mut again, Duration::from_hours(1)).await;
        let (after, answer) = told.last().unwrap();
        assert_eq!(code(answer), "approval_pending", "it stays");
        assert!((55_000..56_000).contains(after), "{after}");
        world.allows().await;
        sleep(Duration::from_secs(1)).await;
        assert!(world.book.borrow().done.is_empty(), "nobody is there");
        let mut back = world.holds_call("give", 1, &meta);
        let mark = back.inlet.unread_mark();
        mark.set(Some(away));
        mark.set(None);
        let reads = heard(&mut back, Duration::from_hours(1));
        assert!(timeout(Duration::from_secs(9), reads).await.is_err());
        let gate = world.gate().unwrap();
        assert_eq!(gate.effects.store.holds(9).await.unwrap().len(), 2);
    });
}

/// A call that is answered at once and sent again and again waits longer each time, and is told so; the
/// call of another hold does not, and a decision ends the wait.
#[test]
fn who_asks_again_and_again_is_slowed() {
    play(async |world| {
        let meta = meta("agent", Some("p"));
        let ask = async |deed| {
            let mut request = world.holds_call("now", deed, &meta);
            let (after, answer) = heard(&mut request, Duration::from_hours(1))
                .await
                .pop()
                .unwrap();
            let retry = answer["_meta"][DECISION_META_KEY]["retry_after"].as_u64();
            (after / 1000, retry.unwrap_or_default())
        };
        let mut asked = Vec::new();
        for _ in 0..14 {
            asked.push(ask(0).await);
        }
        assert!(asked[..10].iter().all(|told| *told == (0, 5)), "{asked:?}");
        assert_eq!(asked[10], (1, 10), "{asked:?}");
        assert!(
            asked[13].0 > asked[10].0 && asked[13].1 > asked[10].1,
            "{asked:?}"
        );
        assert_eq!(ask(1).await, (0, 5), "another call");
        assert!(world.book.borrow().done.is_empty());
    });
}

/// 004-09: a call that is much like another one waits for a person, and stays denied, for as long as every
/// other call does, though the time is over in which the other one counts.
#[test]
fn a_near_duplicate_stays_denied() {
    play(async |world| {
        let asks = async |deed| {
            let mut request = world.holds_call("near", deed, &json!({}));
            let heard = heard(&mut request, Duration::from_hours(1)).await;
            code(&heard.last().unwrap().1).to_owned()
        };
        assert_eq!(asks(0).await, "");
        sleep(Duration::from_mins(1)).await;
        assert_eq!(asks(1).await, "approval_pending");
        sleep(Duration::from_mins(1)).await;
        assert_eq!(asks(1).await, "approval_pending", "it waits on");
        world.decides(false).await;
        for _ in 0..3 {
            sleep(Duration::from_mins(3)).await;
            assert_eq!(asks(1).await, "approval_denied");
        }
        assert_eq!(world.book.borrow().done.len(), 1);
        sleep(Duration::from_secs(61)).await;
        assert_eq!(asks(1).await, "", "nothing stands against it any more");
        assert_eq!(world.book.borrow().done.len(), 2);
    });
}
