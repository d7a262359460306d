//! What was sent and what came back of a call, as the ledger keeps it where its contract says so
//! (`audit`, policy §4.13): records of their own beside the entry, which stays small.

use super::{Ending, RecordedCall};
use crate::guards::{Mode, audit};
use crate::mcp::json::Text;
use crate::model::content::{ContentHead, ContentPart};
use crate::model::refusal::Refusal;
use crate::store::journal::{Item, MAX_EVENT_BYTES};
use crate::store::state::event::encode;
use serde_json::Value;

/// Bytes that are kept of each part at most; of a longer one its size is.
const MAX_CONTENT_BYTES: usize = MAX_EVENT_BYTES - (4 << 10);
/// The same of the arguments of a call that was refused: nobody has to answer for sending many.
const MAX_REFUSED_BYTES: usize = 4 << 10;

/// Has the ledger keep the arguments of a call that is about to begin, once: nothing is sent of which it
/// could not keep what the contract says.
pub(in crate::gate) fn keep_arguments(recorded: &RecordedCall<'_>) -> Result<bool, Refusal> {
    if !recorded.found.has_kept_arguments {
        let arguments = with_rule(recorded, |rule| arguments(recorded, rule, None));
        let kept = recorded.gate.keep(arguments);
        kept.map_err(|_| Refusal::StoreUnavailable)?;
    }
    Ok(true)
}

/// What the ledger keeps of a call that has ended, but for what it has already: its arguments and its result.
pub(in crate::gate) fn at_end(recorded: &RecordedCall<'_>, ending: &Ending) -> Vec<Item> {
    with_rule(recorded, |rule| {
        let mut kept = if recorded.found.has_kept_arguments {
            Vec::new()
        } else {
            arguments(recorded, rule, Some(ending))
        };
        kept.extend(result(recorded, rule, ending));
        kept
    })
}

/// The arguments, as they were given and as they are sent.
fn arguments(
    recorded: &RecordedCall<'_>,
    rule: &audit::Rule,
    ending: Option<&Ending>,
) -> Vec<Item> {
    let judged = &recorded.call.judged;
    let is_refused = ending.is_some_and(Result::is_err) && recorded.found.dispatch.attempts == 0;
    let most = if is_refused {
        MAX_REFUSED_BYTES
    } else {
        MAX_CONTENT_BYTES
    };
    let original = judged
        .rewritten
        .as_ref()
        .map(|rewritten| &rewritten.original);
    let parts = [
        (ContentPart::Original, original),
        (ContentPart::Arguments, Some(&judged.arguments)),
    ];
    let parts = parts
        .into_iter()
        .filter_map(|(part, value)| Some((part, value?)));
    parts
        .filter_map(|(part, value)| kept(recorded, rule, part, value, most))
        .collect()
}

/// The result, as its agent reads it, if there is one.
fn result(recorded: &RecordedCall<'_>, rule: &audit::Rule, ending: &Ending) -> Option<Item> {
    let answer = ending
        .as_ref()
        .ok()
        .filter(|_| !recorded.found.key.replayed);
    let body = answer?.body.as_ref()?;
    let value = Text::parse::<Value>(body).ok()?;
    kept(
        recorded,
        rule,
        ContentPart::Result,
        &value,
        MAX_CONTENT_BYTES,
    )
}

/// What `keep` makes of the rule for the call; nothing where hashes alone are kept.
fn with_rule(
    recorded: &RecordedCall<'_>,
    keep: impl FnOnce(&audit::Rule) -> Vec<Item>,
) -> Vec<Item> {
    let admitted = recorded.admitted();
    let said = admitted.as_ref().map(|admitted| &admitted.rules().audit);
    let observed = observed(recorded, said);
    match observed.as_ref().or(said) {
        Some(rule) if rule.keeps_contents() => keep(rule),
        Some(_) | None => Vec::new(),
    }
}

/// What the configuration has kept of a call that is only observed, of which its contract says nothing
/// or that has none. One that a layer takes from its caller has its contract all the same.
fn observed(recorded: &RecordedCall<'_>, said: Option<&audit::Rule>) -> Option<audit::Rule> {
    let RecordedCall {
        gate, policy, call, ..
    } = *recorded;
    if policy.mode != Mode::Observe {
        return None;
    }
    let contract = policy.allowlist.contract_of(&call.judged.tool);
    let is_said = said
        .or(contract.map(|rules| &rules.audit))
        .is_some_and(|rule| rule.is_said);
    (!is_said).then(|| audit::Rule::unsaid(gate.observed_contents))
}

fn kept(
    recorded: &RecordedCall<'_>,
    rule: &audit::Rule,
    part: ContentPart,
    value: &Value,
    most: usize,
) -> Option<Item> {
    let mut text = rule.kept(value)?.to_string().into_bytes();
    let mut head = ContentHead {
        action_id: recorded.call.judged.action.to_string(),
        part,
        form: rule.form,
        bytes: text.len() as u64,
        key: None,
    };
    if text.len() > most {
        text.clear();
    } else if let Some(key) = &recorded.gate.content_keys.current {
        text = key.encrypt(&mut head, &text)?;
    }
    encode(&head, &text).ok().map(Item::Content)
}
