//! What a message through a side door is about: what layers are asked, and what operators read.

use crate::guards::allowlist::side::SideTarget;
use crate::mcp::json::Text;
use crate::model::ids::{NAME_SEPARATOR, ServerName};
use crate::model::scrub::KNOWN_SECRETS;
use crate::model::side::SideDoor;
use std::borrow::Cow;

/// Characters of a name or a URI in the ledger; the hash of the parameters tells longer ones apart.
const SUBJECT_CHARS_MAX: usize = 200;

/// What all must be reached, and its name in the ledger.
pub(crate) fn of(
    door: SideDoor,
    server: &ServerName,
    method: &str,
    params: Option<&Text>,
) -> (Vec<SideTarget>, String) {
    let member = |name: &str| params.and_then(|params| params.get(name));
    let text = |name: &str| member(name).and_then(|text| text.as_str().map(Cow::into_owned));
    match (door, method) {
        (
            SideDoor::Resources,
            "resources/read"
            | "resources/subscribe"
            | "resources/unsubscribe"
            | "notifications/resources/updated",
        ) => {
            let uri = text("uri").unwrap_or_default();
            (
                vec![SideTarget::resource(door, server, &uri)],
                shown(server, &uri),
            )
        }
        (SideDoor::Prompts, "prompts/get") => {
            let name = text("name");
            let wanted = name
                .as_deref()
                .map(|name| SideTarget::prompt(door, server, name));
            (
                wanted.into_iter().collect(),
                shown(server, &name.unwrap_or_default()),
            )
        }
        (SideDoor::Completions, _) => completed(server, member("ref").as_ref()),
        (door, _) => (vec![SideTarget::any(door, server)], server.to_string()),
    }
}

/// A completion wants the door of its own, and what is completed: by both of its names, if it has
/// both.
fn completed(server: &ServerName, reference: Option<&Text>) -> (Vec<SideTarget>, String) {
    let text = |name: &str| {
        reference
            .and_then(|reference| reference.get(name))
            .and_then(|text| text.as_str().map(Cow::into_owned))
    };
    let (mut wanted, mut named) = (Vec::new(), String::new());
    if let Some(name) = text("name") {
        wanted.extend(
            [SideDoor::Completions, SideDoor::Prompts]
                .map(|door| SideTarget::prompt(door, server, &name)),
        );
        named = name;
    }
    if let Some(uri) = text("uri") {
        wanted.extend(
            [SideDoor::Completions, SideDoor::Resources]
                .map(|door| SideTarget::completed(door, server, &uri)),
        );
        named = uri;
    }
    (wanted, shown(server, &named))
}

/// As operators read it: without queries and credentials, which may be secrets, and not too long.
pub(crate) fn shown(server: &ServerName, name: &str) -> String {
    let name = KNOWN_SECRETS.clean(name);
    let (plain, more) = match name.split_once(['?', '#']) {
        Some((plain, _)) => (plain, "?…"),
        None => (&*name, ""),
    };
    let credentials = plain.split_once("://").and_then(|(scheme, rest)| {
        let end = rest.find('/').unwrap_or(rest.len());
        let (_, host) = rest[..end].rsplit_once('@')?;
        Some(format!("{scheme}://…@{host}{}", &rest[end..]))
    });
    let plain = credentials.as_deref().unwrap_or(plain);
    let cut: String = plain.chars().take(SUBJECT_CHARS_MAX).collect();
    let more = if cut.len() < plain.len() { "…" } else { more };
    [server.as_str(), NAME_SEPARATOR, &cut, more].concat()
}
