//! What is tried: each tool that changes something, under each caller that may use it, with a call that the policy
//! lets through as it is; and why there is none of others.

use super::candidates::{AskingCaller, PassingCall, TrialTool};
use super::echo::{EchoTool, EchoTools};
use super::made::{MadeMembers, made};
use super::rows::{Guarantee, GuaranteeRow, RowVerdict};
use crate::gate::supposing::steps::is_unpinned;
use crate::guards::ToolRules;
use crate::guards::idempotency::Regime;
use crate::guards::pins::INSTRUCTIONS_PIN_NAME;
use crate::model::caller::Caller;
use crate::model::disabled::TakenAway;
use crate::model::ids::{ServerName, ToolName, UserId, parts};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::policy::pack::Pack;
use crate::schema::Schema;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Tools under callers that are tried, at most.
const MAX_SUBJECTS: usize = 64;
/// Who stands for the person behind an agent that has to name one.
const PERSON: &str = "toolgate-verify";

/// A tool under a caller, and the call that is made.
#[derive(Debug)]
pub(super) struct TrialSubject {
    pub(super) tool: Arc<TrialTool>,
    pub(super) caller: Arc<Caller>,
    pub(super) arguments: Value,
    /// The contract that counts for it.
    pub(super) rules: Arc<ToolRules>,
    /// Whether it is refused without a key.
    pub(super) needs_key: bool,
    /// Whether a person has to allow it.
    pub(super) is_held: bool,
    /// Other arguments with which it is held, too.
    pub(super) second: Option<Value>,
    /// Arguments that its schemas do not take.
    pub(super) invalid: Option<Value>,
}

/// Everything that is tried.
#[derive(Debug, Default)]
pub(super) struct TrialPlan {
    pub(super) subjects: Vec<TrialSubject>,
    /// What is not, and why.
    pub(super) rows: Vec<GuaranteeRow>,
    /// Each caller, with tools that it may not use.
    pub(super) withheld: Vec<(Arc<Caller>, Vec<ToolName>)>,
    pub(super) left_out: Vec<String>,
}

/// What a plan is made of.
pub(super) struct TrialTerms<'a> {
    pub(super) policy: &'a Policy,
    pub(super) tools: &'a [Arc<TrialTool>],
    pub(super) callers: &'a [Arc<Caller>],
    pub(super) packs: &'a [Pack],
    /// What operators and incidents have taken away.
    pub(super) away: &'a TakenAway,
}

impl TrialSubject {
    /// Whether equal calls are one and the same only where they have one key: its server says that a second one changes
    /// nothing.
    pub(super) fn joins_only(&self) -> bool {
        let hints = self.tool.definition["annotations"]["idempotentHint"] == true;
        let rule = self.rules.idempotency.as_ref();
        let regime = rule.and_then(|rule| rule.regime(hints));
        regime == Some(Regime::Reissue { joins_only: true })
    }

    /// For how long a call that is made again is taken for the same, where it has no key.
    pub(super) fn reissue_window(&self) -> Option<Duration> {
        let rule = self.rules.idempotency.as_ref();
        rule.map(crate::guards::idempotency::Rule::retry_window)
    }

    /// A row of it.
    pub(super) fn row(&self, guarantee: Guarantee, verdict: RowVerdict) -> GuaranteeRow {
        row(guarantee, Some(&self.tool), Some(&self.caller), verdict)
    }
}

/// The name of the person behind the agent, where one has to be named.
pub(super) fn person_of(caller: &Caller) -> Option<String> {
    caller.needs_user.then(|| PERSON.to_owned())
}

/// A row of these.
pub(super) fn row(
    guarantee: Guarantee,
    tool: Option<&TrialTool>,
    caller: Option<&Caller>,
    verdict: RowVerdict,
) -> GuaranteeRow {
    GuaranteeRow {
        guarantee,
        tool: tool.map(|tool| tool.name.to_string()),
        caller: caller.map(|caller| caller.agent.to_string()),
        verdict,
    }
}

/// The tools of these servers, by name: those with a pin, and those that only a contract names.
pub(super) fn tools(policy: &Policy, servers: &[ServerName]) -> Vec<Arc<TrialTool>> {
    let mut found: BTreeMap<ToolName, TrialTool> = BTreeMap::new();
    for (server, own_name, pin) in policy.pins.pins() {
        let definition = pin.definition.value();
        if own_name != INSTRUCTIONS_PIN_NAME && servers.contains(server) {
            found.extend(tool(server, own_name, definition, true));
        }
    }
    for name in policy.allowlist.contracts() {
        let Some((server, own_name)) = parts(name.as_str()) else {
            continue;
        };
        let server = ServerName::new(server);
        // A contract for several tools names none of them.
        let is_plain = own_name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        if is_plain && servers.contains(&server) && !found.contains_key(name) {
            let definition = json!({ "name": own_name, "inputSchema": { "type": "object" } });
            found.extend(tool(&server, own_name, definition, false));
        }
    }
    found.into_values().map(Arc::new).collect()
}

fn tool(
    server: &ServerName,
    own_name: &str,
    definition: Value,
    is_pinned: bool,
) -> Option<(ToolName, TrialTool)> {
    let schema = Schema::compile(&definition["inputSchema"]).ok()?;
    let name = ToolName::of(server, own_name);
    let tool = TrialTool {
        name: name.clone(),
        server: server.clone(),
        own_name: own_name.to_owned(),
        definition,
        schema,
        is_pinned,
    };
    Some((name, tool))
}

/// The same for the server that stands for theirs.
pub(super) fn echoed(tools: &[Arc<TrialTool>]) -> EchoTools {
    let mut echoed = EchoTools::new();
    for tool in tools {
        let output = tool.definition.get("outputSchema").cloned();
        let structured = output.and_then(|output| made(&[output], MadeMembers::Required));
        let one = EchoTool {
            definition: tool.definition.clone(),
            structured,
        };
        let of_server = echoed.entry(tool.server.clone()).or_default();
        of_server.insert(tool.own_name.clone(), one);
    }
    echoed
}

impl TrialTerms<'_> {
    /// Everything that is tried by these terms.
    pub(super) fn plan(&self) -> TrialPlan {
        let mut plan = TrialPlan::default();
        for tool in self.tools {
            plan.rows.extend(self.misdeclared(tool));
        }
        let (mut reads, mut beyond) = (0_usize, 0_usize);
        for caller in self.callers {
            let mut withheld = Vec::new();
            for tool in self.tools {
                let is_admitted = self.policy.allowlist.admit(caller, &tool.name).is_ok();
                if !is_admitted || is_unpinned(self.policy, &tool.name) {
                    withheld.push(tool.name.clone());
                }
                if !is_admitted {
                    continue;
                }
                if !self.changes(tool) {
                    reads += 1;
                } else if plan.subjects.len() == MAX_SUBJECTS {
                    beyond += 1;
                } else {
                    match self.subject(tool, caller) {
                        Ok(subject) => plan.subjects.push(subject),
                        Err(why) => {
                            let verdict = RowVerdict::NotShown(why);
                            plan.rows.push(row(
                                Guarantee::AtMostOnce,
                                Some(tool),
                                Some(caller),
                                verdict,
                            ));
                        }
                    }
                }
            }
            plan.withheld.push((caller.clone(), withheld));
        }
        if reads > 0 {
            plan.left_out.push(format!(
                "calls of tools whose contract says `read`: {reads} of tool and caller"
            ));
        }
        if beyond > 0 {
            plan.left_out.push(format!(
                "{beyond} more of tool and caller, beyond {MAX_SUBJECTS}; name some with --tool and --caller"
            ));
        }
        plan
    }

    /// Whether a call of it changes anything, by its contract.
    fn changes(&self, tool: &TrialTool) -> bool {
        let rules = self.policy.allowlist.contract_of(&tool.name);
        rules.is_some_and(|rules| match &rules.variants {
            Some(variants) => variants.cases().any(|(_, case)| case.side_effect),
            None => rules.side_effect,
        })
    }

    /// A tool whose contract says less than its server does.
    fn misdeclared(&self, tool: &TrialTool) -> Option<GuaranteeRow> {
        let has_contract = self.policy.allowlist.contract_of(&tool.name).is_some();
        let hints = &tool.definition["annotations"];
        let says_so = hints["readOnlyHint"] == false || hints["destructiveHint"] == true;
        let is_odd = has_contract && says_so && !self.changes(tool);
        is_odd.then(|| {
            let why = "its contract says `read`; the server's annotations say that it may change something. Nothing keeps what is read from being \
                       sent twice";
            row(Guarantee::AtMostOnce, Some(tool), None, RowVerdict::NotShown(why.to_owned()))
        })
    }

    /// The call of `tool` that is tried under `caller`; or why there is none.
    fn subject(&self, tool: &Arc<TrialTool>, caller: &Arc<Caller>) -> Result<TrialSubject, String> {
        if self.is_away(tool) {
            return Err("an operator or an incident has taken the tool away".to_owned());
        }
        if is_unpinned(self.policy, &tool.name) {
            return Err("no definition is pinned, so that the tool is withheld".to_owned());
        }
        if caller.needs_user && !caller.names_users {
            return Err("its person is named by a front end, and none stands here".to_owned());
        }
        let asking = AskingCaller {
            policy: self.policy,
            tool,
            caller: asking(caller),
            packs: self.packs,
        };
        let PassingCall {
            arguments,
            rules,
            stand,
        } = asking
            .passing()
            .map_err(|last| unmade(tool, last.as_ref()))?;
        let second = asking.second(&arguments).filter(|_| stand.is_held);
        Ok(TrialSubject {
            tool: tool.clone(),
            caller: caller.clone(),
            rules,
            needs_key: stand.needs_key,
            is_held: stand.is_held,
            second,
            invalid: asking.invalid(&arguments),
            arguments,
        })
    }

    fn is_away(&self, tool: &TrialTool) -> bool {
        let all = self.policy.allowlist.clone().without(self.away.clone());
        all.is_disabled(&tool.name)
    }
}

/// The caller, acting for the person that is named in its calls.
fn asking(caller: &Arc<Caller>) -> Arc<Caller> {
    let person = person_of(caller).map(|person| UserId::new(&person));
    person.map_or_else(
        || caller.clone(),
        |person| Arc::new(caller.for_user(person)),
    )
}

/// Why no call could be made.
fn unmade(tool: &TrialTool, last: Option<&Refusal>) -> String {
    let unpinned = if tool.is_pinned {
        ""
    } else {
        "no definition is pinned; "
    };
    let why = last.map_or_else(
        || "nothing fits its schemas, as far as can be found".to_owned(),
        |refusal| {
            format!(
                "those that were tried are refused with `{}`",
                refusal.code()
            )
        },
    );
    format!("{unpinned}arguments cannot be made up: {why}; a sample of it in a test pack has some")
}
