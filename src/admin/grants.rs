//! Standing grants: what operators let run without being asked about each call (guarantees §7). They are
//! minted by who may decide about the tool's calls, and seen and taken back by who has one of the same
//! roles; others are not told that there are any.

pub(crate) mod explaining;
pub(super) mod minting;

use super::operator_request::OperatorRequest;
use super::operators::OperatorIdentity;
use super::{OperatorsDoor, json_answer, refusal, unfit};
use crate::guards::approval::GrantedCall;
use crate::guards::approval::grant_miss::GrantDeath;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::StoreError;
use crate::store::grants::view::GrantView;
use crate::store::grants::{GrantError, MAX_GRANTS_LISTED, find, revoke};
use crate::store::state::grant::Grant;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use explaining::explained;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Bytes of a request's body.
pub(super) const GRANT_BODY_BYTES_MAX: usize = 32 << 10;
/// Bytes of grants that are listed at once.
const LISTED_BYTES_MAX: usize = 1 << 20;

/// The answer to `GET /api/grants`.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GrantList {
    /// Those that can cover a call, and those that have ended not long ago; the newest first.
    pub grants: Vec<GrantView>,
    /// How many more there are, all older.
    pub more: usize,
}

/// The answer to a revocation.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RevocationReply {
    /// The grant.
    pub id: String,
    /// Whether it was not taken back before.
    pub changed: bool,
    /// Who the ledger names.
    pub who: String,
}

/// The body of a revocation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RevocationBody {
    /// The operator's reason.
    why: String,
}

/// The call of which is asked what covers it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainBody {
    /// The id of the one grant that is asked about; none: those for calls of the tool.
    #[serde(default)]
    grant: Option<String>,
    /// The agent.
    agent: String,
    /// Its tenant, if it has one.
    tenant: Option<String>,
    /// The user for whom it calls, if it names one.
    user: Option<String>,
    /// `server__tool`.
    tool: String,
    /// As they would be sent.
    arguments: Value,
}

pub(super) fn routes() -> Router<Arc<OperatorsDoor>> {
    Router::new()
        .route("/api/grants", get(list).post(minting::add))
        .route("/api/grants/explain", post(explain))
        .route("/api/grants/{id}", get(one))
        .route("/api/grants/{id}/revoke", post(take_back))
}

impl OperatorsDoor {
    pub(super) fn view_of(&self, grant: &Grant) -> GrantView {
        let dead = self.switches.grants.dead(grant).map(GrantDeath::words);
        GrantView::of(grant, self.switches.store.now(), dead)
    }

    fn may_see(&self, known: &OperatorIdentity, grant: &Grant) -> bool {
        self.operators.audits(known) || is_theirs(known, grant)
    }

    pub(super) async fn grants_for(
        &self,
        known: &OperatorIdentity,
    ) -> Result<Vec<Grant>, StoreError> {
        let mut grants = self.switches.store.grants(MAX_GRANTS_LISTED).await?;
        grants.retain(|grant| self.may_see(known, grant));
        Ok(grants)
    }
}

/// Whether the operator has one of the roles that could decide about the tool's calls.
pub(super) fn is_theirs(known: &OperatorIdentity, grant: &Grant) -> bool {
    known.roles.iter().any(|role| grant.roles.contains(role))
}

async fn list(known: OperatorIdentity, State(door): State<Arc<OperatorsDoor>>) -> Response {
    match door.grants_for(&known).await {
        Ok(grants) => {
            let mut left = LISTED_BYTES_MAX;
            let views = grants.iter().map(|grant| door.view_of(grant));
            let fits = views.map_while(|view| {
                let bytes = serde_json::to_vec(&view).map_or(LISTED_BYTES_MAX, |text| text.len());
                left = left.checked_sub(bytes)?;
                Some(view)
            });
            let listed: Vec<GrantView> = fits.collect();
            let more = grants.len() - listed.len();
            let grants = listed;
            json_answer(StatusCode::OK, &GrantList { grants, more })
        }
        Err(error) => ungranted(&error.into()),
    }
}

/// The grant that the operator may see; who may not is not told that it is there.
async fn seen(door: &OperatorsDoor, known: &OperatorIdentity, id: &str) -> Result<Grant, Response> {
    let id = id
        .parse::<ActionId>()
        .map_err(|_| unfit("a grant's id is a UUID, as GET /api/grants has it"))?;
    let found = find(&*door.switches.store, id).await;
    let found = found.map_err(|error| ungranted(&error.into()))?;
    found
        .filter(|grant| door.may_see(known, grant))
        .ok_or_else(|| ungranted(&GrantError::Gone(id)))
}

async fn one(
    Path(id): Path<String>,
    known: OperatorIdentity,
    State(door): State<Arc<OperatorsDoor>>,
) -> Result<Response, Response> {
    let grant = seen(&door, &known, &id).await?;
    Ok(json_answer(StatusCode::OK, &door.view_of(&grant)))
}

async fn take_back(
    Path(id): Path<String>,
    mut asked: OperatorRequest,
) -> Result<Response, Response> {
    let hint = "send {\"why\": \"…\"}; who takes it back is who the token names";
    let RevocationBody { why } = asked.written(GRANT_BODY_BYTES_MAX, hint).await?;
    let OperatorRequest { door, known, .. } = asked;
    let grant = seen(&door, &known, &id).await?;
    if !is_theirs(&known, &grant) {
        return Err(ungranted(&GrantError::NotYours(grant.roles.join(", "))));
    }
    let revoked = revoke(&*door.switches.store, grant.id, &known.name, &why).await;
    let changed = revoked.map_err(|why| ungranted(&why))?;
    let reply = RevocationReply {
        id: grant.id.to_string(),
        changed,
        who: known.name,
    };
    Ok(json_answer(StatusCode::OK, &reply))
}

async fn explain(mut asked: OperatorRequest) -> Result<Response, Response> {
    let hint = "send {\"agent\": …, \"tool\": \"server__tool\", \"arguments\": {…}}";
    let said: ExplainBody = asked.written(GRANT_BODY_BYTES_MAX, hint).await?;
    let OperatorRequest { door, known, .. } = asked;
    if let Some(named) = &said.grant {
        seen(&door, &known, named).await?;
    }
    let call = GrantedCall {
        agent: said.agent,
        tenant: said.tenant,
        user: said.user,
        tool: ToolName::new(&said.tool),
        arguments: said.arguments,
    };
    let grants = door.grants_for(&known).await;
    let grants = grants.map_err(|error| ungranted(&error.into()))?;
    let (judge, now) = (&*door.switches.grants, door.switches.store.now());
    let (deciding, theirs) = (judge.roles(&call.tool), known.seeing(now));
    let is_granted = grants.iter().any(|grant| grant.scope.tool == call.tool);
    let decides = theirs.iter().any(|role| deciding.contains(role));
    // How a contract stands is for those who decide by it, or audit.
    if !(decides || is_granted || door.operators.audits(&known)) {
        return Err(ungranted(&GrantError::NotYours(deciding.join(", "))));
    }
    let reply = explained(judge, &grants, said.grant.as_deref(), &call, now);
    Ok(json_answer(StatusCode::OK, &reply))
}

pub(super) fn ungranted(why: &GrantError) -> Response {
    let (status, hint) = match why {
        GrantError::Gone(_) => (StatusCode::NOT_FOUND, "GET /api/grants lists what there is"),
        GrantError::NoCall(_) => (
            StatusCode::NOT_FOUND,
            "GET /api/approvals lists what can be decided",
        ),
        GrantError::NotYours(_) => (
            StatusCode::FORBIDDEN,
            "ask one who may; `admin.tokens` says who has which role",
        ),
        GrantError::Void(_) => (
            StatusCode::CONFLICT,
            "its agent is told so, and asks anew when it sends the call again",
        ),
        GrantError::Refused(_) => (
            StatusCode::CONFLICT,
            "`allow-once` lets one call run, and the next one asks again",
        ),
        GrantError::Decided => (
            StatusCode::CONFLICT,
            "POST /api/grants grants calls without one that waits",
        ),
        GrantError::Full(_) => (StatusCode::CONFLICT, "take some back that are not needed"),
        GrantError::Unfit(_) => (StatusCode::BAD_REQUEST, "correct the request"),
        GrantError::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "/readyz and the log say what is wrong",
        ),
    };
    refusal(status, &why.to_string(), hint)
}
