//! How standing grants are minted: with a word on a held call, or by themselves.

use super::{GRANT_BODY_BYTES_MAX, ungranted};
use crate::admin::operator_request::OperatorRequest;
use crate::admin::operators::OperatorIdentity;
use crate::admin::{OperatorsDoor, json_answer};
use crate::guards::approval::GrantRules;
use crate::guards::approval::grant_miss::GrantMiss;
use crate::guards::approval::grant_terms::{GrantTerms, KeptTerms};
use crate::guards::approval::grants::digest_of_beside;
use crate::mcp::json::fold::is_same_name;
use crate::model::absence::DecidingRight;
use crate::model::amount::Amount;
use crate::model::ids::{ActionId, ToolName};
use crate::model::times::millis;
use crate::store::approvals::{OpenHold, why_void};
use crate::store::grants::view::GrantView;
use crate::store::grants::{GrantError, MintedGrant, ShownCall, grant_reason, mint};
use crate::store::state::command::Decide;
use crate::store::state::grant::{Grant, GrantScope};
use crate::store::state::hold::Hold;
use axum::http::StatusCode;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

/// The body of `POST /api/grants`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct GrantBody {
    /// The agent.
    agent: String,
    /// Its tenant, if it has one.
    tenant: Option<String>,
    /// The user for whom it calls, if it names one.
    user: Option<String>,
    /// `server__tool`.
    tool: String,
    /// The operator's reason.
    why: String,
    /// Which calls, how many and for how long.
    #[serde(default)]
    grant: GrantTerms,
}

/// What `who` grants.
struct Granting {
    scope: GrantScope,
    kept: KeptTerms,
    rules: GrantRules,
    who: String,
    why: String,
}

impl Granting {
    fn grant(self, shown: Option<ActionId>) -> (Grant, u64) {
        let Self {
            scope,
            kept,
            rules,
            who,
            why,
        } = self;
        let grant = Grant {
            id: ActionId::generate(),
            minted: 0,
            until: 0,
            max_uses: kept.uses,
            scope,
            constraints: kept.constraints,
            total: kept.total,
            who,
            why,
            roles: rules.roles,
            shown,
            uses: 0,
            moved: Amount::default(),
            last: None,
            revoked: None,
        };
        (grant, millis(kept.lasts))
    }
}

pub(super) async fn add(mut asked: OperatorRequest) -> Result<Response, Response> {
    let hint = "send {\"agent\": …, \"tool\": \"server__tool\", \"why\": …, \"grant\": {\"until\": \"8h\", \"uses\": 10, \
         \"constraints\": [{\"pointer\": \"/amount\", \"at_most\": 500}]}}; who grants is who the token names";
    let body: GrantBody = asked.written(GRANT_BODY_BYTES_MAX, hint).await?;
    let OperatorRequest { door, known, .. } = asked;
    let added = added(&door, known, body).await;
    let minted = added.map_err(|why| ungranted(&why))?;
    let view = GrantView::of(&minted.grant, door.switches.store.now(), None);
    Ok(json_answer(StatusCode::OK, &view))
}

async fn added(
    door: &OperatorsDoor,
    known: OperatorIdentity,
    body: GrantBody,
) -> Result<MintedGrant, GrantError> {
    let why = grant_reason(&body.why)?;
    let tool = ToolName::new(&body.tool);
    // Others are not told how its contract stands.
    let deciding = door.switches.grants.roles(&tool);
    if !known.roles.iter().any(|role| deciding.contains(role)) {
        return Err(GrantError::NotYours(deciding.join(", ")));
    }
    let rules = door.switches.grants.rules(&tool, &body.grant.sample());
    let rules = rules.map_err(|why| refused(&why))?;
    let mut asking = std::iter::once(&body.agent).chain(&body.user);
    let is_itself = asking.any(|name| is_same_name(&known.name, name)) && !rules.self_approval;
    if is_itself || !known.roles.iter().any(|role| rules.roles.contains(role)) {
        return Err(GrantError::NotYours(rules.roles.join(", ")));
    }
    let kept = body.grant.kept(None, &rules.any);
    let bound_to = door
        .switches
        .grants
        .bound_to(&tool, &body.agent, body.tenant.as_deref());
    let granting = Granting {
        scope: GrantScope {
            agent: body.agent,
            tenant: body.tenant,
            user: body.user,
            tool,
            schema_hash: rules.schema_hash.clone(),
            bound_to,
            beside: None,
        },
        kept: kept.map_err(GrantError::Unfit)?,
        rules,
        who: known.name,
        why,
    };
    let (grant, lasts) = granting.grant(None);
    if let Some(flaw) = door.switches.grants.flaws(&grant).first() {
        let words = format!("it could cover no call: {flaw}");
        return Err(GrantError::Refused(words));
    }
    mint(&*door.switches.store, grant, lasts, None).await
}

fn refused(why: &GrantMiss) -> GrantError {
    GrantError::Refused(why.to_string())
}

/// A word on the held call `id` that is to count for calls like it, too.
pub(in crate::admin) struct AlwaysWord {
    pub(in crate::admin) id: ActionId,
    pub(in crate::admin) known: OperatorIdentity,
    pub(in crate::admin) why: String,
    pub(in crate::admin) terms: GrantTerms,
    /// Where it was said: `page` or `api`.
    pub(in crate::admin) surface: &'static str,
}

/// Allows the held call, and grants calls like it.
pub(in crate::admin) async fn always(
    door: &OperatorsDoor,
    word: AlwaysWord,
) -> Result<MintedGrant, GrantError> {
    let why = grant_reason(&word.why)?;
    let (id, known, surface) = (word.id, word.known.clone(), word.surface);
    let store = &*door.switches.store;
    let found = store.find_hold(id).await?.ok_or(GrantError::NoCall(id))?;
    let (key, hold) = found;
    // Others are not told that it is there, nor how its contract stands.
    if !known.roles.iter().any(|role| hold.roles.contains(role)) {
        return Err(GrantError::NotYours(hold.roles.join(", ")));
    }
    if let Some(why) = why_void(&*door.switches.void, &hold, store.now()) {
        return Err(GrantError::Void(why));
    }
    let granting = granting(
        door,
        &hold,
        AlwaysWord {
            why: why.clone(),
            ..word
        },
    )?;
    let (grant, lasts) = granting.grant(Some(id));
    let allow = Decide {
        key,
        id,
        who: known.name,
        right: DecidingRight {
            roles: known.roles,
            on_behalf: None,
        },
        allow: true,
        why,
        surface: Some(surface.to_owned()),
        edits: hold.edits.len(),
    };
    let asked = hold.asked;
    let minted = mint(store, grant, lasts, Some(ShownCall { allow, asked })).await?;
    door.switches.recount.notify_one();
    if let Some(waited) = minted.waited {
        door.switches.metrics.decided("allow", waited);
    }
    Ok(minted)
}

/// Whether there can be a grant for calls like this one.
pub(in crate::admin) fn can_be_granted(door: &OperatorsDoor, hold: &OpenHold) -> bool {
    let asks = !hold.irreversible
        && hold.over.is_none()
        && hold.answers.is_none()
        && hold.edits.is_empty();
    let rules = |arguments| {
        let tool = ToolName::new(&hold.tool);
        door.switches.grants.rules(&tool, arguments).is_ok()
    };
    asks && hold.arguments.as_ref().is_some_and(rules)
}

fn granting(door: &OperatorsDoor, hold: &Hold, word: AlwaysWord) -> Result<Granting, GrantError> {
    let question = &hold.question;
    let never = |words: &str| Err(GrantError::Refused(words.to_owned()));
    if question.irreversible {
        return never("the effect is irreversible, so a person has to allow each call");
    }
    if question.over.is_some() {
        return never("the call goes over a limit of its budget, which is asked about by itself");
    }
    if !hold.edits.is_empty() {
        return never(
            "its arguments were changed, so what its agent sends is not what would be granted",
        );
    }
    if question.answers.is_some() {
        return never("the call answers a question of its server, which nobody can do beforehand");
    }
    let rules = door
        .switches
        .grants
        .rules(&question.tool, &question.arguments);
    let rules = rules.map_err(|why| refused(&why))?;
    let kept = word.terms.kept(Some(&question.arguments), &rules.any);
    let (agent, tenant) = (&question.agent, question.tenant.as_deref());
    let bound_to = door.switches.grants.bound_to(&question.tool, agent, tenant);
    Ok(Granting {
        scope: GrantScope {
            agent: question.agent.clone(),
            tenant: question.tenant.clone(),
            user: question.user.clone(),
            tool: question.tool.clone(),
            schema_hash: rules.schema_hash.clone(),
            bound_to,
            beside: question.beside.as_ref().map(digest_of_beside),
        },
        kept: kept.map_err(GrantError::Unfit)?,
        rules,
        who: word.known.name,
        why: word.why,
    })
}
