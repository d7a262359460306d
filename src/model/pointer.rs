//! JSON pointers (RFC 6901) as policies write them.

use serde_json::Value;

/// What stands at `pointer` in `value`, as [`Value::pointer`] says. That copies each step; the names of
/// members that nearly all pointers have need no copy.
pub(crate) fn at<'v>(value: &'v Value, pointer: &str) -> Option<&'v Value> {
    let is_plain = pointer.starts_with('/') && !pointer.contains('~');
    if !is_plain {
        return value.pointer(pointer);
    }
    let mut steps = pointer.split('/').skip(1);
    steps.try_fold(value, |value, step| match value {
        Value::Object(members) => members.get(step),
        Value::Array(_) => value.pointer(&format!("/{step}")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        /// Whatever is written, both find the same.
        #[test]
        fn finds_what_the_library_finds(pointer in "(/(a|b|c|~0|~1|~|01?|1|[+]1|-|)){0,4}|[a/]{0,3}") {
            let value = json!({
                "a": { "b": [{ "a": 1 }, [2, { "": 3 }]], "": { "c": null } }, "b": "text",
                "~": { "/": [4] }, "": [5], "1": { "0": 6 },
            });
            for root in [value.clone(), json!([value, 7]), json!(8)] {
                prop_assert_eq!(at(&root, &pointer), root.pointer(&pointer), "{}", pointer);
            }
        }
    }
}
