//! Which files are policy.

use super::compiler::about;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::locate::YamlDocument;
use std::path::{Path, PathBuf};

/// Policy files at most, and how deep their directories may go.
const MAX_POLICY_FILES: usize = 256;
const MAX_DIRECTORY_DEPTH: usize = 8;
/// Files and directories that are looked at for them, of whatever kind.
const MAX_LOOKED_AT: usize = 4_096;
/// Directories that are named of those that cannot be read: with one of them nothing can be used.
const MAX_MISSED_TOLD: usize = 16;

/// The policy files under `paths` that can be read, to give what is found about contracts later its
/// place.
pub(crate) fn documents(paths: &[PathBuf]) -> Vec<YamlDocument> {
    files(paths, &mut Vec::new())
        .iter()
        .filter_map(|path| YamlDocument::read(path).ok())
        .collect()
}

/// The policy files under `paths`, whether or not they can be read.
pub(crate) fn policy_files(paths: &[PathBuf]) -> Vec<PathBuf> {
    files(paths, &mut Vec::new())
}

/// Whether there is more in the policy directory at `path` than is looked at.
pub(crate) fn is_too_large(path: &Path) -> bool {
    let mut search = PolicySearch::default();
    search.take(path);
    search.ended.is_some()
}

/// The YAML files under `paths`, sorted. Test packs (`tests/`) and hidden files are no policy.
pub(super) fn files(paths: &[PathBuf], diagnostics: &mut Vec<Diagnostic>) -> Vec<PathBuf> {
    let mut search = PolicySearch::default();
    for path in paths {
        search.take(path);
    }
    let PolicySearch {
        mut found,
        ended,
        diagnostics: said,
        ..
    } = search;
    diagnostics.extend(said);
    if ended.is_some() {
        // Whatever lies on the disk is no policy.
        found.clear();
    }
    found.sort();
    found.dedup();
    if found.len() > MAX_POLICY_FILES {
        let message = format!("more than {MAX_POLICY_FILES} policy files");
        diagnostics.push(about(
            &found[MAX_POLICY_FILES],
            Severity::Error,
            &message,
            "merge some of them",
        ));
        found.truncate(MAX_POLICY_FILES);
    }
    diagnostics.extend(ended);
    found
}

/// What is found in policy directories.
#[derive(Default)]
struct PolicySearch {
    found: Vec<PathBuf>,
    /// Files and directories so far.
    looked_at: usize,
    /// Directories of which nothing is known.
    missed: usize,
    /// Why no more are looked at.
    ended: Option<Diagnostic>,
    diagnostics: Vec<Diagnostic>,
}

impl PolicySearch {
    fn take(&mut self, path: &Path) {
        if !path.is_dir() {
            return self.found.push(path.to_owned());
        }
        let before = self.found.len();
        self.gather(path, 0);
        if self.found.len() == before && self.ended.is_none() {
            self.diagnostics.push(about(
                path,
                Severity::Warning,
                "holds no policy file",
                "add a file that ends in .yaml",
            ));
        }
    }

    fn gather(&mut self, directory: &Path, depth: usize) {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) if depth < MAX_DIRECTORY_DEPTH => entries,
            Ok(_) => return self.misses(directory, "directories go too deep", "flatten them"),
            Err(error) => {
                let message = format!("cannot be read: {error}");
                return self.misses(directory, &message, "let this account read it");
            }
        };
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            if self.ended.is_some() || self.found.len() > MAX_POLICY_FILES {
                return;
            }
            self.looked_at += 1;
            if self.looked_at > MAX_LOOKED_AT {
                let message = format!(
                    "more than {MAX_LOOKED_AT} files and directories are in the policy directories, and none was read"
                );
                let hint = "name directories of policy files in `policies`; all that is in them is looked at";
                self.ended = Some(about(directory, Severity::Error, &message, hint));
                return;
            }
            self.look_at(path, depth);
        }
    }

    fn look_at(&mut self, path: PathBuf, depth: usize) {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_yaml = path
            .extension()
            .is_some_and(|ending| ending == "yaml" || ending == "yml");
        if name.starts_with(b".") {
            return;
        }
        if path.is_dir() && name != b"tests" {
            self.gather(&path, depth + 1);
        } else if is_yaml && !path.is_dir() {
            self.found.push(path);
        }
    }

    fn misses(&mut self, directory: &Path, message: &str, hint: &str) {
        self.missed += 1;
        if self.missed <= MAX_MISSED_TOLD {
            let said = about(directory, Severity::Error, message, hint);
            self.diagnostics.push(said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(paths: &[PathBuf]) -> (usize, Vec<String>) {
        let mut diagnostics = Vec::new();
        let found = files(paths, &mut diagnostics).len();
        let said = diagnostics.into_iter().map(|one| one.message);
        (found, said.collect())
    }

    /// 017: `policies: [/]` does not read through the disk.
    #[test]
    fn a_directory_of_everything_is_not_read_through() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..=MAX_LOOKED_AT {
            std::fs::write(directory.path().join(format!("{number}.txt")), "").unwrap();
        }
        let paths = [directory.path().to_owned(), directory.path().join("below")];
        std::fs::create_dir(&paths[1]).unwrap();
        std::fs::write(paths[1].join("p.yaml"), "").unwrap();
        let (found, said) = search(&paths);
        assert_eq!((found, said.len()), (0, 1), "{said:?}");
        insta::assert_snapshot!(said[0]);
        assert_eq!(search(&paths[1..]), (1, Vec::new()));
        assert!(is_too_large(&paths[0]) && !is_too_large(&paths[1]));
    }

    #[test]
    fn of_directories_that_go_too_deep_some_are_named() {
        let directory = tempfile::tempdir().unwrap();
        for branch in 0..2 * MAX_MISSED_TOLD {
            let deep = vec![branch.to_string(); MAX_DIRECTORY_DEPTH].join("/");
            std::fs::create_dir_all(directory.path().join(deep)).unwrap();
        }
        std::fs::write(directory.path().join("p.yaml"), "").unwrap();
        let (found, said) = search(&[directory.path().to_owned()]);
        assert_eq!((found, said.len()), (1, MAX_MISSED_TOLD));
        assert_eq!(said[0], "directories go too deep");
    }
}
