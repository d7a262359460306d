//! Tables for people. On a terminal a table is as wide as its lines: ids are short, times are told
//! from now, the least important columns are left out and long texts are cut, in this order. What
//! reads a pipe gets all columns and whole values.

use super::terminal::{Terminal, Tone, ids};
use crate::mcp::pretty::plain;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Rows by which a table is laid out; those after them are cut to fit.
const MAX_ROWS_MEASURED: usize = 1000;
/// Blanks between two columns.
const GAP: usize = 2;
/// Columns that a text keeps when it is cut, unless its column says another number.
const MIN_TEXT_COLUMNS: usize = 12;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnKind {
    Text,
    Number,
    Time,
    Id,
}

/// How a cell is to be taken, by its text.
type CellTone = fn(&str) -> Option<Tone>;

/// One column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    head: &'static str,
    kind: ColumnKind,
    /// Which goes first where not all have room: the highest; those of 0 stay.
    rank: u8,
    /// How narrow it may become.
    least: usize,
    tone: Option<CellTone>,
}

impl Column {
    const fn of(head: &'static str, kind: ColumnKind) -> Self {
        Self {
            head,
            kind,
            rank: 0,
            least: MIN_TEXT_COLUMNS,
            tone: None,
        }
    }

    /// Text.
    pub(super) const fn text(head: &'static str) -> Self {
        Self::of(head, ColumnKind::Text)
    }

    /// Numbers, one under the other.
    pub(super) const fn number(head: &'static str) -> Self {
        Self::of(head, ColumnKind::Number)
    }

    /// Times, as RFC 3339 has them.
    pub(super) const fn time(head: &'static str) -> Self {
        Self::of(head, ColumnKind::Time)
    }

    /// Ids: of actions, or digests.
    pub(super) const fn id(head: &'static str) -> Self {
        Self::of(head, ColumnKind::Id)
    }

    /// The same, left out before those of lower rank where there is no room.
    pub(super) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// The same text, not cut to fewer than that many columns.
    pub(super) const fn least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// The same in colours.
    pub(super) const fn tone(self, tone: CellTone) -> Self {
        Self {
            tone: Some(tone),
            ..self
        }
    }
}

/// The columns of a table, from left to right.
pub(super) struct Table<const N: usize>(pub(super) [Column; N]);

/// Cells as they came.
type Row<const N: usize> = [String; N];

impl<const N: usize> Table<N> {
    /// The head and a line for each row.
    pub(super) fn lines(&'static self, terminal: Terminal, rows: Vec<[String; N]>) -> String {
        let mut writing = self.on(terminal);
        let mut out = String::new();
        for row in rows {
            out += &writing.add(row);
        }
        out + &writing.end()
    }

    /// A table whose rows come one after the other.
    pub(super) fn on(&'static self, terminal: Terminal) -> TableWriter<N> {
        TableWriter {
            table: self,
            terminal,
            waiting: Vec::new(),
            layout: None,
        }
    }
}

/// A table that is written while its rows come.
pub(super) struct TableWriter<const N: usize> {
    table: &'static Table<N>,
    terminal: Terminal,
    waiting: Vec<Row<N>>,
    layout: Option<Layout<N>>,
}

/// What the columns of a table have room for.
struct Layout<const N: usize> {
    /// None: left out.
    widths: [Option<usize>; N],
    /// Digits of a short id.
    digits: usize,
    /// Whether what is too long is cut.
    is_cut: bool,
}

impl<const N: usize> TableWriter<N> {
    /// Takes a row, as it was recorded: what acts in it is written out here. Gives the lines that can be
    /// written already.
    pub(super) fn add(&mut self, row: [String; N]) -> String {
        let row = row.map(|cell| plain(&cell));
        if let Some(layout) = &self.layout {
            return layout.line(self.table, self.terminal, &row);
        }
        self.waiting.push(row);
        if self.waiting.len() < MAX_ROWS_MEASURED {
            return String::new();
        }
        self.lay()
    }

    /// The lines that are left; the head at least.
    pub(super) fn end(mut self) -> String {
        if self.layout.is_some() {
            return String::new();
        }
        self.lay()
    }

    fn lay(&mut self) -> String {
        let layout = Layout::of(self.table, self.terminal, &self.waiting);
        let mut out = layout.head(self.table, self.terminal);
        for row in self.waiting.drain(..) {
            out += &layout.line(self.table, self.terminal, &row);
        }
        self.layout = Some(layout);
        out
    }
}

impl<const N: usize> Layout<N> {
    fn of(table: &Table<N>, terminal: Terminal, rows: &[Row<N>]) -> Self {
        let ids = table.0.iter().enumerate();
        let ids = ids.filter(|(_, column)| column.kind == ColumnKind::Id);
        let digits = ids.map(|(at, _)| ids::digits(rows.iter().map(|row| row[at].as_str())));
        let mut layout = Self {
            widths: [None; N],
            digits: digits.max().unwrap_or_default(),
            is_cut: terminal.columns.is_some(),
        };
        let mut widths = table.0.map(|column| column.head.width());
        let mut filled = [false; N];
        for row in rows {
            for (at, cell) in row.iter().enumerate() {
                let width = layout.shown(table.0[at], terminal, cell).width();
                widths[at] = widths[at].max(width);
                filled[at] |= width > 0;
            }
        }
        layout.widths = widths.map(Some);
        if let Some(columns) = terminal.columns {
            layout.fit(table, filled, columns);
        }
        layout
    }

    /// Leaves columns out, then cuts texts, until a line has room.
    fn fit(&mut self, table: &Table<N>, filled: [bool; N], columns: usize) {
        let natural = self.widths.map(Option::unwrap_or_default);
        let least: [usize; N] = std::array::from_fn(|at| {
            let column = table.0[at];
            match column.kind {
                ColumnKind::Text => natural[at].min(column.least.max(column.head.width())),
                ColumnKind::Number | ColumnKind::Time | ColumnKind::Id => natural[at],
            }
        });
        // The last of those that may go, empty ones first.
        let next = |widths: &[Option<usize>; N]| {
            let shown = (0..N).filter(|at| widths[*at].is_some() && table.0[*at].rank > 0);
            shown.max_by_key(|at| (!filled[*at], table.0[*at].rank))
        };
        let mut widths = least.map(Some);
        while total(&widths) > columns
            && let Some(gone) = next(&widths)
        {
            widths[gone] = None;
        }
        // What is left over goes to the texts that need it, narrowest first.
        let mut spare = columns.saturating_sub(total(&widths));
        while spare > 0 {
            let wanting = widths
                .iter_mut()
                .zip(natural)
                .filter_map(|(width, natural)| width.as_mut().filter(|width| **width < natural));
            let Some(width) = wanting.min_by_key(|width| **width) else {
                break;
            };
            *width += 1;
            spare -= 1;
        }
        self.widths = widths;
    }

    /// A cell as it is shown.
    fn shown(&self, column: Column, terminal: Terminal, cell: &str) -> String {
        match column.kind {
            ColumnKind::Time => terminal.time(cell),
            ColumnKind::Id if terminal.columns.is_some() => ids::short(cell, self.digits),
            ColumnKind::Id | ColumnKind::Text | ColumnKind::Number => cell.to_owned(),
        }
    }

    fn head(&self, table: &Table<N>, terminal: Terminal) -> String {
        self.laid(table, |at| {
            let head = table.0[at].head;
            (head.to_owned(), terminal.paint(Tone::Head, head))
        })
    }

    fn line(&self, table: &Table<N>, terminal: Terminal, row: &Row<N>) -> String {
        self.laid(table, |at| {
            let column = table.0[at];
            let mut shown = self.shown(column, terminal, &row[at]);
            if self.is_cut
                && let Some(width) = self.widths[at]
            {
                shown = cut(&shown, width);
            }
            let tone = column.tone.and_then(|tone| tone(&row[at]));
            let painted = tone.map(|tone| terminal.paint(tone, &shown));
            let painted = painted.unwrap_or_else(|| shown.clone());
            (shown, painted)
        })
    }

    /// A line of cells: each as it takes room, and as it is written.
    fn laid(&self, table: &Table<N>, cell: impl Fn(usize) -> (String, String)) -> String {
        let mut line = String::new();
        let mut room = 0;
        for (at, width) in self.widths.iter().enumerate() {
            let Some(width) = width else { continue };
            let (shown, painted) = cell(at);
            let blanks = width.saturating_sub(shown.width());
            let (before, after) = match table.0[at].kind {
                ColumnKind::Number => (blanks, 0),
                ColumnKind::Text | ColumnKind::Time | ColumnKind::Id => (0, blanks),
            };
            room += before;
            if !shown.is_empty() {
                line += &" ".repeat(room);
                line += &painted;
                room = 0;
            }
            room += after + GAP;
        }
        line + "\n"
    }
}

fn total<const N: usize>(widths: &[Option<usize>; N]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

/// `text` in that many columns of a terminal, one at least.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let (mut out, mut room) = (String::new(), columns.saturating_sub(1));
    for letter in text.chars() {
        let width = letter.width().unwrap_or_default();
        if width > room {
            break;
        }
        room -= width;
        out.push(letter);
    }
    out + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    const CALLS: Table<5> = Table([
        Column::time("TIME"),
        Column::id("ID"),
        Column::text("TOOL").least(8).tone(|_| Some(Tone::Warn)),
        Column::text("WHY").rank(2),
        Column::number("MS").rank(1),
    ]);
    static TABLE: Table<5> = CALLS;

    fn rows() -> Vec<[String; 5]> {
        let row = |second: u8, id: &str, tool: &str, why: &str| {
            let time = format!("2026-11-28T11:59:{second:02}.123Z");
            let id = format!("019abc00-0000-7001-8000-0000{id}");
            [time, id, tool.to_owned(), why.to_owned(), "1.5".to_owned()]
        };
        vec![
            row(1, "aaaa1111", "billing__send", "it is due"),
            row(30, "bbbb2222", "ablage__löschen\u{202e}", ""),
            row(
                59,
                "cccc3333",
                "検索__全文書類検索",
                "a reason that is long",
            ),
        ]
    }

    fn on(columns: Option<usize>) -> Terminal {
        Terminal::of(columns, "2026-11-28T12:00:00Z")
    }

    /// What goes first, what is cut, and that no line is ever wider than the terminal.
    #[test]
    fn a_table_is_as_wide_as_the_terminal() {
        let mut text = String::new();
        for columns in [None, Some(80), Some(60), Some(50), Some(40)] {
            let shown = TABLE.lines(on(columns), rows());
            for line in shown.lines() {
                assert!(
                    columns.is_none_or(|columns| line.width() <= columns),
                    "{line}"
                );
            }
            let name = columns.map_or("a pipe".to_owned(), |columns| columns.to_string());
            writeln!(text, "{name}:\n{shown}").unwrap();
        }
        let colored = TABLE.lines(on(Some(60)).colored(), rows());
        write!(text, "colours:\n{colored}").unwrap();
        insta::assert_snapshot!("widths", text);
    }

    /// Rows that come after a table was laid out keep to it.
    #[test]
    fn a_long_table_is_written_while_its_rows_come() {
        let mut writing = TABLE.on(on(Some(40)));
        let mut out = String::new();
        let mut written = 0;
        for at in 0..MAX_ROWS_MEASURED + 5 {
            out += &writing.add(rows()[usize::from(at >= MAX_ROWS_MEASURED) * 2].clone());
            if at + 1 == MAX_ROWS_MEASURED {
                written = out.lines().count();
            }
        }
        assert_eq!(written, MAX_ROWS_MEASURED + 1, "the head, and all so far");
        out += &writing.end();
        assert_eq!(out.lines().count(), MAX_ROWS_MEASURED + 6);
        assert!(out.lines().all(|line| line.width() <= 40));
    }

    #[test]
    fn a_table_without_rows_has_its_head() {
        assert_eq!(
            TABLE.lines(on(None), Vec::new()),
            "TIME  ID  TOOL  WHY  MS\n"
        );
    }
}
