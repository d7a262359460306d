//! What tells: the outbox, who is told, and the way to them.

use super::delivery::{mail, pause, request};
use super::notice::Notice;
use super::outbox::{NoticeOutcome, Outbox, Told};
use super::receiver::NoticeReceiver;
use crate::store::claims::Store;
use crate::store::journal::Journal;
use crate::store::outbox_file;
use crate::telemetry::metrics::Metrics;
use crate::upstream::egress::Egress;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How often a receiver looks for itself whether something is due.
const DUE_INTERVAL: Duration = Duration::from_mins(1);

/// What it stands on.
pub(crate) struct NotifierParts {
    /// Who is told.
    pub receivers: Vec<NoticeReceiver>,
    /// Where operators reach their pages.
    pub public_url: Option<String>,
    /// The data directory.
    pub data: PathBuf,
    /// What is told of.
    pub journal: Arc<Journal>,
    /// What is known besides.
    pub store: Arc<dyn Store>,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
}

/// Tells people.
pub(crate) struct Notifier {
    pub(super) parts: NotifierParts,
    pub(super) outbox: Mutex<Outbox>,
    /// Whether the outbox is not what was kept of it.
    pub(super) is_ahead: AtomicBool,
    egress: Egress,
    news: watch::Sender<()>,
}

impl Notifier {
    /// Goes on where an earlier toolgate ended; a first one begins with what happens from now on, and
    /// with the calls that wait. Blocks.
    pub(crate) fn open(parts: NotifierParts) -> Result<Arc<Self>, String> {
        let egress = Egress::new()?;
        let head = parts.journal.durable_seq();
        let kept = outbox_file::read(&parts.data).map_err(|error| error.to_string())?;
        let kept = kept.and_then(|text| match serde_json::from_str::<Outbox>(&text) {
            Ok(outbox) if outbox.after <= head => Some(outbox),
            Ok(_) => None,
            Err(error) => {
                tracing::error!(%error, "what was still to be told cannot be read, and is not told");
                None
            }
        });
        let is_new = kept.is_none();
        let mut outbox = kept.unwrap_or_else(|| Outbox::starting(head));
        outbox.keep(&parts.receivers);
        let notifier = Self {
            parts,
            outbox: Mutex::new(outbox),
            is_ahead: AtomicBool::new(false),
            egress,
            news: watch::Sender::new(()),
        };
        if is_new {
            notifier.write()?;
        }
        Ok(Arc::new(notifier))
    }

    /// Queues `notice` for all who hear of it.
    pub(super) fn tell(&self, notice: &Notice) {
        let now = self.parts.store.now();
        let told = self.outbox.lock().tell(notice, &self.parts.receivers, now);
        self.changed(&told);
    }

    /// Something is queued, and some of it is not.
    pub(super) fn changed(&self, told: &[Told]) {
        self.is_ahead.store(true, Ordering::Release);
        self.news.send_replace(());
        for (receiver, outcome) in told {
            if *outcome == NoticeOutcome::Dropped {
                tracing::error!(%receiver,
                    "a receiver is not told of something: it is a day old, or too much waits"
                );
            }
            self.parts.metrics.noticed(receiver, outcome.word());
        }
    }

    /// Tells one receiver what waits for it, one thing at a time, until `stop`.
    pub(super) async fn deliver(self: Arc<Self>, index: usize, stop: CancellationToken) {
        let Some(receiver) = self.parts.receivers.get(index) else {
            return;
        };
        let mut news = self.news.subscribe();
        loop {
            news.mark_unchanged();
            let now = self.parts.store.now();
            let next = self.outbox.lock().next_for(&receiver.name, now);
            let due = match next {
                Ok((notice, tries)) => {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = self.send(receiver, &notice, tries) => {}
                    }
                    continue;
                }
                Err(due) => due.map(|due| Duration::from_millis(due.saturating_sub(now))),
            };
            tokio::select! {
                () = stop.cancelled() => return,
                // The sender is this notifier's own.
                _ = news.changed() => {}
                () = tokio::time::sleep(due.unwrap_or(DUE_INTERVAL).min(DUE_INTERVAL)) => {}
            }
        }
    }

    async fn send(&self, receiver: &NoticeReceiver, notice: &Notice, tries: u32) {
        let (id, name) = (notice.id.as_str(), receiver.name.as_str());
        let public = self.parts.public_url.as_deref();
        let sent = match (&receiver.mail, request(receiver, notice, public)) {
            (Some(route), _) => {
                let mail = mail(receiver, notice, public);
                Some(Box::pin(route.send(mail, receiver.timeout)).await)
            }
            (None, Some(post)) => Some(self.egress.post(post, receiver.timeout).await),
            (None, None) => None,
        };
        let outcome = match sent {
            None => {
                self.outbox.lock().delivered(id, name);
                NoticeOutcome::Dropped
            }
            Some(Ok(())) => {
                self.outbox.lock().delivered(id, name);
                NoticeOutcome::Delivered
            }
            Some(Err(error)) => {
                tracing::warn!(receiver = name, notice = id, tries = tries + 1, %error, "a receiver was not told");
                let (now, pause) = (self.parts.store.now(), pause(tries, &error));
                self.outbox.lock().failed(id, name, now, pause)
            }
        };
        self.changed(&[(name.to_owned(), outcome)]);
    }

    /// Keeps the outbox, durably. Blocks.
    pub(super) fn write(&self) -> Result<(), String> {
        let text =
            serde_json::to_string(&*self.outbox.lock()).map_err(|error| error.to_string())?;
        outbox_file::write(&self.parts.data, &text).map_err(|error| error.to_string())
    }
}
