//! A number with the word for what is counted, as people say it.

use std::fmt::Display;

/// `1 error`, `0 errors`, `2 errors`: `one` is the word for one, whose plural ends in `s`.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, one: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [0_usize, 1, 2].map(|count| counted(count, "error")),
            ["0 errors", "1 error", "2 errors"]
        );
        assert_eq!(counted(1_u64, "call"), "1 call");
    }
}
