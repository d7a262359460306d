//! threat-model §9, G4: a disk without room, as calls see it that were about to begin or in flight.

use super::*;
use crate::store::claims::StoreError;
use crate::store::journal::tests::faults::on_small;
use crate::store::state::budget::{BudgetLimits, Price};
use crate::store::state::claim::Stored;
use crate::store::state::command::{MintGrant, Reserve};
use crate::store::state::tests::grants::mint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const AMPLE_BYTES: u64 = 1 << 20;

/// A store on a disk, and how many bytes a segment of its journal may have.
struct BoundedStore {
    temp: tempfile::TempDir,
    store: EmbeddedStore,
    journal: Journal,
    room: Arc<AtomicU64>,
}

impl BoundedStore {
    fn new(queue: usize) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let options = JournalOptions {
            queue,
            gather: Duration::ZERO,
            reserve_bytes: 0,
            ..JournalOptions::default()
        };
        let (journal, room) = on_small(temp.path(), options, AMPLE_BYTES);
        let store = EmbeddedStore::open(temp.path(), journal.clone(), Clock).unwrap();
        Self {
            temp,
            store,
            journal,
            room,
        }
    }

    /// No record fits any more.
    async fn fills(&self) {
        self.journal.flush().await.unwrap();
        let segment = std::fs::read_dir(self.temp.path().join("journal"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        self.room
            .store(segment.metadata().unwrap().len(), Ordering::SeqCst);
    }

    async fn has_room_again(&self) {
        self.room.store(AMPLE_BYTES, Ordering::SeqCst);
        self.journal.writable().await.unwrap();
    }

    async fn begin(&self, key: &str) -> Result<Intent, StoreError> {
        let begin = Intent {
            fence: self.store.token(),
            ..intent(key, 1)
        };
        self.store
            .run(StoreCommand::Begin(Box::new(begin.clone())), None)
            .await
            .map(|begun| begun.map(|_| begin).unwrap())
    }

    async fn end(&self, begun: &Intent, answer: &Stored) -> Result<(), StoreError> {
        let end = settle(begun, ClaimPhase::Completed(answer.clone()));
        self.store
            .run(StoreCommand::Settle(end), None)
            .await
            .map(|ended| drop(ended.unwrap()))
    }

    async fn answer(&self) -> Stored {
        self.store
            .keep(false, Bytes::from_static(b"done"))
            .await
            .unwrap()
    }

    /// How `key` stands for the next process.
    async fn stands_after_restart(self, key: &str) -> ClaimStatus {
        let Self {
            temp,
            store: first,
            journal,
            ..
        } = self;
        drop((first, journal));
        stands(&store(temp.path()), key).await
    }
}

fn looks_at(key: &str) -> StoreKeys {
    StoreKeys {
        call: Some(intent(key, 1).key),
        ..StoreKeys::default()
    }
}

/// 003-02: its caller is refused, so nothing is sent; its key is free, and its part of the budget
/// is given back.
#[tokio::test(flavor = "multi_thread")]
async fn an_intent_without_room_is_taken_back() {
    let disk = BoundedStore::new(1000);
    let before = disk.begin("before").await.unwrap();
    disk.end(&before, &disk.answer().await).await.unwrap();
    let task = StoreKeys {
        task: Some(before.task),
        ..StoreKeys::default()
    };
    let spent = disk.store.load_view(task).await.unwrap().task.unwrap().cost;
    disk.fills().await;
    assert!(matches!(disk.begin("key").await, Err(StoreError::Full(_))));
    assert!(matches!(disk.store.refuses(), Some(StoreError::Full(_))));
    assert_eq!(
        stands(&disk.store, "key").await,
        ClaimStatus::Open {
            attempt: 2,
            round: 0
        }
    );
    assert_eq!(
        disk.store.load_view(task).await.unwrap().task.unwrap().cost,
        spent
    );
    disk.has_room_again().await;
    let again = disk.begin("key").await.unwrap();
    let answer = disk.answer().await;
    disk.end(&again, &answer).await.unwrap();
    assert_eq!(
        stands(&disk.store, "key").await,
        ClaimStatus::Ended(answer.clone())
    );
    assert_eq!(
        disk.stands_after_restart("key").await,
        ClaimStatus::Ended(answer)
    );
}

/// guarantees §7: an operator who reads that there was no room has granted nothing, and what the operator grants
/// once more is the only grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_without_room_is_taken_back() {
    let disk = BoundedStore::new(1000);
    drop(disk.begin("before").await.unwrap());
    disk.fills().await;
    let granted = async |mint: MintGrant| {
        let mint = StoreCommand::Mint(Box::new(mint));
        disk.store.run(mint, None).await
    };
    let [first, second] = [mint(), mint()].map(|mint| MintGrant {
        lasts: 3_600_000,
        ..mint
    });
    let tool = first.grant.scope.tool.clone();
    let told = granted(first).await.unwrap_err();
    assert!(
        matches!(&told, StoreError::Full(why) if why.ends_with("the grant is taken back")),
        "{told:?}"
    );
    let live = async || disk.store.grants_of(&tool).await.unwrap();
    assert_eq!(live().await, []);
    disk.has_room_again().await;
    assert_eq!(live().await, []);
    let id = second.grant.id;
    granted(second).await.unwrap().unwrap();
    let live: Vec<_> = live().await.iter().map(|grant| grant.id).collect();
    assert_eq!(live, [id]);
}

/// What an operator says of a held call counts once there is room, and the operator reads that.
#[tokio::test(flavor = "multi_thread")]
async fn a_decision_without_room_counts_once_there_is() {
    let disk = BoundedStore::new(1000);
    let asked = ask("key");
    let hold = StoreCommand::Hold(Box::new(asked.clone()));
    disk.store.run(hold, None).await.unwrap().unwrap();
    disk.fills().await;
    let say = StoreCommand::Decide(word(&asked, "ann", false));
    let told = disk.store.run(say, None).await.unwrap_err();
    assert!(
        matches!(&told, StoreError::Full(why) if why.contains("counts once there is room")),
        "{told:?}"
    );
    disk.has_room_again().await;
    let (_, hold) = disk.store.find_hold(asked.id).await.unwrap().unwrap();
    assert_eq!(hold.phase.word(), "denied");
}

/// It is queued and shown to nobody, and becomes durable when there is room.
#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_without_room_waits_for_it() {
    let disk = BoundedStore::new(1000);
    let begun = disk.begin("key").await.unwrap();
    disk.fills().await;
    let answer = disk.answer().await;
    assert!(matches!(
        disk.end(&begun, &answer).await,
        Err(StoreError::Full(_))
    ));
    assert!(matches!(
        disk.store.load_view(looks_at("key")).await,
        Err(StoreError::Full(_))
    ));
    disk.has_room_again().await;
    assert_eq!(
        stands(&disk.store, "key").await,
        ClaimStatus::Ended(answer.clone())
    );
    assert_eq!(
        disk.stands_after_restart("key").await,
        ClaimStatus::Ended(answer)
    );
}

/// Reads that a budget counts go on as long as the queue has room for them, and leave some of it to
/// outcomes.
#[tokio::test(flavor = "multi_thread")]
async fn reads_leave_room_in_the_queue_to_outcomes() {
    let disk = BoundedStore::new(16);
    let begun = disk.begin("key").await.unwrap();
    disk.fills().await;
    let price = Price {
        tool: begun.price.tool.clone(),
        cost: 0,
    };
    let reserve = StoreCommand::Reserve(Reserve {
        account: None,
        task: begun.task,
        limits: BudgetLimits::default(),
        price,
        origin: None,
        hold: None,
        edited: None,
    });
    let mut read = 0;
    while disk.store.run(reserve.clone(), None).await.is_ok() {
        read += 1;
        assert!(read <= 12, "a quarter is left");
    }
    let answer = disk.answer().await;
    let ended = disk.end(&begun, &answer).await;
    assert!(
        matches!(ended, Err(StoreError::Full(_))),
        "it waits for room: {ended:?}"
    );
    disk.has_room_again().await;
    assert_eq!(
        stands(&disk.store, "key").await,
        ClaimStatus::Ended(answer.clone())
    );
    assert_eq!(
        disk.stands_after_restart("key").await,
        ClaimStatus::Ended(answer)
    );
}
