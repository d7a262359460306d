//! With a running toolgate: its operators' door.

use super::{CallsQuery, CallsReply};
use crate::admin::calls::{OpenCallList, ResolveReply};
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::store::operator::OperatorFinding;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// How long it may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the toolgate whose operators' door is at `address`, with `token` to prove who asks.
pub(super) async fn ask(
    address: SocketAddr,
    token: Option<&str>,
    asked: CallsQuery,
) -> anyhow::Result<CallsReply> {
    let (method, path, body) = match &asked {
        CallsQuery::List { state } => {
            let query = state
                .as_ref()
                .map(|state| format!("?state={state}"))
                .unwrap_or_default();
            (
                Method::GET,
                format!("/api/calls{query}"),
                Text::of(&json!(null)),
            )
        }
        CallsQuery::Resolve { action, resolution } => {
            let (word, result) = match &resolution.verdict {
                OperatorFinding::Applied(result) => ("applied", result.clone()),
                OperatorFinding::NotApplied => ("not_applied", None),
                OperatorFinding::Abandon => ("abandon", None),
            };
            let body = Text::of(&json!({ "verdict": word, "why": resolution.why }));
            let body = result.map_or(body.clone(), |result| {
                body.with_new_member("result", &result)
            });
            (Method::POST, format!("/api/calls/{action}/resolve"), body)
        }
    };
    match (request(address, token, (method, path, body)).await?, asked) {
        (Ok(text), CallsQuery::List { .. }) => {
            Ok(CallsReply::Calls(text.parse::<OpenCallList>()?.calls))
        }
        (Ok(text), CallsQuery::Resolve { .. }) => {
            let ResolveReply { state, who, .. } = text.parse()?;
            Ok(CallsReply::Resolved { state, who })
        }
        (Err(refused), _) => Ok(CallsReply::Refused(refused)),
    }
}

/// What the door at `address` answers: the body, or in words why it refuses.
pub(in crate::cli) async fn request(
    address: SocketAddr,
    token: Option<&str>,
    asked: (Method, String, Text),
) -> anyhow::Result<Result<Text, String>> {
    let nobody = format!(
        "the data directory is a running toolgate's or another user's, and no operators' door answers at {address}; name \
         its address with --admin, or stop it and do this as the directory's owner"
    );
    request_of(address, token, asked, nobody).await
}

/// As [`request()`]; `nobody` says what it means when nothing answers there.
pub(in crate::cli) async fn request_of(
    address: SocketAddr,
    token: Option<&str>,
    asked: (Method, String, Text),
    nobody: String,
) -> anyhow::Result<Result<Text, String>> {
    let answered = tokio::time::timeout(ANSWER_TIMEOUT, exchange(address, token, asked)).await;
    let (status, text) = answered
        .map_err(anyhow::Error::from)
        .flatten()
        .context(nobody)?;
    if status == StatusCode::OK {
        return Ok(Ok(text));
    }
    let word = |key: &str| {
        text.get(key)
            .and_then(|word| Some(word.as_str()?.into_owned()))
    };
    let Some(error) = word("error") else {
        bail!("{address} answers {status}, which is no toolgate's answer")
    };
    let hint = word("hint")
        .map(|hint| format!("; {hint}"))
        .unwrap_or_default();
    Ok(Err(format!("{error}{hint}")))
}

async fn exchange(
    address: SocketAddr,
    token: Option<&str>,
    (method, path, body): (Method, String, Text),
) -> anyhow::Result<(StatusCode, Text)> {
    let near = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    let port = address.port();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{}{path}", SocketAddr::new(near, port)))
        .header(header::HOST, format!("localhost:{port}"))
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let connections = Client::builder(TokioExecutor::new()).build_http();
    let answer = connections
        .request(request.body(Full::new(body.bytes()))?)
        .await?;
    let status = answer.status();
    let bytes: Bytes = match Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
        .collect()
        .await
    {
        Ok(body) => body.to_bytes(),
        Err(error) => bail!("the answer cannot be read: {error}"),
    };
    Ok((status, Text::read(bytes, &SERVER_JSON_LIMITS)?))
}
