//! Takes one layer of escapes away, a byte at a time, and knows for each byte it gives where it
//! came from.

/// The longest escape: two halves of a character beyond `\uFFFF`.
const MAX_ESCAPE_BYTES: usize = 12;

/// A kind of escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lens {
    /// `\n`, `\"`, `\u0041`, `\x41`: JSON's, and what other languages have beside them.
    Escapes,
    /// The same after any number of backslashes: those before an escape shift each layer of it, as
    /// in `\\\\u0041\\u0042`.
    Runs,
    /// `%41`.
    Percent,
}

/// A byte, and from where to where it was written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unit {
    pub(super) byte: u8,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A lens with what it has not made up its mind about.
#[derive(Debug)]
pub(super) struct LensState {
    lens: Lens,
    pending: [Unit; MAX_ESCAPE_BYTES],
    len: usize,
}

/// What pending bytes are.
enum PendingBytes {
    /// The first one is what it is.
    Literal,
    /// So many of them stand for this character or byte.
    Escape(usize, [u8; 4], usize),
    /// Not to be told yet.
    More,
}

impl LensState {
    pub(super) fn new(lens: Lens) -> Self {
        Self {
            lens,
            pending: [Unit::default(); MAX_ESCAPE_BYTES],
            len: 0,
        }
    }

    /// Takes a byte in and gives what is certain by now.
    pub(super) fn push(&mut self, unit: Unit, give: &mut dyn FnMut(Unit)) {
        if self.len == 0 && unit.byte != self.lens.mark() {
            return give(unit);
        }
        let follows = self.len > 0 && self.pending[self.len - 1].byte == b'\\';
        if self.lens == Lens::Runs && unit.byte == b'\\' && follows {
            self.pending[self.len - 1] = unit;
            return;
        }
        self.pending[self.len] = unit;
        self.len += 1;
        self.drain(false, give);
    }

    /// Nothing follows: what is pending is no escape.
    pub(super) fn flush(&mut self, give: &mut dyn FnMut(Unit)) {
        self.drain(true, give);
    }

    /// Where what is pending begins.
    pub(super) fn earliest(&self) -> Option<usize> {
        self.pending[..self.len].first().map(|unit| unit.start)
    }

    fn drain(&mut self, last: bool, give: &mut dyn FnMut(Unit)) {
        while self.len > 0 {
            let mut bytes = [0; MAX_ESCAPE_BYTES];
            for (byte, unit) in bytes.iter_mut().zip(&self.pending) {
                *byte = unit.byte;
            }
            let used = match self.lens.read(&bytes[..self.len]) {
                PendingBytes::More if !last && self.len < MAX_ESCAPE_BYTES => return,
                PendingBytes::More | PendingBytes::Literal => {
                    give(self.pending[0]);
                    1
                }
                PendingBytes::Escape(used, character, len) => {
                    let (start, end) = (self.pending[0].start, self.pending[used - 1].end);
                    for byte in &character[..len] {
                        give(Unit {
                            byte: *byte,
                            start,
                            end,
                        });
                    }
                    used
                }
            };
            self.pending.copy_within(used..self.len, 0);
            self.len -= used;
        }
    }
}

impl Lens {
    fn mark(self) -> u8 {
        match self {
            Self::Escapes | Self::Runs => b'\\',
            Self::Percent => b'%',
        }
    }

    fn read(self, bytes: &[u8]) -> PendingBytes {
        if bytes.first() != Some(&self.mark()) {
            return PendingBytes::Literal;
        }
        match self {
            Self::Escapes | Self::Runs => escape(bytes),
            Self::Percent => digits(bytes, 1, 2).map_or_else(|why| why, |code| byte(3, code)),
        }
    }
}

fn escape(bytes: &[u8]) -> PendingBytes {
    let plain = match bytes.get(1) {
        None => return PendingBytes::More,
        Some(b'u') => return unicode(bytes),
        Some(b'x') => return digits(bytes, 2, 2).map_or_else(|why| why, |code| byte(4, code)),
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(sign @ (b'"' | b'\'' | b'\\' | b'/')) => *sign,
        Some(_) => return PendingBytes::Literal,
    };
    byte(2, u32::from(plain))
}

fn unicode(bytes: &[u8]) -> PendingBytes {
    let high = match digits(bytes, 2, 4) {
        Ok(high) => high,
        Err(read) => return read,
    };
    if !(0xd800..0xdc00).contains(&high) {
        return character(6, high);
    }
    match bytes.get(6..) {
        None | Some([] | [b'\\']) => PendingBytes::More,
        Some([b'\\', b'u', ..]) => match digits(bytes, 8, 4) {
            Ok(low) if (0xdc00..0xe000).contains(&low) => {
                character(12, 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
            }
            Ok(_) | Err(PendingBytes::Literal | PendingBytes::Escape(..)) => character(6, high),
            Err(PendingBytes::More) => PendingBytes::More,
        },
        Some(_) => character(6, high),
    }
}

/// The number that `count` hexadecimal digits from `at` on are.
fn digits(bytes: &[u8], at: usize, count: usize) -> Result<u32, PendingBytes> {
    let there = bytes.get(at..).unwrap_or_default();
    let mut number = 0;
    for digit in there.iter().take(count) {
        number = number * 16
            + char::from(*digit)
                .to_digit(16)
                .ok_or(PendingBytes::Literal)?;
    }
    if there.len() < count {
        Err(PendingBytes::More)
    } else {
        Ok(number)
    }
}

fn byte(used: usize, code: u32) -> PendingBytes {
    u8::try_from(code).map_or(PendingBytes::Literal, |byte| {
        PendingBytes::Escape(used, [byte, 0, 0, 0], 1)
    })
}

fn character(used: usize, code: u32) -> PendingBytes {
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    let mut bytes = [0; 4];
    let len = character.encode_utf8(&mut bytes).len();
    PendingBytes::Escape(used, bytes, len)
}
