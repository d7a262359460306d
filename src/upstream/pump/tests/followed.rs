//! A task of a legacy server that toolgate follows, and whose result never comes, on paused time.

use super::*;
use crate::mcp::bridge::TaskSupport;
use crate::mcp::revision::Revision;
use crate::upstream::caller_links::Asker;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// A legacy server: a call becomes a task that has completed, and the request for its result reads an
/// error. Notes what it was asked.
async fn serves(theirs: DuplexStream, heard: &Mutex<Vec<String>>) {
    let (input, mut output) = tokio::io::split(theirs);
    let mut lines = BufReader::new(input).lines();
    let task = json!({ "taskId": "t-1", "status": "completed", "createdAt": "2025-11-25T00:00:00Z",
        "lastUpdatedAt": "2025-11-25T00:00:00Z", "ttl": 60_000 });
    while let Ok(Some(line)) = lines.next_line().await {
        let said: Value = serde_json::from_str(&line).unwrap();
        let Some(method) = said["method"].as_str().filter(|_| !said["id"].is_null()) else {
            continue;
        };
        heard.lock().push(method.to_owned());
        let mut answer = json!({ "jsonrpc": "2.0", "id": said["id"] });
        match method {
            "tools/call" => answer["result"] = json!({ "task": task }),
            "tasks/get" => answer["result"] = task.clone(),
            _ => answer["error"] = json!({ "code": -32000, "message": "nothing was done" }),
        }
        let line = format!("{answer}\n");
        output.write_all(line.as_bytes()).await.unwrap();
    }
}

/// guarantees §4: an error in place of the result of a task that has completed is asked about so often
/// and then given up. Nobody knows what the call has done: that its server says an error which a
/// contract could name is no answer to it, and the call is not sent again.
#[tokio::test(start_paused = true)]
async fn a_completed_task_that_gives_errors_only_is_unknown() {
    let (servers, caller) = (servers(), Caller::named("agent"));
    let (ours, theirs) = duplex(1 << 16);
    let (input, output) = tokio::io::split(ours);
    let server = &servers.all()[0];
    let name = &server.settings.name;
    let (conversation, unsolicited) =
        Conversation::start(name, input, output, std::future::pending());
    let link = Link::child(Arc::new(conversation), None, Revision::NEWEST_LEGACY);
    let link = Arc::new(link);
    server.stands_in_sessions(link.clone());
    let asker = Asker {
        caller: &caller,
        meta: None,
    };
    servers
        .callers()
        .stands(server, asker, link, unsolicited)
        .await;
    let links = Arc::new(Links::shared(servers.clone()));
    let waiting = &links.wait(&Text::string("1")).unwrap();
    let (outlet, _agent) = way_back();
    let context = ExchangeContext {
        caller: &caller,
        outlet: &outlet,
        links: &links,
        waiting,
        stop_when_gone: false,
        outlives: None,
        shaping: None,
        tolerance: Tolerance::None,
        task_token: None,
    };
    let params = Text::of(&json!({ "name": "pay", "arguments": {} }));
    let message = &Message::request(1, "tools/call", Some(params));
    let exchange = context.exchange(Outbound {
        server: name,
        message,
        params: &[],
        timeout: None,
        changes: true,
        terms: BridgeTerms {
            begins_anew: false,
            task: TaskSupport::Required,
        },
    });
    let heard = Mutex::default();
    let fault = tokio::select! {
        ended = exchange => ended.unwrap_err(),
        () = serves(theirs, &heard) => unreachable!("the server was left"),
    };
    assert_eq!(fault.sent, Sent::Maybe, "{fault}");
    let count = |method: &str| heard.lock().iter().filter(|heard| *heard == method).count();
    assert_eq!((count("tools/call"), count("tasks/result")), (1, 31));
}
