//! Reads the configuration again while toolgate runs.

use super::{Config, Loaded, RESTART_KEYS, ReadTerms, environment, read};
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::live::{AlongWithPolicy, LoadResult};
use std::path::PathBuf;

/// Reads the files again and again for [`LivePolicy`](crate::policy::live::LivePolicy): what only a restart
/// applies is a warning; changed tokens of operators are taken at once, and other operators, roles and issuers with the
/// policy.
pub(crate) fn reader(
    path: PathBuf,
    running: &Config,
) -> impl Fn() -> LoadResult + Send + Sync + 'static {
    let (startup, in_force) = (running.startup.clone(), running.admin.in_force.clone());
    let terms = ReadTerms {
        with_tls_files: false,
        ..ReadTerms::WHOLE
    };
    move || {
        let Loaded {
            config,
            mut reading,
            ..
        } = read(&path, &environment, terms).0;
        let mut later = Vec::new();
        if let Some(Config { admin, .. }) = &config {
            // What is taken away is gone at once, whatever becomes of the policy.
            in_force.tokens().keep(admin.taken_tokens());
            if in_force.is_emptied_by(&admin.terms()) {
                let words = "the last operator is gone from `admin`: nobody is let in by the operators' door";
                later.push(words.to_owned());
            }
        }
        let now = config
            .as_ref()
            .map(|config| config.startup.clone())
            .unwrap_or_default();
        let changed = RESTART_KEYS
            .iter()
            .filter(|key| !now.is_empty() && now.get(*key) != startup.get(*key));
        later.extend(changed.map(|key| format!("`{key}` has changed")));
        reading
            .diagnostics
            .extend(later.into_iter().map(|message| Diagnostic {
                severity: Severity::Warning,
                file: path.display().to_string(),
                line: 0,
                column: 0,
                length: 0,
                message,
                hint: Some("restart to apply it".to_owned()),
            }));
        reading.along = config.map_or_else(AlongWithPolicy::default, |config| {
            let in_force = in_force.clone();
            AlongWithPolicy::new(move || {
                let is_other = in_force.take(config.admin.terms());
                in_force.tokens().put(config.admin.taken_tokens());
                is_other
            })
        });
        reading
    }
}
