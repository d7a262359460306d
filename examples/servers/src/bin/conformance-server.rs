//! `conformance-server [--http ADDR [--only legacy|modern]] [--without-tasks]`: what the official
//! conformance suite expects of a server; over HTTP also one that speaks one era only, and one whose
//! calls take as long as they take.

use toolgate_examples::conformance::{Fixture, InterruptedSessions, OnlyEra, serve_only};
use toolgate_examples::serve::{Door, Failure, serve_with};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let has_tasks = arguments
        .last()
        .is_none_or(|word| word != "--without-tasks");
    let fixture = if has_tasks {
        Fixture::new()
    } else {
        arguments.pop();
        Fixture::new().without_tasks()
    };
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
        (None, door) => serve_with(fixture, door, InterruptedSessions::default()).await,
        (Some(era), Door::Http(address)) => Box::pin(serve_only(fixture, era, &address)).await,
        (Some(_), Door::Stdio) => Err("--only is for servers over HTTP: --http ADDR".into()),
    }
}
