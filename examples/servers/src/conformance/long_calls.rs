//! The tools of tasks where the server makes none: each call takes as long as its work does, and asks
//! on the way as its era does.

use std::time::Duration;

use rmcp::model::{ErrorData, InputRequests, InputRequiredResult, InputResponses};
use serde_json::{Value, json};

use super::ask::{ask_all, declares, lacking};
use super::call::{Call, Outcome, accepted, failure, form, input_request, text};

/// How long work takes before there is something to be said of it.
const WORK: Duration = Duration::from_secs(1);
const ELICIT: &str = "elicitation/create";

pub(super) async fn call(call: &Call<'_>) -> Option<Outcome> {
    Some(match call.name.as_str() {
        "failing_job" => {
            tokio::time::sleep(WORK).await;
            failure("The job failed.")
        }
        "protocol_error_job" => {
            tokio::time::sleep(WORK).await;
            Err(super::tasks::broken())
        }
        "confirm_delete" => confirm(call).await,
        "multi_input" => two_questions(call).await,
        "test_tool_with_task" => name_then_work(call).await,
        _ => return None,
    })
}

async fn confirm(call: &Call<'_>) -> Outcome {
    let file = call.string("filename")?;
    let question = form(
        &format!("Delete {file}?"),
        json!({ "confirm": { "type": "boolean" } }),
    );
    works_before_it_asks(call).await;
    let answers = match answers(call, [("confirm", question)]).await? {
        Asked::Answers(answers) => answers,
        Asked::NotYet(outcome) => return *outcome,
    };
    let agreed = accepted(&answers, "confirm").is_some_and(|content| content["confirm"] != false);
    text(if agreed {
        format!("{file} would now be deleted.")
    } else {
        format!("{file} stays.")
    })
}

async fn two_questions(call: &Call<'_>) -> Outcome {
    let question = |what: &str| {
        form(
            &format!("Your {what}?"),
            json!({ what: { "type": "string" } }),
        )
    };
    works_before_it_asks(call).await;
    let questions = [("name", question("name")), ("color", question("color"))];
    match answers(call, questions).await? {
        Asked::Answers(answers) => text(json!(answers).to_string()),
        Asked::NotYet(outcome) => *outcome,
    }
}

async fn name_then_work(call: &Call<'_>) -> Outcome {
    let question = form(
        "What is your name?",
        json!({ "name": { "type": "string" } }),
    );
    let answers = match answers(call, [("user_name", question)]).await? {
        Asked::Answers(answers) => answers,
        Asked::NotYet(outcome) => return *outcome,
    };
    tokio::time::sleep(WORK).await;
    let name = accepted(&answers, "user_name").and_then(|content| content["name"].as_str());
    text(format!("Done for {}.", name.unwrap_or("nobody")))
}

/// A server of sessions asks at once, and its call waits.
async fn works_before_it_asks(call: &Call<'_>) {
    if call.is_modern() && call.responses.is_empty() {
        tokio::time::sleep(WORK).await;
    }
}

/// What became of questions.
enum Asked {
    Answers(InputResponses),
    /// What the call answers instead: the questions themselves.
    NotYet(Box<Outcome>),
}

async fn answers<const COUNT: usize>(
    call: &Call<'_>,
    questions: [(&str, Value); COUNT],
) -> Result<Asked, ErrorData> {
    if !declares(&call.capabilities(), ELICIT) {
        return Err(lacking(ELICIT));
    }
    let mut requests = InputRequests::new();
    for (key, question) in questions {
        requests.insert(key.to_owned(), input_request(ELICIT, question)?);
    }
    if !call.is_modern() {
        return ask_all(&call.context.peer, requests)
            .await
            .map(Asked::Answers);
    }
    if requests.keys().all(|key| call.responses.contains_key(key)) {
        return Ok(Asked::Answers(call.responses.clone()));
    }
    let asked = InputRequiredResult::from_input_requests(requests);
    Ok(Asked::NotYet(Box::new(Ok(asked.into()))))
}
