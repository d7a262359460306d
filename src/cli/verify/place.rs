//! Where verifying takes place: a directory of its own, which goes when it is over, and the configuration as it is run
//! there, with nothing in it that leads anywhere else.

use super::echo::EchoServer;
use crate::config::{Config, Ledger, ServerCredentials, TransportConfig};
use crate::guards::secrets::Bindings;
use crate::guards::{hooks, repetition};
use crate::model::ids::unguessable;
use crate::owners::private::PRIVATE_DIRECTORY_MODE;
use crate::policy::Policy;
use crate::policy::live::{AlongWithPolicy, LivePolicy, LoadResult};
use crate::policy::sources::{PackTerms, PolicySources};
use crate::upstream::server_settings::EraChoice;
use anyhow::Context as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;

/// A directory that is removed with all that is in it.
pub(super) struct TrialDirectory(PathBuf);

impl TrialDirectory {
    /// A new one, below the system's directory for such files.
    pub(super) fn make() -> anyhow::Result<Self> {
        let above = std::env::temp_dir();
        let path = above.join(format!("toolgate-verify-{}", unguessable()));
        let made = DirBuilder::new().mode(PRIVATE_DIRECTORY_MODE).create(&path);
        made.with_context(|| {
            let above = above.display();
            format!("{above} cannot be written: name another directory in TMPDIR")
        })?;
        Ok(Self(path))
    }

    /// The data directory in it.
    pub(super) fn data_dir(&self) -> PathBuf {
        self.0.join("data")
    }
}

impl Drop for TrialDirectory {
    fn drop(&mut self) {
        // Nothing in it is anybody's; what cannot be removed is the system's to clear away.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The configuration as it is run in `data`: each server is the one that counts, and nobody hears of anything.
pub(super) fn own(mut config: Config, data: PathBuf, echo: &EchoServer) -> anyhow::Result<Config> {
    config.data = data;
    config.ledger = Ledger::default();
    config.notify.clear();
    config.reconcile = None;
    for (name, server) in &mut config.servers {
        server.transport = TransportConfig::Http {
            url: echo.url(name)?,
            headers: BTreeMap::new(),
            credentials: ServerCredentials::default(),
        };
        server.era = EraChoice::Auto;
    }
    Ok(config)
}

/// The policy as it is run there: no hook is asked, no secret is fetched, no breaker takes tools away because of what is
/// tried, and equal calls are made again and again.
pub(super) fn trial_policy(policy: &Policy) -> Policy {
    Policy {
        hooks: hooks::Rule::default(),
        secrets: Bindings::default(),
        breakers: Vec::new(),
        repetition: repetition::Rule::default(),
        ..policy.clone()
    }
}

/// That policy in force. Its files are followed by nobody, so that `read` is never asked.
pub(super) fn in_force(
    policy: Policy,
    read: impl Fn() -> LoadResult + Send + Sync + 'static,
) -> anyhow::Result<Arc<LivePolicy>> {
    let first = LoadResult {
        policy: Some(policy),
        diagnostics: Vec::new(),
        fingerprint: [0; 32],
        watched: BTreeSet::new(),
        files: BTreeSet::new(),
        packs: PackTerms::OnDemand,
        sources: PolicySources::default(),
        along: AlongWithPolicy::default(),
    };
    LivePolicy::start(first, read).context("the policy cannot be used")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody else can look into it, and nothing of it stays.
    #[test]
    fn its_directory_is_private_and_goes() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = TrialDirectory::make().unwrap();
        let path = directory.0.clone();
        fs::create_dir(directory.data_dir()).unwrap();
        fs::write(directory.data_dir().join("file"), "").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        drop(directory);
        assert!(!path.exists());
    }
}
