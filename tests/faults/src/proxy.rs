//! What stands between two sides and breaks their exchanges: bytes that are late, swallowed or cut
//! off at byte k, in either direction, with an orderly end or a reset. What breaks when follows
//! from a seed.

use crate::agent::boot_time;
use crate::dice::Dice;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// How late bytes are at most, in milliseconds.
const LATEST: u64 = 40;
/// In how many of 100 unbroken exchanges something is late.
const LATE: u64 = 20;
/// How long what was swallowed is waited for.
const SILENCE: Duration = Duration::from_millis(250);
/// At which byte a request or an answer breaks off at most.
const FARTHEST: [u64; 2] = [700, 350];

/// A direction: from who asks, or back to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Forth,
    Back,
}

/// What becomes of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Pass,
    Late(Way, Duration),
    /// Nothing more of this direction arrives; after a while the connection ends.
    Swallow(Way),
    /// The connection ends after this many bytes of a direction; with a reset, or in good order.
    Cut {
        way: Way,
        at: usize,
        reset: bool,
    },
}

impl Plan {
    fn draw(dice: &mut Dice, broken: u64) -> Self {
        let way = if dice.chance(50) {
            Way::Forth
        } else {
            Way::Back
        };
        if !dice.chance(broken) {
            let late = Duration::from_millis(dice.below(LATEST));
            return if dice.chance(LATE) {
                Self::Late(way, late)
            } else {
                Self::Pass
            };
        }
        match dice.below(4) {
            0 => Self::Swallow(way),
            kind => {
                let at = usize::try_from(dice.below(FARTHEST[way as usize])).unwrap_or(0);
                Self::Cut {
                    way,
                    at,
                    reset: kind == 1,
                }
            }
        }
    }
}

/// A running proxy; dropping it ends it and all that goes through it.
#[derive(Debug)]
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    broken: Arc<AtomicU64>,
    breaks: Arc<Mutex<Vec<i64>>>,
    serving: JoinHandle<()>,
}

/// What all connections of a proxy share.
#[derive(Clone)]
struct Shared {
    target: Arc<Mutex<SocketAddr>>,
    broken: Arc<AtomicU64>,
    breaks: Arc<Mutex<Vec<i64>>>,
}

impl Proxy {
    /// Stands before `target`, which may move, and breaks `broken` of 100 exchanges.
    ///
    /// # Errors
    /// When nothing can be listened on.
    pub async fn start(
        target: Arc<Mutex<SocketAddr>>,
        dice: Dice,
        broken: u64,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, breaks) = (listener.local_addr()?, Arc::<Mutex<Vec<i64>>>::default());
        let broken = Arc::new(AtomicU64::new(broken));
        let shared = Shared {
            target,
            broken: broken.clone(),
            breaks: breaks.clone(),
        };
        let serving = tokio::spawn(async move {
            let (mut connections, mut nth) = (JoinSet::new(), 0);
            while let Ok((stream, _)) = listener.accept().await {
                nth += 1;
                connections.spawn(connection(stream, shared.clone(), dice.fork(nth)));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self {
            address,
            broken,
            breaks,
            serving,
        })
    }

    /// Breaks `broken` of 100 exchanges from now on.
    pub fn breaks_now(&self, broken: u64) {
        self.broken.store(broken, Ordering::Relaxed);
    }

    /// When something broke, and when what was swallowed was given up; boot time in nanoseconds.
    pub fn breaks(&self) -> Vec<i64> {
        self.breaks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn connection(asking: TcpStream, shared: Shared, dice: Dice) {
    let target = *shared.target.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(answering) = TcpStream::connect(target).await else {
        return;
    };
    for stream in [&asking, &answering] {
        let _ = stream.set_nodelay(true);
    }
    if let Some(reset) = carry([asking, answering], &shared, dice).await {
        for stream in reset {
            let _ = stream.set_zero_linger();
        }
    }
}

/// Carries bytes until one side ends or the plan says so; gives the streams back when they are to
/// be reset.
async fn carry(
    mut sides: [TcpStream; 2],
    shared: &Shared,
    mut dice: Dice,
) -> Option<[TcpStream; 2]> {
    let (mut plan, mut passed, mut last) = (Plan::Pass, [0_usize; 2], Way::Back);
    let (mut forth, mut back) = (vec![0; 16 << 10], vec![0; 16 << 10]);
    loop {
        let [asking, answering] = &mut sides;
        let (way, read) = tokio::select! {
            read = asking.read(&mut forth) => (Way::Forth, read),
            read = answering.read(&mut back) => (Way::Back, read),
        };
        let count = read.ok().filter(|count| *count > 0)?;
        // A connection that is kept open carries one exchange after the other.
        if way == Way::Forth && last == Way::Back {
            (plan, passed) = (
                Plan::draw(&mut dice, shared.broken.load(Ordering::Relaxed)),
                [0; 2],
            );
        }
        last = way;
        let bytes = if way == Way::Forth {
            &forth[..count]
        } else {
            &back[..count]
        };
        let before = passed[way as usize];
        passed[way as usize] += count;
        let other = &mut sides[1 - way as usize];
        match plan {
            Plan::Late(late, pause) if late == way && before == 0 => {
                tokio::time::sleep(pause).await;
            }
            Plan::Swallow(swallowed) if swallowed == way => {
                note(shared);
                tokio::time::sleep(SILENCE).await;
                note(shared);
                return None;
            }
            Plan::Cut {
                way: cut,
                at,
                reset,
            } if cut == way && before + count > at => {
                note(shared);
                let _ = other.write_all(&bytes[..at.saturating_sub(before)]).await;
                return reset.then_some(sides);
            }
            Plan::Pass | Plan::Late(..) | Plan::Swallow(_) | Plan::Cut { .. } => {}
        }
        other.write_all(bytes).await.ok()?;
    }
}

fn note(shared: &Shared) {
    shared
        .breaks
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(boot_time());
}

#[cfg(test)]
mod tests;
