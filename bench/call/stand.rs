//! What a call is measured on: a gate with one tool, whose server is down.

use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use toolgate::config;
use toolgate::gate::call::{ArgumentOrigin, Call, CallOrigin, TaskTerms};
use toolgate::gate::catalogue::last_fit::LastFit;
use toolgate::gate::catalogue::list::Listings;
use toolgate::gate::catalogue::tool::Tool;
use toolgate::gate::catalogue::toolbox::Toolbox;
use toolgate::gate::catalogue::variants::Variants;
use toolgate::gate::effects::Effects;
use toolgate::gate::effects::slots::Slots;
use toolgate::gate::own_tasks::OwnTasks;
use toolgate::gate::record::hook_events::Hooks;
use toolgate::gate::{Gate, GateWatches};
use toolgate::mcp::json::Text;
use toolgate::mcp::message::Message;
use toolgate::mcp::revision::Era;
use toolgate::mcp::round::{ROUND_KEY_BYTES, RoundSeal};
use toolgate::mcp::tools::Definition;
use toolgate::model::approvers::ApproversInForce;
use toolgate::model::call::{CallMeta, ToolCall};
use toolgate::model::caller::Caller;
use toolgate::model::clock::Clock;
use toolgate::model::digest::sha256;
use toolgate::model::ids::{ActionId, ServerName, ToolName};
use toolgate::policy::live::LivePolicy;
use toolgate::schema::validate::Schema;
use toolgate::side::{Sides, sums::LedgerSums};
use toolgate::store::journal::{Journal, JournalOptions};
use toolgate::store::memory::MemoryStore;
use toolgate::telemetry::metrics::Metrics;
use toolgate::upstream::http::connections;
use toolgate::upstream::leftovers::Leftovers;
use toolgate::upstream::links::Links;
use toolgate::upstream::server_settings::{
    ChildSharing, EraChoice, ServerTransport, Surroundings, UpstreamServerSettings,
};
use toolgate::upstream::servers::Servers;

pub(crate) const TOKEN: &str = "a-token-for-the-benchmark-only";

const CONFIGURATION: &str = "\
servers: { billing: { url: 'http://127.0.0.1:9/mcp' } }
callers: [ { agent: support-bot, token: a-token-for-the-benchmark-only, tenant: t_001, roles: [billing_admin] } ]
policies: [policy.yaml]
";

pub(crate) const POLICY: &str = "\
contracts:
  billing__create_invoice:
    purpose: Create a draft invoice for the caller's tenant.
    actions: [read]
    permission: { roles: [billing_admin], tenant: /tenant_id }
    arguments:
      properties:
        currency:     { enum: [CNY, USD] }
        amount_cents: { minimum: 1, maximum: 5000000 }
        customer_id:  { maxLength: 64 }
    rules:
      - { code: amount_out_of_range, when: \"arguments.amount_cents > 1000000 && !('finance' in caller.roles)\" }
    secrets: []
layers:
  global: { deny: ['*__drop_*'] }
  agent: { support-bot: { allow: ['billing__*'] } }
";

/// A gate with one tool, whose server is down.
pub(crate) struct Stand {
    pub(crate) gate: Arc<Gate>,
    pub(crate) tool: Arc<Tool>,
    pub(crate) caller: Arc<Caller>,
    links: Arc<Links>,
    pub(crate) runtime: Runtime,
    _directory: TempDir,
}

impl Stand {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("toolgate.yaml"), CONFIGURATION).unwrap();
        std::fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
        Self::of(directory, 0)
    }

    /// On the configuration in `directory`, with so many tools more.
    pub(crate) fn of(directory: TempDir, more: usize) -> Self {
        let file = directory.path().join("toolgate.yaml");
        let loaded = config::load(&file);
        let again = move || config::load(&file).reading;
        let policy = LivePolicy::start(loaded.reading, again).expect("the policy is valid");
        let caller = policy
            .current()
            .identity
            .identify(Some(TOKEN), |_| None)
            .unwrap()
            .caller;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let servers = servers();
        let tool = tool(&servers, "create_invoice");
        let more = (0..more).map(|number| self::tool(&servers, &format!("tool_{number:03}")));
        let tools = std::iter::once(tool.clone()).chain(more).collect();
        let options = JournalOptions {
            queue: 1 << 16,
            ..JournalOptions::default()
        };
        let journal = Arc::new(Journal::open(directory.path(), options).unwrap());
        let metrics = Arc::new(Metrics::new());
        let sums = Arc::new(LedgerSums::new(journal.clone(), metrics.clone()));
        let gate = Arc::new(Gate {
            content_keys: Arc::default(),
            observed_contents: toolgate::model::content::ContentForm::default(),
            sides: Arc::new(Sides::new(policy.clone(), sums.clone(), metrics.clone())),
            sums,
            policy,
            tools: Arc::new(Toolbox::of(tools)),
            journal,
            effects: Effects::new(Arc::new(MemoryStore::new(Clock))),
            metrics,
            clock: Clock,
            listings: Listings::default(),
            vault: toolgate::gate::vault::Vault::default(),
            rows: toolgate::gate::effects::refusal_streaks::Rows::default(),
            hooks: Hooks::new(connections().unwrap()),
            approvers: ApproversInForce::default(),
            seal: Arc::new(RoundSeal::new(&[7; ROUND_KEY_BYTES]).unwrap()),
            slots: Slots::default(),
            own_tasks: OwnTasks::default(),
            watches: GateWatches::default(),
            public_url: None,
        });
        let links = Arc::new(Links::shared(servers));
        Self {
            gate,
            tool,
            caller,
            links,
            runtime,
            _directory: directory,
        }
    }

    pub(crate) fn call(&self, message: Message, outlet: toolgate::outlet::Outlet) -> Call {
        let judged = ToolCall {
            action: ActionId::generate(),
            tool: self.tool.name.clone(),
            server: Some(self.tool.server.settings.name.clone()),
            own_name: self.tool.definition.name.clone(),
            arguments: toolgate::mcp::headers::arguments_of(message.body.as_ref()),
            request_id: "1".to_owned(),
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            session: None,
            revision: "2026-07-28",
            key_argument: None,
            key_taken: false,
            rewritten: None,
            arrived: Clock.steady(),
            said: CallMeta::default(),
        };
        let (caller, links) = (self.caller.clone(), Arc::new(self.links.alone()));
        let waiting = message
            .id
            .as_ref()
            .map(|id| links.wait(id).unwrap())
            .unwrap();
        let policy = self.gate.policy.current();
        Call {
            judged,
            reading: ArgumentOrigin::default(),
            message,
            origin: Arc::new(CallOrigin {
                caller,
                policy,
                era: Era::Modern,
                links,
                outlet,
                waiting,
                arrived: Duration::ZERO,
                is_relayed: false,
                task: TaskTerms::Unknown,
                own_undo: parking_lot::Mutex::default(),
                asks_page: AtomicBool::default(),
                claimed: OnceLock::new(),
                page: OnceLock::new(),
                waited: AtomicU64::default(),
                undoes: None,
            }),
        }
    }

    /// The journal's thread writes at its own pace; waiting for it is no CPU time.
    pub(crate) fn rest(&self) {
        while self.gate.journal.health().queued > 1 << 15 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn servers() -> Arc<Servers> {
    let transport = ServerTransport::Http {
        uri: "http://127.0.0.1:9/mcp".parse().unwrap(),
        headers: http::HeaderMap::new(),
        credentials: Arc::default(),
    };
    let time = Duration::from_secs(1);
    let (timeout, start_timeout, refresh, ping_after, not_executed) =
        (time, time, time, time, Arc::default());
    let name = ServerName::new("billing");
    let settings = UpstreamServerSettings {
        name,
        transport,
        timeout,
        task_after: timeout,
        start_timeout,
        refresh,
        ping_after,
        era: EraChoice::Auto,
        not_executed,
        fence_header: None,
        sharing: ChildSharing::Caller,
        max_children: 1,
        idle_timeout: timeout,
        limits: toolgate::mcp::json::AGENT_JSON_LIMITS,
    };
    let leftovers = Arc::new(Leftovers::open(None).unwrap());
    let around = Surroundings {
        connections: connections().unwrap(),
        guard: "toolgate".into(),
        leftovers,
    };
    Arc::new(Servers::new(vec![settings], &around))
}

pub(crate) fn definition(name: &str) -> Value {
    json!({
        "name": name,
        "description": "Creates a draft invoice for one customer of the tenant, in the currency that is asked for.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "tenant_id": { "type": "string" },
                "customer_id": { "type": "string", "description": "As the customer list shows it." },
                "amount_cents": { "type": "integer", "minimum": 0 },
                "currency": { "type": "string", "enum": ["CNY", "USD", "EUR"] },
            },
            "required": ["tenant_id", "customer_id", "amount_cents"],
        },
    })
}

fn tool(servers: &Servers, name: &str) -> Arc<Tool> {
    let definition = Definition::read(&Text::of(&definition(name))).unwrap();
    let schema = Schema::compile(&definition.input_schema.value()).unwrap();
    let server = servers.all()[0].clone();
    let (name, hash) = (
        ToolName::of(&server.settings.name, &definition.name),
        sha256(definition.text.as_bytes()),
    );
    let (output, variants) = (std::sync::OnceLock::new(), Variants::default());
    Arc::new(Tool {
        name,
        definition: Arc::new(definition),
        schema,
        output,
        hash,
        server,
        variants,
        fit: LastFit::default(),
        is_listed: true,
    })
}

pub(crate) fn arguments() -> Value {
    json!({ "tenant_id": "t_001", "customer_id": "c_1042", "amount_cents": 125_000, "currency": "CNY" })
}

pub(crate) fn call() -> Bytes {
    let params = json!({
        "name": "billing__create_invoice",
        "arguments": arguments(),
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    Bytes::from(
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string(),
    )
}
