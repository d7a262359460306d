//! CPU time of one call, step by step: the strict reader, each guard, the ledger, and the whole
//! pipeline up to a tool server that is down. CPU time of this thread is counted, so that a busy
//! machine blurs the numbers less; the journal's own thread is not in them. `bench/load` measures
//! whole processes.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on says so"
)]

use bytes::Bytes;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use toolgate::config;
use toolgate::gate::Gate;
use toolgate::gate::call::{ArgumentOrigin, Call, CallOrigin};
use toolgate::gate::catalogue::list::Listings;
use toolgate::gate::catalogue::tool::Tool;
use toolgate::gate::catalogue::toolbox::Toolbox;
use toolgate::gate::catalogue::variants::Variants;
use toolgate::gate::effects::Effects;
use toolgate::gate::effects::slots::Slots;
use toolgate::gate::record::findings::Findings;
use toolgate::gate::record::hashes::{hash, params_hash};
use toolgate::gate::record::hook_events::Hooks;
use toolgate::gate::record::timing::StageTimer;
use toolgate::gate::record::{RecordedCall, entry::intent};
use toolgate::mcp::json::{AGENT_JSON_LIMITS, JsonLimits, SERVER_JSON_LIMITS, Text};
use toolgate::mcp::message::Message;
use toolgate::mcp::revision::Era;
use toolgate::mcp::round::{ROUND_KEY_BYTES, RoundSeal};
use toolgate::mcp::tools::Definition;
use toolgate::model::approvers::Approvers;
use toolgate::model::call::{CallMeta, ToolCall};
use toolgate::model::caller::Caller;
use toolgate::model::clock::Clock;
use toolgate::model::ids::{ActionId, ServerName, ToolName};
use toolgate::model::scope::Scope;
use toolgate::policy::live::LivePolicy;
use toolgate::schema::validate::Schema;
use toolgate::side::{Sides, sums::LedgerSums};
use toolgate::store::journal::{Journal, JournalOptions};
use toolgate::store::memory::MemoryStore;
use toolgate::telemetry::metrics::Metrics;
use toolgate::upstream::http::connections;
use toolgate::upstream::leftovers::Leftovers;
use toolgate::upstream::links::Links;
use toolgate::upstream::server_settings::{ServerTransport, Surroundings, UpstreamServerSettings};
use toolgate::upstream::servers::Servers;

const TOKEN: &str = "a-token-for-the-benchmark-only";

const CONFIGURATION: &str = "\
servers: { billing: { url: 'http://127.0.0.1:9/mcp' } }
callers: [ { agent: support-bot, token: a-token-for-the-benchmark-only, tenant: t_001, roles: [billing_admin] } ]
policies: [policy.yaml]
";

const POLICY: &str = "\
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

/// The callers and servers of [`Large`].
const MANY: &str = "\
servers: { billing: { url: 'http://127.0.0.1:9/mcp' }, search: { url: 'http://127.0.0.1:9/mcp' } }
callers:
  - { agent: main, token: a-token-of-the-main-agent, tenant: t_001, roles: [billing_admin], owner: true }
  - { agent: support-bot, token: a-token-for-the-benchmark-only, tenant: t_001, roles: [billing_admin], profile: coding,
      group: support, environment: production, model: openai/gpt-5, parent: main }
policies: [policy.yaml]
";

/// Ten layers that hold for the agent, in the shape of those that people write.
const TEN_LAYERS: &str = "
groups: { invoices: ['billing__*', 'search__*'] }
layers:
  profile: { coding: { allow: ['group:invoices'], by_model_provider: { openai: { deny: ['*__wipe_*'] } } } }
  group: { support: { deny: ['*__grant_*', '*__delete_all*'] } }
  global: { deny: ['*__drop_*'], by_model_provider: { openai/gpt-5: { deny: ['*__exec'] } } }
  agent: { support-bot: { allow: ['billing__*'], by_model_provider: { openai: { deny: ['search__admin*'] } } },
           main: { allow: ['*'] } }
  environment: { production: { deny: ['*__debug_*', '*__test_*'] } }
  delegation: { deny: ['*__spawn*'] }
";

/// CPU time of the calling thread.
struct ThreadTime;

fn spent() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(now.tv_sec).unwrap_or(0),
        u32::try_from(now.tv_nsec).unwrap_or(0),
    )
}

impl Measurement for ThreadTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        spent()
    }

    fn end(&self, start: Duration) -> Duration {
        spent().saturating_sub(start)
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// A gate with one tool, whose server is down.
struct Stand {
    gate: Arc<Gate>,
    tool: Arc<Tool>,
    caller: Arc<Caller>,
    links: Arc<Links>,
    runtime: Runtime,
    _directory: TempDir,
}

impl Stand {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("toolgate.yaml"), CONFIGURATION).unwrap();
        std::fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
        Self::of(directory, 0)
    }

    /// On the configuration in `directory`, with so many tools more.
    fn of(directory: TempDir, more: usize) -> Self {
        let file = directory.path().join("toolgate.yaml");
        let loaded = config::load(&file);
        let again = move || config::load(&file).reading;
        let policy = LivePolicy::start(loaded.reading, again).expect("the policy is valid");
        let caller = policy
            .current()
            .identity
            .identify(Some(TOKEN), |_| None)
            .unwrap();
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
            approvers: Approvers::default(),
            seal: Arc::new(RoundSeal::new(&[7; ROUND_KEY_BYTES]).unwrap()),
            slots: Slots::default(),
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

    fn call(&self, message: Message, outlet: mpsc::Sender<toolgate::outlet::Outgoing>) -> Call {
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
            }),
        }
    }

    /// The journal's thread writes at its own pace; waiting for it is no CPU time.
    fn rest(&self) {
        while self.gate.journal.health().queued > 1 << 15 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn servers() -> Arc<Servers> {
    let transport = ServerTransport::Http {
        uri: "http://127.0.0.1:9/mcp".parse().unwrap(),
        headers: http::HeaderMap::new(),
    };
    let time = Duration::from_secs(1);
    let (timeout, start_timeout, refresh, ping_after, not_executed) =
        (time, time, time, time, Arc::default());
    let name = ServerName::new("billing");
    let settings = UpstreamServerSettings {
        name,
        transport,
        timeout,
        start_timeout,
        refresh,
        ping_after,
        not_executed,
    };
    let leftovers = Arc::new(Leftovers::open(None).unwrap());
    let around = Surroundings {
        connections: connections().unwrap(),
        guard: "toolgate".into(),
        leftovers,
    };
    Arc::new(Servers::new(vec![settings], &around))
}

fn definition(name: &str) -> Value {
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
        hash(definition.text.as_bytes()),
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
    })
}

fn arguments() -> Value {
    json!({ "tenant_id": "t_001", "customer_id": "c_1042", "amount_cents": 125_000, "currency": "CNY" })
}

fn call() -> Bytes {
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

fn list() -> Bytes {
    let tools: Vec<Value> = (0..100)
        .map(|number| definition(&format!("tool_{number:03}")))
        .collect();
    Bytes::from(json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools } }).to_string())
}

fn result(bytes: usize) -> Bytes {
    let text = "All is well. ".repeat(bytes / 13);
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    Bytes::from(json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string())
}

fn reader(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("read");
    let read = |bytes: &Bytes, limits: &JsonLimits| {
        Message::parse(&Text::read(bytes.clone(), limits).unwrap()).unwrap()
    };
    for (name, bytes, limits) in [
        ("call", call(), &AGENT_JSON_LIMITS),
        ("list 47 KB", list(), &SERVER_JSON_LIMITS),
        ("result 1 MiB", result(1 << 20), &SERVER_JSON_LIMITS),
    ] {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| read(black_box(&bytes), limits));
        });
    }
    let message = read(&call(), &AGENT_JSON_LIMITS);
    group.bench_function("encode call", |bencher| {
        bencher.iter(|| black_box(&message).encode());
    });
}

fn guards(criterion: &mut Criterion<ThreadTime>) {
    let stand = Stand::new();
    let policy = stand.gate.policy.current();
    let arguments = arguments();
    let admit = || {
        policy
            .allowlist
            .admit(&stand.caller, &stand.tool.name)
            .expect("the tool is allowed")
    };
    let rules = admit().rules();
    let checked = rules
        .arguments
        .check(&stand.tool.schema, &arguments)
        .unwrap();
    let permit = rules
        .permission
        .allow(&stand.caller, &arguments, &checked)
        .unwrap();
    let mut group = criterion.benchmark_group("guard");
    group.bench_function("identity", |bencher| {
        bencher.iter(|| {
            policy
                .identity
                .identify(black_box(Some(TOKEN)), |_| None)
                .is_ok()
        });
    });
    group.bench_function("allowlist", |bencher| {
        bencher.iter(|| drop(black_box(admit())));
    });
    group.bench_function("arguments", |bencher| {
        bencher.iter(|| {
            rules
                .arguments
                .check(&stand.tool.schema, black_box(&arguments))
                .is_ok()
        });
    });
    group.bench_function("permission", |bencher| {
        bencher.iter(|| {
            rules
                .permission
                .allow(&stand.caller, black_box(&arguments), &checked)
                .is_ok()
        });
    });
    group.bench_function("rules", |bencher| {
        bencher.iter(|| {
            rules
                .rules
                .apply(&stand.caller, black_box(&arguments), &permit)
                .is_ok()
        });
    });
}

/// A policy of 1,000 contracts and ten layers, on disk.
struct Large(TempDir);

impl Large {
    fn new(rules: bool) -> Self {
        let mut policy = "contracts:\n".to_owned();
        for number in 0..1000 {
            policy.push_str(&contract(&format!("billing__tool_{number:03}"), rules));
        }
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("toolgate.yaml"), MANY).unwrap();
        std::fs::write(directory.path().join("policy.yaml"), policy + TEN_LAYERS).unwrap();
        Self(directory)
    }

    fn load(&self) -> toolgate::policy::Policy {
        let reading = config::load(&self.0.path().join("toolgate.yaml")).reading;
        reading
            .policy
            .unwrap_or_else(|| panic!("{:?}", reading.diagnostics))
    }
}

fn contract(name: &str, rules: bool) -> String {
    let (_, body) = POLICY.split_once("create_invoice:\n").unwrap();
    let (body, _) = body.split_once("layers:").unwrap();
    let keep = |line: &&str| rules || !(line.contains("rules:") || line.contains("code:"));
    let body: Vec<&str> = body.lines().filter(keep).collect();
    format!("  {name}:\n{}\n", body.join("\n"))
}

/// What policies of the size that a platform has cost: to load, to decide by (steps 2 to 5 of a
/// call), and to list.
fn policies(criterion: &mut Criterion<ThreadTime>) {
    let arguments = arguments();
    let mut group = criterion.benchmark_group("policy");
    for (name, rules) in [("without a rule", false), ("with a rule", true)] {
        let large = Large::new(rules);
        let policy = large.load();
        let caller = policy.identity.identify(Some(TOKEN), |_| None).unwrap();
        let tool = ToolName::new("billing__tool_500");
        let schema = Schema::compile(&definition("tool_500")["inputSchema"]).unwrap();
        group.bench_function(format!("steps 2 to 5 {name}"), |bencher| {
            bencher.iter(|| {
                let admitted = policy.allowlist.admit(&caller, black_box(&tool)).unwrap();
                let rules = admitted.rules();
                let checked = rules
                    .arguments
                    .check(&schema, black_box(&arguments))
                    .unwrap();
                let permit = rules
                    .permission
                    .allow(&caller, &arguments, &checked)
                    .unwrap();
                rules.rules.apply(&caller, &arguments, &permit).is_ok()
            });
        });
        group.sample_size(10);
        group.bench_function(
            format!("load 1000 contracts {name}, 10 layers"),
            |bencher| bencher.iter(|| large.load()),
        );
    }
}

/// A listing of 1,000 tools: the first of a class of callers, and every other.
fn listing(criterion: &mut Criterion<ThreadTime>) {
    let stand = Stand::of(Large::new(false).0, 1000);
    let mut group = criterion.benchmark_group("list 1000 tools");
    let list = |gate: &Gate| {
        gate.list_tools(
            &gate.policy.current(),
            (&stand.caller, &Scope::All),
            Era::Modern,
            None,
        )
        .unwrap()
    };
    group.bench_function("again", |bencher| bencher.iter(|| list(&stand.gate)));
    group.sample_size(10);
    group.bench_function("first of a class", |bencher| {
        bencher.iter(|| {
            stand.gate.listings.forget();
            list(&stand.gate)
        });
    });
}

fn ledger(criterion: &mut Criterion<ThreadTime>) {
    let stand = Stand::new();
    let mut group = criterion.benchmark_group("ledger");
    let arguments = arguments();
    group.bench_function("params_hash", |bencher| {
        bencher.iter(|| params_hash(black_box(&arguments)));
    });
    let policy = stand.gate.policy.current();
    let message = Message::parse(&Text::read(call(), &AGENT_JSON_LIMITS).unwrap()).unwrap();
    let call = stand.call(message, mpsc::channel(1).0);
    let timer = StageTimer::new(stand.gate.metrics.clone(), Clock, Clock.steady());
    let found = Findings::default();
    group.bench_function("record", |bencher| {
        bencher.iter(|| {
            stand.rest();
            let entry = intent(&RecordedCall {
                gate: &stand.gate,
                policy: &policy,
                call: &call,
                tool: Some(&stand.tool),
                timer: &timer,
                found: &found,
            });
            let _ = stand.gate.journal.record(entry);
        });
    });
}

/// From the bytes of the call to the bytes of the answer: everything but the two connections. The
/// tool server is down, so the call passes every guard and ends where it would be sent.
fn pipeline(criterion: &mut Criterion<ThreadTime>) {
    let stand = Stand::new();
    let bytes = call();
    criterion.bench_function("pipeline", |bencher| {
        bencher.iter(|| {
            stand.rest();
            let message =
                Message::parse(&Text::read(bytes.clone(), &AGENT_JSON_LIMITS).unwrap()).unwrap();
            let (outlet, mut inlet) = mpsc::channel(8);
            let call = stand.call(message, outlet);
            stand.runtime.block_on(stand.gate.clone().call_tool(call));
            match inlet.try_recv() {
                Ok(toolgate::outlet::Outgoing::Last(answer)) => answer.encode(),
                other => panic!("{other:?}"),
            }
        });
    });
}

fn criterion() -> Criterion<ThreadTime> {
    let times = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    times.without_plots().with_measurement(ThreadTime)
}

criterion_group! { name = steps; config = criterion(); targets = reader, guards, policies, listing, ledger, pipeline }
criterion_main!(steps);
