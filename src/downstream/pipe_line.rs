//! A line that an agent on a pipe is to read.

use crate::outlet::receipt::Receipt;
use bytes::Bytes;
use std::sync::Arc;

/// A line that is to be written.
pub(super) struct PipeLine {
    pub(super) bytes: Bytes,
    /// That of the answer in it, if it is asked for.
    pub(super) receipt: Option<Arc<Receipt>>,
}

impl From<Bytes> for PipeLine {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            receipt: None,
        }
    }
}
