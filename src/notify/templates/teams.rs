//! Teams: an Adaptive Card for a workflow's webhook. Its action is a link: it opens the page, and
//! decides nothing.

use super::{Notice, Rendered, headline, json, lines};
use serde_json::json;

/// What the cards read as Markdown.
const TEAMS_MARKDOWN: &str = "\\`*_{}[]()#+-!|~<>";

pub(super) fn render(notice: &Notice, link: Option<&str>) -> Rendered {
    let facts = lines(notice)
        .into_iter()
        .map(|(label, value)| json!({ "title": escaped(&label), "value": escaped(&value) }));
    let facts: Vec<_> = facts.collect();
    let mut card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            { "type": "TextBlock", "text": headline(notice), "weight": "Bolder", "wrap": true },
            { "type": "FactSet", "facts": facts }
        ]
    });
    if let Some(link) = link {
        card["actions"] = json!([{ "type": "Action.OpenUrl", "title": "Open", "url": link }]);
    }
    json(&json!({
        "type": "message",
        "attachments": [{ "contentType": "application/vnd.microsoft.card.adaptive", "content": card }]
    }))
}

fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        if TEAMS_MARKDOWN.contains(letter) {
            written.push('\\');
        }
        written.push(letter);
    }
    written
}
