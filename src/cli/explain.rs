//! `toolgate explain`: which step decides a call, by which layer and rule; or a message through a
//! side door. Nothing is executed.

use super::configured::{self, DataArgs};
use super::ledger::text::{json as escaped, plain};
use super::operator::print;
use super::terminal::Terminal;
use crate::gate::pipeline::Stage;
use crate::gate::steps::judge::Notes;
use crate::gate::supposing::steps::is_unpinned;
use crate::gate::supposing::{Passed, Question};
use crate::guards::Mode;
use crate::guards::hooks::HookPhase;
use crate::guards::identity::behind;
use crate::guards::pins::Unapproved;
use crate::guards::rewrite::ChangedArguments;
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::policy::pack::TaskBefore;
use crate::policy::shape::suggest;
use crate::schema::validate::Schema;
use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use steps::ExplainedSteps;

mod shown;
mod side;
pub(super) mod steps;

/// The call to explain.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(EXPLAINED_ARGS))]
pub(super) struct Args {
    #[command(flatten)]
    place: DataArgs,
    /// The agent that would call.
    #[arg(long)]
    agent: String,
    /// The user for whom it would ask.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The tool, as `server__tool`.
    #[arg(long)]
    tool: Option<String>,
    /// The arguments, as a JSON object.
    #[arg(long, value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// The tool's input schema, as a JSON file; without it only the contract's own schema is
    /// judged.
    #[arg(long, value_name = "FILE")]
    input_schema: Option<PathBuf>,
    #[command(flatten)]
    side: side::SideMessageArgs,
    /// One JSON object: the steps, and what becomes of the call
    #[arg(long)]
    json: bool,
}

/// One of these is explained.
const EXPLAINED_ARGS: [&str; 7] = [
    "tool",
    "resource",
    "prompt",
    "sampling",
    "elicitation",
    "roots",
    "logging",
];

/// Prints the steps; 0 if the call would pass.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let (path, loaded) = configured::supposed(args.place.config.as_deref())?;
    let policy = configured::in_force(loaded, &args.place.place_of(&path)?.data)?;
    let mut caller = configured_caller(&policy, &args.agent)?;
    if let Some(name) = &args.user {
        let named = behind::user_named(name);
        let named = named.context("--user: write 1 to 256 bytes that can be seen")?;
        caller = Arc::new(caller.for_user(named));
    }
    if let Some((steps, end)) = args.side.explain(&policy, &caller)? {
        return args.say(&steps, &end);
    }
    let arguments = read("--arguments", args.arguments.clone().into())?;
    let schema = schema(args.input_schema.as_deref())?;
    let tool = ToolName::new(args.tool.as_deref().unwrap_or_default());
    let head = format!(
        "agent {} · tool {tool} · policy {}\n",
        caller.agent, policy.version
    );
    let mut screen = Screen {
        policy: &policy,
        out: ExplainedSteps::under(head),
    };
    screen.purpose(&tool);
    screen.layers(&caller, &tool);
    for line in policy.tasks.explain(&caller) {
        screen.out.add("budgets", "limited", line);
    }
    for (guard, line) in policy.identity.rules.explain(&caller) {
        screen.out.add(guard, "limited", line);
    }
    // The task of a call that is only explained has no calls yet.
    let (caller, before) = (&*caller, &TaskBefore::default());
    let read = screen.read_back(caller, &tool, &schema, &arguments);
    let verdict = read.and_then(|arguments| {
        let question = Question {
            caller,
            tool: &tool,
            schema: &schema,
            arguments: &arguments,
            key: None,
            before,
        };
        screen.judge(&question)
    });
    args.say(&screen.out, &conclude(&verdict, policy.mode))
}

/// What becomes of a call or a message.
struct ExplainedEnd {
    /// A word for programs: `sent`, `held`, `refused`, or `observed` for what enforce mode would refuse.
    word: &'static str,
    /// The code, where the call would be refused or held.
    code: Option<String>,
    /// A sentence for people.
    words: String,
    exit: u8,
}

impl Args {
    /// Prints the steps and their end; gives the exit code.
    fn say(&self, steps: &ExplainedSteps, end: &ExplainedEnd) -> anyhow::Result<u8> {
        if self.json {
            let said = json!({
                "of": steps.head.trim_end(), "steps": steps.json(), "end": end.word, "code": end.code, "words": end.words,
            });
            print(&(escaped(&said.to_string()) + "\n"))?;
        } else {
            let text = format!("{steps}=> {}\n", end.words);
            print(&Terminal::stdout().tinted(&text))?;
        }
        Ok(end.exit)
    }
}

fn configured_caller(policy: &Policy, agent: &str) -> anyhow::Result<Arc<Caller>> {
    if let Some(caller) = policy.identity.of_agent(agent) {
        return Ok(caller);
    }
    let known: Vec<String> = policy
        .identity
        .callers()
        .iter()
        .map(|caller| caller.agent.to_string())
        .collect();
    bail!(
        "the configuration has no agent `{}`; {}",
        agent.escape_debug(),
        suggest(agent, &known)
    );
}

/// What becomes of the call; 0 if it would pass.
fn conclude(verdict: &Result<(), Refusal>, mode: Mode) -> ExplainedEnd {
    let (word, words, refusal) = match (verdict, mode) {
        (Ok(()), _) => {
            return ExplainedEnd {
                word: "sent",
                code: None,
                words: "the call would be sent".to_owned(),
                exit: 0,
            };
        }
        (Err(refusal @ Refusal::ApprovalPending { .. }), Mode::Enforce) => {
            ("held", "held", refusal)
        }
        (Err(refusal), Mode::Enforce) => ("refused", "refused", refusal),
        (Err(refusal), Mode::Observe) => (
            "observed",
            "the call would be sent; enforce mode would refuse",
            refusal,
        ),
    };
    ExplainedEnd {
        word,
        code: Some(refusal.code().to_owned()),
        words: format!("{words}: {}", refusal.words()),
        exit: 1,
    }
}

/// The code, and what only operators are told of it.
fn code_of(refusal: &Refusal) -> String {
    if let Refusal::RuleFailed { code, why } = refusal {
        return format!("{}: `{code}` cannot be judged: {why}", refusal.code());
    }
    refusal.code().to_owned()
}

/// The steps as they are printed.
pub(super) struct Screen<'a> {
    pub(super) policy: &'a Policy,
    pub(super) out: ExplainedSteps,
}

impl Notes for Screen<'_> {
    fn note<T>(&mut self, stage: Stage, verdict: Result<T, Refusal>) -> Result<T, Refusal> {
        let refused = verdict.as_ref().err().map(code_of);
        let words = match (stage, refused) {
            // Said layer by layer; what the call may use, when everything has passed.
            (Stage::Visible, _) | (Stage::Budget | Stage::Rewrite | Stage::Secrets, None) => None,
            (Stage::Repetition, None) => self.policy.repetition.describe(),
            (_, refused) => Some(refused.unwrap_or_default()),
        };
        if let Some(words) = words {
            let mark = match (&verdict, stage) {
                (Ok(_), _) => "passed",
                (Err(_), Stage::Approval) => "held",
                (Err(_), _) => "refused",
            };
            self.out.add(stage.as_str(), mark, words);
        }
        verdict
    }

    fn changed(&mut self, before: &Value, changed: &ChangedArguments) {
        self.out.add("rewrite", "changed", changed.by.join(", "));
        for line in changed.describe(before) {
            self.out.more(line);
        }
    }
}

impl Screen<'_> {
    /// What the arguments are under the server's own names, where the caller's profile shows
    /// others.
    fn read_back<'a>(
        &mut self,
        caller: &Caller,
        tool: &ToolName,
        schema: &Schema,
        arguments: &'a Value,
    ) -> Result<Cow<'a, Value>, Refusal> {
        match self.policy.allowlist.admit(caller, tool) {
            Ok(admitted) => {
                let tool = shown::AdmittedTool {
                    name: tool,
                    rules: admitted.rules(),
                    schema,
                };
                shown::read_back(caller, tool, arguments, &mut self.out)
            }
            Err(_) => Ok(Cow::Borrowed(arguments)),
        }
    }

    /// What its contract says to people of the tool (003-46).
    fn purpose(&mut self, tool: &ToolName) {
        let Some(rules) = self.policy.allowlist.contract_of(tool) else {
            return;
        };
        let said = [
            ("for", Some(&rules.purpose)),
            ("not for", rules.not_for.as_ref()),
        ];
        for (mark, words) in said
            .into_iter()
            .filter_map(|(mark, words)| Some((mark, words?)))
        {
            self.out.add("contract", mark, plain(words));
        }
    }

    /// Step 2, layer by layer.
    pub(super) fn layers(&mut self, caller: &Caller, tool: &ToolName) {
        for step in self.policy.allowlist.explain(caller, tool) {
            let mark = if step.verdict.refuses() {
                "refused"
            } else {
                "passed"
            };
            self.out.add("visible", mark, step);
        }
        if is_unpinned(self.policy, tool) {
            let words = Unapproved::Unpinned.words();
            self.out.add("visible", "refused", words);
        }
        if self.policy.allowlist.contract_of(tool).is_none() {
            let known: Vec<String> = self
                .policy
                .allowlist
                .contracts()
                .map(ToString::to_string)
                .collect();
            let near = Some(suggest(tool.as_str(), &known))
                .filter(|near| near.starts_with("did you mean"));
            if let Some(near) = near {
                self.out.more(near);
            }
        }
    }

    fn judge(&mut self, question: &Question<'_>) -> Result<(), Refusal> {
        let Passed {
            rules,
            keyed,
            secrets,
        } = self.judged(question)?;
        for hook in self.policy.hooks.of(HookPhase::Before, question.tool) {
            let words = format!("hook {} could change or block it", hook.name);
            self.out.add("rewrite", "unasked", words);
        }
        if let (Some(keyed), Some(rule)) = (keyed, &rules.idempotency) {
            self.out.more(keyed.describe(rule));
        }
        if let Some(words) = rules.budget.describe() {
            self.out.add("budget", "limited", words);
        }
        let names: Vec<&str> = secrets
            .bindings()
            .map(|binding| binding.name.as_str())
            .collect();
        if !names.is_empty() {
            self.out.add("secrets", "needed", names.join(", "));
        }
        if let Some(words) = rules.audit.describe() {
            self.out.add("ledger", "keeps", words);
        }
        shown::undoing(&rules.undo, &mut self.out);
        Ok(())
    }
}

/// A tool's input schema, or one that takes everything.
pub(super) fn schema(path: Option<&Path>) -> anyhow::Result<Schema> {
    let schema = match path {
        Some(path) => {
            let text = std::fs::read(path)
                .with_context(|| format!("{} cannot be read", path.display()))?;
            read("--input-schema", text.into())?
        }
        None => serde_json::json!({ "type": "object" }),
    };
    Schema::compile(&schema)
        .map_err(|reason| anyhow::anyhow!("the input schema would be quarantined: {reason}"))
}

/// A JSON object of the command line, or of a file that it names.
pub(super) fn read(what: &str, text: bytes::Bytes) -> anyhow::Result<Value> {
    let text = Text::read(text, &AGENT_JSON_LIMITS)
        .with_context(|| format!("{what} is not plain JSON"))?;
    if !text.is_object() {
        bail!("{what} must be a JSON object");
    }
    Ok(text.value())
}
