//! Tables for people. Columns have a fixed width, so that a line can be shown before the others
//! are known; what is wider moves the rest of its line.

use std::fmt::Write as _;

/// One column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    head: &'static str,
    width: usize,
    is_number: bool,
    /// Blanks after it.
    gap: usize,
}

impl Column {
    /// Text.
    pub(super) const fn text(head: &'static str, width: usize) -> Self {
        Self {
            head,
            width,
            is_number: false,
            gap: 2,
        }
    }

    /// Numbers, one under the other.
    pub(super) const fn number(head: &'static str, width: usize) -> Self {
        Self {
            is_number: true,
            ..Self::text(head, width)
        }
    }

    /// The same with one blank after it, not two.
    pub(super) const fn close(self) -> Self {
        Self { gap: 1, ..self }
    }
}

/// The columns of a table, from left to right.
pub(super) struct Table<const N: usize>(pub(super) [Column; N]);

impl<const N: usize> Table<N> {
    /// The line above all others.
    pub(super) fn head(&self) -> String {
        self.row(&self.0.map(|column| column.head))
    }

    /// One line.
    pub(super) fn row<T: AsRef<str>>(&self, cells: &[T; N]) -> String {
        let mut line = String::new();
        for (index, (column, cell)) in self.0.iter().zip(cells).enumerate() {
            let (cell, width) = (cell.as_ref(), column.width);
            let _ = if column.is_number {
                write!(line, "{cell:>width$}")
            } else {
                write!(line, "{cell:<width$}")
            };
            if index + 1 < N {
                line += &" ".repeat(column.gap);
            }
        }
        line
    }
}
