//! One process of ours: the real gate over a store that may outlive it, and a link to the bank.
//! What the files say is read once, and stands for all processes.

use super::{Kind, SimulatedWorld};
use crate::config;
use crate::gate::Gate;
use crate::gate::GateWatches;
use crate::gate::catalogue::last_fit::LastFit;
use crate::gate::catalogue::list::Listings;
use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::toolbox::Toolbox;
use crate::gate::catalogue::variants::Variants;
use crate::gate::effects::Effects;
use crate::gate::effects::refusal_streaks::Rows;
use crate::gate::effects::slots::Slots;
use crate::gate::own_tasks::OwnTasks;
use crate::gate::record::hook_events::Hooks;
use crate::gate::vault::Vault;
use crate::mcp::json::Text;
use crate::mcp::round::{ROUND_KEY_BYTES, RoundSeal};
use crate::mcp::tools::Definition;
use crate::model::approvers::{Approver, ApproverName, Approvers};
use crate::model::caller::Caller;
use crate::model::content::ContentForm;
use crate::model::digest::sha256;
use crate::model::ids::{ServerName, ToolName};
use crate::policy::live::LivePolicy;
use crate::schema::validate::Schema;
use crate::side::{Sides, sums::LedgerSums};
use crate::store::claims::Store;
use crate::store::journal::{Journal, JournalOptions};
use crate::store::memory::MemoryStore;
use crate::store::tests::simulated_store::SimulatedStore;
use crate::store::tests::waited::Waited;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::tasks;
use crate::upstream::http::{Connections, connections};
use crate::upstream::link::Link;
use crate::upstream::server_settings::{
    ChildSharing, EraChoice, ServerTransport, Surroundings, UpstreamServerSettings,
};
use crate::upstream::servers::Servers;
use crate::upstream::stdio::Conversation;
use serde_json::json;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// How long a call may take; an `order` as long as the server's calls may.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_mins(2);
pub(super) const TASK_AFTER: Duration = Duration::from_secs(20);
/// Calls that a task may have sent.
pub(super) const LIMIT: u64 = 3;
/// Bytes on the way between us and the bank.
pub(super) const PIPE: usize = 64 << 10;

const CONFIGURATION: &str = "\
servers: { bank: { url: 'http://127.0.0.1:9/mcp' } }
callers: [ { agent: teller, token: a-token-for-the-simulation, tenant: t_001 } ]
policies: [policy.yaml]
";

/// `pay`: the agent names the call. `transfer`: the call is known by its arguments, and the bank
/// takes a key, and its -32603 says nothing. `order`: the bank can be asked what became of it.
pub(super) const POLICY: &str = "\
contracts:
  bank__pay:
    { purpose: pay, actions: [write], permission: anyone, side_effect: { writes: money, rollback: { tool: bank__order } }, secrets: [], budget: { timeout_ms: 3000 },
      idempotency: { require: true, expose: false, ttl: 720h, not_executed: [-32050], attempts: 2 } }
  bank__transfer:
    { purpose: transfer, actions: [write], permission: anyone, side_effect: { writes: money, rollback: { tool: bank__order } }, secrets: [], budget: { timeout_ms: 3000 },
      idempotency: { derive: [/deed], ttl: 720h, upstream: { meta: bank/key }, not_executed: [-32050], attempts: 3 },
      output: { errors: [ { code: -32603, means: unknown } ] } }
  bank__order:
    { purpose: order, actions: [write], permission: anyone, side_effect: { writes: orders, rollback: { tool: bank__pay } }, secrets: [],
      idempotency: { derive: [/deed], ttl: 720h,
        probe: { tool: bank__look, arguments: { deed: arguments#/deed }, found: /receipt, absent_after: 15m } } }
  bank__look: { purpose: look, actions: [read], secrets: [] }
budgets: { global: { max_tool_calls: 3 } }
layers: { global: { elicitation: { allow: [bank] } } }
";

/// The tools, in the order of what the deeds use.
pub(super) const TOOLS: [&str; 4] = ["pay", "transfer", "order", "look"];

/// What is done over a network that loses answers: `give` by an agent's key, `book` by what its contract
/// declares, `note` where nothing is said.
pub(super) const LOSSY_POLICY: &str = "\
contracts:
  bank__give: { purpose: give, actions: [write], permission: anyone, additive: true, secrets: [], idempotency: { require: true, expose: false } }
  bank__book: { purpose: book, actions: [write], permission: anyone, additive: true, secrets: [], idempotency: { derive: [/amount] } }
  bank__note: { purpose: note, actions: [write], permission: anyone, additive: true, secrets: [] }
budgets: { global: { max_steps: 100000 } }
";
pub(super) const LOSSY_TOOLS: [&str; 3] = ["give", "book", "note"];

/// What people decide on: `give` waits for them, `now` is answered at once, `near` is asked about where
/// another one moved the same amount.
const HELD_POLICY: &str = "\
contracts:
  bank__give:
    { purpose: give, actions: [write], permission: anyone, additive: true, secrets: [], idempotency: { require: true, expose: false, ttl: 24h },
      approval: { approvers: [finance], approve_by: 1h, open_page: true } }
  bank__now:
    { purpose: give, actions: [write], permission: anyone, additive: true, secrets: [], idempotency: { require: true, expose: false, ttl: 24h },
      approval: { approvers: [finance], approve_by: 1h, hold: 0s } }
  bank__near:
    { purpose: give, actions: [write], permission: anyone, additive: true, secrets: [], approval: { ask: never },
      idempotency: { near: { by: [/amount], within: 2m } } }
";
const HELD_TOOLS: [&str; 3] = ["give", "now", "near"];

/// What stands in files, and what no process changes.
pub(super) struct Ground {
    policy: Arc<LivePolicy>,
    tools: Arc<Toolbox>,
    journal: Arc<Journal>,
    metrics: Arc<Metrics>,
    pub(super) servers: Arc<Servers>,
    connections: Connections,
    pub(super) caller: Arc<Caller>,
    approvers: Approvers,
    _directory: TempDir,
}

/// What ends with the process.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) gate: Arc<Gate>,
    pub(super) paper: Option<Arc<SimulatedStore>>,
    pub(super) group: u64,
}

impl Ground {
    pub(super) fn new() -> Self {
        Self::of(POLICY, &TOOLS)
    }

    /// A bank whose tools people decide on.
    pub(super) fn held_for_people() -> Self {
        Self::with_people(HELD_POLICY, &HELD_TOOLS)
    }

    /// The same bank as everywhere, where people decide on each `pay`, and on each `transfer` that
    /// nobody has granted.
    pub(super) fn decided_by_people() -> Self {
        let approval = |purpose: &str, ask: &str| {
            format!(
                "purpose: {purpose}, approval: {{ ask: {ask}, approvers: [finance], approve_by: 40s, execute_by: 1m, hold: 5s }},"
            )
        };
        let policy = POLICY
            .replace(
                "purpose: pay,",
                &approval("pay", "always, approver_may_edit: [/amount]"),
            )
            .replace(
                "purpose: transfer,",
                &approval("transfer", "on-miss, grant_any: [/deed, /amount]"),
            );
        Self::with_people(&policy, &TOOLS)
    }

    /// A bank with these tools, and the people who decide.
    pub(super) fn with_people(policy: &str, tools: &[&str]) -> Self {
        Self {
            approvers: approvers(),
            ..Self::of(policy, tools)
        }
    }

    /// A bank with these tools.
    pub(super) fn of(policy: &str, tools: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("toolgate.yaml");
        std::fs::write(&file, CONFIGURATION).unwrap();
        std::fs::write(directory.path().join("policy.yaml"), policy).unwrap();
        let loaded = config::load(&file).reading;
        let said = format!("{:?}", loaded.diagnostics);
        let policy = LivePolicy::start(loaded, move || config::load(&file).reading).expect(&said);
        let token = Some("a-token-for-the-simulation");
        let current = policy.current();
        let caller = current.identity.identify(token, |_| None).unwrap().caller;
        drop(current);
        let connections = connections().unwrap();
        let servers = servers(&connections);
        let listed = tools.iter().map(|name| tool(&servers, name)).collect();
        // What is written behind, nobody here reads.
        let journal = Journal::open(directory.path(), JournalOptions::default()).unwrap();
        futures_util::FutureExt::now_or_never(journal.close());
        Self {
            policy,
            tools: Arc::new(Toolbox::of(listed)),
            journal: Arc::new(journal),
            metrics: Arc::new(Metrics::new()),
            servers,
            connections,
            caller,
            approvers: Approvers::default(),
            _directory: directory,
        }
    }
}

fn approvers() -> Approvers {
    Approvers(vec![Approver {
        name: ApproverName::One("ann".to_owned()),
        stands_in: Vec::new(),
        roles: vec!["finance".to_owned(), "approver".to_owned()],
    }])
}

fn servers(connections: &Connections) -> Arc<Servers> {
    let transport = ServerTransport::Http {
        uri: "http://127.0.0.1:9/mcp".parse().unwrap(),
        headers: http::HeaderMap::new(),
        credentials: Arc::default(),
    };
    let (timeout, start_timeout, refresh, ping_after) = (LONGEST, TIMEOUT, TIMEOUT, LONGEST);
    let not_executed = Arc::default();
    let settings = UpstreamServerSettings {
        name: bank(),
        transport,
        timeout,
        task_after: TASK_AFTER,
        start_timeout,
        refresh,
        ping_after,
        era: EraChoice::Auto,
        sharing: ChildSharing::default(),
        max_children: 1,
        idle_timeout: LONGEST,
        not_executed,
        fence_header: None,
        limits: crate::mcp::json::AGENT_JSON_LIMITS,
    };
    let around = Surroundings {
        connections: connections.clone(),
        guard: "toolgate".into(),
        leftovers: Arc::default(),
    };
    Arc::new(Servers::new(vec![settings], &around))
}

fn tool(servers: &Servers, name: &str) -> Arc<Tool> {
    let properties = json!({ "deed": { "type": "integer" }, "amount": { "type": "integer" } });
    let definition =
        json!({ "name": name, "inputSchema": { "type": "object", "properties": properties } });
    let definition = Definition::read(&Text::of(&definition)).unwrap();
    let schema = Schema::compile(&definition.input_schema.value()).unwrap();
    let hash = sha256(definition.text.as_bytes());
    let name = ToolName::of(&bank(), name);
    Arc::new(Tool {
        name,
        definition: Arc::new(definition),
        schema,
        output: std::sync::OnceLock::new(),
        hash,
        server: servers.all()[0].clone(),
        variants: Variants::default(),
        fit: LastFit::default(),
        is_listed: true,
    })
}

/// The name of the tool server.
pub(super) fn bank() -> ServerName {
    ServerName::new("bank")
}

impl SimulatedWorld {
    /// A process begins.
    pub(super) fn start(self: &Rc<Self>) {
        let clock = self.hands.clock();
        let paper = match &self.kind {
            Kind::Paper(disk) => Some(Arc::new(SimulatedStore::open(disk.clone(), clock))),
            Kind::Memory | Kind::Embedded(_) => None,
        };
        let store: Arc<dyn Store> = match (&self.kind, &paper) {
            (Kind::Embedded(stand), _) => Arc::new(Waited(stand.borrow().open())),
            (_, Some(paper)) => paper.clone(),
            (_, None) => Arc::new(MemoryStore::new(clock)),
        };
        let Ground {
            policy,
            tools,
            journal,
            metrics,
            connections,
            ..
        } = &*self.ground;
        let sums = Arc::new(LedgerSums::new(journal.clone(), metrics.clone()));
        let gate = Gate {
            sums: sums.clone(),
            policy: policy.clone(),
            tools: tools.clone(),
            journal: journal.clone(),
            effects: Effects::new(store),
            sides: Arc::new(Sides::new(policy.clone(), sums, metrics.clone())),
            metrics: metrics.clone(),
            clock,
            listings: Listings::default(),
            vault: Vault::default(),
            rows: Rows::default(),
            hooks: Hooks::new(connections.clone()),
            approvers: self.ground.approvers.clone().into(),
            public_url: Some("https://gate.example".to_owned()),
            seal: Arc::new(RoundSeal::new(&[7; ROUND_KEY_BYTES]).unwrap()),
            content_keys: Arc::default(),
            observed_contents: ContentForm::default(),
            slots: Slots::default(),
            own_tasks: OwnTasks::default(),
            watches: GateWatches::default(),
        };
        self.group.set(self.group.get() + 1);
        let group = self.group.get();
        self.process.replace(Some(Process {
            gate: Arc::new(gate),
            paper,
            group,
        }));
        let world = self.clone();
        self.schedule
            .spawn(group, async move { world.keep_connected().await });
    }

    /// Connects to the bank, again whenever the link is lost.
    async fn keep_connected(self: Rc<Self>) {
        if self.asks.get() {
            return self.keep_asking_lines().await;
        }
        let server = &self.ground.servers.all()[0];
        loop {
            let (ours, theirs) = tokio::io::duplex(PIPE);
            self.schedule
                .spawn(super::SERVER, self.clone().serve(theirs));
            let (input, output) = tokio::io::split(ours);
            let (conversation, _) =
                Conversation::start(&bank(), input, output, std::future::pending());
            let link = Arc::new(Link::over(Arc::new(conversation)));
            server.stands(Some(link.clone()), None);
            link.ended().await;
            server.stands(None, None);
            self.some(500).await;
        }
    }

    /// Ends the process where it stands; its files stay.
    pub(super) fn stop(&self) {
        let process = self.process.take();
        if let Some(Process { group, .. }) = &process {
            self.schedule.kill(*group);
        }
        self.ground.servers.all()[0].stands(None, None);
        drop(process);
    }

    /// Runs `work` as the process does.
    pub(super) fn run_in(&self, group: u64, work: impl Future<Output = ()> + Send + 'static) {
        if self
            .process
            .borrow()
            .as_ref()
            .is_some_and(|process| process.group == group)
        {
            tasks::spawn("call", work);
        }
    }
}
