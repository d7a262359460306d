//! Rows of the index on their way into it, in order of their names: sled finds its way once for
//! those that lie together.

use sled::Batch;
use std::collections::BTreeMap;

/// A name, and its value or that it goes.
pub(super) type IndexRow = (Vec<u8>, Option<Vec<u8>>);

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

    /// What a row says.
    pub(super) fn put(&mut self, name: Vec<u8>, value: Option<Vec<u8>>) {
        self.0.insert(name, value);
    }

    /// The row of that name.
    pub(super) fn find(&self, name: &[u8]) -> Option<IndexRow> {
        let (name, value) = self.0.get_key_value(name)?;
        Some((name.clone(), value.clone()))
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
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

impl IntoIterator for IndexRows {
    type Item = IndexRow;
    type IntoIter = std::collections::btree_map::IntoIter<Vec<u8>, Option<Vec<u8>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
