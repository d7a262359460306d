//! A real issuer of tokens: it signs with keys made for the scenario, serves its key set as the
//! scenario says, and counts who fetches it.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::task::JoinHandle;

/// What its tokens are for.
pub const AUDIENCE: &str = "https://tools.example.com/mcp";

/// How it answers who fetches its keys.
#[derive(Debug, Clone)]
pub enum KeysReply {
    /// With this key set.
    Keys(Value),
    /// With this status and text.
    Said(u16, String),
    /// With a redirect to its other address, which has the keys.
    Redirects,
    /// With an answer that never ends.
    Endless,
    /// With half of an answer.
    Cut,
    /// Never.
    Never,
}

/// A key that signs tokens.
pub struct TokenKey {
    id: String,
    pair: EcdsaKeyPair,
}

struct IssuerState {
    reply: Mutex<KeysReply>,
    fetches: AtomicUsize,
    elsewhere: AtomicUsize,
    /// What is at its other address.
    keys_elsewhere: Value,
}

/// A running issuer; dropping it ends it.
pub struct TokenIssuer {
    /// Where it is.
    pub address: SocketAddr,
    state: Arc<IssuerState>,
    serving: JoinHandle<()>,
}

impl TokenKey {
    pub fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            pair: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
        }
    }

    /// Its public half.
    pub fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(encoded);
        json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "alg": "ES256", "x": x, "y": y })
    }

    /// A token of these claims.
    pub fn token(&self, claims: &Value) -> String {
        self.signed(
            &json!({ "alg": "ES256", "kid": self.id, "typ": "at+jwt" }),
            claims,
        )
    }

    /// A token of this header and these claims, whatever they say.
    pub fn signed(&self, header: &Value, claims: &Value) -> String {
        let signed = format!(
            "{}.{}",
            encoded(header.to_string()),
            encoded(claims.to_string())
        );
        let signature = self
            .pair
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", encoded(signature))
    }
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The key set of these keys.
pub fn key_set(keys: &[&TokenKey]) -> KeysReply {
    let keys: Vec<Value> = keys.iter().map(|key| key.public()).collect();
    KeysReply::Keys(json!({ "keys": keys }))
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

impl TokenIssuer {
    /// An issuer with this key.
    pub async fn start(key: &TokenKey) -> Self {
        let keys_elsewhere = json!({ "keys": [key.public()] });
        let state = Arc::new(IssuerState {
            keys_elsewhere,
            reply: Mutex::new(key_set(&[key])),
            fetches: AtomicUsize::new(0),
            elsewhere: AtomicUsize::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = axum::Router::new()
            .route("/jwks", axum::routing::get(keys))
            .route("/elsewhere", axum::routing::get(elsewhere))
            .with_state(state.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self {
            address,
            state,
            serving,
        }
    }

    /// What `iss` of its tokens says.
    pub fn name(&self) -> String {
        format!("http://{}", self.address)
    }

    /// It as an entry of `auth.jwt`, with `more` members as YAML flow text.
    pub fn entry(&self, more: &str) -> String {
        format!(
            "{{ issuer: \"{0}\", audience: \"{AUDIENCE}\", jwks_url: \"{0}/jwks\"{more} }}",
            self.name()
        )
    }

    /// The usual claims of a token for `agent`, valid for a while.
    pub fn claims(&self, agent: &str) -> Value {
        json!({
            "iss": self.name(), "aud": AUDIENCE, "exp": now() + 600, "sub": "ada@example.com", "azp": agent,
            "org": "t_001", "roles": ["teller"],
        })
    }

    /// From now on it answers like this.
    pub fn answers(&self, reply: KeysReply) {
        *self.state.reply.lock().unwrap() = reply;
    }

    /// How often its keys were fetched.
    pub fn fetches(&self) -> usize {
        self.state.fetches.load(Ordering::SeqCst)
    }

    /// How often what it redirects to was fetched.
    pub fn followed(&self) -> usize {
        self.state.elsewhere.load(Ordering::SeqCst)
    }
}

impl Drop for TokenIssuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn keys(State(state): State<Arc<IssuerState>>) -> Response {
    state.fetches.fetch_add(1, Ordering::SeqCst);
    let reply = state.reply.lock().unwrap().clone();
    match reply {
        KeysReply::Keys(set) => set.to_string().into_response(),
        KeysReply::Said(status, text) => {
            (StatusCode::from_u16(status).unwrap(), text).into_response()
        }
        KeysReply::Redirects => Redirect::temporary("/elsewhere").into_response(),
        KeysReply::Endless => {
            let block = Bytes::from(vec![b' '; 64 << 10]);
            let blocks =
                futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(block.clone()));
            Body::from_stream(blocks).into_response()
        }
        KeysReply::Cut => {
            let parts = [
                Ok(Bytes::from_static(b"{\"keys\":[")),
                Err(std::io::Error::other("cut")),
            ];
            Body::from_stream(futures_util::stream::iter(parts)).into_response()
        }
        KeysReply::Never => std::future::pending().await,
    }
}

async fn elsewhere(State(state): State<Arc<IssuerState>>) -> Response {
    state.elsewhere.fetch_add(1, Ordering::SeqCst);
    state.keys_elsewhere.to_string().into_response()
}
