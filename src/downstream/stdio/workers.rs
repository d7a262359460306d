//! The tasks that do what an agent on a pipe asks for: a few that stay, each with a place of its own
//! for one request after the other, so that a request brings neither a task nor memory for its work.

use crate::downstream::pipe_line::PipeLine;
use crate::downstream::route::BegunRequest;
use crate::outlet::{Inlet, Outgoing};
use crate::telemetry::tasks::{self, WorkPlace};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Tasks of one pipe that stay. What is asked while all of them are busy has a task of its own.
const MAX_PIPE_WORKERS: usize = 16;

/// The workers of one pipe. Dropped, they end with the requests that they have.
pub(super) struct PipeWorkers {
    out: mpsc::Sender<PipeLine>,
    all: Vec<PipeWorker>,
    /// Those that have nothing to do, the one that was busy last at the end.
    idle: Arc<Mutex<Vec<usize>>>,
}

struct PipeWorker {
    place: WorkPlace,
    requests: mpsc::Sender<BegunRequest>,
}

/// A worker that has nothing to do, for one request.
pub(super) struct FreeWorker {
    number: usize,
    /// Where the request is worked on.
    pub(super) place: WorkPlace,
}

impl PipeWorkers {
    /// Workers who write what agents read to `out`.
    pub(super) fn new(out: mpsc::Sender<PipeLine>) -> Self {
        let (all, idle) = (Vec::new(), Arc::default());
        Self { out, all, idle }
    }

    /// One that has nothing to do, if there is one.
    pub(super) fn free(&mut self) -> Option<FreeWorker> {
        let idle = self.idle.lock().pop();
        let number = idle.or_else(|| self.one_more())?;
        let place = self.all[number].place.clone();
        Some(FreeWorker { number, place })
    }

    fn one_more(&mut self) -> Option<usize> {
        let number = self.all.len();
        if number >= MAX_PIPE_WORKERS {
            return None;
        }
        let (requests, mut asked) = mpsc::channel(1);
        let (out, idle) = (self.out.clone(), self.idle.clone());
        tasks::spawn("stdio worker", async move {
            while let Some(begun) = asked.recv().await {
                to_the_end(begun, &out).await;
                idle.lock().push(number);
            }
        });
        let place = WorkPlace::default();
        self.all.push(PipeWorker { place, requests });
        Some(number)
    }

    /// Does what was begun at the place of that worker; without one in a task of its own.
    pub(super) fn give(&self, begun: BegunRequest, worker: Option<FreeWorker>) {
        let unread = match self.answered(begun) {
            Ok(()) => {
                let number = worker.map(|worker| worker.number);
                return self.idle.lock().extend(number);
            }
            Err(unread) => unread,
        };
        let unread = match worker {
            // It waits for one request, and has none.
            Some(worker) => match self.all[worker.number].requests.try_send(unread) {
                Ok(()) => return,
                Err(full) => full.into_inner(),
            },
            None => unread,
        };
        let out = self.out.clone();
        tasks::spawn(
            "stdio answer",
            async move { to_the_end(unread, &out).await },
        );
    }

    /// Writes an answer that is there already, if there is room for it now.
    fn answered(&self, mut begun: BegunRequest) -> Result<(), BegunRequest> {
        if begun.work.is_some() {
            return Err(begun);
        }
        let Ok(room) = self.out.try_reserve() else {
            return Err(begun);
        };
        // Nothing was said before it: nothing has waited yet.
        match begun.inlet.recv().now_or_never() {
            Some(Some(Outgoing::Last(answer))) => room.send(answer.encode().into()),
            Some(Some(Outgoing::Message(said))) => {
                room.send(said.encode().into());
                return Err(begun);
            }
            Some(Some(Outgoing::Comment(_) | Outgoing::Interrupted(_))) | None => {
                return Err(begun);
            }
            Some(None) => {}
        }
        Ok(())
    }
}

/// Does a request's work, and writes all that its agent reads.
async fn to_the_end(begun: BegunRequest, out: &mpsc::Sender<PipeLine>) {
    let BegunRequest { inlet, work, .. } = begun;
    match work {
        // What follows its answer, such as its entry in the ledger, waits for no reader.
        Some(work) => drop(tokio::join!(work, written(inlet, out))),
        None => written(inlet, out).await,
    }
}

/// Writes what comes, until the answer is written or nobody reads any more.
async fn written(mut inlet: Inlet, out: &mpsc::Sender<PipeLine>) {
    while let Some(outgoing) = inlet.recv().await {
        let (message, is_last) = match outgoing {
            // There are none on standard output.
            Outgoing::Comment(_) | Outgoing::Interrupted(_) => continue,
            Outgoing::Message(message) => (message, false),
            Outgoing::Last(message) => (message, true),
        };
        let receipt = inlet.ticket().receipt().filter(|_| is_last);
        let receipts = receipt.into_iter().collect();
        let bytes = message.encode();
        if out.send(PipeLine { bytes, receipts }).await.is_err() || is_last {
            return;
        }
    }
}
