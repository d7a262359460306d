//! Which names the tools' schemas do not have for certain: each is looked for once, and not more than
//! so many. A server writes the schemas, and a search in one may take long.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Names that are looked for, of all tools together; nothing speaks against one too many.
pub(super) const MAX_NAMES_SEARCHED: usize = 10_000;

/// What was found.
pub(super) struct NameSearches {
    /// By tool, then by the path to the name.
    known: RefCell<HashMap<String, HashMap<Vec<String>, bool>>>,
    left: Cell<usize>,
}

impl Default for NameSearches {
    fn default() -> Self {
        Self {
            known: RefCell::default(),
            left: Cell::new(MAX_NAMES_SEARCHED),
        }
    }
}

impl NameSearches {
    /// Whether the `tool` does not have the name at `path` for certain: as it is known, or as `search`
    /// finds.
    pub(super) fn excludes(
        &self,
        tool: &str,
        path: &[String],
        search: impl FnOnce() -> bool,
    ) -> bool {
        let mut known = self.known.borrow_mut();
        if let Some(found) = known.get(tool).and_then(|names| names.get(path)) {
            return *found;
        }
        let Some(left) = self.left.get().checked_sub(1) else {
            return false;
        };
        self.left.set(left);
        let found = search();
        let names = known.entry(tool.to_owned()).or_default();
        names.insert(path.to_vec(), found);
        found
    }

    /// How many names were looked for.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        MAX_NAMES_SEARCHED - self.left.get()
    }
}
