//! A body that is there in pieces, so that what is long in it is not copied to be sent.

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Pieces of known length, one after the other; empty ones say nothing, nor do those that were sent.
#[derive(Debug)]
pub(super) struct PiecesBody(pub(super) [Bytes; 3]);

impl Body for PiecesBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.0.iter_mut().find(|piece| !piece.is_empty());
        Poll::Ready(next.map(|piece| Ok(Frame::data(std::mem::take(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt as _;

    #[tokio::test]
    async fn all_pieces_are_sent_and_their_length_is_known_before() {
        for (pieces, expected) in [
            (
                ["{\"a\":", "1", "}"],
                &[("{\"a\":", 7), ("1", 2), ("}", 1)][..],
            ),
            (["{}", "", ""], &[("{}", 2)]),
            (["", "", ""], &[]),
        ] {
            let bytes = pieces.map(|piece| Bytes::from_static(piece.as_bytes()));
            let mut body = PiecesBody(bytes);
            for (piece, left) in expected {
                assert_eq!(
                    (body.size_hint().exact(), body.is_end_stream()),
                    (Some(*left), false)
                );
                let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
                assert_eq!(frame, piece);
            }
            assert_eq!(
                (body.size_hint().exact(), body.is_end_stream()),
                (Some(0), true)
            );
            assert!(body.frame().await.is_none());
        }
    }
}
