//! How one tool is shown, profile by profile: made once, kept within a bound (002-36).

use crate::guards::idempotency::Shown;
use crate::mcp::json::Text;
use crate::model::reads::Profile;
use crate::schema::normalize::{ArgumentMapping, Losses, NormalizeError};
use parking_lot::Mutex;
use std::sync::Arc;

/// Variants of one tool that are kept: every profile in two ways, so that no two callers take turns
/// in making theirs (002-14).
const VARIANTS: usize = 2 * Profile::ALL.len();
/// What the kept variants of one tool may take in bytes, the latest one apart.
const KEPT: usize = 1 << 20;
/// A tool as one profile shows it.
#[derive(Debug)]
pub struct Variant {
    /// Its definition, under its own name.
    pub definition: Text,
    /// How arguments are read back.
    pub back: ArgumentMapping,
    /// What its schema no longer says.
    pub losses: Losses,
}

pub(in crate::gate) type MadeVariant = Result<Arc<Variant>, NormalizeError>;

/// The variants of one tool. They live and end with it, so that a changed definition has none of
/// the old ones.
#[derive(Debug, Default)]
pub struct Variants(Mutex<Vec<(VariantKey, MadeVariant)>>);

/// What decides how a tool is shown.
pub(in crate::gate) type VariantKey = (Profile, How);

/// What its contract says of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gate) struct How {
    /// The argument for the key.
    pub(in crate::gate) key: Option<Shown>,
    /// Whether results may be others than the output schema says.
    pub(in crate::gate) reshaped: bool,
}

impl Variants {
    /// The variant, and whether it was there.
    pub(in crate::gate) fn get(
        &self,
        key: VariantKey,
        fit: impl FnOnce() -> MadeVariant,
    ) -> (MadeVariant, bool) {
        let known = |kept: &[(VariantKey, MadeVariant)]| {
            kept.iter()
                .find(|(known, _)| *known == key)
                .map(|(_, made)| made.clone())
        };
        if let Some(made) = known(&self.0.lock()) {
            return (made, true);
        }
        let made = fit();
        let mut kept = self.0.lock();
        if known(&kept).is_none() {
            let is_full = |kept: &[(VariantKey, MadeVariant)]| {
                let bytes: usize = kept.iter().map(|(_, made)| length(made)).sum();
                kept.len() >= VARIANTS || bytes + length(&made) > KEPT
            };
            while !kept.is_empty() && is_full(&kept) {
                drop(kept.remove(0));
            }
            kept.push((key, made.clone()));
        }
        (made, false)
    }
}

/// Bytes of a definition; its way back is in proportion.
fn length(made: &MadeVariant) -> usize {
    made.as_ref()
        .map_or(0, |variant| variant.definition.as_bytes().len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn of_length(bytes: usize) -> Arc<Variant> {
        let text = Bytes::from(format!("\"{}\"", "x".repeat(bytes - 2)));
        let limits = crate::mcp::json::SERVER_JSON_LIMITS;
        let definition = Text::read(text, &limits).unwrap();
        Arc::new(Variant {
            definition,
            back: ArgumentMapping::default(),
            losses: Losses::default(),
        })
    }

    /// Who of these is made anew, asked in turn, when each is so long.
    fn made_anew(keys: &[VariantKey], bytes: usize) -> usize {
        let variants = Variants::default();
        let of = |key: &VariantKey| !variants.get(*key, || Ok(of_length(bytes))).1;
        assert!(keys.iter().all(of), "all are made once");
        keys.iter().filter(|key| of(key)).count()
    }

    /// 002-14: callers of all profiles, before and after a reload that shows the key, take nothing
    /// from each other; together the variants of one tool stay within a bound.
    #[test]
    fn variants_are_kept_within_a_bound() {
        let keys: Vec<VariantKey> = [None, Some(Shown { required: true })]
            .into_iter()
            .flat_map(|key| {
                Profile::ALL.map(|profile| {
                    (
                        profile,
                        How {
                            key,
                            reshaped: false,
                        },
                    )
                })
            })
            .collect();
        assert_eq!(made_anew(&keys, 4_096), 0);
        assert_eq!(made_anew(&keys, KEPT / 4), keys.len(), "four have room");
        assert_eq!(made_anew(&keys[..4], KEPT / 4), 0);
        assert_eq!(
            made_anew(&keys[..1], KEPT + 1),
            0,
            "the latest is kept, whatever it takes"
        );
        let variants = Variants::default();
        for key in &keys {
            assert!(variants.get(*key, || Ok(of_length(KEPT / 2))).0.is_ok());
        }
        assert_eq!(variants.0.lock().len(), 2);
    }
}
