//! The operators' pages as a program finds them, and the events of held calls. A real browser is in
//! tests/tools/browser/desk.mjs.

use super::{ask, held, says, setup};
use crate::harness::answer::{Answer, open};
use crate::harness::gate::Gate;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

pub(super) const ANN_TOKEN: &str = "token-of-ann-the-operator";

/// A form, with what a browser sends beside it: where it comes from, unless `headers` say that.
pub async fn sends(
    gate: &Gate,
    path: &str,
    fields: &[(&str, &str)],
    headers: &[(&str, &str)],
) -> Answer {
    let body: String = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let own = format!("http://{}", gate.operators);
    let says_where = |(name, _): &(&str, &str)| ["origin", "sec-fetch-site"].contains(name);
    let origin = (!headers.iter().any(says_where)).then_some(("origin", own.as_str()));
    let headers: Vec<_> = [kind]
        .into_iter()
        .chain(origin)
        .chain(headers.iter().copied())
        .collect();
    gate.asks_operators(("POST", path), &headers, &body).await
}

/// Signs an operator in; the cookie.
pub async fn signs_in(gate: &Gate, token: &str) -> String {
    let answer = sends(gate, "/login", &[("token", token)], &[]).await;
    assert_eq!(answer.status, 303);
    let cookie = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Max-Age=28800"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    cookie.split(';').next().unwrap().to_owned()
}

/// What a form of the page has in the field `name`.
pub fn field(page: &str, name: &str) -> String {
    let start = page
        .split(&format!("name=\"{name}\" value=\""))
        .nth(1)
        .unwrap();
    start.split('"').next().unwrap().to_owned()
}

/// Whether a page forbids what is not the door's own, and lets nobody keep it.
fn judge_headers(shown: &Answer) {
    let policy = shown.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(shown.header(name), Some(value));
    }
}

/// Says on the card what does not count, gives the call more time, and allows it; the secret of the
/// card's forms.
async fn allows(gate: &Gate, page: &str, card: &Answer, cookie: (&str, &str)) -> String {
    let (secret, digest) = (
        field(&card.text(), "form_secret"),
        field(&card.text(), "shown"),
    );
    let word = |shown| {
        [
            ("decision", "allow"),
            ("why", "due"),
            ("form_secret", secret.as_str()),
            ("shown", shown),
        ]
    };
    let (other, allowed) = (word("sha256:0"), word(&digest));
    let more_time = |shown| {
        [
            ("decision", "extend"),
            ("form_secret", secret.as_str()),
            ("shown", shown),
        ]
    };
    let (blind, extended) = (more_time("sha256:0"), more_time(digest.as_str()));
    let foreign = ("origin", "http://127.0.0.1:1");
    let cross = ("sec-fetch-site", "cross-site");
    for (fields, more, status) in [
        (&other[..], None, 409),
        (&allowed[..2], None, 403),
        (&allowed[..], Some(foreign), 403),
        (&allowed[..], Some(cross), 403),
        // A call is given more time once, by who was shown it.
        (&blind[..], None, 409),
        (&extended[..], None, 200),
        (&extended[..], None, 409),
        (&allowed[..], None, 200),
    ] {
        let headers: Vec<_> = [cookie].into_iter().chain(more).collect();
        assert_eq!(
            sends(gate, page, fields, &headers).await.status,
            status,
            "{fields:?}"
        );
    }
    secret
}

/// 001-42, threat-model §3B, §3E: each answer forbids what is not the door's own; a cookie opens pages and
/// nothing else, a token opens the API and no page; a decision is bound to the card that was shown.
#[tokio::test]
async fn pages_are_for_who_has_signed_in() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({ "amount": 1 }))]).await;
    let gate = setup.begin().await;
    let page = format!("/approvals/{}", ids[0]);
    let get = async |path: &str, headers: &[(&str, &str)]| {
        gate.asks_operators(("GET", path), headers, "").await
    };
    let stranger = get(&page, &[("accept", "text/html")]).await;
    assert_eq!(stranger.status, 303);
    assert!(
        stranger
            .header("location")
            .unwrap()
            .starts_with("/login?next=")
    );
    let bearer = format!("Bearer {ANN_TOKEN}");
    assert_eq!(get(&page, &[("authorization", &bearer)]).await.status, 401);
    let cookie = signs_in(&gate, ANN_TOKEN).await;
    let cookie = [("cookie", cookie.as_str())];
    assert_eq!(get("/api/approvals", &cookie).await.status, 401);
    let card = get(&page, &cookie).await;
    assert_eq!(card.status, 200);
    judge_headers(&card);
    let secret = allows(&gate, &page, &card, cookie[0]).await;
    let (_, text) = says(&gate, "eve", &["show", &ids[0], "--json"]).await;
    let hold: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&hold["state"], &hold["decisions"][0]["surface"]),
        (&json!("allowed"), &json!("page"))
    );
    assert_eq!(hold["extended"], true);
    let out = sends(&gate, "/logout", &[("form_secret", &secret)], &cookie).await;
    assert_eq!(out.status, 303);
    assert_eq!(get(&page, &cookie).await.status, 401, "signed out");
}

/// 001-51, 001-55: who looks on is told of what is decided, and not of what is for others.
#[tokio::test]
async fn what_happens_is_told_to_who_looks_on() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({})), ask(2, json!({}))]).await;
    let gate = setup.begin().await;
    let port = gate.operators.port();
    let request = format!(
        "GET /api/approvals/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {ANN_TOKEN}\r\n\r\n"
    );
    let mut events = open(gate.operators, request.into_bytes()).await.unwrap();
    let first = async {
        let mut told = String::new();
        while !told.contains("event: resolved") {
            told += &events.line().await.unwrap();
            told.push('\n');
        }
        told
    };
    let allows = async {
        let one = says(&gate, "bob", &["allow", &ids[1], "--why", "first of two"]).await;
        let two = says(&gate, "bob", &["deny", &ids[0], "--why", "no"]).await;
        assert_eq!((one.0, two.0), (0, 0), "{one:?} {two:?}");
    };
    let (told, ()) = tokio::join!(first, allows);
    let changed = told.find("event: changed").unwrap();
    assert!(changed < told.find("event: resolved").unwrap(), "{told}");
    assert!(told.contains(&ids[1]), "{told}");
    assert!(!told.contains("first of two"), "{told}");
}

/// 001-52: at a terminal that nobody types at, what waits is told as lines; `--once` ends with the
/// decision.
#[tokio::test]
async fn a_program_watches() {
    let setup = setup();
    setup.write();
    let ids = held(&setup, vec![ask(1, json!({ "amount": 7 }))]).await;
    let gate = setup.begin().await;
    let door = gate.operators.to_string();
    let words = ["approvals", "watch", "--once", "--tool", "bank__*"];
    let place = ["--config", "toolgate.yaml", "--admin", &door];
    let mut watch = gate
        .setup
        .operator("bob")
        .command(&[&words[..], &place].concat());
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut told = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        told += &(line.clone() + "\n");
        // All of the call was shown: a person decides.
        if line == "}" {
            let denied = says(&gate, "ann", &["deny", &ids[0], "--why", "too dear"]).await;
            assert_eq!(denied.0, 0, "{}", denied.1);
        }
    }
    let status = watch.wait().await.unwrap();
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(
        told.contains(&ids[0]) && told.contains("\"amount\": 7"),
        "{told}"
    );
    assert!(told.contains("denied by ann: too dear"), "{told}");
    let (code, told) = says(&gate, "bob", &["watch", "--once", "--tool", "["]).await;
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("--tool"), "{told}");
}
