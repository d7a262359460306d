//! What each user of an agent may call, so that one person uses up no other's share. In memory, and
//! bounded: users are names that others make up.

use crate::model::caller::Caller;
use crate::model::ids::{TenantId, UserId};
use crate::model::rate::Rate;
use crate::model::window::WindowMeter;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Users of one agent whose calls are counted one by one; more share one count.
const MAX_COUNTED_USERS: usize = 10_000;

/// Whose calls are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum CountedUser {
    Named(Option<TenantId>, UserId),
    /// Calls that name no user: a person of their own.
    Unnamed(Option<TenantId>),
    /// Everybody beyond the bound.
    Others,
}

/// The limit of one agent's users, and what each has used.
#[derive(Debug)]
pub(super) struct UserLimits {
    rate: Rate,
    used: Mutex<HashMap<CountedUser, Arc<WindowMeter>>>,
}

impl UserLimits {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            used: Mutex::default(),
        }
    }

    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    /// What the user for whom `caller` asks has used at `now`.
    pub(super) fn of(&self, caller: &Caller, now: Duration) -> Arc<WindowMeter> {
        let tenant = caller.tenant.clone();
        let mut whose = match &caller.user {
            Some(user) => CountedUser::Named(tenant, user.clone()),
            None => CountedUser::Unnamed(tenant),
        };
        let mut used = self.used.lock();
        if !used.contains_key(&whose) && used.len() >= MAX_COUNTED_USERS {
            used.retain(|_, meter| !meter.is_unused(now));
            if used.len() >= MAX_COUNTED_USERS {
                whose = CountedUser::Others;
            }
        }
        let fresh = || Arc::new(WindowMeter::new(self.rate));
        used.entry(whose).or_insert_with(fresh).clone()
    }

    /// Takes the place of `before`.
    pub(super) fn take_over(&self, before: &Self) {
        let mut used = self.used.lock();
        for (whose, had) in &*before.used.lock() {
            let fresh = || Arc::new(WindowMeter::new(self.rate));
            let meter = used.entry(whose.clone()).or_insert_with(fresh);
            meter.take_over(had);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that are made up take no memory without end, and no share of who is known.
    #[test]
    fn users_beyond_the_bound_share_one_count() {
        let (now, rate) = (
            Duration::from_secs(1_000),
            Rate {
                calls: 1,
                per: 60_000,
            },
        );
        let limits = UserLimits::new(rate);
        let take = |user: &str, now| {
            let caller = Caller::named("bot").for_user(UserId::new(user));
            limits.of(&caller, now).take(now).is_ok()
        };
        for number in 0..MAX_COUNTED_USERS {
            assert!(take(&number.to_string(), now));
        }
        assert!(take("one more", now) && !take("another", now));
        assert!(!take("0", now), "and the known keep their own");
        assert_eq!(limits.used.lock().len(), MAX_COUNTED_USERS + 1);
        let later = now + Duration::from_secs(61);
        assert!(take("another", later) && take("0", later));
        assert!(limits.used.lock().len() < 3);
    }
}
