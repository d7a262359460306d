//! Where text for people goes: how wide a line may be, and whether colours are shown. What reads a
//! pipe gets whole values and no colours, unless it is told otherwise.

pub(super) mod asking;
pub(super) mod followed;
pub(super) mod ids;
pub(super) mod progress;
mod times;
mod tint;

use crate::model::clock::Clock;
use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use std::io;
#[cfg(not(test))]
use std::io::IsTerminal as _;
use std::sync::OnceLock;

/// Columns of a terminal that does not say how many it has.
const DEFAULT_TERMINAL_COLUMNS: usize = 80;
/// Columns that a table takes however narrow the terminal is.
const MIN_TERMINAL_COLUMNS: usize = 40;

/// How the command line asked for text for people.
#[derive(Debug, Default, Clone, Copy, clap::Args)]
pub(super) struct TerminalArgs {
    /// Colours: where a terminal shows them (and neither `NO_COLOR` nor `TERM=dumb` says no), always, or
    /// never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = GLOBAL_HEADING
    )]
    color: ColorWish,
    /// Tables with all their columns and whole ids, however wide; as they are where no terminal reads
    #[arg(long, global = true, help_heading = GLOBAL_HEADING)]
    wide: bool,
}

/// Above the options that every verb takes.
pub(super) const GLOBAL_HEADING: &str = "Options of every verb";

/// When there are colours.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ColorWish {
    #[default]
    Auto,
    Always,
    Never,
}

/// What the command line said; nothing in tests, which say it of each terminal.
static WISHES: OnceLock<TerminalArgs> = OnceLock::new();

impl TerminalArgs {
    /// Makes this hold for all of the process; only the first time counts.
    pub(super) fn hold(self) {
        if WISHES.set(self).is_ok() {
            match self.color {
                ColorWish::Auto => anstream::ColorChoice::Auto,
                ColorWish::Always => anstream::ColorChoice::Always,
                ColorWish::Never => anstream::ColorChoice::Never,
            }
            .write_global();
        }
    }
}

/// Where text for people goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminal {
    /// Columns of a line; none where lines may be as long as they are, and values are whole.
    pub(super) columns: Option<usize>,
    has_color: bool,
    /// What times are told from.
    now: Timestamp,
}

/// What a word means to its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    Good,
    /// To be looked at.
    Warn,
    /// Wrong.
    Bad,
    /// What to do about it.
    Hint,
    /// The head of a table.
    Head,
    /// Less important than the rest.
    Faint,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Warn => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Hint => AnsiColor::Cyan.on_default(),
            Self::Head => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
        }
    }
}

#[cfg(test)]
thread_local! {
    /// What reads standard output in a test; otherwise a pipe, whatever the tests are read by.
    static READER: std::cell::Cell<Option<Terminal>> = const { std::cell::Cell::new(None) };
}

impl Terminal {
    /// What reads standard output.
    #[cfg(test)]
    pub(super) fn stdout() -> Self {
        READER.get().unwrap_or(Self {
            columns: None,
            has_color: false,
            now: Clock.wall(),
        })
    }

    /// What `screen` shows at 80 columns and at 160, at that time.
    #[cfg(test)]
    pub(super) fn at_widths(now: &str, screen: impl Fn() -> String) -> String {
        use std::fmt::Write as _;
        use unicode_width::UnicodeWidthStr;
        let mut text = String::new();
        for columns in [80, 160] {
            READER.set(Some(Self::of(Some(columns), now)));
            let shown = screen();
            READER.set(None);
            // Sentences go on in the next line of a terminal, rows of a table must not.
            let rows = shown.lines().filter(|line| line.contains("  "));
            let widest = rows.map(UnicodeWidthStr::width).max();
            assert!(widest <= Some(columns), "{widest:?}: {shown}");
            let _ = writeln!(text, "{columns}:\n{shown}");
        }
        text
    }

    /// What reads standard output.
    #[cfg(not(test))]
    pub(super) fn stdout() -> Self {
        let stdout = io::stdout();
        let columns = columns(stdout.is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(&stdout);
            size.map_or(0, |size| usize::from(size.ws_col))
        }));
        Self {
            columns,
            has_color: shows_color(&stdout),
            now: Clock.wall(),
        }
    }

    /// What reads standard error: lines there are never cut.
    pub(super) fn stderr() -> Self {
        Self {
            columns: None,
            has_color: shows_color(&io::stderr()),
            now: Clock.wall(),
        }
    }

    /// One of that many columns, without colours, at that time.
    #[cfg(test)]
    pub(super) fn of(columns: Option<usize>, now: &str) -> Self {
        Self {
            columns,
            has_color: false,
            now: now.parse().unwrap(),
        }
    }

    /// The same with colours.
    #[cfg(test)]
    pub(super) fn colored(self) -> Self {
        Self {
            has_color: true,
            ..self
        }
    }

    /// Columns of a line beside `taken` others, without end where lines may be as long as they are.
    pub(super) fn room_beside(&self, taken: usize) -> usize {
        let room = self.columns.map(|columns| columns.saturating_sub(taken));
        room.unwrap_or(usize::MAX)
    }

    /// `text` in the colours of `tone`, where colours are shown.
    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.has_color || text.is_empty() {
            return text.to_owned();
        }
        let style = tone.style();
        format!("{style}{text}{style:#}")
    }

    /// `text` of several lines with the words in colour that say how things stand, where colours are
    /// shown.
    pub(super) fn tinted(&self, text: &str) -> String {
        if self.has_color {
            tint::lines(text, self)
        } else {
            text.to_owned()
        }
    }

    /// A time as RFC 3339 has it, for people: how long ago on a narrow line, else to the second. What
    /// is no time stays as it is.
    pub(super) fn time(&self, text: &str) -> String {
        match text.parse::<Timestamp>() {
            Err(_) => text.to_owned(),
            Ok(time) if self.columns.is_some() => times::relative(time, self.now),
            Ok(time) => times::second(time),
        }
    }
}

/// Whether what is written to `stream` may have colours.
fn shows_color(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// Columns of a line, where the terminal says that it has `own`, if it is one. `COLUMNS` counts for a
/// pipe, too: `watch` says so what it shows.
#[cfg(not(test))]
fn columns(own: Option<usize>) -> Option<usize> {
    if WISHES.get().is_some_and(|wishes| wishes.wide) {
        return None;
    }
    let said = std::env::var("COLUMNS").ok();
    fitted(said.as_deref(), own)
}

fn fitted(said: Option<&str>, own: Option<usize>) -> Option<usize> {
    let said = said.and_then(|said| said.parse().ok());
    let said = said.filter(|said: &usize| *said > 0);
    let own = own.map(|own| match own {
        0 => DEFAULT_TERMINAL_COLUMNS,
        own => own,
    });
    Some(said.or(own)?.max(MIN_TERMINAL_COLUMNS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe gets everything, a terminal what it has room for, and what is said counts first.
    #[test]
    fn a_line_is_as_wide_as_what_reads_it() {
        for (said, own, expected) in [
            (None, None, None),
            (None, Some(0), Some(80)),
            (None, Some(160), Some(160)),
            (None, Some(7), Some(40)),
            (Some("100"), Some(160), Some(100)),
            (Some("100"), None, Some(100)),
            (Some("wide"), None, None),
            (Some("0"), Some(90), Some(90)),
        ] {
            assert_eq!(fitted(said, own), expected, "{said:?} {own:?}");
        }
    }

    #[test]
    fn only_what_shows_colours_is_given_them() {
        let plain = Terminal::of(Some(80), "2026-11-28T00:00:00Z");
        assert_eq!(plain.paint(Tone::Bad, "refused"), "refused");
        let colored = plain.colored().paint(Tone::Warn, "refused");
        assert_eq!(colored, "\u{1b}[33mrefused\u{1b}[0m");
        assert_eq!(plain.colored().paint(Tone::Bad, ""), "");
    }
}
