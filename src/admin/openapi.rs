//! What programs can ask at `/api/`, described for those who write them: `OpenAPI` 3.1, made of the types
//! that are read and written. Committed as `policies/operators.openapi.json`.

mod grants;

use super::approvals::waiting::{ApprovalDecision, DECISION_WAIT_SECONDS_MAX};
use super::approvals::{ApprovalList, DecisionBody, DecisionReply};
use super::calls::{OpenCallList, ResolveReply, ResolveRequest};
use super::tasks::{SteerReply, TaskList, TaskSteerRequest};
use super::tools::{DisabledList, SwitchReply, SwitchRequest};
use crate::store::approvals::OpenHold;
use crate::store::tasks::TaskView;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// Where the schemas of bodies and answers stand.
const SCHEMAS_PATH: &str = "/components/schemas";

/// One thing that can be asked.
struct ApiOperation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// A parameter of the query, and what it says.
    query: Option<ApiQuery>,
    body: Option<Schema>,
    /// What the answer is; none: server-sent events.
    reply: Option<Schema>,
}

/// A parameter of a query.
struct ApiQuery {
    name: &'static str,
    schema: Value,
}

/// All of it.
pub(crate) fn document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = SCHEMAS_PATH.into();
    settings.meta_schema = None;
    let mut schemas = settings.into_generator();
    let mut operations = operations(&mut schemas);
    operations.extend(grants::operations(&mut schemas));
    let mut paths = Map::new();
    for operation in operations {
        let at = paths.entry(operation.path).or_insert_with(|| json!({}));
        let method = operation.method;
        at[method] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "toolgate: the operators' door",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What programs of operators can ask, with a token of `admin.tokens`. Refusals say what is wrong and what to do.",
        },
        "security": [ { "operator": [] } ],
        "paths": paths,
        "components": {
            "securitySchemes": { "operator": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas.take_definitions(false),
        },
    })
}

#[expect(
    clippy::too_many_lines,
    reason = "one step after the other; to be cut into its parts"
)]
fn operations(schemas: &mut SchemaGenerator) -> Vec<ApiOperation> {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the shape of what stands in the table"
    )]
    fn of<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Option<Schema> {
        Some(schemas.subschema_for::<T>())
    }
    let get = |path, summary, reply| ApiOperation {
        method: "get",
        path,
        summary,
        query: None,
        body: None,
        reply,
    };
    let post = |path, summary, body, reply| ApiOperation {
        method: "post",
        body,
        ..get(path, summary, reply)
    };
    let asks = |name, schema, operation| ApiOperation {
        query: Some(ApiQuery { name, schema }),
        ..operation
    };
    let seconds = json!({ "type": "integer", "minimum": 0, "maximum": DECISION_WAIT_SECONDS_MAX });
    let state = json!({ "enum": crate::store::operator::OPEN_STATES });
    vec![
        get(
            "/api/approvals",
            "Held calls, the oldest first",
            of::<ApprovalList>(schemas),
        ),
        get(
            "/api/approvals/events",
            "What happens to held calls: `requested`, `changed`, `resolved`, `used`, `policy`, `missed`",
            None,
        ),
        get(
            "/api/approvals/{id}",
            "One held call, whole",
            of::<OpenHold>(schemas),
        ),
        post(
            "/api/approvals/{id}",
            "Decides about a held call; the same word a second time is no error",
            of::<DecisionBody>(schemas),
            of::<DecisionReply>(schemas),
        ),
        asks(
            "timeout",
            seconds,
            get(
                "/api/approvals/{id}/wait",
                "Waits for the decision; null where there is none in time",
                of::<ApprovalDecision>(schemas),
            ),
        ),
        asks(
            "state",
            state,
            get(
                "/api/calls",
                "Calls that have not come to an end",
                of::<OpenCallList>(schemas),
            ),
        ),
        post(
            "/api/calls/{action}/resolve",
            "Says what became of a call whose outcome is unknown",
            of::<ResolveRequest>(schemas),
            of::<ResolveReply>(schemas),
        ),
        asks(
            "agent",
            json!({ "type": "string" }),
            get(
                "/api/tasks",
                "Tasks, those first that did something last",
                of::<TaskList>(schemas),
            ),
        ),
        get("/api/tasks/{task}", "One task", of::<TaskView>(schemas)),
        post(
            "/api/tasks/{task}/{act}",
            "Stops a task (`stop`), or gives it its budget back (`reset`)",
            of::<TaskSteerRequest>(schemas),
            of::<SteerReply>(schemas),
        ),
        get(
            "/api/tools/disabled",
            "Tools that operators took away",
            of::<DisabledList>(schemas),
        ),
        post(
            "/api/tools/{tool}/disable",
            "Takes a tool away from all agents",
            of::<SwitchRequest>(schemas),
            of::<SwitchReply>(schemas),
        ),
        post(
            "/api/tools/{tool}/enable",
            "Gives a tool back",
            of::<SwitchRequest>(schemas),
            of::<SwitchReply>(schemas),
        ),
        get(
            "/api/quarantined",
            "Tools that are withheld",
            of::<super::quarantine::QuarantineList>(schemas),
        ),
    ]
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
    let asked =
        query.map(|query| json!({ "name": query.name, "in": "query", "schema": query.schema }));
    let content = match reply {
        Some(schema) => json!({ "application/json": { "schema": schema } }),
        None => json!({ "text/event-stream": {} }),
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
