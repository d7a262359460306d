//! `/api/status`: all that there is to see of a running toolgate at a glance, for operators with a token.

use super::operators::OperatorIdentity;
use super::status::{ProcessReport, Quarantined, Readiness};
use super::{OperatorsDoor, json_answer, refusal};
use crate::model::disabled::{Disabled, FrozenScope};
use crate::store::claims::StoreError;
use crate::store::operator::MAX_CLAIMS_LISTED;
use crate::store::state::claim::ClaimPhase;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The answer to `GET /api/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StatusReport {
    /// Whether it is ready, as `/readyz` says it.
    #[serde(flatten)]
    pub readiness: Readiness,
    /// The process.
    #[serde(flatten)]
    pub process: ProcessReport,
    /// Held calls that wait for operators, as far as the one who asks is told of them; 1000 at most. None where
    /// the store cannot tell.
    pub held: Option<usize>,
    /// Calls of which nobody knows whether they ran, 1000 at most. None where the store cannot tell.
    pub unknown: Option<usize>,
    /// Tools that operators have taken away.
    #[schemars(with = "std::collections::BTreeMap<String, crate::model::disabled::Reason>")]
    pub disabled: Disabled,
    /// What open incidents freeze.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub frozen: Vec<FrozenScope>,
    /// Tools that nobody is shown, or nobody in some profile.
    pub withheld: Vec<Quarantined>,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new().route("/api/status", get(status))
}

async fn status(
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
) -> Result<Response, Response> {
    let reading = door.clone();
    let process = tokio::task::spawn_blocking(move || reading.status.process()).await;
    let process = process.map_err(|_| {
        let hint = "the log says why";
        refusal(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the status cannot be made",
            hint,
        )
    })?;
    let report = StatusReport {
        readiness: door.status.ready(),
        process,
        held: held(&door, &known).await.ok(),
        unknown: unknown(&door).await.ok(),
        disabled: door.switches.disabling.disabled().await,
        frozen: door.switches.incidents.frozen().await,
        withheld: door.status.quarantined(),
    };
    Ok(json_answer(StatusCode::OK, &report))
}

/// How many calls wait, of those that `known` is told of.
async fn held(door: &OperatorsDoor, known: &OperatorIdentity) -> Result<usize, StoreError> {
    let store = &door.switches.store;
    let now = store.now();
    let (audits, roles) = (door.operators.audits(known), known.seeing(now));
    let holds = store.holds(MAX_CLAIMS_LISTED).await?;
    let waiting = holds.iter().map(|(_, hold)| hold);
    let waiting = waiting.filter(|hold| hold.is_waiting(now));
    let seen = waiting.filter(|hold| audits || roles.iter().any(|role| hold.roles.contains(role)));
    Ok(seen.count())
}

async fn unknown(door: &OperatorsDoor) -> Result<usize, StoreError> {
    let open = door.switches.store.unsettled(MAX_CLAIMS_LISTED).await?;
    let unknown = open
        .iter()
        .filter(|(_, claim)| matches!(claim.phase, ClaimPhase::Unknown { .. }));
    Ok(unknown.count())
}
