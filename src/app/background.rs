//! What goes on beside the calls: notes, counts, sweeps.

use super::unattended::{HoldsSeen, UnattendedHolds};
use crate::admin::open_counts;
use crate::downstream::Door;
use crate::gate::Gate;
use crate::gate::catalogue::toolbox::Toolbox;
use crate::policy::live::LivePolicy;
use crate::store::disk_space::DiskSpace;
use crate::store::read_counts::WRITE_INTERVAL;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::tasks;
use crate::upstream::servers::Servers;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often unused sessions are looked for.
const SESSION_SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// How often the disk is looked at.
const DISK_LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// How often unknown outcomes are counted.
const UNKNOWN_COUNT_INTERVAL: Duration = Duration::from_secs(5);

/// Notes what comes about between calls, until `stop`.
pub(super) fn note(
    gate: &Arc<Gate>,
    servers: &Arc<Servers>,
    changed: &watch::Receiver<u64>,
    stop: &CancellationToken,
) {
    tasks::spawn("sums", gate.sums.clone().run(stop.clone()));
    tasks::spawn("policy notes", gate.clone().note_policies(stop.clone()));
    tasks::spawn(
        "hidden tools",
        gate.clone().watch_hidden(changed.clone(), stop.clone()),
    );
    tasks::spawn(
        "drifts",
        gate.clone()
            .note_drifts(servers.clone(), changed.clone(), stop.clone()),
    );
}

/// Connects the tool servers, once the secrets of the policy are known: a server may repeat one
/// that an earlier process gave it (threat-model §3F F2). Those of later policies are learnt as
/// they come, until `stop`.
pub(super) async fn connect(
    gate: Arc<Gate>,
    servers: Arc<Servers>,
    running: TaskTracker,
    stop: CancellationToken,
) {
    let mut policies = gate.policy.changes();
    learn_secrets(&gate).await;
    if !stop.is_cancelled() {
        servers.start(&running, &stop);
    }
    loop {
        tokio::select! {
            changed = policies.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
        learn_secrets(&gate).await;
    }
}

async fn learn_secrets(gate: &Gate) {
    let secrets = gate.policy.current().secrets.clone();
    for (binding, failed) in gate.vault.learn(&secrets, gate.clock).await {
        tracing::warn!(secret = binding.name, %failed, "a secret cannot be had; calls that name it are refused");
    }
}

/// Keeps counting the calls of which nobody knows whether they ran, and those that wait for
/// operators; at once when `recount` says that an operator has ended one.
pub(super) async fn count_unknown(gate: Arc<Gate>, recount: Arc<Notify>) {
    let mut unattended = UnattendedHolds::default();
    loop {
        let store = &gate.effects.store;
        let holds = open_counts::count(&**store, &gate.metrics).await;
        let waiting = {
            let seen = HoldsSeen {
                looks: &gate.watches.looks,
                is_void: &|hold| gate.void(hold).is_some(),
            };
            unattended.look(&holds, &seen, store.now())
        };
        gate.metrics.set_waits(waiting.oldest, waiting.unattended);
        // Either way the calls are counted.
        let _ = tokio::time::timeout(UNKNOWN_COUNT_INTERVAL, recount.notified()).await;
    }
}

/// Looks how much room the disk of the data directory has, and says when that is little, until `stop`.
pub(super) async fn watch_disk(
    data: PathBuf,
    seen: Arc<Mutex<Option<DiskSpace>>>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let mut is_low = false;
    loop {
        let asked = data.clone();
        let looked = tokio::task::spawn_blocking(move || DiskSpace::of(&asked)).await;
        if let Ok(Ok(disk)) = looked {
            metrics.disk(disk.free, disk.total);
            *seen.lock() = Some(disk);
            let was_low = is_low;
            is_low = disk.is_low() || was_low && disk.is_still_low();
            let (free_mib, total_mib) = (disk.free >> 20, disk.total >> 20);
            if is_low && !was_low {
                tracing::warn!(data = %data.display(), free_mib, total_mib,
                    "the disk of the data directory is nearly full: make room, or lower `ledger.max_bytes`; once it is full, no side effect runs");
            } else if was_low && !is_low {
                tracing::info!(data = %data.display(), free_mib, total_mib, "the disk of the data directory has room again");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(DISK_LOOK_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Rises when the tools or the policy change: either can change what a caller may list.
pub(super) fn list_changes(
    tools: &Toolbox,
    policy: &LivePolicy,
    stop: &CancellationToken,
) -> watch::Receiver<u64> {
    let (mut tools, mut policy) = (tools.changed(), policy.changes());
    let (changed, receiver) = watch::channel(0);
    let stop = stop.clone();
    tasks::spawn("list changes", async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                tools = tools.changed() => if tools.is_err() { return },
                policy = policy.changed() => if policy.is_err() { return },
            }
            changed.send_modify(|version| *version += 1);
        }
    });
    receiver
}

/// Has the store count what was read, for as long as toolgate runs.
pub(super) async fn count_reads(gate: Arc<Gate>) {
    loop {
        tokio::time::sleep(WRITE_INTERVAL).await;
        gate.effects.reads.write_all().await;
    }
}

/// Ends the sessions that are not used, and those of callers that are no longer configured.
pub(super) async fn sweep(door: Arc<Door>) {
    let mut policies = door.policy.changes();
    loop {
        // An error says that there will be no other policy, and toolgate ends.
        let _ = tokio::time::timeout(SESSION_SWEEP_INTERVAL, policies.changed()).await;
        door.sessions
            .keep(&door.policy.current().identity.present())
            .await;
        door.sessions.sweep(false).await;
        door.metrics.sessions(door.sessions.count());
    }
}
