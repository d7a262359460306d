//! A body that is still arriving: read whole, within its time and its size.

use super::body::{HttpAnswer, error};
use crate::mcp::error_codes::INVALID_REQUEST;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::time::Duration;

/// How long a body may take, and how long it may pause (threat-model §3B B9).
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_PAUSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that the body says it has.
pub(super) fn length(body: &Incoming) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

/// The whole body, which has at most so many bytes.
pub(super) async fn read(mut body: Incoming, longest: usize) -> Result<Bytes, HttpAnswer> {
    // Its length is bounded and has its share of the room; memory is taken only as it is filled.
    let mut bytes = BytesMut::with_capacity(length(&body));
    let reading = async {
        loop {
            // Most bodies arrive with their head; a timer costs more than reading one.
            let frame = match body.frame().now_or_never() {
                Some(frame) => frame,
                None => tokio::time::timeout(BODY_PAUSE_TIMEOUT, body.frame())
                    .await
                    .map_err(|_| slow())?,
            };
            match frame {
                None => return Ok(bytes.split().freeze()),
                Some(Err(_)) => {
                    return Err(error(
                        StatusCode::BAD_REQUEST,
                        INVALID_REQUEST,
                        "the body was cut off",
                    ));
                }
                Some(Ok(frame)) => {
                    let Ok(part) = frame.into_data() else {
                        continue;
                    };
                    if bytes.len() + part.len() > longest {
                        let words = format!("a message has at most {longest} bytes");
                        return Err(error(
                            StatusCode::PAYLOAD_TOO_LARGE,
                            INVALID_REQUEST,
                            &words,
                        ));
                    }
                    bytes.extend_from_slice(&part);
                }
            }
        }
    };
    let mut reading = std::pin::pin!(reading);
    match reading.as_mut().now_or_never() {
        Some(read) => read,
        None => tokio::time::timeout(BODY_TIMEOUT, reading)
            .await
            .map_err(|_| slow())?,
    }
}

fn slow() -> HttpAnswer {
    error(
        StatusCode::REQUEST_TIMEOUT,
        INVALID_REQUEST,
        "the body took too long",
    )
}
