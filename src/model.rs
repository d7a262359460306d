//! Floor 0: the words every floor uses. No I/O, no async, no HTTP.

pub mod address;
pub mod approvers;
pub mod call;
pub mod caller;
pub mod clock;
pub mod counted;
pub mod diagnostic;
pub mod disabled;
pub mod entry;
pub mod ids;
pub mod pointer;
mod random;
pub mod rate;
pub mod reads;
pub mod refusal;
pub mod regular;
pub mod reply;
pub mod scope;
pub mod scrub;
pub mod secret;
pub mod shares;
pub mod side;
pub mod tally;
pub mod task;
pub mod times;
pub mod verbs;
pub mod work;
