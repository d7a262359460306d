//! `toolgate ledger replay`: judges a recorded call again, or runs it once more against a sandbox
//! and compares what comes back with what came back then.

use super::LedgerLocation;
use super::output::LedgerOutput;
use super::recorded_as::RecordedAs;
use super::text::json;
use crate::cli::configured;
use crate::config::{Config, Loaded};
use crate::policy::Policy;
use anyhow::Context as _;
use kept::KeptCall;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use target::SandboxArgs;

mod difference;
mod elsewhere;
mod hosts;
mod kept;
mod parcel;
mod sandbox;
mod sending;
mod stability;
mod target;
mod verdict;

/// The call to replay.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the same verdict, or stable; 1 another verdict, or none; with a sandbox 1 what came \
                         back differs, 2 the call could not be replayed."
)]
pub(super) struct ReplayArgs {
    /// The call's action id, or as much of its beginning or its end as no other call has
    action_id: String,
    /// Judge the call again, and say what a sandbox would be sent; nothing is sent. So it is also
    /// without --dry-run, as long as no sandbox is named
    #[arg(long, conflicts_with = "sandbox")]
    dry_run: bool,
    /// The arguments it had: the ledger keeps their hash, and compares [default: as the ledger has
    /// kept them, if it has]
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// The tool's input schema, as a JSON file; without it only the contract's own schema is
    /// judged
    #[arg(long, value_name = "FILE", conflicts_with = "sandbox")]
    input_schema: Option<PathBuf>,
    /// A file with the key for contents; again for those that encrypted before [default: as in the
    /// configuration]
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    judged_as: RecordedAs,
    #[command(flatten)]
    sandbox: SandboxArgs,
}

/// What is known of the call, and what it is judged by.
struct ReplayCase {
    call: KeptCall,
    /// None where nothing is sent and it is not whole.
    config: Option<Config>,
    policy: Policy,
}

impl ReplayArgs {
    pub(super) fn run(
        &self,
        place: &LedgerLocation<'_>,
        output: &mut LedgerOutput<'_>,
    ) -> anyhow::Result<u8> {
        if !self.sandbox.is_named() {
            return self.judge(&self.case(place)?, output.out);
        }
        match self
            .case(place)
            .and_then(|case| self.send(&case, output.out))
        {
            Ok(code) => Ok(code),
            Err(why) => {
                if self.json {
                    let said = serde_json::json!({
                        "action_id": self.action_id, "outcome": "not_replayed", "why": format!("{why:#}"),
                    });
                    line(&said, output.out)?;
                }
                writeln!(output.err, "toolgate: {why:#}")?;
                Ok(sandbox::NOT_REPLAYED_CODE)
            }
        }
    }

    fn case(&self, place: &LedgerLocation<'_>) -> anyhow::Result<ReplayCase> {
        let call = KeptCall::read(place, &self.action_id, &self.key)?;
        let named = place.named.config.as_deref();
        // Whether a sandbox is a configured server, only its whole address tells.
        let (_, loaded) = if self.sandbox.is_named() {
            configured::load(named)?
        } else {
            configured::supposed(named)?
        };
        let Loaded {
            config, reading, ..
        } = loaded;
        let policy = reading.policy.context("the policy cannot be used")?;
        self.judged_as.check(&policy)?;
        self.judged_as
            .met(|recorded| recorded == call.entry.user_id)?;
        Ok(ReplayCase {
            call,
            config,
            policy,
        })
    }
}

/// One line of JSON that a terminal can be shown, too.
fn line(said: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}", json(&said.to_string()))
}
