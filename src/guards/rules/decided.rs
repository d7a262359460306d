//! What a rule says is decided before any call: by itself, or because the contract's own schema
//! lets no other value through.
//!
//! Only what follows for certain is told. What a schema says beside `properties` can only narrow
//! further what is said here.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, Expr, LiteralValue, operators};
use serde_json::{Map, Value};

/// What an expression may come to, for the arguments that pass the contract's schema; never less
/// than what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outlook {
    /// It may be true.
    pub(super) yes: bool,
    /// It may be false.
    pub(super) no: bool,
    /// It may fail, as with an argument that is absent.
    pub(super) fails: bool,
}

const UNDECIDED: Outlook = Outlook {
    yes: true,
    no: true,
    fails: true,
};

impl Outlook {
    const fn certain(truth: bool) -> Self {
        Self {
            yes: truth,
            no: !truth,
            fails: false,
        }
    }

    fn not(self) -> Self {
        Self {
            yes: self.no,
            no: self.yes,
            ..self
        }
    }

    /// As the language has it: what decides alone hides a failure beside it.
    fn and(self, other: Self) -> Self {
        let beside = |one: Self, other: Self| one.fails && (other.yes || other.fails);
        Self {
            yes: self.yes && other.yes,
            no: self.no || other.no,
            fails: beside(self, other) || beside(other, self),
        }
    }

    fn or(self, other: Self) -> Self {
        self.not().and(other.not()).not()
    }
}

/// What `node` may come to for arguments that pass `schema`.
pub(super) fn outlook(node: &IdedExpr, schema: &Map<String, Value>) -> Outlook {
    match &node.expr {
        Expr::Literal(LiteralValue::Boolean(truth)) => Outlook::certain(*truth.inner()),
        Expr::Select(select) if select.test => presence(node, schema),
        Expr::Call(call) => of_call(call, schema),
        Expr::Unspecified
        | Expr::Literal(_)
        | Expr::Select(_)
        | Expr::Ident(_)
        | Expr::Comprehension(_)
        | Expr::List(_)
        | Expr::Map(_)
        | Expr::Struct(_) => UNDECIDED,
    }
}

fn of_call(call: &CallExpr, schema: &Map<String, Value>) -> Outlook {
    match (call.func_name.as_str(), call.args.as_slice()) {
        (operators::LOGICAL_NOT, [one]) => outlook(one, schema).not(),
        (operators::LOGICAL_AND, [one, other]) => outlook(one, schema).and(outlook(other, schema)),
        (operators::LOGICAL_OR, [one, other]) => outlook(one, schema).or(outlook(other, schema)),
        (operators::EQUALS, [one, other]) => equality(one, other, schema),
        (operators::NOT_EQUALS, [one, other]) => equality(one, other, schema).not(),
        (operators::IN, [one, other]) => within(one, other, schema),
        (operator, [one, other]) => match (number(one), number(other)) {
            (None, Some(bound)) => order(one, operator, bound, schema),
            (Some(bound), None) => order(other, mirrored(operator), bound, schema),
            _ => UNDECIDED,
        },
        _ => UNDECIDED,
    }
}

/// `has(arguments.name)`.
fn presence(node: &IdedExpr, schema: &Map<String, Value>) -> Outlook {
    let Some(path) = path(node) else {
        return UNDECIDED;
    };
    match place(&path, schema) {
        ArgumentSchema::Forbidden => Outlook {
            yes: false,
            no: true,
            fails: path.len() > 1,
        },
        ArgumentSchema::Open | ArgumentSchema::Of { .. } => UNDECIDED,
    }
}

/// `arguments.name == 'text'`.
fn equality(one: &IdedExpr, other: &IdedExpr, schema: &Map<String, Value>) -> Outlook {
    let sides = path(one)
        .zip(literal(other))
        .or_else(|| path(other).zip(literal(one)));
    sides.map_or(UNDECIDED, |(path, wanted)| among(&path, &[wanted], schema))
}

/// `arguments.name in ['text', …]`.
fn within(one: &IdedExpr, other: &IdedExpr, schema: &Map<String, Value>) -> Outlook {
    let (Some(path), Expr::List(list)) = (path(one), &other.expr) else {
        return UNDECIDED;
    };
    let wanted: Option<Vec<Value>> = list.elements.iter().map(literal).collect();
    wanted.map_or(UNDECIDED, |wanted| among(&path, &wanted, schema))
}

fn among(path: &[String], wanted: &[Value], schema: &Map<String, Value>) -> Outlook {
    let (schema, fails) = match place(path, schema) {
        ArgumentSchema::Forbidden => {
            return Outlook {
                yes: false,
                no: false,
                fails: true,
            };
        }
        ArgumentSchema::Open => return UNDECIDED,
        ArgumentSchema::Of { schema, fails } => (schema, fails),
    };
    let values = schema.get("enum").and_then(Value::as_array).cloned();
    let Some(values) = values.or_else(|| Some(vec![schema.get("const")?.clone()])) else {
        return UNDECIDED;
    };
    let hits = |value: &Value| wanted.iter().any(|wanted| same(wanted, value));
    Outlook {
        yes: values.iter().any(hits),
        no: !values.iter().all(hits),
        fails,
    }
}

/// Numbers are equal as numbers.
fn same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= 0.0,
        _ => one == other,
    }
}

/// `arguments.name > 5`, `size(arguments.name) > 5`.
fn order(node: &IdedExpr, operator: &str, bound: f64, schema: &Map<String, Value>) -> Outlook {
    let sized = sized(node);
    let Some(path) = path(sized.unwrap_or(node)) else {
        return UNDECIDED;
    };
    let (schema, fails) = match place(&path, schema) {
        ArgumentSchema::Forbidden => {
            return Outlook {
                yes: false,
                no: false,
                fails: true,
            };
        }
        ArgumentSchema::Open => return UNDECIDED,
        ArgumentSchema::Of { schema, fails } => (schema, fails),
    };
    let says = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let kind = schema.get("type").and_then(Value::as_str);
    let (least, most) = match (sized, kind) {
        (Some(_), Some("string")) => (says("minLength").or(Some(0.0)), says("maxLength")),
        (Some(_), Some("array")) => (says("minItems").or(Some(0.0)), says("maxItems")),
        (Some(_), _) => return UNDECIDED,
        (None, Some("integer" | "number")) => (says("minimum"), says("maximum")),
        // What is no number passes these keywords and makes the rule fail.
        (None, _) => {
            return Outlook {
                fails: true,
                ..compare(operator, bound, says("minimum"), says("maximum"))
            };
        }
    };
    let outlook = compare(operator, bound, least, most);
    Outlook {
        fails: fails || outlook.fails,
        ..outlook
    }
}

/// What `size(…)` is asked of.
fn sized(node: &IdedExpr) -> Option<&IdedExpr> {
    let Expr::Call(CallExpr {
        func_name,
        target,
        args,
    }) = &node.expr
    else {
        return None;
    };
    target
        .as_deref()
        .or(args.first())
        .filter(|_| func_name == "size")
}

fn compare(operator: &str, bound: f64, least: Option<f64>, most: Option<f64>) -> Outlook {
    let (least, most) = (
        least.unwrap_or(f64::NEG_INFINITY),
        most.unwrap_or(f64::INFINITY),
    );
    let (yes, no) = match operator {
        operators::GREATER => (most > bound, least <= bound),
        operators::GREATER_EQUALS => (most >= bound, least < bound),
        operators::LESS => (least < bound, most >= bound),
        operators::LESS_EQUALS => (least <= bound, most > bound),
        _ => return UNDECIDED,
    };
    Outlook {
        yes,
        no,
        fails: false,
    }
}

/// The operator that says the same with its sides changed.
fn mirrored(operator: &str) -> &str {
    match operator {
        operators::GREATER => operators::LESS,
        operators::GREATER_EQUALS => operators::LESS_EQUALS,
        operators::LESS => operators::GREATER,
        operators::LESS_EQUALS => operators::GREATER_EQUALS,
        same => same,
    }
}

enum ArgumentSchema<'a> {
    /// Nothing is said of it.
    Open,
    /// No call that passes the schema has it.
    Forbidden,
    /// What is said of it, and whether it may be absent.
    Of {
        schema: &'a Map<String, Value>,
        fails: bool,
    },
}

/// Where the schema speaks of the argument on `path`.
fn place<'a>(path: &[String], schema: &'a Map<String, Value>) -> ArgumentSchema<'a> {
    let (mut at, mut fails) = (schema, false);
    for step in path {
        let properties = at.get("properties").and_then(Value::as_object);
        let closed = at.get("additionalProperties") == Some(&Value::Bool(false))
            && !at.contains_key("patternProperties");
        match properties.and_then(|properties| properties.get(step)) {
            Some(Value::Object(below)) => {
                let required = at.get("required").and_then(Value::as_array);
                fails |= !required.is_some_and(|names| names.iter().any(|name| name == step));
                at = below;
            }
            Some(Value::Bool(false)) => return ArgumentSchema::Forbidden,
            None if closed => return ArgumentSchema::Forbidden,
            _ => return ArgumentSchema::Open,
        }
    }
    ArgumentSchema::Of { schema: at, fails }
}

/// The path of `arguments.a.b` or `arguments['a'].b`.
fn path(node: &IdedExpr) -> Option<Vec<String>> {
    let (operand, name) = if let Expr::Select(select) = &node.expr {
        (&*select.operand, select.field.clone())
    } else if let Expr::Call(CallExpr {
        func_name,
        target: None,
        args,
    }) = &node.expr
        && func_name == operators::INDEX
        && let [operand, index] = args.as_slice()
    {
        (operand, literal(index)?.as_str()?.to_owned())
    } else {
        return None;
    };
    let is_root = matches!(&operand.expr, Expr::Ident(name) if name == "arguments");
    let mut path = if is_root { Vec::new() } else { path(operand)? };
    path.push(name);
    Some(path)
}

fn literal(node: &IdedExpr) -> Option<Value> {
    let Expr::Literal(literal) = &node.expr else {
        return None;
    };
    Some(match literal {
        LiteralValue::Boolean(truth) => Value::Bool(*truth.inner()),
        LiteralValue::Int(number) => Value::from(*number.inner()),
        LiteralValue::UInt(number) => Value::from(*number.inner()),
        LiteralValue::Double(number) => Value::from(*number.inner()),
        LiteralValue::String(text) => Value::from(text.inner()),
        LiteralValue::Bytes(_) | LiteralValue::Null => return None,
    })
}

fn number(node: &IdedExpr) -> Option<f64> {
    literal(node)?.as_f64()
}
