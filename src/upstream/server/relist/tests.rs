//! How old what is known of a server's tools gets, on paused time; the server is played line by
//! line (threat-model §13 L7).

use super::*;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::upstream::lines::Lines;
use crate::upstream::server::tests::{REFRESH_INTERVAL, over_http, server_over};
use crate::upstream::stdio::Conversation;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

/// The server's side.
struct Played {
    heard: Lines<DuplexStream>,
    says: DuplexStream,
    ttl: Option<Duration>,
}

impl Played {
    /// The question for its tools.
    async fn asked(&mut self) -> Value {
        let line = self.heard.next().await.unwrap().unwrap();
        let asked = Text::read(line, &SERVER_JSON_LIMITS).unwrap().value();
        assert_eq!(asked["method"], "tools/list");
        asked["id"].clone()
    }

    async fn says(&mut self, message: Value) {
        self.says
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn lists(&mut self, id: Value, names: &[&str]) {
        let tools: Vec<_> = names
            .iter()
            .map(|name| json!({ "name": name, "inputSchema": {} }))
            .collect();
        let mut result = json!({ "tools": tools });
        if let Some(ttl) = self.ttl {
            result["ttlMs"] = json!(u64::try_from(ttl.as_millis()).unwrap());
        }
        self.says(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
            .await;
    }

    async fn refuses(&mut self, id: Value) {
        self.says(
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": "busy" } }),
        )
        .await;
    }
}

/// A connected server that announces changes or not, and whose tools count for `ttl`.
fn connected(announces: bool, ttl: Option<Duration>) -> (UpstreamServer, Arc<Link>, Played) {
    let server = server_over(over_http());
    let name = server.settings.name.clone();
    let ((output, heard), (says, input)) = (duplex(1 << 16), duplex(1 << 16));
    let (conversation, _) = Conversation::start(&name, input, output, std::future::pending());
    let link = Arc::new(Link::over(Arc::new(conversation)));
    let said = json!({ "capabilities": { "tools": { "listChanged": announces } } });
    server.stands(Some(link.clone()), Some(Text::of(&said)));
    server.lists(Catalog {
        fresh_for: ttl,
        ..Catalog::default()
    });
    (
        server,
        link,
        Played {
            heard: Lines::new(heard),
            says,
            ttl,
        },
    )
}

fn names(server: &UpstreamServer) -> Vec<String> {
    server
        .up()
        .unwrap()
        .catalog
        .tools
        .iter()
        .map(|tool| tool.name.clone())
        .collect()
}

/// L7: what is known is asked for again after half to all of the time that it counts for: the
/// server's `ttlMs` within bounds where it announces no changes, the configured time where it
/// announces them or says nothing.
#[tokio::test(start_paused = true)]
async fn l7_tools_are_asked_for_again_in_bounded_time() {
    let seconds = Duration::from_secs;
    for (announces, ttl, age) in [
        (false, None, REFRESH_INTERVAL),
        (false, Some(Duration::ZERO), seconds(5)),
        (false, Some(seconds(20)), seconds(20)),
        (false, Some(Duration::from_hours(24)), REFRESH_INTERVAL),
        (true, Some(Duration::ZERO), REFRESH_INTERVAL),
        (true, None, REFRESH_INTERVAL),
    ] {
        let (server, link, mut played) = connected(announces, ttl);
        let mut relist = Relist::new(&server, &link);
        for round in 0..20_u32 {
            let begun = Instant::now();
            let asked = tokio::select! { _ = relist.next() => panic!("nobody answered"), id = played.asked() => id };
            let waited = begun.elapsed();
            assert!(
                age / 2 <= waited && waited <= age,
                "{announces} {ttl:?}: {waited:?}"
            );
            let changes = server.state();
            let tools: &[&str] = if round % 2 == 0 {
                &["a", "b"]
            } else {
                &["b", "a"]
            };
            played.lists(asked, tools).await;
            relist.next().await.unwrap();
            assert_eq!(
                (names(&server).len(), changes.has_changed().unwrap()),
                (2, round == 0),
                "round {round}"
            );
        }
    }
}

/// L7: what changed without a word is taken in; what did not, or is only listed in another order,
/// tells nobody.
#[tokio::test(start_paused = true)]
async fn l7_only_what_changed_is_told() {
    let (server, link, mut played) = connected(false, None);
    let mut relist = Relist::new(&server, &link);
    for (listed, told) in [
        (["a", "b"], true),
        (["a", "b"], false),
        (["b", "a"], false),
        (["a", "c"], true),
    ] {
        let changes = server.state();
        let (taken, ()) = tokio::join!(relist.next(), async {
            let id = played.asked().await;
            played.lists(id, &listed).await;
        });
        taken.unwrap();
        assert_eq!(changes.has_changed().unwrap(), told, "{listed:?}");
        assert_eq!(names(&server).len(), 2);
    }
}

/// L7: a server that is busy is not lost at once, and what it listed still counts; one that was
/// said to be lost is.
#[tokio::test(start_paused = true)]
async fn l7_a_busy_server_is_asked_three_times() {
    let (server, link, mut played) = connected(false, None);
    let mut relist = Relist::new(&server, &link);
    for answer in [
        "lists",
        "refuses",
        "is silent",
        "lists",
        "refuses",
        "is silent",
        "refuses",
    ] {
        let answered = async {
            let id = played.asked().await;
            match answer {
                "lists" => played.lists(id, &["a"]).await,
                "refuses" => played.refuses(id).await,
                _ => {}
            }
        };
        let (taken, ()) = tokio::join!(relist.next(), answered);
        let last = relist.failures == MAX_FAILED_REFRESHES;
        assert_eq!(
            (taken.is_err(), names(&server)),
            (last, vec!["a".to_owned()]),
            "{answer}"
        );
    }
    assert_eq!(relist.failures, MAX_FAILED_REFRESHES);
    let mut relist = Relist::new(&server, &link);
    relist.suspect();
    let begun = Instant::now();
    let (taken, ()) = tokio::join!(relist.next(), async {
        let id = played.asked().await;
        played.refuses(id).await;
    });
    assert!(taken.is_err() && begun.elapsed() < Duration::from_secs(1));
}

/// threat-model §3C C10: while one question waits for its answer there is no second, and a change
/// that was told meanwhile is asked for after it, whatever the first answer says.
#[tokio::test(start_paused = true)]
async fn c10_one_question_at_a_time() {
    let (server, link, mut played) = connected(false, None);
    let mut relist = Relist::new(&server, &link);
    let first = tokio::select! { _ = relist.next() => panic!("nobody answered"), id = played.asked() => id };
    for _ in 0..1_000 {
        relist.changed();
        let waiting = tokio::time::timeout(Duration::from_millis(10), relist.next()).await;
        assert!(waiting.is_err(), "nobody answered");
    }
    assert!(
        tokio::time::timeout(Duration::from_secs(1), played.asked())
            .await
            .is_err(),
        "a second question"
    );
    played.lists(first, &["a"]).await;
    relist.next().await.unwrap();
    let begun = Instant::now();
    let (taken, ()) = tokio::join!(relist.next(), async {
        let id = played.asked().await;
        played.lists(id, &["b"]).await;
    });
    taken.unwrap();
    assert_eq!(
        (names(&server), begun.elapsed()),
        (vec!["b".to_owned()], MIN_ANNOUNCED_INTERVAL)
    );
}
