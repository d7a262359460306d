//! Colours of the status screen: what each line is about, and the words that say how it stands. Nothing is
//! said by colour alone, and no letter is another.

use super::screen::INDENT;
use crate::cli::terminal::{Terminal, Tone};

/// Words that say how something stands, and below which heading.
const STATES: [(&str, &str, Tone); 9] = [
    ("toolgate", "NOT READY", Tone::Bad),
    ("toolgate", "does not run", Tone::Warn),
    ("toolgate", "ready", Tone::Good),
    ("servers", ": up", Tone::Good),
    ("servers", ": down", Tone::Bad),
    ("servers", ": starting", Tone::Warn),
    ("ledger", "NOT WRITABLE", Tone::Bad),
    ("disk", "nearly full", Tone::Bad),
    ("log", "ERROR", Tone::Bad),
];
/// Headings below which all is to be looked at.
const TO_LOOK_AT: [&str; 1] = ["attention"];
/// Headings below which anything but nothing is.
const COUNTS: [&str; 2] = ["held", "unknown"];

/// The screen with the colours of `terminal`, where it shows any.
pub(super) fn painted(screen: &str, terminal: &Terminal) -> String {
    let mut about = "";
    let lines = screen.split_inclusive('\n').map(|line| {
        let (Some(start), Some(rest)) = (line.get(..INDENT), line.get(INDENT..)) else {
            return line.to_owned();
        };
        let heading = start.trim_end();
        if !heading.is_empty() {
            about = heading;
        }
        let (rest, end) = rest
            .strip_suffix('\n')
            .map_or((rest, ""), |rest| (rest, "\n"));
        let blanks = &start[heading.len()..];
        let heading = terminal.paint(Tone::Head, heading);
        format!("{heading}{blanks}{}{end}", value(about, rest, terminal))
    });
    lines.collect()
}

/// What a line below the heading `about` says.
fn value(about: &str, said: &str, terminal: &Terminal) -> String {
    if TO_LOOK_AT.contains(&about) {
        return terminal.paint(Tone::Warn, said);
    }
    if COUNTS.contains(&about) && said != "0" {
        let (count, rest) = said.split_at(said.find(';').unwrap_or(said.len()));
        return terminal.paint(Tone::Warn, count) + rest;
    }
    let state = STATES
        .iter()
        .filter(|(heading, ..)| *heading == about)
        .find_map(|(_, word, tone)| Some((said.find(word)?, *word, *tone)));
    let Some((at, word, tone)) = state else {
        return said.to_owned();
    };
    // The colon before a state is not of it.
    let (before, rest) = said.split_at(at + word.len() - word.trim_start_matches(": ").len());
    let word = word.trim_start_matches(": ");
    let (_, after) = rest.split_at(word.len());
    format!("{before}{}{after}", terminal.paint(tone, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is painted is only what says how something stands.
    #[test]
    fn a_screen_has_colours_where_they_are_shown() {
        let terminal = Terminal::of(None, "2026-11-28T00:00:00Z");
        let screen = "toolgate  0.9.0 NOT READY, process 7\nattention tool server fs does not answer\n\
                      servers   bank: up, modern\n          fs: down\nheld      0\nunknown   2; see the list\n";
        assert_eq!(painted(screen, &terminal), screen);
        let (bold, red, yellow, green, end) = (
            "\u{1b}[1m",
            "\u{1b}[1m\u{1b}[31m",
            "\u{1b}[33m",
            "\u{1b}[32m",
            "\u{1b}[0m",
        );
        let expected = [
            format!("{bold}toolgate{end}  0.9.0 {red}NOT READY{end}, process 7\n"),
            format!("{bold}attention{end} {yellow}tool server fs does not answer{end}\n"),
            format!("{bold}servers{end}   bank: {green}up{end}, modern\n"),
            format!("          fs: {red}down{end}\n"),
            format!("{bold}held{end}      0\n"),
            format!("{bold}unknown{end}   {yellow}2{end}; see the list\n"),
        ];
        assert_eq!(painted(screen, &terminal.colored()), expected.concat());
    }

    /// A line that is shorter than its heading, or of other letters, stays as it is.
    #[test]
    fn what_is_no_line_of_the_screen_stays() {
        let colored = Terminal::of(None, "2026-11-28T00:00:00Z").colored();
        for text in ["", "\n", "q leave\n", "äöüäöüäöüäöü"] {
            assert_eq!(
                painted(text, &colored)
                    .replace("\u{1b}[1m", "")
                    .replace("\u{1b}[0m", ""),
                text
            );
        }
    }
}
