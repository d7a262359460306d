//! Reads the numbers of a text, and refuses those that a peer could take for others.

use super::Malformed;
use super::scan::Scanner;

const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
/// Digits of a whole number that is below that, whatever they are.
const SAFE_DIGITS: usize = 15;
/// Bytes of a number without an exponent that no double takes for zero, unless it is zero.
const SAFE_FRACTION_BYTES: usize = 300;

impl Scanner<'_> {
    pub(super) fn number(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let whole = self.digits();
        let leading_zero = whole > 1 && self.text[self.at - whole] == b'0';
        if whole == 0 || leading_zero {
            return self.refuse("malformed number");
        }
        let (mut fraction, mut exponent) = (false, false);
        if self.peek() == Some(b'.') {
            fraction = true;
            self.at += 1;
            if self.digits() == 0 {
                return self.refuse("malformed number");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            (fraction, exponent) = (true, true);
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.refuse("malformed number");
            }
        }
        if self.limits.differential && self.text[start] == b'-' && self.is_zero(start) {
            self.odd("negative zero; some readers drop its sign", start)?;
        }
        // Most numbers show that they are safe by how they are written.
        let is_safe = !exponent && whole <= SAFE_DIGITS && self.at - start <= SAFE_FRACTION_BYTES;
        if !is_safe && let Err(odd) = self.magnitude(start, fraction) {
            self.odd(odd.what, odd.at)?;
        }
        Ok(())
    }

    /// Whether the number from `start` to here is zero as it is written.
    fn is_zero(&self, start: usize) -> bool {
        let mut written = self.text[start..self.at]
            .iter()
            .take_while(|byte| !b"eE".contains(byte));
        written.all(|byte| b"-0.".contains(byte))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    /// Whole numbers of 64 bits pass as they are: they are judged and sent exactly. Other numbers
    /// that a double cannot hold exactly mean different things to different peers (RFC 7493 §2.2).
    fn magnitude(&self, start: usize, fraction: bool) -> Result<(), Malformed> {
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        let too_large = Malformed {
            what: "number that neither 64 bits nor a double hold exactly; send it as a string",
            at: start,
        };
        let Ok(number) = text.parse::<f64>() else {
            return Err(too_large);
        };
        if !number.is_finite() {
            return Err(too_large);
        }
        if !self.limits.differential {
            return Ok(());
        }
        if number == 0.0 && !self.is_zero(start) {
            return Err(Malformed {
                what: "number that a double takes for zero; send it as a string",
                at: start,
            });
        }
        let safe = if fraction {
            #[expect(clippy::cast_precision_loss, reason = "2^53−1 is exact in a double")]
            let largest = MAX_SAFE_INTEGER as f64;
            number.abs() <= largest || number.fract() != 0.0
        } else {
            text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()
        };
        if safe { Ok(()) } else { Err(too_large) }
    }
}
