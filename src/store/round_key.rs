//! The key that `requestState` is sealed with: in a file of the data directory, for its owner only,
//! made by the first start, so that a question that was asked before a restart can be answered
//! after it.

use super::claims::StoreError;
use super::journal::replace;
use crate::mcp::round::{ROUND_KEY_BYTES, RoundSeal};
use crate::model::hex::hex;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// The file: the key in hex.
const KEY_FILE_NAME: &str = "round-key";

/// Reads the key in the data directory `data`, or makes one. Blocks. An error when there is one
/// that cannot be used: to make another would refuse the agents that answer a question now.
pub(crate) fn open(data: &Path) -> Result<RoundSeal, StoreError> {
    let path = data.join(KEY_FILE_NAME);
    let failed = |what: &str| {
        StoreError::Broken(format!(
            "{} (what `requestState` is sealed with): {what}",
            path.display()
        ))
    };
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = match OpenOptions::new()
        .read(true)
        .custom_flags(nofollow)
        .open(&path)
    {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut key = [0; ROUND_KEY_BYTES];
            getrandom::fill(&mut key)
                .map_err(|error| failed(&format!("no key can be made: {error}")))?;
            replace(data, &path, &hex(&key))
                .map_err(|error| failed(&format!("it cannot be written: {error}")))?;
            return RoundSeal::new(&key).ok_or_else(|| failed("no key can be made"));
        }
        Err(error) => return Err(failed(&format!("it cannot be read: {error}"))),
    };
    let mode = file
        .metadata()
        .map_or(0, |known| known.permissions().mode());
    if mode & 0o077 != 0 {
        return Err(failed(
            "others can read it; remove it, and what it sealed is refused from then on",
        ));
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut file)
        .take(1 << 10)
        .read_to_string(&mut text);
    let key = read.ok().and_then(|_| bytes(text.trim()));
    let seal = key.and_then(|key| RoundSeal::new(&key));
    seal.ok_or_else(|| {
        failed("it holds no key; remove it, and what it sealed is refused from then on")
    })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits =
        hex.len() == 2 * ROUND_KEY_BYTES && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    (0..hex.len())
        .step_by(2)
        .map(pair)
        .collect::<Option<_>>()
        .filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// threat-model §3C C8: it outlives a restart, is for its owner only, and nothing else is taken
    /// for it.
    #[test]
    fn c8_the_key_is_kept_and_for_nobody_else() {
        let temp = tempfile::tempdir().unwrap();
        let data = temp.path();
        open(data).unwrap();
        let path = data.join(KEY_FILE_NAME);
        let first = fs::read_to_string(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        open(data).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), first);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(
            open(data)
                .unwrap_err()
                .to_string()
                .contains("others can read it")
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        for text in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
            fs::write(&path, text).unwrap();
            assert!(
                open(data).unwrap_err().to_string().contains("no key"),
                "{text}"
            );
        }
        fs::write(data.join("elsewhere"), &first).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(data.join("elsewhere"), &path).unwrap();
        assert!(open(data).is_err(), "a link is not followed");
    }
}
