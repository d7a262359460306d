//! What is kept of incidents, and how many can be open, has bounds.

use super::super::closing::MAX_CLOSED_INCIDENTS;
use super::*;
use crate::model::ids::ActionId;
use crate::store::grants::{find, revoke};
use crate::store::state::command::{GrantBounds, MintGrant, StoreCommand};
use crate::store::state::tests::grants::mint;

/// Of closed incidents the newest are kept, in the directory as in memory; an open one stays however old it is,
/// and no number is given twice.
#[tokio::test]
async fn closed_incidents_beyond_the_bound_are_forgotten() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    let (incidents, store) = (&bed.incidents, &bed.store);
    let oldest = incidents.begin(store, wish("fs__*", "it lasts")).await;
    assert_eq!(oldest.unwrap().id, 1);
    let last = MAX_CLOSED_INCIDENTS as u64 + 3;
    for id in 2..=last {
        let opened = incidents.begin(store, wish("bank__pay", "again")).await;
        assert_eq!(opened.unwrap().id, id);
        let closed = incidents.close(store, closing(id, true), packs(true)).await;
        assert!(closed.unwrap().closed.unwrap().forced);
    }
    let kept: Vec<u64> = read(data.path()).unwrap().into_keys().collect();
    let expected: Vec<u64> = std::iter::once(1).chain(4..=last).collect();
    assert_eq!(kept, expected, "the newest, and the one that is open");
    let mut known: Vec<u64> = incidents.all().await.iter().map(|one| one.id).collect();
    known.reverse();
    assert_eq!(known, expected);
    assert_eq!(
        incidents
            .close(store, closing(2, true), packs(true))
            .await
            .unwrap_err(),
        IncidentError::Gone(2)
    );
    let next = incidents.begin(store, wish("bank__pay", "again")).await;
    assert_eq!(next.unwrap().id, last + 1);
}

/// Breakers that trip for tool after tool, as agents can provoke, leave operators room.
#[tokio::test]
async fn breakers_do_not_take_every_place() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    let (incidents, store) = (&bed.incidents, &bed.store);
    let tripped = |number: usize| {
        let who = BREAKER.to_owned();
        let wish = wish(&format!("bank__tool_{number}"), "failures");
        IncidentWish { who, ..wish }
    };
    for number in 0..MAX_TRIPPED_INCIDENTS {
        incidents.begin(store, tripped(number)).await.unwrap();
    }
    for number in MAX_TRIPPED_INCIDENTS..1_000 {
        let refused = incidents.begin(store, tripped(number)).await;
        assert_eq!(refused, Err(IncidentError::TooManyTripped));
    }
    assert_eq!(read(data.path()).unwrap().len(), MAX_TRIPPED_INCIDENTS);
    let places = MAX_OPEN_INCIDENTS - MAX_TRIPPED_INCIDENTS;
    for number in 0..places {
        let of_ann = incidents.begin(store, wish(&format!("fs__{number}"), "odd"));
        of_ann.await.unwrap();
    }
    let closed = incidents.close(store, closing(1, true), packs(true)).await;
    assert_eq!(closed.unwrap().who, BREAKER);
    let opened = incidents.begin(store, tripped(2_000)).await;
    assert_eq!(opened.unwrap().who, BREAKER, "one place is free again");
}

/// A grant is revoked however many newer ones there were that have ended since.
#[tokio::test]
async fn a_grant_behind_many_others_is_revoked() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    let store = &bed.store;
    let granted = async || {
        let mut wanted = MintGrant {
            lasts: 3_600_000,
            bounds: GrantBounds {
                all: 1_000,
                agent: 1_000,
            },
            ..mint()
        };
        wanted.grant.id = ActionId::generate();
        let id = wanted.grant.id;
        let command = StoreCommand::Mint(Box::new(wanted));
        store.run(command, None).await.unwrap().unwrap();
        id
    };
    let oldest = granted().await;
    for _ in 0..2_500 {
        let newer = granted().await;
        assert_eq!(revoke(store, newer, "bob", "no more").await, Ok(true));
    }
    let elsewhere = bed.incidents.begin(store, wish("fs__*", "odd")).await;
    assert_eq!(elsewhere.unwrap().revoked, 0);
    let known = find(store, oldest).await.unwrap().unwrap();
    assert!(known.revoked.is_none(), "it is of another tool");
    let opened = bed.incidents.begin(store, wish("bank__*", "odd")).await;
    assert_eq!(opened.unwrap().revoked, 1);
    let known = find(store, oldest).await.unwrap().unwrap();
    assert_eq!(known.revoked.unwrap().why, "incident 2: odd");
}
