//! `conformance-server [--http ADDR [--only legacy|modern]]`: what the official conformance suite
//! expects of a server; over HTTP also one that speaks one era only.

use toolgate_examples::conformance::{Fixture, InterruptedSessions, OnlyEra, serve_only};
use toolgate_examples::serve::{Door, Failure, serve_with};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let only = match arguments.iter().position(|word| word == "--only") {
        Some(at) => {
            let words: Vec<_> = arguments.drain(at..).collect();
            let era = words.get(1).filter(|_| words.len() == 2);
            let era = era.and_then(|era| OnlyEra::of(era));
            Some(era.ok_or("--only needs an era, legacy or modern, and stands last")?)
        }
        None => None,
    };
    match (only, Door::from_arguments(arguments.into_iter())?) {
        (None, door) => serve_with(Fixture::new(), door, InterruptedSessions::default()).await,
        (Some(era), Door::Http(address)) => Box::pin(serve_only(era, &address)).await,
        (Some(_), Door::Stdio) => Err("--only is for servers over HTTP: --http ADDR".into()),
    }
}
