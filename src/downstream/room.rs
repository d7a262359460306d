//! Room for messages of which not all has come (threat-model §13 F11: 300 half bodies of 3 MiB took
//! 755 MiB). What is short comes with its head or is bounded by the number of connections; what is
//! long is counted by the length that it says it has, before any of it is read.

use crate::model::ids::AgentId;
use crate::model::shares::Shares;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// Bytes of a message that is not counted.
const UNCOUNTED_BYTES_MAX: usize = 64 << 10;
/// Bytes of all messages under way: sixteen of the longest. A caller that has none under way may
/// have one beyond that, so that nobody is kept out by others; callers times the longest message is
/// the most that makes.
const ALL_BYTES_MAX: usize = 64 << 20;
/// Bytes of one caller's: four of the longest.
const CALLER_BYTES_MAX: usize = 16 << 20;

/// The room of one door.
#[derive(Debug, Default)]
pub(crate) struct MessageRoom(Arc<Mutex<Shares>>);

/// Room that one message has, until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    room: Arc<Mutex<Shares>>,
    agent: AgentId,
    bytes: usize,
}

/// There is no room for one more message now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom {
    pub(super) of_one: bool,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whose, bytes) = if self.of_one {
            ("this caller's messages", CALLER_BYTES_MAX)
        } else {
            ("messages", ALL_BYTES_MAX)
        };
        let most = bytes >> 20;
        write!(
            f,
            "overloaded: {whose} that are still arriving have {most} MiB already; nothing of this one was read; try again in a moment"
        )
    }
}

impl MessageRoom {
    /// Room for a message of `bytes` that `agent` sends; none is needed for a short one.
    pub(super) fn take(&self, agent: &AgentId, bytes: usize) -> Result<Option<Share>, NoRoom> {
        if bytes <= UNCOUNTED_BYTES_MAX {
            return Ok(None);
        }
        let mut taken = self.0.lock();
        let own = taken.of(agent);
        if own + bytes > CALLER_BYTES_MAX || own > 0 && taken.all() + bytes > ALL_BYTES_MAX {
            return Err(NoRoom {
                of_one: own + bytes > CALLER_BYTES_MAX,
            });
        }
        taken.add(agent, bytes);
        drop(taken);
        Ok(Some(Share {
            room: Arc::clone(&self.0),
            agent: agent.clone(),
            bytes,
        }))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.lock().remove(&self.agent, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE_BYTES_MAX: usize = 4 << 20;

    /// threat-model §13 F11: four of the longest messages of a caller, sixteen of all, one of who
    /// has none, and all of it comes back.
    #[test]
    fn room_is_bounded_in_all_and_of_one_caller() {
        let room = MessageRoom::default();
        let agent = |name: usize| AgentId::new(&format!("agent-{name}"));
        let mut shares = Vec::new();
        for name in 0..4 {
            shares.extend((0..4).map(|_| room.take(&agent(name), MESSAGE_BYTES_MAX).unwrap()));
            assert_eq!(
                room.take(&agent(name), UNCOUNTED_BYTES_MAX + 1)
                    .unwrap_err(),
                NoRoom { of_one: true }
            );
            assert!(
                room.take(&agent(name), UNCOUNTED_BYTES_MAX)
                    .unwrap()
                    .is_none(),
                "short ones pass"
            );
        }
        for name in 4..8 {
            shares.push(room.take(&agent(name), MESSAGE_BYTES_MAX).unwrap());
            let none = room
                .take(&agent(name), UNCOUNTED_BYTES_MAX + 1)
                .unwrap_err();
            assert!(
                !none.of_one && none.to_string().contains("64 MiB"),
                "{none}"
            );
        }
        assert_eq!(
            room.0.lock().all(),
            ALL_BYTES_MAX + 4 * MESSAGE_BYTES_MAX,
            "one message each beyond what is for all"
        );
        shares.drain(..5);
        shares.push(room.take(&agent(4), MESSAGE_BYTES_MAX).unwrap());
        shares.clear();
        let left = room.0.lock();
        assert_eq!((left.all(), left.agents()), (0, 0));
    }
}
