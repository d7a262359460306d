//! Letters that do something to a terminal, or to how the text around them is read, other than being
//! shown where they stand.

/// Whether a terminal could do something with `letter` other than show it, or show it where it does
/// not stand.
pub(crate) fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(letter, '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` with its lines and tabs, and everything else in it that acts written as `\u{…}`.
pub(crate) fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if acts(letter) && !matches!(letter, '\n' | '\t') {
            out.extend(letter.escape_unicode());
        } else {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// threat-model §3G: what a file says is shown, and does nothing.
    #[test]
    fn what_acts_is_written_out() {
        assert_eq!(shown("a\tb\nc é \"d\""), "a\tb\nc é \"d\"");
        assert_eq!(
            shown("\u{1b}[2J\r\u{202e}\u{9b}"),
            r"\u{1b}[2J\u{d}\u{202e}\u{9b}"
        );
    }
}
