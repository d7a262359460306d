//! JSON pointers (RFC 6901) as policies write them.

/// The steps that `pointer` takes from the root.
pub(crate) fn steps(pointer: &str) -> Vec<String> {
    pointer
        .split('/')
        .skip(1)
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .collect()
}

/// The pointer of these steps.
pub(crate) fn of(steps: &[String]) -> String {
    steps.iter().fold(String::new(), |pointer, step| {
        pointer + "/" + &step.replace('~', "~0").replace('/', "~1")
    })
}

/// Does `pointer` lead to a part of a value? The empty one, which is the whole value, does not.
pub(crate) fn is_pointer(pointer: &str) -> bool {
    let is_escaped = pointer
        .split('~')
        .skip(1)
        .all(|rest| rest.starts_with(['0', '1']));
    pointer.starts_with('/') && is_escaped
}
