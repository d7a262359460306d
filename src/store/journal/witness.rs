//! Heads that leave the journal: what was kept elsewhere shows what the journal alone cannot, a
//! removed end and a whole journal exchanged for another (threat-model §3G, G3).

use super::chain::Head;
use super::seal::{KeyId, SealingKeys};
use crate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, Text};
use crate::model::hex::{hex, unhex};
use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Bytes of a line.
const MAX_LINE_BYTES: usize = 1 << 10;
const LINE_JSON_LIMITS: JsonLimits = JsonLimits {
    bytes: MAX_LINE_BYTES,
    ..AGENT_JSON_LIMITS
};

/// Where a journal stood at some time, and the seal of who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Witness {
    /// Where it stood.
    pub head: Head,
    /// When.
    pub time: Timestamp,
    seal: Option<(KeyId, [u8; 32])>,
}

/// What a head's seal proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadProof {
    /// It was made by a toolgate with the key.
    Sealed,
    /// It has no seal that can be checked.
    Bare,
    /// It has a seal, and another's.
    Forged,
    /// It has a seal of this key, which is not given.
    Unknown(KeyId),
}

/// A head as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct WitnessLine {
    seq: u64,
    hash: String,
    time: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
}

fn words(head: Head, time: Timestamp) -> String {
    format!("{head}\n{time}")
}

impl Witness {
    /// The head at `time`, sealed with the current one of `keys`.
    pub(super) fn new(head: Head, time: Timestamp, keys: &SealingKeys) -> Self {
        let seal = keys
            .current
            .as_ref()
            .map(|key| (key.id(), key.seal_head(&words(head, time))));
        Self { head, time, seal }
    }

    /// As one line of JSON, without its end.
    pub fn line(&self) -> String {
        let line = WitnessLine {
            seq: self.head.seq,
            hash: hex(&self.head.hash),
            time: self.time.to_string(),
            key: self.seal.map(|(key, _)| key.to_string()),
            seal: self.seal.map(|(_, seal)| hex(&seal)),
        };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// The head in `line`; none when it holds none.
    pub fn read(line: &[u8]) -> Option<Self> {
        let line: WitnessLine = Text::read(Bytes::copy_from_slice(line), &LINE_JSON_LIMITS)
            .ok()?
            .parse()
            .ok()?;
        let seal = match (line.key, line.seal) {
            (None, None) => None,
            (key, seal) => Some((key?.parse().ok()?, unhex(&seal?)?)),
        };
        let head = Head {
            seq: line.seq,
            hash: unhex(&line.hash)?,
        };
        Some(Self {
            head,
            time: line.time.parse().ok()?,
            seal,
        })
    }

    /// What its seal proves.
    pub fn proof(&self, keys: &SealingKeys) -> HeadProof {
        let Some((id, seal)) = &self.seal else {
            return HeadProof::Bare;
        };
        match keys.of(*id) {
            Some(key) if key.sealed_head(&words(self.head, self.time), seal) => HeadProof::Sealed,
            Some(_) => HeadProof::Forged,
            None if keys.is_empty() || keys.lost.contains(id) => HeadProof::Bare,
            None => HeadProof::Unknown(*id),
        }
    }
}
