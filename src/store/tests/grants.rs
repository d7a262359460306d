//! What every store promises of standing grants (guarantees §7): counted exactly, never taken beyond
//! what is granted, and there again.

#![expect(
    clippy::disallowed_methods,
    reason = "a scenario is no part of toolgate's process"
)]

use super::TestStore;
use super::promises::{PromiseResult, begin, end};
use crate::model::clock::Clock;
use crate::model::ids::{ActionId, ToolName};
use crate::store::claims::Store;
use crate::store::grants::{find, revoke};
use crate::store::state::CommandRefusal;
use crate::store::state::claim::ClaimPhase;
use crate::store::state::command::{GrantBounds, Intent, MintGrant, StoreCommand};
use crate::store::state::grant::{Grant, GrantBound, GrantEnd};
use crate::store::state::tests::grants::{covered, mint};
use crate::store::state::tests::{named, result, settle};
use std::sync::Arc;

/// Runs scenarios on stores of a kind.
macro_rules! promised_by {
    ($kind:ident: $($name:ident),* $(,)?) => {
        mod $kind {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(&super::TestStore::$kind(super::Clock)).await;
            })*
        }
    };
}

promised_by!(memory:
    as_many_calls_begin_as_were_granted,
    a_revocation_is_before_or_after_each_call,
    as_many_grants_as_there_may_be,
);

promised_by!(embedded:
    as_many_calls_begin_as_were_granted,
    a_revocation_is_before_or_after_each_call,
    as_many_grants_as_there_may_be,
    what_was_granted_is_there_again,
);

/// An hour, seven uses, no total.
fn seven() -> MintGrant {
    let plain = mint();
    MintGrant {
        grant: Grant {
            max_uses: 7,
            total: None,
            ..plain.grant
        },
        lasts: 3_600_000,
        bounds: GrantBounds {
            all: 1000,
            agent: 1000,
        },
        ..plain
    }
}

async fn minted(store: &dyn Store, mint: &MintGrant) -> PromiseResult {
    let command = StoreCommand::Mint(Box::new(mint.clone()));
    store.run(command, None).await.unwrap()
}

/// A call of its own key and session that the grant covers.
fn call(store: &dyn Store, mint: &MintGrant) -> Intent {
    let action = ActionId::generate();
    let own = action.to_string();
    Intent {
        action,
        session: named(&own),
        fence: store.token(),
        ..covered(mint, &own, 1)
    }
}

async fn uses(store: &dyn Store, mint: &MintGrant) -> u64 {
    find(store, mint.grant.id).await.unwrap().unwrap().uses
}

/// How many of a hundred calls at once begin.
async fn of_a_hundred(store: &Arc<dyn Store>, mint: &MintGrant) -> u64 {
    let calls = (0..100).map(|_| {
        let (store, mint) = (store.clone(), mint.clone());
        tokio::spawn(async move { begin(&*store, &call(&*store, &mint)).await.is_ok() })
    });
    let mut begun = 0;
    for call in calls.collect::<Vec<_>>() {
        begun += u64::from(call.await.unwrap());
    }
    begun
}

async fn as_many_calls_begin_as_were_granted(stand: &TestStore) {
    let store = stand.open();
    let seven = seven();
    minted(&*store, &seven).await.unwrap();
    assert_eq!(of_a_hundred(&store, &seven).await, 7);
    assert_eq!(uses(&*store, &seven).await, 7);
    let tool = ToolName::new("bank__pay");
    assert_eq!(store.grants_of(&tool).await.unwrap(), [], "none is left");
    assert_eq!(store.grants(9).await.unwrap().len(), 1, "it is still shown");
}

async fn a_revocation_is_before_or_after_each_call(stand: &TestStore) {
    let store = stand.open();
    let many = seven();
    let many = MintGrant {
        grant: Grant {
            max_uses: 1000,
            ..many.grant
        },
        ..many
    };
    minted(&*store, &many).await.unwrap();
    let id = many.grant.id;
    let (begun, revoked) = tokio::join!(of_a_hundred(&store, &many), async {
        tokio::task::yield_now().await;
        revoke(&*store, id, "bob", "no more").await
    });
    assert_eq!(revoked, Ok(true));
    assert_eq!(uses(&*store, &many).await, begun);
    let late = begin(&*store, &call(&*store, &many)).await;
    assert_eq!(late, Err(CommandRefusal::Granted(GrantEnd::Revoked)));
    assert_eq!(revoke(&*store, id, "eve", "again").await, Ok(false));
    let known = find(&*store, id).await.unwrap().unwrap();
    assert_eq!(known.revoked.unwrap().who, "bob", "the first word stands");
}

async fn as_many_grants_as_there_may_be(stand: &TestStore) {
    let store = stand.open();
    let bounded = || {
        let bounds = GrantBounds { all: 3, agent: 2 };
        MintGrant { bounds, ..seven() }
    };
    let first = bounded();
    minted(&*store, &first).await.unwrap();
    minted(&*store, &bounded()).await.unwrap();
    let refused = |bound| Err(CommandRefusal::TooManyGrants(bound));
    assert_eq!(
        minted(&*store, &bounded()).await,
        refused(GrantBound::Agent)
    );
    let mut other = bounded();
    other.grant.scope.agent = "other".to_owned();
    minted(&*store, &other).await.unwrap();
    other.grant.id = ActionId::generate();
    assert_eq!(minted(&*store, &other).await, refused(GrantBound::All));
    revoke(&*store, first.grant.id, "bob", "no more")
        .await
        .unwrap();
    minted(&*store, &bounded()).await.unwrap();
}

/// Also after a crash right after each use, from the index as from the journal; a call that the crash
/// kept from being sent gives its use back.
async fn what_was_granted_is_there_again(stand: &TestStore) {
    let mut store = stand.open();
    let (live, gone) = (seven(), seven());
    for mint in [&live, &gone] {
        minted(&*store, mint).await.unwrap();
    }
    revoke(&*store, gone.grant.id, "bob", "no more")
        .await
        .unwrap();
    let done = call(&*store, &live);
    begin(&*store, &done).await.unwrap();
    end(
        &*store,
        settle(&done, ClaimPhase::Completed(result("paid"))),
    )
    .await
    .unwrap();
    let open = call(&*store, &live);
    begin(&*store, &open).await.unwrap();
    let after = stand.killed();
    let crashed = after.open();
    assert_eq!(
        uses(&*crashed, &live).await,
        1,
        "the second one was not sent"
    );
    let late = begin(&*crashed, &call(&*crashed, &gone)).await;
    assert_eq!(late, Err(CommandRefusal::Granted(GrantEnd::Revoked)));
    drop(crashed);
    store.sent(open.action).unwrap();
    let after = stand.killed();
    let crashed = after.open();
    assert_eq!(uses(&*crashed, &live).await, 2, "it may have run");
    drop(crashed);
    end(&*store, settle(&open, ClaimPhase::NotSent))
        .await
        .unwrap();
    let tool = ToolName::new("bank__pay");
    for _ in 0..3 {
        drop(store);
        store = stand.open();
        assert_eq!(uses(&*store, &live).await, 1);
        let listed = store.grants(9).await.unwrap();
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[1].constraints, live.grant.constraints);
        let of_tool = store.grants_of(&tool).await.unwrap();
        assert_eq!(of_tool.len(), 1);
    }
    assert_eq!(of_a_hundred(&store, &live).await, 6);
}
