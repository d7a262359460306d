//! One request over a connection of its own: who drops it while it waits for the answer closes the connection,
//! as an agent does that is cut off.

use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What answers a request.
pub(super) struct DemoReply {
    /// The status.
    pub status: StatusCode,
    /// The body: the message itself, or the last one of a stream.
    pub text: Text,
}

/// Sends `request`, whose address is in its `Host`, to `address`.
///
/// # Errors
/// No connection, one that breaks before all of the answer is here, or an answer that is no JSON.
pub(super) async fn exchange(
    address: SocketAddr,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<DemoReply> {
    let stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("nothing answers at {address}"))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let asked = async {
        let answer = sender.send_request(request).await?;
        read(answer).await
    };
    // Its end is seen by the request that waits.
    let carried = async {
        let _ = connection.await;
        std::future::pending::<Infallible>().await
    };
    tokio::select! {
        reply = asked => reply,
        never = carried => match never {},
    }
}

async fn read(answer: Response<Incoming>) -> anyhow::Result<DemoReply> {
    let status = answer.status();
    let kind = answer.headers().get(header::CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect();
    let body = body
        .await
        .map_err(|error| anyhow!("the answer cannot be read: {error}"))?;
    let bytes = body.to_bytes();
    let bytes = if is_stream { message(&bytes) } else { bytes };
    let text = Text::read(bytes, &SERVER_JSON_LIMITS)
        .with_context(|| format!("the answer of {status} is no message"))?;
    Ok(DemoReply { status, text })
}

/// The last message of a stream of events, or nothing.
fn message(stream: &Bytes) -> Bytes {
    let lines = stream.split(|byte| *byte == b'\n');
    let mut told = lines.filter_map(|line| Some(line.strip_prefix(b"data:")?.trim_ascii()));
    let last = told.rfind(|told| !told.is_empty());
    last.map_or_else(Bytes::new, |told| stream.slice_ref(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_message_of_a_stream_is_its_answer() {
        for (stream, expected) in [
            (":\n\ndata: {\"id\":1}\n\n", "{\"id\":1}"),
            (
                "data: {\"a\":1}\n\n:\n\ndata:{\"b\":2}\r\n\r\n",
                "{\"b\":2}",
            ),
            ("data:\n\n", ""),
            (":\n\n", ""),
        ] {
            assert_eq!(message(&Bytes::from_static(stream.as_bytes())), expected);
        }
    }
}
