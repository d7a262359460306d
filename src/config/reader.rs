//! Reads the configuration again while toolgate runs.

use super::{Config, Loaded, RESTART_KEYS, ReadTerms, environment, read};
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::live::LoadResult;
use std::path::PathBuf;

/// Reads the files again and again for [`LivePolicy`](crate::policy::live::LivePolicy): what only a restart
/// applies is a warning, and changed tokens of operators are taken at once.
pub(crate) fn reader(
    path: PathBuf,
    running: &Config,
) -> impl Fn() -> LoadResult + Send + Sync + 'static {
    let (startup, live) = (running.startup.clone(), running.admin.live.clone());
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
        if let Some(config) = &config {
            live.put(config.admin.taken_tokens());
        }
        let now = config.map(|config| config.startup).unwrap_or_default();
        let changed = RESTART_KEYS
            .iter()
            .filter(|key| !now.is_empty() && now.get(*key) != startup.get(*key));
        reading.diagnostics.extend(changed.map(|key| Diagnostic {
            severity: Severity::Warning,
            file: path.display().to_string(),
            line: 0,
            column: 0,
            length: 0,
            message: format!("`{key}` has changed"),
            hint: Some("restart to apply it".to_owned()),
        }));
        reading
    }
}
