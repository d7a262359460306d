//! Names and patterns as operators are shown them.

use std::borrow::Cow;

/// Characters of a name or a pattern that are shown.
const SHOWN_CHARS_MAX: usize = 160;

/// At most [`SHOWN_CHARS_MAX`] characters of `text`, none of which does anything to a terminal
/// (policy §2.6).
pub(super) fn short(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~');
    // Most names are: they are shown as they stand.
    if text.len() <= SHOWN_CHARS_MAX && text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().take(SHOWN_CHARS_MAX).map(|letter| {
        if letter.is_control() {
            '\u{fffd}'
        } else {
            letter
        }
    });
    let mut shown: String = shown.collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// policy §2.6: a name that is shown as it stands is one that would be shown so.
        #[test]
        fn plain_names_are_shown_as_all_names_are(name in "[ -~]{0,150}[a-z\\x00-\\x1f\\x7f\u{85}é]{0,2}[ -~]{0,20}") {
            let letters: Vec<char> = name.chars().collect();
            let harmless = |letter: &char| if letter.is_control() { '\u{fffd}' } else { *letter };
            let shown: String = letters.iter().take(SHOWN_CHARS_MAX).map(harmless).collect();
            let cut = if letters.len() > SHOWN_CHARS_MAX { "…" } else { "" };
            prop_assert_eq!(short(&name), shown + cut);
        }
    }
}
