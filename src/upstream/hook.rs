//! An operator's program that hears of calls over HTTP: one signed POST each, in the form of
//! Standard Webhooks (<https://www.standardwebhooks.com>), bounded in time, size and number. Redirects are not followed.

use super::http::Connections;
use crate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, Text};
use crate::model::clock::Clock;
use crate::model::secret::Secret;
use crate::telemetry::tasks;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::Sha256;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;

/// What a hook's secret begins with.
const HOOK_SECRET_PREFIX: &str = "whsec_";
/// Bytes of a key.
const KEY_BYTES_BOUNDS: std::ops::RangeInclusive<usize> = 24..=64;
/// Requests to one hook at once.
pub(crate) const MAX_CONCURRENT_HOOK_REQUESTS: usize = 64;
/// Calls that one after-hook has not heard of yet, at most: what comes then is dropped.
pub(crate) const MAX_QUEUED_HOOK_EVENTS: usize = 256;
/// What a hook answers; its arguments are judged like an agent's afterwards.
const HOOK_ANSWER_LIMITS: JsonLimits = JsonLimits {
    bytes: 1 << 20,
    ..AGENT_JSON_LIMITS
};

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// One hook. Those who share it share its room.
pub struct Hook {
    /// Its name in the configuration.
    pub name: String,
    uri: Uri,
    key: Secret,
    timeout: Duration,
    room: Semaphore,
    waiting: Arc<Semaphore>,
}

/// What a before-hook answers; an empty answer (204) says nothing.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HookAnswer {
    /// Arguments to lay over the call's, at their top level.
    pub arguments: Option<Map<String, Value>>,
    /// Whether the call is not to be sent.
    pub block: bool,
    /// What the agent reads when it is not.
    pub reason: Option<String>,
}

/// Why nothing usable came back.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// No connection, or one that broke.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// Nothing within its time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// Another status than 200 and 204; a redirect, too.
    #[error("the status is {0}")]
    Status(u16),
    /// Cut off, too long, or not what a hook may say.
    #[error("the answer cannot be read: {0}")]
    Unreadable(String),
}

impl HookError {
    /// The same for agents, who learn nothing of where hooks are.
    pub fn words(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "a hook cannot be reached",
            Self::Late(_) => "a hook did not answer in time",
            Self::Status(_) | Self::Unreadable(_) => "a hook answered with an error",
        }
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hook({})", self.name)
    }
}

/// The key in `secret`: `whsec_` and 24 to 64 bytes in base64.
pub(crate) fn key_of(secret: &Secret) -> Option<Vec<u8>> {
    let key = STANDARD
        .decode(secret.expose().strip_prefix(HOOK_SECRET_PREFIX)?)
        .ok()?;
    KEY_BYTES_BOUNDS.contains(&key.len()).then_some(key)
}

/// What a hook is told of.
pub struct HookEvent {
    /// By which the hook knows it again.
    pub id: String,
    /// What it reads.
    pub body: Bytes,
}

impl Hook {
    /// A hook at `url`; `timeout` bounds each request, waiting for room included. None for a secret
    /// without a key or an address that HTTP cannot name.
    pub fn new(name: String, url: &Url, key: Secret, timeout: Duration) -> Option<Self> {
        key_of(&key)?;
        let uri = url.as_str().parse().ok()?;
        let (room, waiting) = (
            Semaphore::new(MAX_CONCURRENT_HOOK_REQUESTS),
            Arc::new(Semaphore::new(MAX_QUEUED_HOOK_EVENTS)),
        );
        Some(Self {
            name,
            uri,
            key,
            timeout,
            room,
            waiting,
        })
    }

    /// Asks about a call that has not been sent.
    pub async fn ask(
        &self,
        connections: &Connections,
        id: &str,
        body: Bytes,
    ) -> Result<HookAnswer, HookError> {
        let (status, body) = self.post(connections, id, body).await?;
        match status {
            StatusCode::NO_CONTENT => Ok(HookAnswer::default()),
            StatusCode::OK => {
                let text = Text::read(body, &HOOK_ANSWER_LIMITS)
                    .map_err(|error| HookError::Unreadable(error.to_string()))?;
                // An empty list would be read as an answer without members.
                if !text.is_object() {
                    return Err(HookError::Unreadable("not an object".to_owned()));
                }
                text.parse()
                    .map_err(|error| HookError::Unreadable(error.to_string()))
            }
            other => Err(HookError::Status(other.as_u16())),
        }
    }

    /// A place among the calls that the hook has yet to hear of; none when there is none.
    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.waiting.clone().try_acquire_owned().ok()
    }

    /// Tells of a call that has ended, in a task of its own, which holds `place` meanwhile; `told`
    /// hears what came of it.
    pub fn tell(
        self: &Arc<Self>,
        connections: Connections,
        event: HookEvent,
        place: impl Send + 'static,
        told: impl FnOnce(Result<(), HookError>) + Send + 'static,
    ) {
        let hook = self.clone();
        tasks::spawn("after-hook", async move {
            told(hook.say(&connections, &event.id, event.body).await);
            drop(place);
        });
    }

    /// Tells it something, once.
    pub async fn say(
        &self,
        connections: &Connections,
        id: &str,
        body: Bytes,
    ) -> Result<(), HookError> {
        match self.post(connections, id, body).await? {
            (status, _) if status.is_success() => Ok(()),
            (status, _) => Err(HookError::Status(status.as_u16())),
        }
    }

    async fn post(
        &self,
        connections: &Connections,
        id: &str,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), HookError> {
        let exchange = async {
            let _room = self.room.acquire().await;
            let headers = signed_headers(&self.key, id, &body)
                .ok_or_else(|| HookError::Unreachable("its headers".to_owned()))?;
            let response = connections
                .post(self.uri.clone(), headers, body)
                .await
                .map_err(HookError::Unreachable)?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, HOOK_ANSWER_LIMITS.bytes).collect().await;
            let body = body.map_err(|error| HookError::Unreadable(error.to_string()))?;
            Ok((head.status, body.to_bytes()))
        };
        tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or(Err(HookError::Late(self.timeout)))
    }
}

/// The headers of `body` as JSON, which a program that has the key knows by `id` and the signature;
/// none for a secret without a key or an id that no header can carry.
pub(crate) fn signed_headers(key: &Secret, id: &str, body: &[u8]) -> Option<HeaderMap> {
    let timestamp = Clock.wall().as_second().to_string();
    let signature = sign(&key_of(key)?, id, &timestamp, body)?;
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in [
        (WEBHOOK_ID, id),
        (WEBHOOK_TIMESTAMP, &timestamp),
        (WEBHOOK_SIGNATURE, &signature),
    ] {
        headers.insert(name, HeaderValue::from_str(value).ok()?);
    }
    Some(headers)
}

/// `v1,` and HMAC-SHA256 over id, timestamp and body, with full stops between them, in base64.
fn sign(key: &[u8], id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    Some(format!(
        "v1,{}",
        STANDARD.encode(mac.finalize().into_bytes())
    ))
}

#[cfg(test)]
mod tests;
