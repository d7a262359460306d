//! Bad input at the agents' door: each gets a clear error, and the oracle counts no execution (issue 2, SECURITY §3A–§3C).

use crate::harness::gate::{Gate, Setup};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use serde_json::json;

mod good;

/// A gate before an oracle with a read and a write tool, both allowed to everybody.
async fn governed() -> (ToolServer, Gate) {
    let oracle = Script::new().tool("read", Behaviour::Answers).tool("write", Behaviour::Answers).start().await;
    let setup =
        Setup::new().server("oracle", &oracle).contracts(&[("oracle__read", "read"), ("oracle__write", "write")]);
    let gate = setup.start().await;
    (oracle, gate)
}
