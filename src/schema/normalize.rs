//! Schemas as a model's provider takes them (policy §3, §8), and the way back from what a model
//! writes by them.
//!
//! The normalized schema is a hint to the model and is never enforced: a call is read back and
//! judged by the original. So it may take more than the original, never silently less; what it can
//! no longer say stands in its losses, and a tool of which something required cannot be said is not
//! offered in that profile.

mod back;
mod drop_keywords;
mod loss;
mod measure;
mod merge;
mod names;
mod node;
mod openapi;
mod read;
mod root;
mod strict;
mod write;

pub(crate) use back::ArgumentMapping;
pub(crate) use loss::Losses;

use super::limits::{self, ProfileLimits};
use super::preflight;
use super::quarantine::Quarantine;
use super::survey::Survey;
use crate::model::reads::Profile;
use crate::model::work::{self, WorkExceeded};
use read::{ExpansionTooLarge, SchemaNodeReader};
use serde_json::Value;

/// How far references are written out.
#[derive(Debug, Clone, Copy)]
struct ExpansionAttempt {
    /// How often one definition may be within itself.
    recursion: usize,
    /// How many subschemas may come of it, each 32 bytes of text being one more.
    subschemas: usize,
}

/// The next is tried when one is too much.
const EXPANSION_ATTEMPTS: [ExpansionAttempt; 3] = [
    ExpansionAttempt {
        recursion: 3,
        subschemas: 8_000,
    },
    ExpansionAttempt {
        recursion: 2,
        subschemas: 8_000,
    },
    ExpansionAttempt {
        recursion: 1,
        subschemas: 16_000,
    },
];

/// What one subschema takes, in units of work, and a name in `required`; and all of them: about 40
/// ms.
const NODE_WORK_UNITS: u64 = 150;
const NAME_WORK_UNITS: u64 = 10;
const NORMALIZE_WORK_UNITS_MAX: u64 = 4 * work::INLINE_WORK_UNITS;
/// The subschemas that these are.
const MAX_SUBSCHEMAS_WRITTEN: usize = 26_000;

/// A schema as one profile shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NormalizedSchema {
    /// What is shown.
    pub schema: Value,
    /// How arguments are read back.
    pub back: ArgumentMapping,
    /// What it no longer says.
    pub losses: Losses,
}

/// Why a tool is not offered in a profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NormalizeError {
    /// The original cannot be judged.
    #[error("{0}")]
    Unjudged(#[from] Quarantine),
    /// The root takes no object.
    #[error("the root of the schema takes no object")]
    NotAnObject,
    /// Too much of something for the provider.
    #[error("the schema has more than {most} {what}")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// Strict mode cannot say something that is required.
    #[error("strict mode cannot say the value at `{at}`: it has no fixed shape")]
    FreeForm {
        /// JSON pointer into the schema, made safe to show.
        at: String,
    },
    /// Two names would be shown as one.
    #[error("two names would be shown as one")]
    NameClash,
    /// The provider, or the agent's program, takes no more tools.
    #[error("{most} tools are listed before it, and no more are taken")]
    TooManyTools {
        /// How many are taken.
        most: usize,
    },
}

impl NormalizeError {
    /// The stable label, for `toolgate_quarantined_tools{reason}`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Unjudged(reason) => reason.label(),
            Self::NotAnObject => "profile_root",
            Self::TooLarge { .. } => "profile_size",
            Self::FreeForm { .. } => "profile_free_form",
            Self::NameClash => "profile_names",
            Self::TooManyTools { .. } => "profile_tools",
        }
    }
}

/// `schema` as `profile` shows it. Takes time in proportion to the schema with its references
/// written out, within bounds.
pub(crate) fn normalize(
    schema: &Value,
    profile: Profile,
) -> Result<NormalizedSchema, NormalizeError> {
    let survey = preflight::survey(schema)?;
    if profile == Profile::None {
        return Ok(NormalizedSchema {
            schema: schema.clone(),
            back: ArgumentMapping::default(),
            losses: Losses::default(),
        });
    }
    let mut unfit = NormalizeError::NotAnObject;
    let tried = work::within(NORMALIZE_WORK_UNITS_MAX, || {
        for tried in EXPANSION_ATTEMPTS {
            match once(&survey, profile, tried) {
                Err(too_large @ NormalizeError::TooLarge { .. }) => unfit = too_large,
                ended => return Some(ended),
            }
        }
        None
    });
    match tried {
        Ok(Some(ended)) => ended,
        Ok(None) => Err(unfit),
        Err(WorkExceeded) => {
            // Whatever it is a part of may be what is spent: it is broken off then, and nothing is
            // known of the schema.
            work::spend(1);
            Err(NormalizeError::TooLarge {
                what: "subschemas",
                most: MAX_SUBSCHEMAS_WRITTEN,
            })
        }
    }
}

fn once(
    survey: &Survey<'_>,
    profile: Profile,
    attempt: ExpansionAttempt,
) -> Result<NormalizedSchema, NormalizeError> {
    let ExpansionAttempt {
        recursion,
        subschemas: most,
    } = attempt;
    let limits: &ProfileLimits = limits::of(profile);
    let mut reader = SchemaNodeReader::new(survey, recursion, most);
    let node = reader
        .root()
        .map_err(|ExpansionTooLarge| NormalizeError::TooLarge {
            what: "subschemas, or 48 within each other",
            most,
        })?;
    let mut losses = reader.losses;
    let mut node = root::object(node.ok_or(NormalizeError::NotAnObject)?, &mut losses)?;
    drop_keywords::fit(
        &mut node,
        limits,
        &loss::SchemaPlace::ROOT_PLACE,
        &mut losses,
    );
    match profile {
        Profile::OpenaiStrict => strict::strict(&mut node, true, &mut losses)?,
        Profile::AnthropicStrict => strict::strict(&mut node, false, &mut losses)?,
        Profile::Gemini => openapi::openapi(&mut node, &mut losses)?,
        Profile::None
        | Profile::Portable
        | Profile::Openai
        | Profile::Anthropic
        | Profile::GeminiJson
        | Profile::Xai
        | Profile::Mistral
        | Profile::Bedrock => {}
    }
    if let Some(alphabet) = &limits.property_name {
        names::rename(&mut node, alphabet, &mut losses);
    }
    let schema = write::write(&node);
    measure::judge(&schema, limits)?;
    let back = back::ArgumentMapping::of(&node)
        .map_err(|back::Clash| NormalizeError::NameClash)?
        .pruned()
        .unwrap_or_default();
    Ok(NormalizedSchema {
        schema,
        back,
        losses,
    })
}

#[cfg(test)]
mod tests;
