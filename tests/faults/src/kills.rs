//! toolgate is killed while agents call, and started again while they call again.

use crate::agent::{Agents, Errand, What, boot_time};
use crate::dice::Dice;
use crate::stand::Stand;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// Agents that call without end, one call at a time each, until they are stopped; each in a session
/// of its own.
#[derive(Debug)]
pub struct Load {
    stopped: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    workers: JoinSet<()>,
}

/// What the calls are of a load, in percent of all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mix {
    /// A person has to allow these; an operator has to decide meanwhile
    /// ([`crate::operators::Operators`]).
    pub held: u64,
    /// These are answered with any status and any body.
    pub statuses: u64,
}

impl Load {
    /// Starts `sessions` of them. Half of the calls carry an explicit key; the tool takes up to
    /// `slow` milliseconds before and after its effect.
    pub fn start(agents: &Agents, sessions: u64, slow: u64, dice: &Dice) -> Self {
        Self::mixed(agents, (sessions, slow), Mix::default(), dice)
    }

    /// The same, with other calls among them.
    pub fn mixed(agents: &Agents, (sessions, slow): (u64, u64), mix: Mix, dice: &Dice) -> Self {
        let (stopped, made) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let mut workers = JoinSet::new();
        for session in 0..sessions {
            let (agents, stopped, made, mut dice) = (
                agents.clone(),
                stopped.clone(),
                made.clone(),
                dice.fork(session),
            );
            workers.spawn(async move {
                for nth in 0.. {
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    let (key, session) =
                        (format!("key-{session}-{nth}"), format!("session-{session}"));
                    let arguments =
                        json!({ "delay_ms": dice.below(slow), "delay_after_ms": dice.below(slow) });
                    let errand = Errand {
                        arguments,
                        explicit: dice.chance(50),
                        ..Errand::effect(&key, &session)
                    };
                    let errand = if dice.chance(mix.held) {
                        errand.held()
                    } else {
                        errand
                    };
                    let errand = if dice.chance(mix.statuses) {
                        errand.with_status(&mut dice)
                    } else {
                        errand
                    };
                    let last = agents.run(&errand).await;
                    made.fetch_add(1, Ordering::Relaxed);
                    // A refusal takes no time; an agent that gets one after the other would only
                    // turn in circles.
                    if matches!(last, What::Broken(_) | What::Refused { .. }) {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            });
        }
        Self {
            stopped,
            made,
            workers,
        }
    }

    /// How many calls came to an end so far.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Begins no more calls, and waits for the end of those that were begun.
    pub async fn stop(mut self) -> u64 {
        self.stopped.store(true, Ordering::Relaxed);
        while self.workers.join_next().await.is_some() {}
        self.made()
    }
}

/// Kills toolgate at its fail point and starts it again, while a load goes on; the load must bring
/// it there.
///
/// # Errors
/// When the point is not reached in time, or toolgate does not start.
pub async fn at_point(
    stand: &mut Stand,
    agents: &Agents,
    point: &str,
    nth: u64,
) -> anyhow::Result<()> {
    stand.start(Some(&format!("{point}:{nth}"))).await?;
    agents.moved(stand.agents());
    if point == "reload" {
        stand.policy(&format!("argument_{}", boot_time()))?;
    }
    stand.died().await?;
    stand.start(None).await?;
    agents.moved(stand.agents());
    Ok(())
}
