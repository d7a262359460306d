//! A line that an agent on a pipe is to read.

use crate::outlet::receipt::Receipt;
use bytes::Bytes;
use std::sync::Arc;

/// A line that is to be written.
pub(super) struct PipeLine {
    pub(super) bytes: Bytes,
    /// Those of the answers in it that are asked for.
    pub(super) receipts: Vec<Arc<Receipt>>,
}

impl From<Bytes> for PipeLine {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            receipts: Vec::new(),
        }
    }
}
