//! What a probe asks of a call, as it is kept beside its claim: encrypted where contents are.

use super::{ContentKeys, ContentSealed};
use crate::model::ids::ActionId;
use crate::store::state::claim::inquiry::KeptQuestion;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

impl ContentKeys {
    /// The question about the call `action` as it is kept. None where there is no chance for the
    /// nonce: then it is not kept.
    pub fn seal_question(&self, action: ActionId, question: KeptQuestion) -> Option<KeptQuestion> {
        let Some(key) = &self.current else {
            return Some(question);
        };
        let sealed = key.seal(bound(&key.id, action)?, question.arguments.as_bytes())?;
        Some(KeptQuestion {
            arguments: STANDARD.encode(sealed),
            key: Some(key.id.clone()),
            ..question
        })
    }

    /// The arguments of the question that is kept about the call `action`, as JSON.
    pub fn open_question(
        &self,
        action: ActionId,
        question: &KeptQuestion,
    ) -> Result<String, ContentSealed> {
        let Some(id) = &question.key else {
            return Ok(question.arguments.clone());
        };
        let changed = || ContentSealed::Changed(id.clone());
        let sealed = STANDARD.decode(&question.arguments);
        let sealed = sealed.map_err(|_| changed())?;
        let opened = self.open(id, bound(id, action), &sealed)?;
        String::from_utf8(opened.to_vec()).map_err(|_| changed())
    }
}

/// What a question belongs to: it is about no other call, and nothing else that is kept.
fn bound(key: &str, action: ActionId) -> Option<Vec<u8>> {
    serde_json::to_vec(&("question", key, action.to_string())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::digest::Digest;
    use crate::model::secret::Secret;
    use crate::store::content_key::ContentKey;

    /// threat-model §3G: what is kept to ask by is read with its key alone, and about no other call.
    #[test]
    fn a_question_is_bound_to_its_call() {
        let [one, other] = [(); 2].map(|()| ActionId::generate());
        let question = KeptQuestion {
            probe: Digest::of(b"probe"),
            tenant: None,
            caller: None,
            arguments: "{\"order\":\"o-7\"}".to_owned(),
            key: None,
        };
        let keys = |secret: &str| ContentKeys {
            current: Some(ContentKey::new(&Secret::new(secret.repeat(32))).unwrap()),
            previous: Vec::new(),
        };
        let sealed = keys("k").seal_question(one, question.clone()).unwrap();
        assert!(!sealed.arguments.contains("o-7") && sealed.key.is_some());
        let opened = keys("k").open_question(one, &sealed);
        assert_eq!(opened.unwrap(), question.arguments);
        let id = sealed.key.clone().unwrap();
        assert_eq!(
            keys("k").open_question(other, &sealed),
            Err(ContentSealed::Changed(id.clone()))
        );
        assert_eq!(
            keys("l").open_question(one, &sealed),
            Err(ContentSealed::NoKey(id))
        );
        let plain = ContentKeys::default();
        let kept = plain.seal_question(one, question.clone()).unwrap();
        assert_eq!(kept, question);
        assert_eq!(plain.open_question(one, &kept).unwrap(), question.arguments);
    }
}
