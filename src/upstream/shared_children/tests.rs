//! Who shares a process, what each hears of it, and when it ends.

use super::*;
use crate::mcp::json::SERVER_JSON_LIMITS;
use crate::mcp::message::number;
use crate::model::ids::TenantId;
use crate::upstream::lines::Lines;
use crate::upstream::server::tests::{over_stdio, server_over};
use crate::upstream::stdio::Conversation;
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex};

type Heard = mpsc::Receiver<(ServerName, Arc<Link>, Inbound)>;

fn bank() -> ServerName {
    ServerName::new("billing")
}

fn caller(agent: &str, tenant: &str) -> Caller {
    Caller {
        tenant: Some(TenantId::new(tenant)),
        ..Caller::named(agent)
    }
}

fn told(capabilities: &Value) -> Text {
    let version = Revision::NEWEST_LEGACY.as_str();
    Text::of(&json!({ "protocolVersion": version, "capabilities": capabilities }))
}

/// A server at the other end of a link.
struct Played {
    heard: Lines<ReadHalf<DuplexStream>>,
    says: WriteHalf<DuplexStream>,
}

impl Played {
    async fn says(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.says.write_all(line.as_bytes()).await.unwrap();
    }

    async fn hears(&mut self) -> Value {
        let line = self.heard.next().await.unwrap().unwrap();
        Text::read(line, &SERVER_JSON_LIMITS).unwrap().value()
    }
}

fn opened() -> (OpenedChild, Played) {
    let (ours, theirs) = duplex(1 << 16);
    let (input, output) = tokio::io::split(ours);
    let (conversation, unsolicited) =
        Conversation::start(&bank(), input, output, std::future::pending());
    let link = Arc::new(Link::over(Arc::new(conversation)));
    let (heard, says) = tokio::io::split(theirs);
    let heard = Lines::new(heard);
    let answer = Message::response(Some(number(1)), Text::of(&json!({})), false);
    ((link, answer, unsolicited), Played { heard, says })
}

fn sitter() -> (Sitter, Arc<SessionMarks>, Heard) {
    let (inbox, heard) = mpsc::channel(8);
    let marks = Arc::new(SessionMarks::default());
    marks.presence.touch();
    let sitter = Sitter {
        inbox: SeatInbox::Session(inbox),
        marks: Some(marks.clone()),
    };
    (sitter, marks, heard)
}

fn call() -> Message {
    Message::request(0, "tools/call", Some(Text::of(&json!({ "name": "x" }))))
}

async fn sends(seat: &ChildSeat) -> crate::upstream::link::UpstreamExchange {
    let link = &seat.child().link;
    let request = link.request_of(call(), Vec::new(), false, seat.number);
    let mut exchange = request.await.unwrap();
    exchange.begin().await.unwrap();
    exchange
}

fn method(heard: &mut Heard) -> Option<String> {
    match heard.try_recv().ok()?.2 {
        Inbound::Message(message) => Some(message.method),
        Inbound::Comment(_) | Inbound::Interrupted(_) => None,
    }
}

/// 017: by default only sessions of one agent, tenant and user that cannot be asked anything share.
#[test]
fn only_the_same_caller_shares_and_nobody_who_can_be_asked() {
    let all = SharedChildren::default();
    let key = |sharing, caller: &Caller, capabilities: Value| {
        all.key(sharing, caller, &told(&capabilities), true)
    };
    let (ann, bob) = (caller("a", "acme"), caller("a", "globex"));
    let by_caller = |who: &Caller, capabilities| key(ChildSharing::Caller, who, capabilities);
    assert_eq!(by_caller(&ann, json!({})), by_caller(&ann, json!({})));
    assert_ne!(by_caller(&ann, json!({})), by_caller(&bob, json!({})));
    assert_ne!(
        by_caller(&ann, json!({})),
        by_caller(&ann, json!({ "experimental": {} }))
    );
    for asked in ASKABLE_CAPABILITIES {
        assert_ne!(
            by_caller(&ann, json!({ asked: {} })),
            by_caller(&ann, json!({ asked: {} })),
            "{asked}"
        );
    }
    let several = Caller {
        names_users: true,
        ..ann.clone()
    };
    assert_ne!(
        by_caller(&several, json!({})),
        by_caller(&several, json!({}))
    );
    let none = || key(ChildSharing::None, &ann, json!({}));
    assert_ne!(none(), none());
    let to_all = |who| key(ChildSharing::All, who, json!({})).is_shared();
    assert!(to_all(&ann) && to_all(&bob));
    assert_eq!(
        key(ChildSharing::All, &ann, json!({})).user,
        key(ChildSharing::All, &bob, json!({})).user
    );
}

/// 017: what a server asks goes to the session whose call alone it is at; where that cannot be known,
/// also because a call was given up, it goes nowhere.
#[tokio::test]
async fn a_question_goes_to_the_only_caller_or_nowhere() {
    let children = SharedChildren::default();
    let settings = server_over(over_stdio()).settings;
    let key = |who: &str| {
        children.key(
            ChildSharing::All,
            &caller("a", who),
            &told(&json!({})),
            true,
        )
    };
    let (opened, mut server) = opened();
    let (first, _, mut one) = sitter();
    let started = children.start(&settings, key("acme"), &first, async { Ok(opened) });
    let a = started.await.unwrap().0.unwrap();
    let (second, _, mut two) = sitter();
    let b = children
        .seat(&key("globex"), 4, &second)
        .expect("it is shared");
    let question = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {} });

    let of_a = sends(&a).await;
    server.hears().await;
    server.says(&question(7)).await;
    let (_, _, Inbound::Message(asked)) = one.recv().await.unwrap() else {
        panic!("no question")
    };
    assert_eq!(asked.method, "elicitation/create");

    let _of_b = sends(&b).await;
    server.hears().await;
    server.says(&question(8)).await;
    assert_eq!(server.hears().await["id"], 8, "it is refused");

    // The server may be at it still.
    drop(of_a);
    server.says(&question(9)).await;
    assert_eq!(server.hears().await["id"], 9, "it is refused");
    assert_eq!((method(&mut one), method(&mut two)), (None, None));
}

/// 017: of a process that all share a session hears what concerns it, and no log of another's call.
#[tokio::test]
async fn each_hears_what_concerns_it() {
    let children = SharedChildren::default();
    let settings = server_over(over_stdio()).settings;
    let key = |who: &str| {
        children.key(
            ChildSharing::All,
            &caller("a", who),
            &told(&json!({})),
            true,
        )
    };
    let (opened, mut server) = opened();
    let (first, marks, mut one) = sitter();
    let started = children.start(&settings, key("acme"), &first, async { Ok(opened) });
    let a = started.await.unwrap().0.unwrap();
    let (second, _, mut two) = sitter();
    let _b = children.seat(&key("globex"), 4, &second).unwrap();
    let wishes = SessionWishes {
        resources: ["file:///a".to_owned()].into(),
        level: None,
    };
    marks.wishes.lock().insert(bank(), wishes);
    let _of_a = sends(&a).await;
    server.hears().await;
    let note = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
    let updated = "notifications/resources/updated";
    server
        .says(&note(updated, json!({ "uri": "file:///a/part" })))
        .await;
    for of_nobody in ["file:///b", "file:///admin"] {
        server
            .says(&note(updated, json!({ "uri": of_nobody })))
            .await;
    }
    server
        .says(&note(
            "notifications/message",
            json!({ "level": "info", "data": "of a" }),
        ))
        .await;
    server
        .says(&note("notifications/unheard-of", json!({})))
        .await;
    server
        .says(&note("notifications/prompts/list_changed", json!({})))
        .await;
    let list_changed = "notifications/prompts/list_changed";
    let mut heard = Vec::new();
    while heard.last().is_none_or(|last| last != list_changed) {
        let Some((_, _, Inbound::Message(said))) = one.recv().await else {
            panic!("the end")
        };
        heard.push(said.method);
    }
    let own = [updated, "notifications/message", "notifications/unheard-of"];
    assert_eq!(heard, [&own[..], &[list_changed]].concat());
    assert_eq!(method(&mut two).as_deref(), Some(list_changed));
    assert_eq!(method(&mut two), None);
}

/// 017: there are no more processes than may be, one in four is left to other agents, and one whose
/// agent has gone makes room.
#[tokio::test]
async fn processes_are_bounded() {
    let children = SharedChildren::default();
    let settings = server_over(over_stdio()).settings;
    let mut seats = Vec::new();
    let mut ends = Vec::new();
    let mut start = async |agent: &str| {
        let key = children.key(
            ChildSharing::None,
            &caller(agent, "t"),
            &told(&json!({})),
            true,
        );
        let (opened, end) = opened();
        ends.push(end);
        let (sitter, marks, heard) = sitter();
        let started = children.start(&settings, key, &sitter, async { Ok(opened) });
        started
            .await
            .map(|started| (started.0.unwrap(), marks, heard))
    };
    for _ in 0..3 {
        seats.push(start("a").await.unwrap());
    }
    let fault = start("a").await.err().expect("there is no room");
    assert!(fault.what.contains("max_children"), "{}", fault.what);
    seats.push(start("b").await.unwrap());
    assert!(start("c").await.is_err());
    // The agent of the first has had a stream, and it has ended.
    let gone = &seats[0];
    drop(gone.1.reads());
    std::thread::yield_now();
    while gone.0.child().idle(children.clock.steady()).is_zero() {}
    seats.push(start("c").await.unwrap());
    assert!(seats[0].0.child().link.is_over() || !seats[0].0.child().is_open());
}

/// 017: a process ends once nobody is there that uses it, and not while a call waits.
#[tokio::test]
async fn a_process_that_nobody_uses_ends() {
    let children = SharedChildren::default();
    let settings = server_over(over_stdio()).settings;
    let key = children.key(
        ChildSharing::Caller,
        &caller("a", "t"),
        &told(&json!({})),
        true,
    );
    let (opened, _server) = opened();
    let (sitter, marks, _heard) = sitter();
    let started = children.start(&settings, key, &sitter, async { Ok(opened) });
    let seat = started.await.unwrap().0.unwrap();
    let long = Duration::from_nanos(1);
    children.sweep(long).await;
    assert_eq!(children.count(), 1, "its agent may be there");
    let reads = marks.reads();
    let call = sends(&seat).await;
    drop(reads);
    children.sweep(long).await;
    assert_eq!(children.count(), 1, "a call waits");
    drop(call);
    while seat.child().idle(children.clock.steady()) < long {}
    children.sweep(long).await;
    assert_eq!(children.count(), 0);
    assert!(seat.child().link.is_over());
}

/// 017: toolgate's own process is one of those that may run, once an agent takes it: also while another
/// is being started, and no agent takes it beyond its share.
#[tokio::test]
async fn the_first_process_counts_like_any_other() {
    let children = SharedChildren::default();
    let mut settings = server_over(over_stdio()).settings;
    let key =
        |sharing, agent: &str| children.key(sharing, &caller(agent, "t"), &told(&json!({})), true);
    let ((link, answer, unsolicited), _own) = opened();
    let _first = children.first(&bank(), &link, answer, unsolicited);
    let (sitter, _marks, _heard) = sitter();

    settings.max_children = 1;
    let never = std::future::pending();
    let mut starts =
        Box::pin(children.start(&settings, key(ChildSharing::None, "b"), &sitter, never));
    assert!(starts.as_mut().now_or_never().is_none(), "it never starts");
    let own = key(ChildSharing::Caller, "a");
    assert!(children.seat(&own, 1, &sitter).is_none(), "one is coming");
    drop(starts);

    let mut held = Vec::new();
    settings.max_children = 4;
    for _ in 0..3 {
        let (opened, end) = opened();
        let started = children.start(&settings, key(ChildSharing::None, "a"), &sitter, async {
            Ok(opened)
        });
        held.push((started.await.unwrap(), end));
    }
    assert!(
        children.seat(&own, 4, &sitter).is_none(),
        "it has its share"
    );
    let others = key(ChildSharing::Caller, "c");
    assert!(children.seat(&others, 4, &sitter).is_some());
}

/// 017: what is being started when all are ended is ended, too.
#[tokio::test]
async fn a_process_that_starts_too_late_is_ended() {
    let children = SharedChildren::default();
    let settings = server_over(over_stdio()).settings;
    let key = children.key(
        ChildSharing::Caller,
        &caller("a", "t"),
        &told(&json!({})),
        true,
    );
    let (sitter, _marks, _heard) = sitter();
    let (opened, _server) = opened();
    let link = opened.0.clone();
    let (lets, waits) = tokio::sync::oneshot::channel();
    let opens = async {
        waits.await.unwrap();
        Ok(opened)
    };
    let mut starts = Box::pin(children.start(&settings, key, &sitter, opens));
    assert!(starts.as_mut().now_or_never().is_none(), "it waits");
    children.close().await;
    lets.send(()).unwrap();
    let fault = starts.await.err().expect("toolgate stops");
    assert!(fault.what.contains("toolgate stops"), "{}", fault.what);
    assert!(link.is_over());
    assert_eq!(children.count(), 0);
}

/// 017: an agent that never opened a stream may come back, so its process stays for ten minutes, and
/// not longer.
#[tokio::test]
async fn an_agent_without_a_stream_counts_as_there_for_ten_minutes() {
    let children = SharedChildren::default();
    let settings = server_over(over_stdio()).settings;
    let key = children.key(
        ChildSharing::Caller,
        &caller("a", "t"),
        &told(&json!({})),
        true,
    );
    let (opened, _server) = opened();
    let (sitter, marks, _heard) = sitter();
    let started = children.start(&settings, key, &sitter, async { Ok(opened) });
    let seat = started.await.unwrap().0.unwrap();
    let now = children.clock.steady();
    let idle = |minutes| seat.child().idle(now + Duration::from_mins(minutes));
    assert_eq!(idle(9), Duration::ZERO);
    assert!(idle(11) > Duration::from_mins(10));
    drop(marks.reads());
    assert!(idle(9) > Duration::from_mins(8), "its stream has ended");
}
