//! A pack as written → as run. All problems at once.

use super::drilled::DrillTerms;
use super::written::{PackFile, PackSample, PackServer, PackTaskState};
use super::{EXPECT_ALLOW, Pack, PosedCall, TaskBefore};
use crate::guards::Section as _;
use crate::guards::budget::in_micros;
use crate::guards::identity::{self, CallerSettings, behind};
use crate::guards::secrets::is_name;
use crate::model::caller::Caller;
use crate::model::diagnostic::{Problem, Problems};
use crate::model::ids::{ServerName, ToolName};
use crate::model::secret::Secret;
use crate::model::times::between;
use crate::policy::locate::YamlDocument;
use crate::schema::Schema;
use crate::store::state::budget::MAX_SEEN_CALLS;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const ELAPSED_BOUNDS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_hours(24 * 365);
/// Calls, steps and failures of a task at most; far beyond every budget, and far from where
/// counting ends.
const MAX_TASK_COUNT: u64 = 1 << 40;

/// What a file says, as far as it can be read.
pub(super) struct Parts {
    pack: String,
    policies: Vec<String>,
    secrets: Vec<String>,
    servers: BTreeMap<String, PackServer>,
    callers: BTreeMap<String, CallerSettings>,
    /// With their places in the file.
    samples: Vec<(usize, PackSample)>,
}

impl From<PackFile> for Parts {
    fn from(file: PackFile) -> Self {
        let PackFile {
            pack,
            policies,
            secrets,
            servers,
            callers,
            samples,
        } = file;
        Self {
            pack,
            policies,
            secrets,
            servers,
            callers,
            samples: samples.into_iter().enumerate().collect(),
        }
    }
}

impl Parts {
    /// What is left of a file whose shape is wrong.
    pub(super) fn rest(tree: &Value) -> Self {
        let samples = tree["samples"].as_array().into_iter().flatten().enumerate();
        Self {
            pack: String::new(),
            policies: part(&tree["policies"]).unwrap_or_default(),
            secrets: part(&tree["secrets"]).unwrap_or_default(),
            servers: parts(&tree["servers"]),
            callers: parts(&tree["callers"]),
            samples: samples
                .filter_map(|(index, sample)| Some((index, part(sample)?)))
                .collect(),
        }
    }
}

fn part<T: DeserializeOwned>(tree: &Value) -> Option<T> {
    serde_json::from_value(tree.clone()).ok()
}

fn parts<T: DeserializeOwned>(tree: &Value) -> BTreeMap<String, T> {
    let named = tree.as_object().into_iter().flatten();
    named
        .filter_map(|(name, tree)| Some((name.clone(), part(tree)?)))
        .collect()
}

/// Compiles what `parts` say. What is wrong in a caller is `found`, because callers are judged as a
/// configuration's.
pub(super) fn compile(
    path: &Path,
    document: YamlDocument,
    parts: Parts,
    problems: &mut Problems,
    found: &mut Vec<Problem>,
) -> Pack {
    let Parts {
        pack,
        policies,
        secrets,
        servers,
        callers,
        samples,
    } = parts;
    problems.under("secrets", |problems| {
        judge_secrets(&secrets, policies.is_empty(), problems);
    });
    let policies = problems.under("policies", |problems| {
        self::policies(&policies, path, problems)
    });
    let mut listed = HashSet::new();
    let mut schemas = HashMap::new();
    let declared = servers
        .keys()
        .map(|server| ServerName::new(server))
        .collect();
    problems.under("servers", |problems| {
        for (name, server) in servers {
            let name = ServerName::new(&name);
            if !server.tools.is_empty() {
                listed.insert(name.clone());
            }
            problems.under(name.as_str(), |problems| {
                add_tools(&name, server, &mut schemas, problems);
            });
        }
    });
    let callers = callers
        .into_iter()
        .filter_map(|(name, settings)| Some((name.clone(), caller(&name, settings, found)?)));
    let callers: BTreeMap<String, Arc<Caller>> = callers.collect();
    let mut names = HashSet::new();
    let samples = samples.into_iter().map(|(index, sample)| {
        problems.under(format!("samples[{index}]"), |problems| {
            if !names.insert(sample.name.clone()) {
                problems.under("name", |problems| {
                    problems.error("another sample has this name", "say what is special");
                });
            }
            pose(sample, problems)
        })
    });
    let samples = samples.collect();
    let file = path.to_path_buf();
    Pack {
        name: pack,
        file,
        policies,
        secrets,
        samples,
        callers,
        servers: declared,
        listed,
        schemas,
        document,
    }
}

fn policies(written: &[String], pack: &Path, problems: &mut Problems) -> Vec<PathBuf> {
    let beside = pack.parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for (index, text) in written.iter().enumerate() {
        let path = beside.join(text);
        if text.trim().is_empty() || !path.exists() {
            problems.under(index.to_string(), |problems| {
                let message = format!("`{}` does not exist", path.display());
                problems.error(
                    message,
                    "name a policy file or a directory, from the directory of this file",
                );
            });
        } else {
            found.push(path);
        }
    }
    found
}

fn judge_secrets(written: &[String], has_configuration: bool, problems: &mut Problems) {
    if has_configuration && !written.is_empty() {
        problems.error(
            "the configuration says which secrets there are",
            "take `secrets` away, or name `policies`",
        );
    }
    for (index, name) in written.iter().enumerate() {
        if !is_name(name) {
            let hint = "a name is lower-case letters, digits and `_`, and begins with a letter";
            problems.under(index.to_string(), |problems| {
                problems.error("is no secret's name", hint);
            });
        }
    }
}

fn add_tools(
    server: &ServerName,
    PackServer { tools }: PackServer,
    schemas: &mut HashMap<ToolName, Schema>,
    problems: &mut Problems,
) {
    for (index, tool) in tools.into_iter().enumerate() {
        problems.under(
            format!("tools[{index}]"),
            |problems| match Schema::compile(&Value::Object(tool.input_schema)) {
                Ok(schema) => {
                    if schemas
                        .insert(ToolName::of(server, &tool.name), schema)
                        .is_some()
                    {
                        let hint = "keep one of them";
                        problems.under("name", |problems| {
                            problems.error("another tool has this name", hint);
                        });
                    }
                }
                Err(reason) => problems.under("inputSchema", |problems| {
                    let message = format!("the tool would be quarantined: {reason}");
                    problems.error(message, "write the schema as the tool server does");
                }),
            },
        );
    }
}

/// Judged as a caller of a configuration, with a token that nothing ever shows.
fn caller(name: &str, settings: CallerSettings, found: &mut Vec<Problem>) -> Option<Arc<Caller>> {
    let mut problems = Problems::default();
    let has_proof = settings.token.is_some()
        || !settings.previous.is_empty()
        || settings.certificate.is_some()
        || settings.front_end.is_some();
    if has_proof {
        let hint =
            "take `token`, `previous`, `certificate` and `front_end` away: no agent calls here";
        problems.under("callers", |problems| {
            problems.under("0", |problems| problems.error("proves who calls", hint));
        });
    }
    let token = "a token of a test pack";
    let settings = CallerSettings {
        token: Some(Secret::new(token.to_owned())),
        front_end: None,
        ..settings
    };
    let rule = identity::Settings {
        callers: vec![settings],
        ..identity::Settings::default()
    }
    .compile(&mut problems);
    let named = |problem: Problem| {
        let rest = problem.path.iter().skip(2).cloned();
        let path = ["callers", name]
            .map(str::to_owned)
            .into_iter()
            .chain(rest)
            .collect();
        Problem { path, ..problem }
    };
    found.extend(problems.into_found().into_iter().map(named));
    let found = rule.identify(Some(token), |_| None).ok();
    found.map(|found| found.caller)
}

fn pose(sample: PackSample, problems: &mut Problems) -> PosedCall {
    let PackSample {
        name,
        caller,
        user,
        tool,
        arguments,
        key,
        state,
        expect,
        because,
        repro,
        fix_ref,
        drill,
    } = sample;
    let asks_for = user.and_then(|name| {
        let named = behind::user_named(&name);
        if named.is_none() {
            let hint = "write 1 to 256 bytes that can be seen, without blanks around them";
            problems.under("user", |problems| {
                problems.error("is no name of a user", hint);
            });
        }
        named
    });
    let before = problems.under("state", |problems| {
        before(state.unwrap_or_default(), problems)
    });
    if repro.is_some() && fix_ref.is_none() {
        let hint = "add `fix_ref`: the change or the version that has mended it";
        problems.under("repro", |problems| {
            problems.warning("nothing says what has mended this", hint);
        });
    }
    PosedCall {
        name,
        caller,
        user: asks_for,
        tool: ToolName::new(&tool),
        arguments: Value::Object(arguments),
        key: key.map(Value::String),
        before,
        expect: Some(expect).filter(|code| code != EXPECT_ALLOW),
        because,
        repro,
        drill: drill.map(DrillTerms::from),
    }
}

fn before(state: PackTaskState, problems: &mut Problems) -> TaskBefore {
    let PackTaskState {
        calls_used,
        calls_now,
        tool_calls,
        steps_used,
        ..
    } = state;
    let PackTaskState {
        cost_used,
        elapsed,
        failures,
        failures_in_a_row,
        tool_failures,
        drafted,
        approved,
        repeated,
        refused,
        ..
    } = state;
    let cost = in_micros(cost_used).unwrap_or_else(|| {
        let hint = "write a number from 0 to 1000000000000, with up to six decimals";
        problems.under("cost_used", |problems| problems.error("is no cost", hint));
        0
    });
    let elapsed =
        between("elapsed", elapsed.as_deref(), ELAPSED_BOUNDS, problems).unwrap_or_default();
    let mut remembered = |key: &str, number: u64| {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if number > MAX_SEEN_CALLS {
            let hint = format!("so many calls of a task are remembered: {MAX_SEEN_CALLS}");
            problems.under(key, |problems| problems.error("is out of bounds", hint));
        }
        number.min(MAX_SEEN_CALLS)
    };
    let (repeated, refused) = (
        remembered("repeated", repeated),
        remembered("refused", refused),
    );
    let calls = calls_used.max(calls_now).min(MAX_TASK_COUNT);
    let tool_calls = tool_calls.unwrap_or(calls).min(MAX_TASK_COUNT);
    TaskBefore {
        elapsed: u64::try_from(elapsed.as_millis()).unwrap_or(MAX_TASK_COUNT),
        steps: steps_used.unwrap_or(tool_calls).min(MAX_TASK_COUNT),
        tool_calls,
        calls,
        calls_now: calls_now.min(MAX_TASK_COUNT),
        cost,
        failures: failures
            .unwrap_or(failures_in_a_row.max(tool_failures))
            .min(MAX_TASK_COUNT),
        failures_in_a_row: failures_in_a_row.min(MAX_TASK_COUNT),
        tool_failures: tool_failures.min(MAX_TASK_COUNT),
        is_drafted: drafted,
        is_approved: approved,
        repeated,
        refused,
    }
}
