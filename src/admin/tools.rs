//! Tools that operators take away and give back (003-41). What is away is for operators with a
//! token to read, and for those with the role for it to change.

use super::operator_request::OperatorRequest;
use super::operators::OperatorIdentity;
use super::{OperatorsDoor, json_answer, refusal};
use crate::guards::approval::GrantJudge;
use crate::model::disabled::Disabled;
use crate::model::ids::ToolName;
use crate::model::verbs::OperatorVerb;
use crate::store::approvals::VoidJudge;
use crate::store::approvals::editing::EditJudge;
use crate::store::claims::Store;
use crate::store::disabling::{Disabling, DisablingChange, DisablingError};
use crate::store::hold_looks::HoldLooks;
use crate::store::incidents::{IncidentEvidence, Incidents, RunPacks};
use crate::store::operator::asking::OutcomeAsker;
use crate::store::undos::UndoMaker;
use crate::telemetry::metrics::Metrics;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 16 << 10;

/// Says which tools a pattern names.
pub(crate) type ScopeOf = dyn Fn(&str) -> Option<Vec<ToolName>> + Send + Sync;

/// What the door needs to take tools away.
#[derive(Clone)]
pub(crate) struct Switches {
    /// What is away.
    pub disabling: Arc<Disabling>,
    /// What incidents freeze.
    pub incidents: Arc<Incidents>,
    /// The tools that a pattern is known to name; none where it is no pattern, or of no server.
    pub scope_of: Arc<ScopeOf>,
    /// The test packs, which have to pass before an incident is closed.
    pub packs: Arc<RunPacks>,
    /// What there is about incidents; none where nothing of the ledger is handed out.
    pub evidence: Option<Arc<dyn IncidentEvidence>>,
    /// The time.
    pub store: Arc<dyn Store>,
    /// What operators count.
    pub metrics: Arc<Metrics>,
    /// Wakes what counts open calls, once an operator has ended or decided one.
    pub recount: Arc<Notify>,
    /// Could there be such a tool? A name with a typo would take nothing away.
    pub is_known: Arc<dyn Fn(&ToolName) -> bool + Send + Sync>,
    /// What can be granted, and what has become of it.
    pub grants: Arc<dyn GrantJudge>,
    /// Whether a held call could be made with other arguments.
    pub edits: Arc<dyn EditJudge>,
    /// What takes calls back.
    pub undo: Arc<dyn UndoMaker>,
    /// Asks tool servers what became of calls.
    pub asker: Arc<dyn OutcomeAsker>,
    /// Why an operator's word on that held call would count for nothing.
    pub void: Arc<VoidJudge>,
    /// When operators have looked at held calls.
    pub looks: Arc<HoldLooks>,
    /// Changes with each policy that comes in force: what is held may be void then.
    pub policies: watch::Receiver<u64>,
}

/// The answer to `GET /api/tools/disabled`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DisabledList {
    /// What is away, by name.
    #[schemars(with = "std::collections::BTreeMap<String, crate::model::disabled::Reason>")]
    pub disabled: Disabled,
}

/// The answer to a change that was made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SwitchReply {
    /// `server__tool`.
    #[schemars(with = "String")]
    pub tool: ToolName,
    /// Is it away now?
    pub disabled: bool,
    /// Who the ledger names.
    pub who: String,
}

/// The body of a change.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchRequest {
    /// The operator's reason.
    why: String,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/api/tools/disabled", get(list))
        .route("/api/tools/{tool}/disable", post(disable))
        .route("/api/tools/{tool}/enable", post(enable))
}

async fn list(_: OperatorIdentity, State(door): State<Arc<OperatorsDoor>>) -> Response {
    let disabled = door.switches.disabling.disabled().await;
    json_answer(StatusCode::OK, &DisabledList { disabled })
}

async fn disable(Path(tool): Path<String>, asked: OperatorRequest) -> Result<Response, Response> {
    let (why, OperatorRequest { door, known, .. }) = wanted(asked).await?;
    let tool = ToolName::new(&tool);
    if !(door.switches.is_known)(&tool) {
        let hint = "name it `server__tool`, as the listing and the contracts do";
        return Err(refusal(
            StatusCode::NOT_FOUND,
            "there is no such tool",
            hint,
        ));
    }
    change(&door.switches, tool, true, known.name, why).await
}

async fn enable(Path(tool): Path<String>, asked: OperatorRequest) -> Result<Response, Response> {
    let (why, OperatorRequest { door, known, .. }) = wanted(asked).await?;
    change(&door.switches, ToolName::new(&tool), false, known.name, why).await
}

/// The reason of an operator who may ask.
async fn wanted(mut asked: OperatorRequest) -> Result<(String, OperatorRequest), Response> {
    asked.permit(OperatorVerb::Switch)?;
    let hint = "send {\"why\": \"…\"}: it stands in the ledger for good";
    let SwitchRequest { why } = asked.written(BODY_BYTES_MAX, hint).await?;
    Ok((why, asked))
}

async fn change(
    switches: &Switches,
    tool: ToolName,
    disable: bool,
    who: String,
    why: String,
) -> Result<Response, Response> {
    let made = make(switches, tool.clone(), disable, who.clone(), why).await;
    made.map_err(|unchanged| refused(&unchanged))?;
    let reply = SwitchReply {
        tool,
        disabled: disable,
        who,
    };
    Ok(json_answer(StatusCode::OK, &reply))
}

/// Takes the tool away, or gives it back, durably.
pub(super) async fn make(
    switches: &Switches,
    tool: ToolName,
    disable: bool,
    who: String,
    why: String,
) -> Result<(), DisablingError> {
    let wish = DisablingChange {
        tool,
        disable,
        who,
        why,
        at: switches.store.now(),
    };
    switches.disabling.make(wish).await.map(drop)
}

fn refused(unchanged: &DisablingError) -> Response {
    let (status, hint) = match unchanged {
        DisablingError::Unfit(_) => (StatusCode::BAD_REQUEST, "correct the request"),
        DisablingError::NotDisabled => (
            StatusCode::NOT_FOUND,
            "GET /api/tools/disabled lists those that are",
        ),
        DisablingError::TooMany => (
            StatusCode::CONFLICT,
            "set `disabled: true` for the whole server in toolgate.yaml",
        ),
        DisablingError::Store(_) | DisablingError::Unrecorded(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "/readyz and the log say what is wrong",
        ),
    };
    refusal(status, &unchanged.to_string(), hint)
}
