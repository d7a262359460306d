//! Text of agents and tool servers on one line, so that people see what stands there: what cannot
//! be seen, or turns what others read, stands there by its number, and what is long is cut by itself, so that it
//! hides nothing that comes after it.

use crate::mcp::readable::is_misleading;
use std::fmt::Write as _;

/// `text` in at most `most` bytes, but for the words that say that it was cut.
pub(super) fn visible(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    for letter in text.chars() {
        let before = shown.len();
        if letter.is_control() || is_misleading(letter) {
            // A string takes whatever is written to it.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(letter));
        } else {
            shown.push(letter);
        }
        if shown.len() > most {
            shown.truncate(before);
            let _ = write!(shown, "… ({} bytes)", text.len());
            return shown;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_seen_and_what_is_long_is_cut() {
        for (text, most, shown) in [
            ("bank__pay", 16, "bank__pay"),
            ("a\u{202e}b", 16, "a\\u{202e}b"),
            ("a\nb\u{0}\u{1b}[2J", 32, "a\\u{a}b\\u{0}\\u{1b}[2J"),
            ("\u{200b}", 16, "\\u{200b}"),
            ("abcdef", 3, "abc… (6 bytes)"),
            ("äöü", 3, "ä… (6 bytes)"),
            ("ab\u{202e}", 5, "ab… (5 bytes)"),
            ("", 3, ""),
        ] {
            assert_eq!(visible(text, most), shown, "{text:?}");
        }
    }
}
