//! Calls that were given up and whose own exchange goes on: their servers may still be at work. Kept
//! in memory: no exchange outlives toolgate.

use crate::gate::steps::late::LateExchange;
use crate::model::ids::ActionId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// How many exchanges of each call are listened for.
#[derive(Debug, Default)]
pub(in crate::gate) struct ListenedCalls(Arc<Mutex<HashMap<ActionId, usize>>>);

/// One of them, until it is dropped.
struct ListenedCall {
    calls: Arc<Mutex<HashMap<ActionId, usize>>>,
    action: ActionId,
}

impl ListenedCalls {
    /// Whether the call's own answer may still come.
    pub(in crate::gate) fn is_listened(&self, action: ActionId) -> bool {
        self.0.lock().contains_key(&action)
    }

    /// `exchange`, which is the rest of the call `action`: it counts until it has ended, or nobody
    /// listens any more.
    pub(in crate::gate) fn until_end(
        &self,
        action: ActionId,
        exchange: LateExchange,
    ) -> LateExchange {
        *self.0.lock().entry(action).or_default() += 1;
        let calls = self.0.clone();
        let listened = ListenedCall { calls, action };
        Box::pin(async move {
            let ended = exchange.await;
            drop(listened);
            ended
        })
    }
}

impl Drop for ListenedCall {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        let left = calls.get_mut(&self.action).map(|count| {
            *count -= 1;
            *count
        });
        if left == Some(0) {
            calls.remove(&self.action);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::steps::proof::Broken;
    use crate::model::reply::Sent;

    /// guarantees §4: a call counts as on its way until the last of its exchanges has ended, also
    /// where nobody waits for that end.
    #[tokio::test]
    async fn a_call_is_on_its_way_until_its_last_exchange_ends() {
        let (calls, action) = (ListenedCalls::default(), ActionId::generate());
        let ended = || -> LateExchange { Box::pin(async { Err(Broken::Cancelled(Sent::Maybe)) }) };
        let one = calls.until_end(action, ended());
        let other = calls.until_end(action, Box::pin(std::future::pending()));
        assert!(calls.is_listened(action));
        assert!(one.await.is_err());
        assert!(calls.is_listened(action), "the other goes on");
        drop(other);
        assert!(!calls.is_listened(action));
    }
}
