//! What the strict reader lets pass has one reading (threat-model §3A A1–A7): a second reader
//! agrees about every value, no two keys are one to anybody, and what is taken apart and put
//! together again says the same.

use super::second::{Node, is_same};
use bytes::Bytes;
use toolgate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, SERVER_JSON_LIMITS, Scalar, Text};

/// The largest whole number that every reader takes for the same.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// The first byte chooses whose limits count.
pub fn run(data: &[u8]) {
    let (first, text) = super::led(data);
    judge(
        text,
        if first & 1 == 0 {
            &AGENT_JSON_LIMITS
        } else {
            &SERVER_JSON_LIMITS
        },
    );
}

fn judge(bytes: &[u8], limits: &JsonLimits) {
    let Ok(text) = Text::read(Bytes::copy_from_slice(bytes), limits) else {
        return;
    };
    assert_eq!(
        text.as_bytes().trim_ascii(),
        bytes.trim_ascii(),
        "nothing but white space is cut off"
    );
    let second = Node::read(bytes).expect("what the strict reader takes, others take");
    assert_eq!(text.value(), second.value(), "both read the same");
    assert!(second.depth() <= limits.depth);
    second.each_object(0, &mut |depth, members| {
        keys(members, depth <= limits.folded_depth);
    });
    for number in text
        .scalars()
        .filter(|scalar| scalar.kind == toolgate::mcp::json::ScalarKind::Number)
    {
        judge_number(&number, limits);
    }
    assert_eq!(text.replaced(&[]).as_bytes(), text.as_bytes());
    taken_apart(&text, &second);
    if let Some(object) = text.object() {
        let again =
            Text::read(object.text().bytes(), limits).expect("what was put together can be read");
        assert_eq!(again.value(), second.value());
    }
}

fn keys(members: &[(String, Node)], folds: bool) {
    for (index, (key, _)) in members.iter().enumerate() {
        assert!(
            !key.chars().any(char::is_control),
            "a control character in a key"
        );
        assert!(!key.starts_with("$serde_json::private::"), "a reserved key");
        // Many members would take too long, each with each.
        for (other, _) in members[..index].iter().rev().take(64) {
            assert!(
                key != other && !(folds && is_same(key, other)),
                "{key:?} and {other:?} are one"
            );
        }
    }
}

fn judge_number(number: &Scalar<'_>, limits: &JsonLimits) {
    let written = number.value();
    let value: f64 = written.parse().expect("a number");
    assert!(value.is_finite(), "{written}");
    if limits.differential {
        let is_zero = !written
            .split(['e', 'E'])
            .next()
            .unwrap_or_default()
            .contains(|digit| ('1'..='9').contains(&digit));
        assert_eq!(value == 0.0, is_zero, "{written} vanishes");
        assert!(
            !(is_zero && written.starts_with('-')),
            "{written} is a negative zero"
        );
        assert!(
            value.fract() != 0.0
                || value.abs() <= MAX_SAFE
                || written.parse::<i64>().is_ok()
                || written.parse::<u64>().is_ok(),
            "{written} is not exact"
        );
    }
}

/// Members and elements, one level after the other.
fn taken_apart(text: &Text, second: &Node) {
    match second {
        Node::Leaf(value) => assert_eq!(text.as_str().as_deref(), value.as_str()),
        Node::Array(expected) => {
            let elements = text.elements().expect("an array");
            assert_eq!(elements.len(), expected.len());
            elements
                .iter()
                .zip(expected)
                .for_each(|(text, node)| taken_apart(text, node));
        }
        Node::Object(expected) => {
            let object = text.object().expect("an object");
            assert_eq!(object.iter().count(), expected.len());
            for ((key, member), (name, node)) in object.iter().zip(expected) {
                assert_eq!(key, name);
                assert_eq!(text.get(key).as_ref(), Some(member));
                taken_apart(member, node);
            }
        }
    }
}
