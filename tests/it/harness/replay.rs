//! Answers that are given again, as their tools gave them. Where the agent gave no key, words of
//! toolgate's stand before such an answer.

use serde_json::Value;

/// How the words begin, and what they end with.
const BEGIN: &str = "toolgate: Nothing ran now. This call was carried out once, at ";
const END: &str = "`. ";
/// The words as an item of the content.
const ITEM: (&str, &str) = (r#"{"type":"text","text":""#, r#""}"#);

/// The answer in `text` without the words that nothing ran now: all else is as it stands.
pub fn untold(text: &str) -> String {
    let Some(begin) = text.find(BEGIN) else {
        return text.to_owned();
    };
    let is_item = text[..begin].ends_with(ITEM.0);
    let (begin, end) = if is_item {
        let end = begin + text[begin..].find(ITEM.1).expect("an item") + ITEM.1.len();
        (begin - ITEM.0.len(), end)
    } else {
        let end = begin + text[begin..].find(END).expect("words") + END.len();
        (begin, end)
    };
    let end = end + usize::from(text[end..].starts_with(','));
    format!("{}{}", &text[..begin], &text[end..])
}

/// The same of an answer that was read.
pub fn stored(answer: &Value) -> Value {
    serde_json::from_str(&untold(&answer.to_string())).unwrap()
}
