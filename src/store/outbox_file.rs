//! The file in which what is still to be told is kept over restarts. It only says how far the
//! journal has been told of, and to which receiver what of that has not gone yet: one that is lost, or older than
//! it should be, makes that something is told once more, under the same id.

use super::journal::replace;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Bytes of it that are read.
const MAX_OUTBOX_FILE_BYTES: u64 = 16 << 20;

fn file(data: &Path) -> PathBuf {
    data.join("outbox")
}

/// What was kept in the data directory `data`; none where nothing was. Blocks.
pub(crate) fn read(data: &Path) -> io::Result<Option<String>> {
    let opened = match File::open(file(data)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = String::new();
    opened
        .take(MAX_OUTBOX_FILE_BYTES)
        .read_to_string(&mut text)?;
    Ok(Some(text))
}

/// Keeps `text` in its place, durably. Blocks.
pub(crate) fn write(data: &Path, text: &str) -> io::Result<()> {
    replace(data, &file(data), text)
}
