//! What verbs that wait for anything run on, and until when.

use anyhow::Context as _;
use futures_util::future::select_all;
use tokio::signal::unix::{SignalKind, signal};

/// The runtime of all verbs that serve. A sidecar shares its machine with the agent and the tool
/// servers: half of the cores are enough, and a call that stays on one thread costs less than one
/// that wakes others on its way. `TOKIO_WORKER_THREADS` says otherwise.
pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        runtime.worker_threads(cores.div_ceil(2));
    }
    let runtime = runtime
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    outlive_small_files(&runtime).context("signals cannot be caught")?;
    Ok(runtime)
}

/// A process of toolgate's account can lower how large its files may get, which would end it at its
/// next write. Caught, the write fails as on a full disk. Not ignored: programs inherit ignored
/// signals, caught ones go back to what they do by default.
fn outlive_small_files(runtime: &tokio::runtime::Runtime) -> std::io::Result<()> {
    let _inside = runtime.enter();
    let signal_of_size = rustix::process::Signal::XFSZ.as_raw();
    signal(SignalKind::from_raw(signal_of_size)).map(drop)
}

/// Done once the process is told to end.
pub(super) async fn told_to_end() {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::quit(),
        SignalKind::hangup(),
    ];
    let told = kinds.map(|kind| {
        Box::pin(async move {
            match signal(kind) {
                Ok(mut told) => {
                    told.recv().await;
                }
                Err(_) => std::future::pending().await,
            }
        })
    });
    select_all(told).await;
}
