//! What several verbs need of the configuration: where it is, what it says, and its problems in
//! words.

use crate::config::{self, Config, Ledger, Loaded};
use crate::model::counted::counted;
use crate::model::diagnostic::Severity;
use crate::model::disabled::Disabled;
use crate::policy::Policy;
use crate::store::disabling;
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};

/// The configuration that was named, or the first that is found.
pub fn path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(named) => Ok(named.to_path_buf()),
        None => match config::find() {
            Some(found) => Ok(found),
            None => bail!(
                "no configuration was found; name one with --config, or write ./toolgate.yaml"
            ),
        },
    }
}

/// Where the ledger is: in `given`, else where [`ledger()`] says. Nothing there, and anything wrong
/// with the configuration, is an error.
pub fn data_dir(given: Option<&Path>, named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_path_buf());
    }
    let (data, _) = ledger(named)?;
    if !data.join("journal").exists() && (named.is_some() || config::find().is_some()) {
        // What is wrong with the configuration may be why nothing is there.
        config(named)?;
    }
    Ok(data)
}

/// Where the ledger is, and how it is kept: in the default place if no configuration is there. One
/// that cannot be used is an error: without its keys a forged ledger would look sound.
pub fn ledger(named: Option<&Path>) -> anyhow::Result<(PathBuf, Ledger)> {
    if named.is_none() && config::find().is_none() {
        return Ok((PathBuf::from("toolgate-data"), Ledger::default()));
    }
    process(named).map(|config| (config.data, config.ledger))
}

/// What the process runs on, without a word about what is only a warning; or every problem on
/// standard error.
pub fn config(named: Option<&Path>) -> anyhow::Result<Config> {
    match config::load(&path(named)?).config {
        Some(config) => Ok(config),
        None => load(named)?
            .1
            .config
            .context("the configuration cannot be used"),
    }
}

/// As [`config()`], also while the policies have errors: for what must be possible then.
pub fn process(named: Option<&Path>) -> anyhow::Result<Config> {
    match config::process(&path(named)?) {
        Some(config) => Ok(config),
        None => config(named),
    }
}

/// The configuration and its policy, or every problem on standard error.
pub fn load(named: Option<&Path>) -> anyhow::Result<(PathBuf, Loaded)> {
    let path = path(named)?;
    let loaded = config::load(&path);
    usable(path, loaded, Severity::Warning)
}

/// As [`load`], without the pin file and without warnings: for the command that is about to write
/// it.
pub fn unpinned(named: Option<&Path>) -> anyhow::Result<(PathBuf, Loaded)> {
    let path = path(named)?;
    let loaded = config::load_unpinned(&path, &|name| std::env::var(name).ok());
    usable(path, loaded, Severity::Error)
}

/// Says what is at least as bad as `least`.
fn usable(path: PathBuf, loaded: Loaded, least: Severity) -> anyhow::Result<(PathBuf, Loaded)> {
    for diagnostic in loaded
        .reading
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity <= least)
    {
        say(&diagnostic.to_string());
    }
    let errors = loaded
        .reading
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.severity == Severity::Error)
        .count();
    if errors > 0 {
        bail!(
            "{} cannot be used: {}, shown above",
            path.display(),
            counted(errors, "problem")
        );
    }
    Ok((path, loaded))
}

/// The policy as a toolgate on the same data directory has it: without the tools that operators
/// have taken away.
pub fn in_force(loaded: Loaded) -> anyhow::Result<Policy> {
    let policy = loaded.reading.policy.context("the policy cannot be used")?;
    let disabled = loaded
        .config
        .map_or(Ok(Disabled::new()), |config| disabling::read(&config.data));
    let disabled = disabled.unwrap_or_else(|error| {
        say(&format!(
            "toolgate: {error}; this is judged as if none were"
        ));
        Disabled::new()
    });
    Ok(policy.without(disabled))
}

/// One line on standard error.
pub fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
