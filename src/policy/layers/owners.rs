//! Does a caller have the layer? An agent that a token may name has any layer of an agent.

use super::LayerChecker;
use crate::guards::allowlist::written::{LayerKind, WrittenLayer};
use crate::model::diagnostic::Problems;
use crate::policy::shape::suggest;

impl LayerChecker<'_> {
    /// A layer that nobody has restricts nobody. A profile or an environment may wait for its first
    /// caller: those name them.
    pub(super) fn judge_name(&self, layer: &WrittenLayer<'_>, problems: &mut Problems) {
        let (word, name) = (layer.kind.word(), layer.name);
        let known = self.names.get(word).map(Vec::as_slice).unwrap_or_default();
        let is_any = layer.kind == LayerKind::Agent && self.any_agent;
        if is_any || known.iter().any(|known| known == name) {
            return;
        }
        match layer.kind {
            LayerKind::Agent => problems.error(
                format!("no caller is the agent `{name}`"),
                suggest(name, known),
            ),
            LayerKind::Group if known.is_empty() => {
                problems.error(
                    format!("no caller has the group `{name}`"),
                    format!("give one `group: {name}`"),
                );
            }
            LayerKind::Group => problems.error(
                format!("no caller has the group `{name}`"),
                suggest(name, known),
            ),
            LayerKind::Profile | LayerKind::Environment => {
                problems.warning(
                    format!("no caller has the {word} `{name}`"),
                    format!("give one `{word}: {name}`"),
                );
            }
            LayerKind::Global | LayerKind::Delegation => {}
        }
    }
}
