//! The same for what goes through a side door: which layer lets a resource or a prompt pass.

use super::ExplainedEnd;
use super::steps::ExplainedSteps;
use crate::guards::Mode;
use crate::guards::allowlist::side::SideTarget;
use crate::model::caller::Caller;
use crate::model::ids::{ServerName, parts};
use crate::model::side::SideDoor;
use crate::policy::Policy;
use anyhow::Context as _;

/// What to explain instead of a tool.
#[derive(Debug, clap::Args)]
pub(super) struct SideMessageArgs {
    /// A resource that the agent would read, as `server__uri`.
    #[arg(long, value_name = "SERVER__URI")]
    resource: Option<String>,
    /// A prompt that the agent would get, as `server__name`.
    #[arg(long, value_name = "SERVER__NAME")]
    prompt: Option<String>,
    /// A server that would use the agent's model.
    #[arg(long, value_name = "SERVER")]
    sampling: Option<String>,
    /// A server that would ask the person behind the agent.
    #[arg(long, value_name = "SERVER")]
    elicitation: Option<String>,
    /// A server that would ask for the agent's directories.
    #[arg(long, value_name = "SERVER")]
    roots: Option<String>,
    /// A server whose logs the agent would read.
    #[arg(long, value_name = "SERVER")]
    logging: Option<String>,
}

impl SideMessageArgs {
    /// What is wanted, and its name; none if it is a tool.
    fn wanted(&self) -> anyhow::Result<Option<(SideTarget, String)>> {
        let own = |option: &str, named: &str| {
            let own = parts(named).map(|(server, own)| (ServerName::new(server), own.to_owned()));
            own.with_context(|| format!("--{option} wants `server__…`"))
        };
        if let Some(named) = &self.resource {
            let (server, uri) = own("resource", named)?;
            return Ok(Some((
                SideTarget::resource(SideDoor::Resources, &server, &uri),
                named.clone(),
            )));
        }
        if let Some(named) = &self.prompt {
            let (server, name) = own("prompt", named)?;
            return Ok(Some((
                SideTarget::prompt(SideDoor::Prompts, &server, &name),
                named.clone(),
            )));
        }
        let of_servers = [
            (SideDoor::Sampling, &self.sampling),
            (SideDoor::Elicitation, &self.elicitation),
            (SideDoor::Roots, &self.roots),
            (SideDoor::Logging, &self.logging),
        ];
        let named = of_servers
            .into_iter()
            .find_map(|(door, named)| Some((door, named.as_ref()?)));
        Ok(named.map(|(door, named)| {
            (
                SideTarget::server(door, &ServerName::new(named)),
                named.clone(),
            )
        }))
    }

    /// The steps and their end; none if a tool is meant.
    pub(super) fn explain(
        &self,
        policy: &Policy,
        caller: &Caller,
    ) -> anyhow::Result<Option<(ExplainedSteps, ExplainedEnd)>> {
        let Some((wanted, named)) = self.wanted()? else {
            return Ok(None);
        };
        let (door, shown) = (wanted.door.word(), named.escape_debug());
        let mut out = ExplainedSteps::under(format!(
            "agent {} · {door} {shown} · policy {}\n",
            caller.agent, policy.version
        ));
        for step in policy.allowlist.explain_side(caller, &wanted) {
            let mark = if step.verdict.refuses() {
                "refused"
            } else {
                "passed"
            };
            out.add("visible", mark, step);
        }
        let refused = policy.allowlist.side(caller, &wanted).refuses();
        let (word, words) = match (refused, policy.mode) {
            (false, _) => ("sent", "it would pass"),
            (true, Mode::Enforce) => ("refused", "refused: to the agent it is not there"),
            (true, Mode::Observe) => ("observed", "it would pass; enforce mode would refuse it"),
        };
        let end = ExplainedEnd {
            word,
            code: None,
            words: words.to_owned(),
            exit: u8::from(refused),
        };
        Ok(Some((out, end)))
    }
}
