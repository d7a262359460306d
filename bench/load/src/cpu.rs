//! CPU time of processes: nanoseconds of each thread as the scheduler counts them, and how they
//! are shared between the program and the kernel, which is known by ticks only.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// What each thread of some processes has spent so far, by the thread's id.
#[derive(Default)]
pub(crate) struct CpuTimes(BTreeMap<u32, ThreadTimes>);

#[derive(Clone, Copy, Default)]
struct ThreadTimes {
    nanoseconds: u64,
    user_ticks: u64,
    kernel_ticks: u64,
}

/// CPU time between two looks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    /// All of it, to the nanosecond.
    pub(crate) total: Duration,
    /// Ticks that fell on the program.
    pub(crate) user_ticks: u64,
    /// Ticks that fell on the kernel.
    pub(crate) kernel_ticks: u64,
}

impl CpuTimes {
    /// Of all threads of these processes, now.
    pub(crate) fn of(processes: &[u32]) -> Self {
        let threads = processes.iter().flat_map(|process| {
            let process = *process;
            threads(process).into_iter().filter_map(move |thread| {
                let place = format!("/proc/{process}/task/{thread}");
                let spent = nanoseconds(&fs::read_to_string(format!("{place}/schedstat")).ok()?)?;
                let [user_ticks, kernel_ticks] =
                    ticks(&fs::read_to_string(format!("{place}/stat")).ok()?)?;
                let times = ThreadTimes {
                    nanoseconds: spent,
                    user_ticks,
                    kernel_ticks,
                };
                Some((thread, times))
            })
        });
        Self(threads.collect())
    }

    /// What was spent since `before`. A thread that began meanwhile counts whole; what a thread
    /// spent that ended meanwhile is lost.
    pub(crate) fn since(&self, before: &Self) -> Spent {
        let mut spent = Spent::default();
        for (thread, now) in &self.0 {
            let then = before.0.get(thread).copied().unwrap_or_default();
            let nanoseconds = now.nanoseconds.saturating_sub(then.nanoseconds);
            spent.total += Duration::from_nanos(nanoseconds);
            spent.user_ticks += now.user_ticks.saturating_sub(then.user_ticks);
            spent.kernel_ticks += now.kernel_ticks.saturating_sub(then.kernel_ticks);
        }
        spent
    }
}

impl Spent {
    /// The share of it that ran in the program and not in the kernel, 0 to 1, as far as ticks tell;
    /// none where no tick fell on it.
    pub(crate) fn user_share(&self) -> Option<f64> {
        let ticks = [self.user_ticks, self.kernel_ticks].map(Duration::from_secs);
        let [user, kernel] = ticks.map(|ticks| ticks.as_secs_f64());
        (user + kernel > 0.0).then(|| user / (user + kernel))
    }
}

/// The ids of a process's threads; none if it has ended.
pub(crate) fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task"));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Of the text of `schedstat`: time on a CPU, time that it waited for one, how often.
fn nanoseconds(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// Ticks in the program and in the kernel, of the text of `stat`. The thread's name comes before
/// them in brackets, and may hold brackets and blanks.
fn ticks(text: &str) -> Option<[u64; 2]> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace().skip(11);
    let mut next = || words.next()?.parse().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::{CpuTimes, ThreadTimes, nanoseconds, ticks};
    use std::time::Duration;

    #[test]
    fn the_kernels_texts_are_read() {
        assert_eq!(nanoseconds("954926 2851355 3\n"), Some(954_926));
        assert_eq!(nanoseconds("\n"), None);
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 100 0 0 0 31 12 0 0 20 0 1 0 5 6 7\n";
        assert_eq!(ticks(stat), Some([31, 12]));
        assert_eq!(ticks("7 (a) S 1"), None);
    }

    #[test]
    fn a_difference_has_new_threads_and_no_ended_ones() {
        let times = |nanoseconds, user_ticks, kernel_ticks| ThreadTimes {
            nanoseconds,
            user_ticks,
            kernel_ticks,
        };
        let before = CpuTimes([(1, times(100, 1, 1)), (2, times(5000, 9, 9))].into());
        let after = CpuTimes([(1, times(1100, 3, 2)), (3, times(40, 1, 0))].into());
        let spent = after.since(&before);
        assert_eq!(spent.total, Duration::from_nanos(1040));
        assert_eq!(spent.user_share(), Some(0.75));
        assert_eq!(before.since(&before).user_share(), None);
    }

    #[test]
    fn a_process_that_works_has_spent_time() {
        let own = [std::process::id()];
        let before = CpuTimes::of(&own);
        let worked: u64 = (0..20_000_000_u64).fold(0, |sum, next| std::hint::black_box(sum ^ next));
        assert!(worked < 1 << 25);
        assert!(CpuTimes::of(&own).since(&before).total > Duration::from_micros(100));
    }
}
