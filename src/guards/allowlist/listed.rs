//! The patterns of a list, with the group they come from.

use super::pattern::ToolPattern;

/// What a pattern begins with that stands for the patterns of a group.
pub(crate) const GROUP_PREFIX: &str = "group:";

/// A pattern of a list, and the group it comes from.
#[derive(Debug, Clone)]
pub(crate) struct ListedPattern {
    pattern: ToolPattern,
    shown: String,
}

impl ListedPattern {
    /// A pattern that stands in the list itself.
    pub(crate) fn own(pattern: ToolPattern) -> Self {
        Self {
            shown: pattern.as_str().to_owned(),
            pattern,
        }
    }

    /// A pattern of `group`.
    pub(crate) fn of(group: &str, pattern: ToolPattern) -> Self {
        Self {
            shown: format!("{} of group:{group}", pattern.as_str()),
            pattern,
        }
    }

    /// The pattern.
    pub(crate) fn pattern(&self) -> &ToolPattern {
        &self.pattern
    }

    /// As operators read it.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}
