//! Drafts of before that no new one has replaced: a server with fewer files, or without a pack. Left
//! there, they would say of tools what another file says.

use super::written::{DRAFT_MARK, PACKS_DIRECTORY};
use crate::owners::regular;
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Removes the drafts of `servers` below `place` that were not `written` now, and names them.
pub(super) fn remove(
    place: &Path,
    servers: &BTreeSet<&str>,
    written: &[&Path],
) -> anyhow::Result<Vec<PathBuf>> {
    let mut removed = Vec::new();
    for folder in [Path::new(""), Path::new(PACKS_DIRECTORY)] {
        let Ok(entries) = fs::read_dir(place.join(folder)) else {
            continue;
        };
        for entry in entries {
            let name = entry?.file_name();
            let is_theirs = name.to_str().is_some_and(|name| is_of(name, servers));
            let (below, path) = (folder.join(&name), place.join(folder).join(&name));
            if is_theirs && !written.contains(&&*below) && is_draft(&path) {
                let gone = fs::remove_file(&path);
                gone.with_context(|| format!("{} cannot be removed", path.display()))?;
                removed.push(path);
            }
        }
    }
    removed.sort();
    Ok(removed)
}

/// Whether a draft of one of the servers is called so: `NAME.yaml`, `NAME.2.yaml`.
fn is_of(name: &str, servers: &BTreeSet<&str>) -> bool {
    let Some(stem) = name.strip_suffix(".yaml") else {
        return false;
    };
    let (server, number) = stem.split_once('.').unwrap_or((stem, "1"));
    servers.contains(server) && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the file was drafted: what an operator has written instead stays.
fn is_draft(path: &Path) -> bool {
    let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
    let mut begins = [0; DRAFT_MARK.len()];
    let opened = regular::open(path).ok().filter(|_| is_file);
    let read = opened.and_then(|mut file| file.read_exact(&mut begins).ok());
    read.is_some() && begins == DRAFT_MARK.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only drafts of the same servers go, and only those that no new one has replaced.
    #[test]
    fn what_is_not_drafted_any_more_goes() {
        let place = tempfile::tempdir().unwrap();
        let draft = format!("{DRAFT_MARK} from recorded calls.\n");
        fs::create_dir(place.path().join(PACKS_DIRECTORY)).unwrap();
        let put = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
        let (stays, goes) = (
            [
                "s.yaml",
                "other.2.yaml",
                "s.old.yaml",
                "s.3.yaml",
                "s.4.yml",
            ],
            ["s.2.yaml", "tests/s.2.yaml", "tests/s.yaml"],
        );
        for name in stays.iter().chain(&goes) {
            put(name, &draft);
        }
        put("s.3.yaml", "contracts: {}\n");
        let servers = BTreeSet::from(["s"]);
        let removed = remove(place.path(), &servers, &[Path::new("s.yaml")]).unwrap();
        assert_eq!(removed, goes.map(|name| place.path().join(name)));
        assert!(stays.iter().all(|name| place.path().join(name).is_file()));
        assert!(goes.iter().all(|name| !place.path().join(name).exists()));
    }
}
