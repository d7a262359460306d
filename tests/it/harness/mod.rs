//! What scenarios are made of:
//! * `setup`, `gate`: the built program on a configuration of its own, and running;
//! * `agent`, `answer`, `stdio`: agents, from exact bytes up to calls, over HTTP and as a parent;
//! * `tool_server`: the oracle, which counts what it executes (threat-model §12); `http2_server`: the
//!   oracle on HTTP/2; `scripted_server`: answers as the scenario says, bit by bit; `sse_server`: the
//!   same on the transport of 2024-11-05;
//! * `doors`: certificates, and agents over TLS and Unix sockets; `tls_front`: TLS before a server that speaks none;
//! * `issuer`: an identity provider, which signs tokens; `token_endpoint`: one that gives tokens for tool servers; `hook_server`: a program of the operator's; `mail_server`: one that takes mail; `folding`: a second reader of every message;
//! * `table`: cases as text; `left_out`: scenarios that need what is not there.
//!
//! Nothing here sleeps for a time and hopes: a scenario that waits, waits for a condition, with a
//! deadline.

pub mod agent;
pub mod answer;
pub mod doors;
pub mod folding;
pub mod gate;
pub mod hook_server;
pub mod http2_server;
pub mod issuer;
pub mod journal;
pub mod left_out;
pub mod mail_server;
pub mod replay;
pub mod scripted_server;
pub mod setup;
pub mod sse_server;
pub mod stdio;
pub mod table;
pub mod tls_front;
pub mod token_endpoint;
pub mod tool_server;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::future::Future;
use std::time::Duration;

/// How long anything may take before a scenario fails.
pub const DEADLINE: Duration = Duration::from_secs(40);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until `look` finds something, or fails with `what`.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, look: impl FnMut() -> F) -> T {
    until_or(|| what.to_owned(), look).await
}

/// As [`until`], with words that are made when it failed.
pub async fn until_or<T, F: Future<Output = Option<T>>>(
    what: impl Fn() -> String,
    mut look: impl FnMut() -> F,
) -> T {
    let found = tokio::time::timeout(DEADLINE, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(LOOK).await;
        }
    });
    found
        .await
        .unwrap_or_else(|_| panic!("not within {DEADLINE:?}: {}", what()))
}

/// The files that this process and what it starts may open from now on; none: as many as it may.
pub fn may_open(files: Option<u64>) -> Option<u64> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = files.or(maximum);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    current
}
