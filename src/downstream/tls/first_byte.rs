//! What comes first on a connection to a door that speaks TLS: plain HTTP is told so in HTTP, once
//! and shortly, because what the library would send it, it cannot read.

use crate::downstream::farewell::farewell;
use tokio::net::TcpStream;

const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 51\r\nConnection: close\r\n\r\n\
                                   this door speaks TLS; use https:// in its address.\n";

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstByte {
    /// Perhaps a handshake; the library judges it.
    Tls,
    /// The method of an HTTP request.
    Http,
    /// Nothing.
    Gone,
}

/// Waits for the first byte, and leaves it where it is.
pub(super) async fn look(stream: &TcpStream) -> FirstByte {
    let mut first = [0];
    match stream.peek(&mut first).await {
        Ok(1) => of(first[0]),
        Ok(_) | Err(_) => FirstByte::Gone,
    }
}

fn of(first: u8) -> FirstByte {
    // A handshake begins with 22, one of an SSL of old with 128 or more.
    if first.is_ascii_alphabetic() {
        FirstByte::Http
    } else {
        FirstByte::Tls
    }
}

/// Answers 400, and ends the connection.
pub(super) async fn refuse(stream: TcpStream) {
    farewell(stream, PLAIN_HTTP_ANSWER).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_plain_http_has_the_length_that_it_says() {
        let text = std::str::from_utf8(PLAIN_HTTP_ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
    }

    #[test]
    fn a_method_is_told_from_a_handshake() {
        assert_eq!(of(b'P'), FirstByte::Http);
        assert_eq!([of(22), of(128)], [FirstByte::Tls; 2]);
    }
}
