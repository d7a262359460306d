//! Where in a text something stands, as a JSON pointer. Only what is refused is looked for so.

use super::decode;
use super::split::skip_string;

/// Bytes of a pointer that are shown; where something stands deep down is told by its beginning.
const MAX_POINTER_BYTES: usize = 512;

/// The pointer to what stands at byte `at` of a text that is JSON up to there; a key stands where
/// its member does.
pub(crate) fn pointer(text: &[u8], at: usize) -> String {
    // What leads to the value that comes next, from the outermost object or array.
    let mut steps: Vec<String> = Vec::new();
    // Whether each of them is an object, and how many elements of an array there were.
    let mut open: Vec<Option<usize>> = Vec::new();
    let mut key_follows = false;
    let mut here = 0;
    while let Some(byte) = text.get(here).filter(|_| here <= at) {
        match byte {
            b'"' => {
                let end = skip_string(text, here).min(text.len());
                if key_follows {
                    key_follows = false;
                    let key = decode(&text[here..end]).unwrap_or_default();
                    steps.pop();
                    steps.push(key.replace('~', "~0").replace('/', "~1"));
                }
                here = end;
                continue;
            }
            b'{' => {
                open.push(None);
                steps.push(String::new());
                key_follows = true;
            }
            b'[' => {
                open.push(Some(0));
                steps.push("0".to_owned());
                key_follows = false;
            }
            b'}' | b']' => {
                open.pop();
                steps.pop();
            }
            b',' => match open.last_mut() {
                Some(Some(index)) => {
                    *index += 1;
                    steps.pop();
                    steps.push(index.to_string());
                }
                Some(None) => key_follows = true,
                None => {}
            },
            _ => {}
        }
        here += 1;
    }
    let mut pointer = String::new();
    for step in &steps {
        pointer.push('/');
        pointer.push_str(step);
    }
    if pointer.len() > MAX_POINTER_BYTES {
        pointer.truncate(pointer.floor_char_boundary(MAX_POINTER_BYTES));
        pointer.push('…');
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::{AGENT_JSON_LIMITS, Text};

    #[test]
    fn what_is_refused_has_a_place() {
        for (text, place) in [
            (r#"{"a":1,"b":{"c":[0,{"d":1e400}]}}"#, "/b/c/1/d"),
            (r#"{"a":{"x":[[],"]\""]},"a":2}"#, "/a"),
            (r#"{"p":{"n":1,"N":2}}"#, "/p/N"),
            (r#"{"a/b~":["","\ud800"]}"#, "/a~1b~0/1"),
            (r"[[1,[2,-0.0]]]", "/0/1/1"),
            ("-0", ""),
        ] {
            let refused = Text::read(text.as_bytes().to_vec().into(), &AGENT_JSON_LIMITS);
            let at = refused.expect_err(text).at;
            assert_eq!(pointer(text.as_bytes(), at), place, "{text}");
        }
    }

    #[test]
    fn a_place_is_shown_in_bounds() {
        let text = "[".repeat(9999) + "-0";
        assert!(pointer(text.as_bytes(), text.len() - 2).len() <= MAX_POINTER_BYTES + 4);
    }
}
