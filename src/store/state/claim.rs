//! A claim: one call key, and what became of the call (guarantees §3).

pub mod inquiry;

use super::Millis;
use super::grant::GrantUse;
use super::kinship::Kinship;
use super::settlement::Evidence;
use super::undo::UndoTerms;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, ToolName};
use bytes::Bytes;
use inquiry::Inquiry;
use serde::{Deserialize, Serialize};

/// What is known of one call key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The call that holds it.
    pub action: ActionId,
    /// SHA-256 over (server, tool, final arguments).
    pub fingerprint: Digest,
    /// 1 for the first arrival; one more for each that followed a proof that nothing ran.
    pub attempt: u32,
    /// SHA-256 of the input that the call brought which holds it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub brought: Option<Digest>,
    /// The same of the rounds before, which the server answered by asking; none for the first.
    /// What they did is done.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub answered: Vec<Option<Digest>>,
    /// How far it got.
    pub phase: ClaimPhase,
    /// When its intent was decided.
    pub began: Millis,
    /// When it came to its phase.
    pub changed: Millis,
    /// For how many milliseconds after its end it is replayed.
    pub ttl: u64,
    /// For how many milliseconds after that it is remembered that the key was used; 0 for derived
    /// keys.
    pub keep: u64,
    /// The task that pays.
    pub task: Digest,
    /// The account of its user that pays beside it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub account: Option<Digest>,
    /// The session it runs in.
    pub session: Digest,
    /// The token it began with.
    pub fence: u64,
    /// What is reserved for it, in millionths of a unit of cost.
    pub reserved: u64,
    /// `server__tool`.
    pub tool: ToolName,
    /// What it counts as in its task, where that is not its tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counted: Option<ToolName>,
    /// Who called, for operators.
    pub agent: String,
    /// For which user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// Which other calls it equals.
    #[serde(skip_serializing_if = "Kinship::is_empty", default)]
    pub kinship: Kinship,
    /// What it has taken of the standing grant that covers it, if one does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grant: Option<GrantUse>,
    /// Something else than its own exchange said what became of it: its agent has not read that.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_late: bool,
    /// The hold under which an operator changed its arguments, if one has: it ran with others than its
    /// agent sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub edited: Option<ActionId>,
    /// It was unknown whether it had run: calls that equal it were held.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub was_unknown: bool,
    /// How it can be found out what became of it, as long as it has not ended.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inquiry: Option<Box<Inquiry>>,
    /// How it is taken back once it was carried out, where another call does that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<Box<UndoTerms>>,
    /// The call that it takes back, if it takes one back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undoes: Option<ActionId>,
    /// It may take back a call of its agent though nothing says so; none where its tool takes none back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub may_undo: Option<PossibleUndo>,
}

/// That a call may take back another one of which it is not known, when it begins, what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PossibleUndo {
    /// What it is known by, as [`OpenUndo::call`](super::undo::OpenUndo::call).
    pub call: Digest,
    /// It has failed, or is known to have taken one back.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_over: bool,
}

/// Milliseconds after its end for which a call is known that may take another one back: 30 days.
const OWN_UNDO_RETENTION_MS: Millis = 30 * 24 * 3600 * 1000;

/// How far a claim got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimPhase {
    /// The intent is decided; the call may be on its way.
    Dispatching,
    /// The server asks for input; the rounds so far, and what it asked. Not an end.
    AwaitingInput {
        /// 1 after the first answer that asked.
        round: u32,
        /// What it asked.
        asked: Stored,
        /// Does its agent hold it as a task of toolgate's own? Such a task is answered by itself: no
        /// round of the call is one of it.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        is_task: bool,
    },
    /// The server answered: a result, a result that says `isError`, or a JSON-RPC error.
    Completed(Stored),
    /// The server proved that it did not run the call.
    Failed {
        /// How it said so, when it said it as an answer.
        answer: Option<Stored>,
        /// May the same key claim again? It may in any case when there is no answer to give.
        again: bool,
    },
    /// No byte left: the same key may claim again.
    NotSent,
    /// It may have run. Never ends by time.
    Unknown {
        /// What broke, for operators.
        why: String,
    },
    /// It may have run, and an operator has decided that nobody will find out.
    Abandoned,
}

/// An answer that can be given again byte for byte.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Is it a JSON-RPC error? Otherwise a result.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_error: bool,
    /// Bytes.
    pub size: u64,
    /// SHA-256.
    pub digest: Digest,
    /// Does it lie in a file of its own, by the digest of what lies there?
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub in_file: bool,
    /// How it is encrypted, if it is; size and digest are those of the answer all the same.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sealed: Option<SealedAnswer>,
    /// The bytes as they are kept, where they are not in a file.
    #[serde(skip)]
    pub body: Bytes,
}

/// How an answer is encrypted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SealedAnswer {
    /// The id of the key.
    pub key: String,
    /// SHA-256 of what is kept in its place.
    pub digest: Digest,
}

impl Stored {
    /// An answer that is kept beside its claim.
    pub fn inline(is_error: bool, body: Bytes) -> Self {
        Self {
            is_error,
            size: body.len() as u64,
            digest: Digest::of(&body),
            in_file: false,
            sealed: None,
            body,
        }
    }

    /// The same answer, but that what is kept of it lies in a file.
    #[must_use]
    pub fn into_file(self) -> Self {
        Self {
            in_file: true,
            body: Bytes::new(),
            ..self
        }
    }

    /// SHA-256 of what is kept of it: the name of its file, where it lies in one.
    pub fn kept_digest(&self) -> &Digest {
        self.sealed
            .as_ref()
            .map_or(&self.digest, |sealed| &sealed.digest)
    }
}

/// How a key stands for a call that names it.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimStatus {
    /// It may be claimed.
    Open {
        /// Which attempt it is, from 1.
        attempt: u32,
        /// Which round of input it brings; 0 for none.
        round: u32,
    },
    /// The call has ended; this was the answer.
    Ended(Stored),
    /// The server waits for input; this is what it asked.
    Asked(Stored),
    /// It runs right now.
    InFlight(ActionId),
    /// It may have run.
    Unknown(ActionId),
    /// It was used with other arguments.
    Conflict,
    /// It was used, so long ago that the answer is gone.
    Expired,
}

impl ClaimPhase {
    /// The answer in it.
    pub fn stored(&self) -> Option<&Stored> {
        match self {
            Self::AwaitingInput { asked: stored, .. } | Self::Completed(stored) => Some(stored),
            Self::Failed { answer, .. } => answer.as_ref(),
            Self::Dispatching | Self::NotSent | Self::Unknown { .. } | Self::Abandoned => None,
        }
    }

    /// The answer in it, to fill in or to take out.
    pub fn stored_mut(&mut self) -> Option<&mut Stored> {
        match self {
            Self::AwaitingInput { asked: stored, .. } | Self::Completed(stored) => Some(stored),
            Self::Failed { answer, .. } => answer.as_mut(),
            Self::Dispatching | Self::NotSent | Self::Unknown { .. } | Self::Abandoned => None,
        }
    }

    /// Whether nothing more is expected of the call.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Completed(_) | Self::Failed { .. } | Self::NotSent | Self::Abandoned => true,
            Self::Dispatching | Self::AwaitingInput { .. } | Self::Unknown { .. } => false,
        }
    }

    /// The word for people and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Dispatching => "dispatching",
            Self::AwaitingInput { .. } => "awaiting_input",
            Self::Completed(_) => "completed",
            Self::Failed { .. } => "failed",
            Self::NotSent => "not_sent",
            Self::Unknown { .. } => "unknown",
            Self::Abandoned => "abandoned",
        }
    }

    /// The arrows of guarantees §3, and who may take them: a call in flight ends by its exchange or
    /// its process's end, and nobody else says that it did not run while it still may. An
    /// unknown outcome ends by evidence or by an operator, never by being unknown again.
    pub fn may_become(&self, next: &Self, evidence: &Evidence) -> bool {
        let is_answer = matches!(
            next,
            Self::AwaitingInput { .. } | Self::Completed(_) | Self::Failed { .. }
        );
        match (self, evidence) {
            (Self::Dispatching, Evidence::Exchange | Evidence::Late) => {
                is_answer || matches!(next, Self::NotSent | Self::Unknown { .. })
            }
            (Self::Dispatching, Evidence::Restart) => {
                matches!(next, Self::NotSent | Self::Unknown { .. })
            }
            (Self::Unknown { .. }, Evidence::Exchange | Evidence::Late | Evidence::UpstreamKey) => {
                is_answer || matches!(next, Self::NotSent)
            }
            // The exchange of a question goes on where the agent holds its call as a task. After a
            // question no answer makes the key free.
            (Self::AwaitingInput { .. }, Evidence::Late) => {
                matches!(next, Self::Completed(_) | Self::Unknown { .. })
            }
            (Self::Unknown { .. }, Evidence::Probe) => {
                matches!(next, Self::Completed(_) | Self::NotSent)
            }
            (Self::Unknown { .. } | Self::AwaitingInput { .. }, Evidence::Operator { .. }) => {
                next.is_final()
            }
            // Who gave up may learn it after all.
            (Self::Abandoned, Evidence::Operator { .. }) => {
                matches!(next, Self::Completed(_) | Self::NotSent)
            }
            _ => false,
        }
    }
}

/// How the key of `claim` stands for a call with `fingerprint`; `round`: SHA-256 of what it answers
/// a server that asked.
pub fn claim_status(
    claim: Option<&Claim>,
    fingerprint: &Digest,
    round: Option<&Digest>,
    now: Millis,
) -> ClaimStatus {
    let Some(claim) = claim else {
        return ClaimStatus::Open {
            attempt: 1,
            round: 0,
        };
    };
    let again = ClaimStatus::Open {
        attempt: claim.attempt + 1,
        round: 0,
    };
    let was_answered = claim.answered.contains(&round.copied());
    let age = claim.age(now);
    if claim.is_released() {
        return match age {
            Age::Fresh | Age::Remembered if claim.answered.is_empty() => again,
            Age::Fresh | Age::Remembered if claim.fingerprint != *fingerprint => {
                ClaimStatus::Conflict
            }
            // That a later round did not run says nothing of this one.
            Age::Fresh | Age::Remembered if was_answered => ClaimStatus::Unknown(claim.action),
            Age::Fresh | Age::Remembered | Age::Forgotten => again,
        };
    }
    match age {
        Age::Forgotten => {
            return ClaimStatus::Open {
                attempt: 1,
                round: 0,
            };
        }
        Age::Remembered => return ClaimStatus::Expired,
        Age::Fresh => {}
    }
    if claim.fingerprint != *fingerprint {
        return ClaimStatus::Conflict;
    }
    match &claim.phase {
        ClaimPhase::Dispatching => ClaimStatus::InFlight(claim.action),
        ClaimPhase::AwaitingInput {
            round: asked,
            is_task: false,
            ..
        } if round.is_some()
            && round != claim.brought.as_ref()
            && !was_answered
            && claim.answered.len() < MAX_ROUNDS =>
        {
            ClaimStatus::Open {
                attempt: claim.attempt,
                round: *asked,
            }
        }
        ClaimPhase::AwaitingInput { asked, .. } => ClaimStatus::Asked(asked.clone()),
        ClaimPhase::Completed(stored)
        | ClaimPhase::Failed {
            answer: Some(stored),
            ..
        } => ClaimStatus::Ended(stored.clone()),
        ClaimPhase::NotSent | ClaimPhase::Failed { answer: None, .. } => again,
        ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned => ClaimStatus::Unknown(claim.action),
    }
}

/// Rounds of input that one call may have: what each brought is remembered. After these its last
/// question stands.
pub const MAX_ROUNDS: usize = 256;

/// How old a claim is, seen from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It is replayed, or has not ended.
    Fresh,
    /// A tombstone: its answer is gone, its key is not free.
    Remembered,
    /// Nothing is known of it any more.
    Forgotten,
}

impl PossibleUndo {
    /// Of a call that begins, and is known by `call`.
    pub fn new(call: Digest) -> Self {
        Self {
            call,
            is_over: false,
        }
    }
}

impl Claim {
    /// Whether it holds every call that equals it: it may have run.
    pub fn holds_kin(&self) -> bool {
        matches!(
            self.phase,
            ClaimPhase::Unknown { .. } | ClaimPhase::Abandoned
        )
    }

    /// Whether it has held calls that equal it, and has been carried out since: those are told so.
    pub fn has_held_kin(&self) -> bool {
        let is_done = matches!(
            self.phase,
            ClaimPhase::Completed(_) | ClaimPhase::Failed { again: false, .. }
        );
        self.was_unknown && is_done
    }

    /// Whether calls that equal it have to know of it.
    pub fn concerns_kin(&self) -> bool {
        self.holds_kin() || self.has_held_kin()
    }

    /// Whether it had more than one round, or brought one: no call that equals it is a new one.
    pub fn has_rounds(&self) -> bool {
        self.brought.is_some() || !self.answered.is_empty()
    }

    /// Whether it has ended and another call may take its key, which says so by its `action`.
    pub fn is_past(&self, action: Option<ActionId>) -> bool {
        Some(self.action) == action
            && self.phase.is_final()
            && !self.holds_kin()
            && !self.has_rounds()
    }

    /// Whether its key may claim again: proof that nothing ran, and no answer to be given instead.
    pub fn is_released(&self) -> bool {
        matches!(
            self.phase,
            ClaimPhase::NotSent
                | ClaimPhase::Failed { again: true, .. }
                | ClaimPhase::Failed { answer: None, .. }
        )
    }

    /// Until when it is known, though its key may be free long before.
    pub fn known_until(&self) -> Millis {
        let used = self.changed + self.ttl + self.keep;
        let own = self.may_undo.map(|_| self.changed + OWN_UNDO_RETENTION_MS);
        used.max(own.unwrap_or_default())
    }

    /// How old it is at `now`. The time to live counts from the end; what has not ended never ages,
    /// and neither does what an operator abandoned: it may have run, and time is no proof.
    pub fn age(&self, now: Millis) -> Age {
        let replayed = self.changed.saturating_add(self.ttl);
        match now {
            _ if !self.phase.is_final()
                || self.phase == ClaimPhase::Abandoned
                || now < replayed =>
            {
                Age::Fresh
            }
            now if now < replayed.saturating_add(self.keep) => Age::Remembered,
            _ => Age::Forgotten,
        }
    }
}
