//! The billing tool server: invoices of several tenants, with every effect counted.

mod ledger;
mod tools;

pub use ledger::{Effect, Invoice, Ledger, Status};
pub use tools::Billing;
