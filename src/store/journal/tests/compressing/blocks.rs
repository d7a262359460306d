//! Blocks as one could write them who wants a reader to take more memory than it may.

use super::*;
use crate::store::journal::compressed::{BlockLayout, MAX_BLOCK_BYTES, MAX_BLOCKS};
use miniz_oxide::deflate::compress_to_vec;

/// Bytes that the one block of a forged segment stands for.
const CONTENT: u32 = 4096;

/// A segment with `header`, one block and this layout, with all checksums as they should be.
fn forged(header: &[u8], block: &[u8], layout: BlockLayout) -> Vec<u8> {
    let length = u32::try_from(block.len()).unwrap().to_le_bytes();
    let rows = [length, crc32c::crc32c(block).to_le_bytes()].concat();
    [header, block, rows.as_slice(), &layout.footer(&rows)].concat()
}

/// Blocks and what is said of them: where the damage is, and what is told of it.
fn claiming_too_much() -> [(Vec<u8>, BlockLayout, u64, &'static str); 11] {
    let sevens = |bytes: usize| compress_to_vec(&vec![7; bytes], 6);
    let one = BlockLayout {
        content: u64::from(CONTENT),
        block: CONTENT,
        blocks: 1,
    };
    let block = MAX_BLOCK_BYTES;
    let table = |layout| (sevens(9), layout, 0, "no whole table");
    [
        (sevens(2 << 20), one, 96, "holds more than it should"),
        (
            sevens(CONTENT as usize + 1),
            one,
            96,
            "holds more than it should",
        ),
        (sevens(CONTENT as usize - 1), one, 96, "cannot be read"),
        (vec![0xff; 9], one, 96, "cannot be read"),
        (Vec::new(), one, 0, "does not fit its blocks"),
        (
            vec![7; CONTENT as usize + 1],
            one,
            0,
            "does not fit its blocks",
        ),
        table(BlockLayout { block: 0, ..one }),
        table(BlockLayout {
            block: block + 1,
            ..one
        }),
        table(BlockLayout { blocks: 2, ..one }),
        table(BlockLayout {
            content: u64::MAX,
            block,
            blocks: MAX_BLOCKS,
        }),
        table(BlockLayout {
            content: u64::from(MAX_BLOCKS) * u64::from(block),
            block,
            blocks: MAX_BLOCKS,
        }),
    ]
}

/// threat-model §8: what a block may take is bounded, whatever it says of itself; beyond that it is damage, with its
/// place.
#[tokio::test]
async fn a_block_that_claims_more_than_it_may_is_damage() {
    let temp = tempfile::tempdir().unwrap();
    written(temp.path(), small(), 12, 3).await;
    compress_closed(temp.path());
    let path = segments(temp.path()).remove(0);
    let header = fs::read(&path).unwrap()[..96].to_vec();
    for (nth, (block, layout, offset, words)) in claiming_too_much().into_iter().enumerate() {
        fs::write(&path, forged(&header, &block, layout)).unwrap();
        let problem = look(temp.path()).unwrap();
        assert!(problem.what.contains(words), "case {nth}: {problem}");
        assert_eq!(
            (problem.offset, problem.seq),
            (offset, 1),
            "case {nth}: {problem}"
        );
        assert!(read(temp.path()).is_err(), "case {nth}");
    }
}

/// Every byte is found by its place alone, also where a read goes over the ends of blocks.
#[tokio::test]
async fn a_byte_is_read_without_those_before_it() {
    use crate::store::journal::segment_file::SegmentFile;
    use crate::store::journal::source::FrameSource as _;
    let temp = tempfile::tempdir().unwrap();
    let options = JournalOptions {
        segment_bytes: 600 << 10,
        ..small()
    };
    written(temp.path(), options, 40, 30).await;
    let path = segments(temp.path()).remove(0);
    let plain = fs::read(&path).unwrap();
    compress_one(temp.path(), 1);
    let (_, mut segment) = SegmentFile::open(&path).unwrap();
    assert_eq!(segment.length().unwrap(), plain.len() as u64);
    let edge = 96 + (256 << 10);
    for at in [
        plain.len() - 9,
        edge - 50,
        96,
        edge,
        edge - 1,
        plain.len() - 1,
        plain.len(),
    ] {
        let mut got = vec![0; 100];
        let count = segment.read_up_to(&mut got, at as u64).unwrap();
        assert_eq!(
            got[..count],
            plain[at..plain.len().min(at + 100)],
            "byte {at}"
        );
    }
}
