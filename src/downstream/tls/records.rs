//! A connection below TLS, whose records are followed by their lengths: whether a part of one has
//! been read is what decides if something was on its way from the peer, and the library that
//! decrypts does not say it.

use crate::downstream::poll_bytes::poll_bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes before what a record carries; the last two are its length (RFC 8446 §5.1).
const RECORD_HEADER_BYTES: u8 = 5;

/// A connection, and where in its peer's records it has been read to.
pub(in crate::downstream) struct Records {
    stream: TcpStream,
    place: RecordReading,
    handed_over: u64,
}

/// Where in a record the next byte is.
#[derive(Debug, Default, PartialEq, Eq)]
struct RecordReading {
    /// Bytes of its header that were read.
    header: u8,
    /// Bytes of what it carries that were not.
    left: usize,
}

impl RecordReading {
    /// Follows what was read.
    fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.header == RECORD_HEADER_BYTES {
                let within = self.left.min(bytes.len());
                self.left -= within;
                bytes = &bytes[within..];
            } else {
                self.header += 1;
                if self.header + 2 > RECORD_HEADER_BYTES {
                    self.left = (self.left << 8) | usize::from(*first);
                }
                bytes = rest;
            }
            if self.header == RECORD_HEADER_BYTES && self.left == 0 {
                *self = Self::default();
            }
        }
    }
}

impl Records {
    /// Of a connection on which nothing was read.
    pub(super) fn of(stream: TcpStream) -> Self {
        Self {
            stream,
            place: RecordReading::default(),
            handed_over: 0,
        }
    }

    /// The connection itself.
    pub(in crate::downstream) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether a record has been read in part.
    pub(in crate::downstream) fn is_within_record(&self) -> bool {
        self.place != RecordReading::default()
    }

    /// How many bytes of its own records the kernel has taken, from 0 on again after the last number.
    pub(in crate::downstream) fn handed_over(&self) -> u64 {
        self.handed_over
    }

    fn hands_over(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let bytes = ready!(written)?;
        self.handed_over = self.handed_over.wrapping_add(bytes as u64);
        Poll::Ready(Ok(bytes))
    }
}

impl AsyncRead for Records {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = ready!(poll_bytes(&mut self.stream, task, buffer))?;
        self.place.follow(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Records {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(task, bytes);
        self.hands_over(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(task, bytes);
        self.hands_over(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use super::RecordReading;

    /// A record of 258 bytes, an empty one, one of a byte: cut anywhere, the place is the same.
    #[test]
    fn a_part_of_a_record_is_seen_wherever_it_is_cut() {
        let mut records = vec![23, 3, 3, 1, 2];
        records.extend([7; 258]);
        records.extend([23, 3, 3, 0, 0, 23, 3, 3, 0, 1, 9]);
        let ends = [0, 263, 268, 274];
        for cut in 0..=records.len() {
            let mut place = RecordReading::default();
            place.follow(&records[..cut]);
            let is_between = place == RecordReading::default();
            assert_eq!(is_between, ends.contains(&cut), "cut at {cut}");
            place.follow(&records[cut..]);
            assert_eq!(place, RecordReading::default(), "cut at {cut}");
        }
    }
}
