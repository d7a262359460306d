//! Reading from a connection while its bytes are followed.

use std::io;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Reads from `stream` into `buffer`, and gives what was read now; nothing: it has ended.
pub(super) fn poll_bytes<'b>(
    stream: &mut (impl AsyncRead + Unpin),
    task: &mut Task<'_>,
    buffer: &'b mut ReadBuf<'_>,
) -> Poll<io::Result<&'b [u8]>> {
    let before = buffer.filled().len();
    ready!(Pin::new(stream).poll_read(task, buffer))?;
    Poll::Ready(Ok(&buffer.filled()[before..]))
}
