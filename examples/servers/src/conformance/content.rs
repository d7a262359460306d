//! Tools that answer without asking anybody: each kind of content, errors, progress and log
//! messages.

// Log messages are deprecated in the newest revision, and the older ones test them.
#![expect(deprecated, reason = "the older revisions test log messages")]

use std::time::Duration;

use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam, ResourceContents, Tool,
};
use serde_json::{Value, json};

use super::call::{Call, Outcome, failure, no_arguments, text, tool};
use super::{interruption, schemas};

/// One red pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// A millisecond of silence.
const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";
/// The scenarios want several messages in a row, with time between them.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn tools() -> Vec<Tool> {
    vec![
        tool("test_simple_text", "Answers one text.", no_arguments()),
        tool("test_image_content", "Answers one image.", no_arguments()),
        tool("test_audio_content", "Answers one sound.", no_arguments()),
        tool(
            "test_embedded_resource",
            "Answers one embedded resource.",
            no_arguments(),
        ),
        tool(
            "test_multiple_content_types",
            "Answers a text, an image and a resource.",
            no_arguments(),
        ),
        tool(
            "test_error_handling",
            "Always answers an error.",
            no_arguments(),
        ),
        tool(
            "test_tool_with_progress",
            "Reports its progress three times.",
            no_arguments(),
        ),
        tool(
            "test_tool_with_logging",
            "Sends three log messages.",
            no_arguments(),
        ),
        tool(
            "test_logging_tool",
            "Sends log messages if the request asks for them.",
            no_arguments(),
        ),
        tool(
            interruption::TOOL,
            "Answers a moment after a legacy stream was closed.",
            no_arguments(),
        ),
        tool(
            "test_custom_headers",
            "Has arguments that are repeated in HTTP headers.",
            schemas::mirrored(),
        ),
        tool(
            "json_schema_2020_12_tool",
            "Has a schema with the wider vocabulary.",
            schemas::wide(),
        ),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Option<Outcome> {
    let outcome = match call.name.as_str() {
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => blocks(vec![ContentBlock::image(PNG, "image/png")]),
        "test_audio_content" => blocks(vec![ContentBlock::audio(WAV, "audio/wav")]),
        "test_embedded_resource" => blocks(vec![embedded()]),
        "test_multiple_content_types" => blocks(mixed()),
        "test_error_handling" => failure("This tool intentionally returns an error for testing"),
        "test_tool_with_progress" => progress(call).await,
        "test_tool_with_logging" | "test_logging_tool" => logging(call).await,
        interruption::TOOL => {
            tokio::time::sleep(PAUSE).await;
            text("The call was answered after the reconnection.")
        }
        "test_custom_headers" | "json_schema_2020_12_tool" => echo(call),
        _ => return None,
    };
    Some(outcome)
}

fn blocks(content: Vec<ContentBlock>) -> Outcome {
    Ok(CallToolResult::success(content).into())
}

fn embedded() -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(
        "This is an embedded resource content.",
        "test://embedded-resource",
    ))
}

fn mixed() -> Vec<ContentBlock> {
    let resource = ResourceContents::text(
        r#"{"test":"data","value":123}"#,
        "test://mixed-content-resource",
    );
    vec![
        ContentBlock::text("Multiple content types test:"),
        ContentBlock::image(PNG, "image/png"),
        ContentBlock::resource(resource.with_mime_type("application/json")),
    ]
}

/// Shows which arguments arrived.
fn echo(call: &Call<'_>) -> Outcome {
    text(Value::Object(call.arguments.clone()).to_string())
}

async fn progress(call: &Call<'_>) -> Outcome {
    let token = call.context.meta.get_progress_token();
    for (position, done) in [0.0, 50.0, 100.0].into_iter().enumerate() {
        if position > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(token) = token.clone() {
            let report = ProgressNotificationParam::new(token, done).with_total(100.0);
            call.context
                .peer
                .notify_progress(report)
                .await
                .map_err(undelivered)?;
        }
    }
    text("The tool reported its progress.")
}

/// In the modern era a request says whether it wants log messages; in the legacy one a session
/// always gets these.
async fn logging(call: &Call<'_>) -> Outcome {
    let wanted = !call.is_modern() || call.context.meta.log_level().is_some();
    for (position, said) in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ]
    .into_iter()
    .enumerate()
    {
        if position > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        if wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(said));
            call.context
                .peer
                .notify_logging_message(message)
                .await
                .map_err(undelivered)?;
        }
    }
    text("The tool has run.")
}

fn undelivered(error: rmcp::ServiceError) -> ErrorData {
    ErrorData::internal_error(
        format!("a notification could not be delivered: {error}"),
        None,
    )
}
