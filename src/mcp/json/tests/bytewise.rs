//! The rules of the strict reader once more, byte by byte and with every key kept: what one of the
//! two refuses, and where, so does the other (threat-model §3A A1–A7).

use super::super::bounds::{STRING_TOO_LONG, TEXT_TOO_LONG, TOO_DEEP, TOO_MANY_VALUES};
use super::super::fold::folded;
use super::super::scan::{Scanned, scan, scan_oddly};
use super::*;

const LARGEST_SAFE: f64 = 9_007_199_254_740_991.0;

/// Bounds that small texts pass.
const LOW_LIMITS: JsonLimits = JsonLimits {
    bytes: 120,
    depth: 3,
    nodes: 12,
    key: 8,
    string: 20,
    differential: true,
    folded_depth: 2,
};

struct ByteReader<'a> {
    text: &'a [u8],
    at: usize,
    nodes: usize,
    limits: &'a JsonLimits,
    is_lenient: bool,
    odd: Option<Malformed>,
}

/// What the text is refused for; where oddities are let pass, the first of them.
fn judged(
    text: &[u8],
    limits: &JsonLimits,
    is_lenient: bool,
) -> Result<Option<Malformed>, Malformed> {
    if text.len() > limits.bytes {
        let (what, at) = (TEXT_TOO_LONG, limits.bytes);
        return Err(Malformed { what, at });
    }
    if let Err(error) = std::str::from_utf8(text) {
        let (what, at) = ("invalid UTF-8", error.valid_up_to());
        return Err(Malformed { what, at });
    }
    let mut reader = ByteReader {
        text,
        at: 0,
        nodes: 0,
        limits,
        is_lenient,
        odd: None,
    };
    reader.space();
    reader.value(0)?;
    reader.space();
    if reader.at < text.len() {
        return reader.refuse("text after the value");
    }
    Ok(reader.odd)
}

impl ByteReader<'_> {
    fn refuse<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed { what, at: self.at })
    }

    fn odd(&mut self, what: &'static str, at: usize) -> Result<(), Malformed> {
        let odd = Malformed { what, at };
        if self.is_lenient {
            self.odd = self.odd.or(Some(odd));
            return Ok(());
        }
        Err(odd)
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|byte| b" \t\r\n".contains(&byte)) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), Malformed> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            self.odd(TOO_MANY_VALUES, self.at)?;
        }
        let Some(first) = self.peek() else {
            return self.refuse("unexpected end");
        };
        if matches!(first, b'{' | b'[') && depth + 1 > self.limits.depth {
            self.odd(TOO_DEEP, self.at)?;
        }
        match first {
            b'{' => self.object(depth + 1),
            b'[' => self.array(depth + 1),
            b'"' => self.string(self.limits.string).map(|_| ()),
            b'-' | b'0'..=b'9' => self.number(),
            _ => {
                let words: [&[u8]; 3] = [b"true", b"false", b"null"];
                let rest = &self.text[self.at..];
                match words.iter().find(|word| rest.starts_with(word)) {
                    Some(word) => self.at += word.len(),
                    None => return self.refuse("not a JSON value"),
                }
                Ok(())
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), Malformed> {
        self.at += 1;
        self.space();
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            self.space();
            self.value(depth)?;
            self.space();
            if self.takes(b']') {
                return Ok(());
            }
            if !self.takes(b',') {
                return self.refuse("expected `,` or `]`");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Malformed> {
        self.at += 1;
        self.space();
        if self.takes(b'}') {
            return Ok(());
        }
        let mut keys: Vec<String> = Vec::new();
        loop {
            self.space();
            let start = self.at;
            let key = self.key()?;
            let key = if depth <= self.limits.folded_depth {
                folded(&key)
            } else {
                key
            };
            if keys.contains(&key) {
                self.odd("duplicate key, or keys that differ in case only", start)?;
            }
            keys.push(key);
            self.space();
            if !self.takes(b':') {
                return self.refuse("expected `:`");
            }
            self.space();
            self.value(depth)?;
            self.space();
            if self.takes(b'}') {
                return Ok(());
            }
            if !self.takes(b',') {
                return self.refuse("expected `,` or `}`");
            }
        }
    }

    fn key(&mut self) -> Result<String, Malformed> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return self.refuse("expected a key");
        }
        let is_plain = self.string(self.limits.key)?;
        let Some(key) = decode(&self.text[start..self.at]) else {
            let what = "unreadable key";
            return Err(Malformed { what, at: start });
        };
        let key = key.into_owned();
        let mut oddities = [
            ("control character in a key", key.contains(char::is_control)),
            ("reserved key", key.starts_with("$serde_json::private::")),
        ];
        if !is_plain {
            oddities.reverse();
        }
        for (what, _) in oddities.into_iter().filter(|(_, is_there)| *is_there) {
            self.odd(what, start)?;
        }
        Ok(key)
    }

    fn string(&mut self, longest: usize) -> Result<bool, Malformed> {
        let start = self.at + 1;
        self.at = start;
        let mut is_plain = true;
        loop {
            match self.peek() {
                None => return self.refuse("unexpected end of a string"),
                Some(b'"') => break,
                Some(0..0x20) => return self.refuse("control character in a string"),
                Some(b'\\') => {
                    is_plain = false;
                    self.escape()?;
                }
                Some(byte) => {
                    is_plain &= byte.is_ascii();
                    self.at += 1;
                }
            }
        }
        if self.at - start > longest {
            self.odd(STRING_TOO_LONG, self.at)?;
        }
        self.at += 1;
        Ok(is_plain)
    }

    fn escape(&mut self) -> Result<(), Malformed> {
        let here = self.at;
        match self.text.get(here + 1) {
            Some(b'u') => {}
            Some(byte) if b"\"\\/bfnrt".contains(byte) => {
                self.at += 2;
                return Ok(());
            }
            _ => return self.refuse("unknown escape"),
        }
        let unit = self.unit(here + 2)?;
        self.at += 6;
        if unit == 0 && self.limits.differential {
            self.odd("NUL in a string", here)?;
        }
        let is_high = (0xD800..0xDC00).contains(&unit);
        if is_high && self.text[self.at..].starts_with(b"\\u") {
            let low = self.unit(here + 8)?;
            if (0xDC00..0xE000).contains(&low) {
                self.at += 6;
                return Ok(());
            }
        }
        if (0xD800..0xE000).contains(&unit) {
            self.odd("lone surrogate", here)?;
        }
        Ok(())
    }

    fn unit(&self, at: usize) -> Result<u32, Malformed> {
        let mut unit = 0;
        for place in at..at + 4 {
            let digit = self.text.get(place).map(|byte| char::from(*byte));
            let Some(digit) = digit.and_then(|digit| digit.to_digit(16)) else {
                let what = "unknown escape";
                return Err(Malformed { what, at });
            };
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    fn number(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        let is_negative = self.takes(b'-');
        let first = self.peek();
        let whole = self.digits();
        if whole == 0 || (whole > 1 && first == Some(b'0')) {
            return self.refuse("malformed number");
        }
        let is_whole = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        if self.takes(b'.') && self.digits() == 0 {
            return self.refuse("malformed number");
        }
        let mantissa = start..self.at;
        if self.takes(b'e') || self.takes(b'E') {
            let _ = self.takes(b'+') || self.takes(b'-');
            if self.digits() == 0 {
                return self.refuse("malformed number");
            }
        }
        let is_zero = !self.text[mantissa]
            .iter()
            .any(|byte| b"123456789".contains(byte));
        if is_zero && is_negative && self.limits.differential {
            self.odd("negative zero; some readers drop its sign", start)?;
        }
        let written = std::str::from_utf8(&self.text[start..self.at]).unwrap();
        let double: f64 = written.parse().unwrap();
        let is_exact = written.parse::<i64>().is_ok() || written.parse::<u64>().is_ok();
        let is_safe = if is_whole {
            is_exact
        } else {
            double.abs() <= LARGEST_SAFE || double.fract() != 0.0
        };
        if !double.is_finite()
            || (self.limits.differential && !is_safe && (is_zero || double != 0.0))
        {
            self.odd(
                "number that neither 64 bits nor a double hold exactly; send it as a string",
                start,
            )?;
        } else if self.limits.differential && double == 0.0 && !is_zero {
            self.odd(
                "number that a double takes for zero; send it as a string",
                start,
            )?;
        }
        Ok(())
    }
}

fn agree(text: &[u8]) {
    let odd = |scanned: Scanned| scanned.odd;
    for limits in [&AGENT_JSON_LIMITS, &SERVER_JSON_LIMITS, &LOW_LIMITS] {
        let shown = text.escape_ascii();
        assert_eq!(
            scan(text, limits).map(odd),
            judged(text, limits, false),
            "{shown}"
        );
        assert_eq!(
            scan_oddly(text, limits).map(odd),
            judged(text, limits, true),
            "{shown}"
        );
    }
}

/// What makes a text what it is, or is no longer, to one reader or another.
const PIECES: &[&[u8]] = &[
    b"{", b"}", b"[", b"]", b":", b",", b"\"", b"\\", b" ", b"\n", b"\r\t",
    b"\"a\"", b"\"A\"", b"\"a\":", b"\"A\":1", b"\"\\u0061\":", b"\"name\":", b"\"NAME\":",
    b"\"a key that is longer than a word\"", b"\"A KEY that is longer than a word\":{}",
    b"\"a long text of which no byte is special, so that it is passed in strides, and again, and again\"",
    b"\"$serde_json::private::Number\"", b"\"$serde_json::private::\\u007f\":", b"\"$serde_json::private::\x7f\":",
    "\"k\u{e4}se\"".as_bytes(), "\"\u{212a}\":".as_bytes(), "\"\u{5de5}\u{5177}\u{8c03}\u{7528}\u{ff0c}\u{4e00}\u{6b21}\"".as_bytes(),
    "\u{85}".as_bytes(), "\u{1f600}".as_bytes(), "\u{feff}".as_bytes(),
    b"\\u0000", b"\\ud83d\\ude00", b"\\ud800", b"\\udc00", b"\\u00g0", b"\\u12", b"\\n", b"\\x", b"\\\"",
    b"\0", b"\x1f", b"\x7f", b"\x80", b"\xc3", b"\xe4\xbd", b"\xff",
    b"0", b"-0", b"-0.0", b"00", b"-", b"1.5", b"1.", b".5", b"1e5", b"1E+2", b"1e", b"1e400", b"-1e-400", b"1e17",
    b"9007199254740991", b"9007199254740993.0", b"18446744073709551615", b"18446744073709551616",
    b"-9223372036854775808", b"123456789012345.678", b"1234567890123456.5", b"0.00000000000000000001",
    b"true", b"false", b"null", b"nul", b"truefalse",
];

fn piece() -> impl Strategy<Value = &'static [u8]> {
    prop::sample::select(PIECES)
}

/// JSON with a few pieces put into it, or in the place of what stood there.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![json(), nearly_known()];
    let change = (any::<prop::sample::Index>(), 0..4_usize, piece());
    (value, any::<bool>(), prop::collection::vec(change, 0..4)).prop_map(
        |(value, is_pretty, changes)| {
            let written = if is_pretty {
                serde_json::to_vec_pretty(&value)
            } else {
                serde_json::to_vec(&value)
            };
            let mut text = written.unwrap();
            for (at, length, piece) in changes {
                let at = at.index(text.len() + 1);
                let end = (at + length).min(text.len());
                text.splice(at..end, piece.iter().copied());
            }
            text
        },
    )
}

#[test]
fn each_piece_is_judged_as_byte_by_byte() {
    for piece in PIECES {
        agree(piece);
        agree(&[b"[", *piece, b"]"].concat());
        agree(&[b"{", *piece, b":", piece, b"}"].concat());
        agree(&[b"{\"a\":{", *piece, b"1}}"].concat());
        agree(&[b"\"", *piece, b"\""].concat());
    }
    // A fraction of many digits is still no zero, and one of more than a double has is.
    for zeros in [10, 290, 297, 300, 322, 330] {
        agree(format!("0.{}1", "0".repeat(zeros)).as_bytes());
        agree(format!("-0.{}", "0".repeat(zeros)).as_bytes());
        agree(format!("1.{}1", "0".repeat(zeros)).as_bytes());
    }
}

proptest! {
    #[test]
    fn json_that_is_changed_is_judged_as_byte_by_byte(text in nearly_json()) { agree(&text); }

    #[test]
    fn pieces_are_judged_as_byte_by_byte(pieces in prop::collection::vec(piece(), 0..12)) {
        agree(&pieces.concat());
    }

    #[test]
    fn numbers_are_judged_as_byte_by_byte(text in r"-?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?") {
        agree(text.as_bytes());
    }

    /// Strings that end, or have what is special, at any place of a word or stride.
    #[test]
    fn strings_are_judged_as_byte_by_byte(before in 0..140_usize, piece in piece(), after in 0..140_usize, close: bool) {
        let (before, after) = (b"x".repeat(before), b"y".repeat(after));
        let text = [&b"\""[..], &before, piece, &after, &b"\""[..usize::from(close)]];
        agree(&text.concat());
    }
}
