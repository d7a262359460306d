//! Do the layers name what exists? A pattern with a typo denies nothing, and a layer for an agent with a typo restricts
//! nobody: both would fail open, so both are errors. An `allow` that matches nothing fails closed: a warning.

use super::shape::suggest;
use crate::guards::allowlist::{LayerSettings, Pattern, Settings};
use crate::guards::budget::TaskSettings;
use crate::model::diagnostic::Problems;
use crate::model::ids::{AgentId, ServerName};

/// Judges the names in `layers`.
pub fn judge(layers: &Settings, servers: &[ServerName], agents: &[AgentId], problems: &mut Problems) {
    if let Some(global) = &layers.global {
        problems.under("global", |problems| judge_layer(global, servers, problems));
    }
    problems.under("agent", |problems| {
        for (name, layer) in &layers.agent {
            problems.under(name.clone(), |problems| {
                if !agents.iter().any(|agent| agent.as_str() == name) {
                    let known: Vec<String> = agents.iter().map(ToString::to_string).collect();
                    problems.error(format!("no caller is the agent `{name}`"), suggest(name, &known));
                }
                judge_layer(layer, servers, problems);
            });
        }
    });
}

/// Judges the names in `budgets`: with a typo they would limit nobody.
pub fn judge_budgets(budgets: &TaskSettings, agents: &[AgentId], groups: &[String], problems: &mut Problems) {
    let agents: Vec<String> = agents.iter().map(ToString::to_string).collect();
    let named: [(&str, Vec<&String>, &[String]); 2] =
        [("agent", budgets.agent.keys().collect(), &agents), ("group", budgets.group.keys().collect(), groups)];
    for (kind, names, known) in named {
        problems.under(kind, |problems| {
            for name in names.into_iter().filter(|name| !known.contains(name)) {
                let message = match kind {
                    "agent" => format!("no caller is the agent `{name}`"),
                    _ => format!("no caller has the group `{name}`"),
                };
                problems.under(name.clone(), |problems| problems.error(message, suggest(name, known)));
            }
        });
    }
}

fn judge_layer(layer: &LayerSettings, servers: &[ServerName], problems: &mut Problems) {
    let known: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let hint = format!("tools are named `server__tool`; declared servers: {}", known.join(", "));
    let lost = |text: &String| {
        // What cannot be compiled is reported where it is compiled.
        let pattern = Pattern::compile(text, &mut Problems::default());
        pattern.is_some_and(|pattern| !servers.iter().any(|server| pattern.reaches(server)))
    };
    problems.under("deny", |problems| {
        for (index, text) in layer.deny.iter().enumerate().filter(|(_, text)| lost(text)) {
            let message = format!("`{text}` can match no tool, so it denies nothing");
            problems.under(index.to_string(), |problems| problems.error(message, hint.clone()));
        }
    });
    problems.under("allow", |problems| {
        for (index, text) in layer.allow.iter().flatten().enumerate().filter(|(_, text)| lost(text)) {
            let message = format!("`{text}` can match no tool");
            problems.under(index.to_string(), |problems| problems.warning(message, hint.clone()));
        }
    });
}
