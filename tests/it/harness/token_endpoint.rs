//! A real token endpoint (RFC 6749, RFC 8693): it keeps every request, counts them, and answers as the
//! scenario says. A token that it gives says whose it is, so that a tool server can tell.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::task::JoinHandle;

/// By which toolgate proves itself to it.
pub const CLIENT: &str = "gate at work";
pub const CLIENT_SECRET: &str = "s3cret&of=toolgate";

/// How it answers.
#[derive(Debug, Clone)]
pub enum TokenReply {
    /// With a new token, which lasts for so many seconds; none: it does not say.
    Tokens(Option<u64>),
    /// With this status and text.
    Said(u16, String),
    /// With a redirect to its other address.
    Redirects,
    /// With an answer that never ends.
    Endless,
    /// Never.
    Never,
}

/// What it was asked.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// Name and secret of `Authorization`, as they were before they were encoded.
    pub basic: Option<(String, String)>,
    pub form: BTreeMap<String, String>,
}

struct EndpointState {
    reply: Mutex<TokenReply>,
    asked: Mutex<Vec<TokenRequest>>,
    followed: AtomicUsize,
}

/// The endpoint; dropping it ends it.
pub struct TokenEndpoint {
    /// Where it is.
    pub address: std::net::SocketAddr,
    state: Arc<EndpointState>,
    serving: JoinHandle<()>,
}

impl TokenEndpoint {
    /// One whose tokens last for an hour.
    pub async fn start() -> Self {
        let state = Arc::new(EndpointState {
            reply: Mutex::new(TokenReply::Tokens(Some(3600))),
            asked: Mutex::default(),
            followed: AtomicUsize::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = axum::Router::new()
            .route("/token", axum::routing::post(asked))
            .route("/elsewhere", axum::routing::any(elsewhere))
            .with_state(state.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            address,
            state,
            serving,
        }
    }

    /// `oauth` of a server that takes its tokens, with `more` members as YAML flow text.
    pub fn oauth(&self, more: &str) -> String {
        format!(
            "oauth: {{ token_url: \"http://{}/token\", client_id: \"{CLIENT}\", client_secret: \"{CLIENT_SECRET}\"{more} }}",
            self.address
        )
    }

    /// From now on it answers like this.
    pub fn answers(&self, reply: TokenReply) {
        *self.state.reply.lock().unwrap() = reply;
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<TokenRequest> {
        self.state.asked.lock().unwrap().clone()
    }

    /// How often what it redirects to was asked.
    pub fn followed(&self) -> usize {
        self.state.followed.load(Ordering::SeqCst)
    }
}

impl Drop for TokenEndpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn decoded(text: &str) -> String {
    let mut read = url::form_urlencoded::parse(text.as_bytes());
    read.next()
        .map(|(name, _)| name.into_owned())
        .unwrap_or_default()
}

fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let said = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let pair = STANDARD.decode(said.strip_prefix("Basic ")?).ok()?;
    let pair = String::from_utf8(pair).ok()?;
    let (name, secret) = pair.split_once(':')?;
    Some((decoded(name), decoded(secret)))
}

/// Whom a JWT names, as `agent:tenant:user`; of an opaque one nothing.
fn subject(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let said = |name: &str| claims[name].as_str().unwrap_or("-").to_owned();
    Some([said("azp"), said("org"), said("sub")].join(":"))
}

async fn asked(
    State(state): State<Arc<EndpointState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let form: BTreeMap<String, String> = url::form_urlencoded::parse(&body).into_owned().collect();
    let number = {
        let mut asked = state.asked.lock().unwrap();
        asked.push(TokenRequest {
            basic: basic(&headers),
            form: form.clone(),
        });
        asked.len()
    };
    let whose = form
        .get("subject_token")
        .map_or(Some("own".to_owned()), |token| subject(token));
    let reply = state.reply.lock().unwrap().clone();
    match reply {
        TokenReply::Tokens(life) => {
            let token = format!("issued-{number}:{}", whose.unwrap_or_default());
            let mut said = json!({ "access_token": token, "token_type": "bearer" });
            if let Some(life) = life {
                said["expires_in"] = json!(life);
            }
            said.to_string().into_response()
        }
        TokenReply::Said(status, text) => {
            (StatusCode::from_u16(status).unwrap(), text).into_response()
        }
        TokenReply::Redirects => Redirect::temporary("/elsewhere").into_response(),
        TokenReply::Endless => {
            let block = Bytes::from(vec![b' '; 16 << 10]);
            let blocks =
                futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(block.clone()));
            Body::from_stream(blocks).into_response()
        }
        TokenReply::Never => std::future::pending().await,
    }
}

async fn elsewhere(State(state): State<Arc<EndpointState>>) -> Response {
    state.followed.fetch_add(1, Ordering::SeqCst);
    json!({ "access_token": "of-another", "token_type": "Bearer" })
        .to_string()
        .into_response()
}
