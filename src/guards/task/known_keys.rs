//! Keys of tasks and sessions that were made before, on each thread: most calls belong where the last
//! call of their caller did, and hashing that anew costs more than finding it.
//!
//! A key is found by all that it was made of, so that nobody is given another's.

use crate::model::caller::{Caller, CallerKey};
use crate::model::digest::Digest;
use std::cell::RefCell;

/// Keys that a thread keeps.
const KNOWN_KEYS_MAX: usize = 64;
/// Bytes of a name at most whose key is kept.
const KNOWN_NAME_BYTES_MAX: usize = 512;
/// Odd, so that every bit of a sum tells where a key is kept.
const SPREADING_FACTOR: usize = 31;

thread_local! {
    static KNOWN_KEYS: RefCell<[Option<KnownKey>; KNOWN_KEYS_MAX]> = const { RefCell::new([const { None }; KNOWN_KEYS_MAX]) };
}

struct KnownKey {
    whose: CallerKey,
    kind: &'static [u8],
    name: Box<str>,
    key: Digest,
}

/// What a key is made of: whose something is, what named it, and its name.
#[derive(Clone, Copy)]
pub(super) struct KeyTerms<'a> {
    pub(super) caller: &'a Caller,
    pub(super) kind: &'static [u8],
    pub(super) name: &'a str,
}

impl KeyTerms<'_> {
    /// The key of these terms, as it is known, or as `make` makes it of them.
    pub(super) fn key(self, make: impl FnOnce(Self) -> Digest) -> Digest {
        if self.name.len() > KNOWN_NAME_BYTES_MAX {
            return make(self);
        }
        let place = self.place();
        KNOWN_KEYS.with_borrow_mut(|keys| {
            let Some(kept) = keys.get_mut(place) else {
                return make(self);
            };
            if let Some(known) = kept.as_ref().filter(|known| self.are_of(known)) {
                return known.key;
            }
            let key = make(self);
            *kept = Some(KnownKey {
                whose: self.caller.key(),
                kind: self.kind,
                name: self.name.into(),
                key,
            });
            key
        })
    }

    fn are_of(self, known: &KnownKey) -> bool {
        let Self { caller, kind, name } = self;
        let KnownKey { whose, .. } = known;
        *known.name == *name
            && known.kind == kind
            && whose.agent == caller.agent
            && whose.tenant == caller.tenant
            && whose.user == caller.user
    }

    /// Where its key is kept. Names differ at their ends, if anywhere; what meets there displaces the other.
    fn place(self) -> usize {
        let agent = self.caller.agent.as_str().bytes().rev().take(8);
        let behind = self.caller.user.as_ref();
        let behind = behind
            .into_iter()
            .flat_map(|id| id.as_str().bytes().rev().take(8));
        let name = self.name.bytes().rev().take(8);
        let bytes = agent.chain(behind).chain(name);
        let sum = bytes.fold(self.kind.len(), |sum, byte| {
            sum.wrapping_mul(SPREADING_FACTOR)
                .wrapping_add(usize::from(byte))
        });
        sum % KNOWN_KEYS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{TenantId, UserId};
    use proptest::prelude::*;

    /// As no two terms have it.
    fn made(terms: KeyTerms<'_>) -> Digest {
        let KeyTerms { caller, kind, name } = terms;
        let words = format!("{:?} {kind:?} {name:?}", caller.key());
        Digest::of(words.as_bytes())
    }

    fn caller(agent: &str, tenant: Option<&str>, named: Option<&str>) -> Caller {
        Caller {
            tenant: tenant.map(TenantId::new),
            user: named.map(UserId::new),
            ..Caller::named(agent)
        }
    }

    fn word() -> impl Strategy<Value = Option<&'static str>> {
        prop::option::of(prop::sample::select(vec!["", "a", "b", "ab", "bot"]))
    }

    proptest! {
        /// guarantees §5: whatever was asked before, and by whom, a key is that of all its terms.
        #[test]
        fn a_known_key_is_the_one_that_would_be_made(
            asked in prop::collection::vec((word(), word(), word(), word(), any::<bool>()), 1..200),
        ) {
            for (agent, tenant, named, name, is_task) in asked {
                let caller = caller(agent.unwrap_or("bot"), tenant, named);
                let kind: &'static [u8] = if is_task { b"a task of the test" } else { b"a session of the test" };
                let name = name.unwrap_or_default();
                let terms = KeyTerms { caller: &caller, kind, name };
                prop_assert_eq!(terms.key(made), made(terms));
            }
        }
    }

    #[test]
    fn a_key_that_is_known_is_not_made_again() {
        let (bot, name) = (caller("bot", None, None), "x".repeat(KNOWN_NAME_BYTES_MAX));
        let longer = format!("{name}x");
        for (name, is_kept) in [("known", true), (&*name, true), (&longer, false)] {
            let terms = KeyTerms {
                caller: &bot,
                kind: b"kept by the test",
                name,
            };
            let mut times = 0;
            for _ in 0..3 {
                let key = terms.key(|terms| {
                    times += 1;
                    made(terms)
                });
                assert_eq!(key, made(terms));
            }
            assert_eq!(times, if is_kept { 1 } else { 3 });
        }
    }
}
