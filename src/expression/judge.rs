//! Reads an expression at load and refuses what would only fail, or take too long, on a call.
//!
//! The language has no types to check and no limit on cost, so names, functions and nesting are
//! judged here (design §6.2).

use super::CEL_LANGUAGE;
use super::names::{CALLER_FIELDS, FUNCTIONS, TYPE_NAMES, function_meant, owned};
use super::reads::{ExpressionCost, ExpressionReads, RE_FUNCTION};
use super::slips;
use crate::model::diagnostic::{MeantPart, Problems};
use crate::model::regular::Regular;
use crate::model::spelling::{nearest, suggest};
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use cel::{IdedExpr, Program};
use std::collections::HashMap;

/// An expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 4 << 10;
/// From here on, a double counts as equal to whole numbers that are not equal to it.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

const OPERATORS: &[&str] = &[
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
    operators::NOT_STRICTLY_FALSE,
];

/// One expression, judged.
pub(super) struct Expression {
    pub(super) tree: IdedExpr,
    pub(super) reads: ExpressionReads,
    pub(super) effort: ExpressionCost,
    pub(super) patterns: HashMap<String, Regular>,
}

impl Expression {
    /// Reads and judges `source`; notes every problem with its place in it.
    pub(super) fn read(source: &str, problems: &mut Problems) -> Option<Self> {
        if source.len() > EXPRESSION_BYTES_MAX {
            problems.error(
                "an expression longer than 4096 bytes",
                "split it into several rules",
            );
            return None;
        }
        let program = match CEL_LANGUAGE.compile(source) {
            Ok(program) => program,
            Err(errors) => {
                let first = errors.errors.first();
                let said = first.map(|error| (error.pos, error.msg.as_str()));
                slips::unreadable(source, said.unwrap_or_default(), problems);
                return None;
            }
        };
        let mut tree = program.expression().clone();
        let mut judge = ExpressionChecker::new(&program, problems);
        judge.walk(&mut tree);
        let ExpressionChecker {
            fine,
            reads,
            patterns,
            effort,
            ..
        } = judge;
        fine.then_some(Self {
            tree,
            reads,
            effort,
            patterns,
        })
    }
}

/// Where a part of an expression stands.
pub(super) fn part_of(program: &Program, node: u64) -> MeantPart {
    let source = program.source_info();
    let (start, last) = source.offset_for(node).unwrap_or_default();
    MeantPart {
        start: start as usize,
        length: (last.saturating_sub(start) + 1) as usize,
    }
}

/// Where `name` stands, that of a part or a function whose node is `node`: the parser keeps the
/// place of the point or the bracket beside it.
pub(super) fn part_of_name(program: &Program, node: u64, name: &str) -> MeantPart {
    let part = part_of(program, node);
    let length = name.chars().count();
    let letters: Vec<char> = program.source_info().source.chars().collect();
    let is_at = |start: &usize| {
        let there = letters.get(*start..start + length);
        there.is_some_and(|there| there.iter().copied().eq(name.chars()))
    };
    let around = part.start.saturating_sub(length + 1)..=part.start + 2;
    let mut starts = around.rev().chain(part.start + 3..letters.len());
    starts
        .find(is_at)
        .map_or(part, |start| MeantPart { start, length })
}

/// One pass over the tree.
struct ExpressionChecker<'a> {
    program: &'a Program,
    problems: &'a mut Problems,
    fine: bool,
    reads: ExpressionReads,
    effort: ExpressionCost,
    patterns: HashMap<String, Regular>,
    /// Names that comprehensions bind, innermost last.
    bound: Vec<String>,
    /// Comprehensions around this node's value.
    nesting: usize,
}

impl<'a> ExpressionChecker<'a> {
    fn new(program: &'a Program, problems: &'a mut Problems) -> Self {
        let (reads, effort, patterns) = (
            ExpressionReads::default(),
            ExpressionCost::default(),
            HashMap::new(),
        );
        Self {
            program,
            problems,
            fine: true,
            reads,
            effort,
            patterns,
            bound: Vec::new(),
            nesting: 0,
        }
    }

    fn error(&mut self, node: u64, message: &str, hint: &str) {
        self.fine = false;
        let part = part_of(self.program, node);
        self.problems.error_at(part, message, hint);
    }

    /// The same of a name.
    fn error_of(&mut self, node: u64, name: &str, message: &str, hint: &str) {
        self.fine = false;
        let part = part_of_name(self.program, node, name);
        self.problems.error_at(part, message, hint);
    }

    fn walk(&mut self, node: &mut IdedExpr) {
        self.effort.parts += 1;
        if let Some(path) = self.path(node) {
            if self.nesting > 0 {
                self.effort.looped.push(path.clone());
            }
            self.reads.arguments.insert(path);
            return;
        }
        let id = node.id;
        match &mut node.expr {
            Expr::Literal(LiteralValue::Double(double)) if double.inner().abs() >= MAX_EXACT => {
                let hint = "write it without a point or an exponent; with one, numbers that are not equal to it count as equal";
                self.error(id, "a number that is not exact", hint);
            }
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                let name = name.clone();
                self.name(id, &name);
            }
            Expr::Select(select) => {
                if self.is_free(&select.operand, "caller")
                    && !CALLER_FIELDS.contains(&select.field.as_str())
                {
                    let message = format!("the caller has no `{}`", select.field);
                    let hint = suggest(&select.field, &owned(CALLER_FIELDS));
                    self.error_of(id, &select.field, &message, &hint);
                }
                self.walk(&mut select.operand);
            }
            Expr::Call(call) => self.call(id, call),
            Expr::Comprehension(comprehension) => self.comprehension(id, comprehension),
            Expr::List(list) => list
                .elements
                .iter_mut()
                .for_each(|element| self.walk(element)),
            Expr::Map(map) => {
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        self.walk(&mut entry.key);
                        self.walk(&mut entry.value);
                    }
                }
            }
            Expr::Struct(_) => self.error(
                id,
                "messages have no types here",
                "compare the fields one by one",
            ),
        }
    }

    fn name(&mut self, id: u64, name: &str) {
        if self.bound.iter().any(|bound| bound == name) || TYPE_NAMES.contains(&name) {
            return;
        }
        match name {
            "arguments" => {
                self.reads.all = true;
                if self.nesting > 0 {
                    self.effort.looped.push(Vec::new());
                }
            }
            "caller" => self.reads.caller = true,
            _ => {
                let message = format!("unknown name `{}`", name.escape_debug());
                self.error(id, &message, &self.name_meant(name));
            }
        }
    }

    /// What may have been meant by a name that nothing has.
    fn name_meant(&self, name: &str) -> String {
        let known: Vec<String> = ["arguments", "caller", "true", "false", "null"]
            .map(str::to_owned)
            .into_iter()
            .chain(
                self.bound
                    .iter()
                    .filter(|bound| !bound.starts_with('@'))
                    .cloned(),
            )
            .collect();
        match nearest(name, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "an argument is `arguments.{name}`, and text stands in quotes: `'{name}'`; besides there is `caller`"
            ),
        }
    }

    /// Whether `node` is this variable of ours and not one that a comprehension binds.
    fn is_free(&self, node: &IdedExpr, variable: &str) -> bool {
        matches!(&node.expr, Expr::Ident(name) if name == variable)
            && !self.bound.iter().any(|bound| bound == variable)
    }

    /// The path of `arguments.a.b` or `arguments['a'].b`.
    fn path(&self, node: &IdedExpr) -> Option<Vec<String>> {
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
            (operand, literal(index)?)
        } else {
            return None;
        };
        let mut path = if self.is_free(operand, "arguments") {
            Vec::new()
        } else {
            self.path(operand)?
        };
        path.push(name);
        Some(path)
    }

    fn call(&mut self, id: u64, call: &mut CallExpr) {
        let known = FUNCTIONS.contains(&call.func_name.as_str())
            || OPERATORS.contains(&call.func_name.as_str());
        if !known {
            let message = format!("unknown function `{}`", call.func_name.escape_debug());
            let hint = function_meant(&call.func_name);
            self.error_of(id, &call.func_name, &message, &hint);
        }
        if matches!(call.func_name.as_str(), "matches" | RE_FUNCTION) {
            self.pattern(id, call);
        }
        for argument in call.target.as_deref_mut().into_iter().chain(&mut call.args) {
            self.walk(argument);
        }
        let cheap = OPERATORS.contains(&call.func_name.as_str()) && call.func_name != operators::IN;
        if self.nesting > 0 && !cheap && self.reads_arguments(call) {
            let hint = "look at the element itself, or write the test outside of all, exists, map and filter";
            self.error(id, "looks through an argument once for each element", hint);
        }
    }

    /// Whether an operand of `call` is an argument, or part of one.
    fn reads_arguments(&self, call: &CallExpr) -> bool {
        let is_argument =
            |node: &IdedExpr| self.path(node).is_some() || self.is_free(node, "arguments");
        call.target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .any(is_argument)
    }

    /// Compiles the pattern of `re(text, 'pattern')` and of `text.matches('pattern')`, which
    /// becomes the former.
    fn pattern(&mut self, id: u64, call: &mut CallExpr) {
        if let Some(text) = call.target.take() {
            call.args.insert(0, *text);
        }
        RE_FUNCTION.clone_into(&mut call.func_name);
        let pattern = match call.args.as_slice() {
            [_, pattern] => literal(pattern),
            _ => None,
        };
        let Some(pattern) = pattern else {
            self.error(
                id,
                "the pattern is not a text written here",
                "write `re(arguments.name, 'pattern')`",
            );
            return;
        };
        match Regular::new(&pattern) {
            Some(compiled) => drop(self.patterns.insert(pattern, compiled)),
            None => self.error(
                id,
                "not a pattern, or one that is too large",
                "look-around is not supported",
            ),
        }
    }

    fn comprehension(&mut self, id: u64, comprehension: &mut ComprehensionExpr) {
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
        if self.nesting > 0 {
            let hint = "one of all, exists, exists_one, map and filter inside another takes time without bound";
            self.error(id, "a loop within a loop", hint);
        }
        self.walk(iter_range);
        self.walk(accu_init);
        let outside = self.bound.len();
        self.bound.extend(
            [Some(iter_var), iter_var2.as_mut(), Some(accu_var)]
                .into_iter()
                .flatten()
                .map(|name| name.clone()),
        );
        self.nesting += 1;
        self.effort.loops = true;
        self.walk(loop_cond);
        self.walk(loop_step);
        self.walk(result);
        self.nesting -= 1;
        self.bound.truncate(outside);
    }
}

fn literal(node: &IdedExpr) -> Option<String> {
    if let Expr::Literal(LiteralValue::String(text)) = &node.expr {
        Some(text.inner().to_owned())
    } else {
        None
    }
}
