//! What a tool server says on standard error: always read, logged within a rate, and the end of it
//! kept.
//!
//! It is free text (protocol §2), so lines are cut, control characters are written out, and neither
//! a secret of the process's environment nor one of a call is repeated.

use super::ChildCommand;
use crate::model::child_target::CHILD_TARGET;
use crate::model::clock::Clock;
use crate::model::ids::ServerName;
use crate::model::looks::{is_harmless, is_telling};
use crate::model::scrub::KnownScrubStream;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest line in bytes; the rest of it is dropped (threat-model §8).
const STDERR_LINE_BYTES_MAX: usize = 4 * 1024;
/// What is kept, in bytes.
const STDERR_KEPT_BYTES_MAX: usize = 64 * 1024;
/// Most lines logged in one second.
const STDERR_LINES_PER_SECOND_MAX: u32 = 100;
/// Values shorter than this would be found in words.
const SECRET_BYTES_MIN: usize = 8;
/// Longest piece of a secret that is looked for.
const SECRET_PIECE_BYTES_MAX: usize = 4 * 1024;
/// Variables of every environment that hold no secret, whatever their names say: a line that names a
/// directory stays readable.
const NON_SECRET_VARIABLES: [&str; 16] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "PWD",
    "OLDPWD",
    "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
    "SESSION_MANAGER",
    "DESKTOP_SESSION",
    "XDG_SESSION_ID",
    "XDG_SESSION_TYPE",
];
/// What the name of a variable ends with that says where a secret is, not which.
const PLACE_SUFFIXES: [&str; 4] = ["_FILE", "_PATH", "_DIR", "_SOCK"];

/// One tool server's standard error.
pub(super) struct StderrCapture {
    server: ServerName,
    /// What to look for, and the variable it came from; longest first.
    secrets: Vec<(String, String)>,
    kept: Mutex<StderrTail>,
}

#[derive(Default)]
struct StderrTail {
    lines: VecDeque<String>,
    bytes: usize,
}

/// How many lines were logged in the second that runs.
#[derive(Default)]
struct LogRate {
    since: Duration,
    logged: u32,
    dropped: u64,
}

impl StderrCapture {
    pub(super) fn new(command: &ChildCommand) -> Self {
        let mut secrets = Vec::new();
        for (name, value) in command
            .env
            .iter()
            .filter(|(name, value)| is_kept_secret(name, value))
        {
            let pieces = value
                .lines()
                .filter(|piece| (SECRET_BYTES_MIN..=SECRET_PIECE_BYTES_MAX).contains(&piece.len()));
            secrets.extend(pieces.map(|piece| (piece.to_owned(), format!("[env {name}]"))));
        }
        secrets.sort_by_key(|(piece, _)| std::cmp::Reverse(piece.len()));
        Self {
            server: command.name.clone(),
            secrets,
            kept: Mutex::default(),
        }
    }

    /// Reads to the end.
    pub(super) async fn listen(self: Arc<Self>, mut stderr: impl AsyncRead + Unpin) {
        // A secret that starts before the cut is still seen whole.
        let bound =
            STDERR_LINE_BYTES_MAX + self.secrets.first().map_or(0, |(piece, _)| piece.len());
        let (mut chunk, mut line, mut pace) = (vec![0; 8 * 1024], Vec::new(), LogRate::default());
        let mut cleaner = KnownScrubStream::default();
        loop {
            let read = match stderr.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(read) => read,
            };
            self.cut(&cleaner.push(&chunk[..read]), bound, &mut line, &mut pace);
        }
        self.cut(&cleaner.finish(), bound, &mut line, &mut pace);
        self.take(&line, &mut pace);
        pace.tell(&self.server);
    }

    fn cut(&self, text: &[u8], bound: usize, line: &mut Vec<u8>, pace: &mut LogRate) {
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            let (text, whole) = piece
                .strip_suffix(b"\n")
                .map_or((piece, false), |text| (text, true));
            line.extend_from_slice(&text[..text.len().min(bound - line.len())]);
            if whole {
                self.take(line, pace);
                line.clear();
            }
        }
    }

    fn take(&self, line: &[u8], pace: &mut LogRate) {
        let line = self.clean(line);
        if line.is_empty() {
            return;
        }
        if pace.allows(&self.server) {
            tracing::info!(target: CHILD_TARGET, server = %self.server, "{line}");
        }
        self.kept.lock().push(line);
    }

    fn clean(&self, line: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
        for (piece, name) in &self.secrets {
            if text.contains(piece.as_str()) {
                text = text.replace(piece.as_str(), name);
            }
        }
        let mut clean = String::with_capacity(text.len());
        for character in text.chars() {
            if clean.len() >= STDERR_LINE_BYTES_MAX {
                clean.push('…');
                break;
            }
            if misleading(character) {
                let _ = write!(clean, "{}", character.escape_unicode());
            } else {
                clean.push(character);
            }
        }
        clean
    }

    /// The last line that says something.
    pub(super) fn last_line(&self) -> Option<String> {
        self.kept.lock().lines.back().cloned()
    }

    pub(super) fn kept(&self) -> Vec<String> {
        self.kept.lock().lines.iter().cloned().collect()
    }
}

/// Whether the value of a variable may be a secret: in doubt it is one. What surely is none, by its
/// looks, is kept only where the name says that it is secret, and not where a secret is.
fn is_kept_secret(name: &str, value: &str) -> bool {
    let is_place =
        || PLACE_SUFFIXES.iter().any(|end| name.ends_with(end)) && value.starts_with('/');
    let is_plain = is_harmless(value) && (!is_telling(name) || is_place());
    !NON_SECRET_VARIABLES.contains(&name) && !is_plain
}

impl StderrTail {
    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > STDERR_KEPT_BYTES_MAX {
            let Some(first) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= first.len();
        }
    }
}

impl LogRate {
    fn allows(&mut self, server: &ServerName) -> bool {
        let now = Clock.steady();
        if now.saturating_sub(self.since) >= Duration::from_secs(1) {
            self.tell(server);
            *self = Self {
                since: now,
                logged: 0,
                dropped: 0,
            };
        }
        self.logged += 1;
        if self.logged > STDERR_LINES_PER_SECOND_MAX {
            self.dropped += 1;
        }
        self.logged <= STDERR_LINES_PER_SECOND_MAX
    }

    fn tell(&self, server: &ServerName) {
        if self.dropped > 0 {
            tracing::warn!(target: CHILD_TARGET, %server, lines = self.dropped, "standard error is too fast to log; lines were dropped");
        }
    }
}

/// Characters that move the cursor, break the line or turn the direction of a reader's terminal.
fn misleading(character: char) -> bool {
    (character.is_control() && character != '\t')
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::child::sandbox::Sandbox;

    fn said(env: &[(&str, &str)]) -> Arc<StderrCapture> {
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let (program, args, name) = ("x".to_owned(), Vec::new(), ServerName::new("billing"));
        Arc::new(StderrCapture::new(&ChildCommand {
            program,
            args,
            env,
            cwd: None,
            sandbox: Sandbox::default(),
            name,
        }))
    }

    async fn heard(said: &Arc<StderrCapture>, text: &[u8]) -> Vec<String> {
        Arc::clone(said).listen(text).await;
        said.kept()
    }

    /// threat-model §3F F5, §3G: a server cannot forge log lines, and what it was given in
    /// confidence is not repeated.
    #[tokio::test]
    async fn lines_are_cleaned() {
        let said = said(&[
            ("KEY", "s3cr3t-v4lue"),
            ("PEM", "-----BEGIN\nAAAABBBB\n"),
            ("DSN", "postgres://ann:pw@db/x"),
            ("UPSTREAM", "http://ann:hunter22@db/x"),
            ("HOME", "/home/ann"),
            ("OLDPWD", "/srv/ann"),
            ("KEY_FILE", "/etc/bank/key"),
            ("MEMORY_FILE_PATH", "/data/memory.json"),
            ("STAGE", "production"),
            ("PIN_TOKEN", "short"),
        ]);
        let lines = heard(
            &said,
            b"key is s3cr3t-v4lue AAAABBBB in /home/ann\n\
              of postgres://ann:pw@db/x and http://ann:hunter22@db/x\n\
              production reads /srv/ann/data, /etc/bank/key and /data/memory.json in short\n\x1b[31mred\rover\xe2\x80\xaetxt\xff\n\n",
        )
        .await;
        assert_eq!(
            lines,
            [
                "key is [env KEY] [env PEM] in /home/ann",
                "of [env DSN] and [env UPSTREAM]",
                "production reads /srv/ann/data, /etc/bank/key and /data/memory.json in short",
                "\\u{1b}[31mred\\u{d}over\\u{202e}txt\u{fffd}"
            ]
        );
    }

    /// threat-model §3F F5: what neither its name nor its looks give away is a secret in doubt, also
    /// where the name says that it is a place.
    #[tokio::test]
    async fn values_in_doubt_are_masked() {
        let hook = "/services/T0AB1CD2E/B0FG3HI4J/x8Kd93jfLs02kdKe94Jf7abc";
        let said = said(&[
            ("DATABASE", "host=db user=x password=hunter22"),
            ("HOOK_PATH", hook),
            ("SERVICE_URL", "https://api.example/v1"),
            ("CACHE", "/var/cache/bank"),
        ]);
        let spoken = format!(
            "open host=db user=x password=hunter22\npost to {hook}\nask https://api.example/v1 in /var/cache/bank\n"
        );
        assert_eq!(
            heard(&said, spoken.as_bytes()).await,
            [
                "open [env DATABASE]",
                "post to [env HOOK_PATH]",
                "ask https://api.example/v1 in /var/cache/bank"
            ]
        );
    }

    /// threat-model §3I I3: a flood costs its bounds; a secret across the cut does not show its
    /// first half.
    #[tokio::test]
    async fn a_flood_keeps_only_its_end() {
        let secret = "0123456789abcdef".repeat(4);
        let said = said(&[("KEY", &secret)]);
        let mut flood = vec![b'x'; STDERR_LINE_BYTES_MAX - 20];
        flood.extend_from_slice(secret.as_bytes());
        flood.resize(1 << 20, b'y');
        flood.push(b'\n');
        let lines = heard(&said, &flood).await;
        assert!(
            lines.len() == 1
                && lines[0].len() <= STDERR_LINE_BYTES_MAX + 3
                && !lines[0].contains("0123456789"),
            "{}",
            lines[0]
        );
        let many: Vec<String> = (0..20_000)
            .map(|number| format!("line number {number}"))
            .collect();
        let lines = heard(&said, many.join("\n").as_bytes()).await;
        assert!(lines.iter().map(String::len).sum::<usize>() <= STDERR_KEPT_BYTES_MAX);
        assert_eq!(said.last_line().as_deref(), Some("line number 19999"));
    }
}
