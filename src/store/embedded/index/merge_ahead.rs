//! Rows that come out of sorted runs, read and put in order by a thread ahead of the one that has sled
//! take them.

use super::rows::IndexRow;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Portions of rows that wait to be taken; beside them there is the one that is gathered, and the one that was taken.
const PORTIONS_AHEAD: usize = 1;

/// A thread that merges.
pub(super) struct MergeAhead {
    portions: Receiver<io::Result<Vec<IndexRow>>>,
}

impl MergeAhead {
    /// Begins to take `rows`, `most` at a time.
    pub(super) fn begin(
        rows: impl Iterator<Item = io::Result<IndexRow>> + Send + 'static,
        most: usize,
    ) -> io::Result<Self> {
        let (sender, portions) = sync_channel(PORTIONS_AHEAD);
        std::thread::Builder::new()
            .name("index-merge".to_owned())
            .spawn(move || merge(rows, most, &sender))?;
        Ok(Self { portions })
    }

    /// The next of them; fewer than a portion when these were the last.
    pub(super) fn next_rows(&self) -> io::Result<Vec<IndexRow>> {
        let ended = || Err(io::Error::other("the thread that merges has ended"));
        self.portions.recv().unwrap_or_else(|_| ended())
    }
}

/// Goes on until the last row, an error, or until nobody takes them.
fn merge(
    mut rows: impl Iterator<Item = io::Result<IndexRow>>,
    most: usize,
    to: &SyncSender<io::Result<Vec<IndexRow>>>,
) {
    loop {
        let portion = rows.by_ref().take(most).collect::<io::Result<Vec<_>>>();
        let goes_on = portion.as_ref().is_ok_and(|portion| portion.len() == most);
        if to.send(portion).is_err() || !goes_on {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u8) -> IndexRow {
        (vec![n], None)
    }

    /// All of them come, in their order; the last portion is not a whole one.
    #[test]
    fn rows_come_in_portions() {
        for (count, portions) in [(0, vec![0]), (5, vec![3, 2]), (6, vec![3, 3, 0])] {
            let ahead = MergeAhead::begin((0..count).map(|n| Ok(row(n))), 3).unwrap();
            let mut came = Vec::new();
            for length in portions {
                let rows = ahead.next_rows().unwrap();
                assert_eq!(rows.len(), length, "of {count}");
                came.extend(rows);
            }
            let all: Vec<IndexRow> = (0..count).map(row).collect();
            assert_eq!(came, all);
            assert!(ahead.next_rows().is_err(), "there are no more");
        }
    }

    #[test]
    fn an_error_comes_in_its_place() {
        let rows = (0..9).map(|n| {
            if n == 4 {
                Err(io::Error::other("damaged"))
            } else {
                Ok(row(n))
            }
        });
        let ahead = MergeAhead::begin(rows, 3).unwrap();
        assert_eq!(ahead.next_rows().unwrap().len(), 3);
        assert_eq!(ahead.next_rows().unwrap_err().to_string(), "damaged");
    }
}
