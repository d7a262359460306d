//! Tools that may answer with a task: work that goes on after the answer and is asked about later.
//! Where the server makes none, `long_calls.rs` has them.

use std::time::Duration;

use rmcp::model::{
    CallToolResult, ClientCapabilities, ContentBlock, CreateTaskResult, ErrorData, InputRequests,
    InputRequiredResult, Tool, ToolAnnotations,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskOptions};
use serde_json::{Value, json};

use super::call::{
    Call, Outcome, accepted, failure, form, input_request, no_arguments, text, tool,
};
use super::long_calls;

pub(super) fn tools() -> Vec<Tool> {
    let named = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } }, "required": [name] });
    let slow = json!({
        "type": "object",
        "properties": { "seconds": { "type": "number", "minimum": 0 }, "label": { "type": "string" } },
        "required": ["seconds"],
    });
    vec![
        tool("greet", "Greets, never as a task.", named("name")),
        tool("slow_compute", "Takes as long as it is told to.", slow),
        tool(
            "failing_job",
            "Fails after a second, always as a task.",
            no_arguments(),
        ),
        tool(
            "protocol_error_job",
            "Breaks, always as a task.",
            no_arguments(),
        ),
        tool(
            "confirm_delete",
            "Asks before it deletes nothing.",
            named("filename"),
        )
        .annotate(ToolAnnotations::new().read_only(false).destructive(true)),
        tool(
            "multi_input",
            "Asks two things at once, as a task.",
            no_arguments(),
        ),
        tool(
            "test_tool_with_task",
            "Asks for a name, then goes on as a task.",
            no_arguments(),
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Option<Outcome> {
    let seconds = call
        .arguments
        .get("seconds")
        .and_then(Value::as_f64)
        .unwrap_or(0.0);
    let pause = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Some(match call.name.as_str() {
        "greet" => call
            .string("name")
            .and_then(|name| text(format!("Hello, {name}!"))),
        "slow_compute" if call.fixture.makes_tasks && call.capabilities().supports_tasks() => {
            start(call, move |task| Box::pin(compute(task, pause)))
        }
        "slow_compute" => {
            tokio::time::sleep(pause).await;
            Ok(computed().into())
        }
        _ if !call.fixture.makes_tasks || !call.is_modern() => {
            return long_calls::call(call).await;
        }
        "failing_job" => required(call, |task| Box::pin(fail(task))),
        "protocol_error_job" => required(call, |_| Box::pin(async { Err(broken().into()) })),
        "confirm_delete" => call
            .string("filename")
            .and_then(|file| required(call, move |task| Box::pin(confirm(task, file)))),
        "multi_input" => required(call, |task| Box::pin(two_questions(task))),
        "test_tool_with_task" => name_then_task(call),
        _ => return None,
    })
}

/// A tool that cannot do without a task.
fn required(call: &Call<'_>, work: impl FnOnce(TaskContext) -> TaskFuture) -> Outcome {
    if !call.capabilities().supports_tasks() {
        let tasks = ClientCapabilities::builder().enable_tasks().build();
        return Err(ErrorData::missing_required_client_capability(tasks));
    }
    start(call, work)
}

fn start(call: &Call<'_>, work: impl FnOnce(TaskContext) -> TaskFuture) -> Outcome {
    let options = TaskOptions::new()
        .with_ttl_ms(60_000)
        .with_poll_interval_ms(100);
    Ok(CreateTaskResult::new(call.fixture.tasks.spawn(options, work)).into())
}

async fn compute(task: TaskContext, pause: Duration) -> Result<CallToolResult, TaskExit> {
    tokio::select! {
        () = tokio::time::sleep(pause) => Ok(computed()),
        () = task.cancelled() => Err(TaskExit::Cancelled),
    }
}

fn computed() -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text("The computation is done.")])
}

pub(super) fn broken() -> ErrorData {
    ErrorData::internal_error("the job broke", None)
}

async fn fail(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(1)) => {}
        () = task.cancelled() => return Err(TaskExit::Cancelled),
    }
    Ok(CallToolResult::error(vec![ContentBlock::text(
        "The job failed.",
    )]))
}

async fn confirm(task: TaskContext, file: String) -> Result<CallToolResult, TaskExit> {
    let questions = form(
        &format!("Delete {file}?"),
        json!({ "confirm": { "type": "boolean" } }),
    );
    let answer = task
        .request_input("confirm", input_request("elicitation/create", questions)?)
        .await?;
    let agreed = answer["action"] == "accept" && answer["content"]["confirm"] != false;
    let said = if agreed {
        format!("{file} would now be deleted.")
    } else {
        format!("{file} stays.")
    };
    Ok(CallToolResult::success(vec![ContentBlock::text(said)]))
}

async fn two_questions(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let question = |what: &str| {
        input_request(
            "elicitation/create",
            form(
                &format!("Your {what}?"),
                json!({ what: { "type": "string" } }),
            ),
        )
    };
    let (first, second) = tokio::join!(
        task.request_input("name", question("name")?),
        task.request_input("color", question("color")?)
    );
    let said = format!("{} {}", first?["content"], second?["content"]);
    Ok(CallToolResult::success(vec![ContentBlock::text(said)]))
}

/// The first round is a question of the call itself; what comes after the answer is a task.
fn name_then_task(call: &Call<'_>) -> Outcome {
    let name = accepted(&call.responses, "user_name").and_then(|content| content["name"].as_str());
    match name.map(str::to_owned) {
        Some(name) => required(call, |_| {
            let said =
                CallToolResult::success(vec![ContentBlock::text(format!("Done for {name}."))]);
            Box::pin(async { Ok(said) })
        }),
        None if call.capabilities().elicitation.is_none() => {
            failure("The caller cannot be asked for a name.")
        }
        None => {
            let questions = form(
                "What is your name?",
                json!({ "name": { "type": "string" } }),
            );
            let request = input_request("elicitation/create", questions)?;
            let requests = InputRequests::from([("user_name".to_owned(), request)]);
            Ok(InputRequiredResult::from_input_requests(requests).into())
        }
    }
}
