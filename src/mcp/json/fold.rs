//! When two keys are one to a peer that ignores case (threat-model §3A A2): the rule of the strict
//! reader, and of all who ask the same.

use crate::mcp::readable::composed;

/// The letters of `text` without their case. Equal for whatever any usual way takes for equal:
/// simple and full case folding of Unicode, and small or capital letters of both. More may be equal
/// (`ss` and `ß`), never less.
pub(crate) fn fold(text: &str) -> impl Iterator<Item = char> + '_ {
    // Small letters first: the capital sharp s is the capital of nothing else.
    text.chars()
        .flat_map(char::to_lowercase)
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
}

/// The same as a string.
pub(crate) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    fold(text).collect()
}

/// Whether two names are one to people: but for case, and for how Unicode spells a letter.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    one == other || folded(&composed(one)) == folded(&composed(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
    use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

    /// threat-model §13 L1, §3A A2: for every code point, each other one that it is equal to under
    /// the simple case folding of Unicode (the table is regex's) makes the same key, and an
    /// object that has both is refused.
    #[test]
    fn l1_no_letter_passes_beside_one_that_it_folds_to() {
        let mut pairs = 0;
        for one in '\0'..=char::MAX {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(one, one)]);
            class.try_case_fold_simple().unwrap();
            for other in class
                .iter()
                .flat_map(|range| range.start()..=range.end())
                .filter(|other| *other != one)
            {
                let (one, other) = (one.to_string(), other.to_string());
                assert_eq!(folded(&one), folded(&other), "{one:?} {other:?}");
                let text = format!(r#"{{"a{one}":1,"A{other}":2}}"#);
                let read = Text::read(text.clone().into(), &AGENT_JSON_LIMITS);
                assert!(
                    read.is_err_and(|refused| refused.what.contains("duplicate")),
                    "{text}"
                );
                pairs += 1;
            }
        }
        assert!(
            pairs > 3_000,
            "{pairs} pairs of letters: the table was not read"
        );
    }

    #[test]
    fn names_are_one_but_for_case_and_spelling() {
        for (one, other) in [
            ("ann", "Ann"),
            ("bot1", "BOT1"),
            ("ren\u{e9}", "RENE\u{301}"),
            ("k", "\u{212a}"),
        ] {
            assert!(is_same_name(one, other), "{one} {other}");
        }
        assert!(!is_same_name("ann", "anna"));
        assert!(!is_same_name("ann", "ann "));
    }

    /// The same for the other ways to ignore case: small letters and capital ones.
    #[test]
    fn l1_a_letter_folds_as_its_small_and_capital_ones_do() {
        let changes = |one: &char| !one.to_lowercase().eq([*one]) || !one.to_uppercase().eq([*one]);
        for one in ('\0'..=char::MAX).filter(changes) {
            let one = one.to_string();
            assert_eq!(folded(&one), folded(&one.to_lowercase()), "{one:?}");
            assert_eq!(folded(&one), folded(&one.to_uppercase()), "{one:?}");
            assert_eq!(folded(&one), fold(&one).collect::<String>(), "{one:?}");
        }
    }
}
