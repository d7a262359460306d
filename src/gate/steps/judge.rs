//! Steps 3 to 5 as guards judge them: nothing is sent, and no store is asked.

use crate::gate::pipeline;
use crate::gate::pipeline::Stage;
use crate::guards::allowlist::Admitted;
use crate::guards::evidence::{Checked, Permit, Ruled};
use crate::guards::rewrite::ChangedArguments;
use crate::model::caller::Caller;
use crate::model::refusal::Refusal;
use crate::schema::Schema;
use serde_json::Value;

/// Where each step's verdict goes.
pub(crate) trait Notes {
    /// Notes the verdict of a step, and gives it back.
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal>;

    /// Notes what the contract's own steps make of the arguments, before that is judged.
    fn changed(&mut self, _before: &Value, _changed: &ChangedArguments) {}
}

/// What a caller sends, and the schema that it has to fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// The tool's input schema.
    pub schema: &'a Schema,
    /// The arguments.
    pub values: &'a Value,
}

/// By the contract that counts for the arguments; step 2 has admitted the caller.
pub(in crate::gate) fn ruled(
    admitted: &Admitted<'_>,
    arguments: Arguments<'_>,
    notes: &mut impl Notes,
) -> Result<Ruled, Refusal> {
    pipeline::judged(&mut Judging { admitted, notes }, arguments)
}

/// The arguments, and what the step before proved of them.
struct Proven<'a, E> {
    case: Arguments<'a>,
    evidence: E,
}

struct Judging<'a, 'p, N> {
    admitted: &'a Admitted<'p>,
    notes: &'a mut N,
}

impl<'a, N: Notes> pipeline::Judge for Judging<'a, '_, N> {
    type Visible = Arguments<'a>;
    type Checked = Proven<'a, Checked>;
    type Permitted = Proven<'a, Permit>;
    type Ruled = Ruled;
    type Refusal = Refusal;

    fn arguments(&mut self, case: Arguments<'a>) -> Result<Self::Checked, Refusal> {
        let rules = self.admitted.rules();
        let checked = rules.arguments.check(case.schema, case.values);
        let evidence = self.notes.note(Stage::Arguments, checked)?;
        Ok(Proven { case, evidence })
    }

    fn permission(&mut self, checked: Self::Checked) -> Result<Self::Permitted, Refusal> {
        let rule = &self.admitted.rules().permission;
        let Proven { case, evidence } = checked;
        let permit = rule.allow(case.caller, case.values, &evidence);
        let evidence = self.notes.note(Stage::Permission, permit)?;
        Ok(Proven { case, evidence })
    }

    fn rules(&mut self, permitted: Self::Permitted) -> Result<Ruled, Refusal> {
        let contract = self.admitted.rules();
        let Proven { case, evidence } = permitted;
        let declared = contract.arguments.declared(case.schema);
        let ruled = contract
            .rules
            .apply(case.caller, case.values, &declared, &evidence);
        self.notes.note(Stage::Rules, ruled)
    }
}
