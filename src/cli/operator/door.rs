//! With a running toolgate: its operators' door.

use super::connection::{DoorStream, reach};
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
/// Bytes of an answer in words that are shown.
const PLAIN_WORDS_BYTES_MAX: usize = 256;
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
    let asked = exchange(address, token, request, nobody);
    let answered = tokio::time::timeout(bound, asked).await;
    let Ok(answered) = answered else {
        let late = format!("{address} has not answered {}", words_of(bound));
        if changes {
            bail!(
                "{late}: what was asked may be done all the same; look before you ask for it again"
            );
        }
        bail!(late);
    };
    let (status, text) = answered?;
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

/// What was found at the address of a door.
pub(super) enum LookedAtDoor {
    /// What stands there for one without a token, whatever its status, and which opening of a data directory the
    /// answer is of, where it says so.
    Answers(Text, Option<String>),
    /// It is open, and cannot be trusted.
    Untrusted(anyhow::Error),
    /// Nothing answers with JSON.
    Closed,
}

/// Looks at what stands at `path` of the door at `address`, which has `bound` to answer.
pub(super) async fn look(address: DoorAddress, path: &str, bound: Duration) -> LookedAtDoor {
    let asked = async {
        let Ok(reached) = reach(address).await else {
            return LookedAtDoor::Closed;
        };
        let stream = match reached.enter().await {
            Ok(stream) => stream,
            Err(why) => return LookedAtDoor::Untrusted(why),
        };
        let answered = send_on(stream, address, None, DoorRequest::get(path)).await;
        let Ok(answer) = answered else {
            return LookedAtDoor::Closed;
        };
        let instance = answer.headers().get(INSTANCE_HEADER);
        let instance = instance.and_then(|instance| Some(instance.to_str().ok()?.to_owned()));
        match read(answer).await {
            Ok(text) => LookedAtDoor::Answers(text, instance),
            Err(_) => LookedAtDoor::Closed,
        }
    };
    let looked = tokio::time::timeout(bound, asked).await;
    looked.unwrap_or(LookedAtDoor::Closed)
}

/// Whether a program listens at `address`, toolgate or another.
pub(in crate::cli) async fn is_open(address: DoorAddress) -> bool {
    let reached = tokio::time::timeout(CONNECT_TIMEOUT, reach(address));
    matches!(reached.await, Ok(Ok(_)))
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
    nobody: &str,
) -> anyhow::Result<(StatusCode, Text)> {
    let nobody = || nobody.to_owned();
    let reached = reach(address).await.with_context(nobody)?;
    // A door that cannot be trusted is one that answers.
    let stream = reached.enter().await?;
    let answer = send_on(stream, address, token, request).await;
    let answer = answer.with_context(nobody)?;
    let status = answer.status();
    Ok((status, read(answer).await.with_context(nobody)?))
}

/// The whole of an answer, which is JSON; in words what else a door says, such as one that speaks TLS to
/// who does not.
pub(super) async fn read(answer: Response<Incoming>) -> anyhow::Result<Text> {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let (status, is_text) = (
        answer.status(),
        kind.is_some_and(|kind| kind == "text/plain"),
    );
    let bytes: Bytes = match Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(error) => bail!("the answer cannot be read: {error}"),
    };
    if is_text {
        let words = &bytes[..bytes.len().min(PLAIN_WORDS_BYTES_MAX)];
        let words = String::from_utf8_lossy(words);
        bail!("it answers {status}: {}", words.trim().escape_debug());
    }
    Ok(Text::read(bytes, &SERVER_JSON_LIMITS)?)
}

/// What the door at `address` answers, of which nothing is read yet.
pub(super) async fn send(
    address: DoorAddress,
    token: Option<&str>,
    request: DoorRequest,
) -> anyhow::Result<Response<Incoming>> {
    let stream = reach(address).await?.enter().await?;
    send_on(stream, address, token, request).await
}

/// The same on a stream to it.
async fn send_on(
    stream: Box<dyn DoorStream>,
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
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer; what goes wrong is seen by the request that waits.
    tasks::spawn("connection to the operators' door", async move {
        drop(connection.await);
    });
    Ok(sender.send_request(request).await?)
}
