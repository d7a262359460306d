//! Which known word an author may have meant.

/// The nearest of the known words, or all of them.
pub(crate) fn suggest(word: &str, known: &[String]) -> String {
    if known.is_empty() {
        return "nothing may stand here".to_owned();
    }
    nearest(word, known).map_or_else(
        || format!("known here: {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    )
}

/// The known word that is so near to `word` that it may have been meant.
pub(crate) fn nearest<'k>(word: &str, known: &'k [String]) -> Option<&'k str> {
    let near = known
        .iter()
        .map(|other| (distance(word, other), other))
        .min()?;
    let (far, other) = near;
    (far <= 1 + word.chars().count() / 4).then_some(other.as_str())
}

/// Letters of a pattern without its stars, at least, before anything is taken for a slip of it.
const MIN_PATTERN_LETTERS: usize = 4;
/// So many of them, and one more slip may be.
const PATTERN_LETTERS_PER_SLIP: usize = 12;

/// The known word that `pattern`, in which `*` stands for any text, nearly matches: that may have
/// been meant. Patterns are often for words to come, so less is taken for a slip than of a word.
pub(crate) fn nearest_match<'k>(pattern: &str, known: &'k [String]) -> Option<&'k str> {
    let letters = pattern.chars().filter(|letter| *letter != '*').count();
    let near = known
        .iter()
        .map(|other| (changes(pattern, other, Some('*')), other))
        .min()?;
    let (far, other) = near;
    let is_near = far <= 1 + letters / PATTERN_LETTERS_PER_SLIP;
    (letters >= MIN_PATTERN_LETTERS && is_near).then_some(other.as_str())
}

/// Letters to insert, remove or change, and neighbours to swap, to make one word of the other.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    changes(one, other, None)
}

/// The same where the letter `any` of `one` stands for any text.
fn changes(one: &str, other: &str, any: Option<char>) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.iter().enumerate() {
        if Some(*letter) == any {
            let mut least = usize::MAX;
            let fewest = |far: &usize| {
                least = least.min(*far);
                least
            };
            let next = row.iter().map(fewest).collect();
            before = std::mem::replace(&mut row, next);
            continue;
        }
        let mut next = vec![row[0] + 1];
        for (column, wanted) in other.iter().enumerate() {
            let change = row[column] + usize::from(letter != wanted);
            let mut least = change.min(row[column + 1] + 1).min(next[column] + 1);
            let is_swap =
                line > 0 && column > 0 && one[line - 1] == *wanted && other[column - 1] == *letter;
            if is_swap {
                least = least.min(before[column - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A swap of two letters is one slip of the fingers, so it counts as one.
    #[test]
    fn a_swap_counts_as_one_change() {
        for (one, other, far) in [
            ("", "", 0),
            ("", "ab", 2),
            ("amount", "amount", 0),
            ("amuont", "amount", 1),
            ("amoun", "amount", 1),
            ("amounts", "amount", 1),
            ("bmount", "amount", 1),
            ("tranfser", "transfer", 1),
            ("ab", "ba", 1),
            ("abc", "cab", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(one, other), far, "{one} {other}");
            assert_eq!(distance(other, one), far, "{other} {one}");
        }
    }

    /// A pattern is near to what it would match but for a slip in what is no star.
    #[test]
    fn a_pattern_is_near_to_what_it_nearly_matches() {
        let known = ["git_reset", "git_status", "open", "read_file"].map(str::to_owned);
        for (pattern, near) in [
            ("git_rest*", Some("git_reset")),
            ("git_rseet*", Some("git_reset")),
            ("*_resett", Some("git_reset")),
            ("git_*statsu", Some("git_status")),
            ("git_reset*", Some("git_reset")),
            ("*drop*", None),
            ("rm*", None),
            ("wipe*", None),
            ("git_create*", None),
            ("*", None),
        ] {
            assert_eq!(nearest_match(pattern, &known), near, "{pattern}");
        }
    }

    #[test]
    fn a_near_word_is_suggested_and_else_all() {
        let known = ["to", "id", "amount"].map(str::to_owned);
        for (word, said) in [
            ("ot", "did you mean `to`?"),
            ("di", "did you mean `id`?"),
            ("amuont", "did you mean `amount`?"),
            ("colour", "known here: to, id, amount"),
        ] {
            assert_eq!(suggest(word, &known), said);
        }
        assert_eq!(suggest("a", &[]), "nothing may stand here");
    }
}
