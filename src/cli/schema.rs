//! `toolgate schema`: the JSON Schema of a file, for editors.

use super::printed::print;
use crate::admin::openapi;
use crate::config::ConfigSettings;
use crate::policy::exemptions;
use crate::policy::file::PolicyFile;
use crate::policy::pack;
use crate::policy::shape::schema_of;

/// What to print.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which file
    #[arg(value_enum, default_value_t = SchemaKind::Policy)]
    kind: SchemaKind,
}

/// A file that toolgate reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SchemaKind {
    /// toolgate.yaml
    Config,
    /// A policy file
    Policy,
    /// A test pack
    Pack,
    /// Exemptions of calls that were executed although they are forbidden
    Exemptions,
    /// What programs can ask at the operators' door: `OpenAPI`
    Operators,
}

/// Prints the schema.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    print(&text(args.kind)?)?;
    Ok(0)
}

/// The schema as the files under `policies/` hold it.
pub(super) fn text(kind: SchemaKind) -> anyhow::Result<String> {
    let schema = match kind {
        SchemaKind::Config => schema_of::<ConfigSettings>(),
        SchemaKind::Policy => schema_of::<PolicyFile>(),
        SchemaKind::Pack => schema_of::<pack::PackFile>(),
        SchemaKind::Exemptions => schema_of::<exemptions::ExemptionFile>(),
        SchemaKind::Operators => openapi::document(),
    };
    Ok(format!("{}\n", serde_json::to_string_pretty(&schema)?))
}

#[cfg(test)]
mod tests {
    use super::{ConfigSettings, PolicyFile, SchemaKind, exemptions, pack, schema_of, text};
    use crate::model::diagnostic::Problems;
    use crate::policy::shape::{self, AsWritten};
    use clap::ValueEnum as _;
    use serde_json::{Value, json};

    /// What a file of that kind is described by, and what is said of a key that the description
    /// does not have. The bound is the test: what cannot be described, read and sent to another
    /// thread does not compile here.
    fn written<T: AsWritten>() -> (Value, Vec<String>) {
        let mut problems = Problems::default();
        let _: Option<T> = shape::read(json!({ "no_such_key": 1 }), &mut problems);
        let found = problems.into_found().into_iter();
        (
            schema_of::<T>(),
            found.map(|problem| problem.message).collect(),
        )
    }

    /// 002-08: each kind of file is read by the type that describes it.
    #[test]
    fn every_file_is_described_by_what_reads_it() {
        for kind in SchemaKind::value_variants() {
            let (schema, said) = match kind {
                SchemaKind::Config => written::<ConfigSettings>(),
                SchemaKind::Policy => written::<PolicyFile>(),
                SchemaKind::Pack => written::<pack::PackFile>(),
                SchemaKind::Exemptions => written::<exemptions::ExemptionFile>(),
                // No file.
                SchemaKind::Operators => continue,
            };
            assert_eq!(
                text(*kind).unwrap().trim_end(),
                serde_json::to_string_pretty(&schema).unwrap(),
                "{kind:?}"
            );
            assert!(
                schema["properties"].get("no_such_key").is_none(),
                "{kind:?}"
            );
            assert!(
                said.contains(&"unknown key `no_such_key`".to_owned()),
                "{kind:?}: {said:?}"
            );
        }
    }

    /// 002-07: one struct generates both the schema and the parser, and the committed schema is
    /// that one.
    #[test]
    fn committed_schemas_are_those_of_the_structs() {
        let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
        let files = [
            (SchemaKind::Config, "toolgate.schema.json"),
            (SchemaKind::Policy, "policy.schema.json"),
            (SchemaKind::Pack, "pack.schema.json"),
            (SchemaKind::Exemptions, "exemptions.schema.json"),
        ];
        for (kind, name) in files {
            let path = directory.join(name);
            let hint = format!("run `toolgate schema` into {}", path.display());
            let committed =
                std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {hint}"));
            assert!(committed == text(kind).unwrap(), "{hint}");
        }
    }
}
