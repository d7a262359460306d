//! How many connections a listener serves at once, and what one more reads: that there is no room, and when to come
//! again (SECURITY §3B B9, §3I I5, §9 "Overload").

use crate::mcp::answer::INTERNAL;
use crate::mcp::message::Message;
use crate::model::clock::Clock;
use crate::telemetry::tasks;
use rustix::process::{Resource, getrlimit};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections of agents at once (SECURITY §8) …
const OF_AGENTS: usize = 1_024;
/// … and of operators, who are few and must get in when agents are many.
const OF_OPERATORS: usize = 64;
/// Connections without a place that are answered at once; more are closed without a word.
const TURNED_AWAY: usize = 64;
/// How long one of them may take to ask and to read its answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// Bytes of it that are read, so that closing does not take the answer back.
const READ: usize = 64 << 10;
/// The log tells of a full house once in this time.
const TOLD_AGAIN: Duration = Duration::from_mins(1);

/// The places at one listener.
pub struct Crowd {
    places: usize,
    free: Arc<Semaphore>,
    turning_away: Arc<Semaphore>,
    told: Option<Duration>,
    clock: Clock,
}

impl Crowd {
    /// Places for agents: 1,024, but at most half of the files that the process may open. The other half is for tool
    /// servers and the ledger.
    pub fn of_agents() -> Self {
        Self::new(OF_AGENTS.min(files() / 2))
    }

    /// Places for operators: 64, but at most an eighth of the files that the process may open.
    pub fn of_operators() -> Self {
        Self::new(OF_OPERATORS.min(files() / 8))
    }

    fn new(places: usize) -> Self {
        let places = places.max(1);
        let (free, turning_away) = (Arc::new(Semaphore::new(places)), Arc::new(Semaphore::new(TURNED_AWAY)));
        Self { places, free, turning_away, told: None, clock: Clock }
    }

    /// A place, if one is free. It is free again when the permit is dropped.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.free.clone().try_acquire_owned().ok()
    }

    /// Tells one connection without a place so, and closes it.
    pub(super) fn turn_away(&mut self, stream: TcpStream) {
        let now = self.clock.steady();
        if self.told.is_none_or(|told| now.saturating_sub(told) >= TOLD_AGAIN) {
            self.told = Some(now);
            tracing::warn!(places = self.places, "all connections are taken; more are answered 503 until one closes");
        }
        let Ok(turning) = self.turning_away.clone().try_acquire_owned() else { return };
        let answer = answer(self.places);
        tasks::spawn("turned away", async move {
            let _turning = turning;
            // What cannot be told to somebody who does not listen is no loss.
            drop(tokio::time::timeout(FAREWELL, tell(stream, &answer)).await);
        });
    }
}

/// How many files this process may open. What is not limited is more than anybody needs.
fn files() -> usize {
    getrlimit(Resource::Nofile).current.and_then(|files| files.try_into().ok()).unwrap_or(usize::MAX)
}

fn answer(places: usize) -> Vec<u8> {
    let words = format!("overloaded: all {places} connections are taken; nothing was read; try again in a moment");
    let body = Message::error(None, INTERNAL, &words, None).encode();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\nRetry-After: 1\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

/// Waits for a request to begin, for an answer to none is an error to many; what follows is read and forgotten.
async fn tell(mut stream: TcpStream, answer: &[u8]) -> io::Result<()> {
    let mut bytes = [0; 1 << 10];
    let mut read = stream.read(&mut bytes).await?;
    if read == 0 {
        return Ok(());
    }
    stream.write_all(answer).await?;
    stream.shutdown().await?;
    let mut left = READ;
    while read > 0 && left > 0 {
        left = left.saturating_sub(read);
        read = stream.read(&mut bytes).await?;
    }
    Ok(())
}
