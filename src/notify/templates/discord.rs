//! Discord's webhooks: one embed, which mentions nobody.

use super::{Notice, Rendered, headline, json, lines};
use serde_json::json;

pub(super) fn render(notice: &Notice, link: Option<&str>) -> Rendered {
    let fields = lines(notice).into_iter().map(
        |(label, value)| json!({ "name": quoted(&label), "value": quoted(&value), "inline": true }),
    );
    let fields: Vec<_> = fields.collect();
    let mut embed = json!({ "title": headline(notice), "fields": fields });
    if let Some(link) = link {
        embed["url"] = link.into();
    }
    json(&json!({ "allowed_mentions": { "parse": [] }, "embeds": [embed] }))
}

/// Within backquotes nothing is formatted, and no address becomes a link.
fn quoted(text: &str) -> String {
    format!("`{}`", text.replace('`', "ˋ"))
}
