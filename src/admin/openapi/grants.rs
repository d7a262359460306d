//! What programs can ask of standing grants.

use super::ApiOperation;
use crate::admin::grants::explaining::GrantsExplained;
use crate::admin::grants::minting::GrantBody;
use crate::admin::grants::{ExplainBody, GrantList, RevocationBody, RevocationReply};
use crate::store::grants::view::GrantView;
use schemars::generate::SchemaGenerator;

pub(super) fn operations(schemas: &mut SchemaGenerator) -> Vec<ApiOperation> {
    let plain = ApiOperation {
        method: "get",
        path: "/api/grants",
        summary: "Standing grants, the newest first, with those that ended not long ago",
        query: None,
        body: None,
        reply: Some(schemas.subschema_for::<GrantList>()),
    };
    let add = ApiOperation {
        method: "post",
        path: "/api/grants",
        summary: "Grants calls of a tool; with a call that waits, decide `allow-always` about that",
        query: None,
        body: Some(schemas.subschema_for::<GrantBody>()),
        reply: Some(schemas.subschema_for::<GrantView>()),
    };
    let one = ApiOperation {
        method: "get",
        path: "/api/grants/{id}",
        summary: "One grant, whole",
        query: None,
        body: None,
        reply: Some(schemas.subschema_for::<GrantView>()),
    };
    let revoke = ApiOperation {
        method: "post",
        path: "/api/grants/{id}/revoke",
        summary: "Takes a grant back: no call begins with it any more",
        query: None,
        body: Some(schemas.subschema_for::<RevocationBody>()),
        reply: Some(schemas.subschema_for::<RevocationReply>()),
    };
    let explain = ApiOperation {
        method: "post",
        path: "/api/grants/explain",
        summary: "Says which grant covers a call, and why each other does not",
        query: None,
        body: Some(schemas.subschema_for::<ExplainBody>()),
        reply: Some(schemas.subschema_for::<GrantsExplained>()),
    };
    vec![plain, add, one, revoke, explain]
}
