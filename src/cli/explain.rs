//! `toolgate explain`: which step decides a call, by which layer and rule. Nothing is executed.

use super::configured;
use crate::guards::evidence::{Ruled, Watched};
use crate::guards::idempotency::{Asked, Given};
use crate::guards::{Mode, ToolRules};
use crate::mcp::json::{FROM_AGENT, Text};
use crate::model::caller::Caller;
use crate::model::ids::{SEPARATOR, ServerName, ToolName};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::schema::validate::Schema;
use anyhow::{Context as _, bail};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

mod shown;

/// The call to explain.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The configuration [default: as for serve]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The agent that would call.
    #[arg(long)]
    agent: String,
    /// The tool, as `server__tool`.
    #[arg(long)]
    tool: String,
    /// The arguments, as a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// The tool's input schema, as a JSON file; without it only the contract's own schema is judged.
    #[arg(long, value_name = "FILE")]
    input_schema: Option<PathBuf>,
}

/// Prints the steps; 0 if the call would pass.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let (_, loaded) = configured::load(args.config.as_deref())?;
    let policy = loaded.reading.policy.context("the policy cannot be used")?;
    let Some(caller) = policy.identity.of_agent(&args.agent) else {
        bail!("the configuration has no agent `{}`", args.agent.escape_debug());
    };
    let arguments = read("--arguments", args.arguments.clone().into())?;
    let schema = schema(args.input_schema.as_deref())?;
    let tool = ToolName::new(&args.tool);
    let mut out = format!("agent {} · tool {tool} · policy {}\n", caller.agent, policy.version);
    for step in policy.allowlist.explain(&caller, &tool) {
        let mark = if step.verdict.refuses() { "refused" } else { "passed" };
        let _ = writeln!(out, "  visible     {mark:8} {step}");
    }
    for line in policy.tasks.explain(&caller) {
        let _ = writeln!(out, "  budgets     limited  {line}");
    }
    let verdict = judge(&policy, &caller, &tool, (&schema, &arguments), &mut out);
    let code = match (&verdict, policy.mode) {
        (Ok(()), _) => {
            out.push_str("=> the call would be sent\n");
            0
        }
        (Err(refusal), Mode::Enforce) => {
            let _ = writeln!(out, "=> refused: {}", refusal.words());
            1
        }
        (Err(refusal), Mode::Observe) => {
            let _ = writeln!(out, "=> the call would be sent; enforce mode would refuse: {}", refusal.words());
            1
        }
    };
    print(&out)?;
    Ok(code)
}

fn judge(
    policy: &Policy,
    caller: &Caller,
    tool: &ToolName,
    (schema, arguments): (&Schema, &serde_json::Value),
    out: &mut String,
) -> Result<(), Refusal> {
    let admitted = policy.allowlist.admit(caller, tool).map_err(|denied| denied.refusal)?.on(arguments);
    if let Some(refusal) = admitted.would_refuse() {
        return Err(refusal);
    }
    let rules = admitted.rules();
    let arguments = &*shown::read_back((caller, tool, rules), schema, arguments, out)?;
    let (split, key) = match &rules.idempotency {
        Some(idempotency) => idempotency.split(schema, arguments),
        None => (Cow::Borrowed(arguments), None),
    };
    let arguments = &*split;
    let passed = ruled(rules, caller, (schema, arguments), out)?;
    let watched = watch(policy, tool, &passed, out)?;
    if let Some(rule) = &rules.idempotency {
        let given = Given { argument: key.as_deref(), ..Given::default() };
        let (server, own) = tool.as_str().split_once(SEPARATOR).unwrap_or(("", tool.as_str()));
        let asked = Asked { caller, server: &ServerName::new(server), tool: own, arguments, given };
        let keyed = note(out, "idempotency", rule.key(&asked, &watched))?;
        let _ = writeln!(out, "              {}", keyed.describe(rule));
    }
    if let Some(words) = rules.budget.describe() {
        let _ = writeln!(out, "  budget      limited  {words}");
    }
    Ok(())
}

/// Steps 3 to 5: what the policy alone says of a call that its caller may see.
pub(super) fn ruled(
    rules: &ToolRules,
    caller: &Caller,
    (schema, arguments): (&Schema, &serde_json::Value),
    out: &mut String,
) -> Result<Ruled, Refusal> {
    let checked = note(out, "arguments", rules.arguments.check(schema, arguments))?;
    let permit = note(out, "permission", rules.permission.allow(caller, arguments, &checked))?;
    note(out, "rules", rules.rules.apply(caller, arguments, &permit))
}

/// The task of a call that is only explained has no calls yet.
fn watch(policy: &Policy, tool: &ToolName, passed: &Ruled, out: &mut String) -> Result<Watched, Refusal> {
    let allowed = policy.repetition.watch(&[], tool, 0, passed)?;
    if let Some(words) = policy.repetition.describe() {
        let _ = writeln!(out, "  repetition  passed   {words}");
    }
    Ok(allowed.watched)
}

fn note<T>(out: &mut String, stage: &str, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
    let (mark, code) = match &verdict {
        Ok(_) => ("passed", ""),
        Err(refusal) => ("refused", refusal.code()),
    };
    let _ = writeln!(out, "  {stage:11} {mark:8} {code}");
    verdict
}

/// A tool's input schema, or one that takes everything.
pub(super) fn schema(path: Option<&Path>) -> anyhow::Result<Schema> {
    let schema = match path {
        Some(path) => {
            let text = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
            read("--input-schema", text.into())?
        }
        None => serde_json::json!({ "type": "object" }),
    };
    Schema::compile(&schema).map_err(|reason| anyhow::anyhow!("the input schema would be quarantined: {reason}"))
}

/// A JSON object of the command line, or of a file that it names.
pub(super) fn read(what: &str, text: bytes::Bytes) -> anyhow::Result<serde_json::Value> {
    let text = Text::read(text, &FROM_AGENT).with_context(|| format!("{what} is not plain JSON"))?;
    if !text.is_object() {
        bail!("{what} must be a JSON object");
    }
    Ok(text.value())
}

fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
