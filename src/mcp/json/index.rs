//! Where the members of a text's outer objects stand: noted by the strict reader as it passes them,
//! so that a text is not walked anew for each member that is asked for.

use std::ops::Range;
use std::sync::Arc;

/// Objects of this level are the innermost whose members are noted: a message, its `params` or
/// `result`, and the objects in that.
const INDEXED_DEPTH: u8 = 3;
/// Members that are noted of one text. Of a text with more none are, and it is walked.
const INDEXED_MEMBERS_MAX: usize = 128;

/// Where the members of the outer objects of one text stand, in the order in which they are written.
#[derive(Debug)]
pub(super) struct MemberIndex {
    /// Where the text stands in memory. What has this index shares the text's bytes, so that they
    /// stay where they are.
    address: usize,
    members: Box<[IndexedMember]>,
}

/// Where a member stands, in bytes from the start of the text.
#[derive(Debug, Clone, Copy)]
struct IndexedMember {
    /// The key, with its quotes.
    key: [u32; 2],
    value: [u32; 2],
    /// Of the object it is a member of; 1 for the text itself.
    depth: u8,
    /// Whether the key is written as it is read.
    is_plain: bool,
}

/// Where a key, with its quotes, and its value stand in an object.
#[derive(Debug)]
pub(super) struct MemberPlace {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
    /// Whether the key is known to be written as it is read.
    pub(super) is_plain: bool,
}

impl IndexedMember {
    fn is_before(&self, at: usize) -> bool {
        (self.value[0] as usize) < at
    }
}

/// The members of one object that are not passed yet.
#[derive(Debug)]
pub(super) struct KnownMembers<'a> {
    /// They, and what is in them.
    members: &'a [IndexedMember],
    depth: u8,
    /// Where the object stands in the text of the index.
    offset: usize,
}

impl MemberIndex {
    /// What is known of the members of the object `object`, which is of the text of this index.
    pub(super) fn members_of(&self, object: &[u8]) -> Option<KnownMembers<'_>> {
        let offset = object.as_ptr().addr().checked_sub(self.address)?;
        let at = self
            .members
            .partition_point(|member| member.is_before(offset));
        let (first, depth) = match self.members.get(at) {
            Some(member) if member.value[0] as usize == offset => (at + 1, member.depth + 1),
            Some(_) if at == 0 => (0, 1),
            _ => return None,
        };
        if depth > INDEXED_DEPTH {
            return None;
        }
        let members = self.members.get(first..)?;
        let end = members.partition_point(|member| member.is_before(offset + object.len()));
        Some(KnownMembers {
            members: &members[..end],
            depth,
            offset,
        })
    }
}

impl KnownMembers<'_> {
    /// Where the next member stands in the object.
    pub(super) fn step(&mut self) -> Option<MemberPlace> {
        let at = self
            .members
            .iter()
            .position(|member| member.depth == self.depth)?;
        let IndexedMember {
            key,
            value,
            is_plain,
            ..
        } = self.members[at];
        self.members = &self.members[at + 1..];
        let range =
            |[start, end]: [u32; 2]| start as usize - self.offset..end as usize - self.offset;
        Some(MemberPlace {
            key: range(key),
            value: range(value),
            is_plain,
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
        let noted = u8::try_from(depth).ok();
        let noted = noted.filter(|depth| *depth <= INDEXED_DEPTH);
        let Some(depth) = noted.filter(|_| self.arrays == 0 && !self.is_over) else {
            return OpenMember(None);
        };
        let PassedKey {
            place: key,
            is_plain,
        } = key;
        let place = |at| u32::try_from(at).ok();
        let (Some(start), Some(end), Some(at)) = (place(key.start), place(key.end), place(at))
        else {
            self.is_over = true;
            return OpenMember(None);
        };
        if self.members.len() == INDEXED_MEMBERS_MAX {
            self.is_over = true;
            return OpenMember(None);
        }
        self.members.push(IndexedMember {
            key: [start, end],
            value: [at, at],
            depth,
            is_plain: *is_plain,
        });
        OpenMember(Some(self.members.len() - 1))
    }

    /// The value of that member ends at `at`.
    pub(super) fn ends(&mut self, OpenMember(member): OpenMember, at: usize) {
        let Some(member) = member.and_then(|member| self.members.get_mut(member)) else {
            return;
        };
        match u32::try_from(at) {
            Ok(at) => member.value[1] = at,
            Err(_) => self.is_over = true,
        }
    }

    /// The index of `text`, all of which was read; none where it is walked.
    pub(super) fn finish(self, text: &[u8]) -> Option<Arc<MemberIndex>> {
        if self.is_over || self.members.is_empty() {
            return None;
        }
        Some(Arc::new(MemberIndex {
            address: text.as_ptr().addr(),
            members: self.members.into(),
        }))
    }
}
