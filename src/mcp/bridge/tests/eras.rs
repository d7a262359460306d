//! Any message of one era comes out of the bridge as one of the other: what the published schemas of
//! MCP ask of it, as rules, and what both eras have as it was written.

use super::*;
use proptest::prelude::*;

const LEGACY_REVISIONS: [Revision; 3] = [
    Revision::V2025_03_26,
    Revision::V2025_06_18,
    Revision::V2025_11_25,
];
const METHODS: [&str; 8] = [
    "tools/call",
    "prompts/get",
    "resources/read",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "completion/complete",
    "x-vendor/anything",
];
/// Members that mean something in one era, and names that mean nothing in any.
const NAMES: [&str; 16] = [
    "task",
    "inputResponses",
    "requestState",
    "inputRequests",
    "resultType",
    "ttlMs",
    "cacheScope",
    "structuredContent",
    "content",
    "isError",
    "nextCursor",
    "arguments",
    "name",
    "uri",
    "xb",
    "xa",
];
const META_NAMES: [&str; 8] = [
    VERSION_META_KEY,
    CAPABILITIES_META_KEY,
    CLIENT_META_KEY,
    LOG_LEVEL_META_KEY,
    SERVER_META_KEY,
    SUBSCRIPTION_META_KEY,
    "acme/x",
    "progressToken",
];
/// Values, with the spellings that a reader of numbers loses.
const VALUES: [&str; 20] = [
    "null",
    "true",
    "0",
    "-0",
    "1.0",
    "1e2",
    "-5",
    "18446744073709551615",
    "\"\"",
    "\"complete\"",
    "\"input_required\"",
    "\"public\"",
    "\"private\"",
    "\"\\u00e9\"",
    "[]",
    "[1.50]",
    "{}",
    "{\"b\":1.0,\"a\":[]}",
    "[{\"type\":\"text\",\"text\":\"t\"}]",
    "[{\"type\":\"resource_link\",\"uri\":\"x:1\",\"name\":\"n\"},{\"type\":\"image\",\"data\":\"\",\"mimeType\":\"a/b\"}]",
];

/// Members with names from a list, each once, in any order.
fn members(
    names: &'static [&'static str],
) -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let value = prop::sample::select(&VALUES[..]);
    let chosen = prop::sample::subsequence(names, 0..=names.len()).prop_shuffle();
    chosen.prop_flat_map(move |names| {
        let values = prop::collection::vec(value.clone(), names.len());
        values.prop_map(move |values| names.iter().copied().zip(values).collect())
    })
}

fn object(members: &[(&str, &str)], meta: Option<&[(&str, &str)]>) -> Text {
    let mut written: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    if let Some(meta) = meta {
        let meta: Vec<_> = meta
            .iter()
            .map(|(name, value)| format!("\"{name}\":{value}"))
            .collect();
        written.push(format!("\"_meta\":{{{}}}", meta.join(",")));
    }
    text(&format!("{{{}}}", written.join(",")))
}

/// What is neither one's alone comes out as it was written, in its order.
fn keeps(before: &Text, after: &Text, but: &[&str]) {
    let written = |text: &Text| -> Vec<String> {
        let members = text.members().unwrap();
        members
            .filter(|(name, _)| !but.contains(&&**name))
            .map(|(name, value)| format!("{name}: {}", shown(&value)))
            .collect()
    };
    let (before, after) = (written(before), written(after));
    assert_eq!(before, after);
}

fn has(text: &Text, name: &str) -> bool {
    text.get(name).is_some()
}

fn said(text: &Text, name: &str) -> serde_json::Value {
    text.get(name)
        .map(|value| value.value())
        .unwrap_or_default()
}

/// Of a request of 2026-07-28: `_meta` with the revision and the capabilities, which is an object;
/// answers by name, and a state of text.
fn is_modern_request(params: &Text) {
    let meta = params.get("_meta").expect("every request has it");
    assert_eq!(said(&meta, VERSION_META_KEY), "2026-07-28");
    assert!(said(&meta, CAPABILITIES_META_KEY).is_object());
    assert!(!has(&meta, CLIENT_META_KEY) || said(&meta, CLIENT_META_KEY).is_object());
    assert!(!has(params, "task"), "tasks of 2025-11-25");
    assert!(!has(params, "inputResponses") || said(params, "inputResponses").is_object());
    assert!(!has(params, "requestState") || said(params, "requestState").is_string());
}

fn is_legacy_request(params: &Text) {
    let meta = params.get("_meta").unwrap_or_else(|| text("{}"));
    for key in &META_NAMES[..4] {
        assert!(!has(&meta, key), "{key}");
    }
    assert!(!has(params, "inputResponses") && !has(params, "requestState"));
}

fn is_modern_result(method: &str, result: &Text) {
    assert_eq!(said(result, "resultType"), "complete");
    assert!(!has(result, "inputRequests") && !has(result, "requestState"));
    let ages = matches!(
        method,
        "prompts/list" | "resources/list" | "resources/templates/list" | "resources/read"
    );
    if ages {
        let age = said(result, "ttlMs");
        assert!(age.as_u64().is_some(), "ttlMs: {age}");
    }
    if ages {
        let scope = said(result, "cacheScope");
        assert!(
            scope == "public" || scope == "private",
            "cacheScope: {scope}"
        );
    }
}

fn is_legacy_result(method: &str, result: &Text, revision: Revision) {
    for name in ["resultType", "ttlMs", "cacheScope"] {
        assert!(!has(result, name), "{name}");
    }
    let meta = result.get("_meta").unwrap_or_else(|| text("{}"));
    assert!(!has(&meta, SERVER_META_KEY) && !has(&meta, SUBSCRIPTION_META_KEY));
    if method == "tools/call" {
        let structured = said(result, "structuredContent");
        assert!(!has(result, "structuredContent") || structured.is_object());
        let is_old = revision < Revision::V2025_06_18;
        assert!(!is_old || !has(result, "structuredContent"));
        let has_link = said(result, "content")
            .to_string()
            .contains("\"resource_link\"");
        assert!(!is_old || !has_link);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Protocol §4.4: a legacy agent's request.
    #[test]
    fn any_legacy_request_becomes_a_modern_one(
        params in members(&NAMES), meta in prop::option::of(members(&META_NAMES)),
        capabilities in members(&["roots", "tasks", "sampling", "elicitation", "experimental"]),
        program in prop::sample::select(&VALUES[..]),
    ) {
        let said = object(&capabilities, None);
        let agent = LegacyIntroduction::of(&text(&format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{program}}}"#, shown(&said),
        )));
        let before = object(&params, meta.as_deref());
        let message = Message::request(1, "tools/call", Some(before.clone()));
        let after = to_modern_server(&message, &agent, None).body.unwrap();
        is_modern_request(&after);
        keeps(&before, &after, &["_meta", "task", "inputResponses", "requestState"]);
    }

    /// Protocol §4.3: a modern agent's request.
    #[test]
    fn any_modern_request_becomes_a_legacy_one(
        params in members(&NAMES), meta in members(&META_NAMES),
    ) {
        let before = object(&params, Some(&meta));
        let message = Message::request(1, "tools/call", Some(before.clone()));
        let after = to_legacy_server(&message).body.unwrap();
        is_legacy_request(&after);
        keeps(&before, &after, &["_meta", "task", "inputResponses", "requestState"]);
    }

    /// Protocol §4.3: a legacy server's result; what only the other era has means nothing in it.
    #[test]
    fn any_legacy_result_becomes_a_modern_one(
        method in prop::sample::select(&METHODS[..]), result in members(&NAMES), meta in prop::option::of(members(&META_NAMES)),
    ) {
        let before = object(&result, meta.as_deref());
        let answer = Message::response(None, before.clone(), false);
        let after = to_modern_agent(method, answer).body.unwrap();
        is_modern_result(method, &after);
        let meta = after.get("_meta").unwrap_or_else(|| text("{}"));
        prop_assert!(!has(&meta, SERVER_META_KEY) && !has(&meta, SUBSCRIPTION_META_KEY));
        keeps(&before, &after, &["_meta", "resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"]);
    }

    /// Protocol §4.4: a modern server's result, for each legacy revision.
    #[test]
    fn any_modern_result_becomes_a_legacy_one(
        method in prop::sample::select(&METHODS[..]), result in members(&NAMES), meta in prop::option::of(members(&META_NAMES)),
        revision in prop::sample::select(&LEGACY_REVISIONS[..]),
    ) {
        let before = object(&result, meta.as_deref());
        let answer = Message::response(None, before.clone(), false);
        let after = to_legacy_agent(method, answer, revision).body.unwrap();
        is_legacy_result(method, &after, revision);
        let changed = ["_meta", "resultType", "ttlMs", "cacheScope", "structuredContent", "content"];
        keeps(&before, &after, &changed);
    }

    /// Protocol §4.5: an error has a code that the era knows, and words.
    #[test]
    fn any_error_is_one_of_the_era(
        method in prop::sample::select(&METHODS[..]), code in prop_oneof![-32_800_i64..-31_900, any::<i32>().prop_map(i64::from)],
        data in prop::sample::select(&VALUES[..]), revision in prop::sample::select(&LEGACY_REVISIONS[..]),
    ) {
        let error = text(&format!(r#"{{"code":{code},"message":"m","data":{data}}}"#));
        let answer = || Message::response(None, error.clone(), true);
        let legacy = to_legacy_agent(method, answer(), revision);
        let body = legacy.body.unwrap();
        if legacy.is_error {
            let code = said(&body, "code").as_i64().unwrap();
            assert!(![-32_020, -32_021, -32_022].contains(&code), "{code}");
            assert!(said(&body, "message").is_string());
        } else {
            assert!(said(&body, "content").is_array() && method == "tools/call");
        }
        let modern = to_modern_agent(method, answer());
        assert!(modern.is_error);
        let code = said(modern.body.as_ref().unwrap(), "code");
        assert!(method != "resources/read" || code != -32_002);
    }
}
