//! Whether what a filter names is there at all: no line for a misspelt name looks like no call.

use super::known_names::KnownNames;
use crate::guards::{REFUSAL_CODES, is_own_code};
use crate::mcp::pretty::plain;
use crate::model::spelling::nearest;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// Names of a kind that are remembered, to find the one that was meant.
const MAX_NAMES_MET: usize = 4096;

/// A kind of name, and how a sentence goes on that says that no call has it.
pub(super) type NameKind = &'static str;
/// A kind of which it is known which names there can be.
pub(super) const CODE: NameKind = "was refused with the code";
/// Another, where a configuration can be read.
pub(super) const TOOL: NameKind = "is of the tool";

/// What was met of each kind of name that is asked for.
#[derive(Debug, Default)]
pub(super) struct MetNames(Mutex<BTreeMap<NameKind, MetName>>);

#[derive(Debug, Default)]
struct MetName {
    asked_for: String,
    is_met: bool,
    others: BTreeSet<String>,
}

/// A name that no call has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnmetName {
    kind: NameKind,
    name: String,
    others: Vec<String>,
}

impl MetNames {
    /// Notes that a call has `names` of that kind, if one of it is asked for.
    pub(super) fn meet<'n>(
        &self,
        kind: NameKind,
        asked_for: Option<&str>,
        names: impl IntoIterator<Item = &'n str>,
    ) {
        let Some(asked_for) = asked_for else { return };
        let mut met = self.0.lock();
        let met = met.entry(kind).or_default();
        if met.asked_for.is_empty() {
            asked_for.clone_into(&mut met.asked_for);
        }
        for name in names {
            met.is_met |= name == asked_for;
            if !met.is_met && met.others.len() < MAX_NAMES_MET && !met.others.contains(name) {
                met.others.insert(name.to_owned());
            }
        }
    }

    /// What was asked for and no call has.
    pub(super) fn unmet(&self) -> Vec<UnmetName> {
        let met = self.0.lock();
        let unmet = met.iter().filter(|(_, met)| !met.is_met);
        unmet
            .map(|(kind, met)| UnmetName {
                kind,
                name: met.asked_for.clone(),
                others: met.others.iter().cloned().collect(),
            })
            .collect()
    }
}

impl UnmetName {
    /// Whether no call can have it: a code that nothing can be refused with, neither toolgate's own nor one
    /// of a rule; or a tool that no server has.
    pub(super) fn is_impossible(&self, known: &KnownNames) -> bool {
        match self.kind {
            CODE => !is_own_code(&self.name) && !known.may_be_code(&self.name),
            TOOL => !known.may_be_tool(&self.name),
            _ => false,
        }
    }

    /// Whether it is one of tools; of messages that are no calls, other things have such names.
    pub(super) fn is_of_tool(&self) -> bool {
        self.kind == TOOL
    }

    /// A line that says so, with the name that may have been meant.
    pub(super) fn words(&self, known: &KnownNames) -> String {
        let mut names = self.others.clone();
        match self.kind {
            CODE => names.extend(REFUSAL_CODES.iter().map(|own| own.code.to_owned())),
            TOOL => names.extend(known.tools()),
            _ => {}
        }
        // A name that is right, and that no call has yet, is the nearest.
        let near = nearest(&self.name, &names).filter(|near| *near != self.name);
        let near = near.map(|near| format!("; did you mean `{}`?", plain(near)));
        format!(
            "no recorded call {} `{}`{}",
            self.kind,
            plain(&self.name),
            near.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_call_has_is_said_with_the_one_that_was_meant() {
        let met = MetNames::default();
        for tool in ["bank__pay", "bank__look", "bank__pay"] {
            met.meet(TOOL, Some("bank__pya"), [tool]);
            met.meet("is by the agent", None, ["bot"]);
            met.meet("is for the user", Some("ada"), ["ada"]);
            met.meet(CODE, Some("budget_exceded"), []);
        }
        let unmet = met.unmet();
        let known = KnownNames::default();
        let words: Vec<String> = unmet.iter().map(|one| one.words(&known)).collect();
        assert_eq!(
            words,
            [
                "no recorded call is of the tool `bank__pya`; did you mean `bank__pay`?",
                "no recorded call was refused with the code `budget_exceded`; did you mean `budget_exceeded`?",
            ]
        );
    }
}
