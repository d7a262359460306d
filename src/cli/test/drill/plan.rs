//! Which contracts a drill takes back a call of, by which samples; and why it does so of none of the others.

use super::baseline::Baseline;
use crate::cli::test::rollbacks::{contract_name, rules_of};
use crate::guards::ToolRules;
use crate::guards::rollback::{Rollback, Undo};
use crate::model::disabled::TakenAway;
use crate::model::ids::{self, ServerName, ToolName};
use crate::policy::Policy;
use crate::policy::pack::{Pack, PosedCall};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A contract that changes something, by name; or a sample of it.
pub(super) struct PlannedRow {
    /// The contract, or one of its variants.
    pub(super) contract: String,
    pub(super) work: PlannedWork,
}

/// What is done about it.
pub(super) enum PlannedWork {
    /// A drill.
    Drill(Box<PlannedDrill>),
    /// None, and why.
    NotDrilled(String),
    /// None, since no call takes it back; how a person does, if one can.
    NoWayBack(&'static str),
    /// None, and none is asked for; why.
    NeedsNone(&'static str),
}

/// A call that is made and taken back.
pub(super) struct PlannedDrill {
    /// The sample's name.
    pub(super) sample: String,
    /// Who calls.
    pub(super) agent: String,
    pub(super) tool: ToolName,
    /// What takes it back.
    pub(super) undo: ToolName,
    pub(super) call: PosedPart,
    pub(super) baseline: Baseline,
}

/// What a sample says of its call.
pub(super) struct PosedPart {
    pub(super) arguments: serde_json::Value,
    pub(super) key: Option<serde_json::Value>,
}

/// What a plan is made of.
pub(super) struct PlanTerms<'a> {
    pub(super) policy: &'a Policy,
    pub(super) packs: &'a [Pack],
    /// The servers that may be drilled; none: all.
    pub(super) servers: &'a [String],
    /// What operators and incidents have taken away.
    pub(super) away: &'a TakenAway,
}

impl PlannedDrill {
    /// The servers that it reaches.
    pub(super) fn servers(&self) -> impl Iterator<Item = ServerName> {
        let tools = [&self.tool, &self.undo, &self.baseline.tool];
        tools.into_iter().filter_map(server_of)
    }
}

impl PlanTerms<'_> {
    /// A row for each contract that changes something, in the order of their names; and more for one with
    /// several samples.
    pub(super) fn rows(&self) -> Vec<PlannedRow> {
        let allowlist = &self.policy.allowlist;
        let rollbacks = allowlist.changing().filter_map(|(_, rules)| {
            let tool = &rules.undo.call()?.tool;
            allowlist.contract_name_of(tool)
        });
        let undoing: BTreeSet<&ToolName> = rollbacks.collect();
        let mut rows = Vec::new();
        for (name, rules) in allowlist.changing() {
            let contract = contract_name(name, rules);
            let none = |work| PlannedRow {
                contract: contract.clone(),
                work,
            };
            match &rules.undo {
                Undo::Call(rollback) => rows.extend(self.drills(&contract, rules, rollback)),
                Undo::Irreversible => rows.push(none(PlannedWork::NeedsNone("irreversible"))),
                Undo::Additive => rows.push(none(PlannedWork::NeedsNone("nothing is lost"))),
                Undo::Manual(_) | Undo::Unsaid if undoing.contains(name) => {
                    rows.push(none(PlannedWork::NeedsNone("takes others back")));
                }
                Undo::Manual(_) => rows.push(none(PlannedWork::NoWayBack("by hand"))),
                Undo::Unsaid => rows.push(none(PlannedWork::NoWayBack("no rollback"))),
            }
        }
        rows.extend(self.astray());
        rows.sort_by(|one, other| one.contract.cmp(&other.contract));
        rows
    }

    fn drills(
        &self,
        contract: &str,
        rules: &Arc<ToolRules>,
        rollback: &Rollback,
    ) -> Vec<PlannedRow> {
        let is_of = |posed: &PosedCall| {
            rules_of(self.policy, posed).is_some_and(|found| Arc::ptr_eq(found, rules))
        };
        let samples = self.drilled().filter(|(_, posed)| is_of(posed));
        let mut rows: Vec<PlannedRow> = samples
            .map(|(pack, posed)| {
                let planned = self.planned(pack, posed, rollback);
                PlannedRow {
                    contract: contract.to_owned(),
                    work: match planned {
                        Ok(drill) => PlannedWork::Drill(Box::new(drill)),
                        Err(why) => PlannedWork::NotDrilled(why),
                    },
                }
            })
            .collect();
        if rows.is_empty() {
            rows.push(PlannedRow {
                contract: contract.to_owned(),
                work: PlannedWork::NotDrilled("no sample of it has `drill`".to_owned()),
            });
        }
        rows
    }

    /// The samples that are to be drilled, with their packs.
    fn drilled(&self) -> impl Iterator<Item = (&Pack, &PosedCall)> {
        self.packs.iter().flat_map(|pack| {
            let samples = pack.samples.iter();
            let drilled = samples.filter(|posed| posed.drill.is_some());
            drilled.map(move |posed| (pack, posed))
        })
    }

    /// The samples of no contract that could be drilled: a slip in a name must not look like a drill.
    fn astray(&self) -> impl Iterator<Item = PlannedRow> {
        let is_astray = |posed: &PosedCall| {
            rules_of(self.policy, posed).is_none_or(|rules| rules.undo.call().is_none())
        };
        let found = self.drilled().filter(move |(_, posed)| is_astray(posed));
        found.map(|(_, posed)| {
            let sample = &posed.name;
            PlannedRow {
                contract: posed.tool.to_string(),
                work: PlannedWork::NotDrilled(format!(
                    "the sample `{sample}` has `drill`, and no contract names a call that takes it back"
                )),
            }
        })
    }

    fn planned(
        &self,
        pack: &Pack,
        posed: &PosedCall,
        rollback: &Rollback,
    ) -> Result<PlannedDrill, String> {
        let sample = &posed.name;
        let not = |why: &str| Err(format!("the sample `{sample}`: {why}"));
        let Some(terms) = &posed.drill else {
            return not("it has no `drill`");
        };
        if !pack.policies.is_empty() {
            return not("its pack names policies of its own, and no configuration");
        }
        if posed.expect.is_some() {
            return not("it expects a refusal");
        }
        if posed.user.is_some() {
            return not("it asks for a user, whom a drill has not");
        }
        let Some(caller) = self.policy.identity.of_agent(&posed.caller) else {
            return not("its caller is no agent of the configuration");
        };
        let baseline = match Baseline::of(terms, rollback, &posed.arguments) {
            Ok(baseline) => baseline,
            Err(why) => return not(&why),
        };
        if let Err(why) = baseline.is_read_for(&caller, self.policy) {
            return not(&why);
        }
        let planned = PlannedDrill {
            sample: sample.clone(),
            agent: posed.caller.clone(),
            tool: posed.tool.clone(),
            undo: rollback.tool.clone(),
            call: PosedPart {
                arguments: posed.arguments.clone(),
                key: posed.key.clone(),
            },
            baseline,
        };
        match self.why_not(&planned) {
            Some(why) => not(&why),
            None => Ok(planned),
        }
    }

    /// Why it may not be drilled, if it may not.
    fn why_not(&self, planned: &PlannedDrill) -> Option<String> {
        let tools = [&planned.tool, &planned.undo, &planned.baseline.tool];
        for tool in tools {
            if let Some(reason) = self.away.reason(tool) {
                let (who, why) = (&reason.who, &reason.why);
                return Some(format!("{tool} is taken away by {who}: {why}"));
            }
            let server = server_of(tool);
            let is_meant = |server: &ServerName| {
                let mut named = self.servers.iter();
                named.any(|named| named == server.as_str())
            };
            if !self.servers.is_empty() && !server.as_ref().is_some_and(is_meant) {
                return Some(format!(
                    "{tool} is of no server that is named with --server"
                ));
            }
        }
        None
    }
}

fn server_of(tool: &ToolName) -> Option<ServerName> {
    ids::parts(tool.as_str()).map(|(server, _)| ServerName::new(server))
}
