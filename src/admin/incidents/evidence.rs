//! What there is about an incident, read at the operators' door: the bundle, and calls that become samples. For
//! operators who may read what others are not shown. One bundle is written at a time, and no faster than it
//! is read, so that it takes little memory however large it is.

use super::{number, refused};
use crate::admin::operators::OperatorIdentity;
use crate::admin::operators::proof::StandingProof;
use crate::admin::{OperatorsDoor, json_answer, refusal, unfit};
use crate::model::clock::Clock;
use crate::model::entry::Entry;
use crate::model::verbs::OperatorVerb;
use crate::store::incidents::{BundleSpan, Incident, IncidentError, IncidentEvidence};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::BytesMut;
use futures_util::stream;
use jiff::Timestamp;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Bytes that are sent at once …
const CHUNK_BYTES: usize = 64 << 10;
/// … and how many such pieces wait to be read.
const MAX_CHUNKS_WAITING: usize = 4;
/// How long one who reads may take for the next piece.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of an action id.
const MAX_ACTION_ID_BYTES: usize = 64;

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/api/incidents/{id}/bundle", get(bundle))
        .route("/api/incidents/calls/{action}", get(call))
}

/// A bundle that is to be written.
struct WantedBundle {
    incident: Incident,
    span: BundleSpan,
    evidence: Arc<dyn IncidentEvidence>,
    /// No other is written until this is dropped.
    place: OwnedSemaphorePermit,
    /// For how long it is read by an operator who may.
    proof: StandingProof,
}

async fn bundle(
    Path(id): Path<String>,
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Response> {
    let evidence = evidence(&door, &known)?;
    let (id, span) = (number(&id)?, span(&uri)?);
    let incident = door.switches.incidents.find(id).await;
    let incident = incident.ok_or_else(|| refused(&IncidentError::Gone(id)))?;
    let judged = span.of(&incident, Clock.wall());
    judged.map_err(|why| refusal(StatusCode::BAD_REQUEST, &why, "correct the request"))?;
    let Ok(place) = door.bundles.clone().try_acquire_owned() else {
        let hint = "ask again when it is done";
        return Err(refusal(
            StatusCode::TOO_MANY_REQUESTS,
            "another bundle is being written",
            hint,
        ));
    };
    tracing::info!(id, who = known.name, "the bundle of an incident is read");
    let wanted = WantedBundle {
        incident,
        span,
        evidence,
        place,
        proof: door.operators.proof(&known, &headers),
    };
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((kind, wanted.begin()).into_response())
}

async fn call(
    Path(action): Path<String>,
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
) -> Result<Response, Response> {
    let evidence = evidence(&door, &known)?;
    let found = recorded(evidence, action).await?;
    let hint = "`toolgate ledger list` has the action ids";
    let found = found.map_err(|why| refusal(StatusCode::NOT_FOUND, &why, hint))?;
    let frozen = door.switches.incidents.frozen().await;
    if !frozen.iter().any(|scope| scope.names(&found.tool)) {
        return Err(refusal(
            StatusCode::NOT_FOUND,
            "no open incident freezes that call's tool",
            "GET /api/incidents lists those there are",
        ));
    }
    Ok(json_answer(StatusCode::OK, &found))
}

/// The tool of the recorded call with this action id, all of it; none where the ledger has no such call. It tells
/// an operator who may not read the ledger no more than whether the incident takes the call.
pub(super) async fn tool_of(
    door: &OperatorsDoor,
    action: &str,
) -> Result<Option<String>, Response> {
    let found = recorded(handed_out(door)?, action.to_owned()).await?;
    let found = found.ok().filter(|entry| entry.action_id == action);
    Ok(found.map(|entry| entry.tool))
}

/// The recorded call that `action` means, or in words why there is none.
async fn recorded(
    evidence: Arc<dyn IncidentEvidence>,
    action: String,
) -> Result<Result<Entry, String>, Response> {
    if action.is_empty() || action.len() > MAX_ACTION_ID_BYTES {
        return Err(unfit("name a call by its action id, as the ledger has it"));
    }
    let found = tokio::task::spawn_blocking(move || evidence.call(&action)).await;
    Ok(found.unwrap_or_else(|error| Err(error.to_string())))
}

/// What can be read, of an operator who may.
fn evidence(
    door: &OperatorsDoor,
    known: &OperatorIdentity,
) -> Result<Arc<dyn IncidentEvidence>, Response> {
    let verb = OperatorVerb::Audit;
    let what = "read what the ledger has about an incident";
    door.operators.permit(known, &[verb], what)?;
    handed_out(door)
}

/// What can be read.
fn handed_out(door: &OperatorsDoor) -> Result<Arc<dyn IncidentEvidence>, Response> {
    door.switches.evidence.clone().ok_or_else(|| {
        refusal(
            StatusCode::NOT_FOUND,
            "this toolgate hands nothing out of its ledger",
            "use `toolgate incident` on its machine",
        )
    })
}

fn span(uri: &Uri) -> Result<BundleSpan, Response> {
    let hint = "only ?since=TIME and &until=TIME can be asked for, each as RFC 3339 has it";
    let query = uri.query().unwrap_or_default().as_bytes();
    let mut span = BundleSpan::default();
    for (name, value) in url::form_urlencoded::parse(query) {
        let time: Timestamp = value.parse().map_err(|_| unfit(hint))?;
        match &*name {
            "since" => span.since = Some(time),
            "until" => span.until = Some(time),
            _ => return Err(unfit(hint)),
        }
    }
    Ok(span)
}

impl WantedBundle {
    /// The body that it is written to, from now on.
    fn begin(self) -> Body {
        let (sender, receiver) = mpsc::channel(MAX_CHUNKS_WAITING);
        let mut out = ChunkWriter {
            sender,
            runtime: Handle::current(),
            next: BytesMut::new(),
        };
        let Self {
            incident,
            span,
            evidence,
            place,
            proof,
        } = self;
        let write = move || {
            let written = evidence.bundle(&incident, span, &mut out);
            let written = written.and_then(|_| out.flush().map_err(|error| error.to_string()));
            if let Err(why) = written {
                let id = incident.id;
                tracing::warn!(
                    id,
                    why,
                    "the bundle of an incident was not written to its end"
                );
                out.break_off(why);
            }
            drop(place);
        };
        drop(tokio::task::spawn_blocking(write));
        let pieces = stream::unfold((receiver, proof), |(mut receiver, proof)| async move {
            let piece = tokio::select! {
                biased;
                () = proof.ends() => None,
                piece = receiver.recv() => Some(piece?),
            };
            // A reader who may not read it any more sees no end of it.
            let piece = piece.filter(|_| proof.allows(OperatorVerb::Audit));
            let piece: io::Result<Bytes> = piece.unwrap_or_else(|| {
                receiver.close();
                Err(io::Error::other("its reader may not read it any more"))
            });
            Some((piece, (receiver, proof)))
        });
        Body::from_stream(pieces)
    }
}

/// Hands on what is written, and waits for who reads.
struct ChunkWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    runtime: Handle,
    next: BytesMut,
}

impl ChunkWriter {
    fn send(&self, piece: io::Result<Bytes>) -> io::Result<()> {
        let sending = tokio::time::timeout(READ_TIMEOUT, self.sender.send(piece));
        match self.runtime.block_on(sending) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ErrorKind::BrokenPipe.into()),
            Err(_) => Err(ErrorKind::TimedOut.into()),
        }
    }

    /// The answer does not end well: nobody takes it for a whole one.
    fn break_off(&self, why: String) {
        // One who reads no more sees no end either.
        drop(self.send(Err(io::Error::other(why))));
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.next.extend_from_slice(part);
        if self.next.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.next.is_empty() {
            return Ok(());
        }
        let piece = self.next.split().freeze();
        self.send(Ok(piece))
    }
}
