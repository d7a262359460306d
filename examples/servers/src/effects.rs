//! The effects server: a real MCP server with one tool that changes something. Each effect is on
//! the disk before it is answered, and the caller or a control file says how the server misbehaves
//! around it (threat-model §12).

mod fault;
mod server;
mod wire;

pub use fault::{Fault, Orders};
pub use server::Effects;
pub use wire::around;
