//! The tools of the effects server.

use super::fault::{Fault, Orders};
use crate::oracle::script::{FENCE_KEY, Log, execution};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, InputRequests, InputRequiredResult, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type Outcome = Result<CallToolResponse, ErrorData>;

/// The server. Clones are the same server.
#[derive(Debug, Clone)]
pub struct Effects {
    log: Arc<Log>,
    /// The highest fencing token seen, by session; none when tokens are not looked at.
    fences: Option<Arc<Mutex<HashMap<String, u64>>>>,
    /// Whether there is a pipe to answer on twice.
    stdio: bool,
}

impl Effects {
    /// The server that notes its effects in `log`. A `fenced` one refuses a call with a lower token
    /// than it has seen in that session.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(log: &Path, fenced: bool, stdio: bool) -> std::io::Result<Self> {
        Ok(Self {
            log: Arc::new(Log::open(log)?),
            fences: fenced.then(Arc::default),
            stdio,
        })
    }

    async fn effect(
        &self,
        params: &Value,
        orders: &Orders,
        call: &RequestContext<RoleServer>,
    ) -> Outcome {
        let fault = orders.fault;
        if fault == Fault::InvalidParams {
            return Err(ErrorData::invalid_params("told to refuse", None));
        }
        if fault == Fault::InputRequired
            && params["inputResponses"]
                .as_object()
                .is_none_or(serde_json::Map::is_empty)
        {
            return ask();
        }
        tokio::select! {
            () = tokio::time::sleep(orders.before) => {}
            () = call.ct.cancelled(), if fault != Fault::IgnoreCancel => {
                return Err(ErrorData::internal_error("cancelled before anything happened", None));
            }
        }
        if fault == Fault::DieBefore {
            std::process::abort();
        }
        if !self.is_current(&params["_meta"][FENCE_KEY]) {
            return failed("a later token of this session was seen; nothing happened");
        }
        let (log, noted) = (self.log.clone(), execution(params));
        let noted = tokio::task::spawn_blocking(move || log.note(&noted)).await;
        if !matches!(noted, Ok(Ok(()))) {
            return Err(ErrorData::internal_error(
                "the effect could not be noted",
                None,
            ));
        }
        if fault == Fault::DieAfter {
            std::process::abort();
        }
        tokio::time::sleep(orders.after).await;
        self.answer(params, fault, call).await
    }

    async fn answer(
        &self,
        params: &Value,
        fault: Fault,
        call: &RequestContext<RoleServer>,
    ) -> Outcome {
        let words = format!(
            "done {}",
            params["arguments"]["key"].as_str().unwrap_or_default()
        );
        match fault {
            Fault::Internal => Err(ErrorData::internal_error("told to break", None)),
            Fault::IsError => failed("told to fail"),
            Fault::Drop if self.stdio => std::future::pending().await,
            Fault::Twice if self.stdio => {
                let result = json!({ "content": [{ "type": "text", "text": words }], "resultType": "complete" });
                let line = json!({ "jsonrpc": "2.0", "id": call.id, "result": result });
                say(&line);
                // The other answer comes after it.
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok(CallToolResult::success(vec![ContentBlock::text(words)]).into())
            }
            _ => Ok(CallToolResult::success(vec![ContentBlock::text(words)]).into()),
        }
    }

    /// Whether no later token of its session was seen; a call without a fence is.
    fn is_current(&self, fence: &Value) -> bool {
        let (Some(fences), Some(session), Some(token)) = (
            &self.fences,
            fence["session"].as_str(),
            fence["token"].as_u64(),
        ) else {
            return true;
        };
        let mut fences = fences.lock().unwrap_or_else(PoisonError::into_inner);
        let highest = fences.entry(session.to_owned()).or_default();
        *highest = (*highest).max(token);
        *highest == token
    }
}

fn say(line: &Value) {
    let mut out = std::io::stdout().lock();
    // Whoever does not read any more hears nothing.
    let _ = out
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| out.flush());
}

fn failed(words: &str) -> Outcome {
    Ok(CallToolResult::error(vec![ContentBlock::text(words)]).into())
}

/// Asks a person to confirm.
fn ask() -> Outcome {
    let schema = json!({ "type": "object", "properties": { "sure": { "type": "boolean" } } });
    let question = json!({ "method": "elicitation/create",
        "params": { "message": "Are you sure?", "requestedSchema": schema } });
    let question = serde_json::from_value(question);
    let question = question.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let mut requests = InputRequests::new();
    requests.insert("sure".to_owned(), question);
    Ok(InputRequiredResult::new(Some(requests), Some("asked".to_owned())).into())
}

fn tools() -> Vec<Tool> {
    let schema = json!({ "type": "object", "required": ["key"], "properties": { "key": { "type": "string" } } });
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    let effect = Tool::new(
        "effect",
        "Notes one effect under a key. Each call notes another.",
        schema.clone(),
    );
    let held = Tool::new(
        "held",
        "Notes one effect under a key, as `effect` does.",
        schema.clone(),
    );
    let look = Tool::new("look", "Changes nothing.", schema);
    vec![
        held.annotate(
            ToolAnnotations::new()
                .read_only(false)
                .destructive(true)
                .idempotent(false),
        ),
        effect.annotate(
            ToolAnnotations::new()
                .read_only(false)
                .destructive(true)
                .idempotent(false),
        ),
        look.annotate(ToolAnnotations::new().read_only(true)),
    ]
}

impl ServerHandler for Effects {
    fn get_info(&self) -> ServerConfig {
        let name = Implementation::new("effects-server", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(name)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        call: RequestContext<RoleServer>,
    ) -> Outcome {
        let responses = params
            .input_responses
            .as_ref()
            .map(|responses| json!(responses));
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        let orders = Orders::of(&arguments);
        let whole = json!({
            "name": params.name, "arguments": arguments, "inputResponses": responses,
            "_meta": { FENCE_KEY: call.meta.get(FENCE_KEY) },
        });
        match &*params.name {
            "effect" | "held" => self.effect(&whole, &orders, &call).await,
            "look" => {
                Ok(CallToolResult::success(vec![ContentBlock::text("nothing changed")]).into())
            }
            _ => Err(ErrorData::invalid_params("no such tool", None)),
        }
    }
}
