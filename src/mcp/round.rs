//! What a tool server wants back with the answers to its questions (`requestState`, 2026-07-28),
//! sealed: only the agent that it was given to brings it back, and only with the same request to
//! the same server (threat-model §3C C8).
//!
//! An agent reads `tg1.`, an HMAC-SHA256, and the server's own words. They are no secret of the
//! server's: it has to seal them itself if they are.

use super::canonical;
use super::json::Text;
use super::message::Message;
use crate::model::caller::Caller;
use crate::model::ids::ServerName;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Bytes of the key.
pub const ROUND_KEY_BYTES: usize = 32;

/// The member that it is.
const STATE_MEMBER: &str = "requestState";
/// What a sealed one begins with; another number would be another form.
const SEALED_PREFIX: &str = "tg1.";
/// Members of `params` that are others in the next round, or nothing of what is asked for.
const ROUND_MEMBERS: [&str; 4] = ["_meta", "inputResponses", STATE_MEMBER, "task"];
/// An agent may give each round a key of its own: each is a claim of its own (guarantees §4).
const IDEMPOTENCY_KEY_ARGUMENT: &str = "idempotency_key";

/// The key, and what is done with it.
pub struct RoundSeal(Hmac<Sha256>);

impl std::fmt::Debug for RoundSeal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal")
    }
}

/// What a sealed state belongs to.
#[derive(Clone, Copy)]
pub struct RoundBinding<'a> {
    /// Who asked.
    pub caller: &'a Caller,
    /// Whom.
    pub server: &'a ServerName,
    /// By which method.
    pub method: &'a str,
    /// For what, as the agent wrote it.
    pub params: Option<&'a Text>,
}

/// It is no state that toolgate gave this caller for this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`requestState` is not the one that came with the question to this very request; send the request again without it"
)]
pub struct Foreign;

impl RoundSeal {
    /// With this key; none if it is not [`ROUND_KEY_BYTES`] bytes.
    pub fn new(key: &[u8]) -> Option<Self> {
        Some(Self(
            Hmac::new_from_slice(key)
                .ok()
                .filter(|_| key.len() == ROUND_KEY_BYTES)?,
        ))
    }

    /// The answer of a tool server as its agent may read it.
    #[must_use]
    pub fn sealed(&self, bound: RoundBinding<'_>, answer: Message) -> Message {
        let result = answer.body.as_ref().filter(|_| !answer.is_error);
        let Some(state) = result.and_then(|result| result.get(STATE_MEMBER)) else {
            return answer;
        };
        // What is no string is no state; nothing that came back for it would be opened.
        let Some(own) = state.as_str() else {
            return answer;
        };
        let sealed = self.written(bound, &own);
        let mut members = answer
            .body
            .as_ref()
            .and_then(Text::object)
            .unwrap_or_default();
        members.set(STATE_MEMBER, Text::string(&sealed));
        Message {
            body: Some(members.text()),
            ..answer
        }
    }

    /// `message` with the server's own words in place of what the agent brings, which `bound`
    /// names.
    pub fn opened(
        &self,
        bound: RoundBinding<'_>,
        message: &Message,
    ) -> Result<Option<Message>, Foreign> {
        let Some(state) = message
            .body
            .as_ref()
            .and_then(|params| params.get(STATE_MEMBER))
        else {
            return Ok(None);
        };
        let own = state
            .as_str()
            .and_then(|state| self.read(bound, &state))
            .ok_or(Foreign)?;
        let mut members = message
            .body
            .as_ref()
            .and_then(Text::object)
            .unwrap_or_default();
        members.set(STATE_MEMBER, Text::string(&own));
        Ok(Some(Message {
            body: Some(members.text()),
            ..message.clone()
        }))
    }

    /// `own`, as only the caller that `bound` names can bring it back.
    pub(crate) fn written(&self, bound: RoundBinding<'_>, own: &str) -> String {
        let tag = URL_SAFE_NO_PAD.encode(self.mac(bound, own).finalize().into_bytes());
        format!("{SEALED_PREFIX}{tag}.{own}")
    }

    /// What was sealed, if it was for what `bound` names.
    pub(crate) fn read(&self, bound: RoundBinding<'_>, state: &str) -> Option<String> {
        let (tag, own) = state.strip_prefix(SEALED_PREFIX)?.split_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        self.mac(bound, own).verify_slice(&tag).ok()?;
        Some(own.to_owned())
    }

    fn mac(
        &self,
        RoundBinding {
            caller,
            server,
            method,
            params,
        }: RoundBinding<'_>,
        own: &str,
    ) -> Hmac<Sha256> {
        let tenant = caller.tenant.as_ref().map(ToString::to_string);
        let mut asked = params.map(Text::value).unwrap_or_default();
        if let Some(params) = asked.as_object_mut() {
            params.retain(|name, _| !ROUND_MEMBERS.contains(&name.as_str()));
            if let Some(arguments) = params
                .get_mut("arguments")
                .and_then(serde_json::Value::as_object_mut)
            {
                arguments.remove(IDEMPOTENCY_KEY_ARGUMENT);
            }
        }
        let parts: [&[u8]; 7] = [
            caller.agent.as_str().as_bytes(),
            &[u8::from(tenant.is_some())],
            tenant.as_deref().unwrap_or_default().as_bytes(),
            server.as_str().as_bytes(),
            method.as_bytes(),
            &canonical::exact(&asked),
            own.as_bytes(),
        ];
        // One part more, where there is one: what was sealed for a caller without a user stays so.
        let named = caller.user.as_ref().map(|user| user.as_str().as_bytes());
        let mut mac = self.0.clone();
        for part in parts.into_iter().chain(named) {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests;
