//! What a person's word on a held call is bound to (guarantees §7): what makes it another call, and nothing else.

use super::*;
use crate::guards::Section as _;
use crate::model::diagnostic::Problems;
use crate::model::digest::Digest;
use serde_json::json;

/// What a policy is made of, as far as words can be bound to it.
struct BoundFiles {
    mode: Mode,
    configuration: Value,
    callers: Value,
    policy: String,
}

impl BoundFiles {
    fn new() -> Self {
        let place = |server: &str, tool: &str| json!([{ "server": server, "tool": tool, "pointer": "/key" }]);
        Self {
            mode: Mode::Enforce,
            configuration: json!({
                "listen": "127.0.0.1:7777",
                "admin": { "listen": "127.0.0.1:7778", "tokens": [{ "name": "ann", "token": "t", "roles": ["approver"] }] },
                "data": "data",
                "ledger": { "keep": "90d" },
                "notify": { "receivers": [] },
                "allowed_hosts": ["a"],
                "servers": {
                    "billing": {
                        "url": "http://a/", "headers": { "authorization": "${KEY}" }, "era": "auto", "timeout": "60s",
                        "message_max_bytes": 65536, "sandbox": { "landlock": {}, "rlimits": { "as": 1 } },
                    },
                    "fs": { "command": "fs", "args": ["/srv"] },
                },
                "secrets": {
                    "own": { "env": "KEY", "timeout": "5s", "for": place("billing", "create_invoice") },
                    "other": { "env": "KEY", "for": place("fs", "read") },
                },
                "hooks": [
                    { "name": "dlp", "url": "http://h/", "secret": "s", "on": "before", "tools": ["billing__*"], "timeout": "1s" },
                    { "name": "siem", "url": "http://i/", "secret": "s", "on": "after", "tools": ["billing__*"] },
                    { "name": "fs", "url": "http://j/", "secret": "s", "on": "before", "tools": ["fs__*"] },
                ],
            }),
            callers: json!([
                { "agent": "lead-bot", "token": "token-of-the-lead-bot", "tenant": "t_1", "roles": ["billing_admin", "clerk"] },
                {
                    "agent": "support-bot", "token": "token-of-the-support-bot", "tenant": "t_1",
                    "roles": ["billing_admin"], "parent": "lead-bot",
                },
                { "agent": "support-bot", "token": "token-of-another-tenant", "tenant": "t_2" },
            ]),
            policy: GOOD_POLICY.to_owned(),
        }
    }

    /// What a word on a call of the bot of the first tenant is bound to.
    fn bound(&self) -> Digest {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("good.yaml"), &self.policy).unwrap();
        let mut problems = Problems::default();
        let callers = identity::Settings {
            callers: serde_json::from_value(self.callers.clone()).unwrap(),
            ..identity::Settings::default()
        };
        let identity = callers.compile(&mut problems);
        let found = problems.into_found();
        assert!(found.is_empty(), "{found:?}");
        let input = CompileInput {
            written: self.configuration.clone(),
            identity,
            ..basis(directory.path(), self.mode)
        };
        let policy = compile(input, Vec::new()).policy.unwrap();
        let tool = ToolName::new("billing__create_invoice");
        policy.bound_to(&tool, "support-bot", Some("t_1"))
    }

    /// The same after the value at `pointer` of the configuration is another.
    fn configured(pointer: &str, value: Value) -> Digest {
        let mut files = Self::new();
        *files.configuration.pointer_mut(pointer).unwrap() = value;
        files.bound()
    }

    /// The same after callers were edited.
    fn called(edit: impl FnOnce(&mut Value)) -> Digest {
        let mut files = Self::new();
        edit(&mut files.callers);
        files.bound()
    }

    /// The same after the policy file was.
    fn written(from: &str, to: &str) -> Digest {
        let mut files = Self::new();
        assert!(files.policy.contains(from), "{from}");
        files.policy = files.policy.replace(from, to);
        files.bound()
    }
}

/// guarantees §7: what is said of the tool, its server, its secrets and what is asked before it is part of what
/// was allowed; so is the mode.
#[test]
fn what_makes_it_another_call_voids_a_word() {
    let asked = BoundFiles::new().bound();
    for (pointer, value) in [
        ("/servers/billing/url", json!("http://b/")),
        (
            "/servers/billing/headers/authorization",
            json!("${OTHER_KEY}"),
        ),
        ("/servers/billing/era", json!("legacy")),
        ("/servers/billing/sandbox/landlock", json!({ "read": [] })),
        ("/secrets/own/env", json!("OTHER_KEY")),
        ("/secrets/own/for/0/pointer", json!("/other")),
        ("/hooks/0/url", json!("http://k/")),
        ("/hooks/0/tools/0", json!("fs__*")),
        ("/hooks/1/on", json!("before")),
        ("/hooks/2/tools/0", json!("billing__create_invoice")),
    ] {
        assert_ne!(BoundFiles::configured(pointer, value), asked, "{pointer}");
    }
    let contract = BoundFiles::written("Create a draft invoice", "Create an invoice");
    assert_ne!(contract, asked, "another contract");
    let observed = BoundFiles {
        mode: Mode::Observe,
        ..BoundFiles::new()
    };
    assert_ne!(observed.bound(), asked, "another mode");
}

/// guarantees §7: an edit of anything else voids nothing.
#[test]
fn an_edit_of_something_else_voids_no_word() {
    let asked = BoundFiles::new().bound();
    for (pointer, value) in [
        ("/listen", json!("127.0.0.1:7000")),
        ("/admin/listen", json!("127.0.0.1:7001")),
        ("/admin/tokens/0/token", json!("another")),
        ("/data", json!("elsewhere")),
        ("/ledger/keep", json!("80d")),
        ("/notify/receivers", json!([{ "name": "chat" }])),
        ("/allowed_hosts", json!([])),
        ("/servers/billing/timeout", json!("30s")),
        ("/servers/billing/message_max_bytes", json!(131_072)),
        ("/servers/billing/sandbox/rlimits/as", json!(2)),
        ("/servers/fs/args", json!(["/home"])),
        ("/secrets/own/timeout", json!("6s")),
        ("/secrets/other/env", json!("OTHER_KEY")),
        ("/hooks/0/secret", json!("rotated")),
        ("/hooks/0/timeout", json!("2s")),
        ("/hooks/1/url", json!("http://k/")),
        ("/hooks/2/url", json!("http://k/")),
    ] {
        assert_eq!(BoundFiles::configured(pointer, value), asked, "{pointer}");
    }
    let other_tool = BoundFiles::written("Show one.", "Show an invoice.");
    assert_eq!(other_tool, asked, "another tool's contract");
    let layers = BoundFiles::written("*__drop_*", "*__wipe_*");
    assert_eq!(layers, asked, "layers are asked anew");
}

/// guarantees §7: what the configuration makes of the agent is part of it, also by those that start it.
#[test]
fn what_an_agent_is_counts() {
    let asked = BoundFiles::new().bound();
    for (index, key, value) in [
        (1, "roles", json!(["billing_admin", "clerk"])),
        (1, "owner", json!(true)),
        (1, "group", json!("support")),
        (1, "model", json!("openai/gpt-5")),
        (1, "environment", json!("production")),
        (1, "profile", json!("coding")),
        (1, "users", json!("meta")),
        (1, "parent", Value::Null),
        (1, "tenant", json!("t_3")),
        (0, "roles", json!(["billing_admin"])),
    ] {
        let edit = |callers: &mut Value| {
            callers[index][key] = value;
            // A child has no more than its parent.
            if key == "owner" {
                callers[0][key] = json!(true);
            }
            if key == "tenant" {
                callers[0][key] = Value::Null;
            }
        };
        assert_ne!(BoundFiles::called(edit), asked, "{index} {key}");
    }
    let gone = BoundFiles::called(|callers| {
        callers.as_array_mut().unwrap().remove(1);
    });
    assert_ne!(gone, asked, "no such agent");
}

/// guarantees §7: how an agent proves itself, how much it may send, what it is shown and what others are, is not.
#[test]
fn how_an_agent_proves_itself_does_not_count() {
    let asked = BoundFiles::new().bound();
    for (index, key, value) in [
        (1, "token", json!("another-token-of-the-bot")),
        (1, "rate", json!({ "calls": 5, "per": "1m" })),
        (1, "limits", json!({ "calls": 5, "per": "1m" })),
        (2, "roles", json!(["clerk"])),
        (0, "token", json!("another-token-of-the-lead")),
    ] {
        let edit = |callers: &mut Value| callers[index][key] = value;
        assert_eq!(BoundFiles::called(edit), asked, "{index} {key}");
    }
    // While a token is changed for another, both are there.
    let both = BoundFiles::called(|callers| {
        let mut second = callers[1].clone();
        second["token"] = json!("another-token-of-the-bot");
        callers.as_array_mut().unwrap().push(second);
    });
    assert_eq!(both, asked, "a second token");
}
