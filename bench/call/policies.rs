//! What policies of the size that a platform has cost.

use crate::stand::{POLICY, Stand, TOKEN, arguments, definition};
use crate::thread_time::ThreadTime;
use criterion::Criterion;
use std::hint::black_box;
use tempfile::TempDir;
use toolgate::config;
use toolgate::gate::Gate;
use toolgate::gate::catalogue::view::ListAsked;
use toolgate::mcp::revision::Revision;
use toolgate::model::ids::ToolName;
use toolgate::model::scope::Scope;
use toolgate::schema::DeclaredArguments;
use toolgate::schema::validate::Schema;

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
pub(crate) fn policies(criterion: &mut Criterion<ThreadTime>) {
    let arguments = arguments();
    let mut group = criterion.benchmark_group("policy");
    for (name, rules) in [("without a rule", false), ("with a rule", true)] {
        let large = Large::new(rules);
        let policy = large.load();
        let known = policy.identity.identify(Some(TOKEN), |_| None).unwrap();
        let caller = known.caller;
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
                let declared = DeclaredArguments::of(&schema, None);
                rules
                    .rules
                    .apply(&caller, &arguments, &declared, &permit)
                    .is_ok()
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
pub(crate) fn listing(criterion: &mut Criterion<ThreadTime>) {
    let stand = Stand::of(Large::new(false).0, 1000);
    let mut group = criterion.benchmark_group("list 1000 tools");
    let list = |gate: &Gate| {
        gate.list_tools(
            &gate.policy.current(),
            ListAsked {
                caller: &stand.caller,
                scope: &Scope::All,
                links: None,
            },
            Revision::NEWEST_MODERN,
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
