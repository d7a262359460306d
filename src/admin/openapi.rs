//! What programs can ask at `/api/`, described for those who write them: `OpenAPI` 3.1, made of the types
//! that are read and written. Committed as `policies/operators.openapi.json`.

mod grants;
mod incidents;

use super::approvals::editing::EditBody;
use super::approvals::extending::{ExtensionBody, ExtensionReply};
use super::approvals::waiting::{ApprovalDecision, DECISION_WAIT_SECONDS_MAX};
use super::approvals::{ApprovalList, DecisionBody, DecisionReply};
use super::calls::asking::ProbeRequest;
use super::calls::{OpenCallList, ResolveReply, ResolveRequest};
use super::overview::StatusReport;
use super::quarantine::QuarantineList;
use super::tasks::{SteerReply, TaskList, TaskSteerRequest};
use super::tools::{DisabledList, SwitchReply, SwitchRequest};
use super::undo::UndoBody;
use super::undo::queue::{DropBody, DroppedReply, WantedUndoList};
use crate::store::approvals::OpenHold;
use crate::store::operator::OPEN_STATES;
use crate::store::operator::asking::AskedOutcome;
use crate::store::tasks::TaskView;
use crate::store::undos::wanted::WANTED_STATES;
use crate::store::undos::{TaskUndoReport, UndoReport};
use schemars::Schema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

/// Where the schemas of bodies and answers stand.
const SCHEMAS_PATH: &str = "/components/schemas";

/// One thing that can be asked.
struct ApiOperation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// What can be said in the query.
    query: Option<ApiQuery>,
    body: Option<Schema>,
    /// What the answer is; none: server-sent events, or lines.
    reply: Option<Schema>,
}

/// The parameters of a query.
#[derive(Default)]
struct ApiQuery(Vec<(&'static str, Value)>);

impl ApiOperation {
    /// Something to look at.
    fn get(path: &'static str, summary: &'static str, reply: Schema) -> Self {
        Self {
            method: "get",
            path,
            summary,
            query: None,
            body: None,
            reply: Some(reply),
        }
    }

    /// Something that changes what there is.
    fn post(path: &'static str, summary: &'static str, body: Schema, reply: Schema) -> Self {
        Self {
            method: "post",
            body: Some(body),
            ..Self::get(path, summary, reply)
        }
    }

    /// The same, with a parameter of the query.
    fn asking(mut self, name: &'static str, schema: Value) -> Self {
        let query = self.query.get_or_insert_default();
        query.0.push((name, schema));
        self
    }
}

/// All of it.
pub(crate) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = SCHEMAS_PATH.into();
    settings.meta_schema = None;
    let mut schemas = settings.into_generator();
    let mut paths = Map::new();
    for operation in operations(&mut schemas) {
        let at = paths.entry(operation.path).or_insert_with(|| json!({}));
        let method = operation.method;
        at[method] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "toolgate: the operators' door",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What programs of operators can ask, with a token of `admin.tokens`, or of an issuer of `admin.jwt`. Refusals say what is wrong and what to do.",
        },
        "security": [ { "operator": [] } ],
        "paths": paths,
        "components": {
            "securitySchemes": { "operator": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas.take_definitions(false),
        },
    })
}

fn operations(schemas: &mut SchemaGenerator) -> Vec<ApiOperation> {
    let mut operations = approvals(schemas);
    operations.extend(calls(schemas));
    operations.extend(tasks(schemas));
    operations.extend(tools(schemas));
    operations.extend(grants::operations(schemas));
    operations.extend(incidents::operations(schemas));
    operations.push(ApiOperation::get(
        "/api/status",
        "What there is to see of the running toolgate at a glance",
        schemas.subschema_for::<StatusReport>(),
    ));
    operations
}

fn approvals(schemas: &mut SchemaGenerator) -> Vec<ApiOperation> {
    let list = ApiOperation::get(
        "/api/approvals",
        "Held calls, the oldest first",
        schemas.subschema_for::<ApprovalList>(),
    );
    let refresh = json!({ "type": "integer", "const": 1 });
    let events = ApiOperation {
        method: "get",
        path: "/api/approvals/events",
        summary: "What happens to held calls: `requested`, `changed`, `resolved`, `used`, `policy`, `missed`",
        query: None,
        body: None,
        reply: None,
    };
    let one = ApiOperation::get(
        "/api/approvals/{id}",
        "One held call, whole",
        schemas.subschema_for::<OpenHold>(),
    );
    let decide = ApiOperation::post(
        "/api/approvals/{id}",
        "Decides about a held call; the same word a second time is no error",
        schemas.subschema_for::<DecisionBody>(),
        schemas.subschema_for::<DecisionReply>(),
    );
    let seconds = json!({ "type": "integer", "minimum": 0, "maximum": DECISION_WAIT_SECONDS_MAX });
    let wait = ApiOperation::get(
        "/api/approvals/{id}/wait",
        "Waits for the decision; null where there is none in time",
        schemas.subschema_for::<ApprovalDecision>(),
    );
    let edit = ApiOperation::post(
        "/api/approvals/{id}/edit",
        "Changes arguments of a held call that its contract lets operators change; what was said before is void",
        schemas.subschema_for::<EditBody>(),
        schemas.subschema_for::<OpenHold>(),
    );
    let extend = ApiOperation::post(
        "/api/approvals/{id}/extend",
        "Gives a held call as much time again as it had, once",
        schemas.subschema_for::<ExtensionBody>(),
        schemas.subschema_for::<ExtensionReply>(),
    );
    vec![
        list.asking("refresh", refresh.clone()),
        events,
        one.asking("refresh", refresh),
        decide,
        edit,
        extend,
        wait.asking("timeout", seconds),
    ]
}

fn calls(schemas: &mut SchemaGenerator) -> Vec<ApiOperation> {
    let list = ApiOperation::get(
        "/api/calls",
        "Calls that have not come to an end",
        schemas.subschema_for::<OpenCallList>(),
    );
    let resolve = ApiOperation::post(
        "/api/calls/{action}/resolve",
        "Says what became of a call whose outcome is unknown",
        schemas.subschema_for::<ResolveRequest>(),
        schemas.subschema_for::<ResolveReply>(),
    );
    let undo = ApiOperation::post(
        "/api/calls/{action}/undo",
        "Takes a call back by the call that its contract names, or says what that would be",
        schemas.subschema_for::<UndoBody>(),
        schemas.subschema_for::<UndoReport>(),
    );
    let wanted = ApiOperation::get(
        "/api/undos",
        "Undos that were asked for, or tried, and are not done",
        schemas.subschema_for::<WantedUndoList>(),
    );
    let undone_states = json!({ "enum": WANTED_STATES });
    let wanted = wanted.asking("state", undone_states);
    let drops = ApiOperation::post(
        "/api/undos/{action}/drop",
        "Drops an undo that was asked for, or has failed: it is done by hand, or left",
        schemas.subschema_for::<DropBody>(),
        schemas.subschema_for::<DroppedReply>(),
    );
    let state = json!({ "enum": OPEN_STATES });
    let probe = ApiOperation::post(
        "/api/calls/{action}/probe",
        "Asks the tool server now what became of a call whose outcome is unknown, by the probe of its contract",
        schemas.subschema_for::<ProbeRequest>(),
        schemas.subschema_for::<AskedOutcome>(),
    );
    vec![
        list.asking("state", state),
        probe,
        resolve,
        undo,
        wanted,
        drops,
    ]
}

fn tasks(schemas: &mut SchemaGenerator) -> Vec<ApiOperation> {
    let list = ApiOperation::get(
        "/api/tasks",
        "Tasks, those first that did something last",
        schemas.subschema_for::<TaskList>(),
    );
    let one = ApiOperation::get(
        "/api/tasks/{task}",
        "One task",
        schemas.subschema_for::<TaskView>(),
    );
    let steer = ApiOperation::post(
        "/api/tasks/{task}/{act}",
        "Stops a task (`stop`), or gives it its budget back (`reset`)",
        schemas.subschema_for::<TaskSteerRequest>(),
        schemas.subschema_for::<SteerReply>(),
    );
    let undo = ApiOperation::post(
        "/api/tasks/{task}/undo",
        "Takes the calls of a task back, the last first, up to one that cannot be",
        schemas.subschema_for::<UndoBody>(),
        schemas.subschema_for::<TaskUndoReport>(),
    );
    let agent = json!({ "type": "string" });
    vec![list.asking("agent", agent), one, steer, undo]
}

fn tools(schemas: &mut SchemaGenerator) -> Vec<ApiOperation> {
    let disabled = ApiOperation::get(
        "/api/tools/disabled",
        "Tools that operators took away",
        schemas.subschema_for::<DisabledList>(),
    );
    let disable = ApiOperation::post(
        "/api/tools/{tool}/disable",
        "Takes a tool away from all agents",
        schemas.subschema_for::<SwitchRequest>(),
        schemas.subschema_for::<SwitchReply>(),
    );
    let enable = ApiOperation::post(
        "/api/tools/{tool}/enable",
        "Gives a tool back",
        schemas.subschema_for::<SwitchRequest>(),
        schemas.subschema_for::<SwitchReply>(),
    );
    let quarantined = ApiOperation::get(
        "/api/quarantined",
        "Tools that are withheld",
        schemas.subschema_for::<QuarantineList>(),
    );
    vec![disabled, disable, enable, quarantined]
}

fn described(operation: ApiOperation) -> Value {
    let ApiOperation {
        path,
        summary,
        query,
        body,
        reply,
        ..
    } = operation;
    let named = path
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next());
    let in_path = named.map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let asked = query.unwrap_or_default().0.into_iter();
    let asked =
        asked.map(|(name, schema)| json!({ "name": name, "in": "query", "schema": schema }));
    let content = match reply {
        Some(schema) => json!({ "application/json": { "schema": schema } }),
        None if path.ends_with("/events") => json!({ "text/event-stream": {} }),
        None => json!({ "application/x-ndjson": {} }),
    };
    let refused = json!({ "description": "Refused: what is wrong, and what to do", "content": { "application/json": { "schema": {
        "type": "object", "required": ["error", "hint"], "properties": { "error": { "type": "string" }, "hint": { "type": "string" } },
    } } } });
    let mut described = json!({
        "summary": summary,
        "parameters": in_path.chain(asked).collect::<Vec<_>>(),
        "responses": { "200": { "description": "Done", "content": content }, "default": refused },
    });
    if let Some(schema) = body {
        described["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    described
}
