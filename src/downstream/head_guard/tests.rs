//! Heads, cut anywhere.

use super::*;

mod tls;

const TWO_REQUESTS: &[u8] =
    b"POST / HTTP/1.1\r\nHost: a\r\ncontent-LENGTH: 4\r\n\r\n\n\n{}GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn followed(text: &str) -> Result<bool, BareLineFeed> {
    let mut place = START_STATE;
    place.follow(text.as_bytes(), &mut false)
}

#[test]
fn bodies_may_hold_line_feeds_and_heads_may_not() {
    for chunk in 1..TWO_REQUESTS.len() {
        let mut place = START_STATE;
        let last = TWO_REQUESTS
            .chunks(chunk)
            .map(|part| place.follow(part, &mut false).unwrap())
            .last();
        assert_eq!(last, Some(false), "in chunks of {chunk}");
    }
    let long = format!(
        "GET / HTTP/1.1\r\nX: {}\r\n\r\n",
        "x".repeat(5 * HEADER_LINE_BYTES_MAX)
    );
    assert_eq!(followed(&long), Ok(false));
    for bare in [
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
    ] {
        assert_eq!(followed(bare), Err(BareLineFeed), "{bare:?}");
    }
    let long = format!(
        "GET / HTTP/1.1\r\nX: {}\n\r\n",
        "x".repeat(5 * HEADER_LINE_BYTES_MAX)
    );
    assert_eq!(followed(&long), Err(BareLineFeed));
    let padded = format!(
        "GET / HTTP/1.1\r\nContent-Length:{}4\r\n\r\n",
        " ".repeat(HEADER_LINE_BYTES_MAX)
    );
    assert_eq!(followed(&padded), Err(BareLineFeed));
}

#[test]
fn a_head_has_begun_until_its_empty_line() {
    for (part, in_head) in [
        ("G", true),
        ("ET / HTTP/1.1\r", true),
        ("\n", true),
        ("Host: a\r\n", true),
        ("\r\n", false),
    ] {
        let mut place = START_STATE;
        let all = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let end = all.find(part).unwrap() + part.len();
        let end = if part == "\r\n" { all.len() } else { end };
        assert_eq!(
            place.follow(&all.as_bytes()[..end], &mut false),
            Ok(in_head),
            "{part:?}"
        );
    }
}
