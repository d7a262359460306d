//! A head has 32 KiB, as documented (threat-model §13 L4).

use super::{GOOD, guarded, listing, tell};
use crate::harness::answer::exchange;

const LONGEST: usize = 32 << 10;

/// threat-model §13 L4: a head of 40 KB was taken, since what a read brings at once was not
/// counted.
#[tokio::test]
async fn l4_a_head_of_32_kib_is_taken_and_one_byte_more_is_431() {
    let (_oracle, gate) = guarded("").await;
    let agent = gate.agent().token(GOOD);
    let mut cases = 0;
    for field in [1_000, 20_000] {
        for (length, status) in [
            (LONGEST - 1, 200),
            (LONGEST, 200),
            (LONGEST + 1, 431),
            (LONGEST + 2, 431),
            (40_000, 431),
            (50_000, 431),
            (500_000, 431),
        ] {
            let (mut head, body) = listing(&agent);
            head.truncate(head.len() - 2);
            // Padded with fields, the last of which makes it exact; few enough that their number is
            // no matter.
            while head.len() + 2 < length {
                let left = length - 2 - head.len();
                let take = if left > field + 100 { field } else { left };
                let name = "X-Pad: ";
                let value = "x".repeat(take.saturating_sub(name.len() + 2));
                head.extend_from_slice(format!("{name}{value}\r\n").as_bytes());
            }
            head.extend_from_slice(b"\r\n");
            assert_eq!(head.len(), length);
            if field == 1_000 && length > 50_000 {
                continue;
            }
            head.extend_from_slice(&body);
            let answer = exchange(gate.agents, head).await;
            // A client that still writes may lose the answer with the connection.
            let got = answer.map_or(431, |answer| answer.status);
            assert_eq!(got, status, "a head of {length} bytes in fields of {field}");
            cases += 1;
        }
    }
    tell(&format!("heads: {cases} cases"));
    assert_eq!(cases, 13);
}
