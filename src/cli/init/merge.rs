//! An agent's own configuration, three ways: as it was before `init`, as `init` wrote it, and as it
//! is now. What `init` changed goes back, and what the operator changed since stays.

use super::jsonc::{JsoncDocument, JsoncMember, indentation, line_end, pretty_in};
use super::source::{is_toolgate, section};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::Range;

/// What says where an entry leads; toolgate that is started with other arguments is toolgate all the same.
const TARGET_KEYS: [&str; 2] = ["url", "command"];

/// The file with `init` taken out of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MergedConfig {
    pub(super) text: String,
    /// What was decided, to be told.
    pub(super) notes: Vec<String>,
    /// Entries that still lead to toolgate, since the operator has changed what `init` wrote in them.
    pub(super) leading: Vec<String>,
}

/// What becomes of one entry.
#[derive(Debug, PartialEq, Eq)]
enum EntryChange {
    Set(String),
    Remove,
}

/// The file three times.
struct ConfigVersions<'a> {
    before: Entries<'a>,
    written: Entries<'a>,
    now: Entries<'a>,
    /// Whether what was changed since goes, too.
    force: bool,
}

/// The entries of one version of the file.
struct Entries<'a> {
    document: &'a JsoncDocument,
    members: Vec<JsoncMember>,
    values: Map<String, Value>,
}

impl<'a> Entries<'a> {
    fn of(document: &'a JsoncDocument, place: &[&str]) -> Option<Self> {
        let values = document.text().at(place)?.value();
        Some(Self {
            document,
            members: document.members(place)?,
            values: values.as_object()?.clone(),
        })
    }

    fn whole(&self, name: &str) -> Option<Range<usize>> {
        let found = self.members.iter().find(|member| member.name == name);
        found.map(|member| member.whole.clone())
    }

    /// The value of an entry, word for word.
    fn raw(&self, name: &str) -> String {
        let found = self.members.iter().find(|member| member.name == name);
        found.map_or_else(String::new, |member| {
            self.document.written()[member.value.clone()].to_owned()
        })
    }
}

/// Takes out of `now` what made `written` of `before`; with `force` also what was changed since. An
/// error says why that cannot be.
pub(super) fn merge(
    before: &str,
    written: &str,
    now: &str,
    force: bool,
) -> Result<MergedConfig, String> {
    let read = |text: &str| JsoncDocument::read(text.to_owned());
    let documents = (read(before)?, read(written)?, read(now)?);
    let place = section(&documents.0).ok_or("what it was before names no servers")?;
    let entries = |document| Entries::of(document, place);
    let missing = || format!("it has no `{}` any more", place.join("."));
    let versions = ConfigVersions {
        before: entries(&documents.0).ok_or_else(missing)?,
        written: entries(&documents.1).ok_or_else(missing)?,
        now: entries(&documents.2).ok_or_else(missing)?,
        force,
    };
    let (before, written) = (&versions.before, &versions.written);
    let mut found = MergedConfig {
        text: String::new(),
        notes: Vec::new(),
        leading: Vec::new(),
    };
    let mut changes = BTreeMap::new();
    let added = written.values.keys();
    let added = added.filter(|name| !before.values.contains_key(*name));
    for name in before.values.keys().chain(added) {
        if before.values.get(name) != written.values.get(name)
            && let Some(change) = versions.change(name, &mut found)
        {
            changes.insert(name.as_str(), change);
        }
    }
    found.text = changed(before, &versions.now, place, &changes)?;
    judge(&found.text, &documents.2, place, &changes)?;
    Ok(found)
}

impl ConfigVersions<'_> {
    /// What becomes of the entry `name`; none where it stays.
    fn change(&self, name: &str, found: &mut MergedConfig) -> Option<EntryChange> {
        let of = |entries: &Entries<'_>| entries.values.get(name).cloned();
        let (was, wrote, is) = (of(&self.before), of(&self.written), of(&self.now));
        let shown = name.escape_debug();
        if is == was {
            return None;
        }
        if is == wrote {
            return Some(was.map_or(EntryChange::Remove, |_| {
                EntryChange::Set(self.before.raw(name))
            }));
        }
        let (Some(wrote), Some(is)) = (wrote, is) else {
            let words = if self.now.values.contains_key(name) {
                "was written anew since, and stays so"
            } else {
                "was removed since, and stays away"
            };
            found.notes.push(format!("`{shown}` {words}"));
            return None;
        };
        if TARGET_KEYS
            .iter()
            .any(|key| leads_elsewhere(key, &is, &wrote))
        {
            let words = "was changed since and leads elsewhere: it stays so";
            found.notes.push(format!("`{shown}` {words}"));
            return None;
        }
        if was.is_none() {
            let words = "was changed since, and is gone with what was added";
            found.notes.push(format!("`{shown}` {words}"));
            return Some(EntryChange::Remove);
        }
        self.reconciled(name, found)
    }

    /// An entry that `init` has rewritten, and the operator has changed since.
    fn reconciled(&self, name: &str, found: &mut MergedConfig) -> Option<EntryChange> {
        let (merged, disputed) = merged_entry(
            self.before.values.get(name)?,
            self.written.values.get(name)?,
            self.now.values.get(name)?,
        );
        let shown = name.escape_debug();
        if !disputed.is_empty() && !self.force {
            let disputed = disputed.join(", ");
            let words = "was changed since, and still leads to toolgate";
            found.notes.push(format!("`{shown}`: {disputed} {words}"));
            found.leading.push(name.to_owned());
            return None;
        }
        if !disputed.is_empty() {
            let words = "is as it was before, without what was changed since";
            found.notes.push(format!("`{shown}` {words}"));
            return Some(EntryChange::Set(self.before.raw(name)));
        }
        let words = "is as it was before, with what was added since";
        found.notes.push(format!("`{shown}` {words}"));
        let at = self.now.whole(name).map_or(0, |whole| whole.start);
        let text = self.now.document.written();
        let value = pretty_in(text, &merged, indentation(text, at));
        Some(EntryChange::Set(value))
    }
}

/// Whether an entry that `init` wrote leads elsewhere since by that key. A toolgate in another place is
/// none.
fn leads_elsewhere(key: &str, is: &Value, wrote: &Value) -> bool {
    let starts_toolgate = key == "command" && is[key].as_str().is_some_and(is_toolgate);
    is.get(key) != wrote.get(key) && !starts_toolgate
}

/// One entry three ways, member by member, and the members that both sides changed.
fn merged_entry(was: &Value, wrote: &Value, is: &Value) -> (Value, Vec<String>) {
    let (mut merged, mut disputed) = (is.clone(), Vec::new());
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (was, wrote) = (members(was), members(wrote));
    let added = wrote.keys().filter(|key| !was.contains_key(*key));
    for key in was.keys().chain(added) {
        let (old, new, at) = (was.get(key), wrote.get(key), is.get(key));
        if old == new || at == old {
            continue;
        }
        if at != new {
            disputed.push(format!("`{}`", key.escape_debug()));
        } else if let Some(merged) = merged.as_object_mut() {
            match old {
                Some(old) => drop(merged.insert(key.clone(), old.clone())),
                None => drop(merged.shift_remove(key)),
            }
        }
    }
    (merged, disputed)
}

/// Whether a file is one of JSON that names no tool servers, so that it leads nowhere.
pub(super) fn names_no_server(now: &[u8]) -> bool {
    let text = String::from_utf8(now.to_vec()).ok();
    let document = text.and_then(|text| JsoncDocument::read(text).ok());
    document.is_some_and(|document| section(&document).is_none())
}

/// The text of now with these changes; every other byte stays.
fn changed(
    before: &Entries<'_>,
    now: &Entries<'_>,
    place: &[&str],
    changes: &BTreeMap<&str, EntryChange>,
) -> Result<String, String> {
    let is_new = |member: &&JsoncMember| {
        let set = matches!(changes.get(&*member.name), Some(EntryChange::Set(_)));
        set && now.whole(&member.name).is_none()
    };
    let inserted: Vec<&JsoncMember> = before.members.iter().filter(is_new).collect();
    let mut text = now.document.written().to_owned();
    let mut removed: Vec<&str> = Vec::new();
    for (name, change) in changes {
        match change {
            EntryChange::Set(value) => {
                if let Some(member) = reread(&text, place)?.iter().find(|one| one.name == *name) {
                    text.replace_range(member.value.clone(), value);
                }
            }
            EntryChange::Remove => removed.push(name),
        }
    }
    if !inserted.is_empty() {
        text = with_inserted(before, &inserted, text, place, &mut removed)?;
    }
    for name in removed {
        text = without(text, place, name)?;
    }
    Ok(text)
}

/// With entries as they were before, in place of the first that is to go, or behind all.
fn with_inserted(
    before: &Entries<'_>,
    inserted: &[&JsoncMember],
    mut text: String,
    place: &[&str],
    removed: &mut Vec<&str>,
) -> Result<String, String> {
    let members = reread(&text, place)?;
    let (source, end) = (before.document.written(), line_end(&text));
    let first = before.members.iter().position(|one| one == inserted[0]);
    let adjacent = first.is_some_and(|first| {
        let following = before.members[first..].iter();
        following.zip(inserted).all(|(one, other)| one == *other)
    });
    let replaced = removed
        .iter()
        .position(|name| members.iter().any(|member| member.name == **name))
        .map(|index| removed.remove(index));
    let anchor = match replaced {
        Some(name) => members.iter().find(|member| member.name == name),
        None => members.last(),
    };
    let blanks = match anchor {
        Some(anchor) => indentation(&text, anchor.whole.start).to_owned(),
        None => indentation(source, inserted[0].whole.start).to_owned(),
    };
    // Comments between entries come along where nothing else stood between them.
    let entries = if adjacent {
        source[inserted[0].whole.start..inserted[inserted.len() - 1].whole.end].to_owned()
    } else {
        let each = inserted.iter().map(|one| &source[one.whole.clone()]);
        each.collect::<Vec<_>>().join(&format!(",{end}{blanks}"))
    };
    match (anchor, replaced) {
        (Some(anchor), Some(_)) => text.replace_range(anchor.whole.clone(), &entries),
        (Some(anchor), None) => {
            text.insert_str(anchor.whole.end, &format!(",{end}{blanks}{entries}"));
        }
        (None, _) => {
            let all = emptied(&text, place)?;
            let short = blanks.get(..blanks.len() / 2).unwrap_or_default();
            text.replace_range(all, &format!("{{{end}{blanks}{entries}{end}{short}}}"));
        }
    }
    Ok(text)
}

fn without(mut text: String, place: &[&str], name: &str) -> Result<String, String> {
    let members = reread(&text, place)?;
    let Some(at) = members.iter().position(|member| member.name == name) else {
        return Ok(text);
    };
    let own = members[at].whole.clone();
    let range = match (at.checked_sub(1), members.get(at + 1)) {
        (Some(previous), _) => members[previous].whole.end..own.end,
        (None, Some(next)) => own.start..next.whole.start,
        (None, None) => {
            let all = emptied(&text, place)?;
            text.replace_range(all, "{}");
            return Ok(text);
        }
    };
    text.replace_range(range, "");
    Ok(text)
}

fn reread(text: &str, place: &[&str]) -> Result<Vec<JsoncMember>, String> {
    let document = JsoncDocument::read(text.to_owned())?;
    document
        .members(place)
        .ok_or_else(|| "it could not be changed in place".to_owned())
}

/// Where the object of all entries stands.
fn emptied(text: &str, place: &[&str]) -> Result<Range<usize>, String> {
    let document = JsoncDocument::read(text.to_owned())?;
    let (last, above) = place.split_last().ok_or("there is no place for entries")?;
    let members = document.members(above).unwrap_or_default();
    let own = members.into_iter().find(|member| member.name == *last);
    own.map(|own| own.value)
        .ok_or_else(|| "it could not be changed in place".to_owned())
}

/// Reads the new text again: these entries have changed, and nothing else.
fn judge(
    text: &str,
    now: &JsoncDocument,
    place: &[&str],
    changes: &BTreeMap<&str, EntryChange>,
) -> Result<(), String> {
    let (mut expected, mut found) = (
        now.text().value(),
        JsoncDocument::read(text.to_owned())?.text().value(),
    );
    let own = |tree: &mut Value, name: &str| {
        let at = place.iter().try_fold(tree, |at, step| at.get_mut(*step));
        at.and_then(Value::as_object_mut)
            .and_then(|entries| entries.shift_remove(name))
    };
    for (name, change) in changes {
        own(&mut expected, name);
        let is = own(&mut found, name);
        let is_so = match change {
            EntryChange::Remove => is.is_none(),
            EntryChange::Set(value) => {
                let read = JsoncDocument::read(value.clone())?;
                is == Some(read.text().value())
            }
        };
        if !is_so {
            return Err("it could not be changed in place".to_owned());
        }
    }
    if expected == found {
        Ok(())
    } else {
        Err("it could not be changed without changing more".to_owned())
    }
}

#[cfg(test)]
mod tests;
