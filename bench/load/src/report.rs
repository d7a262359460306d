//! Tables for people, ready for a README: medians of the rounds, with the least and the most.

use crate::measure::number;
use crate::numbers::{Round, Spread};
use crate::run::{EffectRow, Machine, Row, Run};
use crate::stand::{BEFORE, TOOLGATE};
use std::fmt::Write as _;

/// All tables of a run.
pub(crate) fn tables(run: &Run) -> String {
    let mut out = machine(&run.machine);
    let mut scenes: Vec<&str> = run.rows.iter().map(|row| row.scene.as_str()).collect();
    scenes.dedup();
    for scene in scenes {
        out += &calls(run, scene);
    }
    out += &effects(run);
    out += &before(run);
    out += &memory(run);
    out += &starts(run);
    out += &rest(run);
    out += &peers(run);
    out
}

fn machine(machine: &Machine) -> String {
    let milliseconds = 1000 / machine.ticks.max(1);
    format!(
        "{} CPUs, {}, Linux {}, load average {} at the beginning. Medians of the rounds (least–most); ratios and what is added\n\
         are of one round each. CPU time to the nanosecond; its parts, user and kernel, by ticks of {milliseconds} ms.\n",
        machine.cpus, machine.model, machine.kernel, machine.load
    )
}

fn calls(run: &Run, scene: &str) -> String {
    let mut out = format!(
        "\n### {scene}\n\n\
         | placement | way | CPU µs/call | user + kernel | × nginx | p50 µs | p99 µs | p50 over direct | p99 over direct | calls/s |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for row in run.rows.iter().filter(|row| row.scene == scene) {
        let has_processes = row.rounds.iter().any(|round| round.cpu > 0.0);
        let cpu = spread(row, |round| round.cpu).filter(|_| has_processes);
        let added = [
            run.added(row, |round| round.p50),
            run.added(row, |round| round.p99),
        ];
        let [p50, p99] = added.map(|added| with_ends(added, 0, true));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {p50} | {p99} | {} |",
            row.placement,
            row.way,
            with_ends(cpu, 1, false),
            cpu.map_or_else(String::new, |_| parts(&row.rounds)),
            with_ends(run.times_nginx(row), 2, false),
            middle(spread(row, |round| round.p50)),
            middle(spread(row, |round| round.p99)),
            middle(spread(row, |round| round.rate)),
        );
    }
    out
}

fn effects(run: &Run) -> String {
    if run.effects.is_empty() {
        return String::new();
    }
    let mut out = "\n### calls that change something\n\n\
         | calls at once | way | CPU µs/call | user + kernel | p50 µs | p99 µs | syncs/call | calls/s | of one shared log | p50 of two bare syncs |\n\
         |---:|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for row in &run.effects {
        let _ = writeln!(out, "{}", effect(run, row));
    }
    out += "\n| calls at once | one shared log, calls/s | a sync for each record |\n|---:|---:|---:|\n";
    for log in &run.logs {
        let [shared, each] =
            [&log.shared, &log.each].map(|rates| middle(Spread::of(rates.iter().copied())));
        let _ = writeln!(out, "| {} | {shared} | {each} |", log.callers);
    }
    out
}

fn effect(run: &Run, row: &EffectRow) -> String {
    let of = |number: fn(&Round) -> f64| Spread::of(row.rounds.iter().map(number));
    let log = run.logs.iter().find(|log| log.callers == row.callers);
    let share = log.and_then(|log| {
        let pairs = row.rounds.iter().zip(&log.shared);
        Spread::of(pairs.map(|(round, shared)| 100.0 * round.rate / shared))
    });
    let bare = log.and_then(|log| Spread::of(log.bare_p50.iter().copied()));
    let syncs = Spread::of(row.rounds.iter().filter_map(|round| round.syncs));
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        row.callers,
        row.way,
        with_ends(of(|round| round.cpu), 1, false),
        parts(&row.rounds),
        with_ends(of(|round| round.p50), 0, false),
        middle(of(|round| round.p99)),
        with_ends(syncs, 2, false),
        middle(of(|round| round.rate)),
        share.map_or_else(String::new, |share| format!("{:.0} %", share.median)),
        middle(bare),
    )
}

/// This build beside the older one, where there was one.
fn before(run: &Run) -> String {
    let mut lines = String::new();
    for row in run.rows.iter().filter(|row| row.way == TOOLGATE) {
        let older = run.beside(row, BEFORE).map(|older| older.rounds.as_slice());
        let what = format!("{} | {}", row.scene, row.placement);
        lines += &older.map_or_else(String::new, |older| change(&what, older, &row.rounds));
    }
    for row in run.effects.iter().filter(|row| row.way == TOOLGATE) {
        let same = |other: &&EffectRow| other.callers == row.callers && other.way == BEFORE;
        let older = run.effects.iter().find(same);
        let what = format!("call, changes something | {} at once", row.callers);
        lines += &older.map_or_else(String::new, |older| {
            change(&what, &older.rounds, &row.rounds)
        });
    }
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\n### this build beside the one before\n\n\
         | scene | placement | CPU before | now | ratio | p50 before | now | ratio |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n{lines}"
    )
}

fn change(what: &str, older: &[Round], newer: &[Round]) -> String {
    let cells = |number: fn(&Round) -> f64, decimals| {
        let pairs = older.iter().zip(newer);
        let ratio = Spread::of(pairs.map(|(older, newer)| number(newer) / number(older)));
        let [before, now] = [older, newer].map(|rounds| Spread::of(rounds.iter().map(number)));
        [
            with_ends(before, decimals, false),
            with_ends(now, decimals, false),
            with_ends(ratio, 2, false),
        ]
        .join(" | ")
    };
    format!(
        "| {what} | {} | {} |\n",
        cells(|round| round.cpu, 1),
        cells(|round| round.p50, 0)
    )
}

fn memory(run: &Run) -> String {
    if run.memory.is_empty() {
        return String::new();
    }
    let mut out = "\n### resident memory\n\n\
         | way | when | KiB | of it sled's unread histograms | without them |\n|---|---|---:|---:|---:|\n"
        .to_owned();
    for row in &run.memory {
        let without = row.kib.saturating_sub(row.sled);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {without} |",
            row.way, row.when, row.kib, row.sled
        );
    }
    out
}

fn starts(run: &Run) -> String {
    if run.starts.is_empty() {
        return String::new();
    }
    let mut out = "\n### start\n\n\
         | tools | first answer, ms | resident, KiB | of it sled's unread histograms |\n|---:|---:|---:|---:|\n"
        .to_owned();
    for row in &run.starts {
        let [first, kib] = [&row.first_answer, &row.kib]
            .map(|values| with_ends(Spread::of(values.iter().copied()), 0, false));
        let _ = writeln!(out, "| {} | {first} | {kib} | {} |", row.tools, row.sled);
    }
    if let [few, .., many] = run.starts.as_slice()
        && let Some((least, most)) =
            Spread::of(few.kib.iter().copied()).zip(Spread::of(many.kib.iter().copied()))
    {
        let tools = number(u64::try_from(many.tools.saturating_sub(few.tools)).unwrap_or(0));
        let _ = writeln!(
            out,
            "\nA tool with its contract: {:.1} KiB.",
            (most.median - least.median) / tools
        );
    }
    out
}

fn rest(run: &Run) -> String {
    if run.rest.is_empty() {
        return String::new();
    }
    let mut out =
        "\n### at rest\n\n| scene | bytes of a call on the disk | calls |\n|---|---:|---:|\n"
            .to_owned();
    for row in &run.rest {
        let _ = writeln!(out, "| {} | {:.0} | {} |", row.scene, row.bytes, row.calls);
    }
    out
}

fn peers(run: &Run) -> String {
    if run.peers.is_empty() {
        return String::new();
    }
    let mut out = "\n### peers\n\nAll of these ways speak 2025-11-25, each connection in a session of its own. toolgate judges each call by \
         every guard and records it.\n\n| peer | version | licence | governs |\n|---|---|---|---|\n"
        .to_owned();
    for peer in &run.peers {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            peer.name, peer.version, peer.licence, peer.governs
        );
    }
    out
}

fn spread(row: &Row, number: impl Fn(&Round) -> f64) -> Option<Spread> {
    Spread::of(row.rounds.iter().map(number))
}

/// User and kernel time, where ticks fell on both.
fn parts(rounds: &[Round]) -> String {
    let user = Spread::of(rounds.iter().filter_map(Round::user));
    let kernel = Spread::of(rounds.iter().filter_map(Round::kernel));
    user.zip(kernel).map_or_else(String::new, |(user, kernel)| {
        format!("{:.1} + {:.1}", user.median, kernel.median)
    })
}

fn with_ends(spread: Option<Spread>, decimals: usize, signed: bool) -> String {
    spread.map_or_else(String::new, |spread| {
        let number = |value: f64| {
            if signed {
                format!("{value:+.decimals$}")
            } else {
                format!("{value:.decimals$}")
            }
        };
        let [median, low, high] = [spread.median, spread.low, spread.high].map(number);
        format!("{median} ({low}–{high})")
    })
}

fn middle(spread: Option<Spread>) -> String {
    spread.map_or_else(String::new, |spread| format!("{:.0}", spread.median))
}

#[cfg(test)]
mod tests {
    use super::tables;
    use crate::peers::PEERS;
    use crate::run::tests::example;

    #[test]
    fn tables_have_a_line_for_each_way() {
        let said = tables(&example());
        for line in [
            "| packed | direct |  |  |  | 25 | 50 |  |  | 1000 |",
            "| packed | nginx | 20.0 (10.0–25.0) | 10.0 + 10.0 | 1.00 (1.00–1.00) | 45 | 90 | +20 (+20–+25) | +40 (+40–+50) | 1000 |",
            "| packed | toolgate | 40.0 (25.0–75.0) | 20.0 + 20.0 | 2.50 (2.00–3.00) | 74 | 148 | +49 (+48–+60) | +98 (+96–+120) | 1000 |",
            "| 64 | toolgate | 75.0 (75.0–75.0) | 37.5 + 37.5 | 500 (500–500) | 1000 | 0.25 (0.25–0.25) | 1000 | 2 % |  |",
            "| toolgate | before any load | 34816 | 21156 | 13660 |",
            "| 100 | 80 (70–90) | 22528 (22528–22528) | 21156 |",
            "| 1100 | 95 (95–95) | 30528 (30528–30528) | 21156 |",
            "A tool with its contract: 8.0 KiB.",
            "| call, small result | 140 | 19200 |",
            "| call, small result | packed | 75.0 (50.0–80.0) | 40.0 (25.0–75.0) | 0.50 (0.50–1.00) | 99 (99–99) | 74 (68–90) | 0.75 (0.69–0.91) |",
        ] {
            assert!(said.contains(line), "{line}\n{said}");
        }
    }

    #[test]
    fn what_was_not_measured_has_no_table() {
        let mut run = example();
        run.rows.retain(|row| row.way != "toolgate before");
        run.effects.clear();
        run.peers.push(PEERS[0].row());
        let said = tables(&run);
        assert!(
            said.contains("| tower mcp-proxy | 0.6.0 | MIT OR Apache-2.0 | nothing:"),
            "{said}"
        );
        assert!(!said.contains("the one before") && !said.contains("change something"));
    }
}
