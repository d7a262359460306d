//! Reads the configuration again while toolgate runs.

use super::{Admin, Config, Loaded, RESTART_KEYS, ReadTerms, environment, read};
use crate::admin::operators::in_force::OperatorsInForce;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::policy::live::{AlongWithPolicy, LoadResult};
use std::path::PathBuf;
use std::sync::Arc;

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
        if let Some(Config { admin, .. }) = &config
            && in_force.is_emptied_by(&admin.terms())
        {
            let words =
                "the last operator is gone from `admin`: nobody is let in by the operators' door";
            let hint = "name one; a restart without operators opens the door";
            later.push((words.to_owned(), hint));
        }
        let now = config
            .as_ref()
            .map(|config| config.startup.clone())
            .unwrap_or_default();
        let changed = RESTART_KEYS
            .iter()
            .filter(|key| !now.is_empty() && now.get(*key) != startup.get(*key));
        later.extend(changed.map(|key| (format!("`{key}` has changed"), "restart to apply it")));
        reading
            .diagnostics
            .extend(later.into_iter().map(|(message, hint)| Diagnostic {
                severity: Severity::Warning,
                file: path.display().to_string(),
                line: 0,
                column: 0,
                length: 0,
                message,
                hint: Some(hint.to_owned()),
            }));
        reading.along = config.map_or_else(AlongWithPolicy::default, |config| {
            along(config.admin, &in_force)
        });
        reading
    }
}

/// Tokens that are gone are taken no more, whatever becomes of the policy; who operators are comes with it.
fn along(admin: Admin, in_force: &OperatorsInForce) -> AlongWithPolicy {
    let admin = Arc::new(admin);
    let (gone, come) = ((admin.clone(), in_force.clone()), (admin, in_force.clone()));
    AlongWithPolicy::new(
        move || {
            let (admin, in_force) = gone;
            in_force.tokens().keep(admin.taken_tokens());
        },
        move || {
            let (admin, in_force) = come;
            let is_other = in_force.change(admin.terms());
            in_force.tokens().put(admin.taken_tokens());
            is_other
        },
    )
}
