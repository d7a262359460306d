//! A guard against growth that does not depend on what else the machine does: instructions and
//! allocations of a governed read and of a durable write, counted by callgrind in a process of
//! toolgate with one thread that serves, and compared with a file in the repository.
//!
//! Three processes make N reads and N writes, 2N and N, N and 2N: what the second and third did more
//! than the first is N calls, whatever starting costs.

use crate::caller::{self, Until};
use crate::callgrind::{self, FILES, FunctionCounts, ThreadCounts};
use crate::measure::Measuring;
use crate::scenes::{DURABLE, Dialect, LISTS, SCENES};
use crate::stand::Stand;
use crate::toolgate::{Launch, Toolgate};
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Reads of which the cost of one is the mean.
const READS: u32 = 3000;
/// Writes of which the cost of one is the mean: each waits for the disk.
const WRITES: u32 = 300;
/// Growth that is a failure.
const GROWTH_AT_MOST: f64 = 1.05;
/// Functions that are kept of each scene, those that take most.
const FUNCTIONS: usize = 200;
/// Functions that a failure names.
const NAMED: usize = 12;
/// What only the thread that serves runs.
const SERVES: &str = "toolgate::downstream";
/// What the journal's thread calls most often: it writes and syncs.
const KEEPS: [&str; 3] = ["fdatasync", "pwrite", "pwrite64"];
/// How the allocator is entered for new memory, and for more of what there is.
const ALLOCATES: [&str; 3] = ["_rjem_malloc", "_rjem_mallocx", "_rjem_calloc"];
const REALLOCATES: [&str; 2] = ["_rjem_realloc", "_rjem_rallocx"];

/// What the guard compares with.
#[derive(Debug, Serialize, Deserialize)]
struct Baseline {
    /// What the counts depend on beside the code.
    counted_with: CountedWith,
    read: CallCounts,
    write: CallCounts,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CountedWith {
    compiler: String,
    valgrind: String,
    /// Libraries choose other code where the CPU has AVX2.
    machine: String,
}

/// What one call costs.
#[derive(Debug, Serialize, Deserialize)]
struct CallCounts {
    /// Instructions of the thread that serves.
    instructions: f64,
    /// Those of the journal's thread: how many records a batch has is chance where nobody waits.
    journal: f64,
    /// Those of all other threads: not judged.
    others: f64,
    /// How often the thread that serves asks for new memory, and for more of what it has.
    allocations: f64,
    reallocations: f64,
    /// Of the thread that serves, by name.
    functions: BTreeMap<String, FunctionCost>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct FunctionCost {
    own: f64,
    inclusive: f64,
}

/// The threads of one process, by what they do.
struct ProcessCounts {
    serves: ThreadCounts,
    journal: ThreadCounts,
    others: u64,
}

/// Counts, and compares with the baseline, or writes it.
///
/// # Errors
///
/// A call costs more than it may, or nothing could be counted.
pub(crate) fn guard(measuring: &Measuring<'_>, file: &Path) -> anyhow::Result<()> {
    let counted = count(measuring)?;
    print!("{}", said("governed read", &counted.read));
    print!("{}", said("durable write", &counted.write));
    if measuring.asked.write {
        let text = serde_json::to_string_pretty(&counted)?;
        return fs::write(file, text + "\n").with_context(|| file.display().to_string());
    }
    let text = fs::read_to_string(file).with_context(|| {
        format!(
            "there is no {}; `bench/instructions/run --write` makes it",
            file.display()
        )
    })?;
    let baseline: Baseline = serde_json::from_str(&text).context("the baseline")?;
    if baseline.counted_with != counted.counted_with {
        println!(
            "SKIPPED: the baseline was counted with {:?}, this with {:?}; `bench/instructions/run --write` takes it down anew",
            baseline.counted_with, counted.counted_with
        );
        return Ok(());
    }
    let grown = judge(&baseline, &counted);
    if !grown.is_empty() {
        bail!("{grown}");
    }
    println!("none of it is more than 5 % above the baseline");
    Ok(())
}

fn count(measuring: &Measuring<'_>) -> anyhow::Result<Baseline> {
    let few = process(measuring, READS, WRITES)?;
    let reads = process(measuring, 2 * READS, WRITES)?;
    let writes = process(measuring, READS, 2 * WRITES)?;
    let version = Command::new("valgrind").arg("--version").output()?;
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let avx2 = if about.contains(" avx2 ") {
        "with"
    } else {
        "without"
    };
    Ok(Baseline {
        counted_with: CountedWith {
            compiler: measuring.asked.compiler.clone(),
            valgrind: String::from_utf8_lossy(&version.stdout).trim().to_owned(),
            machine: format!("{} {avx2} AVX2", std::env::consts::ARCH),
        },
        read: difference(&few, &reads, READS),
        write: difference(&few, &writes, WRITES),
    })
}

/// One process of toolgate under callgrind, from its start to its end.
fn process(measuring: &Measuring<'_>, reads: u32, writes: u32) -> anyhow::Result<ProcessCounts> {
    eprintln!("counting {reads} reads and {writes} writes");
    let stand = Stand::start(Dialect::Modern)?;
    let directory = stand.directory.join("counted");
    fs::create_dir(&directory)?;
    let under = [
        "valgrind".to_owned(),
        "--quiet".to_owned(),
        "--tool=callgrind".to_owned(),
        "--separate-threads=yes".to_owned(),
        "--compress-strings=no".to_owned(),
        "--compress-pos=no".to_owned(),
        "--fair-sched=try".to_owned(),
        "--vgdb=no".to_owned(),
        format!("--callgrind-out-file={}", directory.join(FILES).display()),
    ];
    let process = Toolgate::start(&Launch {
        program: &measuring.asked.program()?,
        directory: directory.clone(),
        server: &stand.server,
        tools: &LISTS[..1],
        workers: Some(1),
        under: &under,
    })?;
    process.ready()?;
    let way = stand.way("counted", process.agents.clone(), Vec::new());
    for (scene, calls) in [(&SCENES[0], reads), (&DURABLE, writes)] {
        let until = Until::Calls(usize::try_from(calls)?);
        measuring
            .runtime
            .block_on(caller::load(&way, scene, 1, until))
            .context(scene.name)?;
    }
    process.end()?;
    by_role(callgrind::threads(&directory)?)
}

/// Which thread is which: by what each ran most of.
fn by_role(mut threads: Vec<ThreadCounts>) -> anyhow::Result<ProcessCounts> {
    let serves = most(&mut threads, |thread| thread.own_of(SERVES));
    let serves = serves.with_context(|| format!("no thread ran anything of {SERVES}"))?;
    let journal = most(&mut threads, |thread| thread.entered(&KEEPS));
    let journal = journal.with_context(|| format!("no thread called any of {KEEPS:?}"))?;
    let others = threads.iter().map(|thread| thread.total).sum();
    Ok(ProcessCounts {
        serves,
        journal,
        others,
    })
}

/// The thread that did most by `measure`; none where no thread did anything.
fn most(
    threads: &mut Vec<ThreadCounts>,
    measure: impl Fn(&ThreadCounts) -> u64,
) -> Option<ThreadCounts> {
    let place = (0..threads.len()).max_by_key(|place| measure(&threads[*place]))?;
    (measure(&threads[place]) > 0).then(|| threads.swap_remove(place))
}

/// What one of `calls` costs that `more` made above `few`.
fn difference(few: &ProcessCounts, more: &ProcessCounts, calls: u32) -> CallCounts {
    let each = |few: u64, more: u64| per_call(few, more, calls);
    let entered = |names: &[&str]| each(few.serves.entered(names), more.serves.entered(names));
    let instructions = each(few.serves.total, more.serves.total);
    let none = FunctionCounts::default();
    let costs = more.serves.functions.iter().map(|(name, now)| {
        let then = few.serves.functions.get(name).unwrap_or(&none);
        let cost = FunctionCost {
            own: each(then.own, now.own),
            inclusive: each(then.own + then.called, now.own + now.called),
        };
        (name.clone(), cost)
    });
    let mut functions: Vec<(String, FunctionCost)> = costs
        .filter(|(_, cost)| cost.own >= instructions / 2000.0)
        .collect();
    functions.sort_by(|(_, one), (_, other)| other.own.total_cmp(&one.own));
    functions.truncate(FUNCTIONS);
    CallCounts {
        instructions,
        journal: each(few.journal.total, more.journal.total),
        others: each(few.others, more.others),
        allocations: entered(&ALLOCATES),
        reallocations: entered(&REALLOCATES),
        functions: functions.into_iter().collect(),
    }
}

/// To a tenth.
fn per_call(few: u64, more: u64, calls: u32) -> f64 {
    let number = |count: u64| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    let above = number(more.saturating_sub(few)) - number(few.saturating_sub(more));
    (above / f64::from(calls) * 10.0).round() / 10.0
}

/// What costs more than it may, with the functions that grew most; empty if nothing does.
fn judge(baseline: &Baseline, counted: &Baseline) -> String {
    let mut grown = String::new();
    for (scene, before, now, has_waited) in [
        ("governed read", &baseline.read, &counted.read, false),
        ("durable write", &baseline.write, &counted.write, true),
    ] {
        let mut judged = vec![
            ("instructions", before.instructions, now.instructions),
            ("allocations", before.allocations, now.allocations),
        ];
        if has_waited {
            judged.push((
                "instructions of the journal's thread",
                before.journal,
                now.journal,
            ));
        }
        let broken = judged
            .into_iter()
            .filter(|(_, before, now)| *now > before * GROWTH_AT_MOST);
        for (what, before, now) in broken {
            let percent = 100.0 * (now / before - 1.0);
            let _ = writeln!(
                grown,
                "{scene}: {now} {what}, {percent:.1} % more than {before}"
            );
        }
        if grown.contains(scene) {
            grown += &growth(before, now);
        }
    }
    grown
}

/// The functions that grew most.
fn growth(before: &CallCounts, now: &CallCounts) -> String {
    let of =
        |counts: &CallCounts, name: &str| counts.functions.get(name).map_or(0.0, |cost| cost.own);
    let mut grown: Vec<(&String, f64, f64)> = now
        .functions
        .keys()
        .map(|name| (name, of(before, name), of(now, name)))
        .filter(|(_, before, now)| now > before)
        .collect();
    grown.sort_by(|one, other| (other.2 - other.1).total_cmp(&(one.2 - one.1)));
    let lines = grown.into_iter().take(NAMED).map(|(name, before, now)| {
        format!(
            "  {:+.0} instructions ({before:.0} → {now:.0}) {name}\n",
            now - before
        )
    });
    lines.collect()
}

fn said(scene: &str, counts: &CallCounts) -> String {
    let mut out = format!(
        "{scene}: {} instructions, {} allocations and {} reallocations in the thread that serves; {} instructions in the journal's, {} in others\n",
        counts.instructions,
        counts.allocations,
        counts.reallocations,
        counts.journal,
        counts.others
    );
    let mut most: Vec<_> = counts.functions.iter().collect();
    most.sort_by(|(_, one), (_, other)| other.own.total_cmp(&one.own));
    for (name, cost) in most.into_iter().take(NAMED) {
        let _ = writeln!(
            out,
            "  {:.0} ({:.0} inclusive) {name}",
            cost.own, cost.inclusive
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Baseline, CallCounts, CountedWith, ProcessCounts, by_role, difference, judge};
    use crate::callgrind::{FunctionCounts, ThreadCounts};

    fn thread(functions: &[(&str, u64)]) -> ThreadCounts {
        let counts = functions.iter().map(|(name, own)| {
            let counts = FunctionCounts {
                own: *own,
                called: 0,
                entered: own / 10,
            };
            ((*name).to_owned(), counts)
        });
        ThreadCounts {
            total: functions.iter().map(|(_, own)| own).sum(),
            functions: counts.collect(),
        }
    }

    fn threads(calls: u64) -> ProcessCounts {
        by_role(vec![
            thread(&[("main", 777)]),
            thread(&[("fdatasync", 1000 + 20 * calls)]),
            thread(&[
                ("toolgate::downstream::route", 5000 + 300 * calls),
                ("_rjem_malloc", 100 + 50 * calls),
            ]),
        ])
        .unwrap()
    }

    fn counted(read: CallCounts) -> Baseline {
        Baseline {
            counted_with: CountedWith {
                compiler: String::new(),
                valgrind: String::new(),
                machine: String::new(),
            },
            read,
            write: difference(&threads(100), &threads(200), 100),
        }
    }

    #[test]
    fn what_starting_costs_is_in_no_call() {
        let counts = difference(&threads(100), &threads(200), 100);
        assert_eq!(
            (counts.instructions, counts.journal, counts.others),
            (350.0, 20.0, 0.0)
        );
        assert_eq!((counts.allocations, counts.reallocations), (5.0, 0.0));
        let own = counts.functions["toolgate::downstream::route"].own;
        assert_eq!(Some(own), Some(300.0));
        assert!(by_role(vec![thread(&[("main", 1)])]).is_err());
    }

    #[test]
    fn growth_is_said_with_the_functions_that_grew() {
        let plain = || difference(&threads(100), &threads(200), 100);
        let baseline = counted(plain());
        assert_eq!(judge(&baseline, &counted(plain())), "");
        let mut little = plain();
        little.instructions *= 1.04;
        assert_eq!(judge(&baseline, &counted(little)), "");
        let mut grown = plain();
        grown.instructions += 35.0;
        if let Some(cost) = grown.functions.get_mut("toolgate::downstream::route") {
            cost.own += 35.0;
        }
        let said = judge(&baseline, &counted(grown));
        assert_eq!(
            said,
            "governed read: 385 instructions, 10.0 % more than 350\n  \
             +35 instructions (300 → 335) toolgate::downstream::route\n"
        );
        let mut more = plain();
        more.allocations = 6.0;
        let said = judge(&baseline, &counted(more));
        assert!(
            said.starts_with("governed read: 6 allocations, 20.0 % more than 5"),
            "{said}"
        );
    }
}
