//! What an operator may do is what its roles say, and never about its own namesake's calls
//! (threat-model §13 F5, guarantees §1: "an authorised decision").

mod reasons;

use crate::approvals::{ask, held};
use crate::harness::agent::Agent;
use crate::harness::answer::Answer;
use crate::harness::gate::Gate;
use crate::harness::setup::Setup;
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use toolgate::model::ids::ToolName;
use toolgate::store::state::command::HoldRequest;

const PAY: &str = "oracle__pay";

const CANARY: &str = "CANARY-HELD-ARGUMENT";

const CALLERS: &str = "  - { agent: bot, token: token-of-the-agent-bot }\n";

/// Operators by name, with their roles. One is named like the agent but for case; `lead` is what
/// the held calls ask for.
const EVERYBODY: [(&str, &[&str]); 8] = [
    ("none", &[]),
    ("lead", &["lead"]),
    ("approver", &["approver"]),
    ("resolver", &["resolver"]),
    ("switch", &["switch"]),
    ("auditor", &["auditor"]),
    ("sre", &["sre", "oncall"]),
    (
        "Bot",
        &["lead", "approver", "resolver", "switch", "auditor", "sre"],
    ),
];

/// What can be asked of the door, and how it is asked: of a call, a tool, or a hold of the
/// operator's own.
const ASKED: [&str; 13] = [
    "resolve",
    "calls",
    "disable",
    "enable",
    "disabled",
    "quarantined",
    "holds",
    "hold",
    "wait",
    "allow",
    "deny",
    "status",
    "readyz",
];

/// Which roles may do what; the word of the configuration, and the same for this test.
struct Rules {
    yaml: &'static str,
    roles: BTreeMap<&'static str, &'static [&'static str]>,
}

impl Rules {
    fn all() -> [Self; 3] {
        let rules = |yaml, resolve, switch, audit| Self {
            yaml,
            roles: [("resolve", resolve), ("switch", switch), ("audit", audit)].into(),
        };
        [
            rules("", &["resolver"][..], &["switch"][..], &["auditor"][..]),
            rules(
                ", verbs: { resolve: [sre, resolver], switch: [oncall] }",
                &["sre", "resolver"],
                &["oncall"],
                &["auditor"],
            ),
            rules(
                ", verbs: { resolve: [], switch: [], audit: [approver] }",
                &[],
                &[],
                &["approver"],
            ),
        ]
    }

    fn may(&self, verb: &str, roles: &[&str]) -> bool {
        self.roles[verb].iter().any(|role| roles.contains(role))
    }

    /// What the door has to answer, for an operator of this name with these roles.
    fn status(&self, asked: &str, (name, roles): (&str, &[&str])) -> u16 {
        let may = match asked {
            "resolve" => self.may("resolve", roles) && name != "Bot",
            "calls" => self.may("resolve", roles) || self.may("audit", roles),
            "disable" | "enable" => self.may("switch", roles),
            // What is not for them is not there.
            "hold" | "wait" | "allow" | "deny" if !self.sees(roles) => return 404,
            "allow" | "deny" => roles.contains(&"lead") && name != "Bot",
            _ => true,
        };
        if may { 200 } else { 403 }
    }

    /// Whether an operator with these roles sees held calls at all.
    fn sees(&self, roles: &[&str]) -> bool {
        let has = |role: &str| roles.contains(&role);
        self.may("audit", roles) || has("lead") || has("owner")
    }

    fn sees_arguments(&self, (name, roles): (&str, &[&str])) -> bool {
        self.may("audit", roles) || roles.contains(&"lead") && name != "Bot"
    }
}

fn token(name: &str) -> String {
    format!("token-of-the-operator-{name}")
}

fn tokens(rules: &Rules) -> String {
    let one = |(name, roles): &(&str, &[&str])| {
        format!(
            "{{ name: {name}, token: {}, roles: [{}] }}",
            token(name),
            roles.join(", ")
        )
    };
    format!(
        "tokens: [ {} ]{}",
        EVERYBODY.iter().map(one).collect::<Vec<_>>().join(", "),
        rules.yaml
    )
}

/// A toolgate with a call whose outcome is unknown, and two held calls, for each operator.
struct RolesGate {
    server: ToolServer,
    gate: Gate,
    unknown: BTreeMap<&'static str, String>,
    held: Vec<String>,
}

/// A held call of the agent, of a definition that its own session lists.
fn asked() -> HoldRequest {
    let mut asked = ask(1, json!({ "to": CANARY }));
    let question = &mut asked.question;
    (question.tool, question.tenant) = (ToolName::new(PAY), None);
    question.own_definition = true;
    asked
}

impl RolesGate {
    async fn new(rules: &Rules) -> Self {
        let server = Script::new().tool("pay", Behaviour::HangsUp).start().await;
        let setup = Setup::new()
            .server("oracle", &server)
            .contracts(&[(PAY, "write")]);
        let setup = setup.callers(CALLERS).operators(&tokens(rules));
        setup.write();
        let asks = EVERYBODY.iter().flat_map(|_| [(); 2]).map(|()| asked());
        let held = held(&setup, asks.collect()).await;
        let gate = setup.start().await;
        let mut unknown = BTreeMap::new();
        for (name, _) in EVERYBODY {
            let answer = bot(&gate).modern_call(PAY, json!({ "key": name })).await;
            assert_eq!(answer.refusal(), "outcome_unknown", "{answer:?}");
            let decision = &answer.message()["result"]["_meta"]["dev.toolgate/decision"];
            unknown.insert(name, decision["action_id"].as_str().unwrap().to_owned());
        }
        Self {
            server,
            gate,
            unknown,
            held,
        }
    }

    /// Asks as who brings `bearer`, about what belongs to the operator `name`.
    async fn asks(&self, asked: &str, name: &'static str, bearer: Option<&str>) -> Answer {
        let index = EVERYBODY
            .iter()
            .position(|(known, _)| *known == name)
            .unwrap();
        let hold = |nth: usize| format!("/api/approvals/{}", self.held[2 * index + nth]);
        let why = json!({ "why": "a reason" });
        let (path, body) = match asked {
            "resolve" => {
                let path = format!("/api/calls/{}/resolve", self.unknown[name]);
                (
                    path,
                    Some(json!({ "verdict": "not_applied", "why": "looked at the bank's page" })),
                )
            }
            "calls" => ("/api/calls".to_owned(), None),
            "disable" | "enable" => (format!("/api/tools/oracle__undo/{asked}"), Some(why)),
            "disabled" => ("/api/tools/disabled".to_owned(), None),
            "quarantined" => ("/api/quarantined".to_owned(), None),
            "status" => ("/api/status".to_owned(), None),
            "holds" => ("/api/approvals".to_owned(), None),
            "hold" => (hold(0), None),
            "wait" => (hold(0) + "/wait", None),
            "allow" | "deny" => (
                hold(usize::from(asked == "deny")),
                Some(json!({ "decision": asked, "why": "a reason" })),
            ),
            _ => ("/readyz".to_owned(), None),
        };
        let bearer = bearer.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(
            bearer
                .iter()
                .map(|bearer| ("Authorization", bearer.as_str())),
        );
        let (method, body) = body.map_or(("GET", String::new()), |body| ("POST", body.to_string()));
        self.gate
            .asks_operators((method, &path), &headers, &body)
            .await
    }
}

fn bot(gate: &Gate) -> Agent {
    gate.agent().token("token-of-the-agent-bot")
}

/// threat-model §13 F5, lane: every verb × every operator × every way to say who one is, under
/// three configurations. What is refused says which role is missing and where it is given, changes
/// nothing, and shows no argument.
#[tokio::test]
async fn a_verb_takes_its_role() {
    let mut cases = 0;
    for rules in Rules::all() {
        let stage = RolesGate::new(&rules).await;
        let mut unproven = 0;
        for operator @ (name, _) in EVERYBODY {
            for asked in ASKED {
                for bearer in UNPROVEN {
                    let answer = stage.asks(asked, name, bearer).await;
                    let is_open = asked == "readyz" && bearer.is_none();
                    unproven += usize::from(!is_open);
                    judge_unproven(&answer, is_open, unproven);
                    cases += 1;
                }
                let answer = stage.asks(asked, name, Some(&token(name))).await;
                let expected = rules.status(asked, operator);
                let told = answer.text();
                assert_eq!(
                    answer.status, expected,
                    "{name} {asked} under `{}`: {told}",
                    rules.yaml
                );
                if expected == 403 {
                    judge_refusal(&told, name, asked);
                }
                let sees = ["holds", "hold"].contains(&asked) && rules.sees_arguments(operator);
                assert_eq!(
                    told.contains(CANARY),
                    sees,
                    "{name} {asked} under `{}`: {told}",
                    rules.yaml
                );
                if asked == "holds" {
                    let some = told.contains(PAY);
                    assert_eq!(some, rules.sees(operator.1), "{name}: {told}");
                }
                let is_overview = ["readyz", "status"].contains(&asked);
                assert_eq!(told.contains("\"servers\""), is_overview, "{told}");
                cases += 1;
            }
        }
        // What was not resolved by one who may does not run again, and what was does.
        for operator @ (name, _) in EVERYBODY {
            let before = stage.server.executions().len();
            assert_eq!(
                bot(&stage.gate)
                    .modern_call(PAY, json!({ "key": name }))
                    .await
                    .refusal(),
                "outcome_unknown"
            );
            let ran = stage.server.executions().len() - before;
            assert_eq!(
                ran,
                usize::from(rules.status("resolve", operator) == 200),
                "{name} under `{}`",
                rules.yaml
            );
        }
    }
    assert_eq!(cases, 3 * 8 * 13 * 5);
}

/// Nothing, and what proves nothing.
const UNPROVEN: [Option<&str>; 4] = [
    None,
    Some(""),
    Some("token-of-nobody-at-all"),
    Some("token-of-the-agent-bot"),
];

/// What is answered where nothing was proven, for the time of that number.
fn judge_unproven(answer: &Answer, is_open: bool, unproven: usize) {
    let is_expected = match answer.status {
        200 => is_open,
        401 => !is_open,
        // One address may prove nothing so often.
        429 => unproven > 300,
        _ => false,
    };
    assert!(is_expected, "{answer:?}");
    if is_open {
        let ready = json!({ "status": "ready", "ready": true, "policy_stale": false });
        assert_eq!(answer.message(), ready);
    }
    assert!(!answer.text().contains(CANARY));
}

/// A refusal says what is missing and how it is given.
fn judge_refusal(told: &str, name: &str, asked: &str) {
    let told: Value = serde_json::from_str(told).unwrap();
    assert!(
        told["error"].is_string() && told["hint"].is_string(),
        "{told}"
    );
    let listed = told["error"].as_str().unwrap().contains("may list calls ");
    assert!(listed == (asked == "calls"), "{name} {asked}: {told}");
    let missing = asked != "resolve" || name != "Bot";
    assert!(
        !missing || told.to_string().contains("admin."),
        "{name} {asked}: {told}"
    );
}

/// Without the role the command line says what is missing; `check` says it before anybody needs it,
/// and of old configurations what to add.
#[tokio::test]
async fn what_nobody_may_do_is_said_early() {
    let check = async |admin: &str| {
        let setup = Setup::new()
            .server_with("oracle", "url: \"http://127.0.0.1:9/mcp\"")
            .operators(admin);
        setup.write();
        String::from_utf8(
            setup
                .run(&["check", "--config", "toolgate.yaml"])
                .await
                .stdout,
        )
        .unwrap()
    };
    let old =
        check("tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [approver] } ]")
            .await;
    assert!(
        old.contains("warning: no operator may say what became of a call whose outcome is unknown (role resolver)"),
        "{old}"
    );
    assert!(
        old.contains("`ann` roles: [approver, resolver, switch, auditor]"),
        "{old}"
    );
    let some = "tokens: [ { name: ann, token: token-of-ann-the-operator, roles: [resolver, sre] } ], verbs: { switch: [sre], audit: [] }";
    let some = check(some).await;
    assert!(!some.contains("no operator may"), "{some}");
    for blank in [
        "verbs: { resolve: [\" \"] }",
        "verbs: { resolv: [a] }",
        "verbs: { resolve: a }",
    ] {
        let wrong = check(&format!(
            "tokens: [ {{ name: ann, token: token-of-ann-the-operator }} ], {blank}"
        ))
        .await;
        assert!(wrong.contains("error: "), "{wrong}");
    }
}
