//! Bodies of our answers: whole, or an event stream that is written as it comes.

use crate::mcp::error_codes::INTERNAL_ERROR;
use crate::mcp::message::Message;
use crate::mcp::sse::{KEEP_ALIVE_COMMENT, encode};
use crate::outlet::{Inlet, Outgoing};
use bytes::Bytes;
use futures_util::stream::Stream;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body, Frame};
use pieces::PiecesBody;
use std::convert::Infallible;
use std::time::Duration;

mod pieces;

/// Any body of ours.
pub(super) type HttpAnswer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Why a request was refused, for the metrics, where its status does not say it: goes with the answer
/// as far as the door.
#[derive(Debug, Clone, Copy)]
pub(super) struct RefusalReason(pub(super) &'static str);

/// A stream says something this often, so that nobody on the way takes it for dead (protocol §1.1).
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

const JSON_CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/json");

/// An answer without a body.
pub(super) fn empty(status: StatusCode) -> HttpAnswer {
    let mut answer = Response::new(Full::new(Bytes::new()).boxed_unsync());
    *answer.status_mut() = status;
    answer
}

/// JSON as it is.
pub(super) fn json_text(status: StatusCode, text: Bytes) -> HttpAnswer {
    let mut answer = Response::new(Full::new(text).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON_CONTENT_TYPE);
    answer
}

/// One message as `JSON_CONTENT_TYPE`.
pub(super) fn json(status: StatusCode, message: &Message) -> HttpAnswer {
    json_on(HeaderMap::new(), status, message)
}

/// One message as `JSON_CONTENT_TYPE`, with `headers`.
pub(super) fn json_on(headers: HeaderMap, status: StatusCode, message: &Message) -> HttpAnswer {
    json_body(headers, status, Full::new(message.encode()))
}

/// The same without a copy of what is long in it. The answer is in the body's hands only at its end,
/// so that it is none of which anybody asks whether it was read.
pub(super) fn json_in_pieces(
    headers: HeaderMap,
    status: StatusCode,
    message: &Message,
) -> HttpAnswer {
    json_body(headers, status, PiecesBody(message.encoded_pieces()))
}

fn json_body(
    headers: HeaderMap,
    status: StatusCode,
    body: impl Body<Data = Bytes, Error = Infallible> + Send + 'static,
) -> HttpAnswer {
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer.headers_mut().insert(CONTENT_TYPE, JSON_CONTENT_TYPE);
    answer
}

/// A JSON_CONTENT_TYPE-RPC error for a message whose id is not known.
pub(super) fn error(status: StatusCode, code: i64, words: &str) -> HttpAnswer {
    json(status, &Message::error(None, code, words, None))
}

/// A request that was not read, for want of room: when to come again, and that the connection ends
/// here, because what follows on it is the rest of the request.
pub(super) fn overloaded(status: StatusCode, words: &str, again: Duration) -> HttpAnswer {
    let mut refused = error(status, INTERNAL_ERROR, words);
    let seconds = again.as_secs() + u64::from(again.subsec_nanos() > 0);
    let headers = refused.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    refused
}

/// An event stream.
pub(super) fn events(stream: impl Stream<Item = Bytes> + Send + 'static) -> HttpAnswer {
    use futures_util::StreamExt as _;
    let frames = stream.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    answer
}

/// The same answer; `kept` is dropped when its body has been read, or nobody reads it any more.
pub(super) fn kept_with(answer: HttpAnswer, kept: impl Send + 'static) -> HttpAnswer {
    answer.map(|body| {
        body.map_frame(move |frame| {
            let _ = &kept;
            frame
        })
        .boxed_unsync()
    })
}

/// What a modern agent reads: each message and comment as it comes, and signs of life in between.
/// When the agent goes away the receiver is dropped, which tells the request that is under way.
pub(super) fn modern_events(first: Outgoing, rest: Inlet) -> HttpAnswer {
    let state = (Some(first), rest, false);
    events(futures_util::stream::unfold(
        state,
        |(first, mut rest, ended)| async move {
            if ended {
                return None;
            }
            let next = match first {
                Some(first) => Some(first),
                None => match tokio::time::timeout(KEEPALIVE_INTERVAL, rest.recv()).await {
                    Ok(next) => Some(next?),
                    Err(_) => None,
                },
            };
            let (bytes, ended) = match next {
                None | Some(Outgoing::Interrupted(_)) => {
                    (Bytes::from_static(KEEP_ALIVE_COMMENT), false)
                }
                Some(Outgoing::Comment(comment)) => (comment.encode(), false),
                Some(Outgoing::Message(message)) => (encode(None, &message.encode()), false),
                Some(Outgoing::Last(message)) => (encode(None, &message.encode()), true),
            };
            Some((bytes, (None, rest, ended)))
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::Text;
    use tokio::time::Instant;

    /// A tool server that says nothing for a minute is alive to its agent every ten seconds.
    #[tokio::test(start_paused = true)]
    async fn a_stream_gives_signs_of_life_until_the_answer() {
        let (outlet, inlet) = crate::outlet::way_back();
        let began = Instant::now();
        let first = Outgoing::Comment(crate::mcp::sse::SseComment::default());
        let mut body = modern_events(first, inlet).into_body();
        let mut said = Vec::new();
        for _ in 0..6 {
            let frame = body.frame().await.unwrap().unwrap();
            said.push((began.elapsed().as_secs(), frame.into_data().unwrap()));
        }
        let comment = |nth: u64| (nth * 10, Bytes::from_static(KEEP_ALIVE_COMMENT));
        assert_eq!(said, (0..6).map(comment).collect::<Vec<_>>());
        let answer = Message::response(Some(Text::string("a")), Text::bool(true), false);
        outlet.answer(answer);
        let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(last.starts_with(b"data: {"), "{last:?}");
        assert!(body.frame().await.is_none(), "the answer ends the stream");
    }
}
