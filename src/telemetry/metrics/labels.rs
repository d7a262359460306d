//! Labels of metrics. Each has a bounded set of values: names from the configuration, from a
//! catalogue, or from the source.

use crate::model::ids::{ServerName, ToolName};
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};
use std::fmt;
use std::sync::Arc;

/// How a judged call ended; the ledger's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// The tool server answered.
    Answered,
    /// Every guard would pass the call, and it was only planned.
    Planned,
    /// A guard refused the call.
    Refused,
    /// The call broke before the tool could have run.
    Failed,
    /// The call was sent and no answer is known.
    Unknown,
}

impl CallOutcome {
    /// The label's value.
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Planned => "planned",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// What became of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadLabel {
    /// The new policy is in force.
    Swapped,
    /// The new files are invalid; the last good policy stays.
    Kept,
}

impl ReloadLabel {
    /// The label's value.
    pub fn word(self) -> &'static str {
        match self {
            Self::Swapped => "swapped",
            Self::Kept => "kept",
        }
    }
}

/// Whether a call names a user.
pub(super) fn user_label(is_named: bool) -> LabelPair {
    LabelPair("user", if is_named { "named" } else { "unnamed" })
}

/// A refusal's code: from the closed set, or one that a contract gives.
#[derive(Debug, Clone)]
enum CodeLabel {
    None,
    Fixed(&'static str),
    Contract(Arc<str>),
}

impl CodeLabel {
    fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::Fixed(code) => code,
            Self::Contract(code) => code,
        }
    }
}

/// The labels of one judged call. Making one allocates nothing: names are shared.
#[derive(Debug, Clone)]
pub struct CallLabels {
    server: Option<ServerName>,
    tool: Option<ToolName>,
    outcome: CallOutcome,
    code: CodeLabel,
}

impl CallLabels {
    /// `server` only if it is configured, `tool` only if it is in that server's catalogue: an agent
    /// can name anything.
    pub fn new(server: Option<&ServerName>, tool: Option<&ToolName>, outcome: CallOutcome) -> Self {
        Self {
            server: server.cloned(),
            tool: tool.cloned(),
            outcome,
            code: CodeLabel::None,
        }
    }

    /// With a code of the closed set (`model::refusal::CODES`).
    #[must_use]
    pub fn with_code(self, code: &'static str) -> Self {
        Self {
            code: CodeLabel::Fixed(code),
            ..self
        }
    }

    /// With a code that a contract gives to its rule.
    #[must_use]
    pub fn with_contract_code(self, code: &Arc<str>) -> Self {
        Self {
            code: CodeLabel::Contract(Arc::clone(code)),
            ..self
        }
    }

    /// The same without what is not bounded by the configuration at start.
    pub(super) fn folded(&self) -> Self {
        let code = match &self.code {
            CodeLabel::Contract(_) => CodeLabel::Fixed("other"),
            CodeLabel::None | CodeLabel::Fixed(_) => self.code.clone(),
        };
        Self {
            tool: None,
            code,
            ..self.clone()
        }
    }

    fn values(&self) -> [&str; 4] {
        let server = self.server.as_ref().map_or("unknown", ServerName::as_str);
        let tool = self.tool.as_ref().map_or("unknown", ToolName::as_str);
        [server, tool, self.outcome.word(), self.code.as_str()]
    }
}

// Equal exactly when rendered equally: two series of one name and the same labels would make a
// scrape invalid.
impl PartialEq for CallLabels {
    fn eq(&self, other: &Self) -> bool {
        self.values() == other.values()
    }
}

impl Eq for CallLabels {}

impl std::hash::Hash for CallLabels {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let [server, tool, _, code] = self.values();
        // A policy's name for a tool starts with its server's, so hashing the server too would only
        // cost time.
        if self.tool.is_none() {
            server.hash(state);
        }
        tool.hash(state);
        self.outcome.hash(state);
        code.hash(state);
    }
}

impl EncodeLabelSet for CallLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for pair in ["server", "tool", "outcome", "code"]
            .into_iter()
            .zip(self.values())
        {
            pair.encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

/// The `server` label.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ServerLabel(pub(super) ServerName);

impl EncodeLabelSet for ServerLabel {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("server", self.0.as_str()).encode(encoder.encode_label())
    }
}

/// Why tools are hidden, and in which profile only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct HiddenLabels(pub(super) &'static str, pub(super) Option<&'static str>);

impl EncodeLabelSet for HiddenLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("reason", self.0).encode(encoder.encode_label())?;
        self.1.map_or(Ok(()), |profile| {
            ("profile", profile).encode(encoder.encode_label())
        })
    }
}

/// A side door, and what became of a message through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct MessageLabels(pub(super) &'static str, pub(super) &'static str);

impl EncodeLabelSet for MessageLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("door", self.0).encode(encoder.encode_label())?;
        ("outcome", self.1).encode(encoder.encode_label())
    }
}

/// What was to leave for a collector, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SignalLabels(pub(super) &'static str, pub(super) &'static str);

impl EncodeLabelSet for SignalLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("signal", self.0).encode(encoder.encode_label())?;
        ("outcome", self.1).encode(encoder.encode_label())
    }
}

/// A receiver of notices, by its name in the configuration, and what became of a notice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NoticeLabels(pub(super) String, pub(super) &'static str);

impl EncodeLabelSet for NoticeLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("receiver", self.0.as_str()).encode(encoder.encode_label())?;
        ("outcome", self.1).encode(encoder.encode_label())
    }
}

/// An issuer of tokens, by its name in the configuration, and what became of a fetch of its keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct IssuerLabels(pub(super) String, pub(super) Option<&'static str>);

impl EncodeLabelSet for IssuerLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("issuer", self.0.as_str()).encode(encoder.encode_label())?;
        self.1.map_or(Ok(()), |outcome| {
            ("outcome", outcome).encode(encoder.encode_label())
        })
    }
}

/// A tool server, by its name in the configuration, and what became of a fetch of its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ServerTokenLabels(pub(super) String, pub(super) &'static str);

impl EncodeLabelSet for ServerTokenLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("server", self.0.as_str()).encode(encoder.encode_label())?;
        ("outcome", self.1).encode(encoder.encode_label())
    }
}

/// One label whose name and values are fixed in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LabelPair(pub(super) &'static str, pub(super) &'static str);

impl EncodeLabelSet for LabelPair {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        (self.0, self.1).encode(encoder.encode_label())
    }
}
