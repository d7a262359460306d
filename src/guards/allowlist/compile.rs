//! Layers as written → as run.

use super::layers::{AllowlistLayer, Layers};
use super::listed::{GROUP_PREFIX, ListedPattern};
use super::pattern::ToolPattern;
use super::side::SideSection;
use super::written::{LayerEnvironment, OnEmpty, Settings, WrittenLayer};
use crate::model::diagnostic::Problems;

impl Settings {
    /// Compiles every layer, and judges its patterns one by one.
    pub(crate) fn compile(&self, around: &LayerEnvironment, problems: &mut Problems) -> Layers {
        let mut layers = Layers::default();
        self.each(problems, &mut |written, problems| {
            layers.add(written, written.compile(around, problems));
        });
        layers
    }
}

impl WrittenLayer<'_> {
    fn compile(&self, around: &LayerEnvironment, problems: &mut Problems) -> AllowlistLayer {
        let mut list = |key: &str, written: &[String]| -> Vec<ListedPattern> {
            problems.under(key, |problems| {
                for (index, text) in written.iter().enumerate() {
                    let is_blank = self.on_empty_allow == OnEmpty::All && text.trim().is_empty();
                    if !is_blank && !text.starts_with(GROUP_PREFIX) {
                        problems.under(index.to_string(), |problems| {
                            drop(ToolPattern::compile(text, problems));
                        });
                    }
                }
            });
            self.patterns(written, around)
                .filter_map(|(_, listed)| listed.ok())
                .collect()
        };
        let deny = list("deny", self.deny);
        let is_empty = |allow: &[String]| allow.iter().all(|text| text.trim().is_empty());
        let allow = self
            .allow
            .filter(|allow| self.on_empty_allow == OnEmpty::Nothing || !is_empty(allow));
        let allow = allow.map(|allow| list("allow", allow));
        let unavailable = self
            .is_unavailable(around)
            .then_some(self.unavailable_only_allowlist);
        let sections = self
            .sides
            .into_iter()
            .filter_map(|(door, section)| Some((door, section?)));
        let sides = sections.map(|(door, section)| {
            problems.under(door.word(), |problems| {
                SideSection::compile(door, section, problems)
            })
        });
        let sides = sides.collect();
        AllowlistLayer::new(self.label(), allow, deny, unavailable, sides)
    }
}
