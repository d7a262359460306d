//! A call as an agent has made it: what guards judge, and what travels.

use crate::gate::catalogue::tool::Tool;
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::idempotency::{CallPlace, Given, KeyRequest};
use crate::guards::rewrite::ChangedArguments;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use crate::mcp::own::{FENCE_META_KEY, OWN_META_PREFIX};
use crate::mcp::revision::Era;
use crate::model::argument_edit::ArgumentEdit;
use crate::model::call::{Rewritten, ToolCall};
use crate::model::caller::Caller;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::model::taken_back::UndoneCall;
use crate::outlet::Outlet;
use crate::outlet::receipt::Receipt;
use crate::policy::Policy;
use crate::upstream::links::{Links, WaitingRequest};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What a call brings a server that asked in an earlier round (2026-07-28).
const ROUND: [&str; 2] = ["inputResponses", "requestState"];
/// What an agent reads that it should have sent, when its call has the `requestState` of another.
const OWN_STATE: &str = "`requestState` as it came with the question to this very call, or neither it nor `inputResponses`";
/// Members of `_meta` that change from request to request, and say nothing of what the call does:
/// what a person allows is not bound to them (guarantees §7).
const OF_ONE_REQUEST: [&str; 6] = [
    "progressToken",
    "traceparent",
    "tracestate",
    "baggage",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/logLevel",
];
/// Such members of agents' programs, as they were sent on 2026-11-27: `claudecode/toolUseId` by Claude Code, the
/// others by VS Code (`mcpServer.ts` of its `workbench/contrib/mcp`). Each names a request or the conversation in
/// which it is made: as little as the session are they part of what is allowed.
const OF_ONE_REQUEST_BY_PROGRAMS: [&str; 3] = [
    "claudecode/toolUseId",
    "vscode.conversationId",
    "vscode.requestId",
];
/// Such members that say what the agent is.
const OF_THE_AGENT: [&str; 2] = [
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
];
/// Bytes that such a member may have; what is longer, or of another form than its own, can carry
/// what the call does.
const OF_ONE_REQUEST_BYTES: usize = 512;
const OF_THE_AGENT_BYTES: usize = 2 << 10;
/// What programs send is an id.
const BY_PROGRAMS_BYTES: usize = 128;

/// Whether the arguments are those that the agent wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ArgumentOrigin {
    /// They are.
    #[default]
    AsWritten,
    /// They were read back, and travel so.
    Back,
    /// They cannot be read back.
    Impossible(Refusal),
    /// They came with a `requestState` that is not of this call.
    Foreign,
}

/// A call, who makes it, and the way back. It never changes: what rewrites it makes another.
#[derive(Clone)]
pub struct Call {
    /// What the guards judge.
    pub judged: ToolCall,
    /// Whether its arguments are those that the agent wrote.
    pub reading: ArgumentOrigin,
    /// The request as it was read.
    pub message: Message,
    /// Who calls, and the way back.
    pub origin: Arc<CallOrigin>,
}

/// Where a call comes from. Nothing that rewrites the call changes it.
pub struct CallOrigin {
    /// Who calls.
    pub caller: Arc<Caller>,
    /// The policy that knows the caller so. The call is judged by it and no other.
    pub policy: Arc<Policy>,
    /// The agent's era.
    pub era: Era,
    /// What the agent reaches.
    pub links: Arc<Links>,
    /// Where the agent reads.
    pub outlet: Outlet,
    /// Its place among the agent's requests that wait.
    pub waiting: WaitingRequest,
    /// When the first byte of its request was read, in steady time; zero where that says nothing of
    /// what the agent had read.
    pub arrived: Duration,
    /// Something stands between agent and toolgate, and reads for it.
    pub is_relayed: bool,
    /// Whether it can wait for a person as a task.
    pub task: TaskTerms,
    /// The call that it takes back, where an operator or its agent has asked for that.
    pub undoes: Option<UndoneCall>,
    /// What it takes back though it was not asked to: its agent makes just the call that an operator's
    /// undo would make.
    pub own_undo: Mutex<OwnUndo>,
    /// The key that it has claimed, once it has.
    pub claimed: OnceLock<Digest>,
    /// It is answered by a question that asks its agent to open a page.
    pub asks_page: AtomicBool,
    /// What its agent says of the page that it was asked to open, if it was.
    pub page: OnceLock<PageReturn>,
    /// The seconds that its agent was told as progress while it waited for a person.
    pub waited: AtomicU64,
}

/// What a call takes back though it was not asked to, as far as that is known when it begins.
#[derive(Debug, Clone, Copy, Default)]
pub struct OwnUndo {
    /// That call.
    pub of: Option<ActionId>,
    /// What it is known by, should it be one of which nobody knows yet whether it ran.
    pub may_be: Option<Digest>,
}

/// What an agent says of a page where people decide, which it was asked to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageReturn {
    /// It is open: nothing is said of what was decided.
    Opened,
    /// It is not.
    NotOpened,
}

/// What a call has to do with tasks of toolgate's own.
#[derive(Debug, Clone)]
pub enum TaskTerms {
    /// Nothing: its agent knows no tasks.
    Unknown,
    /// Its agent knows tasks: it may become one, with these parameters.
    Possible(Text),
    /// toolgate sends it for the task of this hold, and nobody else waits for it.
    Of(ActionId),
    /// toolgate sends it as the next round of the call that has become the task of this id.
    Round(Arc<str>),
}

impl CallOrigin {
    /// Ends when the agent has cancelled the call, or hears no more of it: it has hung up, has not come back to
    /// its stream in time, or its session has ended. What is sent already is not asked about that. With how long
    /// the agent had not been there by then; none where its session ended, by which it may have been away
    /// for any time.
    pub(in crate::gate) async fn gone(&self) -> Option<Duration> {
        tokio::select! {
            biased;
            () = self.waiting.cancelled.cancelled() => Some(Duration::ZERO),
            () = self.links.ended() => None,
            away = self.outlet.unread() => Some(away),
        }
    }
}

impl Call {
    /// Step 2, with the contract that counts for these arguments.
    pub(in crate::gate) fn admitted<'p>(
        &self,
        policy: &'p Policy,
    ) -> Result<Admitted<'p>, Refusal> {
        let admitted = policy
            .allowlist
            .admit(&self.origin.caller, &self.judged.tool)
            .map_err(|denied| denied.refusal)?;
        Ok(admitted.on(&self.judged.arguments))
    }

    /// What it answers a server that asked in an earlier round, as SHA-256 (2026-07-28).
    pub(in crate::gate) fn round(&self) -> Option<Digest> {
        let params = self.message.body.as_ref()?;
        let parts = ROUND.map(|field| params.get(field));
        let [None, None] = &parts else {
            let parts = parts
                .each_ref()
                .map(|part| part.as_ref().map_or(&[][..], Text::as_bytes));
            return Some(Digest::of_parts("round", &parts));
        };
        None
    }

    /// The same, as a person is shown it.
    pub(in crate::gate) fn answers(&self) -> Option<Value> {
        let params = self.message.body.as_ref()?;
        let parts = ROUND
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), params.get(field)?.value())));
        let parts: Map<String, Value> = parts.collect();
        (!parts.is_empty()).then_some(Value::Object(parts))
    }

    /// What else of it an agent sends upstream, as a person is shown it: `_meta` but for what
    /// belongs to each request, and `task`.
    pub(in crate::gate) fn beside(&self) -> Option<Value> {
        let params = self.message.body.as_ref()?;
        let meta = params
            .get("_meta")
            .as_ref()
            .and_then(Text::object)
            .unwrap_or_default();
        let lasting = meta.iter().filter(|(key, value)| {
            !key.starts_with(OWN_META_PREFIX) && !is_of_one_request(key, value)
        });
        let lasting: Map<String, Value> = lasting
            .map(|(key, value)| (key.to_owned(), value.value()))
            .collect();
        let meta = (!lasting.is_empty()).then_some(("_meta".to_owned(), Value::Object(lasting)));
        let task = params
            .get("task")
            .map(|task| ("task".to_owned(), task.value()));
        let parts: Map<String, Value> = meta.into_iter().chain(task).collect();
        (!parts.is_empty()).then_some(Value::Object(parts))
    }

    /// The receipt of the call's answer, which is not given yet.
    pub(in crate::gate) fn receipt(&self) -> Arc<Receipt> {
        let receipt = self.origin.outlet.receipt(self.origin.is_relayed);
        self.origin.waiting.keeps(&receipt);
        receipt
    }

    /// The fencing token that the agent says it holds (004-26).
    pub(in crate::gate) fn fence(&self) -> Option<u64> {
        self.message
            .meta(FENCE_META_KEY)?
            .get("token")?
            .value()
            .as_u64()
    }

    /// Step 3: whether the arguments could be read back.
    pub(in crate::gate) fn read(&self) -> Result<(), Refusal> {
        match &self.reading {
            ArgumentOrigin::Impossible(refusal) => Err(refusal.clone()),
            ArgumentOrigin::Foreign => Err(Refusal::SchemaInvalid {
                pointer: String::new(),
                expected: OWN_STATE.to_owned(),
            }),
            ArgumentOrigin::AsWritten | ArgumentOrigin::Back => Ok(()),
        }
    }

    /// The call that it takes back, if it was asked to take one back.
    pub(in crate::gate) fn takes_back(&self) -> Option<ActionId> {
        self.origin.undoes.as_ref().map(|undoes| undoes.of)
    }

    /// The call that it takes back, asked or not.
    pub(in crate::gate) fn compensates(&self) -> Option<ActionId> {
        self.takes_back().or_else(|| self.origin.own_undo.lock().of)
    }

    /// What it is known by should it take back a call though nothing says so.
    pub(in crate::gate) fn may_undo(&self) -> Option<Digest> {
        self.origin.own_undo.lock().may_be
    }

    /// The call as the key is made of it.
    pub(in crate::gate) fn asked<'a>(&'a self, tool: &'a Tool, place: CallPlace) -> KeyRequest<'a> {
        let (judged, server) = (&self.judged, &tool.server.settings.name);
        let (meta, header) = (judged.said.key.as_ref(), judged.said.key_header.as_deref());
        let given = Given {
            meta,
            argument: judged.key_argument.as_ref(),
            header,
        };
        KeyRequest {
            caller: &self.origin.caller,
            server,
            tool: &tool.definition.name,
            arguments: &judged.arguments,
            given,
            place,
            hints_idempotent: tool.hints_idempotent(),
            undoes: self.takes_back(),
        }
    }

    /// What operators have changed of its arguments before it was allowed.
    pub(in crate::gate) fn edit(&self) -> Option<&ArgumentEdit> {
        self.judged.rewritten.as_ref()?.edit.as_ref()
    }

    /// Looks for the key in the arguments once more: a variant that the call has become may know
    /// one for it.
    pub(in crate::gate) fn find_key(&mut self, rules: &ToolRules, tool: &Tool) {
        let (None, Some(rule)) = (&self.judged.key_argument, &rules.idempotency) else {
            return;
        };
        self.judged.key_argument = rule
            .split(&tool.schema, &self.judged.arguments)
            .1
            .map(Cow::into_owned);
    }

    /// The call goes on with other arguments.
    pub(in crate::gate) fn become_of(&mut self, changed: ChangedArguments) {
        let ChangedArguments { arguments, by } = changed;
        let mut params = self
            .message
            .body
            .as_ref()
            .and_then(Text::object)
            .unwrap_or_default();
        let written = params
            .get("arguments")
            .and_then(Text::object)
            .unwrap_or_default();
        params.set(
            "arguments",
            rewritten(written, &self.judged.arguments, &arguments).text(),
        );
        self.message.body = Some(params.text());
        let original = std::mem::replace(&mut self.judged.arguments, arguments);
        // The key, if it was ours, is no longer among what is sent.
        self.judged.key_taken = false;
        let record = self.judged.rewritten.get_or_insert_with(|| {
            Box::new(Rewritten {
                original,
                by: Vec::new(),
                edit: None,
            })
        });
        record.by.extend(by);
    }
}

/// Does this member of `_meta` change from request to request, or say what the agent is, and has it
/// the form that such a member has to have? One of another form can carry what the call does.
pub(in crate::gate) fn is_of_one_request(key: &str, value: &Text) -> bool {
    let bytes = value.as_bytes();
    if OF_THE_AGENT.contains(&key) {
        return value.is_object() && bytes.len() <= OF_THE_AGENT_BYTES;
    }
    if OF_ONE_REQUEST_BY_PROGRAMS.contains(&key) {
        return value.as_str().is_some() && bytes.len() <= BY_PROGRAMS_BYTES;
    }
    let is_scalar = !value.is_object() && !value.is_array();
    OF_ONE_REQUEST.contains(&key) && is_scalar && bytes.len() <= OF_ONE_REQUEST_BYTES
}

/// What is sent: members that did not change stay as they were written.
fn rewritten(mut written: Object, before: &Value, after: &Value) -> Object {
    let Some(members) = after.as_object() else {
        return written;
    };
    let gone: Vec<String> = written
        .iter()
        .map(|(name, _)| name)
        .filter(|name| !members.contains_key(*name))
        .map(str::to_owned)
        .collect();
    for name in gone {
        written.remove(&name);
    }
    for (name, value) in members
        .iter()
        .filter(|(name, value)| before.get(name) != Some(value))
    {
        written.set(name, Text::of(value));
    }
    written
}
