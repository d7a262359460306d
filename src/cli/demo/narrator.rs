//! What is printed while the stories are played: a heading, what the agent and the ledger say, and the verdict. No
//! line is wider than 80 columns, on whatever reads it.

use super::story::{DemoStory, StoryEvidence};
use crate::cli::printed::print;
use crate::cli::table::{Column, Table};
use crate::cli::terminal::{Terminal, Tone};
use crate::mcp::pretty::plain;
use std::fmt::Write as _;

/// Columns of a line.
const LINE_COLUMNS: usize = 80;
/// Columns before what is told: a margin, and who tells it.
const LABEL_COLUMNS: usize = 10;
/// Columns of the margin.
const MARGIN: usize = 2;

/// What a verdict begins with that is good.
const GOOD: &str = "ok";
/// And what it is else.
const FAILED: &str = "FAILED";
/// What the numbers of the table are.
const RUNS_NOTE: &str =
    "WITHOUT, WITH: how often the tool ran, called directly and through toolgate";

/// How often each tool ran.
static RUNS: Table<4> = Table([
    Column::text("STORY").least(48),
    Column::number("WITHOUT"),
    Column::number("WITH"),
    Column::text("").least(18).tone(verdict_tone),
]);

fn verdict_tone(verdict: &str) -> Option<Tone> {
    if verdict.starts_with(GOOD) {
        return Some(Tone::Good);
    }
    (verdict == FAILED).then_some(Tone::Bad)
}

/// A story that was played.
pub(super) struct PlayedStory {
    pub(super) story: DemoStory,
    pub(super) seen: StoryEvidence,
    /// What is not as promised.
    pub(super) broken: Option<String>,
}

/// Prints, unless the demo is to print one object of JSON at its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Narrator {
    terminal: Terminal,
    is_silent: bool,
}

impl Narrator {
    /// One for standard output.
    pub(super) fn new(is_silent: bool) -> Self {
        Self {
            terminal: Terminal::stdout(),
            is_silent,
        }
    }

    /// Whether nothing is printed until the end.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// Begins.
    pub(super) fn open(&self) -> anyhow::Result<()> {
        self.say("toolgate demo: five stories, with real calls through a real toolgate\n")
    }

    /// A story begins.
    pub(super) fn begin(&self, story: DemoStory) -> anyhow::Result<()> {
        let title = format!("{} {}", story.number(), story.title());
        self.say(&format!("\n{}\n", self.terminal.paint(Tone::Head, &title)))
    }

    /// What `who` does or says, such as `agent`.
    pub(super) fn tell(&self, who: &str, told: &str) -> anyhow::Result<()> {
        self.say(&self.labelled(who, Tone::Hint, told))
    }

    /// What the ledger says, and the verdict.
    pub(super) fn end(&self, played: &PlayedStory) -> anyhow::Result<()> {
        let mut text = self.labelled("ledger", Tone::Hint, &summed_up(&played.seen.ledger));
        text += &match &played.broken {
            None => {
                let shown = played.story.shown(played.seen.person);
                self.labelled(GOOD, Tone::Good, shown)
            }
            Some(why) => self.labelled(FAILED, Tone::Bad, why),
        };
        self.say(&text)
    }

    /// All stories in a table.
    pub(super) fn sum_up(&self, played: &[PlayedStory]) -> anyhow::Result<()> {
        let table = runs(self.terminal, played);
        self.say(&format!("\n{table}{RUNS_NOTE}\n"))
    }

    /// A last word.
    pub(super) fn close(&self, told: &str) -> anyhow::Result<()> {
        self.say(&format!("\n{told}\n"))
    }

    /// Prints text as it is.
    pub(super) fn say(&self, text: &str) -> anyhow::Result<()> {
        if self.is_silent {
            return Ok(());
        }
        print(text)
    }

    fn labelled(&self, label: &str, tone: Tone, told: &str) -> String {
        let mut out = String::new();
        let mut label = Some(label);
        for line in told.lines() {
            for line in wrapped(&plain(line), LINE_COLUMNS - LABEL_COLUMNS) {
                let label = label.take().unwrap_or_default();
                let blanks = " ".repeat(LABEL_COLUMNS - MARGIN - label.len());
                let label = self.terminal.paint(tone, label);
                let _ = writeln!(out, "{:MARGIN$}{label}{blanks}{line}", "");
            }
        }
        out
    }
}

/// The table of all stories.
fn runs(terminal: Terminal, played: &[PlayedStory]) -> String {
    let rows = played.iter().map(|played| {
        let verdict = match played.broken {
            None => format!("{GOOD}, {}", played.story.noted(played.seen.person)),
            Some(_) => FAILED.to_owned(),
        };
        [
            format!("{} {}", played.story.number(), played.story.title()),
            played.seen.without.to_string(),
            played.seen.with.to_string(),
            verdict,
        ]
    });
    RUNS.lines(terminal, rows.collect())
}

/// Words with how often each follows itself: `answered ×3, refused`.
pub(super) fn summed_up(words: &[String]) -> String {
    if words.is_empty() {
        return "nothing".to_owned();
    }
    let groups = words.chunk_by(|one, other| one == other);
    let groups = groups.map(|group| match group {
        [one] => one.clone(),
        several => format!("{} ×{}", several[0], several.len()),
    });
    groups.collect::<Vec<_>>().join(", ")
}

/// `text` in lines of at most `columns`, broken at blanks; a longer word has a line of its own.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_follow_themselves_are_counted() {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|&word| word.to_owned())
                .collect::<Vec<_>>()
        };
        for (given, expected) in [
            (&[][..], "nothing"),
            (&["a"], "a"),
            (&["a", "a", "b"], "a ×2, b"),
            (&["a", "b", "a"], "a, b, a"),
        ] {
            assert_eq!(summed_up(&words(given)), expected);
        }
    }

    #[test]
    fn lines_are_broken_at_blanks() {
        for (text, expected) in [
            ("", &[""][..]),
            ("one two three", &["one two", "three"]),
            ("muchtoolong a b", &["muchtoolong", "a b"]),
            ("12345678", &["12345678"]),
        ] {
            assert_eq!(wrapped(text, 8), expected, "{text}");
        }
    }

    /// What comes from outside does not act on the terminal, and no line is wider than it should be.
    #[test]
    fn what_is_told_stands_beside_who_tells_it() {
        let narrator = Narrator {
            terminal: Terminal::of(Some(80), "2026-11-28T00:00:00Z"),
            is_silent: false,
        };
        let told = format!("{}\nred\u{1b}[31m", "word ".repeat(20).trim_end());
        let text = narrator.labelled("agent", Tone::Hint, &told);
        assert!(text.starts_with("  agent   word word"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(lines[1].starts_with("          word"), "{text}");
        let colored = Narrator {
            terminal: narrator.terminal.colored(),
            ..narrator
        };
        let text = colored.labelled("FAILED", Tone::Bad, "why");
        assert_eq!(text, "  \u{1b}[1m\u{1b}[31mFAILED\u{1b}[0m  why\n");
    }

    #[test]
    fn a_story_that_failed_is_seen_in_the_table() {
        let played = |story, broken: Option<&str>| PlayedStory {
            story,
            seen: StoryEvidence {
                without: 2,
                with: 1,
                ..StoryEvidence::default()
            },
            broken: broken.map(str::to_owned),
        };
        let text = runs(
            Terminal::of(Some(80), "2026-11-28T00:00:00Z"),
            &[
                played(DemoStory::LostAnswer, None),
                played(DemoStory::Killed, Some("why")),
            ],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("ok, same answer"), "{text}");
        assert!(lines[2].trim_end().ends_with(" FAILED"), "{text}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}
