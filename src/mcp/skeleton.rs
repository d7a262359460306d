//! What a name looks like: names that a person or a model could take for each other
//! (threat-model §3D D1, D3; 003-44).
//!
//! Tool names have a small alphabet (`A-Z a-z 0-9 _ . -`), so of the confusables of UTS #39 only
//! those within ASCII can occur, and of its normalization nothing is left to do. Separators count
//! as one, since models and providers write one for the other. Names are compared only; no name is
//! ever changed by this.

use std::collections::HashMap;

/// Both ways to read a name: capital letters as their small ones, and capital `I` as the `l` it
/// looks like.
fn looks(name: &str) -> [String; 2] {
    [false, true].map(|upright| {
        let mut look = String::with_capacity(name.len());
        for letter in name.chars() {
            match letter {
                '1' => look.push('l'),
                'I' if upright => look.push('l'),
                '0' => look.push('o'),
                'm' | 'M' => look.push_str("rn"),
                '_' | '-' | '.' if look.is_empty() || look.ends_with('_') => {}
                '_' | '-' | '.' => look.push('_'),
                _ => look.extend(letter.to_lowercase()),
            }
        }
        if look.ends_with('_') {
            look.pop();
        }
        look
    })
}

/// For each of `names`, the index of another that it can be taken for: equal, equal but for case or
/// separators, or of letters that look alike. Takes time and room in proportion to the names.
pub(crate) fn twins(names: &[&str]) -> Vec<Option<usize>> {
    let mut found = vec![None; names.len()];
    let mut first: HashMap<(usize, String), usize> = HashMap::new();
    for (index, name) in names.iter().enumerate() {
        for (way, look) in looks(name).into_iter().enumerate() {
            let other = *first.entry((way, look)).or_insert(index);
            if other != index {
                found[index] = found[index].or(Some(other));
                found[other] = found[other].or(Some(index));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// threat-model §3D D1: what looks alike is found whichever comes first; what does not, is left
    /// alone.
    #[test]
    fn d1_names_that_look_alike_are_twins() {
        for (one, other) in [
            ("delete", "delete"),
            ("delete", "Delete"),
            ("delete", "DELETE"),
            ("list", "1ist"),
            ("list", "Iist"),
            ("Item", "item"),
            ("LIST_FILES", "1ist.files"),
            ("log0ut", "logOut"),
            ("confirm", "confirrn"),
            ("get.item", "get_item"),
            ("get-item", "get__item"),
            ("read", "read."),
            ("read", "_read"),
            ("git__hub_search", "git_hub__search"),
        ] {
            assert_eq!(
                twins(&[one, "other", other]),
                [Some(2), None, Some(0)],
                "{one} {other}"
            );
            assert_eq!(twins(&[other, one]), [Some(1), Some(0)], "{one} {other}");
        }
        let apart = [
            "list", "lists", "fist", "item_1", "item_2", "read", "reader", "bum", "bun", "v1",
            "v2", "i", "l",
        ];
        assert_eq!(twins(&apart), vec![None; apart.len()]);
    }

    proptest! {
        /// threat-model §3D D1: being a twin is mutual, and changing case or separators never hides
        /// one.
        #[test]
        fn d1_a_twin_stays_one_under_other_spelling(
            names in proptest::collection::vec("[A-Za-z0-9][A-Za-z0-9_.-]{0,12}", 1..12), at in 0_usize..12, upper: bool
        ) {
            let at = at % names.len();
            let spelt = names[at].replace('_', "-");
            let spelt = if upper { spelt.to_ascii_uppercase() } else { spelt.to_ascii_lowercase() };
            let all: Vec<&str> = names.iter().map(String::as_str).chain([spelt.as_str()]).collect();
            let found = twins(&all);
            prop_assert!(found[at].is_some() && found[names.len()].is_some());
            for (index, other) in found.iter().enumerate() {
                prop_assert!(other.is_none_or(|other| found[other].is_some() && other != index));
            }
        }
    }
}
