//! Heads of the ledger leave by themselves: to a file, to a program over HTTP, into the log
//! (threat-model §3G, G3).

use crate::config::{Config, HeadsConfig};
use crate::store::journal::{Journal, Witness};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::tasks;
use crate::upstream::http::{Connections, connections};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often a program is told of one head at most, and how long after the first and each further
/// time.
const MAX_EXPORT_TRIES: u32 = 3;
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Where heads go, and what they go with.
pub(super) struct Exporter {
    heads: HeadsConfig,
    journal: Arc<Journal>,
    connections: Connections,
    metrics: Arc<Metrics>,
}

/// Lets heads of the ledger leave from now on, where the configuration says so.
pub(super) fn start(
    config: &Config,
    journal: &Arc<Journal>,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> anyhow::Result<Option<Arc<Exporter>>> {
    let Some(heads) = config.ledger.heads.clone() else {
        return Ok(None);
    };
    let connections = connections().map_err(anyhow::Error::msg)?;
    let exporter = Arc::new(Exporter {
        heads,
        journal: journal.clone(),
        connections,
        metrics: metrics.clone(),
    });
    tasks::spawn("heads", exporter.clone().run(stop.clone()));
    Ok(Some(exporter))
}

impl Exporter {
    /// Lets a head leave now and then, until `stop`: a program that does not answer delays none
    /// that are kept here.
    async fn run(self: Arc<Self>, stop: CancellationToken) {
        let (newest, mut heads) = watch::channel(None);
        let exporter = &self;
        let keeping = async move {
            loop {
                let witness = exporter.journal.witness();
                newest.send_replace(Some(witness.clone()));
                exporter.keep(&witness).await;
                if tokio::time::timeout(exporter.heads.every, stop.cancelled())
                    .await
                    .is_ok()
                {
                    return;
                }
            }
        };
        let sending = async {
            while heads.changed().await.is_ok() {
                let witness = heads.borrow_and_update().clone();
                if let Some(witness) = witness {
                    exporter.send(&witness).await;
                }
            }
        };
        tokio::join!(keeping, sending);
    }

    /// Lets the head leave that the ledger has now. What fails is said, counted, and made up for by
    /// the next one, which vouches for everything before it.
    pub(super) async fn tell(&self) {
        let witness = self.journal.witness();
        tokio::join!(self.keep(&witness), self.send(&witness));
    }

    async fn keep(&self, witness: &Witness) {
        if self.heads.log {
            tracing::info!(head = witness.line(), "where the ledger stands");
            self.metrics.head_left(true);
        }
        if let Some(file) = &self.heads.file {
            let kept = add(file, witness).await;
            self.metrics.head_left(kept.is_ok());
            if let Err(error) = kept {
                tracing::error!(file = %file.display(), %error, "a head of the ledger cannot be written");
            }
        }
    }

    async fn send(&self, witness: &Witness) {
        let Some(hook) = &self.heads.webhook else {
            return;
        };
        let id = format!(
            "head_{}_{}",
            witness.head.seq,
            witness.time.as_millisecond()
        );
        let mut pause = RETRY_DELAY;
        for attempt in 1..=MAX_EXPORT_TRIES {
            let body = format!(
                r#"{{"type":"ledger.head","timestamp":"{}","data":{}}}"#,
                witness.time,
                witness.line()
            );
            match hook.say(&self.connections, &id, body.into()).await {
                Ok(()) => return self.metrics.head_left(true),
                Err(failed) if attempt == MAX_EXPORT_TRIES => {
                    tracing::error!(%failed, "nobody could be told of a head of the ledger");
                    return self.metrics.head_left(false);
                }
                Err(failed) => {
                    tracing::warn!(%failed, attempt, "nobody could be told of a head of the ledger; once more");
                }
            }
            tokio::time::sleep(pause).await;
            pause *= 4;
        }
    }
}

/// Adds the head to `file`, durably. A new one is for us alone; one that is there stays as its
/// owner lets others read it: heads say nothing of calls, and who keeps them elsewhere decides who
/// may read them.
async fn add(file: &Path, witness: &Witness) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = tokio::fs::OpenOptions::new();
    options
        .read(true)
        .append(true)
        .create(true)
        .mode(crate::owners::private::PRIVATE_FILE_MODE)
        .custom_flags(flags.bits().cast_signed());
    let mut kept = match options.open(file).await {
        // One that may only be added to.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            options.read(false).open(file).await?
        }
        opened => opened?,
    };
    if !kept.metadata().await?.is_file() {
        return Err(io::Error::other("this is not a regular file"));
    }
    let torn = is_torn(&mut kept).await.unwrap_or(false);
    let line = format!("{}{}\n", if torn { "\n" } else { "" }, witness.line());
    kept.write_all(line.as_bytes()).await?;
    kept.flush().await?;
    kept.sync_data().await
}

/// Whether the last line has no end: the machine lost power while it was written.
async fn is_torn(file: &mut tokio::fs::File) -> io::Result<bool> {
    if file.metadata().await?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(io::SeekFrom::End(-1)).await?;
    file.read_exact(&mut last).await?;
    Ok(last != *b"\n")
}
