//! Can the calls be made that contracts name to take others back? Known once the contracts of all
//! files are; schemas are known of tools that are pinned.

use super::compiler::Compiler;
use crate::guards::allowlist::Contracts;
use crate::guards::pins;
use crate::model::diagnostic::Diagnostic;
use crate::model::ids::{self, ServerName, ToolName};
use crate::policy::locate::YamlDocument;
use crate::policy::rollback_lint::{self, RollbackContext, RollbackTool};

/// Judges every contract that names a rollback.
pub(super) fn judge(compiler: &mut Compiler, contracts: &Contracts, pins: &pins::Rule) {
    let servers = &compiler.servers;
    let context = RollbackContext {
        known: &|tool: &ToolName| known(tool, servers, pins),
        contract: &|tool: &ToolName| contracts.get(tool).cloned(),
    };
    let mut found: Vec<Diagnostic> = Vec::new();
    for (name, held) in &compiler.contracts {
        let problems = rollback_lint::problems(name.as_str(), name, &held.rules, &context);
        let is_its = |document: &&YamlDocument| document.file() == held.place.file;
        let mut written = compiler.written.iter().map(|(document, _)| document);
        let Some(document) = written.find(is_its) else {
            continue;
        };
        let news = problems
            .into_iter()
            .filter(|problem| document.is_news(problem));
        found.extend(news.map(|problem| document.locate(problem)));
    }
    compiler.diagnostics.append(&mut found);
}

/// What the pins say of `tool`.
fn known(tool: &ToolName, servers: &[ServerName], pins: &pins::Rule) -> RollbackTool {
    // A name that is wrong in itself was told of where its contract was compiled.
    let (Some(server), Some((_, own))) = (
        ids::server_of(tool.as_str(), servers),
        ids::parts(tool.as_str()),
    ) else {
        return RollbackTool::Unknown;
    };
    if pins.lacks(server, own) && pins.pins().any(|(of, ..)| of == server) {
        return RollbackTool::Unapproved(
            format!("`{tool}` is not pinned, so it is withheld"),
            "compare the spelling with the pin file, or approve the tool with `toolgate pins approve`",
        );
    }
    let definition = pins.pin(server, own).map(|pin| pin.definition.value());
    definition.map_or(RollbackTool::Unknown, |definition| {
        RollbackTool::of(&definition["inputSchema"], definition.get("outputSchema"))
    })
}
