//! Rows of the index on their way into it, in order of their names: sled finds its way once for
//! those that lie together.

use sled::Batch;
use std::collections::BTreeMap;

/// What is to be written at once: values, and names whose values go.
#[derive(Debug, Default)]
pub(super) struct IndexRows(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl IndexRows {
    /// `name` stands for `value` from then on.
    pub(super) fn insert(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.0.insert(name, Some(value));
    }

    /// `name` is there from then on; it stands for nothing more.
    pub(super) fn mark(&mut self, name: Vec<u8>) {
        self.insert(name, Vec::new());
    }

    /// `name` is not there any more.
    pub(super) fn remove(&mut self, name: Vec<u8>) {
        self.0.insert(name, None);
    }

    /// All of them, to be written all or none.
    pub(super) fn into_batch(self) -> Batch {
        let mut batch = Batch::default();
        for (name, value) in self.0 {
            match value {
                Some(value) => batch.insert(name, value),
                None => batch.remove(name),
            }
        }
        batch
    }
}
