//! The `Mcp-*` request headers of 2026-07-28: they mirror the body, are checked against it, and are
//! made anew from the final call (protocol §1.2). The body decides; a header can only refuse.

use super::json::Text;
use super::message::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::borrow::Cow;

/// `MCP-Protocol-Version`.
pub const PROTOCOL_VERSION_HEADER: &str = "mcp-protocol-version";
/// `Mcp-Method`.
pub const METHOD_HEADER: &str = "mcp-method";
/// `Mcp-Name`.
pub const NAME_HEADER: &str = "mcp-name";
/// `Idempotency-Key`.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
/// `Toolgate-Hops`: how many toolgates a call has come through.
pub const HOPS_HEADER: &str = "toolgate-hops";
/// `Mcp-Param-…`.
pub const PARAM_HEADER_PREFIX: &str = "mcp-param-";
/// `Mcp-Session-Id`.
pub const SESSION_HEADER: &str = "mcp-session-id";
/// Headers that toolgate, HTTP or its proxies write themselves.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "keep-alive",
    "origin",
    "te",
    HOPS_HEADER,
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Whether a header of this name, in lower case, has a meaning of its own: no operator gives it another.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED_HEADERS.contains(&name) || name.starts_with("mcp-")
}

const BASE64_PREFIX: &str = "=?base64?";
const BASE64_SUFFIX: &str = "?=";
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Encodes a value for a header: as it is where that is safe, else in the base64 sentinel.
pub fn encode(value: &str) -> Cow<'_, str> {
    let visible = value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let trimmed = value.trim_matches([' ', '\t']) == value;
    let coded = value.starts_with(BASE64_PREFIX) && value.ends_with(BASE64_SUFFIX);
    if visible && trimmed && !coded {
        Cow::Borrowed(value)
    } else {
        let encoded = STANDARD.encode(value);
        Cow::Owned(format!("{BASE64_PREFIX}{encoded}{BASE64_SUFFIX}"))
    }
}

/// Decodes a header value; none if it is a sentinel that cannot be decoded, or not text.
pub fn decode(value: &[u8]) -> Option<Cow<'_, str>> {
    let value = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    match value
        .strip_prefix(BASE64_PREFIX)
        .and_then(|rest| rest.strip_suffix(BASE64_SUFFIX))
    {
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?)
            .ok()
            .map(Cow::Owned),
        None => value
            .bytes()
            .all(|byte| (0x20..0x7f).contains(&byte) || byte == b'\t')
            .then_some(Cow::Borrowed(value)),
    }
}

/// What `Mcp-Name` must mirror, for the methods that need it: a string.
pub fn name_of(message: &Message) -> Option<Text> {
    let key = match message.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return None,
    };
    let name = message.body.as_ref()?.get(key)?;
    name.as_str().is_some().then_some(name)
}

/// An argument that travels as a header too: `x-mcp-header` in the tool's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParam {
    /// The whole header name, lower case.
    pub header: String,
    /// Property names from the root of the arguments.
    pub path: Vec<String>,
}

impl HeaderParam {
    /// The header's value for these arguments; none when the argument is absent or null.
    pub fn value(&self, arguments: &Value) -> Option<String> {
        let found = self
            .path
            .iter()
            .try_fold(arguments, |value, key| value.get(key))?;
        mirrored(found)
    }

    /// The same of arguments as they were written, no two members of which have one name.
    pub fn value_in(&self, arguments: &Text) -> Option<String> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let found = arguments.at(&path)?;
        let is_nested = found.is_object() || found.is_array();
        mirrored(&Some(found).filter(|_| !is_nested)?.value())
    }

    /// Whether a header's value agrees with the arguments.
    pub fn agrees(&self, header: Option<&[u8]>, arguments: &Value) -> bool {
        Self::is_told(header, self.value(arguments))
    }

    /// Whether a header says what is expected of it.
    pub fn is_told(header: Option<&[u8]>, expected: Option<String>) -> bool {
        match (header, expected) {
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
            (Some(header), Some(expected)) => {
                let (Some(given), Some(expected)) = (decode(header), decode(expected.as_bytes()))
                else {
                    return false;
                };
                given == expected || same_whole(&given, &expected)
            }
        }
    }
}

fn mirrored(found: &Value) -> Option<String> {
    match found {
        Value::String(text) => Some(encode(text).into_owned()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(whole(number).unwrap_or_else(|| number.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn whole(number: &serde_json::Number) -> Option<String> {
    let float = number
        .as_f64()
        .filter(|float| float.fract() == 0.0 && float.abs() <= MAX_SAFE_INTEGER)?;
    Some(format!("{float:.0}"))
}

#[expect(
    clippy::float_cmp,
    reason = "both are whole, and the same number or not"
)]
fn same_whole(given: &str, expected: &str) -> bool {
    let numeric = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'e' | b'E' | b'+'))
    };
    if !numeric(given) || !numeric(expected) {
        return false;
    }
    matches!((given.parse::<f64>(), expected.parse::<f64>()), (Ok(given), Ok(expected)) if given == expected && given.fract() == 0.0)
}

/// The header parameters of an input schema, or why the tool must not be offered.
pub fn params_of(schema: &Value) -> Result<Vec<HeaderParam>, &'static str> {
    let mut found = Vec::new();
    walk(schema, &mut Vec::new(), true, &mut found)?;
    let mut names: Vec<&str> = found
        .iter()
        .map(|param: &HeaderParam| param.header.as_str())
        .collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("two arguments share one `x-mcp-header`");
    }
    Ok(found)
}

fn walk(
    schema: &Value,
    path: &mut Vec<String>,
    reachable: bool,
    found: &mut Vec<HeaderParam>,
) -> Result<(), &'static str> {
    let Value::Object(members) = schema else {
        if let Value::Array(elements) = schema {
            elements
                .iter()
                .try_for_each(|element| walk(element, path, false, found))?;
        }
        return Ok(());
    };
    if let Some(name) = members.get("x-mcp-header") {
        found.push(param(name, members.get("type"), path, reachable)?);
    }
    for (key, value) in members {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (property, schema) in properties {
                    path.push(property.clone());
                    walk(schema, path, reachable, found)?;
                    path.pop();
                }
            }
            ("enum" | "const" | "default" | "examples" | "x-mcp-header", _) => {}
            (_, value) => walk(value, path, false, found)?,
        }
    }
    Ok(())
}

fn param(
    name: &Value,
    kind: Option<&Value>,
    path: &[String],
    reachable: bool,
) -> Result<HeaderParam, &'static str> {
    let Some(name) = name.as_str().filter(|name| is_token(name)) else {
        return Err("`x-mcp-header` is not a header token");
    };
    if path.is_empty() || !reachable {
        return Err("`x-mcp-header` stands where no property of the arguments is");
    }
    if !matches!(
        kind.and_then(Value::as_str),
        Some("string" | "integer" | "boolean")
    ) {
        return Err("`x-mcp-header` needs an argument of type string, integer or boolean");
    }
    Ok(HeaderParam {
        header: format!("{PARAM_HEADER_PREFIX}{}", name.to_ascii_lowercase()),
        path: path.to_vec(),
    })
}

fn is_token(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= 64 && name.bytes().all(allowed)
}

/// Takes the header parameter's JSON text into account only through the parsed arguments.
pub fn arguments_of(params: Option<&Text>) -> Value {
    params
        .and_then(|params| params.get("arguments"))
        .map_or_else(
            || Value::Object(serde_json::Map::new()),
            |text| text.value(),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_travel_through_the_sentinel_and_back() {
        for value in [
            "plain",
            "",
            " lead",
            "trail\t",
            "Zürich",
            "a\nb",
            "=?base64?eA==?=",
            "a b",
        ] {
            let encoded = encode(value);
            assert!(
                encoded.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
                "{encoded}"
            );
            assert_eq!(decode(encoded.as_bytes()).unwrap(), value);
        }
        assert_eq!(decode(b"  us-west1 "), Some("us-west1".into()));
        assert_eq!(decode(b"=?base64?%%%?="), None);
        assert_eq!(decode("é".as_bytes()), None);
    }

    /// A header is judged by the arguments as they are written, as by their tree.
    #[test]
    fn arguments_are_mirrored_as_they_are_written() {
        let param = |path: &[&str]| HeaderParam {
            header: "mcp-param-x".to_owned(),
            path: path.iter().map(|&step| step.to_owned()).collect(),
        };
        for (json, expected) in [
            (
                r#"{ "x": "eu", "deep": { "\u006e" : 42.0, "s": "Z\u00fcrich" } }"#,
                3,
            ),
            (r#"{"x":null,"deep":{"n":9007199254740993,"s":true}}"#, 2),
            (r#"{"x":{"y":1},"deep":[{"n":1}]}"#, 1),
            (r#"{"x":[1],"deep":"n"}"#, 1),
            ("{}", 0),
            ("null", 0),
            ("[]", 0),
        ] {
            let text = Text::read(json.into(), &crate::mcp::json::SERVER_JSON_LIMITS).unwrap();
            let (value, mut told) = (text.value(), 0);
            for path in [
                &["x"][..],
                &["deep", "n"],
                &["deep", "s"],
                &["deep"],
                &["x", "y"],
            ] {
                let written = param(path).value_in(&text);
                assert_eq!(written, param(path).value(&value), "{json} {path:?}");
                told += usize::from(written.is_some());
            }
            assert_eq!(told, expected, "{json}");
        }
    }

    #[test]
    fn header_params_are_found_and_bad_ones_exclude_the_tool() {
        let schema = json!({"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}});
        let params = params_of(&schema).unwrap();
        assert_eq!(params.len(), 2);
        let arguments = json!({"region":"eu","deep":{"n":42.0}});
        assert_eq!(params[1].value(&arguments).unwrap(), "42");
        assert!(params[1].agrees(Some(b"42.0"), &arguments));
        assert!(!params[1].agrees(Some(b"43"), &arguments));
        assert!(!params[0].agrees(None, &arguments));
        assert!(!params[0].agrees(Some(b"EU"), &arguments));
        assert!(params[0].agrees(None, &json!({"region": null})));
        for bad in [
            json!({"properties":{"a":{"type":"number","x-mcp-header":"A"}}}),
            json!({"properties":{"a":{"type":"string","x-mcp-header":""}}}),
            json!({"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}),
            json!({"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}),
            json!({"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}),
            json!({"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}),
        ] {
            assert!(params_of(&bad).is_err(), "{bad}");
        }
    }
}
