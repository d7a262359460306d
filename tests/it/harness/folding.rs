//! Every message that a tool server or an agent of the harness gets from toolgate is read a second
//! time, by a reader that folds case. Where that one reads something else, the scenario ends at
//! once, in whatever task it happened.

#[path = "../../../examples/servers/src/oracle/folding.rs"]
mod reader;

pub use reader::{disagreement, read};

use std::io::Write as _;
use std::path::Path;

/// Reads a message, and ends the process over one that can be read in two ways: a panic would end a
/// task only.
pub fn reads(text: &str) {
    if let Some(words) = disagreement(text) {
        end(&words);
    }
}

/// Reads a body or a part of an event stream, line by line.
pub fn reads_events(text: &str) {
    text.lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .for_each(|data| reads(data.trim_start()));
}

/// Ends the process if a tool server that ran as a child noted what it read otherwise.
pub fn judge_children(directory: &Path) {
    let noted = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let noted = noted.filter(|file| {
        file.file_name()
            .to_string_lossy()
            .ends_with(".disagreements")
    });
    let words: String = noted
        .map(|file| std::fs::read_to_string(file.path()).unwrap_or_default())
        .collect();
    if !words.is_empty() {
        end(&words);
    }
}

fn end(words: &str) -> ! {
    // Past what captures the output of scenarios, which is lost with the process.
    let _ = std::io::stderr()
        .write_all(format!("toolgate sent what can be read in two ways: {words}\n").as_bytes());
    std::process::abort()
}
