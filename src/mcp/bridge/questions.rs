//! What a server of one era asks an agent of the other, and the agent's answers, where the reader's
//! revision knows less than the writer's.

use super::definitions::definition_for;
use super::tasks::LEGACY_TASK_PARAM;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::revision::Revision;

/// What a legacy agent knows a page by.
pub(crate) const PAGE_ID_MEMBER: &str = "elicitationId";
/// Blocks by which a model uses tools, since 2025-11-25.
const TOOL_BLOCKS: [&str; 2] = ["tool_use", "tool_result"];

/// A question of a server of 2026-07-28 as the request that an agent of this revision knows, or why
/// it cannot be asked. `page`: what the agent knows the page by, if it is to open one.
pub(crate) fn question_to_legacy_agent(
    asked: &Text,
    revision: Revision,
    page: &str,
) -> Result<Message, &'static str> {
    let method = asked.get("method");
    let method = method.as_ref().and_then(Text::as_str).unwrap_or_default();
    let params = asked.get("params").and_then(|params| params.object());
    let mut params = params.unwrap_or_default();
    // In 2026-07-28 the name means nothing; to the agent it says that the answer is to be a task.
    params.remove(LEGACY_TASK_PARAM);
    let is_newest = revision >= Revision::V2025_11_25;
    match &*method {
        "elicitation/create" if revision < Revision::V2025_06_18 => {
            return Err(
                "the tool server asked the agent's person, which the agent's revision does not know",
            );
        }
        "elicitation/create" if is_url(&params) => {
            if !is_newest {
                return Err(
                    "the tool server asked to open a page, which the agent's revision does not know",
                );
            }
            params.set(PAGE_ID_MEMBER, Text::string(page));
        }
        "elicitation/create" if !is_newest && !has_plain_fields(&params) => {
            return Err(
                "the tool server asked for several of a list, which the agent's revision does not know",
            );
        }
        "sampling/createMessage" if !is_newest && !has_plain_messages(&params) => {
            return Err(
                "the tool server asked for a model that uses tools, which the agent's revision does not know",
            );
        }
        "sampling/createMessage" => use_tools_as_of(&mut params, revision),
        _ => {}
    }
    Ok(Message::request(0, &method, Some(params.text())))
}

/// An answer of an agent of 2026-07-28 to a question of a server of this revision; none if it has none
/// that the revision knows.
pub(crate) fn answer_to_legacy_server(
    method: &str,
    answer: Text,
    revision: Revision,
) -> Option<Text> {
    if revision >= Revision::V2025_11_25 {
        return Some(match method {
            "sampling/createMessage" => with_plain_content(&answer),
            _ => answer,
        });
    }
    let is_known = match method {
        "elicitation/create" => {
            let content = answer.get("content");
            let mut fields = content.iter().filter_map(Text::members).flatten();
            fields.all(|(_, value)| !value.is_array())
        }
        "sampling/createMessage" => answer
            .get("content")
            .is_none_or(|content| is_plain_content(&content)),
        _ => true,
    };
    is_known.then_some(answer)
}

fn is_url(params: &Object) -> bool {
    let mode = params.get("mode").and_then(Text::as_str);
    mode.as_deref() == Some("url")
}

/// Whether no field of a form takes several values.
fn has_plain_fields(params: &Object) -> bool {
    let fields = params
        .get("requestedSchema")
        .and_then(|schema| schema.get("properties"));
    let mut fields = fields.iter().filter_map(Text::members).flatten();
    fields.all(|(_, field)| {
        field
            .get("type")
            .is_none_or(|kind| kind.as_str().as_deref() != Some("array"))
    })
}

/// Whether each message for a model is one block, and of no tool.
fn has_plain_messages(params: &Object) -> bool {
    let messages = params.get("messages").and_then(Text::elements);
    let mut messages = messages.iter().flatten();
    messages.all(|message| {
        message
            .get("content")
            .is_none_or(|content| is_plain_content(&content))
    })
}

fn is_plain_content(content: &Text) -> bool {
    let kind = content.get("type");
    let kind = kind.as_ref().and_then(Text::as_str);
    !content.is_array() && !kind.is_some_and(|kind| TOOL_BLOCKS.contains(&&*kind))
}

/// What a model is told of tools, as a legacy revision has it.
fn use_tools_as_of(params: &mut Object, revision: Revision) {
    if let Some(tools) = params.get("tools").and_then(Text::elements) {
        let tools = tools.iter().map(|tool| definition_for(tool, revision));
        params.set("tools", Text::array(tools));
    }
    if let Some(messages) = params.get("messages").and_then(Text::elements) {
        let messages = messages.iter().map(with_plain_content);
        params.set("messages", Text::array(messages));
    }
}

/// A message for a model, or of one, where what a tool gave is an object or nothing, as it is up to
/// 2025-11-25.
fn with_plain_content(message: &Text) -> Text {
    let (Some(mut members), Some(content)) = (message.object(), message.get("content")) else {
        return message.clone();
    };
    let plain = match content.elements() {
        Some(blocks) => Text::array(blocks.iter().map(plain_block)),
        None => plain_block(&content),
    };
    members.set("content", plain);
    members.text()
}

fn plain_block(block: &Text) -> Text {
    let kind = block.get("type");
    let is_result = kind.is_some_and(|kind| kind.as_str().as_deref() == Some("tool_result"));
    let odd = block
        .get("structuredContent")
        .filter(|it| is_result && !it.is_object());
    match (block.object(), odd) {
        (Some(mut members), Some(_)) => {
            members.remove("structuredContent");
            members.text()
        }
        _ => block.clone(),
    }
}
