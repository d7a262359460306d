//! Where a tool server takes a key of its own, and for how long it remembers one.

use crate::mcp::headers::is_reserved;
use crate::mcp::own::OWN_META_PREFIX;
use crate::model::diagnostic::Problems;
use crate::model::times::between;
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long most services remember a key.
const DEFAULT_REMEMBERED_WINDOW: Duration = Duration::from_hours(24);
const REMEMBERED_WINDOW_BOUNDS: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(24 * 365);
const WINDOW_MARGIN: Duration = Duration::from_mins(5);
/// The key for the tool server: exactly one of `argument`, `meta` and `header`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "UpstreamKey")]
pub(crate) struct UpstreamKeySettings {
    /// The tool's argument that takes it. One that the agent gives is the call's key, and stays.
    pub argument: Option<String>,
    /// The key of `_meta` that takes it.
    pub meta: Option<String>,
    /// The HTTP header that takes it.
    pub header: Option<String>,
    /// How long the tool server remembers a key [default: 24h].
    pub window: Option<String>,
    /// How long before the end of `window` a key is no longer relied on [default: 5m].
    pub margin: Option<String>,
}

/// Where the key goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// An argument of the tool.
    Argument(String),
    /// A key of `_meta`.
    Meta(String),
    /// A header, in lower case.
    Header(String),
}

/// As run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamKeyRule {
    /// Where the key goes.
    pub place: Placement,
    /// How long after it was first sent a key may be sent again and prove the same.
    pub trusted: Duration,
}

impl UpstreamKeySettings {
    pub(super) fn compile(self, problems: &mut Problems) -> Option<UpstreamKeyRule> {
        let Self {
            argument,
            meta,
            header,
            window,
            margin,
        } = self;
        let window = between(
            "window",
            window.as_deref(),
            REMEMBERED_WINDOW_BOUNDS,
            problems,
        )
        .unwrap_or(DEFAULT_REMEMBERED_WINDOW);
        let margin = between(
            "margin",
            margin.as_deref(),
            Duration::ZERO..=*REMEMBERED_WINDOW_BOUNDS.end(),
            problems,
        );
        let margin = margin.unwrap_or(WINDOW_MARGIN.min(window / 2));
        if margin >= window {
            let hint = "a key would never be relied on: lower `margin`";
            problems.under("margin", |problems| {
                problems.error("is not shorter than `window`", hint);
            });
        }
        let place = match (argument, meta, header) {
            (Some(argument), None, None) => Placement::Argument(argument),
            (None, Some(meta), None) => Placement::Meta(meta),
            (None, None, Some(header)) => Placement::Header(header.to_ascii_lowercase()),
            _ => {
                let hint = "write one of `argument: name`, `meta: key` and `header: name`";
                problems.error("the key goes to exactly one place", hint);
                return None;
            }
        };
        judge(&place, problems);
        Some(UpstreamKeyRule {
            place,
            trusted: window.saturating_sub(margin),
        })
    }
}

fn judge(place: &Placement, problems: &mut Problems) {
    match place {
        Placement::Argument(name) => problems.under("argument", |problems| {
            if name.trim().is_empty() || name.contains('/') {
                problems.error(
                    "is no name of an argument",
                    "name a top-level argument, without `/`",
                );
            }
        }),
        Placement::Meta(key) => problems.under("meta", |problems| {
            if key.trim().is_empty() {
                problems.error("is blank", "name the key that the tool server reads");
            } else if key.starts_with(OWN_META_PREFIX)
                || key == "progressToken"
                || key.starts_with("io.modelcontextprotocol/")
            {
                problems.error(
                    "is not for tool servers' own keys",
                    "name the key that the tool server reads",
                );
            }
        }),
        Placement::Header(name) => problems.under("header", |problems| {
            let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if name.is_empty() || name.len() > 64 || !name.bytes().all(letters) {
                problems.error(
                    "is no name of a header",
                    "use letters, digits and `-`, such as Idempotency-Key",
                );
            } else if is_reserved(name) {
                problems.error(
                    "is a header with a meaning of its own",
                    "such as Idempotency-Key",
                );
            }
        }),
    }
}
