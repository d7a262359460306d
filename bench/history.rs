//! What history costs: a store that has seen many calls. Resident memory while they are made, bytes
//! that each leaves on the disk, and how long it takes to open the store again after a kill, with
//! its index and without.
//!
//! `cargo bench --bench history -- [--calls N] [--data DIRECTORY]`, or `bench/history`; N is a
//! million unless told.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot go on says so"
)]

#[path = "effect.rs"]
mod effect;

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use toolgate::model::clock::Clock;
use toolgate::store::embedded::EmbeddedStore;
use toolgate::store::journal::{Journal, JournalOptions};

/// Callers at once, each a session of its own.
const CALLERS: u64 = 256;
/// Calls to which the last are compared.
const FIRST: u64 = 1000;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let (mut calls, mut data) = (1_000_000_u64, std::env::temp_dir());
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--calls" => calls = value().parse().unwrap(),
            "--data" => data = PathBuf::from(value()),
            "--test" => calls = 1_000,
            "--make" => return make(&PathBuf::from(value()), value().parse().unwrap()),
            "--open" => return reopen(&PathBuf::from(value())),
            other => panic!("unknown argument `{other}`; there are --calls N and --data DIRECTORY"),
        }
    }
    let directory = tempfile::tempdir_in(data).unwrap();
    let mut maker = again(directory.path(), "--make", Some(calls));
    hear(&mut maker);
    maker.kill().unwrap();
    maker.wait().unwrap();
    for part in ["journal", "index"] {
        let bytes = size(&directory.path().join(part));
        println!(
            "{part}: {} MB, {} bytes per call",
            bytes >> 20,
            bytes / calls
        );
    }
    for (what, aside) in [
        ("opened after a kill", false),
        ("opened with its index deleted", true),
    ] {
        if aside {
            std::fs::remove_dir_all(directory.path().join("index")).unwrap();
        }
        println!("{what}:");
        let mut opener = again(directory.path(), "--open", None);
        hear(&mut opener);
        opener.kill().unwrap();
        opener.wait().unwrap();
    }
}

/// This program once more, on `directory`; it says on standard output what it finds.
fn again(directory: &Path, mode: &str, calls: Option<u64>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .arg(mode)
        .arg(directory)
        .args(calls.map(|calls| calls.to_string()));
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Prints what `child` says until it has said all.
fn hear(child: &mut Child) {
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        match line.unwrap() {
            line if line == "that is all" => return,
            line => println!("  {line}"),
        }
    }
    panic!("it ended early");
}

/// Makes `calls` calls, says how it goes, and waits to be killed.
fn make(directory: &Path, calls: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let journal = Journal::open(directory, JournalOptions::default()).unwrap();
    let store = Arc::new(EmbeddedStore::open(directory, journal, Clock).unwrap());
    let (made, began) = (Arc::new(AtomicU64::new(0)), Clock.steady());
    let mark = Arc::new(Mutex::new((0, spent())));
    println!("{:>9} calls: {:>6} KiB resident", 0, resident());
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (store, made, mark) = (store.clone(), made.clone(), mark.clone());
            runtime.spawn(async move {
                for call in 0..calls.div_ceil(CALLERS) {
                    effect::call(&*store, caller, call).await;
                    let made = made.fetch_add(1, Ordering::Relaxed) + 1;
                    // A call that has many before it may cost little more than one of the first.
                    if made == FIRST || made.is_multiple_of((calls / 10).max(1)) {
                        let rate = number(made) / since(began).as_secs_f64();
                        let cpu = since_mark(&mut mark.lock(), made);
                        println!(
                            "{made:>9} calls: {:>6} KiB resident, {rate:.0} calls/s, {cpu:.1} µs of CPU for each since the line before",
                            resident()
                        );
                    }
                }
            })
        })
        .collect();
    for caller in callers {
        runtime.block_on(caller).unwrap();
    }
    stay();
}

/// Microseconds of this process's CPU for each call since the mark, which is set anew.
fn since_mark(mark: &mut (u64, Duration), made: u64) -> f64 {
    let now = spent();
    let (calls, cpu) = (
        made.saturating_sub(mark.0).max(1),
        now.saturating_sub(mark.1),
    );
    *mark = (made, now);
    cpu.as_secs_f64() * 1e6 / number(calls)
}

/// CPU time of this process so far.
fn spent() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        now.tv_sec.try_into().unwrap(),
        now.tv_nsec.try_into().unwrap(),
    )
}

fn number(calls: u64) -> f64 {
    f64::from(u32::try_from(calls).unwrap())
}

/// Opens the store, says how long that took, and waits to be killed.
fn reopen(directory: &Path) {
    let began = Clock.steady();
    let journal = Journal::open(directory, JournalOptions::default()).unwrap();
    let opened = since(began);
    let _store = EmbeddedStore::open(directory, journal, Clock).unwrap();
    println!(
        "{:.2} s, {:.2} s of it the journal; {} KiB resident",
        since(began).as_secs_f64(),
        opened.as_secs_f64(),
        resident()
    );
    stay();
}

/// Time since `began`, on the steady clock.
fn since(began: Duration) -> Duration {
    Clock.steady().saturating_sub(began)
}

fn stay() -> ! {
    println!("that is all");
    loop {
        std::thread::park();
    }
}

/// Resident memory, in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Bytes of the files below `path`, as they lie on the disk.
fn size(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let about = std::fs::metadata(path).unwrap();
    if !about.is_dir() {
        return about.blocks() * 512;
    }
    std::fs::read_dir(path)
        .unwrap()
        .map(|file| size(&file.unwrap().path()))
        .sum()
}
