//! The stories as they are played: the same calls to the tool server itself, and through toolgate. Nothing waits for
//! a time: what has to happen first is waited for.

use super::agent::{DemoAgent, DemoCall, ReadAnswer};
use super::deciding::{DemoDesk, PersonPart};
use super::narrator::{Narrator, PlayedStory, summed_up};
use super::place::{DemoPlace, TENANT, named};
use super::recorded::{TO_ASK_AGAIN, recorded};
use super::story::{DemoStory, LOOP_CALLS, NO_ANSWER, StoryEvidence};
use super::tool_server::DemoServer;
use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;

/// How long a call may take until its tool runs.
const RUN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an agent waits before it asks again for a call that waits for a person, where nothing says so.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Whom another tenant has as customers is none of the agent's business.
const OTHER_TENANT: &str = "globex";

/// Plays `story` and judges it.
pub(super) async fn play(
    story: DemoStory,
    place: &mut DemoPlace,
    narrator: Narrator,
    part: PersonPart,
) -> anyhow::Result<PlayedStory> {
    narrator.begin(story)?;
    let mut seen = match story {
        DemoStory::LostAnswer => Box::pin(lost_answer(place, narrator)).await,
        DemoStory::Killed => Box::pin(killed(place, narrator)).await,
        DemoStory::Loop => Box::pin(a_loop(place, narrator)).await,
        DemoStory::WrongTenant => Box::pin(wrong_tenant(place, narrator)).await,
        DemoStory::Deletion => Box::pin(deletion(place, narrator, part)).await,
    }?;
    seen.ledger = recorded(
        &place.data_directory(),
        &named(story.tool()),
        story.entries(),
    )
    .await?;
    seen.without = place.bare.executions(story.tool())?;
    seen.with = place.shop.executions(story.tool())?;
    let broken = story.broken(&seen);
    let played = PlayedStory {
        story,
        seen,
        broken,
    };
    narrator.end(&played)?;
    Ok(played)
}

async fn lost_answer(place: &DemoPlace, narrator: Narrator) -> anyhow::Result<StoryEvidence> {
    let (story, bare) = (DemoStory::LostAnswer, place.bare_agent());
    let call = called(story, json!({ "customer": "ann", "cents": 12_500 }));
    leave_unanswered(&bare, &place.bare, &call).await?;
    bare.call(&call).await?;

    let agent = place.agent()?;
    leave_unanswered(&agent, &place.shop, &call).await?;
    // What the tool server said is with toolgate now, and with nobody else.
    recorded(&place.data_directory(), &named(call.tool), 1).await?;
    narrator.tell(
        "agent",
        &format!("{}: the connection breaks before the answer", call.tool),
    )?;
    let answer = agent.call(&call).await?;
    let id = answer.id.clone().unwrap_or_default();
    narrator.tell(
        "",
        &format!("the same call under a new id: {id}, {}", answer.word),
    )?;
    Ok(StoryEvidence {
        made: place.shop.made(call.tool)?,
        read_of_it: answer.id,
        agent: vec![NO_ANSWER.to_owned(), answer.word],
        ..StoryEvidence::default()
    })
}

async fn killed(place: &mut DemoPlace, narrator: Narrator) -> anyhow::Result<StoryEvidence> {
    let (story, bare) = (DemoStory::Killed, place.bare_agent());
    let call = called(story, json!({ "invoice": "inv_0001", "cents": 12_500 }));
    // Without toolgate it is the agent's connection that breaks between effect and answer.
    leave_unanswered(&bare, &place.bare, &call).await?;
    bare.call(&call).await?;

    let (agent, shop) = (place.agent()?, place.shop.clone());
    shop.keep_answers();
    let mut runs = shop.runs();
    let mut waiting = Box::pin(agent.call(&call));
    tokio::select! {
        answered = &mut waiting => return Err(too_early(answered)),
        ran = next(&mut runs) => ran?,
    }
    place.kill_gate().await?;
    let lost = waiting.await;
    shop.give_answers();
    if let Ok(answer) = lost {
        bail!(
            "the agent reads `{}` of a toolgate that was killed",
            answer.word
        );
    }
    narrator.tell(
        "agent",
        &format!("{}: toolgate is killed once the money is paid", call.tool),
    )?;
    place.start_gate().await?;
    narrator.tell("", "toolgate starts again; the same call once more:")?;
    let answer = place.agent()?.call(&call).await?;
    narrator.tell("", sentence(&answer.text))?;
    Ok(StoryEvidence {
        agent: vec![NO_ANSWER.to_owned(), answer.word],
        ..StoryEvidence::default()
    })
}

async fn a_loop(place: &DemoPlace, narrator: Narrator) -> anyhow::Result<StoryEvidence> {
    let (story, bare, agent) = (DemoStory::Loop, place.bare_agent(), place.agent()?);
    let (mut words, mut last) = (Vec::new(), String::new());
    for attempt in 1..=LOOP_CALLS {
        let mut call = called(story, json!({ "customer": "ann", "attempt": attempt }));
        call.task = Some("remind-ann");
        bare.call(&call).await?;
        let answer = agent.call(&call).await?;
        words.push(answer.word);
        last = answer.text;
    }
    let told = format!("{}, {LOOP_CALLS} times:", story.tool());
    narrator.tell("agent", &format!("{told} {}", summed_up(&words)))?;
    narrator.tell("", sentence(&last))?;
    Ok(StoryEvidence {
        agent: words,
        ..StoryEvidence::default()
    })
}

async fn wrong_tenant(place: &DemoPlace, narrator: Narrator) -> anyhow::Result<StoryEvidence> {
    let mut call = called(DemoStory::WrongTenant, json!({}));
    call.arguments["tenant"] = json!(OTHER_TENANT);
    place.bare_agent().call(&call).await?;
    let answer = place.agent()?.call(&call).await?;
    let told = format!("{} of {OTHER_TENANT}, for whom it does not act:", call.tool);
    narrator.tell("agent", &told)?;
    narrator.tell("", sentence(&answer.text))?;
    Ok(StoryEvidence {
        agent: vec![answer.word],
        ..StoryEvidence::default()
    })
}

async fn deletion(
    place: &DemoPlace,
    narrator: Narrator,
    part: PersonPart,
) -> anyhow::Result<StoryEvidence> {
    let call = called(DemoStory::Deletion, json!({ "customer": "ann" }));
    place.bare_agent().call(&call).await?;
    let (agent, desk) = (place.agent()?, DemoDesk::of(place)?);
    narrator.tell(
        "agent",
        &format!("{}: it cannot be undone, so a person is asked", call.tool),
    )?;
    let asked = Box::pin(until_decided(&agent, &call));
    let decided = Box::pin(async {
        let hold = desk.held().await?;
        let before = place.shop.executions(call.tool)?;
        desk.put_to(part, &hold, narrator).await?;
        anyhow::Ok((hold, before))
    });
    let (answer, (hold, before)) = tokio::try_join!(asked, decided)?;
    let told = match &answer.id {
        Some(id) => format!("the call that waited is {}: {id}", answer.word),
        None => sentence(&answer.text).to_owned(),
    };
    narrator.tell("agent", &told)?;
    Ok(StoryEvidence {
        before_word: Some(before),
        person: Some(desk.said(&hold).await?),
        agent: vec![answer.word],
        ..StoryEvidence::default()
    })
}

/// A call of `story`, about the agent's own tenant.
fn called(story: DemoStory, mut arguments: Value) -> DemoCall {
    arguments["tenant"] = json!(TENANT);
    DemoCall {
        tool: story.tool(),
        arguments,
        task: None,
    }
}

/// Calls, and goes away once the tool ran, before `server` has answered.
async fn leave_unanswered(
    agent: &DemoAgent,
    server: &DemoServer,
    call: &DemoCall,
) -> anyhow::Result<()> {
    server.keep_answers();
    let mut runs = server.runs();
    tokio::select! {
        answered = Box::pin(agent.call(call)) => return Err(too_early(answered)),
        ran = next(&mut runs) => ran?,
    }
    server.give_answers();
    Ok(())
}

/// Waits until a tool ran.
async fn next(runs: &mut watch::Receiver<u64>) -> anyhow::Result<()> {
    let ran = tokio::time::timeout(RUN_TIMEOUT, runs.changed()).await;
    ran.context("the call does not reach the tool server")?
        .context("the tool server is gone")
}

/// The call ended before its tool server answered it.
fn too_early(answered: anyhow::Result<ReadAnswer>) -> anyhow::Error {
    match answered {
        Ok(answer) => anyhow::anyhow!("the agent reads `{}` too early", answer.word),
        Err(error) => error.context("the call ends before its tool server answers"),
    }
}

/// Calls, and calls again as long as the answer is that a person has not decided.
async fn until_decided(agent: &DemoAgent, call: &DemoCall) -> anyhow::Result<ReadAnswer> {
    loop {
        let answer = agent.call(call).await?;
        if answer.word != TO_ASK_AGAIN {
            return Ok(answer);
        }
        tokio::time::sleep(answer.again_after.unwrap_or(AGAIN_AFTER)).await;
    }
}

/// The first sentence of what the agent's model reads.
fn sentence(text: &str) -> &str {
    let first = text.split_inclusive(". ").next();
    first.unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_is_told() {
        for (text, expected) in [
            ("code: 1.5 of it. Another.", "code: 1.5 of it."),
            ("no end", "no end"),
            ("", ""),
        ] {
            assert_eq!(sentence(text), expected);
        }
    }

    /// The calls are about the agent's own tenant, unless the story is that they are not.
    #[test]
    fn calls_name_the_tenant() {
        let call = called(DemoStory::Killed, json!({ "invoice": "inv_0001" }));
        assert_eq!(call.arguments["tenant"], TENANT);
        assert_eq!(call.tool, "refund");
    }
}
