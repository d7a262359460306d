//! What is kept of an incident, in its file and in the answers of the operators' door.

use crate::model::disabled::{FrozenScope, Reason};
use crate::store::state::event::IncidentStep;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Events of one timeline that are kept.
pub(crate) const MAX_INCIDENT_EVENTS: usize = 200;
/// Tools of one incident that are named.
pub(crate) const MAX_INCIDENT_TOOLS: usize = 256;
/// Samples of one incident.
pub(crate) const MAX_INCIDENT_SAMPLES: usize = 32;

/// An incident: tools that nobody may call until it is closed, and what has happened since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Incident {
    /// Its number in this data directory, from 1.
    pub id: u64,
    /// How it stands.
    pub state: IncidentState,
    /// The pattern of the tools that it freezes: `server__*`.
    pub scope: String,
    /// The operator who opened it, or `breaker`.
    pub who: String,
    /// Why.
    pub why: String,
    /// When, RFC 3339 in UTC.
    pub opened: String,
    /// The tools that were known to be of its scope then, 256 at most; it freezes others of the pattern, too.
    pub tools: Vec<String>,
    /// Whether held calls of its tools are void, and grants revoked. Where a crash came between, the next start
    /// does it.
    pub settled: bool,
    /// Held calls that it has voided.
    pub voided: usize,
    /// Grants that it has revoked.
    pub revoked: usize,
    /// Recorded calls that have become samples: it is closed once these are as expected.
    pub samples: Vec<IncidentSample>,
    /// What has happened, in its order, 200 events at most.
    pub timeline: Vec<IncidentEvent>,
    /// Events that are left out.
    pub more: usize,
    /// How it was closed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub closed: Option<IncidentClosing>,
}

/// How an incident stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IncidentState {
    /// Its tools are frozen.
    Open,
    /// They are back.
    Closed,
}

/// A recorded call that has become a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IncidentSample {
    /// The recorded call; the sample names it as its `repro`.
    pub action_id: String,
    /// `allow`, or the code of the refusal that is expected.
    pub expect: String,
    /// The pack that holds it.
    pub file: String,
    /// The call's tool, of which the sample has to be; none: it was noted by a toolgate that kept no tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
}

/// One line of a timeline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct IncidentEvent {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// What.
    pub step: IncidentStep,
    /// The operator; `toolgate` for what happens by itself.
    pub who: String,
    /// Why, or what came of it.
    pub why: String,
}

/// How an incident was closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct IncidentClosing {
    /// The operator.
    pub who: String,
    /// Why.
    pub why: String,
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Whether it was closed although its samples or the packs did not pass.
    pub forced: bool,
    /// What the packs said.
    pub packs: String,
}

impl IncidentState {
    /// The word for people.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl Incident {
    /// Whether its tools are frozen.
    pub(crate) fn is_open(&self) -> bool {
        self.state == IncidentState::Open
    }

    /// What it freezes, while it is open.
    pub(super) fn frozen(&self) -> Option<FrozenScope> {
        self.is_open().then(|| FrozenScope {
            incident: self.id,
            pattern: self.scope.clone(),
            reason: Reason {
                who: self.who.clone(),
                why: format!("incident {}: {}", self.id, self.why),
                since: self.opened.clone(),
            },
        })
    }

    /// Adds a line to the timeline. The last place is for how it ends.
    pub(super) fn note(&mut self, event: IncidentEvent) {
        let most = match event.step {
            IncidentStep::Closed => MAX_INCIDENT_EVENTS,
            IncidentStep::Opened
            | IncidentStep::Frozen
            | IncidentStep::Sampled
            | IncidentStep::Reloaded
            | IncidentStep::Refused => MAX_INCIDENT_EVENTS - 1,
        };
        if self.timeline.len() < most {
            self.timeline.push(event);
        } else {
            self.more += 1;
        }
    }
}
