//! What travels in a header comes back as it was, and can neither end the header nor begin another
//! (threat-model §3B B2–B4).

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde_json::Value;
use toolgate::mcp::headers::{decode, encode, params_of};
use toolgate::mcp::json::{SERVER_JSON_LIMITS, Text};

/// Text and header value; and, where a zero byte parts them, the schema of a tool and arguments for
/// it.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let encoded = encode(&text);
    assert!(
        encoded.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
        "{encoded:?}"
    );
    HeaderValue::from_str(&encoded).expect("a header takes it");
    assert_eq!(
        decode(encoded.as_bytes()).as_deref(),
        Some(&*text),
        "it comes back"
    );
    if let Some(decoded) = decode(data) {
        assert_eq!(
            decode(encode(&decoded).as_bytes()).as_deref(),
            Some(&*decoded)
        );
        // White space around it is no part of it.
        let around = [b" \t", data, b"\t "].concat();
        assert_eq!(decode(&around).as_deref(), Some(&*decoded));
    }
    let (schema, arguments) = data.split_at(
        data.iter()
            .position(|byte| *byte == 0)
            .unwrap_or(data.len()),
    );
    if let (Some(schema), Some(arguments)) =
        (value(schema), value(arguments.get(1..).unwrap_or_default()))
    {
        params(&schema, &arguments);
    }
}

fn value(text: &[u8]) -> Option<Value> {
    Text::read(Bytes::copy_from_slice(text), &SERVER_JSON_LIMITS)
        .ok()
        .map(|text| text.value())
}

fn params(schema: &Value, arguments: &Value) {
    let Ok(params) = params_of(schema) else {
        return;
    };
    for param in &params {
        HeaderName::from_bytes(param.header.as_bytes()).expect("the name of a header");
        assert!(param.header.starts_with("mcp-param-"));
        let same: Vec<_> = params
            .iter()
            .filter(|other| other.header == param.header)
            .collect();
        assert_eq!(same.len(), 1, "two arguments in one header");
        let Some(mirrored) = param.value(arguments) else {
            assert!(param.agrees(None, arguments) && !param.agrees(Some(b"x"), arguments));
            continue;
        };
        HeaderValue::from_str(&mirrored).expect("a header takes it");
        assert!(
            param.agrees(Some(mirrored.as_bytes()), arguments),
            "{mirrored:?} is what was mirrored"
        );
        assert!(!param.agrees(None, arguments));
    }
}
