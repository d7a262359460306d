//! Each reason for which a grant can cover no call, and none for one that can.

use super::*;
use crate::config::{self, Loaded};
use crate::guards::pins::Pin;
use crate::mcp::json::Text;
use crate::model::amount::Amount;
use crate::model::ids::{ActionId, ServerName, ToolName};
use crate::policy::pins::written;
use crate::schema::schema_hash;
use crate::store::state::grant::{ArgumentConstraint, ArgumentRule, GrantScope};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

const CONFIG: &str = "servers: { bank: { url: \"http://127.0.0.1:9/mcp\" } }
callers:
  - { agent: bot, token: token-of-the-agent-bot, tenant: t_1, roles: [teller] }
  - { agent: cat, token: token-of-the-agent-cat, tenant: t_1 }
admin: { tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [finance] } ] }
policies: [p.yaml]
pins: pins.yaml
";

const POLICY: &str = "contracts:
  bank__pay: { purpose: Pay a bill., actions: [pay], permission: { roles: [teller] }, arguments: { properties: { amount: { maximum: 900 } } }, \
side_effect: { writes: bills, rollback: { tool: bank__undo } }, secrets: [], approval: { approvers: [finance], ask: on-miss } }
  bank__wipe: { purpose: Wipe it., actions: [delete], permission: anyone, irreversible: true, secrets: [], approval: { approvers: [finance] } }
  bank__look: { purpose: Look., actions: [read], permission: anyone, secrets: [] }
  bank__undo: { purpose: Undo it., actions: [write], permission: anyone, irreversible: true, secrets: [], approval: { approvers: [finance] } }
";

fn definition(tool: &str) -> Value {
    if tool == "undo" {
        return json!({ "name": tool, "inputSchema": { "type": "object" } });
    }
    json!({ "name": tool, "description": "d", "inputSchema": { "type": "object", "required": ["amount"], "properties": {
        "amount": { "type": "integer", "minimum": 10 }, "to": { "type": "string", "maxLength": 8 } } } })
}

/// The files of a toolgate, and the policy that they say.
struct GrantStand {
    place: tempfile::TempDir,
    policy: Policy,
    approvers: Approvers,
}

impl GrantStand {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let pin = |tool: &str| {
            let pin = Pin {
                digest: schema_hash(&definition(tool)),
                definition: Text::of(&definition(tool)),
            };
            ((ServerName::new("bank"), tool.to_owned()), pin)
        };
        let pins = ["pay", "wipe", "look", "undo"].map(pin);
        let pins = written(&BTreeMap::from(pins), &BTreeSet::new());
        for (name, text) in [
            ("toolgate.yaml", CONFIG),
            ("p.yaml", POLICY),
            ("pins.yaml", &pins),
        ] {
            let path = place.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        let loaded = config::load_supposing(&place.path().join("toolgate.yaml"));
        let Loaded {
            config, reading, ..
        } = loaded;
        let policy = reading.policy;
        Self {
            approvers: config.unwrap().admin.approvers(),
            policy: policy.unwrap_or_else(|| panic!("{:?}", reading.diagnostics)),
            place,
        }
    }

    /// Ann's grant for bot to pay up to 500, of which 10 calls are left.
    fn grant(&self) -> Grant {
        Grant {
            id: ActionId::generate(),
            minted: 0,
            until: 1000,
            max_uses: 10,
            scope: self.scope("pay"),
            constraints: [is("/amount", ArgumentRule::AtMost(500.into()))].into(),
            total: None,
            who: "ann".to_owned(),
            why: "due".to_owned(),
            roles: vec!["finance".to_owned()],
            shown: None,
            uses: 0,
            moved: Amount::default(),
            last: None,
            revoked: None,
        }
    }

    fn scope(&self, tool: &str) -> GrantScope {
        let name = ToolName::of(&ServerName::new("bank"), tool);
        GrantScope {
            agent: "bot".to_owned(),
            tenant: Some("t_1".to_owned()),
            user: None,
            bound_to: self.policy.bound_to(&name, "bot", Some("t_1")).to_string(),
            schema_hash: schema_hash(&definition(tool)),
            tool: name,
            beside: None,
        }
    }

    fn said(&self, grants: Vec<Grant>) -> Vec<Diagnostic> {
        let known = GrantsAtRest { grants, now: 500 };
        let configuration = self.place.path().join("toolgate.yaml");
        flawed(&configuration, &self.policy, &self.approvers, &known)
    }
}

fn is(pointer: &str, is: ArgumentRule) -> ArgumentConstraint {
    let pointer = pointer.to_owned();
    ArgumentConstraint {
        pointer,
        numbered_members: Vec::new(),
        is,
    }
}

/// With one more constraint.
fn with(grant: &Grant, pointer: &str, rule: ArgumentRule) -> Grant {
    let more = [is(pointer, rule)];
    let all = grant.constraints.iter().cloned().chain(more);
    Grant {
        constraints: all.collect(),
        ..grant.clone()
    }
}

/// With this one alone.
fn only(grant: &Grant, pointer: &str, rule: ArgumentRule) -> Grant {
    Grant {
        constraints: [is(pointer, rule)].into(),
        ..grant.clone()
    }
}

/// With something else of whose calls it covers.
fn scoped(grant: &Grant, change: impl FnOnce(&mut GrantScope)) -> Grant {
    let mut scope = grant.scope.clone();
    change(&mut scope);
    Grant {
        scope,
        ..grant.clone()
    }
}

/// One warning is told of that grant, with this reason, and with how it is taken back.
fn is_told(stand: &GrantStand, flawed: &Grant, why: &str) {
    let told = stand.said(vec![flawed.clone()]);
    let [one] = &told[..] else {
        panic!("{why}: {told:?}")
    };
    assert!(one.message.contains(why), "{why}: {}", one.message);
    let id = flawed.id.to_string();
    assert!(one.message.contains(&id), "{}", one.message);
    let revokes = format!("toolgate approvals grants revoke {id}");
    assert!(one.hint.as_ref().unwrap().contains(&revokes), "{one:?}");
    assert_eq!(one.severity, Severity::Warning);
}

/// 001-38, guarantees §7: whose calls are none that a grant can cover any more is told with the reason.
#[test]
fn a_grant_that_is_for_nothing_any_more_is_told() {
    let stand = GrantStand::new();
    let good = stand.grant();
    for (tool, why) in [
        ("gone", "no contract names the tool"),
        ("wipe", "the effect is irreversible"),
        ("look", "nobody is asked about calls of the tool"),
    ] {
        let scope = stand.scope(tool);
        let flawed = Grant {
            scope,
            ..good.clone()
        };
        is_told(&stand, &flawed, why);
    }
    for (agent, tenant, why) in [
        ("dog", Some("t_1"), "no agent of that name and tenant"),
        ("bot", None, "no agent of that name and tenant"),
        ("cat", Some("t_1"), "the agent may not use the tool"),
    ] {
        let flawed = scoped(&good, |scope| {
            agent.clone_into(&mut scope.agent);
            scope.tenant = tenant.map(str::to_owned);
        });
        is_told(&stand, &flawed, why);
    }
    let other_rules = scoped(&good, |scope| scope.bound_to = "b".repeat(64));
    is_told(&stand, &other_rules, "what the policy says of the tool");
    let other_tool = scoped(&good, |scope| scope.schema_hash = "a".repeat(64));
    is_told(&stand, &other_tool, "the tool has changed");
    let without_operator = Grant {
        who: "eve".to_owned(),
        ..good
    };
    is_told(&stand, &without_operator, "none any more who may decide");
}

/// 001-38, guarantees §7: constraints that no call can meet are told with the argument.
#[test]
fn a_grant_that_contradicts_a_schema_is_told() {
    let stand = GrantStand::new();
    let good = stand.grant();
    let equals = ArgumentRule::Equals;
    let low = ArgumentRule::OneOf(vec![json!(1), json!(2)]);
    let long = ArgumentRule::StartsWith("DE8912345".to_owned());
    let unsaid = "every call has the argument `/amount`, of which it does not speak";
    let at_most = ArgumentRule::AtMost(9.into());
    for (flawed, why) in [
        (
            with(&good, "/amont", equals(json!("x"))),
            "the tool has no argument `/amont`",
        ),
        (only(&good, "/amount", at_most), "`/amount` is at least 10"),
        (
            only(&good, "/amount", equals(json!(901))),
            "`/amount` is at most 900",
        ),
        (
            only(&good, "/amount", equals(json!("12"))),
            "`/amount` is of the type integer",
        ),
        (only(&good, "/amount", low), "`/amount` is at least 10"),
        (with(&good, "/to", long), "`/to` has at most 8 characters"),
        (only(&good, "/to", equals(json!("DE89"))), unsaid),
    ] {
        is_told(&stand, &flawed, why);
    }
}

/// guarantees §7: nothing is told of one that can cover a call, or has ended by itself.
#[test]
fn a_grant_that_can_cover_a_call_is_not_told() {
    let stand = GrantStand::new();
    let good = stand.grant();
    let ended = Grant {
        until: 500,
        ..scoped(&good, |scope| scope.agent = "dog".to_owned())
    };
    let fine = vec![
        with(&good, "/to", ArgumentRule::StartsWith("DE".to_owned())),
        with(&good, "/to", ArgumentRule::Any),
        only(&good, "", ArgumentRule::Equals(json!({ "amount": 10 }))),
        only(
            &good,
            "/amount",
            ArgumentRule::OneOf(vec![json!(1), json!(10)]),
        ),
        good,
        ended,
    ];
    assert_eq!(stand.said(fine), []);
}

/// Many are counted: a file that was changed may end all of them at once.
#[test]
fn many_grants_are_counted() {
    let stand = GrantStand::new();
    let grants = (0..23).map(|_| scoped(&stand.grant(), |scope| scope.agent = "dog".to_owned()));
    let told = stand.said(grants.collect());
    assert_eq!(told.len(), 21);
    let last = &told.last().unwrap().message;
    assert_eq!(last, "no call can be covered by 3 more standing grants");
}
