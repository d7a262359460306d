//! `conformance-server [--http ADDR]`: what the official conformance suite expects of a server.

use toolgate_examples::conformance::Fixture;
use toolgate_examples::serve::{Door, Failure, serve};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let door = Door::from_arguments(std::env::args().skip(1))?;
    serve(Fixture::new(), door).await
}
