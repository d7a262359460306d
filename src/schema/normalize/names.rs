//! Shows properties under names that the profile takes. What would judge the names themselves goes,
//! where one has changed.

use super::super::limits::Alphabet;
use super::drop_keywords::parts;
use super::loss::{Losses, Lost, SchemaPlace};
use super::node::{Rest, SchemaNode};
use serde_json::Value;

/// Renames what has to be renamed.
pub(super) fn rename(node: &mut SchemaNode, alphabet: &Alphabet, losses: &mut Losses) {
    if !name(node, alphabet, &SchemaPlace::ROOT_PLACE, losses) {
        return;
    }
    forget(node, &SchemaPlace::ROOT_PLACE, losses);
}

/// Whether a name has changed in `node` or below it.
fn name(
    node: &mut SchemaNode,
    alphabet: &Alphabet,
    at: &SchemaPlace<'_>,
    losses: &mut Losses,
) -> bool {
    let mut changed = false;
    let properties = at.below("properties");
    for member in node
        .members
        .iter_mut()
        .filter(|member| !alphabet.takes(&member.name))
    {
        member.shown = Some(alphabet.fit(&member.name));
        changed = true;
        // In an object that takes other names, its own is one of them now.
        if node.rest != Rest::Closed {
            losses.note(&properties.below(&member.name), Lost::Renamed);
        }
    }
    if !alphabet.top_only {
        parts(
            node,
            |part, at| changed |= name(part, alphabet, at, losses),
            at,
        );
    }
    changed
}

/// Leaves out what speaks of names, or of whole values, by the old ones. Which alternatives speak
/// of one object is not asked.
fn forget(node: &mut SchemaNode, at: &SchemaPlace<'_>, losses: &mut Losses) {
    // A pattern would read the shown name, and what it names is no longer among the rest.
    if !node.patterns.is_empty() {
        node.patterns.clear();
        node.rest = Rest::Open;
        losses.note(at, Lost::Keyword("patternProperties".to_owned()));
    }
    for keyword in std::mem::take(&mut node.asides)
        .into_iter()
        .map(|(keyword, _)| keyword)
    {
        losses.note(at, Lost::Keyword(keyword));
    }
    let nested = |value: &Value| value.is_object() || value.is_array();
    if node
        .literals()
        .is_some_and(|values| values.iter().any(nested))
    {
        node.facts.shift_remove("const");
        node.facts.shift_remove("enum");
        losses.note(at, Lost::Keyword("enum".to_owned()));
    }
    parts(node, |part, at| forget(part, at, losses), at);
}
