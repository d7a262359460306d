//! Contracts for well-known tool servers, which `toolgate init` writes in the place of bare drafts.
//!
//! The files stand in `policies/templates`, their packs in `policies/templates/tests`. Each is a
//! whole policy file whose server has the template's name; the words in its head comment say by
//! which packages, programs, images and hosts a server is known. `docs/templates.md` lists them.

use crate::model::ids::NAME_SEPARATOR as SEPARATOR;
use std::collections::BTreeSet;

/// Begins the head comment's line of names by which a server is known.
const KNOWN_BY: &str = "# Known by: ";
/// Begins a contract: what stands below `contracts` is indented by that much.
const CONTRACT_INDENT: &str = "  ";
/// Begins a sample of a pack.
const SAMPLE_BEGIN: &str = "  - name: ";

macro_rules! template {
    ($name:literal) => {
        Template {
            name: $name,
            policy: include_str!(concat!("../../policies/templates/", $name, ".yaml")),
            pack: include_str!(concat!("../../policies/templates/tests/", $name, ".yaml")),
        }
    };
}

/// All of them, in the order of their names.
const TEMPLATES: &[Template] = &[
    template!("atlassian"),
    template!("aws-docs"),
    template!("brave-search"),
    template!("context7"),
    template!("everything"),
    template!("fetch"),
    template!("filesystem"),
    template!("git"),
    template!("github"),
    template!("github-reference"),
    template!("google-maps"),
    template!("kubernetes"),
    template!("memory"),
    template!("notion"),
    template!("playwright"),
    template!("postgres"),
    template!("puppeteer"),
    template!("sentry"),
    template!("sequential-thinking"),
    template!("slack"),
    template!("sqlite"),
    template!("stripe"),
    template!("time"),
];

/// What is known of a tool server.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownServer<'a> {
    /// Command and its arguments; empty for a server at an address.
    pub(super) words: &'a [String],
    /// Its address; none where it is started.
    pub(super) url: Option<&'a str>,
    /// The names of the tools that it lists, its own (without `server__`).
    pub(super) tools: &'a [&'a str],
}

/// The contracts of one well-known server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    name: &'static str,
    policy: &'static str,
    pack: &'static str,
}

/// The template for that server: one that names its package, program, image or host, and at least
/// half of the tools that it lists. Names of tools alone say nothing: any server may choose them.
pub(super) fn recognise(server: &KnownServer<'_>) -> Option<Template> {
    let known = |template: &&Template| {
        server
            .tools
            .iter()
            .filter(|tool| template.block(tool).is_some())
            .count()
    };
    TEMPLATES
        .iter()
        .filter(|template| template.is_named_by(server))
        .filter(|template| known(template) > 0 && known(template) * 2 >= server.tools.len())
        .max_by_key(known)
        .copied()
}

impl Template {
    /// What it is called, which is also the name of the server in its files.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// The contract of one tool as text that stands below `contracts`, for a server of that name;
    /// none where the template does not know the tool, and where its contract names another tool
    /// that the server does not list.
    pub(super) fn contract(
        &self,
        server: &str,
        tool: &str,
        known: &KnownServer<'_>,
    ) -> Option<String> {
        let block = self.block(tool)?;
        let listed: BTreeSet<&str> = known.tools.iter().copied().collect();
        let all_listed = named_tools(block, self.name).all(|name| listed.contains(name));
        (all_listed && listed.contains(tool)).then(|| self.renamed(block, server))
    }

    /// The comments at the head of a policy file that has contracts of the template.
    pub(super) fn rest(&self, server: &str, _known: &KnownServer<'_>) -> String {
        let comments = self
            .policy
            .lines()
            .take_while(|line| line.starts_with('#'))
            .filter(|line| {
                !line.starts_with("# yaml-language-server") && !line.starts_with(KNOWN_BY)
            });
        let text = comments.fold(String::new(), |text, line| text + line + "\n");
        self.renamed(&text, server)
    }

    /// The pack for the contracts of a server of that name, as it stands in `tests` beside them;
    /// none where no sample is of a tool that has a contract of the template.
    pub(super) fn pack(&self, server: &str, known: &KnownServer<'_>) -> Option<String> {
        let (head, samples) = self.pack.split_once("\nsamples:\n")?;
        let kept: String = blocks(samples, SAMPLE_BEGIN)
            .filter(|sample| {
                named_tools(sample, self.name)
                    .all(|tool| self.contract(server, tool, known).is_some())
            })
            .collect();
        if kept.is_empty() {
            return None;
        }
        let head = head
            .replace("$schema=../../", "$schema=../")
            .replace(
                &format!("[../{}.yaml]", self.name),
                &format!("[../{server}.yaml]"),
            )
            .replace(
                &format!("\nservers:\n  {}:\n", self.name),
                &format!("\nservers:\n  {server}:\n"),
            );
        let head: Vec<&str> = head
            .lines()
            .filter(|line| !line.starts_with("# yaml-language-server"))
            .collect();
        let text = format!("{}\nsamples:\n{kept}", head.join("\n"));
        Some(self.renamed(&text, server))
    }

    /// The contract of a tool, as it stands in the file.
    fn block(&self, tool: &str) -> Option<&'static str> {
        let (_, contracts) = self.policy.split_once("\ncontracts:\n")?;
        let begin = format!("{CONTRACT_INDENT}{}{SEPARATOR}{tool}:\n", self.name);
        blocks(
            contracts,
            &format!("{CONTRACT_INDENT}{}{SEPARATOR}", self.name),
        )
        .find(|block| block.starts_with(&begin))
    }

    fn renamed(&self, text: &str, server: &str) -> String {
        let own = format!("{}{SEPARATOR}", self.name);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&own) {
            let (before, after) = rest.split_at(at);
            out.push_str(before);
            if before.ends_with(is_of_name) {
                out.push_str(&own);
            } else {
                out.push_str(server);
                out.push_str(SEPARATOR);
            }
            rest = &after[own.len()..];
        }
        out + rest
    }

    /// Whether a word of the command, or the host of the address, is one that the head names.
    fn is_named_by(&self, server: &KnownServer<'_>) -> bool {
        let line = self
            .policy
            .lines()
            .find_map(|line| line.strip_prefix(KNOWN_BY));
        line.into_iter()
            .flat_map(|names| names.split(", "))
            .any(|name| {
                server.words.iter().any(|word| is_package(word, name))
                    || server.url.is_some_and(|url| host(url) == name)
            })
    }
}

/// The text in pieces, each from a line that begins so.
fn blocks<'a>(text: &'a str, begin: &str) -> impl Iterator<Item = &'a str> {
    let starts = std::iter::once(0)
        .chain(text.match_indices('\n').map(|(at, _)| at + 1))
        .filter(|at| text[*at..].starts_with(begin))
        .collect::<Vec<_>>();
    let ends = starts
        .iter()
        .skip(1)
        .copied()
        .chain([text.len()])
        .collect::<Vec<_>>();
    starts
        .into_iter()
        .zip(ends)
        .map(|(from, to)| &text[from..to])
}

/// The tools of that server which a text names.
fn named_tools<'a>(text: &'a str, server: &str) -> impl Iterator<Item = &'a str> {
    let own = format!("{server}{SEPARATOR}");
    let places: Vec<(usize, &str)> = text.match_indices(&own).map(|(at, _)| (at, text)).collect();
    places
        .into_iter()
        .filter(|(at, text)| !text[..*at].ends_with(is_of_name))
        .map(move |(at, text)| {
            let name = &text[at + own.len()..];
            let end = name.find(|letter: char| !is_of_name(letter));
            &name[..end.unwrap_or(name.len())]
        })
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// Whether a word of a command means that package, program or image: by its name, with or without
/// a version, or by a path to the program or into the package.
fn is_package(word: &str, name: &str) -> bool {
    let word = word.strip_prefix("--from=").unwrap_or(word);
    let word = word.strip_prefix("--package=").unwrap_or(word);
    let slashes = word.replace('\\', "/");
    let plain = unversioned(&slashes);
    let program = plain.rsplit('/').next().unwrap_or(plain);
    let program = [".exe", ".cmd", ".js"]
        .iter()
        .find_map(|end| program.strip_suffix(end))
        .unwrap_or(program);
    plain == name
        || slashes.contains(&format!("node_modules/{name}/"))
        || (!name.contains('/') && program.replace('_', "-") == name)
}

/// Without `@1.2`, `==1.2`, `[extra]` and `:tag`.
fn unversioned(word: &str) -> &str {
    let after_scope = usize::from(word.starts_with('@'));
    let end = word[after_scope..]
        .find(['@', '=', '[', '<', '>', '~'])
        .map_or(word.len(), |at| at + after_scope);
    let word = &word[..end];
    let tag = word.rfind(':').filter(|at| !word[*at..].contains('/'));
    tag.map_or(word, |at| &word[..at])
}

/// The host of an address; nothing where there is none.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    let place = authority.rsplit('@').next().unwrap_or("");
    place.split(':').next().unwrap_or("")
}

#[cfg(test)]
mod tests;
