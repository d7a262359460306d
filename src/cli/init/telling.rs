//! What `init` says: lines for people as it goes, or one JSON object at the end.

use crate::cli::configured;
use crate::cli::ledger::text::json;
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where it is said.
pub(super) struct InitTelling<'o> {
    out: &'o mut dyn Write,
    /// In place of lines.
    pub(super) is_json: bool,
    said: InitSaid,
}

/// Everything that was said, as programs read it.
#[derive(Debug, Default, Serialize)]
struct InitSaid {
    /// The servers that were asked, in the order of their answers.
    servers: Vec<ServerSaid>,
    files: Vec<FileSaid>,
    /// Where what files were before is kept; none where nothing was there.
    backups: Option<PathBuf>,
    /// Variables that toolgate needs when it starts.
    set: Vec<VariableSaid>,
    notes: Vec<String>,
    problems: Vec<String>,
    /// What to type next.
    next: Vec<String>,
    /// Why it could not be done.
    error: Option<String>,
}

/// What came of asking one server.
#[derive(Debug, Serialize)]
pub(super) struct ServerSaid {
    pub(super) name: String,
    /// `listed`, `down`, or `silent`: it had not answered when the time was over.
    pub(super) state: &'static str,
    /// How many of its tools can be offered.
    pub(super) tools: usize,
    /// How long it took; of a silent one, how long it was waited for.
    pub(super) millis: u64,
    /// Why it is not listed.
    pub(super) why: Option<String>,
}

/// What became of one file.
#[derive(Debug, Default, Serialize)]
pub(super) struct FileSaid {
    pub(super) path: PathBuf,
    /// `created`, `replaced`, `rewritten` (an agent's own); or of one that is taken back: `restored`,
    /// `removed`, `gone`, `kept`, `left`.
    pub(super) change: &'static str,
    /// What it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) backup: Option<PathBuf>,
    /// How many definitions a pin file holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) definitions: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

/// A variable, and what needs it.
#[derive(Debug, Serialize)]
struct VariableSaid {
    name: String,
    place: String,
}

impl<'o> InitTelling<'o> {
    pub(super) fn new(out: &'o mut dyn Write, is_json: bool) -> Self {
        Self {
            out,
            is_json,
            said: InitSaid::default(),
        }
    }

    /// A line for people alone; that nobody reads it is no reason to stop.
    pub(super) fn line(&mut self, line: &str) {
        if !self.is_json {
            drop(writeln!(self.out, "{line}"));
            drop(self.out.flush());
        }
    }

    pub(super) fn note(&mut self, note: &str) {
        self.line(&format!("note     {note}"));
        self.said.notes.push(note.to_owned());
    }

    /// Something that is wrong: on standard error, too.
    pub(super) fn problem(&mut self, problem: &str) {
        configured::say(&format!("problem  {problem}"));
        self.said.problems.push(problem.to_owned());
    }

    /// What came of asking a server; the `line` says it to people.
    pub(super) fn server(&mut self, line: &str, server: ServerSaid) {
        self.line(line);
        self.said.servers.push(server);
    }

    /// A server that had not answered in `waited`.
    pub(super) fn stays_silent(&mut self, name: &str, waited: Duration) {
        self.said.servers.push(ServerSaid {
            name: name.to_owned(),
            state: "silent",
            tools: 0,
            millis: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            why: None,
        });
    }

    /// A tool that gets no contract, and why.
    pub(super) fn quarantines(&mut self, words: &str) {
        self.line(&format!("  {words}"));
        self.said.notes.push(words.to_owned());
    }

    /// A file that was written.
    pub(super) fn wrote(&mut self, file: FileSaid) {
        let what = file
            .definitions
            .map(|count| format!(": {count} definitions pinned"));
        let what = what.unwrap_or_default();
        self.line(&format!("wrote    {}{what}", file.path.display()));
        if let Some(backup) = &file.backup {
            self.line(&format!("         as it was: {}", backup.display()));
        }
        self.said.files.push(file);
    }

    /// A file that was taken back, or was not; `why` begins as it follows the path in a line.
    pub(super) fn took_back(&mut self, change: &'static str, path: &Path, why: &str) {
        self.line(&format!("{change:<8} {}{why}", path.display()));
        let why = why.trim_start_matches([':', ',', ' ']);
        self.said.files.push(FileSaid {
            path: path.to_path_buf(),
            change,
            why: (!why.is_empty()).then(|| why.to_owned()),
            ..FileSaid::default()
        });
    }

    /// More of the file that was told of last.
    pub(super) fn detail(&mut self, note: &str) {
        self.line(&format!("         {note}"));
        self.said.notes.push(note.to_owned());
    }

    /// What is not as it should be, among the lines.
    pub(super) fn problem_line(&mut self, problem: &str) {
        self.line(problem);
        self.said.problems.push(problem.to_owned());
    }

    /// Where what files were before is kept.
    pub(super) fn keeps(&mut self, backups: Option<&PathBuf>) {
        self.said.backups = backups.cloned();
    }

    /// A variable to set before toolgate starts; `whence` goes on in the line.
    pub(super) fn set(&mut self, name: &str, place: &str, whence: &str) {
        self.line(&format!(
            "set      {name} before toolgate starts ({place}{whence})"
        ));
        self.said.set.push(VariableSaid {
            name: name.to_owned(),
            place: place.to_owned(),
        });
    }

    /// What to type next.
    pub(super) fn next(&mut self, commands: &[String]) {
        self.line(&format!("next     {}", commands.join("; ")));
        self.said.next.extend_from_slice(commands);
    }

    /// The object, where one is asked for; what was done stays what was done.
    pub(super) fn end(mut self, done: anyhow::Result<u8>) -> anyhow::Result<u8> {
        if self.is_json {
            let error = done.as_ref().err();
            self.said.error = error.map(|error| format!("{error:#}"));
            self.print()?;
        }
        done
    }

    fn print(&mut self) -> io::Result<()> {
        let said = serde_json::to_string(&self.said).unwrap_or_default();
        writeln!(self.out, "{}", json(&said))?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What is said of one file, and of an error.
    fn tell(telling: &mut InitTelling<'_>) {
        telling.note("a note");
        telling.took_back("kept", Path::new("a.yaml"), ": it was changed since");
        telling.wrote(FileSaid {
            path: PathBuf::from("b.yaml"),
            change: "replaced",
            backup: Some(PathBuf::from("old/b.yaml")),
            definitions: Some(2),
            why: None,
        });
        telling.set("TOKEN", "servers.bank", "; its value was not copied");
        telling.next(&["toolgate check".to_owned(), "toolgate serve".to_owned()]);
    }

    #[test]
    fn people_read_lines() {
        let mut out = Vec::new();
        let mut telling = InitTelling::new(&mut out, false);
        tell(&mut telling);
        assert!(telling.end(Err(anyhow::anyhow!("it is full"))).is_err());
        let expected = "note     a note\nkept     a.yaml: it was changed since\n\
                        wrote    b.yaml: 2 definitions pinned\n         as it was: old/b.yaml\n\
                        set      TOKEN before toolgate starts (servers.bank; its value was not copied)\n\
                        next     toolgate check; toolgate serve\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    /// One object on one line, with the error, and the error stays one.
    #[test]
    fn programs_read_one_object() {
        let mut out = Vec::new();
        let mut telling = InitTelling::new(&mut out, true);
        tell(&mut telling);
        assert!(telling.end(Err(anyhow::anyhow!("it is full"))).is_err());
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let said: Value = text.parse().unwrap();
        assert_eq!(said["error"], "it is full");
        assert_eq!(said["files"][0]["why"], "it was changed since");
        assert_eq!(said["files"][1]["backup"], "old/b.yaml");
        assert_eq!(said["set"][0]["name"], "TOKEN");
        assert_eq!(said["next"][1], "toolgate serve");
    }
}
