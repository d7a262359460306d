//! guarantees §8: what is committed is on the disk before anyone is told, in the order it was
//! queued, many with one sync.

use super::*;
use futures_util::future::join_all;

/// An event that names its number.
fn event(n: u64) -> Item {
    Item::Event(format!("event {n}").into_bytes())
}

// Kinds of records keep their order and their bytes, and a group stands in one batch.
#[tokio::test]
async fn a_group_is_one_batch_in_the_order_it_was_queued() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), small()).unwrap();
    journal.record(entry(1)).unwrap();
    let ticket = journal
        .append(vec![event(2), entry(3).into(), event(4)])
        .unwrap();
    assert_eq!((ticket.seq(), journal.durable_seq()), (4, 0));
    let head = ticket.durable().await.unwrap();
    assert_eq!((head.seq, journal.durable_seq()), (4, 4));
    let ticket = journal
        .append(vec![Item::Event(vec![0; MAX_EVENT_BYTES])])
        .unwrap();
    assert_eq!(ticket.durable().await.unwrap().seq, 5);
    let head = journal.close().await.unwrap();
    let records = read(temp.path()).unwrap();
    assert_eq!(
        records.iter().map(|record| record.seq).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(records[1].event().unwrap().as_ref(), b"event 2");
    assert_eq!(
        (records[1].entry().unwrap(), records[2].event()),
        (None, None),
        "an event is no entry"
    );
    assert_eq!(records[2].entry().unwrap().unwrap(), entry(3));
    assert_eq!(records[4].event().unwrap().len(), MAX_EVENT_BYTES);
    assert_eq!(verify(temp.path(), Some(head)).unwrap().batches, 2);
}

#[tokio::test]
async fn what_is_too_large_is_not_taken_in_part() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(
        temp.path(),
        JournalOptions {
            queue: 40,
            ..small()
        },
    )
    .unwrap();
    for wrong in [
        vec![event(1), Item::Event(vec![0; MAX_EVENT_BYTES + 1])],
        vec![Item::Event(vec![0; MAX_EVENT_BYTES]); 17],
    ] {
        assert!(matches!(
            journal.append(wrong),
            Err(JournalError::TooLarge { .. })
        ));
    }
    assert!(matches!(
        journal.append(vec![event(1); 41]),
        Err(JournalError::Full)
    ));
    let ticket = journal.append(vec![event(1); 40]).unwrap();
    assert_eq!(ticket.seq(), 40, "what was refused has no number");
    ticket.durable().await.unwrap();
    assert_eq!(journal.close().await.unwrap().seq, 40);
}

// Who waits is answered by one sync for all who were queued, not by one each; each finds his record
// durable.
#[tokio::test]
async fn one_sync_answers_all_who_wait() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(temp.path(), JournalOptions::default()).unwrap();
    let tickets: Vec<_> = (1..=500)
        .map(|n| journal.append(vec![event(n)]).unwrap())
        .collect();
    let numbers: Vec<_> = tickets.iter().map(Ticket::seq).collect();
    assert_eq!(numbers, (1..=500).collect::<Vec<_>>());
    let heads = join_all(tickets.into_iter().map(Ticket::durable)).await;
    assert!(
        heads
            .iter()
            .zip(numbers)
            .all(|(head, seq)| head.as_ref().unwrap().seq >= seq)
    );
    assert!(
        journal.health().syncs <= 2,
        "{} syncs",
        journal.health().syncs
    );
}

// A ticket nobody waits for is written and synced all the same, and a wait given up does no harm to
// the others.
#[tokio::test]
async fn nobody_need_wait() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(
        temp.path(),
        JournalOptions {
            sync_every: Duration::from_millis(10),
            ..small()
        },
    )
    .unwrap();
    drop(journal.append(vec![event(1)]).unwrap());
    let deadline = crate::model::clock::Clock.steady() + Duration::from_secs(10);
    while journal.durable_seq() < 1 {
        assert!(
            crate::model::clock::Clock.steady() < deadline,
            "never synced"
        );
        tokio::task::yield_now().await;
    }
    let ticket = journal.append(vec![event(2)]).unwrap();
    let mut given_up = Box::pin(journal.wait_durable(ticket.seq()));
    let _ = futures_util::poll!(&mut given_up);
    drop(given_up);
    assert_eq!(ticket.durable().await.unwrap().seq, 2);
    assert_eq!(
        journal.wait_durable(1).await.unwrap().seq,
        2,
        "what is durable is not waited for"
    );
    drop(journal.append(vec![event(3)]).unwrap());
    drop(journal);
    assert_eq!(read(temp.path()).unwrap().len(), 3);
}

// Decided under one lock, written in that order, though many threads decide.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_order_of_queueing_is_the_order_on_disk() {
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(
        temp.path(),
        JournalOptions {
            segment_bytes: 16 << 10,
            ..JournalOptions::default()
        },
    )
    .unwrap();
    let decided = std::sync::Arc::new(parking_lot::Mutex::new(0_u64));
    let tasks = (0..32).map(|_| {
        let (journal, decided) = (journal.clone(), decided.clone());
        crate::telemetry::tasks::spawn("decider", async move {
            for _ in 0..25 {
                let ticket = {
                    let mut decided = decided.lock();
                    *decided += 1;
                    let ticket = journal.append(vec![event(*decided)]).unwrap();
                    assert_eq!(ticket.seq(), *decided);
                    ticket
                };
                let seq = ticket.seq();
                assert!(ticket.durable().await.unwrap().seq >= seq);
            }
        })
    });
    for done in join_all(tasks).await {
        done.unwrap();
    }
    let head = journal.close().await.unwrap();
    let records = read(temp.path()).unwrap();
    assert!(
        records
            .iter()
            .all(|record| record.event().unwrap() == format!("event {}", record.seq).as_bytes())
    );
    let report = verify(temp.path(), Some(head)).unwrap();
    assert_eq!((report.problem, report.records, head.seq), (None, 800, 800));
}

// guarantees §8: what nobody waits for gathers, and goes along with what is waited for; a power cut
// takes no more than a tenth of a second of it.
#[tokio::test]
async fn what_nobody_waits_for_gathers_and_goes_along() {
    let usual = JournalOptions::default();
    assert!(usual.gather + usual.sync_every <= Duration::from_millis(100));
    let temp = tempfile::tempdir().unwrap();
    let journal = Journal::open(
        temp.path(),
        JournalOptions {
            gather: Duration::from_hours(1),
            ..usual
        },
    )
    .unwrap();
    for n in 1..=10 {
        journal.record(entry(n)).unwrap();
    }
    let head = journal
        .append(vec![event(11)])
        .unwrap()
        .durable()
        .await
        .unwrap();
    let health = journal.health();
    assert_eq!((head.seq, health.batches, health.syncs), (11, 1, 1));
}
