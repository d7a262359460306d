//! Event streams: an exact framer for what tool servers send and an encoder for what agents read.
//!
//! The framer keeps comments, ids and retry hints, gives every event a bound, and never fails on
//! what it doesn't know.

use crate::model::scrub::KNOWN_SECRETS;
use bytes::{Bytes, BytesMut};

/// Longest event in bytes (threat-model §8).
pub const MAX_SSE_EVENT_BYTES: usize = 4 << 20;

/// Most bytes of a comment that go on, of all its lines together; the rest is cut off.
pub const MAX_SSE_COMMENT_BYTES: usize = 1 << 10;

/// One block of an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SseBlock {
    /// The comments of one block; without text a keep-alive.
    Comment(SseComment),
    /// An event.
    Event(SseEvent),
}

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// Its id, if the block sets one.
    pub id: Option<String>,
    /// The event type; empty means `message`.
    pub name: String,
    /// The data lines, joined by line feeds.
    pub data: Bytes,
    /// Milliseconds to wait before reconnecting.
    pub retry: Option<u64>,
}

/// What the comment lines of one block say, at most [`MAX_SSE_COMMENT_BYTES`] bytes: whole lines of text
/// without control characters, so that none of it can become another field or event. The default is
/// a bare keep-alive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseComment {
    /// What follows the colon of each line.
    lines: Vec<String>,
}

impl SseComment {
    /// Takes one line in, what follows its colon.
    fn add(&mut self, line: &[u8]) {
        let taken: usize = self.lines.iter().map(|line| line.len() + 1).sum();
        let room = MAX_SSE_COMMENT_BYTES.saturating_sub(taken);
        let line = String::from_utf8_lossy(line);
        let mut text: String = KNOWN_SECRETS
            .clean(&line)
            .chars()
            .filter(|letter| *letter == '\t' || !letter.is_control())
            .collect();
        text.truncate(text.floor_char_boundary(room));
        if !text.is_empty() {
            self.lines.push(text);
        }
    }

    /// Whether it says nothing.
    pub fn is_bare(&self) -> bool {
        self.lines.is_empty()
    }

    /// The comment as a block of an event stream.
    pub fn encode(&self) -> Bytes {
        if self.is_bare() {
            return Bytes::from_static(KEEP_ALIVE_COMMENT);
        }
        let mut out = String::new();
        for line in &self.lines {
            out.push(':');
            out.push_str(line);
            out.push('\n');
        }
        out.push('\n');
        Bytes::from(out)
    }
}

/// The stream broke its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {MAX_SSE_EVENT_BYTES} bytes")]
pub struct TooLong;

/// Cuts bytes into blocks.
#[derive(Debug, Default)]
pub struct Framer {
    buffer: BytesMut,
    searched: usize,
    started: bool,
    /// The event of a block whose comments were handed out.
    following: Option<SseEvent>,
}

impl Framer {
    /// Takes more bytes in.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.buffer.len() + bytes.len() > MAX_SSE_EVENT_BYTES + 64 * 1024 {
            return Err(TooLong);
        }
        self.buffer.extend_from_slice(bytes);
        if !self.started {
            // Only what the stream begins with is its mark, however few bytes came first.
            let mark = "\u{feff}".as_bytes();
            let begun = self.buffer.len().min(mark.len());
            let is_marked = self.buffer[..begun] == mark[..begun];
            self.started = !is_marked || begun == mark.len();
            if is_marked && self.started {
                let _ = self.buffer.split_to(mark.len());
                self.searched = 0;
            }
        }
        Ok(())
    }

    /// The next whole block, if there is one. Blocks that say nothing are passed over.
    pub fn next_block(&mut self) -> Option<SseBlock> {
        if let Some(event) = self.following.take() {
            return Some(SseBlock::Event(event));
        }
        loop {
            let end = self.end_of_block()?;
            let block = self.buffer.split_to(end).freeze();
            self.searched = 0;
            match parse(&block) {
                (Some(comment), Some(event)) if !comment.is_bare() => {
                    self.following = Some(event);
                    return Some(SseBlock::Comment(comment));
                }
                (_, Some(event)) => return Some(SseBlock::Event(event)),
                (Some(comment), None) => return Some(SseBlock::Comment(comment)),
                (None, None) => {}
            }
        }
    }

    /// A block ends with two line ends in a row; each is CR LF, LF or CR.
    fn end_of_block(&mut self) -> Option<usize> {
        let bytes = &self.buffer;
        let mut at = self.searched;
        while at < bytes.len() {
            if let Some(first) = line_end(bytes, at) {
                match line_end(bytes, at + first) {
                    Some(second) => return Some(at + first + second),
                    None if at + first >= bytes.len() => {
                        self.searched = at;
                        return None;
                    }
                    None => at += first,
                }
            } else {
                at += 1;
            }
        }
        self.searched = at;
        None
    }
}

fn line_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'\r' if bytes.get(at + 1) == Some(&b'\n') => Some(2),
        b'\n' | b'\r' => Some(1),
        _ => None,
    }
}

/// What one block says. Comments come first, wherever in the block they stand.
fn parse(block: &Bytes) -> (Option<SseComment>, Option<SseEvent>) {
    let mut event = SseEvent::default();
    let (mut comment, mut any) = (None::<SseComment>, false);
    let mut data: Vec<Bytes> = Vec::new();
    for line in block
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .filter(|line| !line.is_empty())
    {
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(0) => {
                comment.get_or_insert_default().add(&line[1..]);
                continue;
            }
            Some(at) => (
                &line[..at],
                line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..]),
            ),
            None => (line, &line[line.len()..]),
        };
        match name {
            b"data" => data.push(block.slice_ref(value)),
            b"event" => event.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                event.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"retry" => {
                event.retry = std::str::from_utf8(value)
                    .ok()
                    .and_then(|value| value.parse().ok());
            }
            _ => continue,
        }
        any = true;
    }
    event.data = match data.as_slice() {
        [] => Bytes::new(),
        [one] => one.clone(),
        many => Bytes::from(many.join(&b'\n')),
    };
    (comment, any.then_some(event))
}

/// A comment that keeps a stream open.
pub const KEEP_ALIVE_COMMENT: &[u8] = b":\n\n";

/// One message as an event. `data` must be one line; `id` must be one of ours.
pub fn encode(id: Option<&str>, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 48);
    if let Some(id) = id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(stream: &[u8], chunk: usize) -> Vec<SseBlock> {
        let mut framer = Framer::default();
        let mut found = Vec::new();
        for part in stream.chunks(chunk) {
            framer.push(part).unwrap();
            while let Some(block) = framer.next_block() {
                found.push(block);
            }
        }
        found
    }

    #[test]
    fn frames_the_same_however_the_bytes_arrive() {
        let stream = b"\xef\xbb\xbf: hi\n\nid: 1\r\ndata:\r\n\r\nevent: x\rdata: a\rdata:b\r\rretry: 50\n\ndata: {}\nunknown: 1\n\ndata: cut";
        let whole = blocks(stream, stream.len());
        assert_eq!(whole.len(), 5);
        assert_eq!(
            whole[0],
            SseBlock::Comment(SseComment {
                lines: vec![" hi".into()]
            })
        );
        assert_eq!(
            whole[1],
            SseBlock::Event(SseEvent {
                id: Some("1".into()),
                ..SseEvent::default()
            })
        );
        assert_eq!(
            whole[2],
            SseBlock::Event(SseEvent {
                name: "x".into(),
                data: "a\nb".into(),
                ..SseEvent::default()
            })
        );
        assert_eq!(
            whole[3],
            SseBlock::Event(SseEvent {
                retry: Some(50),
                ..SseEvent::default()
            })
        );
        assert_eq!(
            whole[4],
            SseBlock::Event(SseEvent {
                data: "{}".into(),
                ..SseEvent::default()
            })
        );
        for chunk in 1..20 {
            assert_eq!(blocks(stream, chunk), whole, "in chunks of {chunk}");
        }
    }

    /// A byte order mark is one at the start of the stream, and nowhere else, also when nothing but
    /// line ends came before.
    #[test]
    fn a_mark_is_at_the_start() {
        for stream in ["\n\n\u{feff}data: 1\n\n", "\r\u{feff}data: 1\n\n"] {
            for chunk in 1..8 {
                assert_eq!(
                    blocks(stream.as_bytes(), chunk),
                    [],
                    "{stream:?} in chunks of {chunk}"
                );
            }
        }
    }

    /// The text of a comment goes on and cannot break out of its line; without text it stays a
    /// keep-alive.
    #[test]
    fn comments_say_again_what_they_said_and_nothing_else() {
        let long = format!(": {}", "é".repeat(MAX_SSE_COMMENT_BYTES));
        let cut = format!(": {}", "é".repeat(MAX_SSE_COMMENT_BYTES / 2 - 1));
        for (said, again) in [
            (":", ":"),
            (":\r:\n:", ":"),
            (": still there", ": still there"),
            (":a\n:b\n:\n:c", ":a\n:b\n:c"),
            (": a\0b\u{1b}[31m\u{85}c\td", ": ab[31mc\td"),
            (long.as_str(), cut.as_str()),
        ] {
            let blocks = blocks(format!("{said}\n\n").as_bytes(), usize::MAX);
            let [SseBlock::Comment(comment)] = blocks.as_slice() else {
                panic!("{said:?}: {blocks:?}")
            };
            assert_eq!(comment.encode(), format!("{again}\n\n"), "{said:?}");
            assert!(comment.encode().len() <= MAX_SSE_COMMENT_BYTES + 3);
        }
        let many = ":x\n".repeat(MAX_SSE_COMMENT_BYTES);
        let [SseBlock::Comment(comment)] = &blocks(format!("{many}\n").as_bytes(), usize::MAX)[..]
        else {
            panic!()
        };
        assert!(
            comment.encode().len() <= 2 * MAX_SSE_COMMENT_BYTES,
            "{}",
            comment.encode().len()
        );
        let invalid = blocks(b": \xff\n\n", usize::MAX);
        assert!(
            matches!(&invalid[..], [SseBlock::Comment(comment)] if comment.encode() == ": \u{fffd}\n\n")
        );
    }

    /// A comment inside the block of an event is not lost with it, and does not take it along.
    #[test]
    fn a_comment_in_an_event_comes_before_it() {
        let event = || {
            SseBlock::Event(SseEvent {
                data: "1".into(),
                ..SseEvent::default()
            })
        };
        let said = blocks(b"data: 1\n: why\n\n:\ndata: 1\n\n", 1);
        assert_eq!(
            said,
            [
                SseBlock::Comment(SseComment {
                    lines: vec![" why".into()]
                }),
                event(),
                event()
            ]
        );
    }

    #[test]
    fn an_event_has_a_bound() {
        let mut framer = Framer::default();
        let part = vec![b'x'; 1 << 20];
        assert!((0..8).any(|_| framer.push(&part).is_err()));
    }
}
