//! Plain JSON, for programs.

use super::{Notice, Rendered, json};
use crate::store::operator::time;
use serde_json::{Map, Value};

pub(super) fn render(notice: &Notice, link: Option<&str>) -> Rendered {
    let about = &notice.about;
    let of = if about.is_held { "approval" } else { "call" };
    let mut body = Map::new();
    let mut add = |key: &str, value: Value| {
        let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty {
            body.insert(key.to_owned(), value);
        }
    };
    add("id", notice.id.as_str().into());
    add("type", format!("{of}.{}", notice.kind.word()).into());
    add("timestamp", time(notice.at).into());
    add(of, about.id.as_str().into());
    add("state", notice.state.as_str().into());
    add("tool", about.tool.as_str().into());
    add("agent", about.agent.as_str().into());
    add("tenant", about.tenant.clone().into());
    add("user", about.user.clone().into());
    add("effects", about.effects.clone().into());
    add("roles", about.roles.clone().into());
    add("approve_by", about.approve_by.map(time).into());
    add("who", notice.who.clone().into());
    let marked = about.marked.iter().cloned();
    let marked: Map<String, Value> = marked
        .map(|[pointer, value]| (pointer, Value::String(value)))
        .collect();
    if !marked.is_empty() {
        add("arguments", Value::Object(marked));
    }
    add("link", link.into());
    json(&Value::Object(body))
}
