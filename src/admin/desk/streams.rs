//! How many streams of events stand open. Each holds a connection for as long as it does, so that they take
//! no more than half of the operators' places, and one operator's not all of that: an operator who looks on
//! keeps no one from deciding. A page without a stream asks again every few seconds.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// One operator may have so many of eight places for streams.
const OPERATOR_EIGHTHS: usize = 7;

/// The places for streams, and who has them. A clone is another handle on the same places.
#[derive(Debug, Clone)]
pub(in crate::admin) struct EventStreams {
    most: usize,
    /// By the operator's name.
    open: Arc<Mutex<HashMap<String, usize>>>,
}

/// The place of one stream, until this is dropped.
#[derive(Debug)]
pub(super) struct StreamPlace {
    operator: String,
    open: Arc<Mutex<HashMap<String, usize>>>,
}

impl EventStreams {
    /// Half of `places`, which are those of the operators' connections.
    pub(in crate::admin) fn within(places: usize) -> Self {
        Self {
            most: (places / 2).max(1),
            open: Arc::default(),
        }
    }

    /// A place for a stream of `operator`; none where these are taken.
    pub(super) fn take(&self, operator: &str) -> Option<StreamPlace> {
        let mut open = self.open.lock();
        let all: usize = open.values().sum();
        let own = open.get(operator).copied().unwrap_or_default();
        let own_most = (self.most * OPERATOR_EIGHTHS / 8).max(1);
        if all >= self.most || own >= own_most {
            return None;
        }
        open.insert(operator.to_owned(), own + 1);
        Some(StreamPlace {
            operator: operator.to_owned(),
            open: Arc::clone(&self.open),
        })
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        let Some(own) = open.get_mut(&self.operator) else {
            return;
        };
        *own = own.saturating_sub(1);
        if *own == 0 {
            open.remove(&self.operator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hundred pages of one operator find room among all places, fewer where files are few, and others always do.
    #[test]
    fn streams_have_half_of_the_places_and_one_operator_not_all_of_it() {
        for (places, own, all) in [(256, 112, 128), (128, 56, 64), (32, 14, 16), (1, 1, 1)] {
            let streams = EventStreams::within(places);
            let take = |operator: &str| {
                let taken = std::iter::from_fn(|| streams.take(operator));
                taken.take(places).collect::<Vec<_>>()
            };
            let ann = take("ann");
            assert_eq!(ann.len(), own, "{places}");
            let bob = take("bob");
            assert_eq!(bob.len(), all - own, "{places}");
            assert!(streams.take("bob").is_none() && streams.take("eve").is_none());
            drop(ann);
            assert!(streams.take("eve").is_some());
            drop(bob);
            assert_eq!(streams.open.lock().len(), 0, "nobody is remembered");
        }
    }
}
