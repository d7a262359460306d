//! Which answer to a call an HTTP answer carries, so that the writer of its bytes can say so: a
//! body that ends without the answer carries none.

use super::body::HttpAnswer;
use crate::outlet::AnswerTicket;
use crate::outlet::receipt::Receipt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The answer that a body carries.
#[derive(Clone)]
pub(super) struct CarriedAnswer {
    ticket: AnswerTicket,
    /// Where another reader may have it instead: whether it went through this body.
    passed: Option<Arc<AtomicBool>>,
}

impl CarriedAnswer {
    /// Of a body that alone reads the answer.
    pub(super) fn of(ticket: AnswerTicket) -> Self {
        Self {
            ticket,
            passed: None,
        }
    }

    /// Of a body that carries it once that is said.
    pub(super) fn once_passed(ticket: AnswerTicket) -> Self {
        Self {
            ticket,
            passed: Some(Arc::default()),
        }
    }

    /// To be set when the answer goes through the body.
    pub(super) fn passed(&self) -> Arc<AtomicBool> {
        self.passed.clone().unwrap_or_default()
    }

    /// The receipt to be signed, once the answer has gone into the body.
    pub(super) fn receipt(&self) -> Option<Arc<Receipt>> {
        let passed = self.passed.as_ref();
        let is_in_it = passed.is_none_or(|passed| passed.load(Ordering::Acquire));
        self.ticket.receipt().filter(|_| is_in_it)
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
