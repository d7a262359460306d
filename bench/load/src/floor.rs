//! What durability costs at least: a log of our own to which as many bytes are appended as a call
//! leaves behind.

use crate::caller::now;
use crate::numbers::quantile;
use anyhow::Context as _;
use rustix::fs::{FallocateFlags, fallocate};
use std::cell::Cell;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{LocalSet, spawn_local};

/// Bytes that one call leaves in the journal, measured: of its intent and of its outcome.
const BYTES: [usize; 2] = [1100, 1500];
/// Bytes reserved and filled with zeros ahead, as the journal does: a file that grows with each sync,
/// or into what was only reserved, is slower.
const AHEAD: u64 = 16 << 20;

type Record = (usize, oneshot::Sender<()>);

/// Calls per second of so many callers: each appends both records, each durable before it goes on.
/// One sync is for all that wait, or for one record `each`.
pub(crate) async fn rate(
    directory: &Path,
    callers: usize,
    time: Duration,
    each: bool,
) -> anyhow::Result<f64> {
    let path = directory.join("floor");
    let file = File::create(&path)?;
    let (sender, records) = channel::<Record>();
    let writer = std::thread::spawn(move || write(file, &records, each));
    let (start, calls) = (now(), Rc::new(Cell::new(0_u32)));
    let run = async {
        let running: Vec<_> = (0..callers)
            .map(|_| {
                let (sender, calls) = (sender.clone(), calls.clone());
                spawn_local(async move {
                    while start.elapsed() < time {
                        for bytes in BYTES {
                            let (durable, told) = oneshot::channel();
                            sender.send((bytes, durable))?;
                            told.await?;
                        }
                        calls.set(calls.get() + 1);
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for one in running {
            one.await??;
        }
        anyhow::Ok(f64::from(calls.get()) / start.elapsed().as_secs_f64())
    };
    let rate = LocalSet::new().run_until(run).await;
    drop(sender);
    writer.join().ok().context("the writer panicked")??;
    std::fs::remove_file(path)?;
    rate
}

/// Microseconds that the two records of a call take which are synced one after the other into space
/// that is filled with zeros: half of the calls took at most this. No thread waits for another.
pub(crate) fn bare(directory: &Path, time: Duration) -> anyhow::Result<f64> {
    let path = directory.join("bare");
    let file = File::create(&path)?;
    let zeros = vec![0; 1 << 20];
    for place in 0..AHEAD >> 20 {
        file.write_all_at(&zeros, place << 20)?;
    }
    file.sync_all()?;
    let (start, mut took, mut written) = (now(), Vec::new(), 0);
    let records = BYTES.map(|bytes| vec![7; bytes]);
    let calls = AHEAD / BYTES.map(|bytes| bytes as u64).iter().sum::<u64>();
    for _ in 0..calls {
        let began = now();
        for record in &records {
            file.write_all_at(record, written)?;
            file.sync_data()?;
            written += record.len() as u64;
        }
        took.push(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX));
        if start.elapsed() >= time {
            break;
        }
    }
    std::fs::remove_file(path)?;
    took.sort_unstable();
    Ok(quantile(&took, 50))
}

fn write(mut file: File, records: &Receiver<Record>, each: bool) -> std::io::Result<()> {
    let (mut written, mut reserved) = (0, 0);
    let zeros = vec![0; usize::try_from(AHEAD).unwrap_or_default()];
    while let Ok(first) = records.recv() {
        let mut batch = vec![first];
        if !each {
            batch.extend(records.try_iter());
        }
        let bytes = vec![7; batch.iter().map(|(bytes, _)| bytes).sum()];
        written += bytes.len() as u64;
        if written > reserved {
            reserved = written + AHEAD;
            fallocate(&file, FallocateFlags::empty(), 0, reserved)?;
            file.write_all_at(&zeros, written - bytes.len() as u64)?;
        }
        file.write_all(&bytes)?;
        file.sync_data()?;
        for (_, durable) in batch {
            let _ = durable.send(());
        }
    }
    Ok(())
}
