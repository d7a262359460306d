//! A hook's reason, as an agent may read it: plain text on one line, bounded (001-24).

/// Characters at most.
const REASON_CHARS_MAX: usize = 200;

/// `text` without what a reader does not see, or what moves what a reader sees.
pub(super) fn shown(text: &str) -> String {
    let plain = text
        .chars()
        .map(|letter| if letter.is_whitespace() { ' ' } else { letter });
    let seen: String = plain
        .filter(|letter| !letter.is_control() && !is_unseen(*letter))
        .take(4 * REASON_CHARS_MAX)
        .collect();
    let words = seen
        .split(' ')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    if words.chars().count() <= REASON_CHARS_MAX {
        return words;
    }
    words
        .chars()
        .take(REASON_CHARS_MAX - 1)
        .chain(['…'])
        .collect()
}

/// Zero-width and bidirectional characters, tags, and selectors of variants.
fn is_unseen(letter: char) -> bool {
    matches!(u32::from(letter), 0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f
        | 0xfe00..=0xfe0f | 0xfeff | 0xfff9..=0xfffb | 0xe_0000..=0xe_0fff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 001-24: visible, sanitized, bounded.
    #[test]
    fn a_reason_is_plain_text() {
        for (said, read) in [
            ("over the limit of the day", "over the limit of the day"),
            ("  two\r\n\tlines  \u{7}", "two lines"),
            ("safe\u{202e}txt.exe\u{200b}\u{feff}", "safetxt.exe"),
            ("\u{e0041}\u{e0042}tags", "tags"),
            ("größer als 5 €", "größer als 5 €"),
        ] {
            assert_eq!(shown(said), read, "{said:?}");
        }
        let long = shown(&"x".repeat(1 << 20));
        assert!(
            long.chars().count() == REASON_CHARS_MAX && long.ends_with('…'),
            "{long}"
        );
    }
}
