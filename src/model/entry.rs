//! One judged call as the ledger keeps it (003-65 … 003-72, 003-80 … 003-85).

use super::caller::Caller;
use serde::{Deserialize, Serialize};

/// What every entry has, by the documents' names (003-65 … 003-72). `result` stands for outcome,
/// size and hash.
pub const MANDATORY_FIELDS: [&str; 8] = [
    "action_id",
    "request_id",
    "user_id",
    "tenant_id",
    "tool",
    "params_hash",
    "result",
    "latency_ms",
];
/// What else an entry has.
pub const OPTIONAL_FIELDS: &[&str] = &[
    "time",
    "trace_id",
    "agent_id",
    "certificate",
    "roles",
    "session",
    "revision",
    "method",
    "probe_of",
    "schema_hash",
    "actions",
    "variant",
    "writes",
    "undo",
    "confirms",
    "compensates",
    "approval",
    "grant",
    "approved_by",
    "audit",
    "task",
    "state",
    "state_before",
    "event",
    "outcome",
    "aborted_reason",
    "stage",
    "decided_by",
    "allowed_by",
    "resources",
    "would_refuse",
    "unasked",
    "fault",
    "is_error",
    "result_bytes",
    "result_hash",
    "gate_ms",
    "hold_ms",
    "upstream_ms",
    "policy",
    "replayed",
    "claimed_by",
    "same_as",
    "because",
    "would_join",
    "attempts",
    "fence",
    "cost",
    "budget_remaining",
    "count",
    "first_time",
    "issuer",
    "subject",
];

/// One ledger entry. Field names are the documents' where they give one; arguments and results
/// appear as hashes only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When the call was judged, RFC 3339 in UTC.
    pub time: String,
    /// Our id of the call (003-65).
    pub action_id: String,
    /// The agent's JSON-RPC id, as written (003-66).
    pub request_id: String,
    /// W3C trace id, from the message or new (003-80).
    pub trace_id: String,
    /// For whom it was: the user, where one was named, else the agent (003-67).
    pub user_id: String,
    /// The agent, where `user_id` is a user behind it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_id: Option<String>,
    /// The URI of the certificate by which the agent proved itself; none: by a token, or without
    /// proof.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub certificate: Option<String>,
    /// The caller's tenant (003-68).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant_id: Option<String>,
    /// The caller's roles when judged (003-96).
    pub roles: Vec<String>,
    /// The legacy session, or the session the agent names.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<String>,
    /// The protocol revision the agent speaks.
    pub revision: String,
    /// `server__tool` (003-69). Of a message through a side door what it is about: `server__uri`,
    /// `server__prompt` or the server; without queries and credentials, and not in whole if it
    /// is long.
    pub tool: String,
    /// The method of a message through a side door, `probe` for a look at the tool server, `resend` for
    /// a call that is sent again under its server's own key; none for a call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub method: Option<String>,
    /// The action id of the call that a look at the tool server, or another sending, was about
    /// (guarantees §4).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probe_of: Option<String>,
    /// SHA-256 of the tool's definition; none when there is no such tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schema_hash: Option<String>,
    /// SHA-256 over RFC 8785 of the arguments sent (003-70).
    pub params_hash: String,
    /// The same of the arguments as the agent gave them, where they were rewritten (001-28).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub original_params_hash: Option<String>,
    /// The steps and hooks that rewrote them, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub rewritten_by: Vec<String>,
    /// The actions the contract declares.
    pub actions: Vec<String>,
    /// The variant of the contract that the arguments chose (002-32).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub variant: Option<String>,
    /// What a call of the tool changes, in its contract's words (003-63).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub writes: Option<String>,
    /// How that is undone, in its contract's words (003-52).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undo: Option<String>,
    /// The action id of the call that made the draft which this one confirms (003-P4d).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confirms: Option<String>,
    /// The action id of the call that this one takes back (003-64).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compensates: Option<String>,
    /// The hold that the call used up, or was refused for, by the call that asked first
    /// (guarantees §7).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<String>,
    /// The standing grant that covered the call, of which it took one use (guarantees §7).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grant: Option<String>,
    /// The operators who have allowed the call.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub approved_by: Vec<String>,
    /// Arguments the contract's `audit` names, as sent.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty", default)]
    pub audit: serde_json::Map<String, serde_json::Value>,
    /// The task, as the agent names it; none: the session is the task (003-04).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task: Option<String>,
    /// State of the task (003-81), as its agent reports it; else `collect` for reads, `execute`
    /// for everything else.
    pub state: String,
    /// Where the task was before, if its agent reports states and it was anywhere.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state_before: Option<String>,
    /// `enter` when it is about to be sent, `exit` when it was answered or could be executed as
    /// planned, `fail` when it was refused or broke (003-82).
    pub event: String,
    /// `answered`, `planned`, `refused`, `failed` or `unknown`; `dispatching` until that is known
    /// (003-71). Of a message that was handed on without waiting for an answer: `passed`.
    pub outcome: String,
    /// The refusal's code (003-37 `aborted_reason`, 003-83).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub aborted_reason: Option<String>,
    /// The step that decided.
    pub stage: String,
    /// Layer and pattern, or rule, that decided, or what a look at the server has shown; for operators
    /// only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decided_by: Option<String>,
    /// What let it through: the layer and its pattern, the contract, and what its permission rests on;
    /// for operators only. Nothing of a call that never left.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub allowed_by: Vec<String>,
    /// The resources that it names, by its contract's `permission.resource` (003-96).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub resources: Vec<String>,
    /// In observe mode: the code with which enforce mode would have refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub would_refuse: Option<String>,
    /// In observe mode: what enforce mode would have asked besides, `hook NAME` or `confirms`, and
    /// what is not asked where nothing is enforced. Any of them could have refused the call,
    /// too.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub unasked: Vec<String>,
    /// What became of it upstream, for operators: the fault in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fault: Option<String>,
    /// Whether the result says `isError`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub is_error: Option<bool>,
    /// Bytes of the result.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result_bytes: Option<u64>,
    /// SHA-256 of the result as received.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result_hash: Option<String>,
    /// Milliseconds from arrival to the end (003-72).
    pub latency_ms: f64,
    /// Milliseconds spent judging.
    pub gate_ms: f64,
    /// Milliseconds spent waiting for a person, if any were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hold_ms: Option<f64>,
    /// Milliseconds spent upstream.
    pub upstream_ms: f64,
    /// Version of the policy the call was judged under.
    pub policy: String,
    /// The answer is an earlier call's (004-18).
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub replayed: bool,
    /// The action id of the call that holds the key, where that is another one: its answer was
    /// replayed, or its outcome is not known (004-18).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claimed_by: Option<String>,
    /// The action id of the equal call that it was compared with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub same_as: Option<String>,
    /// Why it is the same call, or another one; a word of a closed list.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub because: Option<String>,
    /// In observe mode: the regimes, each a word, that would have given it an earlier call's answer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub would_join: Vec<String>,
    /// How often it was sent; 0 for never.
    #[serde(default)]
    pub attempts: u32,
    /// The fencing token it ran under (004-25).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub fence: Option<u64>,
    /// What it has cost, in the units of its contract, as that or its answer says: of a call that
    /// was sent and costs anything.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<f64>,
    /// What its task had left, by dimension (003-85).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget_remaining: Option<serde_json::Value>,
    /// How many calls the entry stands for, where it is the sum of calls that came too fast to be
    /// written one by one: it is the entry of the last of them, with the tool `*` where they
    /// named several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<u64>,
    /// When the first of them was judged.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_time: Option<String>,
    /// Who has issued the token that named the caller, if it was no token of the configuration.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub issuer: Option<String>,
    /// Whom that token is about, as its issuer calls them (`sub`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject: Option<String>,
}

impl Entry {
    /// One that says whose it is, and nothing else yet.
    pub fn of_caller(caller: &Caller) -> Self {
        let (issuer, subject) = caller.issued_by();
        Self {
            user_id: caller.user_id(),
            agent_id: caller.agent_id(),
            certificate: caller.certificate_id(),
            tenant_id: caller.tenant.as_ref().map(ToString::to_string),
            roles: caller.roles.clone(),
            issuer,
            subject,
            ..Self::default()
        }
    }

    /// The hash of the arguments as the agent sent them.
    pub fn sent_hash(&self) -> &str {
        self.original_params_hash
            .as_deref()
            .unwrap_or(&self.params_hash)
    }

    /// The agent.
    pub fn agent(&self) -> &str {
        self.agent_id.as_deref().unwrap_or(&self.user_id)
    }

    /// The user behind the agent, where one was named.
    pub fn named_user(&self) -> Option<&str> {
        self.agent_id.as_ref().map(|_| self.user_id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::caller::IssuedIdentity;
    use crate::model::ids::{TenantId, UserId};
    use std::sync::Arc;

    /// Whose an entry is, by all that its caller has shown.
    #[test]
    fn an_entry_says_all_of_its_caller() {
        let issued = IssuedIdentity {
            issuer: "https://id.example.com".to_owned(),
            subject: Some("ada".to_owned()),
            proof: None,
        };
        let caller = Caller {
            tenant: Some(TenantId::new("t_001")),
            user: Some(UserId::new("ben")),
            roles: vec!["teller".to_owned()],
            certificate: Some("spiffe://example.org/bot".into()),
            issued: Some(Arc::new(issued)),
            ..Caller::named("bot")
        };
        let entry = Entry::of_caller(&caller);
        let said = [
            Some(&entry.user_id),
            entry.agent_id.as_ref(),
            entry.tenant_id.as_ref(),
            entry.certificate.as_ref(),
            entry.issuer.as_ref(),
            entry.subject.as_ref(),
        ];
        let expected = [
            "ben",
            "bot",
            "t_001",
            "spiffe://example.org/bot",
            "https://id.example.com",
            "ada",
        ];
        assert_eq!(
            said.map(|said| said.map(String::as_str)),
            expected.map(Some)
        );
        assert_eq!(entry.roles, ["teller"]);
    }
}
