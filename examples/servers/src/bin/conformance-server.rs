//! `conformance-server [--http ADDR]`: what the official conformance suite expects of a server.

use toolgate_examples::conformance::{Fixture, InterruptedSessions};
use toolgate_examples::serve::{Door, Failure, serve_with};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let door = Door::from_arguments(std::env::args().skip(1))?;
    serve_with(Fixture::new(), door, InterruptedSessions::default()).await
}
