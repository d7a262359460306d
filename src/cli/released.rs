//! The policy of a configuration as verbs run it that serve: held to its packs where the configuration
//! says so, and kept as a bundle whenever it comes in force.

use super::configured::{self, DataArgs};
use super::test::required::RequiredPacks;
use crate::config::{self, Config, Loaded};
use crate::model::counted::counted;
use crate::model::diagnostic::Severity;
use crate::policy::Policy;
use crate::policy::bundle::keeper::ShelfKeeper;
use crate::policy::live::LivePolicy;
use crate::policy::sources::PolicySources;
use anyhow::Context as _;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A policy in force, of which nothing is kept yet.
pub(super) struct Released {
    policy: Arc<LivePolicy>,
    /// The configuration, and what the policy was made of.
    made_of: Option<(PathBuf, PolicySources)>,
}

impl Released {
    /// One that no file says.
    pub(super) fn unkept(policy: Arc<LivePolicy>) -> Self {
        Self {
            policy,
            made_of: None,
        }
    }

    /// The policy, as it is read by now.
    pub(super) fn current(&self) -> Arc<Policy> {
        self.policy.current()
    }

    /// Keeps its files in the data directory `data`, which has to be this process's own by now; from
    /// here on, also those of what comes in force later.
    pub(super) fn keep(self, data: &Path) -> Arc<LivePolicy> {
        if let Some((config, sources)) = self.made_of {
            let keeper = Box::new(ShelfKeeper::new(data, &config));
            self.policy.keep_with(keeper, &sources);
        }
        self.policy
    }
}

/// Why nothing is served: the packs, whose failures were said.
#[derive(Debug)]
pub(super) struct PacksFailed(String);

impl fmt::Display for PacksFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PacksFailed {}

/// The configuration that is meant, on the data directory that is meant, and its policy in force.
///
/// # Errors
/// [`PacksFailed`]: the packs that have to pass do not. Every problem is on standard error.
pub(super) fn load(place: &DataArgs) -> anyhow::Result<(Config, Released)> {
    let (path, loaded) = configured::load(place.config.as_deref())?;
    let Loaded {
        config, reading, ..
    } = loaded;
    let config = config.context("the configuration cannot be used")?;
    let config = place.apply(config)?;
    let packs = RequiredPacks::new(path.clone(), &config.data);
    let mut reading = packs.judge(reading);
    if reading.policy.is_none() {
        let errors = reading.diagnostics.iter();
        let errors = errors.filter(|one| one.severity == Severity::Error);
        let mut count = 0_usize;
        for error in errors {
            configured::say(&error.to_string());
            count += 1;
        }
        let problems = counted(count, "problem");
        let words = format!(
            "the policy of {} does not come in force: {problems}, shown above",
            path.display()
        );
        return Err(PacksFailed(words).into());
    }
    let sources = std::mem::take(&mut reading.sources);
    let again = config::reader(path.clone(), &config);
    let read = move || packs.judge(again());
    let policy = LivePolicy::start(reading, read).context("the policy cannot be used")?;
    Ok((
        config,
        Released {
            policy,
            made_of: Some((path, sources)),
        },
    ))
}
