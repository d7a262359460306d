//! What is kept of a call that is about to begin, so that it can be found out what became of it when
//! its own answer is lost (guarantees §4).

use crate::gate::Gate;
use crate::gate::case::Subject;
use crate::gate::catalogue::tool::Tool;
use crate::guards::idempotency::{Keyed, Placement, Probe, Rule, UpstreamKeyRule};
use crate::guards::identity::kept_of;
use crate::guards::secrets;
use crate::model::digest::Digest;
use crate::model::ids::{ActionId, TenantId, ToolName};
use crate::policy::Policy;
use crate::store::state::claim::inquiry::{Inquiry, KeptQuestion, MAX_QUESTION_BYTES};
use crate::upstream::server_settings::ServerTransport;

/// What is kept of this one; nothing where its contract names no way to find out.
pub(in crate::gate) fn of(
    gate: &Gate,
    subject: &Subject<'_>,
    keyed: &Keyed,
) -> Option<Box<Inquiry>> {
    let rule = subject.rules.idempotency.as_ref()?;
    let key = keyed.upstream_key(subject.call.judged.action);
    let upstream = rule.upstream();
    let inquiry = Inquiry {
        sent_key: upstream.map(|upstream| sent_key(&subject.tool, upstream, &key)),
        question: question(gate, subject, rule, &key),
    };
    (inquiry != Inquiry::default()).then(|| Box::new(inquiry))
}

/// SHA-256 over a key for the tool's server, that server, and where the key stands: a server that is
/// reached elsewhere, or reads its key elsewhere, does not know this one.
pub(in crate::gate) fn sent_key(tool: &Tool, upstream: &UpstreamKeyRule, key: &str) -> Digest {
    let settings = &tool.server.settings;
    let reached = match &settings.transport {
        ServerTransport::Http { uri, .. } => vec![uri.to_string()],
        ServerTransport::Child(command) => {
            let program = std::iter::once(&command.program);
            program.chain(&command.args).cloned().collect()
        }
    };
    let (kind, place) = match &upstream.place {
        Placement::Argument(name) => ("argument", name),
        Placement::Meta(name) => ("meta", name),
        Placement::Header(name) => ("header", name),
    };
    let told = [
        settings.name.as_str(),
        &tool.definition.name,
        kind,
        place,
        key,
    ];
    let told = told.into_iter().chain(reached.iter().map(String::as_str));
    let parts: Vec<&[u8]> = told.map(str::as_bytes).collect();
    Digest::of_parts("sent upstream key", &parts)
}

/// What the contract's probe asks of the call, where toolgate is to ask by itself. Nothing of one
/// whose arguments an operator has changed: its outcome is an operator's to find.
fn question(gate: &Gate, subject: &Subject<'_>, rule: &Rule, key: &str) -> Option<KeptQuestion> {
    let call = &subject.call;
    let probe = rule
        .probe()
        .filter(|_| gate.watches.outcome_looks.is_on())?;
    if call.edit().is_some() {
        return None;
    }
    let arguments = probe
        .ask(&call.judged.arguments, key)
        // A look for a reference finds nothing, which would prove nothing.
        .filter(|arguments| !secrets::Rule::is_in(arguments))?;
    let arguments = arguments.to_string();
    if arguments.len() > MAX_QUESTION_BYTES {
        return None;
    }
    let tenant = call.origin.caller.tenant.as_ref();
    let question = KeptQuestion {
        probe: probe.digest(),
        tenant: tenant.map(TenantId::as_str).map(str::to_owned),
        caller: Some(kept_of(&call.origin.caller)),
        arguments,
        key: None,
    };
    let action: ActionId = call.judged.action;
    gate.content_keys.seal_question(action, question)
}

/// The probe of that digest, as the contract of `tool`, or a variant of it, has it now.
pub(in crate::gate) fn probe_of<'p>(
    policy: &'p Policy,
    tool: &ToolName,
    digest: Digest,
) -> Option<&'p Probe> {
    let contract = policy.allowlist.contract_of(tool)?;
    let variants = contract.variants.iter();
    let cases = variants.flat_map(|variants| variants.cases().map(|(_, rules)| rules));
    let rules = std::iter::once(contract).chain(cases);
    let mut probes = rules.filter_map(|rules| rules.idempotency.as_ref()?.probe());
    probes.find(|probe| probe.digest() == digest)
}
