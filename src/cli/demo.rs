//! `toolgate demo`: five stories, with real calls through a real toolgate that is started for them, killed and started
//! again. Each is compared with what it promises; the exit code says whether all of them came out so.

mod agent;
mod browser;
mod deciding;
mod exchange;
mod gate_process;
mod narrator;
mod place;
mod recorded;
mod stories;
mod story;
mod tool_server;

use super::ledger::text::json;
use super::printed::print;
use super::runtime::{runtime, told_to_end};
use crate::model::clock::Clock;
use crate::store::journal::{VerifyOptions, VerifyReport, check};
use anyhow::{Context as _, anyhow, bail};
use deciding::PersonPart;
use futures_util::FutureExt as _;
use narrator::{Narrator, PlayedStory};
use place::DemoPlace;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use story::DemoStory;

/// What to play.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Decide on the approvals page: it is opened where there is a browser, its address is printed, and the demo waits
    #[arg(long)]
    page: bool,
    /// Decide at the terminal
    #[arg(long, conflicts_with_all = ["page", "json"])]
    interactive: bool,
    /// Keep the configuration, the policy and the ledger in a new directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// One JSON object at the end, in place of lines
    #[arg(long)]
    json: bool,
}

/// What came of all of it.
struct PlayedDemo {
    stories: Vec<PlayedStory>,
    ledger: VerifyReport,
    kept: Option<PathBuf>,
    took: Duration,
}

/// Plays; 0 if everything came out as promised, else 1.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let narrator = Narrator::new(args.json);
    let played = runtime()?.block_on(Box::pin(until_told(args, narrator)))?;
    if args.json {
        print(&(json(&report(&played).to_string()) + "\n"))?;
    } else {
        narrator.close(&last_words(&played))?;
    }
    if let Some(failed) = failed(&played.stories) {
        bail!(failed);
    }
    Ok(0)
}

/// Plays until the end or a signal, and leaves nothing behind.
async fn until_told(args: &Args, narrator: Narrator) -> anyhow::Result<PlayedDemo> {
    let mut told = Box::pin(told_to_end());
    // The signals are caught before there is anything that could be left behind.
    if (&mut told).now_or_never().is_some() {
        bail!("interrupted");
    }
    let began = Clock.steady();
    let mut place = Box::pin(DemoPlace::make(args.keep.as_deref())).await?;
    let played = tokio::select! {
        biased;
        () = &mut told => Err(anyhow!("interrupted: the demo has not come to its end")),
        played = Box::pin(play(args, &mut place, narrator)) => played,
    };
    let kept = place.kept_data();
    let cleared = Box::pin(place.clear()).await;
    let (stories, ledger) = played?;
    cleared?;
    Ok(PlayedDemo {
        stories,
        ledger,
        kept,
        took: Clock.steady().saturating_sub(began),
    })
}

async fn play(
    args: &Args,
    place: &mut DemoPlace,
    narrator: Narrator,
) -> anyhow::Result<(Vec<PlayedStory>, VerifyReport)> {
    narrator.open()?;
    place.start_gate().await?;
    let part = match (args.page, args.interactive) {
        (true, _) => PersonPart::Page,
        (false, true) => PersonPart::Terminal,
        (false, false) => PersonPart::Demo,
    };
    let mut played = Vec::new();
    for story in DemoStory::ALL {
        let one = Box::pin(stories::play(story, place, narrator, part)).await;
        played.push(one.with_context(|| {
            let (number, title) = (story.number(), story.title());
            format!("story {number} ({title}) cannot be played to its end")
        })?);
    }
    narrator.sum_up(&played)?;
    place.stop_gate().await?;
    let ledger = check(&place.data_directory(), &VerifyOptions::default())?;
    if let Some(problem) = &ledger.problem {
        bail!("the demo's ledger is not as it was written: {problem}");
    }
    Ok((played, ledger))
}

/// Why the demo has failed, if it has: the stories that did not come out as promised.
fn failed(stories: &[PlayedStory]) -> Option<String> {
    let failed = stories.iter().filter_map(|played| {
        let (number, why) = (played.story.number(), played.broken.as_ref()?);
        Some(format!("story {number} ({}): {why}", played.story.title()))
    });
    let failed: Vec<String> = failed.collect();
    (!failed.is_empty()).then(|| format!("not as promised: {}", failed.join("; ")))
}

fn last_words(played: &PlayedDemo) -> String {
    let (records, seconds) = (played.ledger.records, played.took.as_secs_f64());
    let ok = played
        .stories
        .iter()
        .filter(|played| played.broken.is_none());
    let next = match &played.kept {
        Some(data) => format!("kept: toolgate ledger list --data {}", data.display()),
        None => "next: toolgate adopt, which puts it before the servers of your agent".to_owned(),
    };
    format!(
        "{} of {} as promised, in {seconds:.1} s; the ledger's chain of {records} records holds\n{next}",
        ok.count(),
        played.stories.len()
    )
}

/// All of it for a program.
fn report(played: &PlayedDemo) -> Value {
    let stories = played.stories.iter().map(|played| {
        let mut told = json!(played.seen);
        told["story"] = json!(played.story.number());
        told["name"] = json!(played.story);
        told["title"] = json!(played.story.title());
        told["tool"] = json!(played.story.tool());
        told["kept_promise"] = json!(played.broken.is_none());
        told["why"] = json!(played.broken);
        told
    });
    let ledger = &played.ledger;
    let all_kept = failed(&played.stories).is_none();
    let data = played.kept.as_ref().map(|data| data.display().to_string());
    json!({
        "kept_promises": all_kept, "seconds": played.took.as_secs_f64(), "stories": stories.collect::<Vec<_>>(),
        "ledger": { "records": ledger.records, "head": ledger.head.to_string(), "verified": true },
        "data": data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use story::StoryEvidence;

    fn played(story: DemoStory, broken: Option<&str>) -> PlayedStory {
        PlayedStory {
            story,
            seen: StoryEvidence::default(),
            broken: broken.map(str::to_owned),
        }
    }

    /// One story is enough to fail, and each is named.
    #[test]
    fn a_broken_story_is_named() {
        let good = DemoStory::ALL.map(|story| played(story, None));
        assert_eq!(failed(&good), None);
        let some = [
            played(DemoStory::LostAnswer, None),
            played(DemoStory::Killed, Some("refund ran 2 times")),
            played(DemoStory::Deletion, Some("it ran early")),
        ];
        let told = failed(&some).unwrap();
        assert!(told.contains("story 2 (kill -9 between"), "{told}");
        assert!(told.contains("refund ran 2 times; story 5 ("), "{told}");
        assert!(!told.contains("story 1"), "{told}");
    }
}
