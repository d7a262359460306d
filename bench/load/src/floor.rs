//! What durability costs at least: a log of our own to which as many bytes are appended as a call
//! leaves behind.

use crate::caller::now;
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
#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
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
    let (start, calls) = (now(), Rc::new(Cell::new(0_u64)));
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
        anyhow::Ok(calls.get() as f64 / start.elapsed().as_secs_f64())
    };
    let rate = LocalSet::new().run_until(run).await;
    drop(sender);
    writer.join().ok().context("the writer panicked")??;
    std::fs::remove_file(path)?;
    rate
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
