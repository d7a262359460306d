//! What hooks are asked, what is taken for an answer, and what ten thousand calls at once take.

use super::*;
use crate::upstream::http::connections;
use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap as Headers;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use futures_util::future::join_all;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio::sync::watch;

const HOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks::spawn("hooks", async move {
        axum::serve(listener, router).await.unwrap();
    });
    address
}

fn hook(address: SocketAddr, path: &str, timeout: Duration) -> Arc<Hook> {
    let url = Url::parse(&format!("http://{address}{path}")).unwrap();
    Arc::new(
        Hook::new(
            "it".to_owned(),
            &url,
            Secret::new(HOOK_SECRET.to_owned()),
            timeout,
        )
        .unwrap(),
    )
}

/// The example of the Standard Webhooks specification: any of its libraries can check what hooks
/// are sent.
#[test]
fn requests_are_signed_as_standard_webhooks_are() {
    let key = key_of(&Secret::new(HOOK_SECRET.to_owned())).unwrap();
    let (id, timestamp) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330");
    let signature = sign(&key, id, timestamp, br#"{"test": 2432232314}"#).unwrap();
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

const USUAL: Duration = Duration::from_secs(30);

/// Hooks that answer each in its way.
fn hooks() -> Router {
    let said = |text: &'static str| post(async move || text);
    Router::new()
        .route("/nothing", post(async || StatusCode::NO_CONTENT))
        .route("/empty", said(""))
        .route("/pass", said("{}"))
        .route("/change", said(r#"{"arguments":{"a":1}}"#))
        .route("/block", said(r#"{"block":true,"reason":"no"}"#))
        .route("/other", said(r#"{"allow":true}"#))
        .route("/list", said("[]"))
        .route("/garbage", said("<html>"))
        .route("/twice", said(r#"{"block":true,"block":false}"#))
        .route(
            "/number",
            said(r#"{"arguments":{"a":123456789012345678901}}"#),
        )
        .route("/text", said(r#"{"arguments":"a"}"#))
        .route(
            "/long",
            post(async || format!(r#"{{"reason":"{}"}}"#, "x".repeat(2 << 20))),
        )
        .route("/broken", post(async || StatusCode::INTERNAL_SERVER_ERROR))
        .route("/elsewhere", post(async || Redirect::temporary("/block")))
        .route(
            "/never",
            post(async || std::future::pending::<StatusCode>().await),
        )
}

/// What the hook at `path` of [`hooks`] is taken to say.
async fn answer(path: &str, timeout: Duration) -> Result<HookAnswer, HookError> {
    hook(serve(hooks()).await, path, timeout)
        .ask(&connections().unwrap(), "id", Bytes::new())
        .await
}

/// 001-24, 001-31: what a hook may say.
#[tokio::test]
async fn a_hook_passes_changes_or_blocks() {
    let arguments = json!({ "a": 1 }).as_object().cloned();
    for (path, expected) in [
        ("/nothing", HookAnswer::default()),
        ("/pass", HookAnswer::default()),
        (
            "/change",
            HookAnswer {
                arguments,
                ..HookAnswer::default()
            },
        ),
        (
            "/block",
            HookAnswer {
                block: true,
                reason: Some("no".to_owned()),
                ..HookAnswer::default()
            },
        ),
    ] {
        assert_eq!(answer(path, USUAL).await.unwrap(), expected, "{path}");
    }
}

/// 001-24, 001-31: everything else is no answer.
#[tokio::test]
async fn only_an_answer_is_an_answer() {
    for path in [
        "/empty", "/other", "/list", "/garbage", "/twice", "/number", "/text", "/long",
    ] {
        let failed = answer(path, USUAL).await.unwrap_err();
        assert!(
            matches!(failed, HookError::Unreadable(_)),
            "{path}: {failed}"
        );
    }
}

#[tokio::test]
async fn a_hook_that_does_not_answer_says_why() {
    assert_eq!(
        answer("/broken", USUAL).await.unwrap_err(),
        HookError::Status(500)
    );
    assert_eq!(
        answer("/elsewhere", USUAL).await.unwrap_err(),
        HookError::Status(307)
    );
    let short = Duration::from_millis(50);
    assert_eq!(
        answer("/never", short).await.unwrap_err(),
        HookError::Late(short)
    );
    let nowhere = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let failed = hook(nowhere, "/", USUAL)
        .ask(&connections().unwrap(), "id", Bytes::new())
        .await
        .unwrap_err();
    assert!(matches!(failed, HookError::Unreachable(_)), "{failed}");
}

/// How many requests are there now, and how many were at most.
#[derive(Default)]
struct RequestGauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

async fn echo(State(crowd): State<Arc<RequestGauge>>, headers: Headers, body: String) -> Response {
    crowd.most.fetch_max(
        crowd.now.fetch_add(1, Ordering::SeqCst) + 1,
        Ordering::SeqCst,
    );
    tokio::task::yield_now().await;
    crowd.now.fetch_sub(1, Ordering::SeqCst);
    let id = headers["webhook-id"].to_str().unwrap();
    json!({ "arguments": { "of": id, "said": body } })
        .to_string()
        .into_response()
}

/// 001-25, 001-26, 001-P6: ten thousand calls at once: no more requests than there is room for, and
/// each call has its own answer, under ids that other calls have, too.
#[tokio::test]
async fn ten_thousand_calls_do_not_mix() {
    let crowd = Arc::new(RequestGauge::default());
    let address = serve(
        Router::new()
            .route("/", post(echo))
            .with_state(crowd.clone()),
    )
    .await;
    let (hook, connections) = (
        hook(address, "/", Duration::from_mins(5)),
        connections().unwrap(),
    );
    let asked = (0..10_000).map(|n| {
        let (hook, connections) = (&hook, &connections);
        async move {
            let (id, body) = (format!("call-{}", n % 100), n.to_string());
            let answer = hook
                .ask(connections, &id, Bytes::from(body.clone()))
                .await
                .unwrap();
            let expected = json!({ "of": id, "said": body });
            assert_eq!(Value::Object(answer.arguments.unwrap()), expected);
        }
    });
    join_all(asked).await;
    let most = crowd.most.load(Ordering::SeqCst);
    assert!((2..=MAX_CONCURRENT_HOOK_REQUESTS).contains(&most), "{most}");
    assert_eq!(
        hook.room.available_permits(),
        MAX_CONCURRENT_HOOK_REQUESTS,
        "all of the room is given back"
    );
}

/// 001-35: who is told has a bounded queue; a place in it is given back when its call has been
/// told, well or not.
#[tokio::test]
async fn those_who_wait_are_bounded() {
    let (open, opened) = watch::channel(false);
    let gate = move || {
        let mut opened = opened.clone();
        async move {
            opened.wait_for(|open| *open).await.unwrap();
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    let address = serve(Router::new().route("/", post(gate))).await;
    let (hook, connections) = (
        hook(address, "/", Duration::from_mins(5)),
        connections().unwrap(),
    );
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let mut waiting = 0;
    while let Some(place) = hook.place() {
        let told = told.clone();
        hook.tell(
            connections.clone(),
            HookEvent {
                id: waiting.to_string(),
                body: Bytes::new(),
            },
            place,
            move |ended| drop(told.send(ended)),
        );
        waiting += 1;
    }
    assert_eq!(waiting, MAX_QUEUED_HOOK_EVENTS);
    open.send(true).unwrap();
    for _ in 0..MAX_QUEUED_HOOK_EVENTS {
        assert_eq!(heard.recv().await.unwrap(), Err(HookError::Status(500)));
    }
    drop(told);
    assert!(heard.recv().await.is_none(), "each was told once");
    assert_eq!(hook.waiting.available_permits(), MAX_QUEUED_HOOK_EVENTS);
}
