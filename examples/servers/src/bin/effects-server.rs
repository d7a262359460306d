//! `effects-server [--http ADDR]`: one tool whose every effect is on the disk before it is
//! answered, in the file that `ORACLE_LOG` names. `ORACLE_CONTROL` names a file of orders (`fault`,
//! `delay_ms`, `delay_after_ms`) for calls that give none; `ORACLE_FENCED` makes it refuse stale
//! tokens; with `ORACLE_STUBBORN` it outlives the end of its input.

use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use std::path::PathBuf;
use toolgate_examples::effects::{Effects, around};
use toolgate_examples::serve::{Door, Failure, serve, serve_http};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let door = Door::from_arguments(std::env::args().skip(1))?;
    let log = std::env::var_os("ORACLE_LOG")
        .map(PathBuf::from)
        .ok_or("ORACLE_LOG must name a file")?;
    let fenced = std::env::var_os("ORACLE_FENCED").is_some();
    let effects = Effects::new(&log, fenced, door == Door::Stdio)?;
    let served = match door {
        Door::Stdio => serve(effects, door).await,
        Door::Http(address) => {
            Box::pin(serve_http(
                effects,
                &address,
                LocalSessionManager::default(),
                around,
            ))
            .await
        }
    };
    while std::env::var_os("ORACLE_STUBBORN").is_some() {
        std::thread::park();
    }
    served
}
