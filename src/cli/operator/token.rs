//! The token with which an operator proves who they are at the door: their own, from a file that
//! they alone can read, from `OPERATOR_TOKEN`, or typed. The configuration of the toolgate that is
//! asked has the tokens of all operators, so none is ever taken from there: of two who have to
//! allow a call, one person could be both.

use crate::model::secret::Secret;
use crate::owners::{OTHERS_READ_BITS, exposed};
use anyhow::{Context as _, bail};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{IsTerminal as _, Read as _, Write as _, stderr, stdin};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The variable that may hold it.
pub(in crate::cli) const TOKEN_VARIABLE: &str = "OPERATOR_TOKEN";
/// Bytes of a token at most.
const TOKEN_BYTES_MAX: usize = 4096;
/// What a terminal gives for Ctrl-C, for Ctrl-D and for the keys that take a letter back.
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const ERASE_KEYS: [u8; 2] = [8, 127];

/// An operator's token, and where it is from.
#[derive(Debug)]
pub(super) struct OperatorToken {
    pub(super) secret: Secret,
    from: String,
}

impl OperatorToken {
    /// The one in `file`, in `OPERATOR_TOKEN`, or typed at the terminal, in this order; none where
    /// there is none of them, or nothing is typed.
    pub(super) fn read(file: Option<&Path>) -> anyhow::Result<Option<Self>> {
        if let Some(token) = Self::at_hand(file)? {
            return Ok(Some(token));
        }
        let typed = typed()?;
        let typed = typed.filter(|text| !text.is_empty());
        typed
            .map(|text| Self::of(&text, "the terminal".to_owned()))
            .transpose()
    }

    /// The same, but none is asked for at the terminal.
    pub(super) fn at_hand(file: Option<&Path>) -> anyhow::Result<Option<Self>> {
        if let Some(file) = file {
            return of_file(file).map(Some);
        }
        match std::env::var(TOKEN_VARIABLE) {
            Ok(text) if !text.is_empty() => Self::of(&text, TOKEN_VARIABLE.to_owned()).map(Some),
            _ => Ok(None),
        }
    }

    fn of(text: &str, from: String) -> anyhow::Result<Self> {
        let text = text.trim();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!(
                "what comes from {from} is no token: that is one word of visible ASCII characters"
            );
        }
        let secret = Secret::new(text.to_owned());
        Ok(Self { secret, from })
    }
}

/// What to do where the door at hand does not take `token`.
pub(super) fn refused(token: Option<&OperatorToken>) -> String {
    match token {
        Some(token) => format!(
            "the token from {} is no operator's of that toolgate; ask who configures it for yours",
            token.from
        ),
        None => format!(
            "an operator has to prove who they are: set {TOKEN_VARIABLE} to your token, name a file that holds it with \
             --token-file, or run this at a terminal and type it"
        ),
    }
}

fn of_file(file: &Path) -> anyhow::Result<OperatorToken> {
    if let Some(way) = exposed(file).first() {
        let way_path = way.path.display();
        bail!(
            "the token in {} is not used: {way_path}: {}; {}",
            file.display(),
            way.message(),
            way.hint()
        );
    }
    let cannot = || format!("the token file {} cannot be read", file.display());
    let opened = std::fs::File::open(file).with_context(cannot)?;
    let rights = opened.metadata().with_context(cannot)?.permissions().mode();
    if rights & OTHERS_READ_BITS != 0 {
        let shown = file.display();
        bail!(
            "the token in {shown} is not used: others than its owner may read it; run `chmod go-r {shown}`"
        );
    }
    let (mut text, most) = (String::new(), TOKEN_BYTES_MAX as u64 + 1);
    opened
        .take(most)
        .read_to_string(&mut text)
        .with_context(cannot)?;
    if text.len() > TOKEN_BYTES_MAX {
        bail!("{} is too long for a token", file.display());
    }
    OperatorToken::of(&text, format!("the file {}", file.display()))
}

/// What is typed at the terminal, unseen; none where there is no terminal.
fn typed() -> anyhow::Result<Option<String>> {
    if !stdin().is_terminal() || !stderr().is_terminal() {
        return Ok(None);
    }
    let Some(unseen) = UnseenKeys::begin() else {
        return Ok(None);
    };
    let _ = write!(stderr(), "operator's token: ");
    let typed = UnseenKeys::line();
    drop(unseen);
    let _ = writeln!(stderr());
    match typed {
        Some(bytes) => Ok(Some(
            String::from_utf8(bytes).context("what was typed is no text")?,
        )),
        None => bail!("nothing was done"),
    }
}

/// A terminal that shows nothing of what is typed, as long as this lives; afterwards it is as it
/// was.
struct UnseenKeys {
    before: Termios,
}

impl UnseenKeys {
    fn begin() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut modes = before.clone();
        // Ctrl-C is a key, too: a signal would leave the terminal as it is now.
        modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        tcsetattr(stdin(), OptionalActions::Now, &modes).ok()?;
        Some(Self { before })
    }

    /// The bytes up to the end of the line; none when they are taken back with Ctrl-C.
    fn line() -> Option<Vec<u8>> {
        let (mut line, mut key) = (Vec::new(), [0]);
        while matches!(stdin().read(&mut key), Ok(1)) {
            match key[0] {
                b'\n' | b'\r' | CTRL_D => break,
                CTRL_C => return None,
                taken if ERASE_KEYS.contains(&taken) => {
                    line.pop();
                }
                byte if line.len() < TOKEN_BYTES_MAX => line.push(byte),
                _ => {}
            }
        }
        Some(line)
    }
}

impl Drop for UnseenKeys {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::path::PathBuf;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        write(&path, text).unwrap();
        set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    /// threat-model §3E E4: a token that others can read proves nothing of who shows it.
    #[test]
    fn a_token_is_taken_from_a_file_that_its_owner_alone_can_read() {
        let (_kept, path) = file("0123456789abcdef\n", 0o600);
        let token = OperatorToken::read(Some(&path)).unwrap().unwrap();
        assert_eq!(token.secret.expose(), "0123456789abcdef");
        assert!(refused(Some(&token)).contains(&path.display().to_string()));
        for (text, mode, problem) in [
            ("0123456789abcdef", 0o640, "chmod go-r"),
            ("0123456789abcdef", 0o604, "chmod go-r"),
            ("0123456789abcdef", 0o620, "chmod g-w"),
            ("", 0o600, "is no token"),
            ("two words", 0o600, "is no token"),
            ("a\nb", 0o600, "is no token"),
            (&"x".repeat(TOKEN_BYTES_MAX + 1), 0o600, "too long"),
        ] {
            let (_kept, path) = file(text, mode);
            let error = OperatorToken::read(Some(&path)).unwrap_err();
            assert!(
                format!("{error:#}").contains(problem),
                "{mode:o}: {error:#}"
            );
        }
        let nowhere = OperatorToken::read(Some(Path::new("/nowhere/token"))).unwrap_err();
        assert!(format!("{nowhere:#}").contains("cannot be read"));
    }
}
