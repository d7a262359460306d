//! Incidents (003-20, 003-43): tools that nobody may call until what went wrong is mended. For operators
//! with a token to read, and for those with the role to switch tools to open, change and close.

mod evidence;

use super::operator_request::OperatorRequest;
use super::operators::OperatorIdentity;
use super::{OperatorsDoor, json_answer, refusal, unfit};
use crate::model::ids::ToolName;
use crate::model::verbs::OperatorVerb;
use crate::policy::shape::AsWritten;
use crate::store::incidents::{ClosingWish, Incident, IncidentError, IncidentSample, IncidentWish};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of a request's body.
const BODY_BYTES_MAX: usize = 16 << 10;

/// The answer to `GET /api/incidents`.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct IncidentList {
    /// Those that are open, and closed ones that are kept; the newest first.
    pub incidents: Vec<Incident>,
}

/// The body of what opens one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IncidentBody {
    /// The pattern of the tools to freeze, such as `server__*`.
    tool: String,
    /// The operator's reason.
    why: String,
}

/// The body of what closes one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClosingBody {
    /// The operator's reason.
    why: String,
    /// Close it also where its samples or the test packs are not as expected; that is recorded.
    #[serde(default)]
    force: bool,
}

/// The body of what notes a sample.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SampleBody {
    /// The recorded call; the sample names it as its `repro`.
    action_id: String,
    /// `allow`, or the code of the refusal that is expected.
    expect: String,
    /// The pack that holds it.
    file: String,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/api/incidents", get(list).post(begin))
        .route("/api/incidents/{id}", get(one))
        .route("/api/incidents/{id}/samples", post(sampled))
        .route("/api/incidents/{id}/close", post(close))
        .merge(evidence::routes())
}

async fn list(_: OperatorIdentity, State(door): State<Arc<OperatorsDoor>>) -> Response {
    let incidents = door.switches.incidents.all().await;
    json_answer(StatusCode::OK, &IncidentList { incidents })
}

async fn one(
    Path(id): Path<String>,
    _: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
) -> Result<Response, Response> {
    let id = number(&id)?;
    let found = door.switches.incidents.find(id).await;
    let found = found.ok_or_else(|| refused(&IncidentError::Gone(id)))?;
    Ok(json_answer(StatusCode::OK, &found))
}

async fn begin(asked: OperatorRequest) -> Result<Response, Response> {
    let hint = "send {\"tool\": \"server__*\", \"why\": \"…\"}: it stands in the ledger for good";
    let (body, asked) = wanted(asked, hint).await?;
    let IncidentBody { tool, why } = body;
    let opened = open_incident(&asked.door, asked.known.name, &tool, why).await?;
    answered(opened)
}

async fn sampled(Path(id): Path<String>, asked: OperatorRequest) -> Result<Response, Response> {
    let hint = "send {\"action_id\": \"…\", \"expect\": \"allow\" or a code, \"file\": the pack}";
    let (body, asked) = wanted(asked, hint).await?;
    let SampleBody {
        action_id,
        expect,
        file,
    } = body;
    let (switches, id) = (&asked.door.switches, number(&id)?);
    // One that never was could be expected to be anything.
    let sample = IncidentSample {
        tool: evidence::tool_of(&asked.door, &action_id).await?,
        action_id,
        expect,
        file,
    };
    let noted = switches
        .incidents
        .sampled(&*switches.store, id, sample, &asked.known.name)
        .await;
    answered(noted)
}

async fn close(Path(id): Path<String>, asked: OperatorRequest) -> Result<Response, Response> {
    let hint = "send {\"why\": \"…\"}, and `force` to close it whatever the test packs say";
    let (body, asked) = wanted(asked, hint).await?;
    let ClosingBody { why, force } = body;
    let wish = ClosingWish {
        id: number(&id)?,
        who: asked.known.name,
        why,
        force,
    };
    let closed = close_incident(&asked.door, wish).await;
    answered(closed)
}

/// What is said of a pattern that names nothing: a typo must not look like a freeze.
pub(super) const NO_TOOL: &str = "the pattern names no tool that there is";

/// Opens an incident for the tools that `pattern` names; an answer where it names none.
pub(super) async fn open_incident(
    door: &OperatorsDoor,
    who: String,
    pattern: &str,
    why: String,
) -> Result<Result<Incident, IncidentError>, Response> {
    let switches = &door.switches;
    let is_one = !pattern.contains('*');
    let is_there = || !is_one || (switches.is_known)(&ToolName::new(pattern));
    let Some(tools) = (switches.scope_of)(pattern).filter(|_| is_there()) else {
        let hint = "name tools of a server as a layer does: `server__tool`, `server__*`";
        return Err(refusal(StatusCode::NOT_FOUND, NO_TOOL, hint));
    };
    let wish = IncidentWish {
        scope: pattern.to_owned(),
        tools,
        who,
        why,
    };
    Ok(switches.incidents.begin(&*switches.store, wish).await)
}

/// Closes an incident, if its samples and the packs are as expected, or it is forced.
pub(super) async fn close_incident(
    door: &OperatorsDoor,
    wish: ClosingWish,
) -> Result<Incident, IncidentError> {
    let switches = &door.switches;
    let packs = switches.packs.clone();
    switches
        .incidents
        .close(&*switches.store, wish, packs)
        .await
}

/// The number of an incident.
pub(super) fn number(id: &str) -> Result<u64, Response> {
    id.parse()
        .map_err(|_| unfit("an incident's id is a number, as GET /api/incidents has it"))
}

/// What is asked by an operator who may ask it.
async fn wanted<T: AsWritten>(
    mut asked: OperatorRequest,
    hint: &str,
) -> Result<(T, OperatorRequest), Response> {
    asked.permit(OperatorVerb::Switch)?;
    let body = asked.written(BODY_BYTES_MAX, hint).await?;
    Ok((body, asked))
}

fn answered(done: Result<Incident, IncidentError>) -> Result<Response, Response> {
    match done {
        Ok(incident) => Ok(json_answer(StatusCode::OK, &incident)),
        Err(why) => Err(refused(&why)),
    }
}

fn refused(unchanged: &IncidentError) -> Response {
    let (status, hint) = match unchanged {
        IncidentError::Unfit(_) => (StatusCode::BAD_REQUEST, "correct the request"),
        IncidentError::Gone(_) => (
            StatusCode::NOT_FOUND,
            "GET /api/incidents lists those there are; the ledger tells of older ones",
        ),
        IncidentError::NoSuchCall => (
            StatusCode::NOT_FOUND,
            "name a call by its whole action id: `toolgate ledger list` has them",
        ),
        IncidentError::AlreadyOpen(_) => (StatusCode::CONFLICT, "close that one first"),
        IncidentError::Closed(_) => (StatusCode::CONFLICT, "open another one"),
        IncidentError::TooMany | IncidentError::TooManyTripped => (
            StatusCode::CONFLICT,
            "set `disabled: true` for whole servers in toolgate.yaml",
        ),
        IncidentError::TooManySamples => (StatusCode::CONFLICT, "close it, and open another one"),
        IncidentError::Failing(_) => (
            StatusCode::CONFLICT,
            "mend the policy, or send `\"force\": true`, which is recorded",
        ),
        IncidentError::Changed => (StatusCode::CONFLICT, "look at it, and ask again"),
        IncidentError::Store(_) | IncidentError::Unsettled(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "/readyz and the log say what is wrong",
        ),
    };
    refusal(status, &unchanged.to_string(), hint)
}
