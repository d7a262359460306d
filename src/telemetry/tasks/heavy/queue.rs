//! The queue for the pool. Each agent waits behind its own work: the pool takes from all agents in
//! turn, however much one of them brings (threat-model §3I).

use crate::model::ids::AgentId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What waits or is done at most; more is refused.
pub(super) const MAX_QUEUED_WORK: usize = 64;
/// What of it is one agent's.
pub(super) const MAX_QUEUED_PER_AGENT: usize = 32;

/// The pool: half of the processors, so that the other half serves.
pub(super) static THREAD_PERMITS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(threads())));
static HEAVY_QUEUE: LazyLock<Mutex<HeavyQueue>> = LazyLock::new(Mutex::default);

fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (processors / 2).max(1)
}

#[derive(Default)]
struct HeavyQueue {
    all: usize,
    agents: HashMap<AgentId, AgentQueue>,
}

/// One agent's part of the queue.
struct AgentQueue {
    places: usize,
    /// Lets through what competes with other agents' for a thread: half of the threads, one at
    /// least.
    turn: Arc<Semaphore>,
}

/// A place in the queue, until this is dropped.
pub(super) struct HeavySlot {
    agent: AgentId,
    turn: Arc<Semaphore>,
}

/// A thread of the pool.
pub(super) struct PoolThread {
    _turn: OwnedSemaphorePermit,
    _permit: OwnedSemaphorePermit,
    /// Kept until the work ends: the next of the agent's has to find the same line.
    _place: HeavySlot,
}

impl HeavySlot {
    /// None when too much waits, or too much of `agent`.
    pub(super) fn take(agent: &AgentId) -> Option<Self> {
        let mut queue = HEAVY_QUEUE.lock();
        let places = queue.agents.get(agent).map_or(0, |line| line.places);
        if queue.all >= MAX_QUEUED_WORK || places >= MAX_QUEUED_PER_AGENT {
            return None;
        }
        queue.all += 1;
        let turn = || Arc::new(Semaphore::new((threads() / 2).max(1)));
        let line = queue
            .agents
            .entry(agent.clone())
            .or_insert_with(|| AgentQueue {
                places: 0,
                turn: turn(),
            });
        line.places += 1;
        Some(Self {
            agent: agent.clone(),
            turn: line.turn.clone(),
        })
    }

    /// Waits for a thread.
    pub(super) async fn thread(self) -> PoolThread {
        let never_closed = "nobody closes the queue's semaphores";
        let turn = self.turn.clone().acquire_owned().await.expect(never_closed);
        let permit = THREAD_PERMITS
            .clone()
            .acquire_owned()
            .await
            .expect(never_closed);
        PoolThread {
            _turn: turn,
            _permit: permit,
            _place: self,
        }
    }
}

impl Drop for HeavySlot {
    fn drop(&mut self) {
        let mut queue = HEAVY_QUEUE.lock();
        queue.all = queue.all.saturating_sub(1);
        if let Some(line) = queue.agents.get_mut(&self.agent) {
            line.places = line.places.saturating_sub(1);
            if line.places == 0 {
                queue.agents.remove(&self.agent);
            }
        }
    }
}
