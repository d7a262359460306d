//! One pass over a JSON text that builds nothing and refuses everything a peer could read
//! differently.

use super::bounds::{STRING_TOO_LONG, TEXT_TOO_LONG, TOO_DEEP, TOO_MANY_VALUES};
use super::digests::{PlainKey, digest};
use super::fold::folded;
use super::index::{IndexBuilder, NotedObject, PassedKey};
use super::ordinary::{ordinary, unescaped};
use super::{JsonLimits, Malformed, SERVER_JSON_LIMITS, decode};
use std::collections::HashSet;
use std::ops::Range;

const NOT_UTF8: &str = "invalid UTF-8";
/// With what the names begin under which `serde_json` hides numbers and texts of its own.
const RESERVED_KEY_PREFIX: &str = "$serde_json::private::";
/// Up to here a new key is compared with each before it; above, a set is kept.
const LINEAR_SEARCH_KEYS: usize = 24;
/// Nested arrays and objects down to which the scanner stands on the stack. No limits let more pass
/// strictly; where oddities are let pass, what is deeper is passed without it.
pub(super) const MAX_STACKED_DEPTH: usize = 512;

/// What one pass over a text finds.
pub(super) struct Scanned {
    /// Where the value stands, without white space around it.
    pub(super) range: Range<usize>,
    /// Where its members stand.
    pub(super) noted: Option<NotedObject>,
    /// The first of what the limits refuse, where that is let pass.
    pub(super) odd: Option<Malformed>,
}

/// Refuses what `limits` refuse.
pub(super) fn scan(text: &[u8], limits: &JsonLimits) -> Result<Scanned, Malformed> {
    scanned(text, limits, false)
}

/// The same of a text that any parser reads as one JSON value, with the first of what `limits`
/// refuses in it. Its bytes are bounded all the same, and with them its values and levels.
pub(super) fn scan_oddly(text: &[u8], limits: &JsonLimits) -> Result<Scanned, Malformed> {
    scanned(text, limits, true)
}

fn scanned(text: &[u8], limits: &JsonLimits, is_lenient: bool) -> Result<Scanned, Malformed> {
    if text.len() > limits.bytes {
        return Err(Malformed {
            what: TEXT_TOO_LONG,
            at: limits.bytes,
        });
    }
    let scanner = Scanner {
        text,
        at: 0,
        nodes: 0,
        keys: Vec::with_capacity(16),
        limits,
        is_lenient,
        odd: None,
        index: IndexBuilder::default(),
    };
    // Whatever else is wrong with a text that is no UTF-8: that is what is said of it.
    scanner
        .whole()
        .map_err(|malformed| match std::str::from_utf8(text) {
            Ok(_) => malformed,
            Err(error) => Malformed {
                what: NOT_UTF8,
                at: error.valid_up_to(),
            },
        })
}

pub(super) struct Scanner<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
    nodes: usize,
    /// Digests of the folded keys of all objects that are open.
    keys: Vec<u64>,
    pub(super) limits: &'a JsonLimits,
    is_lenient: bool,
    /// The first of what `limits` refuses, where that is let pass.
    odd: Option<Malformed>,
    index: IndexBuilder,
}

impl Scanner<'_> {
    fn whole(mut self) -> Result<Scanned, Malformed> {
        self.space();
        let start = self.at;
        self.value(0)?;
        let end = self.at;
        self.space();
        if self.at != self.text.len() {
            return self.refuse("text after the value");
        }
        Ok(Scanned {
            range: start..end,
            noted: self.index.finish(start),
            odd: self.odd,
        })
    }

    pub(super) fn refuse<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed { what, at: self.at })
    }

    /// What is JSON, and that the limits refuse.
    pub(super) fn odd(&mut self, what: &'static str, at: usize) -> Result<(), Malformed> {
        let odd = Malformed { what, at };
        if !self.is_lenient {
            return Err(odd);
        }
        self.odd.get_or_insert(odd);
        Ok(())
    }

    fn deeper(&mut self, depth: usize) -> Result<(), Malformed> {
        if depth <= self.limits.depth {
            return Ok(());
        }
        self.odd(TOO_DEEP, self.at)
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    pub(super) fn value(&mut self, depth: usize) -> Result<(), Malformed> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            self.odd(TOO_MANY_VALUES, self.at)?;
        }
        match self.peek() {
            Some(b'{' | b'[') if depth == MAX_STACKED_DEPTH => self.beyond(),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string(self.limits.string).map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            Some(_) => self.refuse("not a JSON value"),
            None => self.refuse("unexpected end"),
        }
    }

    fn word(&mut self, word: &[u8]) -> Result<(), Malformed> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        self.refuse("not a JSON value")
    }

    fn array(&mut self, depth: usize) -> Result<(), Malformed> {
        self.deeper(depth)?;
        self.index.arrays += 1;
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.index.arrays -= 1;
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            self.value(depth)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.index.arrays -= 1;
                    self.at += 1;
                    return Ok(());
                }
                _ => return self.refuse("expected `,` or `]`"),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Malformed> {
        self.deeper(depth)?;
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let first = self.keys.len();
        let mut many: Option<HashSet<u64>> = None;
        loop {
            self.space();
            let key = self.key(depth, first, &mut many)?;
            self.colon()?;
            let member = self.index.begins(depth, &key, self.at);
            self.value(depth)?;
            self.index.ends(member, self.at);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    self.keys.truncate(first);
                    return Ok(());
                }
                _ => return self.refuse("expected `,` or `}`"),
            }
        }
    }

    /// Passes what stands between a key and its value.
    pub(super) fn colon(&mut self) -> Result<(), Malformed> {
        self.space();
        if self.peek() != Some(b':') {
            return self.refuse("expected `:`");
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    fn key(
        &mut self,
        depth: usize,
        first: usize,
        many: &mut Option<HashSet<u64>>,
    ) -> Result<PassedKey, Malformed> {
        let start = self.at;
        let plain = self.written_key()?;
        let passed = PassedKey::new(start..self.at, plain);
        // What has so many values is odd as it is. Its keys are not remembered: that would take many
        // times the memory of the text.
        if self.nodes > SERVER_JSON_LIMITS.nodes {
            return Ok(passed);
        }
        let folds = depth <= self.limits.folded_depth;
        let digest = self.digest(start..self.at, plain, folds)?;
        let known = match many {
            Some(set) => !set.insert(digest),
            None => self.keys[first..].contains(&digest),
        };
        if known {
            self.odd("duplicate key, or keys that differ in case only", start)?;
        } else if many.is_none() {
            self.keys.push(digest);
            if self.keys.len() - first > LINEAR_SEARCH_KEYS {
                *many = Some(self.keys[first..].iter().copied().collect());
            }
        }
        Ok(passed)
    }

    /// Passes a key; true if it is plain ASCII without escapes.
    pub(super) fn written_key(&mut self) -> Result<bool, Malformed> {
        if self.peek() != Some(b'"') {
            return self.refuse("expected a key");
        }
        self.string(self.limits.key)
    }

    /// Two keys are the same when their digests are: a collision refuses, it never lets anything
    /// pass.
    fn digest(&mut self, range: Range<usize>, plain: bool, folds: bool) -> Result<u64, Malformed> {
        let text = self.text;
        let inner = &text[range.start + 1..range.end - 1];
        if plain {
            let PlainKey { digest, has_delete } = PlainKey::of(inner, folds);
            if has_delete {
                self.odd("control character in a key", range.start)?;
            }
            if inner.starts_with(RESERVED_KEY_PREFIX.as_bytes()) {
                self.odd("reserved key", range.start)?;
            }
            return Ok(digest);
        }
        let Some(key) = decode(&text[range.clone()]) else {
            return Err(Malformed {
                what: "unreadable key",
                at: range.start,
            });
        };
        if key.starts_with(RESERVED_KEY_PREFIX) {
            self.odd("reserved key", range.start)?;
        }
        if key.chars().any(char::is_control) {
            self.odd("control character in a key", range.start)?;
        }
        if !folds {
            return Ok(digest(&key));
        }
        Ok(digest(&folded(&key)))
    }

    /// Passes a string; true if it is plain ASCII without escapes.
    fn string(&mut self, longest: usize) -> Result<bool, Malformed> {
        let start = self.at + 1;
        self.at = start;
        let (mut is_ascii, mut has_escapes) = (true, false);
        loop {
            let rest = &self.text[self.at..];
            self.at += if is_ascii {
                ordinary(rest)
            } else {
                unescaped(rest)
            };
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    self.escape()?;
                }
                Some(byte) if byte < 0x20 => return self.refuse("control character in a string"),
                Some(_) => is_ascii = false,
                None => return self.refuse("unexpected end of a string"),
            }
        }
        // Outside of strings nothing passes but ASCII.
        if !is_ascii && std::str::from_utf8(&self.text[start..self.at]).is_err() {
            return self.refuse(NOT_UTF8);
        }
        if self.at - start > longest {
            self.odd(STRING_TOO_LONG, self.at)?;
        }
        self.at += 1;
        Ok(is_ascii && !has_escapes)
    }

    fn escape(&mut self) -> Result<(), Malformed> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(())
            }
            Some(b'u') => {
                let unit = self.unit(self.at + 2)?;
                if unit == 0 && self.limits.differential {
                    self.odd("NUL in a string", self.at)?;
                }
                let is_paired = matches!(unit, 0xD800..=0xDBFF)
                    && self.text.get(self.at + 6..self.at + 8) == Some(b"\\u")
                    && matches!(self.unit(self.at + 8)?, 0xDC00..=0xDFFF);
                if !is_paired && matches!(unit, 0xD800..=0xDFFF) {
                    self.odd("lone surrogate", self.at)?;
                }
                self.at += if is_paired { 12 } else { 6 };
                Ok(())
            }
            _ => self.refuse("unknown escape"),
        }
    }

    fn unit(&self, at: usize) -> Result<u32, Malformed> {
        let digits = self
            .text
            .get(at..at + 4)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let plain = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match plain.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(unit) => Ok(unit),
            None => Err(Malformed {
                what: "unknown escape",
                at,
            }),
        }
    }
}
