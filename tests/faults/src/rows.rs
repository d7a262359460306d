//! What the journal says of calls with side effects, in the few words that the invariants need.

use anyhow::Context as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A record that matters to the invariants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A call may be sent from now on.
    Intent {
        /// The record's number.
        seq: u64,
        /// toolgate's id of the call.
        action: String,
        /// SHA-256 of the arguments' RFC 8785 form.
        digest: String,
        /// Whose token.
        session: String,
        /// The token.
        token: u64,
        /// Under which key it was held and allowed; it is used up.
        hold: Option<String>,
    },
    /// A call waits for a person.
    Held {
        /// Under which key.
        key: String,
        /// The hold.
        id: String,
        /// SHA-256 of the RFC 8785 form of the arguments that are shown.
        digest: String,
    },
    /// A person has said the last word that was needed about a hold, or one too early.
    Decided {
        /// Under which key it is held.
        key: String,
        /// The hold.
        id: String,
        /// What came of it.
        phase: String,
    },
    /// It is known what became of a call, and its reservation was given back.
    Released {
        /// toolgate's id of the call.
        action: String,
    },
}

/// What a record of the journal says; none of what the invariants have no need of.
///
/// # Errors
/// When it is no record of a journal.
pub fn row(seq: u64, bytes: &[u8]) -> anyhow::Result<Option<Row>> {
    // Whatever else stands in a record stands behind the first line.
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (head, body) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let head: Value = serde_json::from_str(std::str::from_utf8(head)?)
        .with_context(|| format!("record {seq}"))?;
    Ok(read(seq, &head, body))
}

/// SHA-256 of the RFC 8785 form, made by other code than toolgate's; none of what has no such form.
pub fn digest_of(arguments: &Value) -> Option<String> {
    let form = serde_json_canonicalizer::to_vec(arguments).ok()?;
    let digest = Sha256::digest(form);
    Some(
        digest
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
    )
}

/// An event as the journal keeps it (`src/store/state/event.rs`); none for every other record.
pub fn read(seq: u64, head: &Value, body: &[u8]) -> Option<Row> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(intended) = head.get("intended") {
        return Some(Row::Intent {
            seq,
            action: text(&intended["action"])?,
            digest: text(&intended["entry"]["params_hash"])?,
            session: text(&intended["session"])?,
            token: intended["fence"].as_u64()?,
            hold: text(&intended["hold"]),
        });
    }
    if let Some(held) = head.get("held") {
        let arguments: Value = serde_json::from_str(std::str::from_utf8(body).ok()?).ok()?;
        let (key, id) = (text(&held["key"])?, text(&held["hold"]["id"])?);
        return Some(Row::Held {
            key,
            id,
            digest: digest_of(&arguments)?,
        });
    }
    if let Some(decided) = head.get("decided") {
        let (key, id) = (text(&decided["key"])?, text(&decided["id"])?);
        return Some(Row::Decided {
            key,
            id,
            phase: text(&decided["phase"])?,
        });
    }
    let settled = head
        .get("settled")
        .filter(|settled| settled["charge"] == "release")?;
    Some(Row::Released {
        action: text(&settled["action"])?,
    })
}
