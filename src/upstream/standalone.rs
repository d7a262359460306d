//! The standalone event stream of a legacy HTTP session: what a server says outside any request
//! (protocol §3.1).

use super::Inbound;
use super::http::{ServerEndpoint, Wire, read as read_message};
use crate::mcp::message::MessageKind;
use crate::mcp::sse::{Framer, SseBlock};
use http::StatusCode;
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::sync::mpsc;

/// A server that asks to be asked again at once is not: that would only spin.
const MIN_RECONNECT_DELAY: Duration = Duration::from_millis(100);
const FIRST_RECONNECT_DELAY: Duration = Duration::from_millis(500);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(30);

/// Reads until the server says that it offers no such stream, or nobody wants the messages.
pub(super) async fn read(endpoint: &ServerEndpoint, wire: &Wire, inbox: &mpsc::Sender<Inbound>) {
    let mut after: Option<String> = None;
    let mut wait = FIRST_RECONNECT_DELAY;
    loop {
        if let Ok(response) = endpoint.get(wire, after.as_deref()).await {
            if response.status() != StatusCode::OK {
                return;
            }
            wait = FIRST_RECONNECT_DELAY;
            let mut body = response.into_body();
            let mut framer = Framer::default();
            while let Some(Ok(frame)) = body.frame().await {
                let Some(bytes) = frame.data_ref() else {
                    continue;
                };
                if framer.push(bytes).is_err() {
                    break;
                }
                while let Some(block) = framer.next_block() {
                    let event = match block {
                        SseBlock::Event(event) => event,
                        SseBlock::Comment(comment) => {
                            if inbox.send(Inbound::Comment(comment)).await.is_err() {
                                return;
                            }
                            continue;
                        }
                    };
                    wait = event.retry.map_or(wait, |ms| {
                        Duration::from_millis(ms).clamp(MIN_RECONNECT_DELAY, MAX_RECONNECT_DELAY)
                    });
                    after = event.id.or(after);
                    if event.data.is_empty() {
                        continue;
                    }
                    let read = read_message(event.data).ok();
                    let Some(message) = read.filter(|read| read.odd.is_none()) else {
                        tracing::warn!(
                            "a tool server sent something unreadable on its standalone stream"
                        );
                        continue;
                    };
                    if message.kind != MessageKind::Response
                        && inbox.send(Inbound::Message(message)).await.is_err()
                    {
                        return;
                    }
                }
            }
        }
        if inbox.is_closed() {
            return;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(MAX_RECONNECT_DELAY);
    }
}
