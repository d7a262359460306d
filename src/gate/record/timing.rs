//! How long each step of a call took. No guard times for itself.

use crate::gate::pipeline::Stage;
use crate::gate::steps::judge::Notes;
use crate::model::clock::Clock;
use crate::model::refusal::Refusal;
use crate::telemetry::metrics::Metrics;
use std::sync::Arc;
use std::time::Duration;

/// The times of one call: what it spends is the stage's that is under way.
pub struct StageTimer {
    metrics: Arc<Metrics>,
    clock: Clock,
    /// The stage reached.
    stage: Stage,
    /// Steady time of the last look.
    last: Duration,
    /// By stage, for those that were reached.
    spent: [Option<Duration>; Stage::COUNT],
    /// Stages whose sample the metrics have: those before it.
    told: usize,
    /// Waiting for a person.
    held: Duration,
    /// Waiting for the tool server.
    upstream: Duration,
}

/// What the ledger keeps of the times.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    /// All but waiting.
    pub judging: Duration,
    /// Waiting for a person.
    pub held: Duration,
    /// Waiting for the tool server.
    pub upstream: Duration,
}

impl StageTimer {
    /// Starts at the call's arrival, in steady time.
    pub fn new(metrics: Arc<Metrics>, clock: Clock, arrived: Duration) -> Self {
        Self {
            metrics,
            clock,
            stage: Stage::ALL[0],
            last: arrived,
            spent: [None; Stage::COUNT],
            told: 0,
            held: Duration::ZERO,
            upstream: Duration::ZERO,
        }
    }

    /// The stage reached.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Steady time.
    pub fn now(&self) -> Duration {
        self.clock.steady()
    }

    /// The stage under way ends, and this one begins.
    pub fn at(&mut self, stage: Stage) {
        if stage == self.stage {
            return;
        }
        self.lap();
        self.tell_before(stage as usize);
        self.stage = stage;
    }

    /// A wait for a person's decision ends.
    pub fn held(&mut self) {
        let spent = self.lap();
        self.held += spent;
    }

    /// For how long the call has waited for a person.
    pub fn held_for(&self) -> Duration {
        self.held
    }

    /// The tool server has answered, or will not. What follows is the outcome's, and the call stays
    /// known by its dispatch.
    pub fn answered(&mut self) {
        let spent = self.lap();
        self.upstream += spent;
    }

    /// A look at the tool server took so long, within the stage under way.
    pub fn looked(&mut self, took: Duration) {
        self.upstream += took;
    }

    /// The call ends in the stage under way, with nothing sent.
    pub fn stopped(&mut self) {
        self.lap();
    }

    /// The outcome is durable, or cannot be made so: then the call is known by that.
    pub fn settled(&mut self, is_recorded: bool) {
        let reached = std::mem::replace(&mut self.stage, Stage::Outcome);
        self.lap();
        if is_recorded {
            self.stage = reached;
        }
    }

    /// The times so far.
    pub fn spent(&self) -> Spent {
        let all: Duration = self.spent.iter().flatten().sum();
        Spent {
            judging: all.saturating_sub(self.held + self.upstream),
            held: self.held,
            upstream: self.upstream,
        }
    }

    /// The call has ended: the metrics get the samples that they do not have.
    pub fn end(&mut self) {
        self.tell_before(Stage::COUNT);
    }

    /// One sample a stage a call, when the call first leaves the stage behind. What a call spends in
    /// a stage that it comes back to is told to the ledger only.
    fn tell_before(&mut self, stage: usize) {
        for (index, told) in Stage::ALL.iter().enumerate().take(stage).skip(self.told) {
            if let Some(spent) = self.spent[index] {
                self.metrics.stage(told.as_str(), spent);
            }
        }
        self.told = self.told.max(stage);
    }

    fn lap(&mut self) -> Duration {
        let now = self.clock.steady();
        let spent = now.saturating_sub(self.last);
        self.last = now;
        *self.spent[self.stage as usize].get_or_insert_default() += spent;
        spent
    }
}

impl Notes for StageTimer {
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        if (stage as usize) < self.told {
            // What a step has made is judged again: that is this step's time, and the call is known
            // by the stage only where it ends there.
            self.lap();
            if verdict.is_err() {
                self.stage = stage;
            }
            return verdict;
        }
        self.tell_before(stage as usize);
        self.stage = stage;
        self.lap();
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer() -> StageTimer {
        let mut timer = StageTimer::new(Arc::new(Metrics::new()), Clock, Clock.steady());
        for stage in [Stage::Visible, Stage::Arguments, Stage::Rules] {
            timer.note(stage, Ok(())).unwrap();
        }
        timer.at(Stage::Rewrite);
        timer
    }

    /// 003-84: a call whose arguments were rewritten is judged again in the time of that step, which
    /// has one sample, as each before it has.
    #[test]
    fn what_a_step_made_is_judged_in_its_time() {
        let mut timer = timer();
        let before = timer.spent;
        for stage in [Stage::Visible, Stage::Arguments, Stage::Rules] {
            timer.note(stage, Ok(())).unwrap();
        }
        assert_eq!(timer.stage(), Stage::Rewrite);
        timer.at(Stage::Repetition);
        let rewrite = Stage::Rewrite as usize;
        assert!(timer.spent[rewrite].is_some());
        assert_eq!(timer.spent[..rewrite], before[..rewrite]);
        assert_eq!(timer.told, Stage::Repetition as usize);
    }

    /// A refusal of what a step made is known by the stage that refused it.
    #[test]
    fn what_is_refused_again_is_known_by_its_stage() {
        let mut timer = timer();
        timer.note(Stage::Visible, Ok(())).unwrap();
        let refused: Result<(), Refusal> = timer.note(Stage::Rules, Err(Refusal::Planned));
        assert!(refused.is_err());
        assert_eq!(timer.stage(), Stage::Rules);
        timer.stopped();
        timer.end();
        assert!(timer.spent[Stage::Rewrite as usize].is_some());
    }
}
