//! What operators and functions take, and what they give.

use super::ExpressionKind::{Any, Bytes, List, Map, Null, Number, Text, Truth, Type};
use super::{ExpressionKind, KindChecker, KnownValue, KnownValues, ValueOrigin};
use crate::expression::reads::RE_FUNCTION;
use crate::model::spelling::{nearest, suggest};
use cel::IdedExpr;
use cel::common::ast::{Expr, LiteralValue, operators};

impl<K: KnownValues> KindChecker<'_, K> {
    pub(super) fn function(
        &mut self,
        id: u64,
        name: &str,
        values: &[KnownValue],
        places: &[u64],
    ) -> KnownValue {
        match name {
            "size" => {
                if let Some(kind) = values.first().map(|value| value.kind)
                    && !matches!(kind, Any | Text | Bytes | List | Map)
                {
                    let message = format!("`size` is asked of {}", kind.words());
                    self.error(id, &message, "text, lists and objects have a size");
                }
                Number.into()
            }
            "contains" | "startsWith" | "endsWith" | "matches" | RE_FUNCTION => {
                self.want_all(Text, values, places);
                Truth.into()
            }
            "int" | "uint" | "double" => Number.into(),
            "string" => Text.into(),
            "bool" | operators::NOT_STRICTLY_FALSE => Truth.into(),
            "type" => Type.into(),
            _ => Any.into(),
        }
    }

    pub(super) fn want_all(&mut self, kind: ExpressionKind, values: &[KnownValue], places: &[u64]) {
        for (value, place) in values.iter().zip(places) {
            self.wants(kind, value, *place);
        }
    }

    pub(super) fn wants(&mut self, kind: ExpressionKind, value: &KnownValue, place: u64) {
        if value.kind.is_apart(kind) {
            let message = format!(
                "{} is expected here, and this is {}",
                kind.words(),
                value.kind.words()
            );
            self.error(place, &message, &convert(kind));
        }
    }

    /// `null` may be compared with everything: so an author asks whether there is a value.
    pub(super) fn equality(&mut self, id: u64, one: ExpressionKind, other: ExpressionKind) {
        if one.is_apart(other) && one != Null && other != Null {
            let (one, other) = (one.words(), other.words());
            let message = format!("compares {one} with {other}, which are never equal");
            self.error(id, &message, "write both in the same kind");
        }
    }

    pub(super) fn order(&mut self, id: u64, one: ExpressionKind, other: ExpressionKind) {
        if one.is_apart(other) {
            let message = format!("compares {} with {}", one.words(), other.words());
            self.error(id, &message, "write both in the same kind");
        } else if let Some(kind) = [one, other]
            .into_iter()
            .find(|kind| matches!(kind, Null | List | Map | Type))
        {
            let message = format!("{} is neither more nor less than another", kind.words());
            self.error(id, &message, "compare numbers, texts, or `size(…)`");
        }
    }

    pub(super) fn within(&mut self, id: u64, one: &KnownValue, all: &KnownValue, node: &IdedExpr) {
        if !matches!(all.kind, Any | List | Map) {
            let message = format!(
                "`in` looks into a list or an object, and this is {}",
                all.kind.words()
            );
            let hint = if all.kind == Text {
                "write `text.contains(part)`"
            } else {
                "write a list: `['one', 'other']`"
            };
            self.error(id, &message, hint);
        } else if all.kind == List && one.kind != Null && one.kind.is_apart(all.elements) {
            let message = format!(
                "looks for {} in a list in which each element is {}",
                one.kind.words(),
                all.elements.words()
            );
            self.error(id, &message, "write both in the same kind");
        }
        if let (ValueOrigin::Roles, Expr::Literal(LiteralValue::String(role))) =
            (&all.origin, &node.expr)
        {
            let (role, known) = (role.inner(), self.known.roles());
            // Another role may wait for its first caller.
            let is_known = known.iter().any(|known| known == role);
            if !is_known && nearest(role, known).is_some() {
                let hint = suggest(role, known);
                let message = format!("no caller has the role `{}`", role.escape_debug());
                self.error(node.id, &message, &hint);
            }
        }
    }

    pub(super) fn sum(
        &mut self,
        id: u64,
        one: ExpressionKind,
        other: ExpressionKind,
    ) -> KnownValue {
        let is_none = [one, other]
            .into_iter()
            .any(|kind| !matches!(kind, Any | Number | Text | Bytes | List));
        if is_none || one.is_apart(other) {
            let message = format!("adds {} to {}", other.words(), one.words());
            self.error(id, &message, "add numbers to numbers, or text to text");
            return Any.into();
        }
        let kind = if one == Any { other } else { one };
        kind.into()
    }

    pub(super) fn index(&mut self, id: u64, from: &KnownValue, key: &IdedExpr) -> KnownValue {
        let wanted = self.of(key);
        if let Expr::Literal(LiteralValue::String(name)) = &key.expr
            && from.kind != List
        {
            return self.part(id, from, name.inner());
        }
        if !matches!(from.kind, Any | List | Map) {
            let message = format!("a part is read of {}", from.kind.words());
            self.error(id, &message, "only lists and objects have parts");
        }
        match (&from.origin, from.kind) {
            (_, List) if wanted.kind.is_apart(Number) => {
                self.wants(Number, &wanted, key.id);
                Any.into()
            }
            (ValueOrigin::Argument(path), List) => {
                let path = [path.as_slice(), &[K::ELEMENT_STEP.to_owned()]].concat();
                self.argument(id, path)
            }
            (_, List) => from.elements.into(),
            _ => Any.into(),
        }
    }
}

/// How to make a value of that kind.
fn convert(kind: ExpressionKind) -> String {
    match kind {
        Number => "write a number, or `int(…)`".to_owned(),
        Text => "write text in quotes, or `string(…)`".to_owned(),
        Truth => "compare it with something".to_owned(),
        Any | Null | Bytes | List | Map | Type => format!("write {}", kind.words()),
    }
}
