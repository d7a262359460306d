//! Judges what an expression compares and computes, as far as the kinds of its values are certain:
//! an argument that the tool does not have, text that is compared with a number, a rule that says
//! neither true nor false.
//!
//! What is not certain may be anything, so that no expression that can be right is an error.

use super::CEL_LANGUAGE;
use super::judge::{part_of, part_of_name};
use crate::model::diagnostic::{MeantPart, Problems};
use crate::model::spelling::suggest;
use cel::IdedExpr;
use cel::Program;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};

mod operations;

/// What a value is, for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpressionKind {
    /// Anything.
    Any,
    Null,
    Truth,
    Number,
    Text,
    Bytes,
    List,
    Map,
    /// A type, as `type(…)` gives it.
    Type,
}

use ExpressionKind::{Any, Bytes, List, Map, Null, Number, Text, Truth, Type};

/// What is known of the values that an expression reads.
pub(crate) trait KnownValues {
    /// What the argument on `path` is; a step into any element of a list is
    /// [`Self::ELEMENT_STEP`].
    fn kind(&self, path: &[String]) -> ExpressionKind;
    /// The names that stand where `path` ends, if the tool has no argument there for certain.
    fn absent(&self, path: &[String]) -> Option<Vec<String>>;
    /// The roles that callers have, if they have any.
    fn roles(&self) -> &[String];

    /// What stands for an element of a list.
    const ELEMENT_STEP: &'static str;
}

/// Notes what in `source`, a rule that was judged at load, can only fail or be useless beside
/// `known`.
pub(crate) fn judge(source: &str, known: &impl KnownValues, problems: &mut Problems) {
    let Ok(program) = CEL_LANGUAGE.compile(source) else {
        return;
    };
    let mut judge = KindChecker {
        program: &program,
        known,
        problems,
        bound: Vec::new(),
    };
    let whole = judge.of(program.expression());
    if !matches!(whole.kind, Any | Truth) {
        let message = format!(
            "a rule is true or false, and this is {}",
            whole.kind.words()
        );
        let length = source.chars().count();
        let part = MeantPart { start: 0, length };
        problems.error_at(part, message, "compare it with something");
    }
}

impl ExpressionKind {
    fn words(self) -> &'static str {
        match self {
            Any => "anything",
            Null => "null",
            Truth => "true or false",
            Number => "a number",
            Text => "text",
            Bytes => "bytes",
            List => "a list",
            Map => "an object",
            Type => "a type",
        }
    }

    /// Whether no value is of both kinds.
    fn is_apart(self, other: Self) -> bool {
        self != other && self != Any && other != Any
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ValueOrigin {
    /// From the expression itself, or it is not known.
    Here,
    Argument(Vec<String>),
    Caller,
    Roles,
}

/// A value, as far as it is known.
#[derive(Debug, Clone)]
struct KnownValue {
    kind: ExpressionKind,
    /// What its elements are, where it is a list.
    elements: ExpressionKind,
    origin: ValueOrigin,
}

impl From<ExpressionKind> for KnownValue {
    fn from(kind: ExpressionKind) -> Self {
        Self {
            kind,
            elements: Any,
            origin: ValueOrigin::Here,
        }
    }
}

struct KindChecker<'a, K> {
    program: &'a Program,
    known: &'a K,
    problems: &'a mut Problems,
    /// What loops bind, innermost last.
    bound: Vec<(String, KnownValue)>,
}

impl<K: KnownValues> KindChecker<'_, K> {
    fn error(&mut self, node: u64, message: &str, hint: &str) {
        let part = part_of(self.program, node);
        self.problems.error_at(part, message, hint);
    }

    fn of(&mut self, node: &IdedExpr) -> KnownValue {
        match &node.expr {
            Expr::Literal(literal) => of_literal(literal).into(),
            Expr::Ident(name) => self.named(name),
            Expr::Select(select) => {
                let from = self.of(&select.operand);
                let part = self.part(node.id, &from, &select.field);
                if select.test { Truth.into() } else { part }
            }
            Expr::Call(call) => self.call(node.id, call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                let all: Vec<ExpressionKind> =
                    list.elements.iter().map(|one| self.of(one).kind).collect();
                let first = all.first().copied().unwrap_or(Any);
                let is_one = all.iter().all(|kind| *kind == first);
                KnownValue {
                    elements: if is_one { first } else { Any },
                    ..List.into()
                }
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.of(&entry.key);
                        self.of(&entry.value);
                    }
                }
                Map.into()
            }
            Expr::Unspecified | Expr::Struct(_) => Any.into(),
        }
    }

    fn named(&self, name: &str) -> KnownValue {
        let bound = self.bound.iter().rev().find(|(bound, _)| bound == name);
        match (bound, name) {
            (Some((_, value)), _) => value.clone(),
            (None, "arguments") => KnownValue {
                origin: ValueOrigin::Argument(Vec::new()),
                ..Map.into()
            },
            (None, "caller") => KnownValue {
                origin: ValueOrigin::Caller,
                ..Map.into()
            },
            // What else can be named is a type.
            (None, _) => Type.into(),
        }
    }

    /// The member `name` of a value.
    fn part(&mut self, node: u64, from: &KnownValue, name: &str) -> KnownValue {
        if !matches!(from.kind, Any | Map) {
            let message = format!("`{name}` is read of {}", from.kind.words());
            self.error(node, &message, "only an object has parts with names");
            return Any.into();
        }
        match (&from.origin, name) {
            (ValueOrigin::Argument(path), _) => {
                let path = [path.as_slice(), &[name.to_owned()]].concat();
                self.argument(node, path)
            }
            (ValueOrigin::Caller, "agent") => Text.into(),
            (ValueOrigin::Caller, "owner") => Truth.into(),
            (ValueOrigin::Caller, "roles") => KnownValue {
                kind: List,
                elements: Text,
                origin: ValueOrigin::Roles,
            },
            _ => Any.into(),
        }
    }

    fn argument(&mut self, node: u64, path: Vec<String>) -> KnownValue {
        if let Some(names) = self.known.absent(&path) {
            let message = format!("the tool has no argument `{}`", path.join("."));
            let last = path.last().map_or("", String::as_str);
            let part = part_of_name(self.program, node, last);
            self.problems.error_at(part, message, suggest(last, &names));
            return Any.into();
        }
        let kind = self.known.kind(&path);
        let element = [path.as_slice(), &[K::ELEMENT_STEP.to_owned()]].concat();
        KnownValue {
            kind,
            elements: self.known.kind(&element),
            origin: ValueOrigin::Argument(path),
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> KnownValue {
        let operands: Vec<&IdedExpr> = call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .collect();
        // The key of `arguments['name']` names a part.
        if let (operators::INDEX, [from, key]) = (call.func_name.as_str(), operands.as_slice()) {
            let from = self.of(from);
            return self.index(id, &from, key);
        }
        let values: Vec<KnownValue> = operands.iter().map(|operand| self.of(operand)).collect();
        let places: Vec<u64> = operands.iter().map(|operand| operand.id).collect();
        match (call.func_name.as_str(), values.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, all) => {
                self.want_all(Truth, all, &places);
                Truth.into()
            }
            (operators::CONDITIONAL, [when, one, other]) => {
                self.wants(Truth, when, places[0]);
                let kind = if one.kind == other.kind {
                    one.kind
                } else {
                    Any
                };
                kind.into()
            }
            (operators::EQUALS | operators::NOT_EQUALS, [one, other]) => {
                self.equality(id, one.kind, other.kind);
                Truth.into()
            }
            (
                operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS,
                [one, other],
            ) => {
                self.order(id, one.kind, other.kind);
                Truth.into()
            }
            (operators::IN, [one, all]) => {
                self.within(id, one, all, operands[0]);
                Truth.into()
            }
            (operators::ADD, [one, other]) => self.sum(id, one.kind, other.kind),
            (
                operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO
                | operators::NEGATE,
                all,
            ) => {
                self.want_all(Number, all, &places);
                Number.into()
            }
            (name, all) => self.function(id, name, all, &places),
        }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> KnownValue {
        let ComprehensionExpr {
            iter_range,
            iter_var,
            iter_var2,
            accu_var,
            accu_init,
            loop_cond,
            loop_step,
            result,
        } = comprehension;
        let range = self.of(iter_range);
        if !matches!(range.kind, Any | List | Map) {
            let message = format!(
                "goes through the elements of a list or an object, and this is {}",
                range.kind.words()
            );
            self.error(iter_range.id, &message, "name a list");
        }
        let element = match (&range.origin, range.kind) {
            (ValueOrigin::Argument(path), List) => {
                let path = [path.as_slice(), &[K::ELEMENT_STEP.to_owned()]].concat();
                self.argument(iter_range.id, path)
            }
            (_, List) => range.elements.into(),
            // The keys of arguments are text, those of other maps may be anything.
            (ValueOrigin::Argument(_) | ValueOrigin::Caller, Map) => Text.into(),
            _ => Any.into(),
        };
        let begun = KnownValue::from(self.of(accu_init).kind);
        let outside = self.bound.len();
        // With two variables the first is the index or the key.
        let first = if iter_var2.is_some() {
            Any.into()
        } else {
            element
        };
        self.bound.push((iter_var.clone(), first));
        self.bound
            .extend(iter_var2.iter().map(|name| (name.clone(), Any.into())));
        self.bound.push((accu_var.clone(), begun));
        self.of(loop_cond);
        self.of(loop_step);
        let result = self.of(result);
        self.bound.truncate(outside);
        result.kind.into()
    }
}

fn of_literal(literal: &LiteralValue) -> ExpressionKind {
    match literal {
        LiteralValue::Boolean(_) => Truth,
        LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Number,
        LiteralValue::String(_) => Text,
        LiteralValue::Bytes(_) => Bytes,
        LiteralValue::Null => Null,
    }
}
