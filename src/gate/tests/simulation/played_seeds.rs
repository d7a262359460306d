//! Simulations of which several tests run their share of the seeds.

use super::{Counts, add, first_seed, number};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One of them.
pub(super) struct PlayedSeeds {
    /// Seeds that are run when nothing else is asked for …
    pub(super) seeds: u64,
    /// … and tests that share them.
    pub(super) parts: u64,
    /// What has to be seen, or the runs prove nothing.
    pub(super) expected: &'static [&'static str],
}

impl PlayedSeeds {
    /// Has `run` run each seed of one part, and say what happened how often.
    pub(super) fn play(&self, part: u64, run: impl Fn(u64) -> Counts) {
        let first = first_seed();
        let seeds = number("TOOLGATE_SEEDS").unwrap_or(self.seeds);
        let mut counts = Counts::new();
        for seed in (first..first + seeds).filter(|seed| seed % self.parts == part) {
            let ran = catch_unwind(AssertUnwindSafe(|| run(seed)));
            let Ok(counted) = ran else {
                panic!("seed {seed} fails; TOOLGATE_SEED={seed} TOOLGATE_SEEDS=1 runs it again")
            };
            add(&mut counts, counted);
        }
        let missing = self.expected.iter();
        let missing: Vec<_> = missing
            .filter(|what| !counts.contains_key(**what))
            .collect();
        assert!(
            first > 0 || seeds < self.seeds || missing.is_empty(),
            "never seen: {missing:?}; {counts:?}"
        );
    }
}
