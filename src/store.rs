//! Floor 1: what outlives the process. Everything lies in one directory, the data directory, which
//! one toolgate at a time may write to; anyone with the right to read it may read it while toolgate
//! runs.
//!
//! ```text
//! <data>/lock       held while a toolgate writes here; holds its process id
//! <data>/epoch      how often this directory was opened for writing
//! <data>/journal/   the append-only journal: `00000000000000000001.journal`, …, and a `.summary` of what was dropped
//! <data>/results/   long answers, by their SHA-256
//! <data>/index/     what the journal says, to be looked up; can be made again from it; beside it, as `index.aside`, one that broke
//! <data>/index.mark how the index stands, under which boot of the machine, what time it was, and which tasks may be stopped
//! <data>/incidents/ incidents, open and closed, a file each; `<data>/disabled.json` tools that operators took away
//! <data>/sent       which calls may have left
//! <data>/outbox     what is still to be told, and to whom (`src/notify.rs`)
//! <data>/round-key  what `requestState` is sealed with
//! ```

pub(crate) mod approvals;
pub mod claims;
pub mod content_key;
pub(crate) mod disabling;
pub(crate) mod disk_space;
pub mod embedded;
pub(crate) mod grants;
pub(crate) mod hold_looks;
pub mod hold_news;
pub(crate) mod incidents;
pub mod journal;
pub(crate) mod look_window;
pub mod memory;
pub mod opening;
pub(crate) mod operator;
pub(crate) mod outbox_file;
pub(crate) mod read_counts;
mod results;
pub(crate) mod round_key;
mod sent_flags;
pub(crate) mod session_locks;
pub mod state;
mod stopped_tasks;
mod table;
pub(crate) mod tasks;
pub(crate) mod time;
pub(crate) mod undos;
mod waiters;

#[cfg(test)]
pub(crate) mod tests;
