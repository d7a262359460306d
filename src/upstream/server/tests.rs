//! When a server that is down is tried again, on paused time.

use super::*;
use crate::model::ids::ServerName;
use crate::upstream::child::ChildCommand;
use crate::upstream::child::sandbox::Sandbox;
use crate::upstream::server_settings::{ChildSharing, EraChoice};
use tokio::time::Instant;

/// How long what is known of a server's tools counts.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_mins(1);

pub(in crate::upstream) fn over_http() -> ServerTransport {
    ServerTransport::Http {
        uri: "http://127.0.0.1:9/mcp".parse().unwrap(),
        headers: http::HeaderMap::new(),
        credentials: Arc::default(),
    }
}

pub(in crate::upstream) fn over_stdio() -> ServerTransport {
    ServerTransport::Child(ChildCommand {
        program: "none".to_owned(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
        sandbox: Sandbox::default(),
        name: ServerName::new("billing"),
    })
}

/// A server that nobody has connected to.
pub(in crate::upstream) fn server_over(transport: ServerTransport) -> UpstreamServer {
    let timeout = Duration::from_secs(20);
    let settings = UpstreamServerSettings {
        name: ServerName::new("billing"),
        transport,
        timeout,
        task_after: Duration::from_secs(1),
        start_timeout: timeout,
        refresh: REFRESH_INTERVAL,
        ping_after: timeout,
        era: EraChoice::Auto,
        sharing: ChildSharing::Caller,
        max_children: 4,
        idle_timeout: timeout,
        not_executed: Arc::default(),
        fence_header: None,
        limits: crate::mcp::json::AGENT_JSON_LIMITS,
    };
    let connections = crate::upstream::http::connections().unwrap();
    let (guard, leftovers) = ("toolgate".into(), Arc::default());
    UpstreamServer::new(
        settings,
        Surroundings {
            connections,
            guard,
            leftovers,
        },
    )
}

/// A wait that has grown to a minute.
fn long() -> Backoff {
    let mut backoff = Backoff::default();
    while backoff.longest() < Duration::from_mins(1) {
        backoff.next();
    }
    backoff
}

/// How long a server that is down is left alone, when an agent wants it after `wanted`, if one
/// does.
async fn left_alone(server: &UpstreamServer, wanted: Option<Duration>) -> Duration {
    let begun = Instant::now();
    let agent = async {
        if let Some(after) = wanted {
            tokio::time::sleep(after).await;
            assert!(server.shared().is_err(), "it is down");
        }
    };
    let mut backoff = long();
    tokio::join!(server.pause(&mut backoff), agent);
    begun.elapsed()
}

/// I4: no agent waits a minute for a server that is back; a server is not asked more than once a
/// second, and a child that crashes is not started in a loop.
#[tokio::test(start_paused = true)]
async fn i4_a_server_that_agents_want_is_tried_again_sooner() {
    let (millis, seconds) = (Duration::from_millis, Duration::from_secs);
    let server = server_over(over_http());
    assert!(left_alone(&server, None).await >= seconds(30));
    let wait = left_alone(&server, Some(millis(10))).await;
    assert!(seconds(1) <= wait && wait < millis(1_100), "{wait:?}");
    let wait = left_alone(&server, Some(seconds(7))).await;
    assert!(seconds(7) <= wait && wait < millis(7_100), "{wait:?}");
    let child = server_over(over_stdio());
    assert!(left_alone(&child, Some(millis(10))).await >= seconds(30));
}
