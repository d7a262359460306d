//! Receipts, on wires that say what a test wants.

use super::*;
use crate::model::ids::{TenantId, UserId};

/// A kernel of which a test says what was acknowledged.
#[derive(Clone, Default)]
struct ToldKernel(Arc<AtomicBool>);

impl Acknowledges for ToldKernel {
    fn is_acknowledged(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl ToldKernel {
    fn acknowledges(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const WRITTEN_AT: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> LaterCall {
    LaterCall {
        arrived: Duration::from_secs(seconds),
        is_named: false,
        now: Duration::from_secs(seconds),
    }
}

fn named(seconds: u64) -> LaterCall {
    LaterCall {
        is_named: true,
        ..at(seconds)
    }
}

fn was_read(receipt: &Receipt, before: LaterCall) -> bool {
    receipt.asked_before(before) == Some(true)
}

/// A connection with an answer that was written to it.
fn answered(is_relayed: bool) -> (ToldKernel, AgentConnection, Arc<Receipt>) {
    let kernel = ToldKernel::default();
    let connection = AgentConnection::new(Box::new(kernel.clone()));
    let receipt = Receipt::new(is_relayed);
    connection.ends(receipt.clone());
    assert!(connection.has_ended() && !receipt.is_written());
    connection.flushed(WRITTEN_AT, false);
    (kernel, connection, receipt)
}

/// Its bytes were acknowledged, and what came later shows it; not what came before.
#[test]
fn an_answer_that_was_acknowledged_was_read_before_what_came_later() {
    let (kernel, _connection, receipt) = answered(false);
    assert!(!was_read(&receipt, at(11)));
    kernel.acknowledges();
    assert!(!was_read(&receipt, at(10)) && !was_read(&receipt, at(0)));
    assert!(was_read(&receipt, at(11)));
    receipt.void();
    assert!(!was_read(&receipt, at(12)), "the agent cancelled it");
}

/// What is acknowledged once a call has waited says nothing of the moment at which it was sent.
#[test]
fn what_was_read_later_shows_nothing_of_a_call_before() {
    let (kernel, _connection, receipt) = answered(false);
    kernel.acknowledges();
    let late = LaterCall {
        now: Duration::from_secs(12),
        ..at(11)
    };
    assert!(!was_read(&receipt, late));
    assert!(was_read(&receipt, at(13)));
    let before = LaterCall {
        now: Duration::from_secs(14),
        ..at(12)
    };
    assert!(!was_read(&receipt, before), "it came before that was known");
    // Also where the next request on the connection shows it.
    let (_, connection, receipt) = answered(false);
    connection.hears(Duration::from_secs(14));
    assert!(!was_read(&receipt, at(12)) && was_read(&receipt, at(15)));
}

/// The agent's next request on the connection shows it, too; one that was on its way does not.
#[test]
fn the_next_request_shows_that_the_answer_was_read() {
    let (_, connection, receipt) = answered(false);
    connection.head_begins(Duration::from_secs(9));
    connection.hears(connection.arrived());
    assert!(!was_read(&receipt, at(12)));
    connection.head_begins(Duration::from_secs(11));
    connection.hears(connection.arrived());
    assert!(was_read(&receipt, at(12)));
    let (_, connection, receipt) = answered(false);
    connection.flushed(Duration::from_secs(11), true);
    connection.head_begins(Duration::from_secs(12));
    assert_eq!(connection.arrived(), Duration::ZERO);
    connection.hears(connection.arrived());
    assert!(!was_read(&receipt, at(13)));
}

/// What is known a moment after a call came counts, as what the kernel is asked then.
#[test]
fn what_was_read_a_moment_later_counts() {
    for (moment, counts) in [(90, true), (110, false)] {
        let (kernel, connection, receipt) = answered(false);
        assert!(!was_read(&receipt, at(11)));
        kernel.acknowledges();
        assert!(!connection.closes(Duration::from_secs(11) + Duration::from_millis(moment)));
        kernel.0.store(false, Ordering::Relaxed);
        assert_eq!(was_read(&receipt, at(11)), counts, "{moment} ms");
    }
}

/// Through something that reads for the agent, or on a connection of several, only a name shows it.
#[test]
fn what_others_have_read_the_agent_has_not() {
    let (kernel, _connection, receipt) = answered(true);
    kernel.acknowledges();
    assert!(!was_read(&receipt, at(13)) && was_read(&receipt, named(13)));
    // Calls that were sent side by side come as close as this, and the agent has read nothing.
    assert!(!was_read(&receipt, named(11)));
    let (kernel, connection, receipt) = answered(false);
    kernel.acknowledges();
    let caller = Caller::named("one");
    connection.belongs(&caller);
    connection.belongs(&caller.for_user(UserId::new("ada")));
    assert!(was_read(&receipt, at(11)), "one program, for two users");
    let others = [
        Caller {
            tenant: Some(TenantId::new("another")),
            ..caller.clone()
        },
        Caller::named("two"),
    ];
    for other in others {
        let (kernel, connection, receipt) = answered(false);
        kernel.acknowledges();
        connection.belongs(&caller);
        connection.belongs(&other);
        assert!(!was_read(&receipt, at(13)) && was_read(&receipt, named(13)));
    }
}

/// What was acknowledged when the connection closed stays read; nothing keeps a connection alive
/// whose agent hung up in the middle of an answer.
#[test]
fn a_connection_that_closes_is_gone() {
    let (kernel, connection, receipt) = answered(false);
    assert!(
        connection.closes(Duration::from_secs(11)),
        "something may still be read"
    );
    kernel.acknowledges();
    assert!(!connection.closes(Duration::from_secs(11)));
    kernel.0.store(false, Ordering::Relaxed);
    assert!(was_read(&receipt, at(11)));
    let (kernel, connection, receipt) = answered(false);
    connection.ends(Receipt::new(false));
    let connection = Arc::new(connection);
    let (left, wire) = (Arc::downgrade(&connection), Arc::downgrade(&kernel.0));
    drop((connection, kernel));
    assert!(left.upgrade().is_none() && receipt.is_written());
    drop(receipt);
    assert!(
        wire.upgrade().is_none(),
        "the wire goes with its last receipt"
    );
}

/// threat-model §8: answers of one connection that nobody acknowledges are bounded.
#[test]
fn unread_answers_are_bounded() {
    let (_, connection, _) = answered(false);
    for _ in 0..3 * MAX_UNPROVEN_ANSWERS {
        connection.ends(Receipt::new(false));
        connection.flushed(WRITTEN_AT, false);
    }
    assert_eq!(connection.written.lock().len(), MAX_UNPROVEN_ANSWERS);
}
