//! Patterns over names: `*` stands for any text, everything else for itself, byte for byte, from end
//! to end.

/// Whether `pattern` matches the whole of `name`; with `any_case`, `A` is `a`, and beyond ASCII letters
/// are kept apart. Takes time in proportion to both lengths, multiplied.
pub(crate) fn matches(pattern: &str, name: &str, any_case: bool) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let is_same =
        |one: u8, other: u8| one == other || (any_case && one.eq_ignore_ascii_case(&other));
    let (mut at, mut read) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, read));
            at += 1;
        } else if pattern
            .get(at)
            .is_some_and(|letter| is_same(*letter, name[read]))
        {
            at += 1;
            read += 1;
        } else if let Some((behind, from)) = star {
            star = Some((behind, from + 1));
            at = behind + 1;
            read = from + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}
