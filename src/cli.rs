//! Floor 6: the verbs, one file each.

mod adopt;
mod agent_pipe;
mod approvals;
mod calls;
mod check;
mod completions;
pub mod configured;
mod contract_draft;
mod demo;
mod disable;
mod doctor;
mod explain;
mod files;
pub mod guard;
mod help;
mod import;
mod incident;
mod init;
mod ledger;
mod listed_tools;
mod man;
mod operator;
mod pins;
mod policy;
mod printed;
mod released;
mod report;
mod running;
mod runtime;
mod schema;
mod serve;
mod status;
mod stdio;
mod suggest;
mod table;
mod tasks;
mod templates;
mod terminal;
mod test;
mod timeouts;
mod undo;
mod unfitted;
mod unnamed;
mod verify;
mod yaml;

use clap::{FromArgMatches as _, Parser, Subcommand};
use terminal::followed::follow_long_work;
use terminal::{GLOBAL_HEADING, TerminalArgs};

/// A sidecar between AI agents and their MCP tool servers: every call is judged, sent once and
/// recorded.
#[derive(Debug, Parser)]
#[command(name = "toolgate", version, about, max_term_width = 100)]
pub struct Cli {
    /// Level of the log on standard error: error, warn, info, debug, trace, or a filter as in
    /// `RUST_LOG`.
    #[arg(long, global = true, value_name = "LEVEL", help_heading = GLOBAL_HEADING)]
    log: Option<String>,
    #[command(flatten)]
    terminal: TerminalArgs,
    /// What to do.
    #[command(subcommand)]
    verb: CliVerb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
enum CliVerb {
    /// Serve agents over HTTP, by default at 127.0.0.1:7777/mcp.
    Serve(serve::Args),
    /// Wrap one stdio tool server, for an agent that starts its own.
    ///
    /// Without a configuration every call is recorded and none refused; the ledger is in
    /// ~/.local/state/toolgate/stdio/NAME, where NAME is the server's, or NAME.2 and so on while that is in use.
    /// `toolgate ledger --stdio list` reads them all.
    Stdio(stdio::Args),
    /// Play five stories through a real toolgate, and check them.
    ///
    /// A toolgate and a small tool server start in a directory of their own, at ports of 127.0.0.1 that the system
    /// chooses; nothing is configured, and nothing stays behind. Exit codes: 0 when each story came out as
    /// promised, else 1.
    Demo(demo::Args),
    /// Write a configuration and a draft of a policy for tool servers.
    ///
    /// They are named on the command line, or in an agent's configuration of them.
    Init(init::Args),
    /// Take over an agent's tool servers, and point it at toolgate.
    ///
    /// As `init --from FILE --rewrite-client`, where FILE is found.
    Adopt(adopt::Args),
    /// Judge the configuration and the policies: all problems at once.
    Check(check::Args),
    /// Translate an OpenClaw tool policy into layers of a policy file.
    Import(import::Args),
    /// Draft contracts, bounds and a test pack from recorded calls.
    ///
    /// Calls teach that the ledger has with their arguments: those of contracts with `audit: full`, and
    /// in observe mode all where the configuration says `ledger: { content: { observed: full } }`.
    Suggest(Box<suggest::Args>),
    /// Run test packs: calls, and what the policies are to say of them.
    Test(Box<test::Args>),
    /// Show how a running toolgate does, and what needs its operators.
    ///
    /// Servers, sessions, what waits, what is disabled, the disk, the last errors. Exit codes: 0 when one
    /// runs, is ready and needs nothing of its operators, else 1.
    Status(status::Args),
    /// Try what is promised with this configuration; nothing is sent.
    ///
    /// A gate of its own runs on it, with a ledger that is thrown away and a server that counts in place of
    /// all tool servers. Exit codes: 0 when nothing is broken, else 1.
    Verify(verify::Args),
    /// Say which step, layer and rule decides a call; nothing is sent.
    Explain(explain::Args),
    /// List calls whose outcome is not known; say what became of them.
    Calls(calls::Args),
    /// Take a call back by the call that its contract names.
    #[command(alias = "rollback")]
    Undo(Box<undo::Args>),
    /// List tasks and what they used; stop one, or reset its budget.
    Tasks(tasks::Args),
    /// List, show, allow and deny calls that are held for operators.
    Approvals(approvals::Args),
    /// Take a tool away from every agent, or list those that are.
    ///
    /// It holds at once, and until the tool is enabled again. Without a tool, what is away is listed.
    Disable(disable::Disable),
    /// Give a tool back that was disabled.
    Enable(disable::Enable),
    /// Freeze tools in an incident; give them back once tests pass.
    Incident(incident::Args),
    /// Read and check the record of calls.
    Ledger(ledger::Args),
    /// Say how calls went under each version of the policy.
    ///
    /// With --compare, whether a new version is worse than an old one.
    Report(report::Args),
    /// Compare, show and approve what servers say of their tools.
    Pins(pins::Args),
    /// List, show, compare policies that were in force; go back to one.
    ///
    /// The files of each policy that comes in force are kept in the data directory as a bundle, under the hash of
    /// all of them.
    Policy(policy::Args),
    /// Print the JSON Schema of a file that toolgate reads, for editors.
    Schema(schema::Args),
    /// Look at everything that toolgate needs; say what is missing.
    ///
    /// Tool servers start and stop; the ledger is only read.
    Doctor(doctor::Args),
    /// Print completions for a shell.
    Completions(completions::Args),
    /// Write manual pages.
    #[command(hide = true)]
    Man(man::Args),
}

/// What was typed; help, and wrong usage, end the process with exit code 0 or 2.
pub fn typed() -> Cli {
    let mut matches = help::command().get_matches();
    Cli::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.exit())
}

/// Runs a verb; the number is the exit code.
pub fn run(cli: Cli) -> anyhow::Result<u8> {
    cli.terminal.hold();
    follow_long_work();
    match dispatch(cli) {
        Err(error)
            if error.is::<configured::PlaceUnknown>()
                || error.is::<configured::KeyUnknown>()
                || error.is::<released::PacksFailed>() =>
        {
            Ok(operator::misused(&format!("{error:#}")))
        }
        done => done,
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<u8> {
    match cli.verb {
        CliVerb::Serve(args) => {
            let incidents = serve::IncidentWork {
                packs: test::incident_proof::runner,
                evidence: incident::evidence::of,
            };
            serve::run(&args, cli.log, &incidents)
        }
        CliVerb::Stdio(args) => stdio::run(&args, cli.log),
        CliVerb::Demo(args) => demo::run(&args),
        CliVerb::Init(args) => init::run(&args),
        CliVerb::Adopt(args) => adopt::run(args),
        CliVerb::Check(args) => check::run(&args),
        CliVerb::Import(args) => import::run(&args),
        CliVerb::Suggest(args) => suggest::run(&args),
        CliVerb::Test(args) => test::run(&args),
        CliVerb::Verify(args) => verify::run(&args),
        CliVerb::Explain(args) => explain::run(&args),
        CliVerb::Calls(args) => calls::run(&args),
        CliVerb::Undo(args) => undo::run(&args),
        CliVerb::Tasks(args) => tasks::run(&args),
        CliVerb::Approvals(args) => approvals::run(&args),
        CliVerb::Disable(args) => disable::disable(&args),
        CliVerb::Enable(args) => disable::enable(&args),
        CliVerb::Incident(args) => incident::run(&args),
        CliVerb::Ledger(args) => ledger::run(&args),
        CliVerb::Report(args) => report::run(&args),
        CliVerb::Pins(args) => pins::run(&args),
        CliVerb::Policy(args) => policy::run(&args),
        CliVerb::Status(args) => status::run(&args),
        CliVerb::Schema(args) => schema::run(&args),
        CliVerb::Doctor(args) => doctor::run(&args),
        CliVerb::Completions(args) => Ok(completions::run(&args)),
        CliVerb::Man(args) => man::run(&args),
    }
}

#[cfg(test)]
mod tests;
