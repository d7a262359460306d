//! Lines of bytes with a bound: how messages are cut on standard input and output.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest line in bytes, without its end (threat-model §8).
pub(crate) const LINE_BYTES_MAX: usize = 4 << 20;
/// What is read at once.
const READ_CHUNK_BYTES: usize = 16 * 1024;

/// Why there are no more lines.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// A line passed the bound.
    #[error("a line is longer than {0} bytes")]
    TooLong(usize),
    /// Reading failed.
    #[error("reading failed: {0}")]
    Read(#[from] std::io::Error),
}

/// Cuts what it reads into lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    /// Bytes of a line at most.
    longest: usize,
    buffer: BytesMut,
    searched: usize,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads from `input` lines of a message's usual length at most.
    pub(crate) fn new(input: R) -> Self {
        Self::of(input, LINE_BYTES_MAX)
    }

    /// Reads from `input` lines of at most `longest` bytes.
    pub(crate) fn of(input: R, longest: usize) -> Self {
        Self {
            input,
            longest,
            buffer: BytesMut::new(),
            searched: 0,
            ended: false,
        }
    }

    /// What is read from. Bytes that are taken there are missing here.
    #[cfg(test)]
    pub(crate) fn get_mut(&mut self) -> &mut R {
        &mut self.input
    }

    /// The next line without its line feed, or none at the end. What follows the last line feed
    /// counts as a line. Dropping this future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, LineError> {
        loop {
            if let Some(at) = self.buffer[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n')
            {
                let end = self.searched + at;
                if end > self.longest {
                    return Err(LineError::TooLong(self.longest));
                }
                self.searched = 0;
                let mut line = self.buffer.split_to(end + 1);
                line.truncate(end);
                return Ok(Some(line.freeze()));
            }
            self.searched = self.buffer.len();
            if self.searched > self.longest {
                return Err(LineError::TooLong(self.longest));
            }
            if self.ended {
                self.searched = 0;
                let rest = self.buffer.split().freeze();
                return Ok(Some(rest).filter(|rest| !rest.is_empty()));
            }
            self.buffer.reserve(READ_CHUNK_BYTES);
            self.ended = self.input.read_buf(&mut self.buffer).await? == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &[u8]) -> Vec<Bytes> {
        let mut lines = Lines::new(input);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        found
    }

    #[tokio::test]
    async fn every_line_arrives_once_also_the_unfinished_last_one() {
        assert_eq!(all(b"a\n\nbc\r\nlast").await, ["a", "", "bc\r", "last"]);
        assert_eq!(all(b"").await, Vec::<Bytes>::new());
    }

    /// threat-model §3A A13: a line without an end costs its bound, not the machine.
    #[tokio::test]
    async fn a_line_of_the_bound_passes_and_one_byte_more_breaks() {
        let mut line = vec![b'x'; LINE_BYTES_MAX];
        line.push(b'\n');
        assert_eq!(all(&line).await[0].len(), LINE_BYTES_MAX);
        line.insert(0, b'x');
        assert!(matches!(
            Lines::new(&line[..]).next().await,
            Err(LineError::TooLong(_))
        ));
        let endless = tokio::io::repeat(b'x');
        let mut lines = Lines::new(endless);
        assert!(matches!(lines.next().await, Err(LineError::TooLong(_))));
        assert!(
            lines.buffer.capacity() <= 4 * LINE_BYTES_MAX,
            "{}",
            lines.buffer.capacity()
        );
    }
}
