//! Tools that need one answer from the one who called: a request of their own in the legacy era, a
//! round of the call in the modern one.

// Sampling and roots are deprecated in the newest revision, and still tested in all of them.
#![expect(deprecated, reason = "every revision tests sampling and roots")]

use futures_util::future::try_join_all;
use rmcp::model::{
    CallToolResponse, ClientCapabilities, ErrorData, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ServerRequest, Tool,
};
use rmcp::{Peer, RoleServer};
use serde_json::{Value, json};

use super::call::{
    Call, Outcome, failure, form, input_request, no_arguments, sampled_text, sampling, text, tool,
};
use super::schemas;

/// The name of the only question a call asks.
const KEY: &str = "answer";

pub(super) fn tools() -> Vec<Tool> {
    let one = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    vec![
        tool("test_sampling", "Asks the caller's model.", one("prompt")),
        tool(
            "test_elicitation",
            "Asks the person for a name and an address.",
            one("message"),
        ),
        tool(
            "test_elicitation_sep1034_defaults",
            "Asks with a default for each type.",
            no_arguments(),
        ),
        tool(
            "test_elicitation_sep1330_enums",
            "Asks with each kind of choice.",
            no_arguments(),
        ),
        tool(
            "test_streaming_elicitation",
            "Asks on the stream of the call.",
            no_arguments(),
        ),
        tool(
            "test_missing_capability",
            "Needs a caller that can sample.",
            no_arguments(),
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Option<Outcome> {
    Some(match call.name.as_str() {
        "test_sampling" => sample(call).await,
        "test_elicitation" => match call.string("message") {
            Ok(message) => elicit(call, "User response", form(&message, person())).await,
            Err(error) => Err(error),
        },
        "test_elicitation_sep1034_defaults" => {
            let mut questions = form("Please check the defaults", schemas::defaults());
            questions["requestedSchema"]["required"] = json!([]);
            elicit(call, "Elicitation completed", questions).await
        }
        "test_elicitation_sep1330_enums" => {
            elicit(
                call,
                "Elicitation completed",
                form("Please choose", schemas::choices()),
            )
            .await
        }
        "test_streaming_elicitation" => {
            let questions = form("Please confirm", json!({ "ok": { "type": "boolean" } }));
            elicit(call, "User response", questions).await
        }
        "test_missing_capability" => match call.capabilities().sampling {
            Some(_) => text("The caller can sample."),
            None => Err(lacking("sampling/createMessage")),
        },
        _ => return None,
    })
}

fn person() -> Value {
    json!({
        "username": { "type": "string", "description": "User's response" },
        "email": { "type": "string", "description": "User's email address" },
    })
}

async fn sample(call: &Call<'_>) -> Outcome {
    let request = sampling(&call.string("prompt")?, 100);
    match ask(call, "sampling/createMessage", request).await? {
        Asked::Answer(answer) => text(format!(
            "LLM response: {}",
            sampled_text(&answer).unwrap_or("nothing")
        )),
        Asked::NotYet(outcome) => outcome,
    }
}

async fn elicit(call: &Call<'_>, prefix: &str, questions: Value) -> Outcome {
    match ask(call, "elicitation/create", questions).await? {
        Asked::Answer(answer) => {
            let action = answer["action"].as_str().unwrap_or("cancel");
            text(format!(
                "{prefix}: action={action}, content={}",
                answer["content"]
            ))
        }
        Asked::NotYet(outcome) => outcome,
    }
}

/// What became of a question.
enum Asked {
    /// The answer, as on the wire.
    Answer(Value),
    /// What the call answers instead: the question itself, or that nobody can be asked.
    NotYet(Outcome),
}

async fn ask(call: &Call<'_>, method: &str, params: Value) -> Result<Asked, ErrorData> {
    if !declares(&call.capabilities(), method) {
        let refused = if call.is_modern() {
            Err(lacking(method))
        } else {
            failure(format!("The caller does not support {method}."))
        };
        return Ok(Asked::NotYet(refused));
    }
    let request = input_request(method, params)?;
    if !call.is_modern() {
        return ask_now(&call.context.peer, request)
            .await
            .map(Asked::Answer);
    }
    if let Some(answer) = call.responses.get(KEY) {
        return Ok(Asked::Answer(answer.clone()));
    }
    let requests = InputRequests::from([(KEY.to_owned(), request)]);
    Ok(Asked::NotYet(Ok(CallToolResponse::from(
        InputRequiredResult::from_input_requests(requests),
    ))))
}

/// Asks what a round asks, all at once, as servers of the legacy era do.
pub(super) async fn ask_all(
    peer: &Peer<RoleServer>,
    requests: InputRequests,
) -> Result<InputResponses, ErrorData> {
    let asked = requests.into_iter().map(|(key, request)| async move {
        Ok::<_, ErrorData>((key, ask_now(peer, request).await?))
    });
    try_join_all(asked)
        .await
        .map(|answers| answers.into_iter().collect())
}

async fn ask_now(peer: &Peer<RoleServer>, request: InputRequest) -> Result<Value, ErrorData> {
    let request = match request {
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => {
            return Err(ErrorData::internal_error(
                "a kind of question this server does not know",
                None,
            ));
        }
    };
    let answer = peer.send_request(request).await;
    let answer = answer.map_err(|error| {
        ErrorData::internal_error(format!("the caller did not answer: {error}"), None)
    });
    serde_json::to_value(answer?)
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// Whether a caller with these capabilities answers requests of that method.
pub(super) fn declares(capabilities: &ClientCapabilities, method: &str) -> bool {
    match method {
        "sampling/createMessage" => capabilities.sampling.is_some(),
        "elicitation/create" => capabilities.elicitation.is_some(),
        "roots/list" => capabilities.roots.is_some(),
        _ => false,
    }
}

/// The error for a caller that cannot be asked what the tool must ask.
pub(super) fn lacking(method: &str) -> ErrorData {
    let builder = ClientCapabilities::builder();
    ErrorData::missing_required_client_capability(match method {
        "sampling/createMessage" => builder.enable_sampling().build(),
        "roots/list" => builder.enable_roots().build(),
        _ => builder.enable_elicitation().build(),
    })
}
