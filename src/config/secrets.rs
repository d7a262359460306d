//! The secrets of the configuration: where each comes from, and the arguments it may go to.

use super::exposed;
use super::settings::{SecretPlaceSettings, SecretSettings};
use crate::guards::secrets::{
    Binding, Bindings, SECRET_NAME_CHARS_MAX, SecretSource, SecretTarget, is_name,
};
use crate::model::diagnostic::Problems;
use crate::model::ids::ServerName;
use crate::model::pointer::is_pointer;
use crate::model::times::between;
use crate::policy::shape::suggest;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Secrets at most, and arguments that one may go to.
const MAX_SECRETS: usize = 64;
const MAX_SECRET_PLACES: usize = 64;
/// For how long what a program printed is good.
const TTL_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
/// How long a program may take.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(5);
const PROGRAM_TIMEOUT_RANGE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(30);

pub(super) fn compile(
    written: BTreeMap<String, SecretSettings>,
    servers: &[ServerName],
    directory: &Path,
    problems: &mut Problems,
) -> Bindings {
    if written.len() > MAX_SECRETS {
        problems.error(
            format!("more than {MAX_SECRETS} secrets"),
            "run a second toolgate for some of them",
        );
    }
    let mut bindings = BTreeMap::new();
    for (name, settings) in written {
        problems.under(name.clone(), |problems| {
            if !is_name(&name) {
                let hint = format!("start with a letter; lower-case letters, digits and `_`, at most {SECRET_NAME_CHARS_MAX}");
                problems.error("is no name for a secret", hint);
            }
            let places = problems.under("for", |problems| places(&settings.places, servers, problems));
            if let Some(source) = source(settings, directory, problems) {
                bindings.insert(name.clone(), Arc::new(Binding { name, source, places }));
            }
        });
    }
    Bindings(bindings)
}

pub(super) fn source(
    settings: SecretSettings,
    directory: &Path,
    problems: &mut Problems,
) -> Option<SecretSource> {
    let SecretSettings {
        env,
        file,
        command,
        ttl,
        timeout,
        places: _,
    } = settings;
    if command.is_empty() && (ttl.is_some() || timeout.is_some()) {
        problems.error("`ttl` and `timeout` go with `command`", "take them away");
    }
    let (ttl, timeout) = (
        between("ttl", ttl.as_deref(), TTL_RANGE, problems).or_else(|| {
            if !command.is_empty() && ttl.is_none() {
                problems.error(
                    "`ttl` is missing",
                    "say for how long what the program printed is good, such as `5m`",
                );
            }
            None
        }),
        between(
            "timeout",
            timeout.as_deref(),
            PROGRAM_TIMEOUT_RANGE,
            problems,
        )
        .unwrap_or(PROGRAM_TIMEOUT),
    );
    match (env, file, command.is_empty()) {
        (Some(variable), None, true) => Some(of_variable(variable, problems)),
        (None, Some(file), true) => Some(of_file(&file, directory, problems)),
        (None, None, false) => Some(SecretSource::Command {
            cwd: judge_program(&command[0], directory, problems),
            run: command,
            ttl: ttl.unwrap_or(*TTL_RANGE.start()),
            timeout,
        }),
        (None, None, true) => {
            problems.error(
                "comes from nowhere",
                "write one of `env`, `file` and `command`",
            );
            None
        }
        _ => {
            problems.error(
                "comes from several places",
                "keep one of `env`, `file` and `command`",
            );
            None
        }
    }
}

fn of_variable(variable: String, problems: &mut Problems) -> SecretSource {
    if variable.is_empty() || variable.contains(['=', '\0']) {
        problems.under("env", |problems| {
            problems.error("is no name of a variable", "rename it");
        });
    }
    SecretSource::Variable(variable)
}

fn of_file(written: &str, directory: &Path, problems: &mut Problems) -> SecretSource {
    let file = directory.join(written);
    problems.under("file", |problems| {
        if written.trim().is_empty() {
            problems.error("is blank", "name a file");
        }
        judge_rights(&file, problems);
    });
    SecretSource::File(file)
}

/// Judges the program that prints a secret; where it runs.
fn judge_program(program: &str, directory: &Path, problems: &mut Problems) -> PathBuf {
    let cwd = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    problems.under("command", |problems| {
        if program.trim().is_empty() {
            problems.error("is blank", "name a program");
        }
        exposed::programs(program, None, Some(cwd), problems);
    });
    cwd.to_path_buf()
}

/// Who else has the secret, or says what it is. A file that comes later has no rights yet, but the
/// directories above it have.
fn judge_rights(file: &Path, problems: &mut Problems) {
    exposed::secret(file, problems);
    let Ok(known) = std::fs::metadata(file) else {
        return;
    };
    if known.permissions().mode() & 0o004 != 0 {
        let hint = format!("run `chmod o-r {}`", file.display());
        problems.warning("everybody on this machine may read this file", hint);
    }
}

fn places(
    written: &[SecretPlaceSettings],
    servers: &[ServerName],
    problems: &mut Problems,
) -> Vec<SecretTarget> {
    if written.is_empty() {
        problems.error(
            "may go nowhere",
            "list at least one { server, tool, pointer }",
        );
    }
    if written.len() > MAX_SECRET_PLACES {
        problems.error(
            format!("more than {MAX_SECRET_PLACES} places"),
            "give the tools of one kind a secret of their own",
        );
    }
    let known: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let mut places = Vec::new();
    for (
        index,
        SecretPlaceSettings {
            server,
            tool,
            pointer,
        },
    ) in written.iter().enumerate()
    {
        problems.under(index.to_string(), |problems| {
            if !known.contains(server) {
                let message = format!("the server `{server}` is not declared");
                problems.under("server", |problems| {
                    problems.error(message, suggest(server, &known));
                });
            }
            if tool.trim().is_empty() || tool.contains('*') {
                let hint = "write the server's own name for it, whole";
                problems.under("tool", |problems| {
                    problems.error("is no name of one tool", hint);
                });
            }
            if !is_pointer(pointer) {
                let hint = "write `/` and the argument's name, such as `/token`";
                problems.under("pointer", |problems| {
                    problems.error("not a JSON pointer to an argument", hint);
                });
            }
        });
        places.push(SecretTarget {
            server: ServerName::new(server),
            tool: tool.clone(),
            pointer: pointer.clone(),
        });
    }
    places
}
