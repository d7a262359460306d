//! Whatever changes something says who may call it, and how it is undone: by a call, by a person,
//! by nothing because nothing is lost, or not at all (003-15, 003-19, 003-52, 003-64).

use super::undo_arguments::judge_arguments;
use super::undo_check;
use crate::guards::permission;
use crate::guards::rollback::{Rollback, Undo};
use crate::model::diagnostic::Problems;
use crate::model::ids::{self, ServerName, ToolName};
use crate::model::times::between;
use crate::policy::file::{Contract, RollbackSettings, SideEffect};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Actions that take something away, which is then lost.
const LOSING_ACTIONS: [&str; 2] = ["delete", "pay"];
/// For how long after its end a call can be taken back, where nothing is said.
const DEFAULT_ROLLBACK_WITHIN: Duration = Duration::from_hours(24);
const ROLLBACK_WITHIN_BOUNDS: RangeInclusive<Duration> =
    Duration::from_mins(1)..=Duration::from_hours(24 * 30);

/// Is there an action besides reading?
pub(super) fn changes(actions: &[String]) -> bool {
    actions.iter().any(|action| action != "read")
}

/// How the effect is undone. Of several words, which is an error, the one that asks most counts.
pub(super) fn undo(side_effect: Option<&SideEffect>, additive: bool, irreversible: bool) -> Undo {
    let rollback = side_effect.and_then(|effect| effect.rollback.as_ref());
    match rollback {
        _ if irreversible => Undo::Irreversible,
        Some(RollbackSettings {
            tool: Some(tool),
            arguments,
            within,
            verify,
            agent,
            ..
        }) => Undo::Call(Rollback {
            by_agent: agent.unwrap_or_default(),
            tool: ToolName::new(tool),
            arguments: arguments.clone(),
            // What is wrong with it is told where the contract is judged.
            within: written_within(within.as_deref(), &mut Problems::default()),
            check: verify.as_ref().map(undo_check::compiled).map(Box::new),
        }),
        Some(RollbackSettings {
            manual: Some(how), ..
        }) => Undo::Manual(how.clone()),
        _ if additive => Undo::Additive,
        _ => Undo::Unsaid,
    }
}

/// For how long after its end a call can be taken back.
fn written_within(within: Option<&str>, problems: &mut Problems) -> Duration {
    let within = between("within", within, ROLLBACK_WITHIN_BOUNDS, problems);
    within.unwrap_or(DEFAULT_ROLLBACK_WITHIN)
}

/// The keys by which `contract` says how its effect is undone.
fn undo_words(contract: &Contract) -> Vec<&'static str> {
    let Contract {
        side_effect,
        additive,
        irreversible,
        ..
    } = contract;
    let rollback = side_effect
        .as_ref()
        .and_then(|effect| effect.rollback.as_ref());
    [
        rollback.map(|_| "side_effect.rollback"),
        additive.then_some("additive"),
        irreversible.then_some("irreversible"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a contract says of its effect agrees with itself.
pub(super) fn judge(contract: &Contract, servers: &[ServerName], problems: &mut Problems) {
    let Contract {
        actions,
        side_effect,
        additive,
        irreversible,
        ..
    } = contract;
    if (side_effect.is_some() || *additive || *irreversible) && !changes(actions) {
        let hint = "name the action that changes something, or take `side_effect`, `additive` and `irreversible` away";
        problems.under("actions", |problems| {
            problems.error("only `read`, yet the contract tells of an effect", hint);
        });
    }
    let words = undo_words(contract);
    if let [.., other, last] = words.as_slice() {
        let message = format!("says otherwise than `{other}` how the effect is undone");
        problems.under(*last, |problems| {
            problems.error(message, "keep the one that is true");
        });
    }
    let Some(SideEffect { writes, rollback }) = side_effect else {
        return;
    };
    problems.under("side_effect", |problems| {
        if writes.trim().is_empty() {
            problems.under("writes", |problems| {
                problems.error("is blank", "say what a call changes");
            });
        }
        let Some(rollback) = rollback else { return };
        problems.under("rollback", |problems| {
            judge_rollback(rollback, servers, problems);
        });
    });
}

/// What changes something says who may call it, and how it is undone. `contract` is a whole one, or
/// what holds for one case of it.
pub(super) fn judge_said(contract: &Contract, problems: &mut Problems) {
    let Contract {
        actions,
        permission,
        owner_only,
        additive,
        ..
    } = contract;
    if !changes(actions) {
        return;
    }
    if !permission.says_who() && !owner_only {
        let hint = format!(
            "add who may call: `roles`, a `tenant` or a `resource`; `permission: {}` says that every caller may who sees the tool",
            permission::ANYONE_WORD
        );
        problems.error("missing `permission`", hint);
    }
    if undo_words(contract).is_empty() {
        let hint = "say how it is undone: `side_effect.rollback` with the `tool` that takes it back, or with `manual` and how a \
                    person does; `additive: true` if nothing is lost; `irreversible: true`, and a person has to allow each call";
        problems.error(
            "missing one of `side_effect.rollback`, `additive` and `irreversible`",
            hint,
        );
    }
    let losing = actions
        .iter()
        .find(|action| LOSING_ACTIONS.contains(&action.as_str()));
    if let (true, Some(action)) = (additive, losing) {
        let hint = "name in `side_effect` the `rollback` that brings it back, or write `irreversible: true`";
        problems.under("additive", |problems| {
            problems.error(format!("yet `{action}` takes something away"), hint);
        });
    }
}

/// Either a call or a person takes the effect back.
fn judge_rollback(rollback: &RollbackSettings, servers: &[ServerName], problems: &mut Problems) {
    let RollbackSettings {
        tool,
        arguments,
        manual,
        within: _,
        verify: _,
        agent: _,
    } = rollback;
    judge_of_call(rollback, servers, problems);
    match (tool, manual) {
        (Some(_), Some(_)) => problems.error(
            "has a `tool`, and `manual` as well",
            "keep the one that is true",
        ),
        (None, None) => problems.error(
            "names nothing that takes the effect back",
            "add `tool: server__tool`, or `manual` and how a person does it",
        ),
        (None, Some(_)) if !arguments.is_empty() => problems.under("arguments", |problems| {
            problems.error("belong to a call, and there is no `tool`", "add `tool`");
        }),
        (Some(_), None) | (None, Some(_)) => {}
    }
    if manual.as_ref().is_some_and(|how| how.trim().is_empty()) {
        problems.under("manual", |problems| {
            problems.error("is blank", "say how a person takes it back");
        });
    }
    if tool.as_ref().is_some_and(|tool| tool.contains('*')) {
        problems.under("tool", |problems| {
            let hint = "name the one tool that takes the effect back";
            problems.error(
                "is a pattern, and no call is made to all of its tools",
                hint,
            );
        });
        return;
    }
    let unknown = tool
        .as_ref()
        .filter(|tool| ids::server_of(tool, servers).is_none());
    if let Some(tool) = unknown {
        problems.under("tool", |problems| {
            problems.error(
                format!("`{tool}` is no tool of a declared server"),
                "name it `server__tool`",
            );
        });
    }
    problems.under("arguments", |problems| {
        judge_arguments(arguments, problems);
    });
}

/// What only a call has.
fn judge_of_call(rollback: &RollbackSettings, servers: &[ServerName], problems: &mut Problems) {
    let RollbackSettings {
        tool: _,
        arguments: _,
        manual,
        within,
        verify,
        agent,
    } = rollback;
    written_within(within.as_deref(), problems);
    if let Some(check) = verify {
        problems.under("verify", |problems| {
            undo_check::judge(check, servers, problems);
        });
    }
    let written = [
        ("within", within.is_some()),
        ("verify", verify.is_some()),
        ("agent", agent.is_some()),
    ];
    let written = written.into_iter().filter(|(_, is_written)| *is_written);
    for (key, _) in written.filter(|_| manual.is_some()) {
        problems.under(key, |problems| {
            problems.error("belongs to a call, and there is no `tool`", "add `tool`");
        });
    }
}
