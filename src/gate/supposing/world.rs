//! The world of a call that nobody makes: only the policy answers the gate, and the task as it is
//! given.

use super::steps::{hints_idempotent, split, visible, wanted};
use super::{Made, Passed, Question};
use crate::gate::pipeline::Stage;
use crate::gate::pipeline::Turn;
use crate::gate::pipeline::World;
use crate::gate::prepare::without_empty;
use crate::gate::record::hashes::params_hash;
use crate::gate::record::hashes::seen_call;
use crate::gate::steps::judge::Arguments;
use crate::gate::steps::judge::Notes;
use crate::gate::steps::judge::ruled;
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::approval;
use crate::guards::budget::UsedBudget;
use crate::guards::evidence::{Final, NotRepeated, Ruled};
use crate::guards::idempotency::{CallPlace, Given, KeyRequest, Keyed};
use crate::guards::repetition::WatchedAttempt;
use crate::guards::rewrite::{RewriteDraft, RewriteOutcome, passed_again};
use crate::model::digest::Digest;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::model::window::SlidingWindow;
use crate::policy::Policy;
use crate::policy::pack::TaskBefore;
use crate::store::state::budget::{SeenCall, TaskUsage};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// The world of a call that nobody makes.
pub(super) struct Supposing<'n, 'p, 'a, N> {
    pub(super) policy: &'p Policy,
    pub(super) asked: Arguments<'a>,
    /// When step 2 was taken before.
    pub(super) admitted: Option<Admitted<'p>>,
    /// Without one, nothing after step 6 is asked.
    pub(super) question: Option<&'n Question<'a>>,
    pub(super) notes: &'n mut N,
}

/// Why a supposed call ends early.
pub(super) enum SupposedStop<'p> {
    Refused(Refusal),
    /// Nothing more was asked.
    Settled(Made<'p>),
}

impl From<Refusal> for SupposedStop<'_> {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A supposed call that its caller may make.
pub(super) struct SupposedCall<'p, 'a> {
    admitted: Admitted<'p>,
    arguments: Cow<'a, Value>,
    /// The key that stood among the arguments.
    key: Option<Cow<'a, Value>>,
}

/// One that steps 3 to 5 have nothing against.
pub(super) struct SupposedRuled<'p, 'a> {
    case: SupposedCall<'p, 'a>,
    chosen: Admitted<'p>,
    ruled: Ruled,
}

/// One whose arguments stay as they are, with what the steps after that leave.
pub(super) struct SupposedSettled<'p, 'a, T> {
    rules: &'p Arc<ToolRules>,
    arguments: Cow<'a, Value>,
    key: Option<Cow<'a, Value>>,
    left: T,
}

impl<'p, 'a, T> SupposedSettled<'p, 'a, T> {
    fn with<U>(self, left: U) -> SupposedSettled<'p, 'a, U> {
        SupposedSettled {
            rules: self.rules,
            arguments: self.arguments,
            key: self.key,
            left,
        }
    }
}

/// One that the repetition guard has looked at, with its key.
pub(super) type SupposedKeyed<'p, 'a> = SupposedSettled<'p, 'a, Option<Keyed>>;

impl<'a, N: Notes> Supposing<'_, '_, 'a, N> {
    fn question(&self) -> Result<&Question<'a>, Refusal> {
        self.question.ok_or(Refusal::InternalError)
    }
}

impl<'p, 'a, N: Notes + Send> World for Supposing<'_, 'p, 'a, N> {
    type Case = ();
    type Welcome = ();
    type Visible = SupposedCall<'p, 'a>;
    type Ruled = SupposedRuled<'p, 'a>;
    type Settled = SupposedSettled<'p, 'a, Final>;
    type Placed = SupposedSettled<'p, 'a, (u64, Final)>;
    type Watched = SupposedSettled<'p, 'a, NotRepeated>;
    type Keyed = SupposedKeyed<'p, 'a>;
    type Open = SupposedKeyed<'p, 'a>;
    type Confirmed = SupposedKeyed<'p, 'a>;
    type Funded = SupposedKeyed<'p, 'a>;
    type Approved = SupposedKeyed<'p, 'a>;
    type Fenced = SupposedKeyed<'p, 'a>;
    type Begun = SupposedKeyed<'p, 'a>;
    type Sealed = Passed<'p>;
    type Answer = Passed<'p>;
    type Stop = SupposedStop<'p>;

    fn at(&mut self, _: Stage) -> &mut Self {
        self
    }

    /// What nobody calls uses nothing up.
    fn welcome(&mut self, (): ()) -> Result<(), Self::Stop> {
        Ok(())
    }

    fn visible(&mut self, (): ()) -> Result<Self::Visible, Self::Stop> {
        let arguments = self.asked.values;
        if let Some(admitted) = self.admitted.take() {
            return Ok(SupposedCall {
                admitted,
                arguments: Cow::Borrowed(arguments),
                key: None,
            });
        }
        let (schema, caller, tool) = (self.asked.schema, self.asked.caller, self.question()?.tool);
        // What cannot be held to its contract is withheld from every caller.
        let contract = self.policy.allowlist.contract_of(tool);
        let offered = match contract.and_then(|rules| rules.lacks(schema)) {
            Some(_) => Err(Refusal::ToolNotAllowlisted),
            None => Ok(()),
        };
        self.notes.note(Stage::Visible, offered)?;
        let admitted = visible(self.policy, caller, tool, self.notes)?;
        // The key is taken off before any guard looks at the arguments, as when a call is made.
        let rules = admitted.clone().on(arguments).rules();
        let (arguments, key) = match &rules.idempotency {
            Some(rule) => rule.split(schema, arguments),
            None => (Cow::Borrowed(arguments), None),
        };
        Ok(SupposedCall {
            admitted,
            arguments,
            key,
        })
    }

    async fn judge(&mut self, mut case: Self::Visible) -> Result<Self::Ruled, Self::Stop> {
        let rules = case.admitted.clone().on(&case.arguments).rules();
        let stripped = rules.arguments.strip(self.asked.schema, &case.arguments);
        if let Cow::Owned(stripped) = stripped {
            case.arguments = Cow::Owned(stripped);
        }
        let chosen = case.admitted.clone().on(&case.arguments);
        let arguments = Arguments {
            values: &case.arguments,
            ..self.asked
        };
        let proof = ruled(&chosen, arguments, self.notes)?;
        Ok(SupposedRuled {
            case,
            chosen,
            ruled: proof,
        })
    }

    async fn rewrite(&mut self, passed: Self::Ruled) -> Result<Self::Settled, Self::Stop> {
        let SupposedRuled {
            case,
            chosen,
            ruled: proof,
        } = passed;
        let SupposedCall {
            admitted,
            arguments,
            key,
        } = case;
        let outcome = {
            let mut draft = RewriteDraft::of(&arguments, proof);
            let stepped = chosen.rules().rewrite.steps(self.asked.caller, &arguments);
            stepped.and_then(|stepped| {
                draft.take(stepped);
                draft.finish()
            })
        };
        let changed = match self.notes.note(Stage::Rewrite, outcome)? {
            RewriteOutcome::Same(left) => {
                return Ok(SupposedSettled {
                    rules: chosen.rules(),
                    arguments,
                    key,
                    left,
                });
            }
            RewriteOutcome::Changed(changed) => {
                let rules = admitted.clone().on(&changed.arguments).rules().clone();
                without_empty(changed, &rules, self.asked.schema)
            }
        };
        self.notes.changed(&arguments, &changed);
        let chosen = admitted.on(&changed.arguments);
        let arguments = Arguments {
            values: &changed.arguments,
            ..self.asked
        };
        let left = passed_again(ruled(&chosen, arguments, self.notes)?);
        Ok(SupposedSettled {
            rules: chosen.rules(),
            arguments: Cow::Owned(changed.arguments),
            key,
            left,
        })
    }

    async fn place(&mut self, case: Self::Settled) -> Result<Self::Placed, Self::Stop> {
        let SupposedSettled {
            rules,
            arguments,
            key,
            left: last,
        } = case;
        let Some(question) = self.question else {
            return Err(SupposedStop::Settled(Made { rules, last }));
        };
        // A variant that the call was not before may know an argument for its key.
        let key = key.or_else(|| {
            let rule = rules.idempotency.as_ref()?;
            let (_, late) = rule.split(question.schema, &arguments);
            late.map(|key| Cow::Owned(key.into_owned()))
        });
        let seen = seen_call(question.tool.as_str(), &params_hash(&arguments));
        Ok(SupposedSettled {
            rules,
            arguments,
            key,
            left: (seen, last),
        })
    }

    fn watch(&mut self, case: Self::Placed) -> Result<Self::Watched, Self::Stop> {
        let question = self.question()?;
        let (seen, last) = &case.left;
        let history = history(question.before, *seen);
        let attempt = WatchedAttempt {
            row: 0,
            caller_row: 0,
            tool: question.tool,
            changes: case.rules.side_effect,
            call: *seen,
        };
        let watched = self.policy.repetition.watch(&history, attempt, last);
        let allowed = self.notes.note(Stage::Repetition, watched)?;
        Ok(case.with(allowed.watched))
    }

    fn key(&mut self, case: Self::Watched) -> Result<Self::Keyed, Self::Stop> {
        let question = self.question()?;
        let Some(rule) = &case.rules.idempotency else {
            return Ok(case.with(None));
        };
        let (server, own) = split(question.tool);
        let given = Given {
            meta: question.key,
            argument: case.key.as_deref(),
            ..Given::default()
        };
        let asked = KeyRequest {
            caller: question.caller,
            server: &server,
            tool: own,
            arguments: &case.arguments,
            given,
            place: CallPlace {
                key: Digest::of(b""),
                is_named: false,
            },
            hints_idempotent: hints_idempotent(self.policy, question.tool),
            undoes: None,
        };
        let keyed = rule.key(&asked, &case.left);
        let keyed = self.notes.note(Stage::Idempotency, keyed)?;
        Ok(case.with(Some(keyed)))
    }

    async fn look(&mut self, case: Self::Keyed) -> Result<Self::Open, Self::Stop> {
        Ok(case)
    }

    async fn confirm(&mut self, case: Self::Open) -> Result<Self::Confirmed, Self::Stop> {
        let is_drafted = self.question()?.before.is_drafted;
        if let Some(confirms) = case.rules.confirms.as_ref().filter(|_| !is_drafted) {
            self.notes
                .note::<()>(Stage::Idempotency, Err(confirms.refuse()))?;
        }
        Ok(case)
    }

    async fn fund(&mut self, case: Self::Confirmed) -> Result<Self::Funded, Self::Stop> {
        let Question {
            caller,
            tool,
            before,
            ..
        } = *self.question()?;
        let asked = case
            .rules
            .budget
            .ask(&self.policy.tasks, caller, tool, case.rules.side_effect);
        let task = usage(before, &asked.price.tool);
        let used = UsedBudget {
            task: Some(&task),
            account: None,
        };
        match asked.admit(used, before.elapsed) {
            // A person is asked.
            Err(_) if asked.admit_firmly(used, before.elapsed).is_ok() => {
                if !before.is_approved {
                    let written = case.rules.approval.as_ref();
                    let rule = approval::Rule::of(written, true);
                    let pending = rule.map_or(Refusal::InternalError, |rule| rule.pending(None));
                    self.notes.note::<()>(Stage::Approval, Err(pending))?;
                }
            }
            fits => {
                let fits = fits.map_err(|exceeded| asked.refuse(&exceeded));
                self.notes.note(Stage::Budget, fits.map(drop))?;
            }
        }
        Ok(case)
    }

    async fn approve(
        &mut self,
        case: Self::Funded,
    ) -> Result<Turn<Self::Approved, Self::Keyed>, Self::Stop> {
        let is_approved = self.question()?.before.is_approved;
        if let Some(approval) = case.rules.approval.as_ref().filter(|_| !is_approved) {
            self.notes
                .note::<()>(Stage::Approval, Err(approval.pending(None)))?;
        }
        Ok(Turn::On(case))
    }

    async fn fence(&mut self, case: Self::Approved) -> Result<Self::Fenced, Self::Stop> {
        Ok(case)
    }

    async fn begin(
        &mut self,
        case: Self::Fenced,
    ) -> Result<Turn<Self::Begun, Self::Keyed>, Self::Stop> {
        Ok(Turn::On(case))
    }

    async fn seal(&mut self, case: Self::Begun) -> Result<Self::Sealed, Self::Stop> {
        let Question { tool, key, .. } = *self.question()?;
        let arguments = Arguments {
            values: &case.arguments,
            ..self.asked
        };
        let wanted = wanted(self.policy, case.rules, tool, arguments, key);
        let secrets = self.notes.note(Stage::Secrets, wanted)?;
        Ok(Passed {
            rules: case.rules,
            keyed: case.left,
            secrets,
        })
    }

    async fn send(&mut self, passed: Self::Sealed) -> Result<Self::Answer, Self::Stop> {
        Ok(passed)
    }
}

/// The task as it is before the call, with the last calls of its rate.
fn usage(before: &TaskBefore, tool: &ToolName) -> TaskUsage {
    let mut task = TaskUsage {
        steps: before.steps,
        calls: before.tool_calls,
        cost: before.cost,
        ..TaskUsage::new(0)
    };
    (task.failures, task.failures_in_a_row) = (before.failures, before.failures_in_a_row);
    let used = task.tools.entry(tool.clone()).or_default();
    (used.calls, used.failures_in_a_row) = (before.calls, before.tool_failures);
    if before.calls_now > 0 {
        used.recent = SlidingWindow::full(before.elapsed, before.calls_now);
    }
    task
}

/// The task's last calls, as the loop detector remembers them.
fn history(before: &TaskBefore, call: u64) -> Vec<SeenCall> {
    vec![
        SeenCall {
            call,
            outcome: 0,
            refused: false,
            times: 1,
        };
        before.repeated
    ]
}
