//! How a tool server of this package is reached: over stdio, or over HTTP with `--http ADDR`.

use std::error::Error;
use std::io::Write as _;

use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{
    SessionManager, StreamableHttpServerConfig, StreamableHttpService,
};
use tokio::net::TcpListener;

/// What a program of this package may fail with: it is shown to a person and ends the program.
pub type Failure = Box<dyn Error + Send + Sync>;

/// The origins a browser page may have: pages of this machine, on any port.
const LOCAL_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// Where a tool server is reached.
#[derive(Debug, PartialEq, Eq)]
pub enum Door {
    /// Standard input and output: one agent, which started the program.
    Stdio,
    /// An address to listen on, `127.0.0.1:0` for a port of the system's choice.
    Http(String),
}

impl Door {
    /// Reads the arguments of the program, its name left out.
    ///
    /// # Errors
    /// A sentence that names the argument which is not known, or the value which is missing.
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let door = match arguments.next().as_deref() {
            None => return Ok(Self::Stdio),
            Some("--http") => Self::Http(
                arguments
                    .next()
                    .ok_or("--http needs an address, such as 127.0.0.1:0")?,
            ),
            Some(other) => {
                return Err(format!(
                    "unknown argument {other:?}: use --http ADDR, or nothing for stdio"
                )
                .into());
            }
        };
        match arguments.next() {
            None => Ok(door),
            Some(extra) => Err(format!("unknown argument {extra:?} after the address").into()),
        }
    }
}

/// Serves `server` with rmcp's own sessions: see [`serve_with`].
///
/// # Errors
/// Those of [`serve_with`].
pub async fn serve<S: ServerHandler + Clone>(server: S, door: Door) -> Result<(), Failure> {
    serve_with(server, door, LocalSessionManager::default()).await
}

/// Serves `server` until its agent hangs up (stdio) or the program is ended (HTTP).
///
/// Over HTTP, `sessions` keeps the sessions of legacy agents, and every session and every modern
/// request gets a clone, so a server keeps what it shares behind an `Arc`.
///
/// # Errors
/// When the address cannot be listened on, or the first message is not one of MCP.
pub async fn serve_with<S, M>(server: S, door: Door, sessions: M) -> Result<(), Failure>
where
    S: ServerHandler + Clone,
    M: SessionManager,
{
    match door {
        Door::Stdio => {
            let serving = Box::pin(rmcp::serve_server(server, rmcp::transport::stdio())).await?;
            serving.waiting().await?;
            Ok(())
        }
        Door::Http(address) => {
            Box::pin(serve_http(server, &address, sessions, |router| router)).await
        }
    }
}

/// Serves `server` over HTTP until the program is ended; `around` lays something around what
/// answers.
///
/// # Errors
/// When the address cannot be listened on.
pub async fn serve_http<S, M>(
    server: S,
    address: &str,
    sessions: M,
    around: impl FnOnce(axum::Router) -> axum::Router,
) -> Result<(), Failure>
where
    S: ServerHandler + Clone,
    M: SessionManager,
{
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}"))?;
    announce(&listener)?;
    let config = StreamableHttpServerConfig::default().with_allowed_origins(LOCAL_ORIGINS);
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions.into(), config);
    axum::serve(
        listener,
        around(axum::Router::new().nest_service("/mcp", service)),
    )
    .await?;
    Ok(())
}

/// Tells on standard output where the server is reached; a harness that chose port 0 reads the
/// port from this line.
fn announce(listener: &TcpListener) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "listening on http://{}/mcp", listener.local_addr()?)?;
    stdout.flush()?;
    Ok(())
}
