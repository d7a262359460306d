//! Files → policy, all problems at once.

use super::bound::BoundConfiguration;
use super::known_tools::hooked::HookedTool;
use super::sources::SourceFile;
use super::{Methods, Policy, layers, pins};
use crate::guards::allowlist::{self, Contracts};
use crate::guards::secrets::Bindings;
use crate::guards::{Mode, hooks, identity, repetition};
use crate::model::approvers::Approvers;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::{AgentId, ServerName};
use compiler::Compiler;
use content::PolicyContent;
use secret_bindings::BoundArgument;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

mod approvers;
mod compiler;
mod confusables;
pub(super) mod content;
mod contract;
mod fence_headers;
mod files;
mod names;
mod reading;
mod references;
mod rollbacks;
pub(crate) mod secret_bindings;
mod ungoverned;

pub(crate) use files::{documents, is_too_large, policy_files};

/// What the configuration says that a policy stands on.
#[derive(Debug)]
pub(crate) struct CompileInput {
    /// Whether calls are refused.
    pub mode: Mode,
    /// The servers that contracts may name.
    pub servers: Vec<ServerName>,
    /// Those of them that the configuration disables: none of their tools is seen.
    pub disabled: Vec<ServerName>,
    /// How long one call of each server may take; of those whose settings can be used.
    pub timeouts: BTreeMap<ServerName, Duration>,
    /// The agents that layers may name.
    pub agents: Vec<AgentId>,
    /// Who calls.
    pub identity: identity::Rule,
    /// The roles that callers have; none: they are not judged.
    pub roles: Vec<String>,
    /// The layers that callers are given by name, and where.
    pub assigned: Vec<layers::Assigned>,
    /// The arguments that secrets may go to, and where that is written.
    pub bound: Vec<BoundArgument>,
    /// The tools of which hooks hear, and where that is written.
    pub hooked: Vec<HookedTool>,
    /// The headers in which servers are told who writes, of those that are.
    pub fences: BTreeMap<ServerName, String>,
    /// Who may decide about calls that are held; none: that is not known.
    pub approvers: Option<Approvers>,
    /// Who hears of calls.
    pub hooks: hooks::Rule,
    /// Which methods pass.
    pub methods: Methods,
    /// The header in which agents name their session.
    pub session_header: Option<String>,
    /// Bytes of `_meta` that one message of an agent may have.
    pub meta_max_bytes: usize,
    /// Where the approved definitions of tools are; none: all pass.
    pub pins: Option<pins::PinSource>,
    /// Where secrets come from and where they may go.
    pub secrets: Bindings,
    /// Policy files, and directories of them.
    pub policies: Vec<PathBuf>,
    /// Are they all of a gate's policy? A test pack may try a part of one.
    pub is_whole: bool,
    /// What the configuration says, before variables are replaced: it counts for the version.
    pub written: Value,
}

/// What became of the files.
#[derive(Debug)]
pub(crate) struct CompileResult {
    /// The policy; none if there is an error.
    pub policy: Option<Policy>,
    /// What can be judged of it, if there is one: never to be run.
    pub draft: Option<Policy>,
    /// Everything there is to say, sorted by place.
    pub diagnostics: Vec<Diagnostic>,
    /// SHA-256 over the bytes of all files that could be read, and over whether others may write
    /// them.
    pub fingerprint: [u8; 32],
    /// Those that could be read, as they were read.
    pub files: Vec<SourceFile>,
}

/// Compiles `input` and the policy files it names. `diagnostics` were found before.
pub(crate) fn compile(input: CompileInput, mut diagnostics: Vec<Diagnostic>) -> CompileResult {
    // A setting that is added to the input and not here does not build.
    let CompileInput {
        mode,
        servers,
        disabled,
        timeouts,
        agents,
        identity,
        roles,
        assigned,
        bound,
        hooked,
        fences,
        approvers,
        hooks,
        methods,
        session_header,
        meta_max_bytes,
        pins,
        secrets,
        policies,
        is_whole,
        written,
    } = input;
    let groups = identity.groups().map(ToOwned::to_owned).collect();
    let mut compiler = Compiler::new(servers, timeouts, agents, groups, secrets);
    (compiler.roles, compiler.fences) = (roles, fences);
    compiler.any_agent = identity.names_any();
    compiler.models = models(&identity, is_whole);
    let mut content = PolicyContent::beginning(&written);
    let pins = pins
        .map(|source| compiler.pins(&source, &mut content))
        .unwrap_or_default();
    compiler.read(&policies, &mut content);
    ungoverned::judge(&mut compiler, mode, policies.first().filter(|_| is_whole));
    let contracts = compiler.contracts();
    judge_together(&mut compiler, &contracts, bound, approvers.as_ref());
    judge_known(&mut compiler, &contracts, &pins, &hooked);
    let layers = compiler.layers(mode, &identity, &disabled, assigned);
    let usable = conclude(&mut diagnostics, &mut compiler.diagnostics);
    let version = content.version(mode);
    let judged = Policy {
        written: version.clone(),
        version,
        configured: BoundConfiguration::of(&written),
        mode,
        identity,
        allowlist: allowlist::Rule::new(mode, layers, contracts).without_servers(disabled),
        pins,
        repetition: repetition::Rule::in_mode(compiler.repetition, mode),
        tasks: compiler.tasks.in_mode(mode),
        breakers: compiler.breakers,
        hooks,
        methods,
        session_header,
        meta_max_bytes,
        secrets: compiler.secrets,
    };
    result_of(judged, usable, diagnostics, content)
}

fn result_of(
    judged: Policy,
    usable: bool,
    diagnostics: Vec<Diagnostic>,
    content: PolicyContent,
) -> CompileResult {
    let (fingerprint, files) = content.end();
    let (policy, draft) = if usable {
        (Some(judged), None)
    } else {
        (None, Some(judged))
    };
    CompileResult {
        policy,
        draft,
        diagnostics,
        fingerprint,
        files,
    }
}

/// The models and providers by which contracts are judged. Those of a pack's callers are only what
/// its samples try.
fn models(identity: &identity::Rule, is_whole: bool) -> Vec<String> {
    if is_whole {
        identity.models()
    } else {
        Vec::new()
    }
}

/// Adds what was `found`. Whether there is no error among all of it.
fn conclude(diagnostics: &mut Vec<Diagnostic>, found: &mut Vec<Diagnostic>) -> bool {
    diagnostics.append(found);
    sort(diagnostics);
    diagnostics
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error)
}

/// What pins show.
fn judge_known(
    compiler: &mut Compiler,
    contracts: &Contracts,
    pins: &crate::guards::pins::Rule,
    hooked: &[HookedTool],
) {
    compiler.judge_pinned(contracts, pins, hooked);
    rollbacks::judge(compiler, contracts, pins);
}

/// What only the contracts of all files together show.
fn judge_together(
    compiler: &mut Compiler,
    contracts: &Contracts,
    bound: Vec<BoundArgument>,
    approvers: Option<&Approvers>,
) {
    names::judge(compiler);
    let references = std::mem::take(&mut compiler.pairs);
    let found = references::judge(
        references,
        &compiler.servers,
        contracts,
        compiler.is_complete,
    );
    compiler.diagnostics.extend(found);
    confusables::judge(compiler);
    secret_bindings::judge(compiler, bound);
    if let Some(approvers) = approvers {
        approvers::judge(compiler, approvers);
    }
}

/// Sorts by place and says nothing twice.
pub(crate) fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by(|one, other| {
        (&one.file, one.line, one.column, one.severity, &one.message).cmp(&(
            &other.file,
            other.line,
            other.column,
            other.severity,
            &other.message,
        ))
    });
    diagnostics.dedup();
}

#[cfg(test)]
mod tests;
