//! Where the keys of the root stand, for who writes one of them anew and leaves all else as it is.

use super::YamlDocument;

impl YamlDocument {
    /// The keys of the root and their lines, from 1, in order; none unless each begins a line of its
    /// own.
    pub(crate) fn root_lines(&self) -> Option<Vec<(String, usize)>> {
        let mut found = Vec::new();
        for key in self.tree.as_object()?.keys() {
            let mark = self.spots.get(std::slice::from_ref(key))?.key?;
            if mark.column != 1 {
                return None;
            }
            found.push((key.clone(), usize::try_from(mark.line).ok()?));
        }
        found.sort_by_key(|(_, line)| *line);
        let is_alone = found
            .windows(2)
            .all(|pair| matches!(pair, [(_, one), (_, next)] if one < next));
        is_alone.then_some(found)
    }
}
