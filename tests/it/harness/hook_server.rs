//! A real program that is told of calls: it checks the signature of everything it is told, keeps
//! it, and answers as the scenario says.

use super::{DEADLINE, until_or};
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// The key that both sides know.
const KEY: [u8; 32] = [7; 32];

/// What came once.
#[derive(Debug, Clone)]
pub struct Told {
    /// The path, which is the hook's name.
    pub hook: String,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Told {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

/// How it is answered.
#[derive(Debug, Clone)]
pub enum HookReply {
    /// With this object.
    Json(Value),
    /// With a bare status.
    Status(u16),
    /// With this text.
    Text(String),
    /// With a redirect to an address.
    Redirects(String),
    /// With half of an answer.
    Cut,
    /// Never.
    Never,
    /// With nothing to say, once the scenario releases it.
    Held,
}

type Instructions = Box<dyn Fn(&Told) -> HookReply + Send + Sync>;

struct HookState {
    script: Mutex<Instructions>,
    told: Mutex<Vec<Told>>,
    held: Semaphore,
}

/// A running program; dropping it ends it.
pub struct HookServer {
    pub address: SocketAddr,
    shared: Arc<HookState>,
    serving: JoinHandle<()>,
}

impl HookServer {
    /// Has nothing to say until [`HookServer::says`].
    pub async fn start() -> Self {
        let script: Instructions = Box::new(|_| HookReply::Status(204));
        let shared = Arc::new(HookState {
            script: Mutex::new(script),
            told: Mutex::default(),
            held: Semaphore::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = axum::Router::new()
            .fallback(hear)
            .with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            address,
            shared,
            serving,
        }
    }

    /// From now on it is answered like this.
    pub fn says(&self, script: impl Fn(&Told) -> HookReply + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Box::new(script);
    }

    /// The address under that name, and the secret, as members of YAML flow text.
    pub fn members(&self, name: &str) -> String {
        format!(
            "url: \"http://{}/{name}\", secret: whsec_{}",
            self.address,
            STANDARD.encode(KEY)
        )
    }

    /// Lines of a configuration: hooks here, each as name, side, and tools; with more members as
    /// YAML flow text.
    pub fn hooks(&self, hooks: &[(&str, &str, &str)], more: &str) -> String {
        let secret = format!("whsec_{}", STANDARD.encode(KEY));
        let mut yaml = "hooks:\n".to_owned();
        for (name, on, tools) in hooks {
            let (url, tools) = (
                format!("http://{}/{name}", self.address),
                format!("[\"{tools}\"]"),
            );
            writeln!(yaml, "  - {{ name: {name}, url: \"{url}\", secret: {secret}, on: {on}, tools: {tools} {more} }}")
                .unwrap();
        }
        yaml
    }

    /// What came so far.
    pub fn told(&self) -> Vec<Told> {
        self.shared.told.lock().unwrap().clone()
    }

    /// What came, once there is so much of it.
    pub async fn heard(&self, count: usize) -> Vec<Told> {
        let words = || format!("{count} are told; these were: {:#?}", self.told());
        until_or(words, || async {
            (self.told().len() >= count).then(|| self.told())
        })
        .await
    }

    /// Lets so many held answers go.
    pub fn release(&self, count: usize) {
        self.shared.held.add_permits(count);
    }
}

impl Drop for HookServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn hear(State(shared): State<Arc<HookState>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = tokio::time::timeout(DEADLINE, axum::body::to_bytes(body, 64 << 20))
        .await
        .unwrap()
        .unwrap();
    let hook = head.uri.path().trim_matches('/').to_owned();
    let told = Told {
        hook,
        headers: head.headers,
        body: serde_json::from_slice(&body).unwrap(),
    };
    if !is_signed(&told, &body) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let says = (shared.script.lock().unwrap())(&told);
    shared.told.lock().unwrap().push(told);
    match says {
        HookReply::Json(object) => object.to_string().into_response(),
        HookReply::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        HookReply::Text(text) => text.into_response(),
        HookReply::Redirects(to) => Redirect::temporary(&to).into_response(),
        HookReply::Cut => {
            let parts = [
                Ok(Bytes::from_static(b"{\"block\":")),
                Err(std::io::Error::other("cut")),
            ];
            Body::from_stream(futures_util::stream::iter(parts)).into_response()
        }
        HookReply::Never => std::future::pending().await,
        HookReply::Held => {
            shared.held.acquire().await.unwrap().forget();
            StatusCode::NO_CONTENT.into_response()
        }
    }
}

/// As the Standard Webhooks specification says.
fn is_signed(told: &Told, body: &[u8]) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(&KEY).unwrap();
    mac.update(
        format!(
            "{}.{}.",
            told.header("webhook-id"),
            told.header("webhook-timestamp")
        )
        .as_bytes(),
    );
    mac.update(body);
    told.header("webhook-signature")
        == format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}
