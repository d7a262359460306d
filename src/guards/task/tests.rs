//! Names of tasks and sessions.

use super::*;
use crate::model::ids::{ActionId, ToolName, UserId};
use serde_json::json;
use std::time::Duration;

fn caller(agent: &str, tenant: Option<&str>) -> Caller {
    let tenant = tenant.map(TenantId::new);
    Caller {
        tenant,
        ..Caller::named(agent)
    }
}

fn call(session: Option<&str>, said: CallMeta) -> ToolCall {
    ToolCall {
        action: ActionId::generate(),
        tool: ToolName::new("a__b"),
        server: None,
        own_name: String::new(),
        arguments: Value::Null,
        request_id: String::new(),
        trace_id: "fresh".to_owned(),
        session: session.map(str::to_owned),
        revision: "2026-07-28",
        key_argument: None,
        key_taken: false,
        rewritten: None,
        arrived: Duration::ZERO,
        said,
    }
}

fn said(
    task: Option<Value>,
    session: Option<Value>,
    header: Option<&str>,
    trace: Option<&str>,
) -> CallMeta {
    let (session_header, trace) = (header.map(str::to_owned), trace.map(str::to_owned));
    CallMeta {
        task,
        session,
        session_header,
        trace,
        ..CallMeta::default()
    }
}

/// guarantees §5: the first of wire, `_meta`, header, trace and agent names the session; a task is
/// named, or the session.
#[test]
fn the_first_name_counts() {
    let some = |name: &str| Some(json!(name));
    let cases = [
        (
            call(Some("w"), said(some("t"), some("m"), Some("h"), Some("x"))),
            TaskSource::Task,
            TaskSource::Wire,
        ),
        (
            call(None, said(None, some("m"), Some("h"), Some("x"))),
            TaskSource::Meta,
            TaskSource::Meta,
        ),
        (
            call(None, said(some("t"), None, Some("h"), Some("x"))),
            TaskSource::Task,
            TaskSource::Header,
        ),
        (
            call(None, said(None, None, None, Some("x"))),
            TaskSource::Trace,
            TaskSource::Trace,
        ),
        (
            call(None, said(some("t"), None, None, None)),
            TaskSource::Task,
            TaskSource::Agent,
        ),
        (
            call(None, CallMeta::default()),
            TaskSource::Agent,
            TaskSource::Agent,
        ),
    ];
    for (index, (call, task, session)) in cases.into_iter().enumerate() {
        let found = Belonging::of(&caller("bot", None), &call).unwrap();
        assert_eq!(
            (found.task.source, found.session.source),
            (task, session),
            "{index}"
        );
        assert_eq!(found.task == found.session, task == session, "{index}");
    }
}

/// The agent that names it, and how, is part of a name: no agent names another's task.
#[test]
fn a_name_is_bound_to_its_agent() {
    let callers = [
        caller("bot", Some("t")),
        caller("bot", None),
        caller("bot", Some("")),
        caller("other", Some("t")),
    ];
    let name = Some(json!("n"));
    let calls = [
        call(Some("n"), CallMeta::default()),
        call(None, said(name.clone(), None, None, None)),
        call(None, said(None, name, None, None)),
        call(None, said(None, None, Some("n"), None)),
        call(None, said(None, None, None, Some("n"))),
        call(None, CallMeta::default()),
    ];
    let mut keys = Vec::new();
    for caller in &callers {
        for call in &calls {
            let key = Belonging::of(caller, call).unwrap().task.key;
            assert!(!keys.contains(&key), "{caller:?} {:?}", call.said);
            keys.push(key);
        }
    }
    let again = Belonging::of(&callers[0], &calls[0]).unwrap();
    assert_eq!(again.task.key, keys[0]);
}

/// guarantees §6: an account is one user's of one agent of one tenant, and no task's.
#[test]
fn an_account_is_bound_to_its_agent_tenant_and_user() {
    let of_user = |user: &str| caller("bot", Some("t")).for_user(UserId::new(user));
    let callers = [
        caller("bot", Some("t")),
        caller("bot", None),
        caller("bot", Some("")),
        caller("bot", Some("u")),
        caller("other", Some("t")),
        of_user("a"),
        of_user("b"),
        of_user("b").for_user(UserId::new("t")),
    ];
    let unnamed = call(None, CallMeta::default());
    let mut keys = Vec::new();
    for caller in &callers {
        let task = Belonging::of(caller, &unnamed).unwrap().task.key;
        for key in [account_of(caller), task] {
            assert!(!keys.contains(&key), "{caller:?}");
            keys.push(key);
        }
    }
    assert_eq!(account_of(&callers[0]), keys[0]);
}

#[test]
fn what_is_no_name_is_refused_and_not_repeated() {
    let bot = caller("bot", None);
    for bad in [
        json!(""),
        json!("n".repeat(129)),
        json!("a\nb"),
        json!(7),
        json!(null),
    ] {
        for call in [
            call(None, said(Some(bad.clone()), None, None, None)),
            call(None, said(None, Some(bad.clone()), None, None)),
        ] {
            let refusal = Belonging::of(&bot, &call).unwrap_err();
            assert_eq!(refusal.code(), "schema_invalid", "{bad}");
            assert!(
                refusal.words().contains("1 to 128 characters") && !refusal.words().contains("nn"),
                "{bad}"
            );
        }
    }
    assert!(Belonging::of(&bot, &call(None, said(None, None, Some("a\tb"), None))).is_err());
    assert!(
        Belonging::of(
            &bot,
            &call(None, said(Some(json!("顾".repeat(128))), None, None, None))
        )
        .is_ok()
    );
}
