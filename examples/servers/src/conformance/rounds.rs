//! Tools that answer in several rounds: in the modern era the call is repeated with what it asked
//! for, in the legacy era the server asks meanwhile.

use rmcp::model::{
    CallToolResponse, ErrorData, InputRequests, InputRequiredResult, RequestStateCodec,
    RequestStateError, SealOptions, Tool,
};
use serde_json::{Value, json};

use super::ask::{ask_all, declares, lacking};
use super::call::{
    Call, Outcome, accepted, form, input_request, no_arguments, sampled_text, sampling, text, tool,
};

/// Seals the state of a call between its rounds. A fixture has no secrets: its replicas must be
/// able to read each other's.
const KEY: &[u8] = b"the conformance fixture keeps no secrets";
const ELICIT: &str = "elicitation/create";
const SAMPLE: &str = "sampling/createMessage";
const ROOTS: &str = "roots/list";

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool(
            "test_input_required_result_elicitation",
            "Asks for a name.",
            no_arguments(),
        ),
        tool(
            "test_input_required_result_sampling",
            "Asks the caller's model.",
            no_arguments(),
        ),
        tool(
            "test_input_required_result_list_roots",
            "Asks for the caller's roots.",
            no_arguments(),
        ),
        tool(
            "test_input_required_result_request_state",
            "Keeps state between rounds.",
            no_arguments(),
        ),
        tool(
            "test_input_required_result_multiple_inputs",
            "Asks three things at once.",
            no_arguments(),
        ),
        tool(
            "test_input_required_result_multi_round",
            "Asks twice, one after the other.",
            no_arguments(),
        ),
        tool(
            "test_input_required_result_tampered_state",
            "Refuses a state that was altered.",
            no_arguments(),
        ),
        tool(
            "test_input_required_result_capabilities",
            "Asks only what the caller can answer.",
            no_arguments(),
        ),
    ]
}

/// Rounds of a call that a caller of the legacy era is asked in.
const MAX_ROUNDS: usize = 10;

pub(super) async fn call(call: &Call<'_>) -> Option<Outcome> {
    let mut outcome = answered(call)?;
    if call.is_modern() {
        return Some(outcome);
    }
    for _ in 0..MAX_ROUNDS {
        let Ok(CallToolResponse::InputRequired(round)) = outcome else {
            break;
        };
        let requests = round.input_requests.unwrap_or_default();
        let responses = match ask_all(&call.context.peer, requests).await {
            Ok(responses) => responses,
            Err(unanswered) => return Some(Err(unanswered)),
        };
        outcome = answered(&Call {
            fixture: call.fixture,
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            responses,
            state: round.request_state,
            context: call.context.clone(),
        })?;
    }
    Some(outcome)
}

fn answered(call: &Call<'_>) -> Option<Outcome> {
    Some(
        match call.name.strip_prefix("test_input_required_result_")? {
            "elicitation" => elicitation(call),
            "sampling" => sample(call),
            "list_roots" => roots(call),
            "request_state" | "tampered_state" => confirmed_state(call),
            "multiple_inputs" => multiple(call),
            "multi_round" => multi_round(call),
            "capabilities" => capabilities(call),
            _ => return None,
        },
    )
}

/// A question: its name in the round, its method and its parameters.
type Question = (&'static str, &'static str, Value);

fn name_form(message: &str) -> Value {
    form(message, json!({ "name": { "type": "string" } }))
}

/// What the person entered as `field` of the form `key`.
fn entered<'a>(call: &'a Call<'_>, key: &str, field: &str) -> Option<&'a str> {
    accepted(&call.responses, key)?.get(field)?.as_str()
}

fn elicitation(call: &Call<'_>) -> Outcome {
    match entered(call, "user_name", "name") {
        Some(name) => text(format!("Hello, {name}!")),
        None => round(
            call,
            vec![("user_name", ELICIT, name_form("What is your name?"))],
            None,
        ),
    }
}

fn sample(call: &Call<'_>) -> Outcome {
    match call
        .responses
        .get("capital_question")
        .and_then(sampled_text)
    {
        Some(answer) => text(answer),
        None => round(
            call,
            vec![(
                "capital_question",
                SAMPLE,
                sampling("What is the capital of France?", 100),
            )],
            None,
        ),
    }
}

fn roots(call: &Call<'_>) -> Outcome {
    match call
        .responses
        .get("client_roots")
        .and_then(|response| response.get("roots"))
        .filter(|roots| roots.is_array())
    {
        Some(roots) => text(format!("The roots are {roots}.")),
        None => round(call, vec![("client_roots", ROOTS, json!({}))], None),
    }
}

/// The state is looked at before the answers: one that was altered is refused whatever came with
/// it.
fn confirmed_state(call: &Call<'_>) -> Outcome {
    let opened = open(call)?;
    if opened.is_some() && accepted(&call.responses, "confirm").is_some() {
        return text("state-ok");
    }
    let question = form("Please confirm", json!({ "ok": { "type": "boolean" } }));
    round(
        call,
        vec![("confirm", ELICIT, question)],
        Some(json!("asked")),
    )
}

fn multiple(call: &Call<'_>) -> Outcome {
    let opened = open(call)?;
    let name = entered(call, "user_name", "name");
    let greeting = call.responses.get("greeting").and_then(sampled_text);
    let roots = call
        .responses
        .get("client_roots")
        .and_then(|response| response.get("roots"));
    if let (Some(_), Some(name), Some(greeting), Some(roots)) = (opened, name, greeting, roots) {
        return text(format!("{greeting} {name} {roots}"));
    }
    let questions = vec![
        ("user_name", ELICIT, name_form("What is your name?")),
        ("greeting", SAMPLE, sampling("Generate a greeting", 50)),
        ("client_roots", ROOTS, json!({})),
    ];
    round(call, questions, Some(json!("asked")))
}

/// The first answer travels to the third round inside the state.
fn multi_round(call: &Call<'_>) -> Outcome {
    let opened = open(call)?.unwrap_or(json!({ "round": 1 }));
    if let (Some(name), Some(color)) = (opened["name"].as_str(), entered(call, "step2", "color")) {
        return text(format!("{name} likes {color}."));
    }
    let Some(name) = opened["name"]
        .as_str()
        .or_else(|| entered(call, "step1", "name"))
    else {
        let question = name_form("Step 1: What is your name?");
        return round(
            call,
            vec![("step1", ELICIT, question)],
            Some(json!({ "round": 1 })),
        );
    };
    let question = form(
        "Step 2: What is your favorite color?",
        json!({ "color": { "type": "string" } }),
    );
    round(
        call,
        vec![("step2", ELICIT, question)],
        Some(json!({ "round": 2, "name": name })),
    )
}

fn capabilities(call: &Call<'_>) -> Outcome {
    let questions: [Question; 3] = [
        ("user_name", ELICIT, name_form("What is your name?")),
        ("greeting", SAMPLE, sampling("Generate a greeting", 50)),
        ("client_roots", ROOTS, json!({})),
    ];
    let declared = call.capabilities();
    let possible: Vec<_> = questions
        .into_iter()
        .filter(|(_, method, _)| declares(&declared, method))
        .collect();
    if possible
        .iter()
        .all(|(key, ..)| call.responses.contains_key(*key))
    {
        return text("Every question that could be asked was answered.");
    }
    round(call, possible, None)
}

/// Asks these questions, each of which the caller must be able to answer.
fn round(call: &Call<'_>, questions: Vec<Question>, state: Option<Value>) -> Outcome {
    let declared = call.capabilities();
    let mut requests = InputRequests::new();
    for (key, method, params) in questions {
        if !declares(&declared, method) {
            return Err(lacking(method));
        }
        requests.insert(key.to_owned(), input_request(method, params)?);
    }
    let state = state.map(|state| seal(call, &state)).transpose()?;
    Ok(InputRequiredResult::new(Some(requests), state).into())
}

fn seal(call: &Call<'_>, state: &Value) -> Result<String, ErrorData> {
    let bound_to_the_tool = SealOptions::new().associated_data(call.name.as_bytes());
    let sealed = codec().and_then(|codec| codec.seal_json_with(state, &bound_to_the_tool));
    sealed.map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

/// The state that the call brought back, if it brought one.
fn open(call: &Call<'_>) -> Result<Option<Value>, ErrorData> {
    let Some(sealed) = &call.state else {
        return Ok(None);
    };
    let opened = codec().and_then(|codec| codec.open_json_with(sealed, call.name.as_bytes()));
    opened
        .map(Some)
        .map_err(|error| ErrorData::invalid_params(format!("requestState: {error}"), None))
}

fn codec() -> Result<RequestStateCodec, RequestStateError> {
    RequestStateCodec::try_new(KEY)
}
