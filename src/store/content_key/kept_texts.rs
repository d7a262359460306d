//! What is kept for an undo, encrypted as answers are.

use super::{ContentKeys, ContentSealed};
use crate::model::hex::{hex, unhex_all};
use crate::model::ids::ActionId;
use crate::store::state::kept_text::{KeptText, MAX_KEPT_TEXT_BYTES};

impl ContentKeys {
    /// `text`, the `part` of what is kept for the undo of `of`. None where there is no chance for the
    /// nonce: then it is not kept.
    pub fn seal_text(&self, of: ActionId, part: &str, text: &str) -> Option<KeptText> {
        let key = self.current.as_ref();
        let Some(key) = key.filter(|_| text.len() <= MAX_KEPT_TEXT_BYTES) else {
            return Some(KeptText::plain(text));
        };
        let sealed = key.seal(bound(&key.id, of, part)?, text.as_bytes())?;
        Some(KeptText::Sealed {
            key: key.id.clone(),
            hex: hex(&sealed),
        })
    }

    /// What was kept so; none where it was too long.
    ///
    /// # Errors
    /// [`ContentSealed`]: the key is not there, or it is not what that has encrypted.
    pub fn open_text(
        &self,
        of: ActionId,
        part: &str,
        kept: &KeptText,
    ) -> Result<Option<String>, ContentSealed> {
        match kept {
            KeptText::Plain(text) => Ok(Some(text.clone())),
            KeptText::LeftOut { .. } => Ok(None),
            KeptText::Sealed { key, hex } => {
                let changed = || ContentSealed::Changed(key.clone());
                let sealed = unhex_all(hex).ok_or_else(changed)?;
                let text = self.open(key, bound(key, of, part), &sealed)?;
                let text = String::from_utf8(text.to_vec());
                text.map(Some).map_err(|_| changed())
            }
        }
    }
}

/// What the text belongs to: it is no other call's, nor another part of it.
fn bound(key: &str, of: ActionId, part: &str) -> Option<Vec<u8>> {
    serde_json::to_vec(&("undo", key, of, part)).ok()
}

#[cfg(test)]
mod tests {
    use super::super::ContentKey;
    use super::*;
    use crate::model::secret::Secret;

    /// threat-model §3G: what is kept for an undo is read with its key alone, as the part of the call that it
    /// is of; what is too long is not kept.
    #[test]
    fn texts_are_read_as_what_they_are() {
        let keys = ContentKeys {
            current: ContentKey::new(&Secret::new("k".repeat(32))).ok(),
            previous: Vec::new(),
        };
        let (of, other) = (ActionId::generate(), ActionId::generate());
        let kept = keys.seal_text(of, "values", "{\"id\":7}").unwrap();
        assert!(!format!("{kept:?}").contains("id\\\":7"), "{kept:?}");
        assert_eq!(
            keys.open_text(of, "values", &kept),
            Ok(Some("{\"id\":7}".to_owned()))
        );
        for (of, part) in [(other, "values"), (of, "arguments")] {
            assert!(keys.open_text(of, part, &kept).is_err(), "{part}");
        }
        let none = ContentKeys::default();
        assert!(none.open_text(of, "values", &kept).is_err());
        let plain = none.seal_text(of, "values", "{}").unwrap();
        assert_eq!(plain, KeptText::Plain("{}".to_owned()));
        assert_eq!(
            none.open_text(of, "values", &plain),
            Ok(Some("{}".to_owned()))
        );
        for keys in [&keys, &none] {
            let long = keys.seal_text(of, "values", &"x".repeat(MAX_KEPT_TEXT_BYTES + 1));
            assert_eq!(keys.open_text(of, "values", &long.unwrap()), Ok(None));
        }
    }
}
