//! Floor 1: the schemas of tools. What a tool server declares is judged before it is compiled,
//! compiled once, and kept beside the tool; what cannot be judged quarantines the tool instead of
//! letting everything through.

mod anchors;
pub(crate) mod choices;
pub(crate) mod closed;
pub(crate) mod contradictions;
mod declared;
mod dialect;
mod explain;
pub(crate) mod flags;
pub(crate) mod kinds;
pub(crate) mod limits;
pub(crate) mod mentions;
mod metered;
mod names;
pub(crate) mod normalize;
mod pattern;
pub(crate) mod preflight;
mod quarantine;
mod survey;
pub mod validate;
mod violation;
mod weight;

pub use declared::DeclaredArguments;
pub use names::PropertyNames;
pub use pattern::NamePattern;
pub use quarantine::Quarantine;
pub use validate::{Schema, schema_hash};
pub use violation::SchemaViolation;
