//! How many links one server has at once, of one agent and of all, and when they end. On paused
//! time, over conversations that no process is behind.

use super::*;
use crate::model::clock::hands::TestClock;
use crate::model::ids::UserId;
use crate::upstream::server::tests::{over_http, over_stdio, server_over};
use crate::upstream::server_settings::ServerTransport;
use crate::upstream::stdio::Conversation;
use std::sync::atomic::Ordering;
use tokio::io::{DuplexStream, duplex};

/// What is opened, to which server, and how time passes.
struct LinkStage {
    all: Arc<CallerLinks>,
    server: Arc<UpstreamServer>,
    hands: &'static TestClock,
    /// The servers' ends, so that no link is lost.
    lines: Arc<Mutex<Vec<DuplexStream>>>,
}

type Opened = Result<Arc<CallerLink>, Fault>;

impl LinkStage {
    fn before(transport: ServerTransport) -> Self {
        let hands = TestClock::new();
        let all = CallerLinks {
            clock: hands.clock(),
            ..CallerLinks::default()
        };
        Self {
            all: Arc::new(all),
            server: Arc::new(server_over(transport)),
            hands,
            lines: Arc::default(),
        }
    }

    /// The link of this agent with these capabilities, which takes a second to be opened.
    async fn link(&self, agent: &str, capabilities: usize) -> Opened {
        self.link_for(&Caller::named(agent), capabilities).await
    }

    async fn link_for(&self, caller: &Caller, capabilities: usize) -> Opened {
        let declared = Text::of(&json!({ "capabilities": { "x": capabilities } }));
        let key = LinkKey::of(&self.server, caller, Some(&declared));
        let lines = self.lines.clone();
        let opens = async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (ours, theirs) = duplex(1 << 10);
            lines.lock().push(theirs);
            let (input, output) = tokio::io::split(ours);
            let name = ServerName::new("billing");
            let (conversation, unsolicited) =
                Conversation::start(&name, input, output, std::future::pending());
            Ok(OpenedCallerLink {
                link: Arc::new(Link::over(Arc::new(conversation))),
                said: Text::of(&json!({})),
                declared: Text::of(&json!({})),
                unsolicited,
                seat: None,
            })
        };
        self.all.opened(&self.server, key, opens).await
    }

    async fn passes(&self, time: Duration) {
        self.hands.pass(time);
        tokio::time::sleep(time).await;
    }
}

fn words(opened: &Opened) -> String {
    opened
        .as_ref()
        .err()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Protocol §4.3: four of one agent, one for each set of capabilities; the fifth takes the place of
/// the one that was not used for longest, unless all are in use. Another agent has its own.
#[tokio::test(start_paused = true)]
async fn an_agent_has_four_links() {
    let stage = LinkStage::before(over_http());
    let mut used = Vec::new();
    for set in 0..MAX_LINKS_PER_CALLER {
        used.push(stage.link("alice", set).await.unwrap());
        stage.passes(Duration::from_secs(1)).await;
    }
    let fifth = stage.link("alice", 9).await;
    assert!(
        words(&fifth).contains("too many conversations"),
        "{}",
        words(&fifth)
    );
    assert!(stage.link("bob", 9).await.is_ok());
    // The oldest and the third are free now, and the oldest was asked for since.
    let (oldest, third) = (used[0].link.clone(), used[2].link.clone());
    used.remove(2);
    used.remove(0);
    assert!(Arc::ptr_eq(
        &stage.link("alice", 0).await.unwrap().link,
        &oldest
    ));
    stage.link("alice", 9).await.unwrap();
    third.ended().await;
    assert!(!oldest.is_over() && used.iter().all(|own| !own.link.is_over()));
}

/// Twelve people behind one agent work at once, and so do other agents beside them: the thirteenth
/// takes the place of one of the twelve, never another agent's.
#[tokio::test(start_paused = true)]
async fn people_behind_an_agent_leave_room_for_other_agents() {
    let stage = LinkStage::before(over_stdio());
    let bot = Caller::named("bot");
    let person = |number: usize| bot.for_user(UserId::new(&number.to_string()));
    let alice = stage.link("alice", 0).await.unwrap();
    let mut used = Vec::new();
    for number in 0..12 {
        used.push(stage.link_for(&person(number), 0).await.unwrap());
    }
    let late = stage.link_for(&person(12), 0).await;
    assert!(words(&late).contains("too many conversations"));
    for agent in ["bob", "carol", "dave"] {
        assert!(stage.link(agent, 0).await.is_ok(), "{agent}");
    }
    let her = alice.link.clone();
    drop(alice);
    let free = used.swap_remove(5).link.clone();
    stage.link_for(&person(12), 0).await.unwrap();
    free.ended().await;
    assert!(!her.is_over(), "what is another agent's stays");
}

/// Requests that arrive together have no more links than those that come one by one.
#[tokio::test(start_paused = true)]
async fn links_that_are_opened_at_once_are_counted() {
    let stage = LinkStage::before(over_stdio());
    let all: Vec<_> = (0..12).map(|set| stage.link("alice", set)).collect();
    let opened = futures_util::future::join_all(all).await;
    let count = opened.iter().filter(|opened| opened.is_ok()).count();
    assert_eq!(count, MAX_LINKS_PER_CALLER);
    assert_eq!(
        stage.lines.lock().len(),
        MAX_LINKS_PER_CALLER,
        "none was opened for nothing"
    );
    let names: Vec<_> = (0..2 * MAX_CALLER_CHILDREN)
        .map(|agent| format!("agent {agent}"))
        .collect();
    let others = names.iter().map(|agent| stage.link(agent, 0));
    let others = futures_util::future::join_all(others).await;
    let count = others.iter().filter(|opened| opened.is_ok()).count();
    assert_eq!(count, MAX_CALLER_CHILDREN - MAX_LINKS_PER_CALLER);
    // What failed holds no room.
    drop((opened, others));
    assert!(stage.link("late", 0).await.is_ok());
    assert!(stage.all.coming.lock().is_empty());
}

/// 16 children, 256 sessions over HTTP: one more has room when one of them is free.
#[tokio::test(start_paused = true)]
async fn a_server_has_so_many_links() {
    for (transport, most) in [
        (over_stdio(), MAX_CALLER_CHILDREN),
        (over_http(), MAX_CALLER_SESSIONS),
    ] {
        let stage = LinkStage::before(transport);
        let mut used = Vec::new();
        for agent in 0..most {
            used.push(stage.link(&format!("agent {agent}"), 0).await.unwrap());
        }
        let late = stage.link("late", 0).await;
        assert!(words(&late).contains("too many conversations"), "{most}");
        let free = used.swap_remove(most / 2).link.clone();
        stage.link("late", 0).await.unwrap();
        free.ended().await;
        assert!(used.iter().all(|own| !own.link.is_over()), "{most}");
        assert_eq!(stage.all.open.lock().len(), most);
    }
}

/// Of 16 children 12 may wait for their agents, so that another agent's call finds one; what waits no
/// more makes room, and on a link on which something waits more may.
#[tokio::test(start_paused = true)]
async fn some_links_stay_for_calls() {
    let stage = LinkStage::before(over_stdio());
    let mut waiting = Vec::new();
    for number in 0..16 {
        let agent = format!("agent {}", number / MAX_LINKS_PER_CALLER);
        let own = stage.link(&agent, number).await.unwrap();
        let mut reached = ReachedLink::owned(own);
        assert_eq!(stage.all.pin(&mut reached), number < 12, "{number}");
        if number < 12 {
            waiting.push(reached);
        }
    }
    assert!(stage.link("another", 0).await.is_ok());
    let own = waiting[3].own.clone().unwrap();
    assert!(stage.all.pin(&mut ReachedLink::owned(own)));
    let mut late = ReachedLink::owned(stage.link("another", 0).await.unwrap());
    assert!(!stage.all.pin(&mut late));
    waiting.pop();
    assert!(stage.all.pin(&mut late));
}

/// A question without a request of its own belongs to the task that it names; one that names none to
/// the only call, whatever results of tasks are waited for. Between two calls nobody chooses.
#[tokio::test(start_paused = true)]
async fn a_question_finds_its_request() {
    let stage = LinkStage::before(over_stdio());
    let own = stage.link("alice", 0).await.unwrap();
    let id = |name: &str| Text::of(&json!(name));
    let about = |task: &Text| AskedAbout::Task(task.as_bytes().to_vec());
    let key = "io.modelcontextprotocol/related-task";
    let of_task = |name: &str| Text::of(&json!({ "_meta": { key: { "taskId": name } } }));
    let ask = async |params: Option<Text>| {
        let question = Message::request(1, "elicitation/create", params);
        own.asked(question).await;
    };
    let count = |inbox: &mut QuestionInbox| {
        std::iter::from_fn(|| futures_util::FutureExt::now_or_never(inbox.recv()).flatten()).count()
    };
    let (mut first, mut second) = (
        own.questions(about(&id("t-1"))),
        own.questions(about(&id("t-2"))),
    );
    ask(None).await;
    assert_eq!((count(&mut first), count(&mut second)), (0, 0));
    let mut call = own.questions(AskedAbout::Request);
    ask(None).await;
    ask(Some(of_task("t-2"))).await;
    ask(Some(of_task("t-3"))).await;
    let found = (count(&mut first), count(&mut second), count(&mut call));
    assert_eq!(found, (0, 1, 1));
    let mut other = own.questions(AskedAbout::Call);
    ask(None).await;
    assert_eq!((count(&mut call), count(&mut other)), (0, 0), "ambiguous");
    // The server has made a task of it, and its agent has not read so yet.
    ask(Some(of_task("t-3"))).await;
    assert_eq!((count(&mut call), count(&mut other)), (0, 1));
    other.becomes(&id("t-3"));
    ask(Some(of_task("t-3"))).await;
    ask(None).await;
    assert_eq!((count(&mut call), count(&mut other)), (1, 1));
}

/// A link that nobody uses ends after ten minutes; one in use does not.
#[tokio::test(start_paused = true)]
async fn an_idle_link_ends() {
    let stage = LinkStage::before(over_http());
    let used = stage.link("alice", 0).await.unwrap();
    let idle = stage.link("bob", 0).await.unwrap().link.clone();
    stage.passes(LINK_IDLE_TIMEOUT / 10 * 9).await;
    assert!(!idle.is_over());
    stage.passes(LINK_IDLE_TIMEOUT / 2).await;
    assert!(idle.is_over() && !used.link.is_over());
    assert_eq!(stage.all.open.lock().len(), 1);
}

impl CallerLinks {
    /// The link of this agent is that, in simulations.
    pub(crate) async fn stands(
        self: &Arc<Self>,
        server: &Arc<UpstreamServer>,
        asker: Asker<'_>,
        link: Arc<Link>,
        unsolicited: UnsolicitedReceiver,
    ) {
        self.is_simulated.store(true, Ordering::Relaxed);
        let params = initialize_of(asker.meta);
        let key = LinkKey::of(server, asker.caller, Some(&params));
        let opened = OpenedCallerLink {
            link,
            said: Text::of(
                &json!({ "capabilities": { "tasks": { "requests": { "tools": { "call": {} } } } } }),
            ),
            declared: params.get("capabilities").unwrap(),
            unsolicited,
            seat: None,
        };
        drop(self.find(&key));
        drop(self.open(server, key, async { Ok(opened) }).await.unwrap());
    }

    /// They are gone as after a kill.
    pub(crate) fn forget(&self) {
        self.open.lock().clear();
        self.coming.lock().clear();
        self.past.lock().clear();
    }
}
