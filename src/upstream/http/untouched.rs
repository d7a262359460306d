//! What an HTTP/2 server proves when it refuses a stream: that it has processed nothing of the
//! request (RFC 9113 §8.7).

use std::error::Error;

/// Whether the server itself has said so: a stream that it refused, or one above the last that it
/// would look at when it said good-bye. Any other end of a stream proves nothing (guarantees §4).
pub(super) fn is_untouched(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (refused || error.is_go_away());
        }
        next = error.source();
    }
    false
}
