//! Finds the program before anything is started, so that a mistake is told in words and not by an
//! exit status.

use super::ChildCommand;
use crate::model::reply::Fault;
use rustix::fs::{Access, access};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The path of the program to start.
pub(super) fn find(command: &ChildCommand) -> Result<PathBuf, Fault> {
    let ChildCommand { program, name, .. } = command;
    if let Some(cwd) = command.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(Fault::unsent(format!(
            "server `{name}` cannot be started: its directory {} does not exist; create it or correct `cwd`",
            cwd.display()
        )));
    }
    if program.is_empty() {
        return Err(Fault::unsent(format!(
            "server `{name}` cannot be started: `command` is empty"
        )));
    }
    if program.contains('/') {
        return by_path(command);
    }
    let configured = command
        .env
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_ref());
    let mut unusable = None;
    for folder in folders(configured) {
        let path = folder.join(program);
        if path.is_file() {
            if executable(&path) {
                return Ok(path);
            }
            unusable.get_or_insert(path);
        }
    }
    match unusable {
        Some(path) => Err(not_executable(command, &path)),
        None => Err(Fault::unsent(format!(
            "server `{name}` cannot be started: `{program}` was not found in PATH; install it, or write its full path as `command`"
        ))),
    }
}

/// The paths that decide what runs under the name `program`: the program's own, and the directories
/// in which it is looked for before. `path` is the `PATH` of its environment, where that has one.
/// None where there is no such program.
pub(crate) fn ways(program: &str, path: Option<&OsStr>, cwd: Option<&Path>) -> Vec<PathBuf> {
    if program.contains('/') {
        return vec![meant(program, cwd)];
    }
    let mut ways = Vec::new();
    for folder in folders(path) {
        let found = folder.join(program);
        if found.is_file() && executable(&found) {
            ways.push(found);
            return ways;
        }
        ways.push(folder);
    }
    Vec::new()
}

/// The directories in which programs are looked for, in order.
fn folders(path: Option<&OsStr>) -> Vec<PathBuf> {
    let folders = path
        .map(OsStr::to_owned)
        .or_else(|| std::env::var_os("PATH"))
        .unwrap_or_default();
    std::env::split_paths(&folders)
        .filter(|folder| folder.is_absolute())
        .collect()
}

/// A relative path is meant from where the program runs.
fn meant(program: &str, cwd: Option<&Path>) -> PathBuf {
    let relative = cwd.map_or_else(|| PathBuf::from(program), |cwd| cwd.join(program));
    std::path::absolute(&relative).unwrap_or(relative)
}

fn by_path(command: &ChildCommand) -> Result<PathBuf, Fault> {
    let path = meant(&command.program, command.cwd.as_deref());
    if !path.exists() {
        return Err(Fault::unsent(format!(
            "server `{}` cannot be started: {} does not exist; correct `command`",
            command.name,
            path.display()
        )));
    }
    if path.is_file() && executable(&path) {
        Ok(path)
    } else {
        Err(not_executable(command, &path))
    }
}

fn not_executable(command: &ChildCommand, path: &Path) -> Fault {
    let (name, path) = (&command.name, path.display());
    Fault::unsent(format!(
        "server `{name}` cannot be started: {path} may not be executed; set its permissions (chmod +x)"
    ))
}

fn executable(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}
