//! Which pictures a run has.

use crate::chart::{Bar, Chart, Group, Theme, draw};
use crate::numbers::{Round, Spread};
use crate::run::{Row, Run};
use crate::scenes::SCENES;
use crate::stand::{DIRECT, TOOLGATE};
use anyhow::Context as _;
use std::fs;
use std::path::Path;

/// Draws all pictures of a run into `directory`, each in both themes.
///
/// # Errors
///
/// A file cannot be written.
pub(crate) fn write(run: &Run, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    for chart in all(run) {
        for theme in [Theme::Light, Theme::Dark] {
            let file = directory.join(format!("{}-{}.svg", chart.file, theme.name()));
            fs::write(&file, draw(&chart, theme)).with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

/// Those for which something was measured.
fn all(run: &Run) -> Vec<Chart> {
    let charts = if run.peers.is_empty() {
        vec![
            cpu(run, "cpu"),
            added(run, "added"),
            results(run),
            effects(run),
        ]
    } else {
        vec![cpu(run, "peers-cpu"), added(run, "peers-added")]
    };
    let has_bars = |chart: &Chart| chart.groups.iter().any(|group| !group.bars.is_empty());
    charts.into_iter().filter(has_bars).collect()
}

/// CPU time of a small read.
fn cpu(run: &Run, file: &'static str) -> Chart {
    Chart {
        file,
        title: "CPU time of one call".to_owned(),
        unit: "µs, of the process in between; a small result".to_owned(),
        decimals: 1,
        parts: Some(["program", "kernel"]),
        groups: placements(run, ["packed", "spread", "64"], |row| {
            stacked(&row.way, &row.rounds)
        }),
    }
}

/// What a small read waits longer than without anything in between.
fn added(run: &Run, file: &'static str) -> Chart {
    Chart {
        file,
        title: "Latency added to one call".to_owned(),
        unit: "µs over the direct way, half of the calls within; a small result".to_owned(),
        decimals: 0,
        parts: None,
        groups: placements(run, ["packed", "spread", "64"], |row| {
            plain(&row.way, run.added(row, |round| round.p50))
        }),
    }
}

/// All scenes at 64 connections, as multiples of nginx.
fn results(run: &Run) -> Chart {
    let groups = SCENES.iter().map(|scene| {
        let rows = rows(run, scene.name, "64");
        let bars = rows.filter_map(|row| plain(&row.way, run.times_nginx(row)));
        Group {
            name: scene.name.to_owned(),
            bars: bars.collect(),
        }
    });
    Chart {
        file: "results",
        title: "CPU time beside nginx, 64 calls at once".to_owned(),
        unit: "multiples of what nginx takes with one worker in the same round".to_owned(),
        decimals: 2,
        parts: None,
        groups: groups.filter(|group| !group.bars.is_empty()).collect(),
    }
}

/// Calls that change something.
fn effects(run: &Run) -> Chart {
    let mut callers: Vec<usize> = run.effects.iter().map(|row| row.callers).collect();
    callers.dedup();
    let groups = callers.into_iter().map(|callers| {
        let rows = run.effects.iter().filter(|row| row.callers == callers);
        Group {
            name: format!("{callers} at once"),
            bars: rows
                .filter_map(|row| stacked(&row.way, &row.rounds))
                .collect(),
        }
    });
    Chart {
        file: "effects",
        title: "CPU time of one call that changes something".to_owned(),
        unit: "µs; recorded on the disk before it is sent and before it is answered".to_owned(),
        decimals: 1,
        parts: Some(["program", "kernel"]),
        groups: groups.collect(),
    }
}

fn rows<'a>(run: &'a Run, scene: &'a str, placement: &'a str) -> impl Iterator<Item = &'a Row> {
    run.rows
        .iter()
        .filter(move |row| row.scene == scene && row.placement == placement && row.way != DIRECT)
}

fn placements(run: &Run, placements: [&str; 3], bar: impl Fn(&Row) -> Option<Bar>) -> Vec<Group> {
    let groups = placements.into_iter().map(|placement| Group {
        name: match placement {
            "packed" => "one connection, all on one CPU".to_owned(),
            "spread" => "one connection, alone on its CPU".to_owned(),
            connections => format!("{connections} connections"),
        },
        bars: rows(run, SCENES[0].name, placement)
            .filter_map(&bar)
            .collect(),
    });
    groups.filter(|group| !group.bars.is_empty()).collect()
}

fn plain(way: &str, spread: Option<Spread>) -> Option<Bar> {
    let spread = spread?;
    Some(Bar {
        label: way.to_owned(),
        value: spread.median,
        first: spread.median,
        ends: [spread.low, spread.high],
        is_ours: way.starts_with(TOOLGATE),
    })
}

/// CPU time with its two parts; one where ticks tell nothing.
fn stacked(way: &str, rounds: &[Round]) -> Option<Bar> {
    let bar = plain(way, Spread::of(rounds.iter().map(|round| round.cpu)))?;
    let user = Spread::of(rounds.iter().filter_map(|round| round.user_share));
    let share = user.map_or(1.0, |user| user.median);
    Some(Bar {
        first: bar.value * share,
        ..bar
    })
}

#[cfg(test)]
mod tests {
    use super::{all, write};
    use crate::chart::tests::is_well_formed;
    use crate::chart::{Theme, draw};
    use crate::run::Run;
    use crate::run::tests::example;
    use std::fs;
    use std::path::Path;

    #[test]
    fn pictures_are_of_what_was_measured() {
        let files = |run: &Run| -> Vec<&str> { all(run).iter().map(|chart| chart.file).collect() };
        assert_eq!(files(&example()), ["cpu", "added", "effects"]);
        assert!(files(&Run::default()).is_empty());
        let charts = all(&example());
        let bars = &charts[0].groups[0].bars;
        let labels: Vec<&str> = bars.iter().map(|bar| bar.label.as_str()).collect();
        assert_eq!(labels, ["nginx", "toolgate", "toolgate before"]);
        assert_eq!(
            (bars[1].value, bars[1].first, bars[1].is_ours),
            (40.0, 20.0, true)
        );
    }

    #[test]
    fn each_picture_is_there_light_and_dark() {
        let directory = std::env::temp_dir().join(format!("pictures-{}", std::process::id()));
        write(&example(), &directory).unwrap();
        for chart in ["cpu", "added", "effects"] {
            for theme in ["light", "dark"] {
                let file = directory.join(format!("{chart}-{theme}.svg"));
                assert!(is_well_formed(&std::fs::read_to_string(file).unwrap()));
            }
        }
        std::fs::remove_dir_all(directory).unwrap();
    }

    /// The pictures of README and of bench/README.md are of the run that lies beside the bench.
    #[test]
    fn pictures_of_the_documents_are_of_a_run_that_is_kept() {
        let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(bench.join("measured/read.json")).unwrap();
        let run: Run = serde_json::from_str(&text).unwrap();
        let kept = bench.join("../../docs/pictures");
        let mut compared = 0;
        for chart in all(&run) {
            for theme in [Theme::Light, Theme::Dark] {
                let name = format!("{}-{}.svg", chart.file, theme.name());
                let Ok(picture) = fs::read_to_string(kept.join(&name)) else {
                    continue;
                };
                compared += 1;
                assert_eq!(
                    picture,
                    draw(&chart, theme),
                    "docs/pictures/{name} is old: bench/load/run --from bench/load/measured/read.json --svg docs/pictures"
                );
            }
        }
        assert_eq!(compared, 4, "two pictures, each light and dark");
    }
}
