//! Names that people tell apart by looking at them: two that look the same would be two accounts, two
//! operators or two roles (threat-model §3E E5).

use regex::Regex;
use std::sync::LazyLock;

/// Characters without a look of their own: those of no assigned meaning or of none that prints, those
/// that Unicode lets a screen leave out, blanks other than a space, and letters and signs that are drawn as nothing.
const UNSEEN: &str = concat!(
    r"[[\p{C}\p{Cn}\p{Z}\p{Default_Ignorable_Code_Point}",
    r"\x{2800}\x{fffc}\x{1107f}\x{13441}\x{13442}\x{16fe4}\x{1d159}]--[ ]]"
);

static UNSEEN_PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(UNSEEN).ok());

/// Whether each character of `name` can be seen, or is a space.
pub(crate) fn is_seen(name: &str) -> bool {
    let unseen = UNSEEN_PATTERN.as_ref();
    unseen.is_some_and(|unseen| !unseen.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::readable::is_misleading;

    /// threat-model §3E E5: what nobody sees makes no other name; letters and signs of all people do.
    #[test]
    fn e5_what_nobody_sees_is_no_part_of_a_name() {
        for name in [
            "Ada Lovelace",
            "ada@example.com",
            "Ren\u{e9}",
            "Rene\u{301}",
            "\u{5f20}\u{4f1f}",
            "\u{627}\u{62f}\u{627}",
            "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
            "\u{1f600}",
        ] {
            assert!(is_seen(name), "{name:?}");
        }
        let unseen = [
            0x7, 0x85, 0xa0, 0xad, 0x34f, 0x378, 0x115f, 0x180b, 0x200b, 0x200d, 0x2028, 0x202e,
            0x2800, 0x3000, 0x3164, 0xe000, 0xfdd0, 0xfe00, 0xfe0f, 0xfeff, 0xfffc, 0xffff,
            0x1107f, 0x13441, 0x16fe4, 0x1bca0, 0x1bca3, 0x1d159, 0x1d173, 0xe0041, 0xe0100,
            0xf0000, 0x10_ffff,
        ];
        for number in unseen {
            let letter = char::from_u32(number).unwrap();
            let name = format!("ada{letter}");
            assert!(!is_seen(&name), "{number:x}");
        }
        let misleads = ('\0'..=char::MAX).filter(|letter| is_misleading(*letter));
        for letter in misleads {
            assert!(!is_seen(&letter.to_string()), "{letter:?}");
        }
    }
}
