//! Slack's incoming webhooks (Block Kit). The button is a link: it opens the page, and decides
//! nothing.

use super::{Notice, Rendered, headline, json, lines};
use serde_json::json;
use std::fmt::Write as _;

pub(super) fn render(notice: &Notice, link: Option<&str>) -> Rendered {
    let mut text = format!("*{}*", headline(notice));
    for (label, value) in lines(notice) {
        let _ = write!(text, "\n{}: `{}`", escaped(&label), escaped(&value));
    }
    // Verbatim: no address in it becomes a link, and no name a mention.
    let mut blocks = vec![json!({
        "type": "section",
        "text": { "type": "mrkdwn", "text": text, "verbatim": true }
    })];
    if let Some(link) = link {
        blocks.push(json!({
            "type": "actions",
            "elements": [{ "type": "button", "text": { "type": "plain_text", "text": "Open" }, "url": link }]
        }));
    }
    json(&json!({ "text": headline(notice), "blocks": blocks }))
}

/// Within backquotes nothing is formatted, and what Slack reads as its own is written as it asks.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('`', "ˋ")
}
