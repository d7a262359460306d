//! `toolgate.yaml` as written (design §2).

use super::reconcile::ReconcileSettings;
use super::written_credentials::{HeadersForSettings, OauthSettings};
use super::written_entrance::{SocketSettings, TlsSettings};
use super::written_notify::NotifySettings;
use super::written_operators::OperatorIssuerSettings;
use crate::guards::hooks::HookSettings;
use crate::guards::identity::issued::settings::AuthSettings;
use crate::guards::identity::tokens::PreviousTokenSettings;
use crate::guards::identity::{CallerSettings, FrontEndSettings, GroupSettings};
use crate::guards::{Mode, pins};
use crate::model::content::ContentForm;
use crate::model::secret::Secret;
use crate::policy;
use crate::policy::sources::PackTerms;
use crate::upstream::server_settings::{ChildSharing, EraChoice};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where agents are served, if nothing is said.
pub(super) const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7777);
/// Where operators are served, if nothing is said.
pub(super) const DEFAULT_ADMIN_LISTEN: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7778);
/// Where the embedded store is, if nothing is said.
pub(super) const DEFAULT_DATA_DIRECTORY: &str = "./toolgate-data";

/// The whole file. `${NAME}` and `${NAME:-default}` in any text stand for environment variables,
/// `$${` for `${`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "toolgate configuration", rename = "Configuration")]
pub(crate) struct ConfigSettings {
    /// The address where agents are served, or `unix:` and the path of a socket; an address that other
    /// machines reach needs `callers`, and `tls` or `unencrypted`.
    pub listen: String,
    /// TLS at `listen`.
    pub tls: Option<TlsSettings>,
    /// Who may use the socket that `listen` names.
    pub unix: Option<SocketSettings>,
    /// Other machines may reach `listen`, though it speaks no TLS: in a container, or behind a TLS
    /// front end on a network that nobody else is on. Who is on the way reads the agents' tokens
    /// and all calls.
    pub unencrypted: bool,
    /// The operators' door.
    pub admin: AdminSettings,
    /// The directory of the embedded store.
    pub data: String,
    /// `enforce` refuses what breaks the policies; `observe` records it and lets it pass.
    pub mode: Mode,
    /// The tool servers, in the shape of an MCP client's `mcpServers`. Names: letters, digits,
    /// `_`, `-`; no `__`.
    pub servers: BTreeMap<String, ToolServerSettings>,
    /// The agents. None, and no `auth`: every program on this machine is the agent `anonymous`.
    pub callers: Vec<CallerSettings>,
    /// What holds for all callers of a `group` together, by its name.
    pub groups: BTreeMap<String, GroupSettings>,
    /// Identity providers whose tokens (JWT) name agents, beside those of `callers`.
    pub auth: AuthSettings,
    /// Trusted programs between agents and toolgate, which name the agent in a header.
    pub front_ends: Vec<FrontEndSettings>,
    /// What calls may refer to as `<secret_ref:NAME>`, by name: `[a-z][a-z0-9_]*`.
    pub secrets: BTreeMap<String, SecretSettings>,
    /// Programs that are told of calls over HTTP, in their order: before a call is sent, or after
    /// it has ended.
    pub hooks: Vec<HookSettings>,
    /// Policy files, and directories of them (all of `*.yaml`, `*.yml`; not `tests/`).
    pub policies: Vec<String>,
    /// Values of the header `Host` that are taken besides those of `listen`: `name` or
    /// `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Values of the header `Origin` that are taken besides those of `listen`:
    /// `scheme://host[:port]`.
    pub allowed_origins: Vec<String>,
    /// Which methods pass besides tool calls.
    pub methods: MethodSettings,
    /// A header in which agents name their session, where the protocol has none.
    pub session_header: Option<String>,
    /// Bytes of `_meta` that one message of an agent may have: 65536 (64 KiB) if absent, 1024 to
    /// 4194304. In observe mode more are sent on, and counted.
    pub meta_max_bytes: usize,
    /// Which definitions of tools an operator has approved; without it, all pass.
    pub pins: Option<pins::Settings>,
    /// What the test packs beside the policies are for: `require`, and a policy whose packs fail comes in
    /// force neither at a start nor by a reload; `on_demand` if absent, and `toolgate test` runs them.
    pub packs: PackTerms,
    /// The record of what was called.
    pub ledger: LedgerSettings,
    /// Who is told elsewhere that a call waits for a person.
    pub notify: NotifySettings,
    /// Looks at calls with an unknown outcome by a timer; `{}` takes the defaults. Without it, each is
    /// looked at when its agent comes again.
    pub reconcile: Option<ReconcileSettings>,
}

/// The operators' door.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Admin")]
pub(crate) struct AdminSettings {
    /// The address where operators are served, or `unix:` and the path of a socket; an address that
    /// other machines reach needs `tokens`, and `tls` or `unencrypted`.
    pub listen: String,
    /// TLS at `admin.listen`.
    pub tls: Option<TlsSettings>,
    /// Who may use the socket that `admin.listen` names.
    pub unix: Option<SocketSettings>,
    /// Other machines may reach `admin.listen`, though it speaks no TLS; as for agents.
    pub unencrypted: bool,
    /// Where people reach this door, such as `https://toolgate.example.com`: what links to its pages
    /// begin with, and a name under which it may be called.
    pub public_url: Option<String>,
    /// Values of the header `Host` that are taken besides those of `admin.listen` and the host of
    /// `public_url`: `name` or `name:port`. No link begins with them.
    pub allowed_hosts: Vec<String>,
    /// The operators.
    pub tokens: Vec<OperatorSettings>,
    /// Operators of `tokens` who are away, by name, and who decides about held calls meanwhile.
    pub operators: BTreeMap<String, AbsenceSettings>,
    /// Which roles may do what; about calls that are held, contracts say who decides (`approver`
    /// unless they name others).
    pub verbs: VerbSettings,
    /// Identity providers whose tokens (JWT) name operators, beside those of `tokens`.
    pub jwt: Vec<OperatorIssuerSettings>,
}

/// An operator who is away.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Absence")]
pub(crate) struct AbsenceSettings {
    /// until when, such as `2026-12-24T08:00:00+01:00`
    pub away_until: String,
    /// the operator of `tokens` who decides meanwhile, by their own name and for the one who is away
    pub delegate: String,
}

/// The roles that may do something at the operators' door, one of which is enough. `[]`: nobody.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Verbs")]
pub(crate) struct VerbSettings {
    /// May say what became of a call whose outcome is unknown.
    pub resolve: Vec<String>,
    /// May disable and enable tools.
    pub switch: Vec<String>,
    /// May read the calls whose outcome is unknown, and the arguments of all held calls.
    pub audit: Vec<String>,
}

/// One operator.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Operator")]
pub(crate) struct OperatorSettings {
    /// the operator's name, for the ledger
    pub name: String,
    /// the bearer token that proves it; 16 bytes or more
    pub token: Secret,
    /// Tokens that proved it before, and still do for a while.
    #[serde(default)]
    pub previous: Vec<PreviousTokenSettings>,
    /// What the operator may do: roles that contracts ask for (`approver`), and those of `verbs`.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// A tool server: a program to start (`command`), or an address (`url`).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Server")]
pub(crate) struct ToolServerSettings {
    /// The program to start; it speaks MCP on standard input and output.
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, and nothing else of toolgate's. An empty value means: not set.
    pub env: BTreeMap<String, Secret>,
    /// The directory it runs in; toolgate's own if absent.
    pub cwd: Option<String>,
    /// What the program, and whatever it starts, may do to the machine; if absent, what toolgate
    /// may, but leave core dumps.
    pub sandbox: Option<SandboxSettings>,
    /// The address of its MCP endpoint (Streamable HTTP).
    pub url: Option<String>,
    /// Headers sent with every request to `url`.
    pub headers: BTreeMap<String, Secret>,
    /// Where the tokens come from that the server at `url` wants; they go into `Authorization`.
    pub oauth: Option<OauthSettings>,
    /// Headers sent to `url` with the requests of some callers; the first entry that fits a caller
    /// counts.
    pub headers_for: Vec<HeadersForSettings>,
    /// How long one call may take: `60s` if absent, `10m` at most.
    pub timeout: Option<String>,
    /// How long a call of an agent takes that becomes a task, if the agent knows the tasks extension of
    /// 2026-07-28 and the server makes no tasks itself: `30s` if absent, `10m` at most. From
    /// `timeout` on, none does.
    pub task_after: Option<String>,
    /// How long the server may take to answer for the first time: `30s` if absent, `1h` at most.
    pub start_timeout: Option<String>,
    /// How old what is known of its tools may get, whether or not it says when they change: `60s`
    /// if absent, 1s to 10m. Where it does not say, it is asked as often as its `ttlMs` wants,
    /// from 5s on.
    pub refresh: Option<String>,
    /// How long a legacy session at `url` is silent before the server is pinged, ahead of a call
    /// that changes something: `30s` if absent, `1ms` to `1h`. One that was restarted is found
    /// out so, and gets a new session before the call.
    pub ping_after: Option<String>,
    /// Which wire it speaks: `legacy` (up to 2025-11-25) or `2026-07-28`. If absent, `auto`: it is
    /// asked in both ways, and its answers say so.
    pub era: EraChoice,
    /// Which sessions of legacy agents share a process of `command`, if it speaks no 2026-07-28:
    /// `caller` (if absent: those of one agent, tenant and user), `all` (the server takes all agents
    /// for one agent), or `none`.
    pub share: ChildSharing,
    /// Processes of `command` that agents of a legacy server use at once: 32 if absent, 1 to 256.
    pub max_children: Option<usize>,
    /// How long nobody uses a process of a legacy server before it ends: `45s` if absent, `1h` at
    /// most. The next request starts it again.
    pub idle_timeout: Option<String>,
    /// HTTP statuses (400 to 599) of the server at `url` by which it, and all that stands between,
    /// refuses a call before it does anything: such a call may be sent again. Without it no
    /// status proves that, and the outcome is unknown.
    pub not_executed: Vec<i64>,
    /// The header in which the server at `url` reads the fencing token of a call that changes
    /// something, beside `_meta`: `TOKEN;session="ID"`. Absent if not named.
    pub fence_header: Option<String>,
    /// Bytes of a message to it at most: 4194304 if absent, 65536 to 16777216.
    pub message_max_bytes: Option<usize>,
    /// Bytes of one string in a message to it at most, as written: 1048576 if absent, 1024 to
    /// 16777216. Longer ones are refused in enforce mode.
    pub string_max_bytes: Option<usize>,
    /// It is not started or reached, and none of its tools is seen; what policies say of them
    /// stays. `true` holds at once.
    pub disabled: bool,
}

/// What a program may do to the machine. Nothing that it starts gets out of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Sandbox")]
pub(crate) struct SandboxSettings {
    /// The files it may reach, kept to by Linux's Landlock; if absent, all that toolgate may.
    pub landlock: Option<LandlockSettings>,
    /// Programs that give rights to who starts them, such as `sudo`, give it none: `true` if
    /// absent. With `landlock` they never do.
    pub no_new_privs: bool,
    /// How much each of its processes may take.
    pub rlimits: RlimitSettings,
}

/// The files a program may reach: files, and directories with everything below. Each must exist
/// when it is started.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Landlock")]
pub(crate) struct LandlockSettings {
    /// What it may read and run, besides what it may write and what every program needs (`/usr`,
    /// `/lib`, `/proc` and the like); if absent, all files. Who is root also loses what opens
    /// other processes in `/proc`.
    pub read: Option<Vec<String>>,
    /// What it may change; nothing else, not even in `/tmp`.
    pub write: Vec<String>,
    /// It is not started where the kernel cannot keep it to this; else that is logged.
    pub required: bool,
}

/// How much each process of a program may take; no more than toolgate itself may. Core dumps are
/// always off.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Rlimits")]
pub(crate) struct RlimitSettings {
    /// Open files.
    pub nofile: Option<u64>,
    /// Bytes of address space. Node.js and Java reserve many gigabytes of it.
    #[serde(rename = "as")]
    pub address_space: Option<u64>,
    /// Processes and threads of its user id, all programs of it together.
    pub nproc: Option<u64>,
    /// Seconds of CPU time.
    pub cpu: Option<u64>,
    /// Bytes of a file that it writes.
    pub fsize: Option<u64>,
}

impl RlimitSettings {
    /// Each limit, as it is written.
    pub(super) fn named(&self) -> [(&'static str, Option<u64>); 5] {
        let Self {
            nofile,
            address_space,
            nproc,
            cpu,
            fsize,
        } = *self;
        [
            ("nofile", nofile),
            ("as", address_space),
            ("nproc", nproc),
            ("cpu", cpu),
            ("fsize", fsize),
        ]
    }
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            landlock: None,
            no_new_privs: true,
            rlimits: RlimitSettings::default(),
        }
    }
}

/// A secret: where it comes from (one of `env`, `file` and `command`), and where it may go. Its
/// value has 8 to 4096 bytes; a line end after it does not count.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Secret")]
pub(crate) struct SecretSettings {
    /// An environment variable of toolgate.
    pub env: Option<String>,
    /// A file; it is read for every call.
    pub file: Option<String>,
    /// A program that prints it, and the program's arguments; no shell, and of the environment
    /// `PATH`, `HOME`, `USER`, `LANG` and `TMPDIR` only.
    #[serde(default)]
    pub command: Vec<String>,
    /// For how long what the program printed is good; needed with `command`: 1s to 24h.
    pub ttl: Option<String>,
    /// How long the program may take: `5s` if absent, `30s` at most.
    pub timeout: Option<String>,
    /// the only arguments it may go to; the contracts must list them, too
    #[serde(rename = "for")]
    pub places: Vec<SecretPlaceSettings>,
}

/// An argument of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SecretPlace")]
pub(crate) struct SecretPlaceSettings {
    /// the tool server
    pub server: String,
    /// the server's own name for the tool
    pub tool: String,
    /// JSON pointer to the argument
    pub pointer: String,
}

/// The record of what was called.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Ledger")]
pub(crate) struct LedgerSettings {
    /// How long closed segments are kept after their last entry: `90d` if absent, `1h` at least.
    /// What calls still need is kept for as long as they need it.
    pub keep: Option<String>,
    /// How large it may become, in bytes; 16777216 (16 MiB) at least. From seven eighths of it on,
    /// reads and refusals are only summed up; beyond it the oldest closed segments are
    /// dropped, however young they are, and what calls still need is carried on. If absent,
    /// nothing is dropped because of its size, and reads and refusals are summed up from 8 GiB on.
    pub max_bytes: Option<u64>,
    /// The directory they go to then. Without it they are dropped.
    pub archive: Option<String>,
    /// Whether closed segments are compressed in the background: `true` if absent. A toolgate
    /// older than this setting cannot read them then.
    pub compress: Option<bool>,
    /// What the ledger is sealed with, so that nobody without the key can write it anew.
    pub seal: Option<SealSettings>,
    /// What it keeps of calls that are only observed, and what that, and what `audit` of contracts
    /// has it keep, is encrypted with.
    pub content: Option<ContentSettings>,
    /// Where its heads go by themselves, so that nobody can cut its end off unseen.
    pub heads: Option<HeadsSettings>,
}

/// The keys that seal the ledger.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Seal")]
pub(crate) struct SealSettings {
    /// The key that seals. Without it, and with `previous`, the ledger is sealed no more.
    pub key: Option<SealKeySettings>,
    /// Keys that sealed before, and whose seals are still to be checked.
    pub previous: Vec<SealKeySettings>,
}

/// A key: where it comes from, one of `env`, `file` and `command`. 32 to 4096 bytes; a line end
/// after it does not count.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "SealKey")]
pub(crate) struct SealKeySettings {
    /// An environment variable of toolgate.
    pub env: Option<String>,
    /// A file; it is read at the start.
    pub file: Option<String>,
    /// A program that prints it, and the program's arguments; no shell, and of the environment
    /// `PATH`, `HOME`, `USER`, `LANG` and `TMPDIR` only.
    pub command: Vec<String>,
    /// How long the program may take: `5s` if absent, `30s` at most.
    pub timeout: Option<String>,
    /// In `previous`: the id of a key that nobody has any more; its seals are not checked.
    pub lost: Option<String>,
}

/// What is kept of arguments and results without a contract's word, and the keys that encrypt all that
/// is kept.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Content")]
pub(crate) struct ContentSettings {
    /// The key that encrypts. Without it they are not encrypted.
    pub key: Option<ContentKeySettings>,
    /// Keys that encrypted before, so that what they encrypted can be read.
    pub previous: Vec<ContentKeySettings>,
    /// What is kept in observe mode of a call whose contract says nothing of it, or that has none: as
    /// `audit` of a contract; `digest` if absent. `full` is what `toolgate suggest` learns from.
    pub observed: Option<ContentForm>,
}

/// A key: where it comes from, one of `env`, `file` and `command`. 32 to 4096 bytes; a line end
/// after it does not count.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "ContentKey")]
pub(crate) struct ContentKeySettings {
    /// An environment variable of toolgate.
    pub env: Option<String>,
    /// A file; it is read at the start.
    pub file: Option<String>,
    /// A program that prints it, and the program's arguments; no shell, and of the environment
    /// `PATH`, `HOME`, `USER`, `LANG` and `TMPDIR` only.
    pub command: Vec<String>,
    /// How long the program may take: `5s` if absent, `30s` at most.
    pub timeout: Option<String>,
}

/// Where heads go. A head says where the ledger stands: its last record and the hash over
/// everything up to it, with a seal where the ledger has one.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Heads")]
pub(crate) struct HeadsSettings {
    /// How often: `10m` if absent, `1s` to `24h`; besides at the start and at the end.
    pub every: Option<String>,
    /// A file, to which each is added as a line of JSON; best one that toolgate's user can only
    /// add to, on another machine's disk.
    pub file: Option<String>,
    /// A program that is told of each over HTTP.
    pub webhook: Option<WebhookSettings>,
    /// Each is a line of the log.
    pub log: bool,
}

/// A program that is told of heads over HTTP.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HeadsWebhook")]
pub(crate) struct WebhookSettings {
    /// the address that is told, by POST
    pub url: String,
    /// the key that signs what it is told (Standard Webhooks): `whsec_` and 24 to 64 bytes in
    /// base64
    pub secret: Secret,
    /// How long it may take: `5s` if absent, `30s` at most.
    pub timeout: Option<String>,
    /// The address may be one of another machine without TLS.
    #[serde(default)]
    pub unencrypted: bool,
}

/// Which methods pass: known ones unless denied; unknown ones if allowed, or if `mode` is
/// `observe`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Methods")]
pub(crate) struct MethodSettings {
    /// Methods that are refused.
    pub deny: Vec<String>,
    /// Methods that pass although toolgate does not know them.
    pub allow: Vec<String>,
}

impl Default for ConfigSettings {
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN.to_string(),
            tls: None,
            unix: None,
            unencrypted: false,
            admin: AdminSettings::default(),
            data: DEFAULT_DATA_DIRECTORY.to_owned(),
            mode: Mode::default(),
            servers: BTreeMap::new(),
            callers: Vec::new(),
            front_ends: Vec::new(),
            groups: BTreeMap::new(),
            auth: AuthSettings::default(),
            secrets: BTreeMap::new(),
            hooks: Vec::new(),
            policies: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            methods: MethodSettings::default(),
            session_header: None,
            meta_max_bytes: policy::META_MAX_BYTES,
            pins: None,
            packs: PackTerms::default(),
            ledger: LedgerSettings::default(),
            notify: NotifySettings::default(),
            reconcile: None,
        }
    }
}

impl Default for AdminSettings {
    fn default() -> Self {
        let listen = DEFAULT_ADMIN_LISTEN.to_string();
        Self {
            listen,
            tls: None,
            unix: None,
            unencrypted: false,
            public_url: None,
            allowed_hosts: Vec::new(),
            tokens: Vec::new(),
            operators: BTreeMap::new(),
            verbs: VerbSettings::default(),
            jwt: Vec::new(),
        }
    }
}
