//! Places in a text, and what is put there. Everything else stays as it was written.

use super::Text;

/// One step from a value to a value in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathStep {
    /// The member of that name, or the element of that number.
    To(String),
    /// All members and elements.
    Each,
}

impl Text {
    /// The text with what `new` makes of every value that `path` leads to; none if it leads
    /// nowhere.
    pub fn with_at(&self, path: &[PathStep], new: &mut dyn FnMut(&Self) -> Self) -> Option<Self> {
        let Some((step, rest)) = path.split_first() else {
            return Some(new(self));
        };
        let mut changed = false;
        let mut go = |below: &Self, is_it: bool| {
            let there = is_it.then(|| below.with_at(rest, new)).flatten();
            changed |= there.is_some();
            there.unwrap_or_else(|| below.clone())
        };
        let text = if let Some(mut members) = self.object() {
            let names: Vec<String> = members.iter().map(|(name, _)| name.to_owned()).collect();
            for name in names.iter().filter(|name| step.is(name)) {
                if let Some(below) = members.get(name).cloned() {
                    members.set(name, go(&below, true));
                }
            }
            members.text()
        } else {
            let elements = self.elements()?.into_iter().enumerate();
            Self::array(
                elements
                    .map(|(index, below)| go(&below, step.is(&index.to_string())))
                    .collect::<Vec<_>>(),
            )
        };
        changed.then_some(text)
    }
}

impl PathStep {
    fn is(&self, name: &str) -> bool {
        match self {
            Self::To(wanted) => wanted == name,
            Self::Each => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::SERVER_JSON_LIMITS;
    use bytes::Bytes;

    #[test]
    fn what_a_path_leads_to_is_replaced_and_nothing_else() {
        let text = r#"{ "a":[{"b":1.50,"*":2},{"b":"x"}], "c/d":{"~":1e0} }"#;
        let text = Text::read(Bytes::from(text), &SERVER_JSON_LIMITS).unwrap();
        let to = |step: &str| PathStep::To(step.to_owned());
        for (path, expected) in [
            (
                vec![to("a"), PathStep::Each, to("b")],
                Some(r#"{"a":[{"b":0,"*":2},{"b":0}],"c/d":{"~":1e0}}"#),
            ),
            (
                vec![to("a"), to("1"), to("b")],
                Some(r#"{"a":[{"b":1.50,"*":2},{"b":0}],"c/d":{"~":1e0}}"#),
            ),
            (
                vec![to("a"), to("0"), to("*")],
                Some(r#"{"a":[{"b":1.50,"*":0},{"b":"x"}],"c/d":{"~":1e0}}"#),
            ),
            (
                vec![to("c/d"), to("~")],
                Some(r#"{"a":[{"b":1.50,"*":2},{"b":"x"}],"c/d":{"~":0}}"#),
            ),
            (vec![to("a"), to("2")], None),
            (vec![to("a"), to("b")], None),
            (vec![to("c/d"), to("~"), PathStep::Each], None),
        ] {
            let new = text.with_at(&path, &mut |_| Text::of(&0.into()));
            assert_eq!(
                new.as_ref()
                    .map(|new| String::from_utf8_lossy(new.as_bytes()).into_owned())
                    .as_deref(),
                expected
            );
        }
    }
}
