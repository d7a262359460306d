//! What is drafted of one tool, tried on what was recorded: every call that was learned from has to
//! pass. A draft that keeps one out is replaced by one without bounds, and the others stay.

use super::arguments::{DraftedArguments, OutsideCall};
use super::bounds::learned_from;
use super::definitions::Definitions;
use super::observed::{LearnedCalls, ObservedSample, ObservedTool};
use super::tried::TriedArguments;
use crate::cli::contract_draft::{ContractDraft, asks};
use crate::cli::yaml::quoted;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const RECORDED_CALL_NOTE: &str = "no bounds: those that were drafted would have refused a call that was recorded. That is a defect of toolgate";
const UNUSABLE_NOTE: &str =
    "no bounds: what would bound these arguments is more than a contract may say";
const UNFIT_NOTE: &str =
    "no bounds and no samples: the draft with them was not good. That is a defect of toolgate";
const UNTRIED_NOTE: &str = "no sample tries these bounds: what was recorded is too long or too deep, or has references to secrets";

/// One tool.
pub(super) struct DraftedTool<'a> {
    /// `server__tool`.
    pub(super) name: &'a str,
    observed: &'a ObservedTool,
    /// What its server says of it, whole.
    definition: Value,
    /// Its input schema, if it is known.
    pub(super) schema: Option<Value>,
    /// None: nothing is bounded.
    arguments: Option<TriedArguments>,
    /// Calls that pass.
    pub(super) samples: Vec<&'a ObservedSample>,
    /// Why it is not as it should be.
    pub(super) flaw: Option<&'static str>,
}

/// All that were learned from, by name.
pub(super) fn drafted<'a>(
    observed: &'a LearnedCalls,
    definitions: &Definitions,
) -> BTreeMap<&'a str, DraftedTool<'a>> {
    let tools = observed.tools.iter();
    tools
        .map(|(name, tool)| (name.as_str(), DraftedTool::of(name, tool, definitions)))
        .collect()
}

impl<'a> DraftedTool<'a> {
    fn of(name: &'a str, observed: &'a ObservedTool, definitions: &Definitions) -> Self {
        let schema = definitions.input_schema(name);
        let drafted = DraftedArguments::of(observed, schema.as_ref().unwrap_or(&Value::Null));
        let arguments = TriedArguments::of(drafted, schema.as_ref());
        let flaw = arguments.is_none().then_some(UNUSABLE_NOTE);
        let mut tool = Self {
            name,
            observed,
            definition: definitions.whole(name),
            schema,
            arguments,
            samples: observed.samples.iter().collect(),
            flaw,
        };
        let passing = |sample: &&ObservedSample| {
            let tried = tool.arguments.as_ref();
            tried.is_none_or(|tried| tried.passes(&sample.arguments))
        };
        tool.samples = observed.samples.iter().filter(passing).collect();
        tool
    }

    /// Tries the arguments of a call that was learned from.
    pub(super) fn try_recorded(&mut self, arguments: &Map<String, Value>) {
        let tried = self.arguments.as_ref();
        if tried.is_some_and(|tried| !tried.passes(arguments)) {
            self.unbind(RECORDED_CALL_NOTE);
        }
    }

    /// Without bounds.
    fn unbind(&mut self, why: &'static str) {
        self.arguments = None;
        self.flaw = Some(why);
        self.samples = self.observed.samples.iter().collect();
    }

    /// Without bounds and samples.
    pub(super) fn strip(&mut self) {
        self.unbind(UNFIT_NOTE);
        self.samples.clear();
    }

    /// Calls that are refused: the first sample, with one thing that is wrong.
    pub(super) fn outside(&self) -> Vec<OutsideCall> {
        let (Some(tried), Some(first)) = (&self.arguments, self.samples.first()) else {
            return Vec::new();
        };
        let outside = tried.drafted.outside(&first.arguments).into_iter();
        outside
            .filter(|call| !tried.passes(&call.arguments))
            .collect()
    }

    /// Whether a person is asked each time.
    pub(super) fn asks(&self) -> bool {
        asks(&self.definition)
    }

    /// The contract, in lines.
    pub(super) fn contract(&self, server: &str) -> String {
        let arguments = self.arguments.as_ref();
        let draft = ContractDraft {
            name: self.name,
            server,
            definition: &self.definition,
            notes: &self.notes(),
            arguments: &arguments.map_or_else(String::new, |tried| tried.drafted.text()),
        };
        let mut text = String::new();
        draft.push(&mut text);
        text
    }

    /// What is to be known of the contract.
    fn notes(&self) -> Vec<String> {
        let observed = self.observed;
        let drafted = learned_from(observed.calls, observed.agents.len());
        let mut notes = vec![format!("drafted {drafted}")];
        notes.extend(self.flaw.map(ToOwned::to_owned));
        if self.samples.is_empty() && self.arguments.is_some() {
            notes.push(UNTRIED_NOTE.to_owned());
        }
        if self.schema.is_none() {
            notes.push(
                "what its server says of it is not known here: neither a pin nor the server told it"
                    .to_owned(),
            );
        }
        let named = observed.arguments.named.iter();
        let named = named.filter(|(_, values)| values.has_reference);
        notes.extend(named.map(|(name, _)| {
            let name = quoted(name);
            format!("a reference to a secret was given in {name}: write its place in `secrets` if it may stand there")
        }));
        notes
    }
}
