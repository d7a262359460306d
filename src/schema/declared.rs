//! What is known of a tool's arguments, by the schema of its server and by that of its contract.

use super::kinds::{JsonKind, is_settled, kind_at};
use super::metered::pay;
use super::names::PropertyNames;
use super::validate::Schema;
use serde_json::Value;
use std::borrow::Cow;
use std::cell::OnceCell;

/// What reading one value of a schema takes, in units of work, beside its text.
const READ_WORK_UNITS: u64 = 8;

/// The schemas that a call has passed when it comes to its contract's rules.
#[derive(Default)]
pub struct DeclaredArguments<'s> {
    tool: Option<&'s Schema>,
    contract: Option<ContractSchema<'s>>,
    /// The schemas, read from their texts when first asked for.
    sources: OnceCell<Vec<Cow<'s, Value>>>,
}

/// A contract's schema, compiled or as written.
#[derive(Clone, Copy)]
enum ContractSchema<'s> {
    Compiled(&'s Schema),
    Written(&'s Value),
}

impl<'s> DeclaredArguments<'s> {
    /// As the tool's server and its contract declare them.
    pub fn of(tool: &'s Schema, contract: Option<&'s Schema>) -> Self {
        Self {
            tool: Some(tool),
            contract: contract.map(ContractSchema::Compiled),
            sources: OnceCell::new(),
        }
    }

    /// As far as the contract alone says.
    pub(crate) fn written(contract: &'s Value) -> Self {
        Self {
            tool: None,
            contract: Some(ContractSchema::Written(contract)),
            sources: OnceCell::new(),
        }
    }

    /// Its type, if only one is left.
    pub(crate) fn kind(&self, path: &[String]) -> Option<JsonKind> {
        self.sources()
            .iter()
            .find_map(|schema| kind_at(schema, path))
    }

    /// Whether the types of the argument and of everything in it are said.
    pub(crate) fn settles(&self, path: &[String]) -> bool {
        self.sources().iter().any(|schema| is_settled(schema, path))
    }

    /// Whether the tool has no such argument, for certain.
    pub(crate) fn excludes(&self, path: &[String]) -> bool {
        self.names().is_some_and(|names| names.exclude(path))
    }

    /// The tool's own names where the last step of `path` stands.
    pub(crate) fn beside(&self, path: &[String]) -> Vec<String> {
        self.names()
            .map(|names| names.beside(path))
            .unwrap_or_default()
    }

    fn names(&self) -> Option<&'s PropertyNames> {
        self.tool.map(Schema::names)
    }

    fn sources(&self) -> &[Cow<'s, Value>] {
        let read = |schema: &Schema| {
            let source = schema.source();
            pay(&source, READ_WORK_UNITS, 1);
            Cow::Owned(source)
        };
        self.sources.get_or_init(|| {
            let contract = self.contract.map(|schema| match schema {
                ContractSchema::Compiled(schema) => read(schema),
                ContractSchema::Written(written) => Cow::Borrowed(written),
            });
            self.tool.map(read).into_iter().chain(contract).collect()
        })
    }
}
