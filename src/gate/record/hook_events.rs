//! What hooks are told of a call, and the end of a call for after-hooks: told once, by others,
//! later, or not at all (001-33 … 001-36). Nobody waits for them, and nothing they do changes what
//! became of the call.

use crate::gate::Gate;
use crate::gate::call::Call;
use crate::gate::catalogue::tool::Tool;
use crate::gate::record::Ending;
use crate::gate::record::RecordedCall;
use crate::gate::record::outcome_of;
use crate::guards::hooks::HookPhase;
use crate::mcp::json::{Object, Text};
use crate::upstream::hook::{Hook, HookEvent};
use crate::upstream::http::Connections;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// The kinds of what is told.
pub(in crate::gate) const BEFORE: &str = "toolgate.before";
const AFTER: &str = "toolgate.after";
/// Bytes of a result that after-hooks are shown; a longer one is left out, and one that agents and
/// tool servers may read differently.
const SHOWN: usize = 256 << 10;
/// Bytes of all that after-hooks have not heard yet.
const WAITING: usize = 16 << 20;

/// What the gate needs to reach hooks.
pub struct Hooks {
    pub(in crate::gate) connections: Connections,
    /// Room for what after-hooks have not heard yet, in bytes.
    room: Arc<Semaphore>,
    telling: TaskTracker,
}

impl Hooks {
    /// Over these connections.
    pub fn new(connections: Connections) -> Self {
        Self {
            connections,
            room: Arc::new(Semaphore::new(WAITING)),
            telling: TaskTracker::new(),
        }
    }

    /// Waits until after-hooks have heard of everything, at most so long.
    pub async fn ended(&self, patience: Duration) {
        self.telling.close();
        let _ = tokio::time::timeout(patience, self.telling.wait()).await;
    }
}

/// What every hook is told (001-23).
pub(in crate::gate) fn of(kind: &str, call: &Call, tool: &Tool, arguments: &Value) -> Object {
    let (judged, caller) = (&call.judged, &call.origin.caller);
    let tenant = caller.tenant.as_ref().map(ToString::to_string);
    let mut told = Object::new();
    told.set("type", Text::string(kind));
    told.set("server", Text::string(tool.server.settings.name.as_str()));
    told.set("tool", Text::string(&tool.definition.name));
    told.set("arguments", Text::of(arguments));
    told.set("call_id", Text::string(&judged.action.to_string()));
    let mut asks =
        json!({ "agent": caller.agent.as_str(), "tenant": tenant, "roles": caller.roles });
    if let Some(user) = &caller.user {
        asks["user"] = json!(user.as_str());
    }
    told.set("caller", Text::of(&asks));
    told.set("trace_id", Text::string(&judged.trace_id));
    told
}

impl Gate {
    /// Tells after-hooks how a call ended that was handed to its tool server, well or not. Never
    /// waits.
    pub(in crate::gate) fn tell(&self, recorded: &RecordedCall<'_>, tool: &Tool, ending: &Ending) {
        let RecordedCall {
            policy,
            call,
            found,
            ..
        } = recorded;
        let mut hooks = policy.hooks.of(HookPhase::After, &tool.name).peekable();
        if found.dispatch.attempts == 0 || hooks.peek().is_none() {
            return;
        }
        let mut told = of(AFTER, call, tool, &call.judged.arguments);
        told.set("outcome", Text::string(outcome_of(ending, found).word()));
        match ending {
            Ok(answer) => {
                let body = answer.body.clone().unwrap_or_else(|| Text::string(""));
                told.set("bytes", Text::of(&json!(body.as_bytes().len())));
                if body.as_bytes().len() <= SHOWN && answer.odd.is_none() {
                    told.set(if answer.is_error { "error" } else { "result" }, body);
                }
            }
            Err(refusal) => {
                told.set(
                    "error",
                    Text::of(&json!({ "code": refusal.code(), "message": refusal.words() })),
                );
            }
        }
        let body = told.text();
        for hook in hooks {
            self.tell_one(
                hook,
                format!("{}_after_{}", call.judged.action, hook.name),
                &body,
            );
        }
    }

    fn tell_one(&self, hook: &Arc<Hook>, id: String, body: &Text) {
        let bytes = u32::try_from(body.as_bytes().len()).unwrap_or(u32::MAX);
        let room = self.hooks.room.clone().try_acquire_many_owned(bytes).ok();
        let Some(place) = room.zip(hook.place()) else {
            tracing::debug!(
                hook = hook.name,
                "an after-hook has too much to hear; it does not hear of a call"
            );
            self.metrics.after_hook("dropped");
            return;
        };
        let (metrics, name) = (self.metrics.clone(), hook.name.clone());
        let held = (place, self.hooks.telling.token());
        hook.tell(
            self.hooks.connections.clone(),
            HookEvent {
                id,
                body: body.bytes(),
            },
            held,
            move |ended| {
                if let Err(failed) = &ended {
                    tracing::debug!(hook = name, %failed, "an after-hook failed");
                }
                metrics.after_hook(if ended.is_ok() { "delivered" } else { "failed" });
            },
        );
    }
}
