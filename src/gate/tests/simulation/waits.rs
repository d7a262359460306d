//! How agents wait for people, on paused time (guarantees §7).

use super::agents::{Request, WantedCall};
use super::bank::Fate;
use super::process::Ground;
use super::{Kind, OUTSIDE, SimulatedWorld, TestClock, in_paused_time};
use crate::gate::held_tasks::{HeldTaskId, TaskLook};
use crate::guards::idempotency::KEY_META_NAME;
use crate::mcp::answer::DECISION_META_KEY;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::outlet::Outgoing;
use crate::store::state::command::{Decide, StoreCommand};
use serde_json::{Value, json};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

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
        let arguments = json!({ "deed": deed, "amount": 1 });
        let params =
            json!({ "name": format!("bank__{tool}"), "arguments": arguments, "_meta": meta });
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
        let gate = self.gate().unwrap();
        let Some((key, hold)) = gate.effects.store.holds(9).await.unwrap().pop() else {
            return;
        };
        let decide = Decide {
            key,
            id: hold.id,
            who: "ann".to_owned(),
            right: crate::model::absence::DecidingRight {
                roles: vec!["finance".to_owned()],
                on_behalf: None,
            },
            allow: true,
            why: "it is due".to_owned(),
            surface: None,
            edits: 0,
        };
        let said = gate.effects.store.run(StoreCommand::Decide(decide), None);
        drop(said.await.unwrap());
    }
}

/// The task that a call becomes whose agent knows tasks.
async fn task(world: &Rc<SimulatedWorld>) -> HeldTaskId {
    let mut meta = meta("agent", Some("p"));
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let mut request = world.holds_call("give", 0, &meta);
    let heard = heard(&mut request, Duration::from_mins(1)).await;
    let (after, handle) = heard.last().unwrap();
    assert!(*after < 1_000, "at once: {after}");
    assert_eq!(handle["resultType"], "task", "{handle}");
    let gate = world.gate().unwrap();
    let id = Text::string(handle["taskId"].as_str().unwrap());
    gate.held_task_id(&world.ground.caller, &id).unwrap()
}

/// What is told of a task.
async fn told(world: &Rc<SimulatedWorld>, id: &HeldTaskId) -> Value {
    match world.gate().unwrap().look_at_task(id).await.unwrap() {
        TaskLook::Told(told) => told.body.unwrap().value(),
        TaskLook::Unsent(_) | TaskLook::Unknown => panic!("its call is not sent"),
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

/// A program that hangs up after a minute is answered five seconds before that from then on; others are
/// not. What is held stays so.
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
        let mut other = world.holds_call("give", 0, &meta("patient", Some("p")));
        let (after, answer) = heard(&mut other, Duration::from_hours(1))
            .await
            .pop()
            .unwrap();
        assert_eq!(code(&answer), "approval_pending");
        assert!((1_800_000..1_801_000).contains(&after), "{after}");
        assert!(world.book.borrow().done.is_empty());
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

/// A task waits as long as people may take, and runs once they have decided, though its agent does not
/// ask after it.
#[test]
fn a_task_waits_and_runs_without_its_agent() {
    play(async |world| {
        let id = task(world).await;
        sleep(Duration::from_mins(55)).await;
        assert_eq!(told(world, &id).await["status"], "working");
        world.allows().await;
        sleep(Duration::from_secs(2)).await;
        assert_eq!(world.book.borrow().done.len(), 1);
        let ended = told(world, &id).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        assert!(
            ended["result"]["structuredContent"]["receipt"].is_string(),
            "{ended}"
        );
    });
}

/// Nobody decides: the task says that the tool did not run.
#[test]
fn a_task_that_nobody_decides_has_not_run() {
    play(async |world| {
        let id = task(world).await;
        sleep(Duration::from_secs(3_601)).await;
        let ended = told(world, &id).await;
        assert_eq!(code(&ended["result"]), "approval_timeout", "{ended}");
        assert!(world.book.borrow().done.is_empty());
    });
}

/// Cancelled and allowed at once, a task has run and says with what, or has not and says so.
#[test]
fn a_task_is_cancelled_or_runs() {
    let (mut ran, mut cancelled) = (0, 0);
    for seed in 0..60 {
        let outcome = Rc::new(std::cell::Cell::new(false));
        let seen = outcome.clone();
        play_by(seed, async move |world| {
            let id = task(world).await;
            let allows = async {
                sleep(Duration::from_millis(10)).await;
                world.allows().await;
            };
            let cancels = async {
                sleep(Duration::from_millis(10 + seed % 4)).await;
                let gate = world.gate().unwrap();
                gate.cancel_task(&id, &world.ground.caller).await;
            };
            tokio::join!(allows, cancels);
            sleep(Duration::from_secs(5)).await;
            let ended = told(world, &id).await;
            let has_run = ended["status"] == "completed";
            assert!(has_run || ended["status"] == "cancelled", "{ended}");
            assert_eq!(
                world.book.borrow().done.len(),
                usize::from(has_run),
                "{ended}"
            );
            seen.set(has_run);
        });
        let counted = if outcome.get() {
            &mut ran
        } else {
            &mut cancelled
        };
        *counted += 1;
    }
    assert!(
        ran > 0 && cancelled > 0,
        "{ran} ran, {cancelled} were cancelled"
    );
}

/// A call that is cancelled while it is held has not run, and says so.
#[test]
fn a_cancelled_call_says_that_it_did_not_run() {
    let refusal = crate::model::refusal::Refusal::CancelledUnsent { hold: None };
    assert!(!refusal.may_have_run());
    assert!(refusal.words().contains("The tool did not run."));
}
