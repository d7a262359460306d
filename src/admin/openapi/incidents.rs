//! What programs can ask of incidents.

use super::ApiOperation;
use crate::admin::incidents::{ClosingBody, IncidentBody, IncidentList, SampleBody};
use crate::store::incidents::Incident;
use schemars::generate::SchemaGenerator;
use schemars::json_schema;
use serde_json::json;

pub(super) fn operations(schemas: &mut SchemaGenerator) -> Vec<ApiOperation> {
    let list = ApiOperation::get(
        "/api/incidents",
        "Incidents, the newest first: those that are open, and closed ones that are kept",
        schemas.subschema_for::<IncidentList>(),
    );
    let begin = ApiOperation::post(
        "/api/incidents",
        "Opens an incident: its tools are frozen, what is held of them is void, and grants are revoked",
        schemas.subschema_for::<IncidentBody>(),
        schemas.subschema_for::<Incident>(),
    );
    let one = ApiOperation::get(
        "/api/incidents/{id}",
        "One incident, with its timeline",
        schemas.subschema_for::<Incident>(),
    );
    let sampled = ApiOperation::post(
        "/api/incidents/{id}/samples",
        "Notes that a recorded call has become a sample of the test packs",
        schemas.subschema_for::<SampleBody>(),
        schemas.subschema_for::<Incident>(),
    );
    let close = ApiOperation::post(
        "/api/incidents/{id}/close",
        "Closes an incident once the test packs pass with its samples, or by force",
        schemas.subschema_for::<ClosingBody>(),
        schemas.subschema_for::<Incident>(),
    );
    let time = json!({ "type": "string", "format": "date-time" });
    let bundle = ApiOperation {
        reply: None,
        ..ApiOperation::get(
            "/api/incidents/{id}/bundle",
            "All that there is about an incident, a line of JSON for each thing; the last has `journal`, or it broke off",
            json_schema!({}),
        )
    };
    let bundle = bundle.asking("since", time.clone()).asking("until", time);
    let call = ApiOperation::get(
        "/api/incidents/calls/{action}",
        "A recorded call of a tool that an open incident freezes, as the ledger has it",
        json_schema!({ "type": "object" }),
    );
    vec![list, begin, one, sampled, close, bundle, call]
}
