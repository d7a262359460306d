//! Which answers to calls an HTTP answer carries, so that the writer of its bytes can say so: a
//! body that ends without the answer carries none.

use super::body::HttpAnswer;
use crate::outlet::AnswerTicket;
use crate::outlet::receipt::Receipt;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The tickets of a batch, as its answers come.
pub(super) type BatchTickets = Arc<Mutex<Vec<AnswerTicket>>>;

/// The answer that a body carries; those of a batch.
#[derive(Clone)]
pub(super) struct CarriedAnswer {
    tickets: CarriedTickets,
    /// Where another reader may have it instead: whether it went through this body.
    passed: Option<Arc<AtomicBool>>,
}

#[derive(Clone)]
enum CarriedTickets {
    One(AnswerTicket),
    Batch(BatchTickets),
}

impl CarriedAnswer {
    /// Of a body that alone reads the answer.
    pub(super) fn of(ticket: AnswerTicket) -> Self {
        Self {
            tickets: CarriedTickets::One(ticket),
            passed: None,
        }
    }

    /// Of a body that alone reads the answers to a batch.
    pub(super) fn of_batch(tickets: BatchTickets) -> Self {
        Self {
            tickets: CarriedTickets::Batch(tickets),
            passed: None,
        }
    }

    /// Of a body that carries them once it is said that the last one goes through it.
    pub(super) fn once_batch_passed(tickets: BatchTickets) -> Self {
        Self {
            tickets: CarriedTickets::Batch(tickets),
            passed: Some(Arc::default()),
        }
    }

    /// Of a body that carries it once that is said.
    pub(super) fn once_passed(ticket: AnswerTicket) -> Self {
        Self {
            tickets: CarriedTickets::One(ticket),
            passed: Some(Arc::default()),
        }
    }

    /// To be set when the answer goes through the body.
    pub(super) fn passed(&self) -> Arc<AtomicBool> {
        self.passed.clone().unwrap_or_default()
    }

    /// The receipts to be signed, once the answers have gone into the body.
    pub(super) fn receipts(&self) -> Vec<Arc<Receipt>> {
        let passed = self.passed.as_ref();
        let is_in_it = passed.is_none_or(|passed| passed.load(Ordering::Acquire));
        match &self.tickets {
            _ if !is_in_it => Vec::new(),
            CarriedTickets::One(ticket) => ticket.receipt().into_iter().collect(),
            CarriedTickets::Batch(tickets) => {
                let tickets = tickets.lock();
                tickets.iter().filter_map(AnswerTicket::receipt).collect()
            }
        }
    }
}

/// `answer` holds the whole answer to the call of `ticket`.
pub(super) fn carrying(answer: HttpAnswer, ticket: AnswerTicket) -> HttpAnswer {
    if ticket.receipt().is_none() {
        return answer;
    }
    carrying_all(answer, CarriedAnswer::of(ticket))
}

/// `answer` will have held what `carried` says.
pub(super) fn carrying_all(mut answer: HttpAnswer, carried: CarriedAnswer) -> HttpAnswer {
    answer.extensions_mut().insert(carried);
    answer
}
