//! What stands in `_meta` for toolgate alone: agents say it with calls, and nothing of it travels
//! on.

use super::json::Text;
use super::message::Message;

/// With what the names of such members begin.
pub(crate) const OWN_META_PREFIX: &str = "dev.toolgate/";
/// What tool servers that cooperate check (guarantees §5).
pub(crate) const FENCE_META_KEY: &str = "dev.toolgate/fence";

/// `_meta` without them.
#[must_use]
pub(crate) fn without_ours(meta: &Text) -> Text {
    plain(meta).unwrap_or_else(|| meta.clone())
}

/// The message without them.
#[must_use]
pub(crate) fn message_without_ours(message: Message) -> Message {
    let meta = message.body.as_ref().and_then(|body| body.get("_meta"));
    let Some(meta) = meta.as_ref().and_then(plain) else {
        return message;
    };
    let Some(mut members) = message.body.as_ref().and_then(Text::object) else {
        return message;
    };
    members.set("_meta", meta);
    Message {
        body: Some(members.text()),
        ..message
    }
}

/// None if there are none.
fn plain(meta: &Text) -> Option<Text> {
    let is_ours = |name: &str| name.starts_with(OWN_META_PREFIX);
    if !meta.members()?.parts().any(|(name, _)| is_ours(&name)) {
        return None;
    }
    let mut members = meta.object()?;
    let ours: Vec<String> = members
        .iter()
        .map(|(name, _)| name)
        .filter(|name| is_ours(name))
        .map(str::to_owned)
        .collect();
    for name in ours {
        members.remove(&name);
    }
    Some(members.text())
}
