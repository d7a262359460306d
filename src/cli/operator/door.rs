//! With a running toolgate: its operators' door.

use super::connection::connect;
use super::hints::for_people;
use crate::admin::health::INSTANCE_HEADER;
use crate::config::DoorAddress;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::secret::Secret;
use crate::telemetry::tasks;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::fmt;
use std::time::Duration;
use tokio::sync::mpsc;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How long it may take to find out whether anybody listens.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What is asked at the door.
pub(in crate::cli) struct DoorRequest {
    method: Method,
    path: String,
    body: Text,
}

impl DoorRequest {
    /// To read what is at `path`.
    pub(in crate::cli) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: Text::of(&json!(null)),
        }
    }

    /// To change something.
    pub(in crate::cli) fn post(path: impl Into<String>, body: Text) -> Self {
        Self {
            method: Method::POST,
            path: path.into(),
            body,
        }
    }
}

/// What the door at `address` answers within `bound` to one who shows `token`: the body, or in words
/// why it refuses; `nobody` says what it means when nothing answers there.
pub(super) async fn ask(
    address: DoorAddress,
    token: Option<&str>,
    request: DoorRequest,
    bound: Duration,
    nobody: &str,
) -> anyhow::Result<Result<Text, DoorRefusal>> {
    let changes = request.method != Method::GET;
    let answered = tokio::time::timeout(bound, exchange(address, token, request)).await;
    let Ok(answered) = answered else {
        let late = format!("{address} has not answered {}", words_of(bound));
        if changes {
            bail!(
                "{late}: what was asked may be done all the same; look before you ask for it again"
            );
        }
        bail!(late);
    };
    let (status, text) = answered.with_context(|| nobody.to_owned())?;
    if status == StatusCode::OK {
        return Ok(Ok(text));
    }
    refusal(address, status, &text).map(Err)
}

/// Why the door at `address` refuses, where that is what its answer says.
pub(super) fn refusal(
    address: DoorAddress,
    status: StatusCode,
    text: &Text,
) -> anyhow::Result<DoorRefusal> {
    let word = |key: &str| {
        text.get(key)
            .and_then(|word| Some(word.as_str()?.into_owned()))
    };
    let Some(error) = word("error") else {
        bail!("{address} answers {status}, which is no toolgate's answer")
    };
    let hint = word("hint")
        .map(|hint| format!("; {}", for_people(&hint)))
        .unwrap_or_default();
    Ok(DoorRefusal {
        status,
        words: format!("{error}{hint}"),
    })
}

/// Within which time something was to come, as it is told.
pub(super) fn words_of(bound: Duration) -> String {
    // What is left of a time is told in tenths.
    match (bound.is_zero(), bound.subsec_nanos()) {
        (true, _) => "in time".to_owned(),
        (false, 0) => format!("within {bound:?}"),
        (false, _) => format!("within {:.1}s", bound.as_secs_f64()),
    }
}

/// What stands at `path` for one without a token, whatever its status, and which opening of a data directory the
/// answer is of, where it says so; an error where nothing answers with JSON within `bound`.
pub(super) async fn look(
    address: DoorAddress,
    path: &str,
    bound: Duration,
) -> anyhow::Result<(Text, Option<String>)> {
    let asked = async {
        let answer = send(address, None, DoorRequest::get(path)).await?;
        let instance = answer.headers().get(INSTANCE_HEADER);
        let instance = instance.and_then(|instance| Some(instance.to_str().ok()?.to_owned()));
        anyhow::Ok((read(answer).await?, instance))
    };
    tokio::time::timeout(bound, asked).await?
}

/// Whether anybody listens at `address`.
pub(in crate::cli) async fn is_open(address: DoorAddress) -> bool {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, connect(address));
    matches!(connected.await, Ok(Ok(_)))
}

/// Why the door refuses.
pub(in crate::cli) struct DoorRefusal {
    status: StatusCode,
    words: String,
}

impl DoorRefusal {
    /// The same in the words that `said` has for a person who runs a command, where it is about a
    /// token that is missing or nobody's.
    pub(super) fn of_token(self, said: impl FnOnce() -> String) -> Self {
        let words = match self.status {
            StatusCode::UNAUTHORIZED => said(),
            _ => self.words,
        };
        Self { words, ..self }
    }

    /// Whether it is only that too much is asked, or nothing can be read, at the moment.
    pub(in crate::cli) fn is_for_now(&self) -> bool {
        matches!(
            self.status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        )
    }
}

impl fmt::Display for DoorRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// Reads the events of the stream at `path`, and says `()` for each, until it ends, or nobody listens
/// any more.
pub(super) async fn listen(
    address: DoorAddress,
    token: Option<Secret>,
    path: &'static str,
    heard: mpsc::Sender<()>,
) {
    let token = token.as_ref().map(Secret::expose);
    let Ok(answer) = send(address, token, DoorRequest::get(path)).await else {
        return;
    };
    let (is_stream, mut body) = (answer.status() == StatusCode::OK, answer.into_body());
    while is_stream && let Some(Ok(frame)) = body.frame().await {
        let told = frame.data_ref().is_some_and(|part| !part.starts_with(b":"));
        if told && heard.send(()).await.is_err() {
            return;
        }
    }
}

async fn exchange(
    address: DoorAddress,
    token: Option<&str>,
    request: DoorRequest,
) -> anyhow::Result<(StatusCode, Text)> {
    let answer = send(address, token, request).await?;
    Ok((answer.status(), read(answer).await?))
}

/// The whole of an answer, which is JSON.
pub(super) async fn read(answer: Response<Incoming>) -> anyhow::Result<Text> {
    let bytes: Bytes = match Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(error) => bail!("the answer cannot be read: {error}"),
    };
    Ok(Text::read(bytes, &SERVER_JSON_LIMITS)?)
}

/// What the door at `address` answers, of which nothing is read yet.
pub(super) async fn send(
    address: DoorAddress,
    token: Option<&str>,
    DoorRequest { method, path, body }: DoorRequest,
) -> anyhow::Result<Response<Incoming>> {
    let port = address.at.tcp().map(|address| address.port());
    let host = port.map_or("localhost".to_owned(), |port| format!("localhost:{port}"));
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, host)
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Full::new(body.bytes()))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(connect(address).await?)).await?;
    // It ends with the answer; what goes wrong is seen by the request that waits.
    tasks::spawn("connection to the operators' door", async move {
        drop(connection.await);
    });
    Ok(sender.send_request(request).await?)
}
