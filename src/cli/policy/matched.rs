//! Which entry of the configuration an entry of a bundle means, so that a secret that is written out
//! stays with the one that it proves.

use serde_json::Value;

/// The members that say who an entry of a list is, or what it is called. What it may do is said by the
/// others.
const NAMING_MEMBERS: [&str; 5] = ["agent", "name", "tenant", "front_end", "certificate"];

/// For each entry of `wanted` the index of the one of `present` that is meant by it; both are without
/// secrets. None: there is none, or more than one could be meant.
pub(super) fn matched(wanted: &[Value], present: &[Value]) -> Vec<Option<usize>> {
    let place = |(index, entry)| {
        let named = |one: &Value| is_same_name(one, entry);
        let (ours, theirs) = (having(wanted, named), having(present, named));
        // Entries that say the same give each of their tokens the same rights, in whatever order.
        let found = paired(index, &ours, &theirs).filter(|_| {
            let alike = |all: &[Value], of: &[usize]| of.iter().all(|one| all[*one] == all[of[0]]);
            alike(wanted, &ours) && alike(present, &theirs)
        });
        let equal = |one: &Value| one == entry;
        let (ours, theirs) = (having(wanted, equal), having(present, equal));
        found.or_else(|| paired(index, &ours, &theirs))
    };
    wanted.iter().enumerate().map(place).collect()
}

/// The indices of the entries that `is_meant` accepts.
fn having(entries: &[Value], is_meant: impl Fn(&Value) -> bool) -> Vec<usize> {
    let numbered = entries.iter().enumerate();
    let meant = numbered.filter(|(_, entry)| is_meant(entry));
    meant.map(|(index, _)| index).collect()
}

/// What stands in `theirs` where `index` stands in `ours`, if there are as many of both.
fn paired(index: usize, ours: &[usize], theirs: &[usize]) -> Option<usize> {
    let at = ours.iter().position(|one| *one == index)?;
    theirs
        .get(at)
        .copied()
        .filter(|_| ours.len() == theirs.len())
}

/// Whether two entries have a name, and the same.
fn is_same_name(one: &Value, other: &Value) -> bool {
    let has_name = NAMING_MEMBERS.iter().any(|member| !one[*member].is_null());
    has_name
        && NAMING_MEMBERS
            .iter()
            .all(|member| one[*member] == other[*member])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ONE: &str = "agent: a, tenant: t_1";

    /// Entries as YAML has them between braces.
    fn entries(written: &[&str]) -> Vec<Value> {
        let member = |pair: &str| {
            let (key, value) = pair.split_once(": ").unwrap();
            (key.to_owned(), json!(value))
        };
        let entry = |text: &&str| Value::Object(text.split(", ").map(member).collect());
        written.iter().map(entry).collect()
    }

    fn check(wanted: &[&str], present: &[&str], expected: &[Option<usize>]) {
        let found = matched(&entries(wanted), &entries(present));
        assert_eq!(found, expected, "{wanted:?} among {present:?}");
    }

    /// 003-42: an entry is known by who it is, wherever it stands, and what it may do may change.
    #[test]
    fn entries_are_found_by_who_they_are() {
        let (zero, two) = ("agent: a, tenant: t_0", "agent: a, tenant: t_2");
        check(&[ONE, two], &[zero, ONE, two], &[Some(1), Some(2)]);
        check(&[ONE, two], &[two, ONE], &[Some(1), Some(0)]);
        check(&[ONE], &["agent: a, tenant: t_1, group: g"], &[Some(0)]);
        check(&[ONE, "name: h"], &["name: h", ONE], &[Some(1), Some(0)]);
        check(&[ONE], &[two], &[None]);
        check(&[ONE], &["agent: a"], &[None]);
        check(&["token: x"], &["token: y"], &[None]);
    }

    /// Of several entries of one name each is known by all that it says, and else not at all.
    #[test]
    fn namesakes_are_found_by_all_that_they_say() {
        let senior = "agent: a, tenant: t_1, group: senior";
        let junior = "agent: a, tenant: t_1, group: junior";
        check(&[senior, junior], &[junior, senior], &[Some(1), Some(0)]);
        check(&[senior, junior], &[junior], &[None, Some(0)]);
        check(&[junior], &[senior, junior], &[Some(1)]);
        check(&[senior, senior], &[senior, junior], &[None, None]);
        check(&[senior, junior], &[ONE, ONE], &[None, None]);
        // Two tokens with the same rights, of which each stays one of them.
        check(&[senior, senior], &[ONE, ONE], &[Some(0), Some(1)]);
        check(&[ONE, ONE], &[ONE, ONE, ONE], &[None, None]);
    }
}
