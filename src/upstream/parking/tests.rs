//! Thousands of calls that wait for their agents and end in any way, by a seed, on paused time: each
//! is sent once, each question is answered once at most, nobody's call is another's, and there are
//! never more of them than may wait. `TOOLGATE_SEED` is another seed.

use super::*;
use crate::mcp::json::AGENT_JSON_LIMITS;
use crate::model::ids::AgentId;
use crate::model::reply::Fault;
use crate::store::tests::same::SplitMixRng;
use crate::upstream::lines::Lines;
use crate::upstream::link::Link;
use crate::upstream::questions::TELL_TIMEOUT;
use crate::upstream::stdio::Conversation;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::io::duplex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Calls of one run, and the agents that make them, each on a link of its own.
const CALLS: u64 = 2_000;
const AGENTS: u64 = 20;
const SEED: u64 = 14;

/// A server that notes what it hears, and never answers.
struct NotingServer {
    link: Arc<Link>,
    heard: Arc<Mutex<Vec<Value>>>,
    ends: CancellationToken,
}

impl NotingServer {
    fn start() -> Self {
        let (ours, theirs) = duplex(1 << 16);
        let (input, output) = tokio::io::split(ours);
        let (conversation, _) = Conversation::start(&bank(), input, output, std::future::pending());
        let (heard, ends) = (
            Arc::<Mutex<Vec<Value>>>::default(),
            CancellationToken::new(),
        );
        let (notes, end) = (heard.clone(), ends.clone());
        tasks::spawn("played server", async move {
            let mut lines = Lines::new(theirs);
            while let Some(Ok(Some(line))) = end.run_until_cancelled(lines.next()).await {
                let message = Text::read(line, &AGENT_JSON_LIMITS).unwrap().value();
                notes.lock().push(message);
            }
        });
        Self {
            link: Arc::new(Link::over(Arc::new(conversation))),
            heard,
            ends,
        }
    }
}

fn bank() -> ServerName {
    ServerName::new("bank")
}

/// A call that its agent believes to wait.
struct WaitingCall {
    number: u64,
    round: Text,
    since: Instant,
}

/// What became of the calls, by their endings.
#[derive(Default)]
struct Endings {
    answered: u64,
    expired: u64,
    lost: u64,
    cancelled: u64,
    crowded: u64,
}

struct ParkingStage {
    all: Arc<ParkedCalls>,
    servers: Vec<NotingServer>,
    dice: SplitMixRng,
    waiting: Vec<WaitingCall>,
    ended: Endings,
}

impl ParkingStage {
    fn server(&self, number: u64) -> &NotingServer {
        &self.servers[usize::try_from(number % AGENTS).unwrap()]
    }

    fn caller(number: u64) -> Caller {
        Caller::named(&format!("agent {}", number % AGENTS))
    }

    /// Sends a call whose server asks at once.
    async fn begins(&mut self, number: u64) -> Result<(), Fault> {
        let link = self.server(number).link.clone();
        let params = Text::of(&json!({ "n": number }));
        let call = Message::request(0, "tools/call", Some(params));
        let mut exchange = link.request(call, Vec::new()).await?;
        exchange.begin().await?;
        let caller = Self::caller(number);
        let call = AskingCall {
            caller: &caller,
            server: &bank(),
            reached: ReachedLink::shared(link),
            exchange,
            asides: None,
            asked: None,
            followed: None,
        };
        let question = Message::request(number, "elicitation/create", None);
        match self.all.park(call, vec![question]).await {
            Ok(asks) => {
                let state = asks.body.unwrap().get("requestState").unwrap().value();
                let answer = json!({ "question-1": { "action": "accept" } });
                let round = json!({ "requestState": state, "inputResponses": answer });
                self.waiting.push(WaitingCall {
                    number,
                    round: Text::of(&round),
                    since: Instant::now(),
                });
            }
            Err(_) => self.ended.crowded += 1,
        }
        Ok(())
    }

    fn take(&self, caller: &Caller, call: &WaitingCall) -> Option<ParkedCall> {
        self.all.take(caller, &bank(), Some(&call.round))
    }

    /// The agent of any call that waits comes back, perhaps twice at once, perhaps after another
    /// has tried to.
    async fn comes_back(&mut self) {
        let count = u64::try_from(self.waiting.len()).unwrap();
        if count == 0 {
            return;
        }
        let index = usize::try_from(self.dice.roll(count)).unwrap();
        let call = self.waiting.swap_remove(index);
        let own = Self::caller(call.number);
        let foreign = Self::caller(call.number + 1);
        assert!(self.take(&foreign, &call).is_none(), "another agent's call");
        let is_over = call.since.elapsed() >= PARKED_TIMEOUT;
        let (one, two) = (self.take(&own, &call), self.take(&own, &call));
        assert!(two.is_none(), "{} was taken up twice", call.number);
        let Some(mut parked) = one else {
            assert!(is_over, "{} waits no more, too early", call.number);
            self.ended.expired += 1;
            return;
        };
        if self.dice.once_in(4) {
            let (link, id) = (parked.reached.link.clone(), parked.exchange.id.clone());
            link.cancel(&id, "the agent cancelled the request");
            self.ended.cancelled += 1;
            return;
        }
        parked.answer(Some(&call.round)).await;
        self.ended.answered += 1;
    }

    /// What happens between two calls.
    async fn passes_time(&mut self, gone: &mut Vec<NotingServer>) {
        loop {
            match self.dice.roll(100) {
                0 => gone.push(self.loses_a_server()),
                1 => tokio::time::sleep(Duration::from_secs(self.dice.roll(20))).await,
                2..15 => self.comes_back().await,
                _ => return,
            }
        }
    }

    fn is_bounded(&self) {
        let waiting = self.all.0.lock();
        assert!(waiting.len() <= MAX_PARKED);
        let mut own = HashMap::<&AgentId, usize>::new();
        waiting
            .values()
            .for_each(|call| *own.entry(&call.whose.agent).or_default() += 1);
        assert!(own.values().all(|count| *count <= MAX_PARKED_PER_AGENT));
    }

    /// A server ends, and another takes its place; its calls wait on, for nothing.
    fn loses_a_server(&mut self) -> NotingServer {
        let index = usize::try_from(self.dice.roll(AGENTS)).unwrap();
        let old = std::mem::replace(&mut self.servers[index], NotingServer::start());
        old.ends.cancel();
        self.ended.lost += 1;
        old
    }
}

/// What a server heard of each call and of each question: once, at most.
fn judge(server: &NotingServer) {
    let (mut sent, mut told) = (BTreeSet::new(), BTreeSet::new());
    for said in &*server.heard.lock() {
        if let Some(number) = said["params"]["n"].as_u64() {
            assert!(sent.insert(number), "call {number} was sent twice");
        } else if said.get("method").is_none() {
            let question = said["id"].as_u64();
            assert!(
                told.insert(question),
                "question {question:?} was answered twice"
            );
        }
    }
}

/// Issue 14, guarantees §4 "Parked calls".
#[tokio::test(start_paused = true)]
async fn whatever_ends_a_parked_call_ends_it_once() {
    let seed = std::env::var("TOOLGATE_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let mut stage = ParkingStage {
        all: Arc::default(),
        servers: (0..AGENTS).map(|_| NotingServer::start()).collect(),
        dice: SplitMixRng::new(seed),
        waiting: Vec::new(),
        ended: Endings::default(),
    };
    let (mut gone, mut refused) = (Vec::new(), 0);
    for number in 0..CALLS {
        stage.passes_time(&mut gone).await;
        refused += u64::from(stage.begins(number).await.is_err());
        stage.is_bounded();
    }
    // Some come back, some are late, and for the rest toolgate ends.
    for _ in 0..200 {
        stage.comes_back().await;
    }
    tokio::time::sleep(PARKED_TIMEOUT / 2).await;
    for number in CALLS..CALLS + 100 {
        refused += u64::from(stage.begins(number).await.is_err());
    }
    tokio::time::sleep(PARKED_TIMEOUT / 2 + TELL_TIMEOUT).await;
    for _ in 0..200 {
        stage.comes_back().await;
    }
    stage.all.close().await;
    assert!(stage.all.0.lock().is_empty());
    for call in std::mem::take(&mut stage.waiting) {
        assert!(
            stage
                .take(&ParkingStage::caller(call.number), &call)
                .is_none()
        );
    }
    tokio::time::sleep(TELL_TIMEOUT).await;
    for server in gone.iter().chain(&stage.servers) {
        judge(server);
    }
    let Endings {
        answered,
        expired,
        lost,
        cancelled,
        crowded,
    } = stage.ended;
    assert!(
        [answered, expired, lost, cancelled, crowded]
            .iter()
            .all(|count| *count > 0),
        "seed {seed}: {answered} answered, {expired} expired, {lost} servers lost, {cancelled} cancelled, {crowded} crowded, {refused} not sent"
    );
}
