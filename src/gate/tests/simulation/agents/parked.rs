//! The same gate before a legacy server that asks the agent in the middle of its calls (protocol §4.3):
//! the calls wait for their agents, who answer, answer wrongly, come too late, come back without their
//! answers or not at all, while connections get lost and the process is killed. Each agent has one
//! call, on a link of its own.

use super::{Request, Told, WantedCall, tool};
use crate::gate::tests::simulation::process::{PIPE, bank};
use crate::gate::tests::simulation::{
    Counts, Kind, OUTSIDE, SERVER, SimulatedDisk, SimulatedWorld, TestClock, add, first_seed,
    number, on_stage,
};
use crate::guards::idempotency::KEY_META_NAME;
use crate::guards::task::SESSION_META;
use crate::mcp::bridge::CAPABILITIES_META_KEY;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;
use crate::model::caller::Caller;
use crate::model::ids::{ActionId, AgentId};
use crate::outlet::Outgoing;
use crate::upstream::caller_links::Asker;
use crate::upstream::link::Link;
use crate::upstream::stdio::Conversation;
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

mod asking_bank;

pub(in crate::gate::tests::simulation) use asking_bank::AskingLine;

/// Agents of one run, each with one call, and runs.
const CALLS: u64 = 20;
const RUNS: u64 = 104;
/// How long a parked call waits, in milliseconds (guarantees §4).
const PARKED_MS: u64 = 5 * 60 * 1000;
/// How often an agent sends what was not answered.
const PATIENCE: u32 = 8;

/// What an agent does once it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Answers,
    AnswersNothing,
    BringsForeignState,
    ComesLate,
    SendsAnew,
    NeverComes,
    AnswersTwice,
}

const ENDINGS: [Ending; 7] = [
    Ending::Answers,
    Ending::AnswersNothing,
    Ending::BringsForeignState,
    Ending::ComesLate,
    Ending::SendsAnew,
    Ending::NeverComes,
    Ending::AnswersTwice,
];

/// What has to come about, too, or the runs prove nothing.
const ALSO_SEEN: [&str; 8] = [
    "asked",
    "asked anew",
    "ended",
    "foreign states",
    "happened",
    "kills",
    "lines lost",
    "outcome_unknown",
];

fn meta() -> Value {
    json!({ CAPABILITIES_META_KEY: { "elicitation": {} } })
}

impl SimulatedWorld {
    fn populate_asked_agents(self: &Rc<Self>) {
        self.busy.set(CALLS);
        self.asks.set(true);
        for deed in 0..CALLS {
            let world = self.clone();
            self.schedule.spawn(OUTSIDE, async move {
                world.asked_agent(deed).await;
                world.busy.set(world.busy.get() - 1);
            });
        }
        let luck = self.clone();
        self.schedule.spawn(OUTSIDE, async move {
            luck.break_lines().await;
            sleep(Duration::from_millis(2 * PARKED_MS)).await;
            let parked = luck.ground.servers.parked().count();
            assert_eq!(parked, 0, "calls wait for agents that are gone");
            let broken = luck.broken.take();
            let faults = broken.into_iter().flat_map(|deed| luck.actions_of(deed));
            let faults: Vec<_> = faults.collect();
            luck.book.borrow_mut().faults.extend(faults);
            luck.schedule.kill(luck.group.get());
        });
    }

    /// Connects each agent to the bank, again whenever its link is lost.
    pub(in crate::gate::tests::simulation) async fn keep_asking_lines(self: Rc<Self>) {
        let servers = &self.ground.servers;
        servers.parked().forget();
        servers.callers().forget();
        let group = self.group.get();
        let (ours, _theirs) = tokio::io::duplex(PIPE);
        let (input, output) = tokio::io::split(ours);
        let (base, _unsolicited) =
            Conversation::start(&bank(), input, output, std::future::pending());
        let base = Link::child(Arc::new(base), None, Revision::NEWEST_LEGACY);
        servers.all()[0].stands_in_sessions(Arc::new(base));
        for deed in 0..CALLS {
            let world = self.clone();
            self.schedule
                .spawn(group, async move { world.keep_line_of(deed).await });
        }
        std::future::pending::<()>().await;
    }

    async fn keep_line_of(self: &Rc<Self>, deed: u64) {
        let servers = &self.ground.servers;
        loop {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            self.schedule
                .spawn(SERVER, self.clone().serve_asking(deed, theirs));
            let (input, output) = tokio::io::split(ours);
            let (conversation, unsolicited) =
                Conversation::start(&bank(), input, output, std::future::pending());
            let link = Link::child(Arc::new(conversation), None, Revision::NEWEST_LEGACY);
            let link = Arc::new(link);
            let meta = Text::of(&meta());
            let asker = Asker {
                caller: &self.agent_of(deed),
                meta: Some(&meta),
            };
            let callers = servers.callers();
            callers
                .stands(&servers.all()[0], asker, link.clone(), unsolicited)
                .await;
            link.ended().await;
            self.some(500).await;
        }
    }

    fn agent_of(&self, deed: u64) -> Caller {
        Caller {
            agent: AgentId::new(&format!("teller-{deed}")),
            ..Caller::clone(&self.ground.caller)
        }
    }

    /// Kills and lost connections: what is asked then may have happened, and is not to happen again.
    async fn break_lines(self: &Rc<Self>) {
        let mut crashes = 0;
        let breaks = |world: &Self| {
            let book = world.book.borrow();
            let held = book.held.keys().map(|action| book.actions[action]);
            world.broken.borrow_mut().extend(held);
        };
        while self.busy.get() > 0 {
            self.some(120_000).await;
            if self.once_in(3) && crashes < 2 {
                crashes += 1;
                breaks(self);
                self.lines.borrow_mut().clear();
                self.crash(false).await;
            } else {
                let deed = self.roll(CALLS);
                let line = self.lines.borrow().get(&deed).cloned();
                if let Some(line) = line {
                    self.count("lines lost");
                    breaks(self);
                    line.ends.cancel();
                }
            }
        }
    }

    /// Makes its call, is asked, and does one of the things that agents do then.
    async fn asked_agent(self: &Rc<Self>, deed: u64) {
        self.some(240_000).await;
        let Some(state) = self.until_asked(deed).await else {
            return self.count("never asked");
        };
        let asked = Instant::now();
        let index = usize::try_from(self.roll(ENDINGS.len() as u64)).unwrap();
        let ending = ENDINGS[index];
        self.count(&format!("{ending:?}"));
        self.tell(|| format!("the agent of deed {deed}: {ending:?}"));
        let accepts = json!({ "question-1": { "action": "accept", "content": {} } });
        let mut round = json!({ "requestState": state, "inputResponses": accepts });
        match ending {
            Ending::NeverComes => return,
            Ending::ComesLate => {
                sleep(Duration::from_millis(PARKED_MS + 6_000)).await;
                self.some(60_000).await;
            }
            Ending::AnswersNothing => round["inputResponses"] = json!({ "other": {} }),
            Ending::Answers
            | Ending::BringsForeignState
            | Ending::SendsAnew
            | Ending::AnswersTwice => self.some(200_000).await,
        }
        if ending == Ending::BringsForeignState {
            let mut foreign = round.clone();
            foreign["requestState"] = json!(format!("{state}x"));
            let told = self.told_anew(deed, Some(&foreign)).await;
            let is_taken = matches!(told, Some((Told::Done { .. } | Told::Question, _)));
            assert!(!is_taken, "a foreign state was opened");
            if let Some((Told::Error(-32602), _)) = told {
                self.count("foreign states");
            }
        }
        if ending == Ending::SendsAnew {
            let told = self.told_anew(deed, None).await;
            self.count(if matches!(told, Some((Told::Question, _))) {
                "asked anew"
            } else {
                "told anew"
            });
        }
        if ending == Ending::AnswersTwice {
            let second = self.clone();
            let again = round.clone();
            self.schedule.spawn(OUTSIDE, async move {
                drop(second.told_anew(deed, Some(&again)).await);
            });
        }
        self.goes_on(deed, &round, asked).await;
    }

    /// Sends a round until the agent is told how the call ended. After five minutes nobody knows.
    async fn goes_on(self: &Rc<Self>, deed: u64, round: &Value, asked: Instant) {
        for _ in 0..PATIENCE {
            if asked.elapsed() >= Duration::from_millis(PARKED_MS) {
                self.broken.borrow_mut().insert(deed);
            }
            match self.told_anew(deed, Some(round)).await {
                Some((Told::Refused(code), _)) if code != "upstream_unavailable" => {
                    return self.ends_honestly(deed, &code);
                }
                Some((Told::Done { .. } | Told::Failed, _)) => return self.count("ended"),
                _ => self.some(20_000).await,
            }
        }
        self.count("gave up");
    }

    /// A refusal after a question says that nobody knows, unless nothing happened.
    fn ends_honestly(&self, deed: u64, code: &str) {
        self.count(code);
        let has_happened = !self.done_of(deed).is_empty();
        let says_so = matches!(code, "outcome_unknown" | "duplicate_in_flight");
        assert!(
            says_so || !has_happened,
            "deed {deed} happened, and then: {code}"
        );
    }

    fn actions_of(&self, deed: u64) -> Vec<ActionId> {
        let book = self.book.borrow();
        let own = book.actions.iter().filter(|(_, of)| **of == deed);
        own.map(|(action, _)| *action).collect()
    }

    fn done_of(&self, deed: u64) -> Vec<ActionId> {
        let own = self.actions_of(deed);
        let book = self.book.borrow();
        own.into_iter()
            .filter(|action| book.done.contains_key(action))
            .collect()
    }

    /// Sends the call until the bank asks; the state that the agent is to bring back.
    async fn until_asked(self: &Rc<Self>, deed: u64) -> Option<String> {
        for _ in 0..PATIENCE {
            if let Some((Told::Question, answer)) = self.told_anew(deed, None).await {
                let parked = self.ground.servers.parked().count();
                assert!(
                    parked <= usize::try_from(CALLS).unwrap(),
                    "{parked} calls wait"
                );
                let state = answer.body?.value()["requestState"].as_str()?.to_owned();
                return Some(state);
            }
            self.some(3000).await;
        }
        None
    }

    /// What the agent of this deed is told of the call, or of a round of it.
    async fn told_anew(
        self: &Rc<Self>,
        deed: u64,
        round: Option<&Value>,
    ) -> Option<(Told, Message)> {
        let mut request = self.ask_round(deed, round)?;
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match timeout_at(until, request.inlet.recv()).await {
                Ok(Some(Outgoing::Last(answer))) => {
                    let told = self.read(&answer, request.action);
                    self.tell(|| format!("the agent of deed {deed} is told {told:?}"));
                    if let Told::Done { receipt, .. } = &told {
                        let mut book = self.book.borrow_mut();
                        book.told.entry(deed).or_default().extend(receipt.clone());
                    }
                    return Some((told, *answer));
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn round_message(&self, deed: u64, round: Option<&Value>) -> Message {
        let mut meta = meta();
        meta[SESSION_META] = json!(format!("session {deed}"));
        meta[KEY_META_NAME] = json!(format!("key of {deed}"));
        let mut params = json!({
            "name": format!("bank__{}", tool(0)), "arguments": { "deed": deed, "amount": 0 }, "_meta": meta,
        });
        for name in ["requestState", "inputResponses"] {
            if let Some(said) = round.and_then(|round| round.get(name)) {
                params[name] = said.clone();
            }
        }
        let id = self.book.borrow().actions.len() as u64;
        Message::request(id, "tools/call", Some(Text::of(&params)))
    }

    fn ask_round(self: &Rc<Self>, deed: u64, round: Option<&Value>) -> Option<Request> {
        let wanted = WantedCall {
            deed,
            tool: tool(0),
            message: self.round_message(deed, round),
            arrived: Duration::ZERO,
        };
        self.send_as(Arc::new(self.agent_of(deed)), wanted)
    }
}

/// Runs every other seed; guarantees §4 "Parked calls", I1 to I4, I9.
fn run_half(half: u64) {
    let mut counts = Counts::new();
    let (first, seeds) = (first_seed(), number("TOOLGATE_SEEDS"));
    let all = first..first + seeds.unwrap_or(RUNS);
    for seed in all.filter(|seed| seed % 2 == half) {
        let kind = Kind::Paper(SimulatedDisk::new(seed));
        let begin = SimulatedWorld::populate_asked_agents;
        let (_, counted) = on_stage((seed, TestClock::new(), kind), begin);
        add(&mut counts, counted);
    }
    let mut expected = ENDINGS.map(|ending| format!("{ending:?}")).to_vec();
    expected.extend(ALSO_SEEN.map(str::to_owned));
    let missing: Vec<_> = expected
        .iter()
        .filter(|what| !counts.contains_key(*what))
        .collect();
    let is_whole = seeds.is_none();
    assert!(
        !is_whole || (missing.is_empty() && counts["asked"] >= 1_000),
        "never seen: {missing:?}; {counts:?}"
    );
}

/// Issue 14: 2,000 of them with its other half.
#[test]
fn parked_calls_happen_once_however_they_end_1() {
    run_half(0);
}

/// The other half.
#[test]
fn parked_calls_happen_once_however_they_end_2() {
    run_half(1);
}
