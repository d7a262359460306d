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
        let terms = config.as_ref().map(|config| {
            in_force.tokens().put(config.admin.taken_tokens());
            config.admin.terms()
        });
        let mut later = Vec::new();
        if terms
            .as_ref()
            .is_some_and(|terms| in_force.would_open(terms))
        {
            later.push("the last operator is gone from `admin`".to_owned());
        } else if let Some(terms) = terms {
            let in_force = in_force.clone();
            reading.along = AlongWithPolicy::new(move || in_force.take(terms));
        }
        let now = config.map(|config| config.startup).unwrap_or_default();
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
        reading
    }
}
