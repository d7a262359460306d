//! Where the members of a text's outer objects stand: noted by the strict reader as it passes them,
//! so that a text is not walked anew for each member that is asked for.

use std::ops::Range;
use std::sync::Arc;

/// Objects of this level are the innermost whose members are noted: a message, its `params` or
/// `result`, and the objects in that.
const INDEXED_DEPTH: usize = 3;
/// Members that are noted of one text. Of a text with more none are, and it is walked.
const INDEXED_MEMBERS_MAX: usize = 128;
/// For so many there is room from the first one on: a call has no more, nor have most answers.
const USUAL_MEMBERS: usize = 24;

/// Where the members of the outer objects of one text stand, in the order in which they are written.
#[derive(Debug)]
struct MemberIndex(Vec<IndexedMember>);

/// Where a member stands, in bytes from the start of the text that was read.
#[derive(Debug, Clone, Copy)]
struct IndexedMember {
    /// The key, with its quotes.
    key: [u32; 2],
    value: [u32; 2],
    /// How many noted members stand in its value, at any depth. They follow it.
    inside: u8,
    /// Whether members are noted of an object that is its value.
    is_outer: bool,
    /// Whether the key is written as it is read.
    is_plain: bool,
}

/// What is noted of one object of a text.
#[derive(Debug, Clone)]
pub(super) struct NotedObject {
    index: Arc<MemberIndex>,
    /// Where the object stands in the text that was read.
    start: u32,
    /// The first of its members, and how many there are with all that stand in them.
    first: u8,
    count: u8,
}

impl NotedObject {
    /// Its members.
    pub(super) fn members(&self) -> KnownMembers<'_> {
        let (first, count) = (usize::from(self.first), usize::from(self.count));
        let members = self.index.0.get(first..first + count);
        KnownMembers {
            members: members.unwrap_or_default(),
            first: self.first,
            start: self.start as usize,
        }
    }

    /// What is noted of an object in it: it stands at `at`, counted from this one's start, and has
    /// these members.
    pub(super) fn inside(&self, at: usize, members: &KnownMembers<'_>) -> Option<Self> {
        Some(Self {
            index: self.index.clone(),
            start: self.start.checked_add(u32::try_from(at).ok()?)?,
            first: members.first,
            count: u8::try_from(members.members.len()).ok()?,
        })
    }
}

/// A member that was put into a text: places in the object that is noted.
#[derive(Debug)]
pub(super) struct AddedMember {
    /// Where it was put in, right before the end of an object, and how many bytes were.
    pub(super) at: usize,
    pub(super) by: usize,
    /// Where its key, which is written as it is read, and its value stand now.
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
    /// Where the object begins that it is a member of; none for the one that is noted.
    pub(super) inside: Option<usize>,
}

impl NotedObject {
    /// What is noted of the object with a member more. Of what is in that nothing is.
    pub(super) fn with(&self, added: AddedMember) -> Option<Self> {
        let KnownMembers { members, start, .. } = self.members();
        let place = |at: usize| u32::try_from(start.checked_add(at)?).ok();
        let range = |range: Range<usize>| Some([place(range.start)?, place(range.end)?]);
        let (at, by) = (place(added.at)?, u32::try_from(added.by).ok()?);
        let mut members = members.to_vec();
        for member in &mut members {
            if member.key[0] >= at {
                member.key = member.key.map(|place| place + by);
                member.value[0] += by;
            }
            if member.value[1] > at {
                member.value[1] += by;
            }
        }
        let next = match added.inside {
            None => Some(members.len()),
            Some(object) => {
                let object = place(object)?;
                let is_it = |member: &IndexedMember| member.value[0] == object;
                let at = members.iter().position(is_it)?;
                let outer = members.get_mut(at)?;
                outer.inside += u8::from(outer.is_outer);
                outer.is_outer.then_some(at + usize::from(outer.inside))
            }
        };
        if let Some(next) = next {
            let member = IndexedMember {
                key: range(added.key)?,
                value: range(added.value)?,
                inside: 0,
                is_outer: false,
                is_plain: true,
            };
            members.insert(next, member);
        }
        Some(Self {
            start: self.start,
            first: 0,
            count: u8::try_from(members.len()).ok()?,
            index: Arc::new(MemberIndex(members)),
        })
    }
}

/// The members of one object that are not passed yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownMembers<'a> {
    /// They, and what is in them.
    members: &'a [IndexedMember],
    /// The place of the first one in the index.
    first: u8,
    /// From where in the text that was read places are told.
    start: usize,
}

/// Where a key, with its quotes, and its value stand in an object.
#[derive(Debug)]
pub(super) struct MemberPlace<'a> {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
    /// Whether the key is known to be written as it is read.
    pub(super) is_plain: bool,
    /// The members of the value, if it is an object of which that is noted. Of any other value there
    /// are none.
    pub(super) known: Option<KnownMembers<'a>>,
}

impl<'a> KnownMembers<'a> {
    /// Passes members up to the next that may be called `name`: what is written as its key says that, or
    /// has to be read first. `text` is that of the object.
    pub(super) fn pass_others(&mut self, name: &[u8], text: &[u8]) {
        while let Some(member) = self.members.first() {
            let [start, end] = member.key.map(|at| at as usize);
            let is_as_long = end - start == name.len() + 2;
            let written = || text.get(start + 1 - self.start..end - 1 - self.start);
            if !member.is_plain || (is_as_long && written() == Some(name)) {
                return;
            }
            let Some(next) = self.members.get(1 + usize::from(member.inside)..) else {
                return;
            };
            self.first += 1 + member.inside;
            self.members = next;
        }
    }

    /// Where the next member stands in the object.
    pub(super) fn step(&mut self) -> Option<MemberPlace<'a>> {
        let (member, rest) = self.members.split_first()?;
        let (inside, next) = rest.split_at_checked(usize::from(member.inside))?;
        let known = member.is_outer.then_some(Self {
            members: inside,
            first: self.first + 1,
            start: self.start,
        });
        self.members = next;
        self.first += 1 + member.inside;
        let range = |[start, end]: [u32; 2]| start as usize - self.start..end as usize - self.start;
        Some(MemberPlace {
            key: range(member.key),
            value: range(member.value),
            is_plain: member.is_plain,
            known,
        })
    }
}

/// A key that the reader has passed.
#[derive(Debug)]
pub(super) struct PassedKey {
    /// Where it stands, with its quotes.
    pub(super) place: Range<usize>,
    /// Whether it is written as it is read.
    pub(super) is_plain: bool,
}

impl PassedKey {
    pub(super) fn new(place: Range<usize>, is_plain: bool) -> Self {
        Self { place, is_plain }
    }
}

/// Notes members while a text is read.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    members: Vec<IndexedMember>,
    /// Arrays that are open: what is in them is not noted.
    pub(super) arrays: usize,
    /// There are too many, or the text is too long.
    is_over: bool,
}

/// A member that is being read.
pub(super) struct OpenMember(Option<usize>);

impl IndexBuilder {
    /// A member of an object of that depth begins, with this key; its value stands at `at`.
    pub(super) fn begins(&mut self, depth: usize, key: &PassedKey, at: usize) -> OpenMember {
        if depth > INDEXED_DEPTH || self.arrays > 0 || self.is_over {
            return OpenMember(None);
        }
        let place = |at| u32::try_from(at).ok();
        let places = (place(key.place.start), place(key.place.end), place(at));
        let (Some(start), Some(end), Some(at)) = places else {
            self.is_over = true;
            return OpenMember(None);
        };
        if self.members.len() == INDEXED_MEMBERS_MAX {
            self.is_over = true;
            return OpenMember(None);
        }
        if self.members.is_empty() {
            self.members.reserve(USUAL_MEMBERS);
        }
        self.members.push(IndexedMember {
            key: [start, end],
            value: [at, at],
            inside: 0,
            is_outer: depth < INDEXED_DEPTH,
            is_plain: key.is_plain,
        });
        OpenMember(Some(self.members.len() - 1))
    }

    /// The value of that member ends at `at`.
    pub(super) fn ends(&mut self, OpenMember(member): OpenMember, at: usize) {
        let Some(place) = member else {
            return;
        };
        let inside = self.members.len() - 1 - place;
        let Some(member) = self.members.get_mut(place) else {
            return;
        };
        match (u32::try_from(at), u8::try_from(inside)) {
            (Ok(at), Ok(inside)) => (member.value[1], member.inside) = (at, inside),
            _ => self.is_over = true,
        }
    }

    /// What is noted of a text, all of which was read; its value begins at `start`. None where it is
    /// walked.
    pub(super) fn finish(self, start: usize) -> Option<NotedObject> {
        if self.is_over || self.members.is_empty() {
            return None;
        }
        Some(NotedObject {
            start: u32::try_from(start).ok()?,
            first: 0,
            count: u8::try_from(self.members.len()).ok()?,
            index: Arc::new(MemberIndex(self.members)),
        })
    }
}
