//! The idempotency key in what travels: shown in the listing, taken off a call, and put where the
//! tool server takes one. Everything else stays as it was written.

use crate::guards::idempotency::{KEY_ARGUMENT_NAME, Placement, Shown};
use crate::mcp::json::Text;
use serde_json::json;

/// What the model reads about the argument.
const DESCRIPTION: &str = "A key of your choice for this call: send the same key when you send this very call again, so that it runs once; \
                           a new value runs an equal call again.";

/// How a call travels otherwise than the agent wrote it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Placed<'a> {
    /// The argument `idempotency_key` was ours: it stays here.
    pub strip: bool,
    /// Where the tool server takes a key, and the key.
    pub key: Option<(&'a Placement, &'a str)>,
}

impl Placed<'_> {
    /// The arguments as they travel; an argument for the key that the agent gave stays its own.
    pub(crate) fn arguments(&self, written: Option<&Text>) -> Option<Text> {
        let name = match self.key {
            Some((Placement::Argument(name), _)) => Some(name),
            Some((Placement::Meta(_) | Placement::Header(_), _)) | None => None,
        };
        if !self.strip && name.is_none() {
            return written.cloned();
        }
        let mut members = written.and_then(Text::object).unwrap_or_default();
        if self.strip {
            members.remove(KEY_ARGUMENT_NAME);
        }
        if let (Some(name), Some((_, key))) = (name, self.key)
            && members.get(name).is_none()
        {
            members.set(name, Text::string(key));
        }
        Some(members.text())
    }

    /// `_meta` as it travels.
    pub(crate) fn meta(&self, written: Option<&Text>) -> Option<Text> {
        let Some((Placement::Meta(name), key)) = self.key else {
            return written.cloned();
        };
        let mut members = written.and_then(Text::object).unwrap_or_default();
        members.set(name, Text::string(key));
        Some(members.text())
    }

    /// The header that carries the key.
    pub(crate) fn header(&self) -> Option<(String, String)> {
        match self.key {
            Some((Placement::Header(name), key)) => Some((name.clone(), key.to_owned())),
            Some((Placement::Argument(_) | Placement::Meta(_), _)) | None => None,
        }
    }
}

/// A tool's definition, with the argument for the key in its schema (004-54).
pub(crate) fn with_key(definition: &Text, shown: Shown) -> Text {
    let Some(mut members) = definition.object() else {
        return definition.clone();
    };
    let Some(mut schema) = members.get("inputSchema").and_then(Text::object) else {
        return definition.clone();
    };
    let mut properties = schema
        .get("properties")
        .and_then(Text::object)
        .unwrap_or_default();
    let property =
        json!({ "type": "string", "minLength": 1, "maxLength": 255, "description": DESCRIPTION });
    properties.set(KEY_ARGUMENT_NAME, Text::of(&property));
    schema.set("properties", properties.text());
    if shown.required {
        let mut required = schema
            .get("required")
            .and_then(Text::elements)
            .unwrap_or_default();
        required.push(Text::string(KEY_ARGUMENT_NAME));
        schema.set("required", array(&required));
    }
    members.set("inputSchema", schema.text());
    members.text()
}

fn array(elements: &[Text]) -> Text {
    let values: Vec<_> = elements.iter().map(Text::value).collect();
    Text::of(&values.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn text(json: &'static str) -> Text {
        Text::read(
            Bytes::from_static(json.as_bytes()),
            &crate::mcp::json::AGENT_JSON_LIMITS,
        )
        .unwrap()
    }

    fn shown(text: Option<Text>) -> String {
        text.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned())
            .unwrap_or_default()
    }

    /// 004-15, 004-54: ours is taken off, the server's is put in, and nothing else changes, not
    /// even as written.
    #[test]
    fn keys_are_put_where_they_belong() {
        let written = text(r#"{"n":1.50,"idempotency_key":"k","s":"\u0078"}"#);
        let (argument, meta) = (
            Placement::Argument("request".to_owned()),
            Placement::Meta("acme/key".to_owned()),
        );
        let header = Placement::Header("idempotency-key".to_owned());
        let untouched = Placed::default();
        assert_eq!(untouched.arguments(Some(&written)), Some(written.clone()));
        assert_eq!(
            (
                untouched.arguments(None),
                untouched.meta(None),
                untouched.header()
            ),
            (None, None, None)
        );
        let stripped = Placed {
            strip: true,
            key: None,
        };
        assert_eq!(
            shown(stripped.arguments(Some(&written))),
            r#"{"n":1.50,"s":"\u0078"}"#
        );
        let placed = Placed {
            strip: true,
            key: Some((&argument, "up")),
        };
        assert_eq!(
            shown(placed.arguments(Some(&written))),
            r#"{"n":1.50,"s":"\u0078","request":"up"}"#
        );
        assert_eq!(shown(placed.arguments(None)), r#"{"request":"up"}"#);
        let own = text(r#"{"request":"mine"}"#);
        assert_eq!(shown(placed.arguments(Some(&own))), r#"{"request":"mine"}"#);
        assert_eq!(placed.header(), None);
        let placed = Placed {
            strip: false,
            key: Some((&meta, "up")),
        };
        assert_eq!(placed.arguments(Some(&written)), Some(written));
        assert_eq!(
            shown(placed.meta(Some(&text(r#"{"a":1}"#)))),
            r#"{"a":1,"acme/key":"up"}"#
        );
        assert_eq!(shown(placed.meta(None)), r#"{"acme/key":"up"}"#);
        let placed = Placed {
            strip: false,
            key: Some((&header, "up")),
        };
        assert_eq!(
            placed.header(),
            Some(("idempotency-key".to_owned(), "up".to_owned()))
        );
    }

    /// 004-54: the listing shows one more argument, required where the contract requires it.
    #[test]
    fn the_listing_shows_the_argument() {
        let tool = text(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"n":{"const":1.0}},"required":["n"]},"x":1e0}"#,
        );
        let optional = shown(Some(with_key(&tool, Shown { required: false })));
        assert!(
            optional
                .contains(r#""properties":{"n":{"const":1.0},"idempotency_key":{"type":"string""#),
            "{optional}"
        );
        assert!(
            optional.contains(r#""required":["n"]"#) && optional.ends_with(r#""x":1e0}"#),
            "{optional}"
        );
        let required = shown(Some(with_key(&tool, Shown { required: true })));
        assert!(
            required.contains(r#""required":["n","idempotency_key"]"#),
            "{required}"
        );
        let bare = shown(Some(with_key(
            &text(r#"{"inputSchema":{"type":"object"}}"#),
            Shown { required: true },
        )));
        assert!(bare.contains(r#""required":["idempotency_key"]"#), "{bare}");
    }
}
