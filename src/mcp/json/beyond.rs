//! Passes what is nested more deeply than a scanner may stand on the stack of a thread that serves
//! others. Only a text that is let pass unread comes here: nothing is noted of it.

use super::Malformed;
use super::scan::{MAX_STACKED_DEPTH, Scanner};

impl Scanner<'_> {
    /// Passes an array or object, however deep it is, in one byte of memory for each of its levels.
    pub(super) fn beyond(&mut self) -> Result<(), Malformed> {
        // With what each that is open closes.
        let mut open = Vec::new();
        loop {
            match self.peek() {
                Some(b'{') => {
                    self.opens(&mut open, b'}');
                    if self.peek() != Some(b'}') {
                        self.member()?;
                        continue;
                    }
                }
                Some(b'[') => {
                    self.opens(&mut open, b']');
                    if self.peek() != Some(b']') {
                        continue;
                    }
                }
                _ => self.value(MAX_STACKED_DEPTH)?,
            }
            if self.closes(&mut open)? {
                return Ok(());
            }
        }
    }

    fn opens(&mut self, open: &mut Vec<u8>, closer: u8) {
        open.push(closer);
        self.at += 1;
        self.space();
    }

    /// Passes a key, up to its value.
    fn member(&mut self) -> Result<(), Malformed> {
        self.written_key()?;
        self.colon()
    }

    /// Passes what follows a value, up to the next one; true if there is none.
    fn closes(&mut self, open: &mut Vec<u8>) -> Result<bool, Malformed> {
        while let Some(closer) = open.last().copied() {
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.space();
                    if closer == b'}' {
                        self.member()?;
                    }
                    return Ok(false);
                }
                Some(byte) if byte == closer => {
                    self.at += 1;
                    open.pop();
                }
                _ => return self.refuse("expected `,` or the end of an array or object"),
            }
        }
        Ok(true)
    }
}
