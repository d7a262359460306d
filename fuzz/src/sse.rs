//! An event stream is cut into the same blocks however its bytes arrive, and nothing in a block
//! becomes another when it is said again (threat-model §3B B10).

use toolgate::mcp::sse::{Framer, SseBlock, encode};

/// The first byte says how the rest is cut into chunks.
pub fn run(data: &[u8]) {
    let (first, stream) = super::led(data);
    let whole = blocks(stream.chunks(stream.len().max(1)));
    let size = usize::from(first & 0x3f) + 1;
    assert_eq!(blocks(stream.chunks(size)), whole, "in chunks of {size}");
    assert_eq!(blocks(stream.chunks(1)), whole, "byte by byte");
    for block in whole {
        match block {
            SseBlock::Comment(comment) => {
                let said = comment.encode();
                let lines: Vec<_> = said
                    .strip_suffix(b"\n\n")
                    .expect("an end")
                    .split(|byte| *byte == b'\n')
                    .collect();
                assert!(lines.iter().all(|line| line.starts_with(b":")), "{said:?}");
                assert!(!said.contains(&b'\r') && !said.contains(&0));
                let again = blocks([&said[..]].into_iter());
                assert_eq!(again, [SseBlock::Comment(comment)], "said again");
            }
            SseBlock::Event(event) => {
                let line: Vec<u8> = event
                    .data
                    .iter()
                    .map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte })
                    .collect();
                let said = encode(Some("7-1"), &line);
                let again = blocks([&said[..]].into_iter());
                assert!(
                    matches!(&again[..], [SseBlock::Event(again)] if again.data == line && again.id.as_deref() == Some("7-1")),
                    "{again:?}"
                );
            }
        }
    }
}

fn blocks<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<SseBlock> {
    let (mut framer, mut found) = (Framer::default(), Vec::new());
    for chunk in chunks {
        framer.push(chunk).expect("it is short");
        while let Some(block) = framer.next_block() {
            found.push(block);
        }
    }
    found
}
