//! One drill: the baseline is read, the call is made, the effect is seen, the call is taken back as an operator
//! would, and the baseline is read again.

use super::agent::{DrillAgent, DrillCall};
use super::approving::is_allowed;
use super::baseline::BaselineReading;
use super::ending::{DrillEnd, DrillVerdict};
use super::place::{DrillNotes, DrillStep, StepNote};
use super::plan::PlannedDrill;
use crate::app::App;
use crate::gate::undoing::CallUndoer;
use crate::model::ids::{ActionId, unguessable};
use crate::store::undos::{NoUndo, UndoMaker as _, UndoReport, UndoWord};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who asks for the undo; not who allows it.
const ASKER: &str = "toolgate test --drill";
const NEEDS_PERSON: &str = "a person has to allow it: --approve says that you do";
const RESTLESS: &str =
    "the baseline changes by itself, so that it shows nothing; choose other fields:";
const NOTHING_READ: &str = "the baseline has none of its fields, so that it shows nothing";
const UNSEEN: &str = "the effect cannot be seen: the baseline is the same after the call";

/// What makes the drills.
pub(super) struct Driller<'a> {
    app: &'a App,
    notes: DrillNotes,
    undoer: Arc<CallUndoer>,
    agents: BTreeMap<String, DrillAgent>,
}

impl<'a> Driller<'a> {
    pub(super) fn new(app: &'a App, notes: DrillNotes) -> Self {
        Self {
            app,
            notes,
            undoer: app.undoer(),
            agents: BTreeMap::new(),
        }
    }

    /// Makes a drill of `contract`.
    ///
    /// # Errors
    /// Its steps cannot be noted: then nothing more is sent.
    pub(super) async fn drill(
        &mut self,
        contract: &str,
        planned: &PlannedDrill,
    ) -> anyhow::Result<DrillEnd> {
        let before = match self.steady(planned).await {
            Ok(before) => before,
            Err(why) => return Ok(DrillEnd::not_drilled(why)),
        };
        self.note(contract, DrillStep::Calling, None)?;
        let end = match Box::pin(self.called(planned)).await {
            Ok(action) => {
                self.note(contract, DrillStep::Called, Some(action))?;
                let end = Box::pin(self.taken_back(contract, planned, action, &before)).await?;
                end.at(action, &before)
            }
            Err(end) => self.nothing_left(planned, &before, end).await,
        };
        let step = if end.is_left {
            DrillStep::Left
        } else {
            DrillStep::Ended
        };
        self.note(contract, step, end.action)?;
        Ok(end)
    }

    /// Hangs up for all agents, and waits for what they have begun.
    pub(super) async fn end(self) {
        for agent in self.agents.into_values() {
            agent.end().await;
        }
    }

    fn note(
        &mut self,
        contract: &str,
        step: DrillStep,
        action: Option<ActionId>,
    ) -> anyhow::Result<()> {
        self.notes.note(&StepNote {
            contract: contract.to_owned(),
            step,
            action: action.map(|action| action.to_string()),
        })
    }

    fn agent(&mut self, planned: &PlannedDrill) -> &mut DrillAgent {
        let door = &self.app.door;
        let agent = self.agents.entry(planned.agent.clone());
        agent.or_insert_with(|| DrillAgent::new(door, &planned.agent))
    }

    async fn read(&mut self, planned: &PlannedDrill) -> Result<BaselineReading, String> {
        planned.baseline.read(self.agent(planned)).await
    }

    /// The baseline, which two reads find the same: one that changes by itself proves nothing.
    async fn steady(&mut self, planned: &PlannedDrill) -> Result<BaselineReading, String> {
        let first = self.read(planned).await?;
        let second = self.read(planned).await?;
        let differing = first.differing(&second);
        if !differing.is_empty() {
            return Err(format!("{RESTLESS} {}", differing.join(", ")));
        }
        Ok(second)
    }

    /// Makes the call; its action id once it has run.
    async fn called(&mut self, planned: &PlannedDrill) -> Result<ActionId, DrillEnd> {
        let key = planned.call.key.clone();
        let key = key.unwrap_or_else(|| json!(format!("drill {}", unguessable())));
        let call = DrillCall {
            tool: &planned.tool,
            arguments: &planned.call.arguments,
            key: Some(&key),
        };
        let answer = self.agent(planned).call(call).await;
        if answer.outcome == "refused" && needs_person(answer.code.as_deref()) {
            return Err(DrillEnd::not_drilled(NEEDS_PERSON.to_owned()));
        }
        let said = &answer.words;
        // What has run, and could not be recorded, is in no ledger that an undo could be made of.
        let is_unknown = matches!(
            answer.code.as_deref(),
            Some("outcome_unknown" | "executed_but_not_recorded")
        );
        match (answer.outcome.as_str(), answer.action) {
            (_, _) if is_unknown => Err(unknown_call(said)),
            ("answered", Some(action)) if !answer.is_error => Ok(action),
            ("refused", _) => {
                let code = answer.code.as_deref().unwrap_or_default();
                Err(DrillEnd::failed(format!(
                    "the call is refused ({code}): {said}"
                )))
            }
            ("answered" | "failed" | "planned", _) => {
                Err(DrillEnd::failed(format!("the call has failed: {said}")))
            }
            (_, _) => Err(unknown_call(said)),
        }
    }

    /// Of a call that has not run, as far as is said: the baseline has to say so, too.
    async fn nothing_left(
        &mut self,
        planned: &PlannedDrill,
        before: &BaselineReading,
        end: DrillEnd,
    ) -> DrillEnd {
        if end.verdict == DrillVerdict::Unknown {
            return DrillEnd {
                before: Some(before.hash()),
                ..end
            };
        }
        let after = self.read(planned).await;
        let is_same = after
            .as_ref()
            .is_ok_and(|after| before.differing(after).is_empty());
        let end = DrillEnd {
            before: Some(before.hash()),
            after: after.ok().map(|after| after.hash()),
            ..end
        };
        if is_same {
            return end;
        }
        let said = end.why.unwrap_or_default();
        let why = format!("{said}; and yet the baseline is another, or cannot be read");
        DrillEnd {
            verdict: DrillVerdict::Failed,
            why: Some(why),
            is_left: true,
            ..end
        }
    }

    /// Takes the call back, and looks whether anything is left.
    async fn taken_back(
        &mut self,
        contract: &str,
        planned: &PlannedDrill,
        action: ActionId,
        before: &BaselineReading,
    ) -> anyhow::Result<DrillEnd> {
        let seen = self.read(planned).await;
        self.note(contract, DrillStep::Undoing, Some(action))?;
        let report = match Box::pin(self.undone(action)).await {
            Ok(report) => report,
            Err(why) => return Ok(unmade(&why)),
        };
        let end = match report.state.as_str() {
            "done" => self.compared(planned, before, seen).await,
            "unknown" | "running" => DrillEnd::unknown(format!(
                "it is not known whether it was taken back: {}",
                report.words
            )),
            state => {
                let said = if needs_person(report.code.as_deref()) {
                    NEEDS_PERSON
                } else {
                    report.words.as_str()
                };
                DrillEnd::failed(format!("it was not taken back ({state}): {said}")).leaving()
            }
        };
        let is_unverified = end.why.is_none() && report.verified == Some(false);
        let end = if is_unverified {
            DrillEnd {
                after: end.after,
                ..DrillEnd::failed("what its contract checks does not show that the effect is gone")
                    .leaving()
            }
        } else {
            end
        };
        Ok(DrillEnd {
            undone: Some(report.state),
            undone_by: report.by,
            ..end
        })
    }

    /// Asks for the undo, as an operator does, and once more when a person has allowed it.
    async fn undone(&self, of: ActionId) -> Result<UndoReport, NoUndo> {
        let word = || UndoWord {
            of,
            who: ASKER.to_owned(),
            why: "a drill".to_owned(),
            is_dry: false,
        };
        let mut news = self.app.door.gate.effects.store.look_on();
        let report = self.undoer.clone().undo(word()).await?;
        let held = report.approval_id.clone();
        let held = held.filter(|_| needs_person(report.code.as_deref()));
        match held {
            Some(id) if is_allowed(&mut news, &id).await => self.undoer.clone().undo(word()).await,
            Some(_) | None => Ok(report),
        }
    }

    /// The baseline at the end, against that before the call; `seen` is what was there between.
    async fn compared(
        &mut self,
        planned: &PlannedDrill,
        before: &BaselineReading,
        seen: Result<BaselineReading, String>,
    ) -> DrillEnd {
        let after = match self.read(planned).await {
            Ok(after) => after,
            Err(why) => {
                return DrillEnd::failed(format!("nobody knows whether anything is left: {why}"))
                    .leaving();
            }
        };
        let hash = Some(after.hash());
        let differing = before.differing(&after);
        if !differing.is_empty() {
            let fields = differing.join(", ");
            let why =
                format!("its tool server says that it was taken back, and yet differs: {fields}");
            return DrillEnd {
                after: hash,
                ..DrillEnd::failed(why).leaving()
            };
        }
        let end = match seen {
            Ok(seen) if !before.differing(&seen).is_empty() => {
                DrillEnd::of(DrillVerdict::Proven, None)
            }
            Ok(seen) if seen.is_empty() => DrillEnd::failed(NOTHING_READ).leaving(),
            Ok(_) => DrillEnd::failed(UNSEEN).leaving(),
            Err(why) => DrillEnd::failed(format!("the effect cannot be seen: {why}")).leaving(),
        };
        DrillEnd { after: hash, ..end }
    }
}

fn unknown_call(said: &str) -> DrillEnd {
    DrillEnd::unknown(format!("it is not known whether the call has run: {said}"))
}

/// Whether a call was refused because no person has allowed it.
fn needs_person(code: Option<&str>) -> bool {
    matches!(code, Some("approval_denied" | "approval_pending"))
}

/// An undo that was not made.
fn unmade(why: &NoUndo) -> DrillEnd {
    let words = format!("it was not taken back: {why}");
    if matches!(
        why,
        NoUndo::Unknown(_) | NoUndo::UnknownOutcome(_) | NoUndo::Running(_)
    ) {
        return DrillEnd::unknown(words);
    }
    DrillEnd::failed(words).leaving()
}
