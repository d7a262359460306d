//! Which processes run on which CPU while they are measured. One connection that is left to the
//! scheduler is at times all on one CPU and at times on two, and each costs something else: so both
//! are measured, each on purpose.

use crate::cpu::threads;
use crate::stand::Stand;
use anyhow::Context as _;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// One way to place them, with the connections that it is measured at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// All on one CPU, one connection: no thread wakes one of another CPU.
    Packed,
    /// What stands in between alone on one CPU, all else on another; one connection.
    Spread,
    /// Where the scheduler likes, 64 connections.
    Open,
}

impl Placement {
    /// In the order in which they are measured.
    pub(crate) const ALL: [Self; 3] = [Self::Packed, Self::Spread, Self::Open];

    /// In tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::Spread => "spread",
            Self::Open => "64",
        }
    }

    /// Calls at once.
    pub(crate) fn connections(self) -> usize {
        match self {
            Self::Packed | Self::Spread => 1,
            Self::Open => 64,
        }
    }
}

/// The CPUs that this process may use.
pub(crate) struct Cpus {
    allowed: CpuSet,
    numbers: Vec<usize>,
}

impl Cpus {
    /// As the process was started.
    ///
    /// # Errors
    ///
    /// The kernel does not tell.
    pub(crate) fn allowed() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None).context("which CPUs may be used is not known")?;
        let all = 0..CpuSet::MAX_CPU;
        Ok(Self {
            numbers: all.filter(|number| allowed.is_set(*number)).collect(),
            allowed,
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The placements that can be had: with one CPU nothing can be spread.
    pub(crate) fn placements(&self) -> Vec<Placement> {
        let all = Placement::ALL.into_iter();
        all.filter(|placement| *placement != Placement::Spread || self.count() > 1)
            .collect()
    }

    /// Places all of `stand`, and this process. New threads are placed as what starts them.
    ///
    /// # Errors
    ///
    /// The kernel refuses it for a process that runs.
    pub(crate) fn place(&self, placement: Placement, stand: &Stand) -> anyhow::Result<()> {
        let one = |number: Option<&usize>| {
            let mut cpus = CpuSet::new();
            if let Some(number) = number {
                cpus.set(*number);
            }
            cpus
        };
        let last = || one(self.numbers.last());
        let (between, others) = match placement {
            Placement::Packed => (last(), last()),
            Placement::Spread => (last(), one(self.numbers.first())),
            Placement::Open => (self.allowed, self.allowed),
        };
        let own = std::process::id();
        for process in stand.others().chain([own]) {
            pin(process, &others)?;
        }
        for process in stand.ways.iter().flat_map(|way| &way.processes) {
            pin(*process, &between)?;
        }
        Ok(())
    }
}

/// Places each thread of a process. A thread that has ended meanwhile is none.
fn pin(process: u32, cpus: &CpuSet) -> anyhow::Result<()> {
    let mut placed = 0;
    for thread in threads(process) {
        let Some(id) = i32::try_from(thread).ok().and_then(Pid::from_raw) else {
            continue;
        };
        placed += usize::from(sched_setaffinity(Some(id), cpus).is_ok());
    }
    anyhow::ensure!(placed > 0, "process {process} cannot be placed on a CPU");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Cpus, Placement};
    use rustix::thread::CpuSet;

    #[test]
    fn with_one_cpu_nothing_is_spread() {
        let of = |numbers| Cpus {
            allowed: CpuSet::new(),
            numbers,
        };
        assert_eq!(of(vec![0, 1]).placements(), Placement::ALL);
        assert_eq!(
            of(vec![3]).placements(),
            [Placement::Packed, Placement::Open]
        );
    }
}
