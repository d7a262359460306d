//! How many processes a tool server has.

use super::settings::ToolServerSettings;
use crate::model::diagnostic::Problems;
use crate::upstream::server_settings::ChildSharing;

/// Processes of a legacy server that agents use at once.
pub(super) const CHILDREN: usize = 32;
const MAX_CHILDREN: usize = 256;

/// Processes of a server at most.
pub(super) fn most(settings: &ToolServerSettings, problems: &mut Problems) -> usize {
    let is_said = settings.max_children.is_some() || settings.idle_timeout.is_some();
    let is_default = settings.share == ChildSharing::default();
    if settings.command.is_none() && settings.url.is_some() && (is_said || !is_default) {
        problems.error(
            "`share`, `max_children` and `idle_timeout` go with `command`",
            "take them away: a server at `url` is no process of toolgate",
        );
    }
    let written = settings.max_children.unwrap_or(CHILDREN);
    if !(1..=MAX_CHILDREN).contains(&written) {
        problems.under("max_children", |problems| {
            problems.error("is out of bounds", format!("between 1 and {MAX_CHILDREN}"));
        });
    }
    written
}
