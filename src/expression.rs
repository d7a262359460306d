//! Floor 1: the expressions of policies (CEL): read and judged when a policy is loaded, run on the
//! arguments of a call.
//!
//! No guard owns the language: rules ask it whether a call is refused, and the steps of a rewriting
//! what a value becomes.

mod direct;
mod judge;
pub(crate) mod kinds;
mod names;
mod reads;
mod slips;
mod values;
pub(crate) mod verdict;

pub use values::LazyCaller;

use crate::model::diagnostic::Problems;
use crate::model::work;
use cel::context::VariableResolver;
use cel::{Context, Env, IdedExpr};
use direct::{DirectInput, DirectTest};
use judge::Expression;
use reads::{ArgumentsRead, ExpressionCost, ExpressionReads, RE_FUNCTION, RegexTable};
use serde_json::Value;
use std::cell::OnceCell;
use std::sync::{Arc, LazyLock, OnceLock};
use verdict::{ExpressionFailure, ExpressionVerdict};

/// The language: CEL's own functions and macros, without optional values.
static CEL_LANGUAGE: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));

/// What a call reads whose arguments are longer than expressions may read.
pub const ARGUMENTS_TOO_LONG_MESSAGE: &str =
    "at most 64 KiB in the arguments that the contract's rules read";

/// Expressions that are run on the same call, and what they read of it: nothing else is converted.
#[derive(Default)]
pub struct ExpressionSet {
    wanted: ArgumentsRead,
    reads_caller: bool,
    patterns: RegexTable,
}

/// An expression that was judged at load. Of many tools few are called, so its tree is grown for
/// the first call: it takes twenty times the room of its text.
pub struct CompiledExpression {
    source: Box<str>,
    effort: ExpressionCost,
    grown: OnceLock<Option<GrownExpression>>,
}

/// An expression, as it is run.
struct GrownExpression {
    tree: IdedExpr,
    /// What it asks, where that is simple: this decides most calls.
    direct: Option<DirectTest>,
}

/// A call, as expressions see it.
pub struct ExpressionInput<'v> {
    set: &'v ExpressionSet,
    call: DirectInput<'v>,
    /// The caller, as the language sees it.
    caller: &'v dyn VariableResolver,
    /// The call, as the language sees it; made when the first expression needs it.
    seen: OnceCell<Context<'v, 'v>>,
    /// Values that are read, with 16 bytes of text for one.
    read: u64,
}

/// What one part of an expression takes, and one value that it reads or copies, in units of work.
const PART_WORK_UNITS: u64 = 8;
const VALUE_WORK_UNITS: u64 = 4;

/// Takes expressions in, to be run together.
#[derive(Default)]
pub struct ExpressionSetBuilder {
    reads: ExpressionReads,
    patterns: RegexTable,
}

// === impl ExpressionSetBuilder ===

impl ExpressionSetBuilder {
    /// Reads and judges one more; notes every problem with its place in it. Its tree is for the caller
    /// to look at now.
    pub fn read(
        &mut self,
        source: &str,
        problems: &mut Problems,
    ) -> Option<(IdedExpr, CompiledExpression)> {
        let Expression {
            tree,
            reads,
            effort,
            patterns,
        } = Expression::read(source, problems)?;
        self.reads.merge(reads);
        self.patterns.extend(patterns);
        Some((
            tree,
            CompiledExpression {
                source: source.into(),
                effort,
                grown: OnceLock::new(),
            },
        ))
    }

    /// What all of them need, and the arguments that they name, as paths from the root.
    pub fn finish(self) -> (ExpressionSet, Vec<Vec<String>>) {
        let Self { reads, patterns } = self;
        let reading = ExpressionSet {
            wanted: reads.wanted(),
            reads_caller: reads.caller,
            patterns,
        };
        (reading, reads.arguments.into_iter().collect())
    }
}

// === impl ExpressionSet ===

impl ExpressionSet {
    /// The call as these expressions see it. None when what they read is longer than 64 KiB.
    pub fn sight<'v>(
        &'v self,
        seen: &'v LazyCaller<'_>,
        arguments: &'v Value,
    ) -> Option<ExpressionInput<'v>> {
        values::are_short(arguments, &self.wanted).then(|| ExpressionInput {
            set: self,
            call: DirectInput {
                caller: seen.caller(),
                arguments,
            },
            caller: seen,
            seen: OnceCell::new(),
            read: self.wanted.size(arguments),
        })
    }

    /// The call, as the language sees it.
    fn shown<'v>(&self, caller: &'v dyn VariableResolver, arguments: &'v Value) -> Context<'v, 'v> {
        let mut context = Context::with_env(CEL_LANGUAGE.clone());
        if self.reads_caller {
            context.set_variable_resolver(caller);
        }
        context.add_variable_as_val("arguments", values::arguments(arguments, &self.wanted));
        if !self.patterns.is_empty() {
            let patterns = self.patterns.clone();
            let matches =
                move |text: Arc<String>, pattern: Arc<String>| patterns.matches(&text, &pattern);
            // The language has no `re`, so this cannot clash.
            drop(context.add_function(RE_FUNCTION, matches));
        }
        context
    }
}

// === impl CompiledExpression ===

impl CompiledExpression {
    /// As its author wrote it.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The arguments that it names, as paths from the root; none if it reads all at once.
    pub(crate) fn reads(&self) -> Option<Vec<Vec<String>>> {
        let reads = Expression::read(&self.source, &mut Problems::default())?.reads;
        (!reads.all).then(|| reads.arguments.into_iter().collect())
    }

    /// None if it cannot be read, which was ruled out at load.
    fn grown(&self) -> Option<&GrownExpression> {
        let read = || {
            let Expression { tree, .. } = Expression::read(&self.source, &mut Problems::default())?;
            let direct = DirectTest::of(&tree);
            Some(GrownExpression { tree, direct })
        };
        self.grown.get_or_init(read).as_ref()
    }
}

// === impl ExpressionInput ===

impl ExpressionInput<'_> {
    /// What the language says.
    fn resolve(&self, tree: &IdedExpr) -> Result<cel::Value, ExpressionFailure> {
        let seen = || self.set.shown(self.caller, self.call.arguments);
        self.seen
            .get_or_init(seen)
            .resolve(tree)
            .map_err(|error| ExpressionFailure::of(&error))
    }

    /// What an expression can take: nobody can look into its evaluation.
    fn units(&self, effort: &ExpressionCost) -> u64 {
        let once = effort
            .parts
            .saturating_mul(PART_WORK_UNITS + VALUE_WORK_UNITS * self.read);
        if !effort.loops {
            return once;
        }
        let at = |path: &Vec<String>| {
            path.iter()
                .try_fold(self.call.arguments, |value, name| value.get(name))
        };
        let looked_at = effort
            .looped
            .iter()
            .filter_map(at)
            .map(values::size)
            .fold(0, u64::saturating_add);
        let each = (effort.parts * PART_WORK_UNITS)
            .saturating_add(looked_at.saturating_mul(2 * VALUE_WORK_UNITS));
        once.saturating_add(each.saturating_mul(self.read + effort.parts))
    }

    /// Whether `expression` is true or false, or why it is neither.
    pub(crate) fn verdict(&self, expression: &CompiledExpression) -> ExpressionVerdict {
        work::spend(self.units(&expression.effort));
        let Some(grown) = expression.grown() else {
            return ExpressionVerdict::Failed(ExpressionFailure::NoTruth);
        };
        let direct = grown.direct.as_ref();
        let direct = direct.and_then(|test| test.truth(self.call));
        let said = match direct {
            Some(truth) => Ok(cel::Value::Bool(truth)),
            None => self.resolve(&grown.tree),
        };
        match said {
            Ok(cel::Value::Bool(true)) => ExpressionVerdict::True,
            Ok(cel::Value::Bool(false)) => ExpressionVerdict::False,
            Ok(_) => ExpressionVerdict::Failed(ExpressionFailure::NoTruth),
            Err(failed) => ExpressionVerdict::Failed(failed),
        }
    }

    /// What `expression` says, as JSON; none when it fails, or says what JSON cannot.
    pub fn value(&self, expression: &CompiledExpression) -> Option<Value> {
        work::spend(self.units(&expression.effort));
        let said = self.resolve(&expression.grown()?.tree).ok()?;
        let is_number_of_json = !matches!(said, cel::Value::Float(number) if !number.is_finite());
        said.json().ok().filter(|_| is_number_of_json)
    }
}
