//! One `tools/call` as the tools of the fixture see it, and the small words they share.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    ErrorData, InputResponses, JsonObject, ProtocolVersion, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, model::InputRequest};
use serde_json::{Value, json};

use super::Fixture;

/// What a tool answers.
pub(super) type Outcome = Result<CallToolResponse, ErrorData>;

/// A call, with what it needs to be answered.
pub(super) struct Call<'a> {
    pub(super) fixture: &'a Fixture,
    pub(super) name: String,
    pub(super) arguments: JsonObject,
    pub(super) responses: InputResponses,
    pub(super) state: Option<String>,
    pub(super) context: RequestContext<RoleServer>,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        fixture: &'a Fixture,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Self {
        Self {
            fixture,
            name: params.name.into_owned(),
            arguments: params.arguments.unwrap_or_default(),
            responses: params.input_responses.unwrap_or_default(),
            state: params.request_state,
            context,
        }
    }

    /// The argument of that name, which must be a string.
    pub(super) fn string(&self, name: &str) -> Result<String, ErrorData> {
        let value = self.arguments.get(name).and_then(Value::as_str);
        let missing =
            || ErrorData::invalid_params(format!("argument {name:?} must be a string"), None);
        value.map(str::to_owned).ok_or_else(missing)
    }

    pub(super) fn is_modern(&self) -> bool {
        is_modern(&self.context)
    }

    pub(super) fn capabilities(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }
}

/// Whether a request belongs to the era without sessions. Revisions are dates, so their order is
/// that of their text.
pub(super) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// A tool that changes nothing.
pub(super) fn tool(name: &'static str, description: &'static str, schema: Value) -> Tool {
    Tool::new(name, description, object(schema))
        .annotate(ToolAnnotations::new().read_only(true).open_world(false))
}

/// The schema of a tool without arguments.
pub(super) fn no_arguments() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// An answer of one text.
pub(super) fn text(text: impl Into<String>) -> Outcome {
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
}

/// An answer of one text that says what went wrong.
pub(super) fn failure(text: impl Into<String>) -> Outcome {
    Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
}

/// The object in `value`, empty when it is none.
pub(super) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// A request to the one who called, written as on the wire.
pub(super) fn input_request(method: &str, params: Value) -> Result<InputRequest, ErrorData> {
    let message = json!({ "method": method, "params": params });
    serde_json::from_value(message)
        .map_err(|error| ErrorData::internal_error(format!("{method}: {error}"), None))
}

/// A form with these properties, all of them required.
pub(super) fn form(message: &str, properties: Value) -> Value {
    let required: Vec<_> = object(properties.clone()).keys().cloned().collect();
    json!({
        "message": message,
        "requestedSchema": { "type": "object", "properties": properties, "required": required },
    })
}

/// A prompt for the model of the one who called.
pub(super) fn sampling(prompt: &str, max_tokens: u32) -> Value {
    let content = json!({ "type": "text", "text": prompt });
    json!({ "messages": [{ "role": "user", "content": content }], "maxTokens": max_tokens })
}

/// What the person entered, if they accepted the form of that key.
pub(super) fn accepted<'a>(responses: &'a InputResponses, key: &str) -> Option<&'a Value> {
    let response = responses.get(key)?;
    (response.get("action")? == "accept")
        .then(|| response.get("content"))?
        .filter(|content| content.is_object())
}

/// The text of a sampling response; its content may be one block or several.
pub(super) fn sampled_text(response: &Value) -> Option<&str> {
    let content = response.get("content")?;
    content
        .get("text")
        .or_else(|| content.pointer("/0/text"))?
        .as_str()
}
