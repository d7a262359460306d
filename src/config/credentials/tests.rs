//! What `check` says of credentials that cannot be meant.

use super::*;
use serde_json::{Value, json};

const URL: &str = "https://tools.example.com/mcp";

fn found(change: impl FnOnce(&mut Value)) -> (ServerCredentials, Vec<String>) {
    let mut written = json!({
        "url": URL,
        "oauth": {
            "token_url": "https://login.example.com/token",
            "client_id": "toolgate",
            "client_secret": "not to be seen",
        },
    });
    change(&mut written);
    let settings: ToolServerSettings = serde_json::from_value(written).unwrap();
    let mut problems = Problems::default();
    judge_headers(&settings, &mut problems);
    let compiled = compile(&settings, Url::parse(URL).ok().as_ref(), &mut problems);
    let found = problems.into_found().into_iter();
    let words = found.map(|one| format!("{}: {}", one.path.join("."), one.message));
    (compiled, words.collect())
}

#[test]
fn a_token_is_for_the_server_unless_it_is_said_otherwise() {
    let resource = |change: fn(&mut Value)| found(change).0.oauth.unwrap().resource;
    assert_eq!(resource(|_| ()).as_deref(), Some(URL));
    assert_eq!(resource(|all| all["oauth"]["resource"] = json!("")), None);
    let other = resource(|all| all["oauth"]["resource"] = json!("urn:billing"));
    assert_eq!(other.as_deref(), Some("urn:billing"));
    let (compiled, words) = found(|_| ());
    assert_eq!(words, [""; 0]);
    assert!(!format!("{compiled:?}").contains("not to be seen"));
}

#[test]
fn each_mistake_has_its_place() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 9] = [
        (
            |all| all["oauth"]["token_url"] = json!("http://login.example.com/token"),
            "oauth.token_url: is no address to send a secret to",
        ),
        (
            |all| all["oauth"]["token_url"] = json!("https://user:pw@login.example.com/token"),
            "oauth.token_url: is no address to send a secret to",
        ),
        (
            |all| all["oauth"]["client_id"] = json!(" "),
            "oauth.client_id: is empty, or has blanks around it",
        ),
        (
            |all| all["oauth"]["client_secret"] = json!(""),
            "oauth.client_secret: is empty, or has blanks around it",
        ),
        (
            |all| all["oauth"]["audience"] = json!(""),
            "oauth.audience: is empty, or has blanks around it",
        ),
        (
            |all| all["oauth"]["scopes"] = json!(["read", "a b"]),
            "oauth.scopes.1: is no scope",
        ),
        (
            |all| all["oauth"]["resource"] = json!("tools"),
            "oauth.resource: names no resource",
        ),
        (
            |all| all["oauth"]["resource"] = json!("https://tools.example.com/#x"),
            "oauth.resource: names no resource",
        ),
        (
            |all| all["headers"] = json!({ "authorization": "Bearer x" }),
            "headers.authorization: stands beside `oauth`",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(found(change).1, [expected]);
    }
}
