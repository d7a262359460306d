//! Event streams: an exact framer for what tool servers send and an encoder for what agents read.
//!
//! The framer keeps comments, ids and retry hints, gives every event a bound, and never fails on what it doesn't know.

use bytes::{Bytes, BytesMut};

/// Longest event in bytes (SECURITY §8).
pub const LONGEST_EVENT: usize = 4 << 20;

/// One block of an event stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// A comment, or a block of comments: a keep-alive.
    Comment,
    /// An event.
    Event(Event),
}

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// Its id, if the block sets one.
    pub id: Option<String>,
    /// The event type; empty means `message`.
    pub name: String,
    /// The data lines, joined by line feeds.
    pub data: Bytes,
    /// Milliseconds to wait before reconnecting.
    pub retry: Option<u64>,
}

/// The stream broke its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {LONGEST_EVENT} bytes")]
pub struct TooLong;

/// Cuts bytes into blocks.
#[derive(Debug, Default)]
pub struct Framer {
    buffer: BytesMut,
    searched: usize,
    started: bool,
}

impl Framer {
    /// Takes more bytes in.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.buffer.len() + bytes.len() > LONGEST_EVENT + 64 * 1024 {
            return Err(TooLong);
        }
        self.buffer.extend_from_slice(bytes);
        if !self.started && self.buffer.len() >= 3 {
            self.started = true;
            if self.buffer.starts_with("\u{feff}".as_bytes()) {
                let _ = self.buffer.split_to(3);
            }
        }
        Ok(())
    }

    /// The next whole block, if there is one. Blocks that say nothing are passed over.
    pub fn next_block(&mut self) -> Option<Block> {
        loop {
            let end = self.end_of_block()?;
            let block = self.buffer.split_to(end).freeze();
            self.searched = 0;
            if let Some(block) = parse(&block) {
                return Some(block);
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

fn parse(block: &Bytes) -> Option<Block> {
    let mut event = Event::default();
    let (mut comment, mut any) = (false, false);
    let mut data: Vec<Bytes> = Vec::new();
    for line in block.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty()) {
        let (name, value) = match line.iter().position(|&byte| byte == b':') {
            Some(0) => {
                comment = true;
                continue;
            }
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &line[line.len()..]),
        };
        match name {
            b"data" => data.push(block.slice_ref(value)),
            b"event" => event.name = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => event.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" => event.retry = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok()),
            _ => continue,
        }
        any = true;
    }
    event.data = match data.as_slice() {
        [] => Bytes::new(),
        [one] => one.clone(),
        many => Bytes::from(many.join(&b'\n')),
    };
    if any { Some(Block::Event(event)) } else { comment.then_some(Block::Comment) }
}

/// A comment that keeps a stream open.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

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

    fn blocks(stream: &[u8], chunk: usize) -> Vec<Block> {
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
        assert_eq!(whole[0], Block::Comment);
        assert_eq!(whole[1], Block::Event(Event { id: Some("1".into()), ..Event::default() }));
        assert_eq!(whole[2], Block::Event(Event { name: "x".into(), data: "a\nb".into(), ..Event::default() }));
        assert_eq!(whole[3], Block::Event(Event { retry: Some(50), ..Event::default() }));
        assert_eq!(whole[4], Block::Event(Event { data: "{}".into(), ..Event::default() }));
        for chunk in 3..20 {
            assert_eq!(blocks(stream, chunk), whole, "in chunks of {chunk}");
        }
    }

    #[test]
    fn an_event_has_a_bound() {
        let mut framer = Framer::default();
        let part = vec![b'x'; 1 << 20];
        assert!((0..8).any(|_| framer.push(&part).is_err()));
    }
}
