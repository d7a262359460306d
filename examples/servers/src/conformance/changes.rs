//! Tools that announce a change of the lists, and the streams that carry the announcement.

use rmcp::model::{Tool, ToolAnnotations};
use rmcp::service::SubscriptionContext;
use tokio::sync::broadcast;

use super::call::{Call, Outcome, failure, no_arguments, text, tool};

/// What is said to have changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Tools,
    Prompts,
}

pub(super) fn tools() -> Vec<Tool> {
    let loud = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .idempotent(false)
        .open_world(false);
    vec![
        tool(
            "test_trigger_tool_change",
            "Announces that the tools have changed.",
            no_arguments(),
        )
        .annotate(loud.clone()),
        tool(
            "test_trigger_prompt_change",
            "Announces that the prompts have changed.",
            no_arguments(),
        )
        .annotate(loud),
    ]
}

pub(super) async fn call(call: &Call<'_>) -> Option<Outcome> {
    let change = match call.name.as_str() {
        "test_trigger_tool_change" => Change::Tools,
        "test_trigger_prompt_change" => Change::Prompts,
        _ => return None,
    };
    // Nobody listening is no failure.
    _ = call.fixture.changes.send(change);
    if !call.is_modern() {
        let told = match change {
            Change::Tools => call.context.peer.notify_tool_list_changed().await,
            Change::Prompts => call.context.peer.notify_prompt_list_changed().await,
        };
        if let Err(error) = told {
            return Some(failure(format!(
                "The change could not be announced: {error}."
            )));
        }
    }
    Some(text("The change was announced."))
}

/// Hands changes on until the listener goes away.
pub(super) async fn listen(
    mut changes: broadcast::Receiver<Change>,
    listener: SubscriptionContext,
) {
    let accepted = listener.accepted().clone();
    loop {
        let change = tokio::select! {
            change = changes.recv() => change,
            () = listener.cancelled() => return,
        };
        let sent = match change {
            Ok(Change::Tools) if accepted.tools_list_changed == Some(true) => {
                listener.sink().notify_tool_list_changed().await
            }
            Ok(Change::Prompts) if accepted.prompts_list_changed == Some(true) => {
                listener.sink().notify_prompt_list_changed().await
            }
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => Ok(()),
            Err(broadcast::error::RecvError::Closed) => return,
        };
        if sent.is_err() {
            return;
        }
    }
}
