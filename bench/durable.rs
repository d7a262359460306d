//! What durability costs a call with side effects, without any HTTP: calls per second and CPU per
//! call of the embedded store (intent and outcome, each durable before the next step), beside the
//! floor (a log of our own to which the same bytes are appended, one fdatasync for all that wait)
//! and beside syncing for each call alone. All in one run, in turns.
//!
//! `cargo bench --bench durable -- [--seconds N] [--data DIRECTORY]`

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on says so"
)]

#[path = "effect.rs"]
mod effect;

use parking_lot::{Condvar, Mutex};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use toolgate::model::clock::Clock;
use toolgate::store::embedded::EmbeddedStore;
use toolgate::store::journal::{Journal, JournalOptions};
use toolgate::telemetry::tasks;

/// Bytes that one call leaves in the journal, measured: both events and its entry.
const BYTES: [usize; 2] = [1100, 1500];
/// Bytes that the floor reserves and fills with zeros ahead: a file that grows with each sync, or into
/// what was only reserved, is slower.
const AHEAD: u64 = 16 << 20;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let (mut seconds, mut data) = (3, std::env::temp_dir());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => {
                seconds = arguments
                    .next()
                    .and_then(|text| text.parse().ok())
                    .expect("--seconds N");
            }
            "--data" => data = PathBuf::from(arguments.next().expect("--data DIRECTORY")),
            "--test" => seconds = 0,
            other => {
                panic!("unknown argument `{other}`; there are --seconds N and --data DIRECTORY")
            }
        }
    }
    let time = Duration::from_secs(seconds).max(Duration::from_millis(50));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    println!(
        "{:>5}  {:>9} {:>9} {:>7}  {:>9} {:>9} {:>7} {:>7}  {:>6}  {:>9}",
        "calls", "floor/s", "CPU", "p50", "store/s", "CPU", "p50", "syncs", "of it", "naive/s"
    );
    for callers in [1, 16, 64, 256] {
        let floor = runtime.block_on(floor(&data, callers, time));
        let store = runtime.block_on(store(&data, callers, time));
        let naive = runtime.block_on(naive(&data, callers, time.min(Duration::from_secs(1))));
        println!(
            "{callers:>5}  {:>9.0} {:>7.1}us {:>5.0}us  {:>9.0} {:>7.1}us {:>5.0}us {:>7.2}  {:>5.0}%  {:>9.0}",
            floor.rate,
            floor.cpu,
            floor.p50,
            store.rate,
            store.cpu,
            store.p50,
            store.syncs,
            100.0 * store.rate / floor.rate,
            naive.rate
        );
    }
}

struct Measured {
    /// Calls in a second.
    rate: f64,
    /// Microseconds of CPU for a call.
    cpu: f64,
    /// Microseconds that half of the calls took at most.
    p50: f64,
    /// Calls.
    calls: f64,
    /// Syncs for a call, where they are counted.
    syncs: f64,
}

/// Runs `one` from `callers` tasks for `time`.
async fn measure<F: Future<Output = ()> + Send>(
    callers: u64,
    time: Duration,
    one: impl Fn(u64, u64) -> F + Clone + Send + 'static,
) -> Measured {
    let (stop, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (cpu, began) = (spent(), Clock.steady());
    let mut running = Vec::new();
    for caller in 0..callers {
        let (stop, done, one) = (stop.clone(), done.clone(), one.clone());
        running.push(tasks::spawn("caller", async move {
            let mut took = Vec::new();
            for call in 0.. {
                let began = Clock.steady();
                one(caller, call).await;
                took.push(Clock.steady().saturating_sub(began));
                done.fetch_add(1, Ordering::Relaxed);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            took
        }));
    }
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let mut each = Vec::new();
    for task in running {
        each.extend(task.await.unwrap());
    }
    each.sort_unstable();
    let calls = f64::from(u32::try_from(done.load(Ordering::Relaxed)).unwrap());
    let (cpu, took) = (
        spent().saturating_sub(cpu),
        Clock.steady().saturating_sub(began),
    );
    Measured {
        rate: calls / took.as_secs_f64(),
        cpu: cpu.as_secs_f64() * 1e6 / calls,
        p50: each[each.len() / 2].as_secs_f64() * 1e6,
        calls,
        syncs: 0.0,
    }
}

fn spent() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        now.tv_sec.try_into().unwrap(),
        now.tv_nsec.try_into().unwrap(),
    )
}

/// A log of its own, as good as the journal: a thread writes what waits into space reserved ahead,
/// syncs once, and lets all of them go. It makes, checks and keeps nothing else.
struct Log {
    queue: Mutex<(Vec<u8>, u64)>,
    work: Condvar,
    synced: watch::Sender<u64>,
    ended: Notify,
}

/// Writes into space reserved ahead, which is filled with zeros, until it is told that this was all.
fn keep(writer: &Log, mut file: File) {
    let (mut written, mut reserved) = (0, 0);
    let zeros = vec![0; usize::try_from(AHEAD).unwrap()];
    loop {
        let (bytes, last) = {
            let mut queue = writer.queue.lock();
            while queue.0.is_empty() {
                writer.work.wait(&mut queue);
            }
            (std::mem::take(&mut queue.0), queue.1)
        };
        written += bytes.len() as u64;
        if written > reserved {
            reserved = written + AHEAD;
            fallocate(&file, FallocateFlags::empty(), 0, reserved).unwrap();
            file.write_all_at(&zeros, written - bytes.len() as u64)
                .unwrap();
        }
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
        if last == u64::MAX {
            return writer.ended.notify_one();
        }
        writer.synced.send_replace(last);
    }
}

async fn floor(data: &Path, callers: u64, time: Duration) -> Measured {
    let directory = tempfile::tempdir_in(data).unwrap();
    let file = File::create(directory.path().join("log")).unwrap();
    let log = Arc::new(Log {
        queue: Mutex::default(),
        work: Condvar::default(),
        synced: watch::channel(0).0,
        ended: Notify::new(),
    });
    let writer = log.clone();
    std::thread::spawn(move || keep(&writer, file));
    let measured = measure(callers, time, {
        let log = log.clone();
        move |_, _| {
            let log = log.clone();
            async move {
                for bytes in BYTES {
                    let mut synced = log.synced.subscribe();
                    let mine = {
                        let mut queue = log.queue.lock();
                        let end = queue.0.len() + bytes;
                        queue.0.resize(end, 7);
                        queue.1 += 1;
                        log.work.notify_one();
                        queue.1
                    };
                    synced.wait_for(|synced| *synced >= mine).await.unwrap();
                }
            }
        }
    })
    .await;
    *log.queue.lock() = (vec![0], u64::MAX);
    log.work.notify_one();
    log.ended.notified().await;
    measured
}

async fn naive(data: &Path, callers: u64, time: Duration) -> Measured {
    let directory = tempfile::tempdir_in(data).unwrap();
    let file = Arc::new(tokio::sync::Mutex::new(
        File::create(directory.path().join("log")).unwrap(),
    ));
    measure(callers, time, move |_, _| {
        let file = file.clone();
        async move {
            for bytes in BYTES {
                let mut file = file.clone().lock_owned().await;
                tokio::task::spawn_blocking(move || {
                    file.write_all(&vec![7; bytes]).unwrap();
                    file.sync_data().unwrap();
                })
                .await
                .unwrap();
            }
        }
    })
    .await
}

async fn store(data: &Path, callers: u64, time: Duration) -> Measured {
    let directory = tempfile::tempdir_in(data).unwrap();
    let journal = Journal::open(directory.path(), JournalOptions::default()).unwrap();
    let store = EmbeddedStore::open(directory.path(), journal.clone(), Clock).unwrap();
    let (store, before) = (Arc::new(store), journal.health().syncs);
    let measured = measure(callers, time, move |caller, call| {
        let store = store.clone();
        async move {
            effect::call(&*store, caller, call).await;
        }
    })
    .await;
    let syncs = u32::try_from(journal.health().syncs - before).unwrap();
    Measured {
        syncs: f64::from(syncs) / measured.calls,
        ..measured
    }
}
