//! Resource URIs as policies compare them (threat-model §3C C3): strictly read (RFC 3986), in one
//! form. What two programs could read as two things is no URI here: dot segments, empty segments,
//! separators that are encoded twice, credentials. URIs travel as they were written; only the
//! comparison sees this form.

use super::readable::composed;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Bytes of the longest URI.
pub(crate) const MAX_URI_BYTES: usize = 2 << 10;

/// A URI that was read strictly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uri {
    text: String,
}

/// Why a text is no URI that has one reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// More than [`MAX_URI_BYTES`] bytes, or none.
    #[error("it is empty or longer than {MAX_URI_BYTES} bytes")]
    Length,
    /// No scheme, or one with other letters.
    #[error("it has no scheme such as `file:`")]
    Scheme,
    /// A letter that no URI has, or that is not seen or can be taken for a separator.
    #[error("it holds a letter that no URI has, or that can be taken for another")]
    Letter,
    /// `%` without two digits, bytes that are no UTF-8, control characters, a backslash, an encoded
    /// `%41`.
    #[error("its percent-encoding has more than one reading")]
    Encoding,
    /// `.` or `..` between separators.
    #[error("it holds a dot segment")]
    Dots,
    /// `//` in a path.
    #[error("it holds an empty segment")]
    Empty,
    /// `user:password@`.
    #[error("it holds credentials")]
    Credentials,
    /// A host or port that is none, or that is written unlike browsers read it.
    #[error("its host or port has more than one reading")]
    Host,
    /// A `file:` URI with a host, a query or a fragment, or without an absolute path.
    #[error("it names no file: write `file:///` and an absolute path")]
    File,
}

/// What `*` is in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Star {
    /// A letter, as in every URI: encoded, so that a pattern can name it.
    Letter,
    /// Any text, as in every pattern.
    Any,
}

impl Uri {
    /// Reads `text` strictly.
    pub(crate) fn read(text: &str) -> Result<Self, Unclear> {
        Self::read_with(text, Star::Letter)
    }

    /// Reads a pattern of URIs, in which `*` is any text and `%2A` is the letter.
    pub(crate) fn read_pattern(text: &str) -> Result<Self, Unclear> {
        Self::read_with(text, Star::Any)
    }

    fn read_with(text: &str, star: Star) -> Result<Self, Unclear> {
        if text.is_empty() || text.len() > MAX_URI_BYTES {
            return Err(Unclear::Length);
        }
        let (scheme, rest) = text
            .split_once(':')
            .filter(|(scheme, _)| is_scheme(scheme))
            .ok_or(Unclear::Scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        let (authority, rest) = match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
                (Some(authority(&scheme, &rest[..end])?), &rest[end..])
            }
            None => (None, rest),
        };
        let rest = normal(rest, star)?;
        judge_segments(authority.as_deref(), &rest)?;
        let path = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
        let text = match (scheme.as_str(), authority) {
            ("file", None | Some(_)) if path.len() != rest.len() || !path.starts_with('/') => {
                return Err(Unclear::File);
            }
            ("file", authority) => match authority.as_deref() {
                None | Some("" | "localhost") => format!("file://{rest}"),
                Some(_) => return Err(Unclear::File),
            },
            (scheme, Some(authority)) => {
                let slash = if path.is_empty() && is_web(scheme) {
                    "/"
                } else {
                    ""
                };
                format!("{scheme}://{authority}{slash}{rest}")
            }
            (scheme, None) => format!("{scheme}:{rest}"),
        };
        Ok(Self { text })
    }

    /// In the one form that patterns are compared with.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// What all must be allowed: itself, and what a server reads that decodes `%2F` before it looks
    /// for separators.
    pub(crate) fn whole(&self) -> Vec<String> {
        let mut readings = vec![self.text.clone()];
        if self.text.contains("%2F") {
            readings.push(self.text.replace("%2F", "/"));
        }
        readings
    }

    /// What must all not be denied: the same, what a server reads that takes no delimiter for
    /// another than what it encodes ([`loose`]), and each of them without its query and its
    /// fragment.
    pub(crate) fn parts(&self) -> Vec<String> {
        let mut readings = self.whole();
        if let Some(loose) = loose(&self.text).filter(|loose| !readings.contains(loose)) {
            readings.push(loose);
        }
        for index in 0..readings.len() {
            for end in ['#', '?'] {
                if let Some(at) = readings[index].find(end) {
                    let part = readings[index][..at].to_owned();
                    if !readings.contains(&part) {
                        readings.push(part);
                    }
                }
            }
        }
        readings
    }
}

/// `text`, a URI in its form or a pattern, as a server reads it that decodes before it looks for
/// delimiters, and that reads `+` as a blank; none if that is the same.
pub(crate) fn loose(text: &str) -> Option<String> {
    const DELIMITERS: [(&str, &str); 8] = [
        ("%2F", "/"),
        ("%3F", "?"),
        ("%23", "#"),
        ("%26", "&"),
        ("%3D", "="),
        ("%3B", ";"),
        ("%2B", "+"),
        ("%20", "+"),
    ];
    let is_loose = !DELIMITERS.iter().any(|(encoded, _)| text.contains(encoded));
    let decoded = |text: String, (encoded, plain): &(&str, &str)| text.replace(encoded, plain);
    (!is_loose).then(|| DELIMITERS.iter().fold(text.to_owned(), decoded))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Schemes whose hosts are machines, which browsers and servers write in several ways.
fn is_web(scheme: &str) -> bool {
    matches!(scheme, "http" | "https" | "ws" | "wss" | "ftp")
}

fn authority(scheme: &str, text: &str) -> Result<String, Unclear> {
    if text.contains('@') || text.to_ascii_lowercase().contains("%40") {
        return Err(Unclear::Credentials);
    }
    let (host, port) = match text.rfind(':').filter(|at| !text[*at..].contains(']')) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let port = match port {
        None => None,
        Some(port) => Some(
            port.parse::<u16>()
                .ok()
                .filter(|number| number.to_string() == port)
                .ok_or(Unclear::Host)?,
        ),
    };
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_literal = bracketed.is_some_and(|literal| literal.parse::<std::net::Ipv6Addr>().is_ok());
    let is_name =
        |letter: char| letter.is_ascii_alphanumeric() || "-._~!$&'()*+,;=".contains(letter);
    if !is_literal
        && !host
            .chars()
            .all(|letter| is_name(letter) || is_clear(letter))
    {
        return Err(Unclear::Host);
    }
    let mut host = in_one_spelling(host.to_lowercase())?;
    if is_web(scheme) {
        let known = url::Host::parse(&host).map_err(|_| Unclear::Host)?;
        // As browsers read it: numbers of other bases, letters of other scripts and a dot at the
        // end are other ways.
        if known.to_string() != host && !host.contains('*') {
            return Err(Unclear::Host);
        }
        if host.ends_with('.') {
            host.pop();
        }
    }
    let usual = match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    };
    Ok(match port.filter(|port| Some(*port) != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

/// Path, query and fragment with each letter in one way: what need not be encoded is not, what must
/// be is in capitals.
fn normal(text: &str, star: Star) -> Result<String, Unclear> {
    let mut out = String::with_capacity(text.len());
    let (bytes, mut at) = (text.as_bytes(), 0);
    let (mut fragments, mut is_path) = (0, true);
    while let Some(letter) = text[at..].chars().next() {
        if letter == '%' {
            at += decode(bytes, at, is_path, &mut out)?;
            continue;
        }
        let is_plain = letter.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@/?#".contains(letter);
        fragments += usize::from(letter == '#');
        is_path &= !matches!(letter, '?' | '#');
        if !(is_plain || is_clear(letter)) || fragments > 1 {
            return Err(Unclear::Letter);
        }
        match (letter, star) {
            ('*', Star::Letter) => out.push_str("%2A"),
            _ => out.push(letter),
        }
        at += letter.len_utf8();
    }
    in_one_spelling(out)
}

/// The same [`composed`], where no digit of what is encoded is a letter. Of the letters that become
/// ASCII one becomes what no URI has.
fn in_one_spelling(text: String) -> Result<String, Unclear> {
    if matches!(composed(&text), Cow::Borrowed(_)) {
        return Ok(text);
    }
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('%').enumerate() {
        let (digits, letters) = part.split_at(if index == 0 { 0 } else { 2 });
        out.push_str(if index == 0 { "" } else { "%" });
        out.push_str(digits);
        out.push_str(&composed(letters));
    }
    if out.contains('`') {
        Err(Unclear::Letter)
    } else {
        Ok(out)
    }
}

/// Decodes what is encoded at `at`; says how many bytes that were. In a path all that a path can
/// hold as it is, but for `/`; in a query or a fragment all but what stands between its names and
/// values when it is not encoded.
fn decode(bytes: &[u8], at: usize, is_path: bool, out: &mut String) -> Result<usize, Unclear> {
    let first = byte(bytes, at).ok_or(Unclear::Encoding)?;
    match first {
        // What a tool server decodes twice would be another text then.
        b'%' if is_twice(bytes, at + 3) => Err(Unclear::Encoding),
        0..=0x1f | 0x7f | b'\\' => Err(Unclear::Encoding),
        0x80.. => {
            let size = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return Err(Unclear::Encoding),
            };
            let encoded: Option<Vec<u8>> =
                (0..size).map(|index| byte(bytes, at + 3 * index)).collect();
            let decoded = encoded
                .and_then(|encoded| String::from_utf8(encoded).ok())
                .ok_or(Unclear::Encoding)?;
            if !decoded.chars().all(is_clear) {
                return Err(Unclear::Letter);
            }
            out.push_str(&decoded);
            Ok(3 * size)
        }
        plain if plain.is_ascii_alphanumeric() || b"-._~!$'(),:@".contains(&plain) => {
            out.push(char::from(plain));
            Ok(3)
        }
        plain if is_path && b"&+;=".contains(&plain) => {
            out.push(char::from(plain));
            Ok(3)
        }
        other => {
            let _ = write!(out, "%{other:02X}");
            Ok(3)
        }
    }
}

/// The byte that is encoded at `at`.
fn byte(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = bytes.get(at..at + 3)?.strip_prefix(b"%")?;
    u8::from_str_radix(
        std::str::from_utf8(digits)
            .ok()
            .filter(|digits| !digits.starts_with('+'))?,
        16,
    )
    .ok()
}

/// Are there two hexadecimal digits, encoded or not, so that the percent sign before them would be
/// decoded again?
fn is_twice(bytes: &[u8], at: usize) -> bool {
    let letter = |at| {
        byte(bytes, at)
            .map(|letter| (letter, 3))
            .or_else(|| Some((*bytes.get(at)?, 1)))
    };
    let Some((first, size)) = letter(at) else {
        return false;
    };
    letter(at + size)
        .is_some_and(|(second, _)| first.is_ascii_hexdigit() && second.is_ascii_hexdigit())
}

/// A letter beyond ASCII that is seen, and that no normalization makes a separator or a dot of.
fn is_clear(letter: char) -> bool {
    !letter.is_ascii()
        && !crate::mcp::readable::is_misleading(letter)
        && !letter.is_whitespace()
        && !matches!(
            letter,
            '\u{2024}'..='\u{2027}' | '\u{2044}' | '\u{2215}' | '\u{2216}' | '\u{29f5}'..='\u{29f9}' | '\u{3002}'
                | '\u{fe10}'..='\u{fe19}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ffef}' | '\u{fffd}'
                | '\u{1d16d}' | '\u{2100}'..='\u{2101}' | '\u{2105}'..='\u{2106}' | '\u{037e}' | '\u{0338}'
        )
}

/// No part that some program reads as "here", "one up" or "the root".
fn judge_segments(authority: Option<&str>, rest: &str) -> Result<(), Unclear> {
    let decoded = rest.replace("%2F", "/");
    let path = &decoded[..decoded.find(['?', '#']).unwrap_or(decoded.len())];
    if path.contains("//") {
        return Err(Unclear::Empty);
    }
    let loose = loose(rest).unwrap_or(decoded);
    let parts = loose
        .split(['/', '?', '#', '&', '=', ';', ':'])
        .chain(authority);
    let is_dots = |part: &str| {
        // What is behind the dots may be a blank, which some programs take away.
        let part = part.trim_end_matches('+');
        matches!(part, "." | "..")
    };
    if parts.into_iter().any(is_dots) {
        Err(Unclear::Dots)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
