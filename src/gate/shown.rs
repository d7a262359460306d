//! How a tool is shown to a caller, and how its call is read back: what the model takes decides the
//! one, the tool's own schema the other (POLICY §3; SEMANTICS §2, step 3).

use super::Gate;
use super::placing::with_key;
use super::toolbox::{Tool, Tools};
use crate::guards::allowlist::Admitted;
use crate::guards::idempotency::Shown;
use crate::mcp::json::Text;
use crate::model::caller::Caller;
use crate::model::ids::{ServerName, ToolName};
use crate::model::reads::{Profile, SchemaReader};
use crate::model::refusal::Refusal;
use crate::model::scope::Scope;
use crate::policy::Policy;
use crate::schema::limits;
use crate::schema::normalize::{ArgumentMapping, Losses, NormalizeError, normalize};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Variants of one tool that are kept: every profile in two ways, so that no two callers take turns
/// in making theirs (002-14).
const VARIANTS: usize = 2 * Profile::ALL.len();
/// What the kept variants of one tool may take in bytes, the latest one apart.
const KEPT: usize = 1 << 20;
/// Tables of names that are kept.
const TABLES: usize = 64;

/// A tool as one profile shows it.
#[derive(Debug)]
pub struct Variant {
    /// Its definition, under its own name.
    pub definition: Text,
    /// How arguments are read back.
    pub back: ArgumentMapping,
    /// What its schema no longer says.
    pub losses: Losses,
}

type Made = Result<Arc<Variant>, NormalizeError>;

/// The variants of one tool. They live and end with it, so that a changed definition has none of
/// the old ones.
#[derive(Debug, Default)]
pub struct Variants(Mutex<Vec<(Key, Made)>>);

/// What decides how a tool is shown.
type Key = (Profile, How);

/// What its contract says of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct How {
    /// The argument for the key.
    key: Option<Shown>,
    /// Whether results may be others than the output schema says.
    reshaped: bool,
}

impl Variants {
    /// The variant, and whether it was there.
    fn get(&self, key: Key, fit: impl FnOnce() -> Made) -> (Made, bool) {
        let known = |kept: &[(Key, Made)]| {
            kept.iter()
                .find(|(known, _)| *known == key)
                .map(|(_, made)| made.clone())
        };
        if let Some(made) = known(&self.0.lock()) {
            return (made, true);
        }
        let made = fit();
        let mut kept = self.0.lock();
        if known(&kept).is_none() {
            let is_full = |kept: &[(Key, Made)]| {
                let bytes: usize = kept.iter().map(|(_, made)| length(made)).sum();
                kept.len() >= VARIANTS || bytes + length(&made) > KEPT
            };
            while !kept.is_empty() && is_full(&kept) {
                drop(kept.remove(0));
            }
            kept.push((key, made.clone()));
        }
        (made, false)
    }
}

/// Bytes of a definition; its way back is in proportion.
fn length(made: &Made) -> usize {
    made.as_ref()
        .map_or(0, |variant| variant.definition.as_bytes().len())
}

impl How {
    fn of(policy: &Policy, caller: &Caller, tool: &Tool) -> Self {
        let admitted = policy.allowlist.admit(caller, &tool.name).ok();
        let rules = admitted.as_ref().map(Admitted::rules);
        let key = rules.and_then(|rules| rules.idempotency.as_ref()?.shown(&tool.schema));
        Self {
            key,
            reshaped: rules.is_some_and(|rules| rules.results.may_reshape()),
        }
    }

    /// The definition as its server wrote it, as far as it can be read, without an output schema
    /// that the contract's rules for results may break (PROTOCOL §5.1).
    fn written(self, tool: &Tool) -> Text {
        let shown = &tool.definition.shown;
        let members = shown
            .object()
            .filter(|members| self.reshaped && members.get("outputSchema").is_some());
        let Some(mut members) = members else {
            return shown.clone();
        };
        members.remove("outputSchema");
        members.text()
    }
}

/// A definition as its server wrote it, with the argument for the key where the contract shows one,
/// in a profile.
pub fn variant_of(
    written: &Text,
    key: Option<Shown>,
    profile: Profile,
) -> Result<Variant, NormalizeError> {
    let definition = key.map_or_else(|| written.clone(), |key| with_key(written, key));
    if profile == Profile::None {
        return Ok(Variant {
            definition,
            back: ArgumentMapping::default(),
            losses: Losses::default(),
        });
    }
    let schema = definition
        .get("inputSchema")
        .map(|schema| schema.value())
        .unwrap_or_default();
    let normal = normalize(&schema, profile)?;
    let mut members = definition.object().unwrap_or_default();
    members.set("inputSchema", Text::of(&normal.schema));
    Ok(Variant {
        definition: members.text(),
        back: normal.back,
        losses: normal.losses,
    })
}

/// Names that are shown otherwise than the tools' own: shown, and the tool; none where two tools
/// would share it.
type Table = HashMap<String, Option<ToolName>>;

/// The tables already made, each for one state of the tools.
#[derive(Default)]
pub struct Names(Mutex<HashMap<(Scope, SchemaReader), OfTools>>);

/// The version of the tools, and their table.
type OfTools = (u64, Arc<Table>);

impl Names {
    fn table(&self, tools: &Tools, scope: &Scope, reads: SchemaReader) -> Arc<Table> {
        let mut tables = self.0.lock();
        if let Some((_, table)) = tables
            .get(&(scope.clone(), reads))
            .filter(|(version, _)| *version == tools.version)
        {
            return table.clone();
        }
        let table = Arc::new(table(tools, scope, reads));
        tables.retain(|_, (version, _)| *version == tools.version);
        if tables.len() < TABLES {
            tables.insert((scope.clone(), reads), (tools.version, table.clone()));
        }
        table
    }
}

fn table(tools: &Tools, scope: &Scope, reads: SchemaReader) -> Table {
    let alphabet = limits::of(reads.profile).tool_name.within(&reads.caps);
    let mut table = Table::new();
    for tool in tools
        .known()
        .filter(|tool| scope.holds(&tool.server.settings.name))
    {
        let name = scope.name(&tool.server.settings.name, &tool.definition.name);
        if alphabet.takes(&name) {
            continue;
        }
        let shown = alphabet.fit(&name);
        let taken = tools.find(&scope.tool(&shown).0).is_some() || table.contains_key(&shown);
        table.insert(shown, (!taken).then(|| tool.name.clone()));
    }
    table
}

/// A tool in a listing.
pub(super) struct Listed {
    pub(super) tool: Arc<Tool>,
    pub(super) name: String,
    pub(super) definition: Text,
}

impl Gate {
    /// The tool as this caller is shown it, or why it is not.
    pub(super) fn variant(&self, policy: &Policy, caller: &Caller, tool: &Tool) -> Made {
        let (profile, how) = (caller.reads.profile, How::of(policy, caller, tool));
        let fit = || variant_of(&how.written(tool), how.key, profile).map(Arc::new);
        if profile == Profile::None {
            return fit();
        }
        let (made, known) = tool.variants.get((profile, how), fit);
        self.metrics.normalized(known);
        made
    }

    /// Of the tools that a caller may use those that its model and its program take, and the
    /// others.
    pub(super) fn fitting(
        &self,
        policy: &Policy,
        tools: &Tools,
        (caller, scope): (&Caller, &Scope),
        visible: Vec<&Arc<Tool>>,
    ) -> (Vec<Listed>, Vec<(Arc<Tool>, NormalizeError)>) {
        let reads = caller.reads;
        let alphabet = limits::of(reads.profile).tool_name.within(&reads.caps);
        let most = limits::of(reads.profile)
            .tools
            .unwrap_or(usize::MAX)
            .min(reads.caps.tools);
        let table = if reads.is_all() {
            Arc::default()
        } else {
            self.listings.names.table(tools, scope, reads)
        };
        let (mut listed, mut hidden) = (Vec::new(), Vec::new());
        for tool in visible {
            let own = scope.name(&tool.server.settings.name, &tool.definition.name);
            let stays = reads.is_all() || alphabet.takes(&own);
            let name = if stays { own } else { alphabet.fit(&own) };
            // Its own name is no other tool's, whichever would be fitted to it.
            let is_free = stays || table.get(&name).is_none_or(Option::is_some);
            let variant = if is_free {
                self.variant(policy, caller, tool)
            } else {
                Err(NormalizeError::NameClash)
            };
            match variant {
                Ok(_) if listed.len() >= most => {
                    hidden.push((tool.clone(), NormalizeError::TooManyTools { most }));
                }
                Ok(variant) => {
                    listed.push(Listed {
                        tool: tool.clone(),
                        name,
                        definition: variant.definition.clone(),
                    });
                }
                Err(reason) => hidden.push((tool.clone(), reason)),
            }
        }
        (listed, hidden)
    }

    /// The tool that `name` means to this caller: as policies name it, where it would live, and its
    /// name there.
    pub fn named(
        &self,
        caller: &Caller,
        scope: &Scope,
        name: &str,
    ) -> (ToolName, Option<ServerName>, String) {
        let written = scope.tool(name);
        if caller.reads.is_all() {
            return written;
        }
        let tools = self.tools.current();
        if tools.find(&written.0).is_some() {
            return written;
        }
        let table = self.listings.names.table(&tools, scope, caller.reads);
        let meant = table
            .get(name)
            .and_then(Option::as_ref)
            .and_then(|name| tools.find(name));
        match meant {
            Some(tool) => (
                tool.name.clone(),
                Some(tool.server.settings.name.clone()),
                tool.definition.name.clone(),
            ),
            None => written,
        }
    }

    /// `arguments` as the tool's own schema means them, and whether its caller is told of arguments
    /// that travel as headers.
    pub fn declared(&self, caller: &Caller, tool: &Tool, arguments: Value) -> (Value, bool) {
        if caller.reads.profile == Profile::None {
            return (arguments, true);
        }
        let read = self.variant(&self.policy.current(), caller, tool).ok();
        let read = read.and_then(|variant| variant.back.read(&arguments).ok().flatten());
        let keep = limits::of(caller.reads.profile).keep.as_ref();
        (read.unwrap_or(arguments), keep.is_none())
    }
}

/// Whether the arguments are those that the agent wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reading {
    /// They are.
    #[default]
    AsWritten,
    /// They were read back, and travel so.
    Back,
    /// They cannot be read back.
    Impossible(Refusal),
    /// They came with a `requestState` that is not of this call.
    Foreign,
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn of_length(bytes: usize) -> Arc<Variant> {
        let text = Bytes::from(format!("\"{}\"", "x".repeat(bytes - 2)));
        let limits = crate::mcp::json::SERVER_JSON_LIMITS;
        let definition = Text::read(text, &limits).unwrap();
        Arc::new(Variant {
            definition,
            back: ArgumentMapping::default(),
            losses: Losses::default(),
        })
    }

    /// Who of these is made anew, asked in turn, when each is so long.
    fn made_anew(keys: &[Key], bytes: usize) -> usize {
        let variants = Variants::default();
        let of = |key: &Key| !variants.get(*key, || Ok(of_length(bytes))).1;
        assert!(keys.iter().all(of), "all are made once");
        keys.iter().filter(|key| of(key)).count()
    }

    /// 002-14: callers of all profiles, before and after a reload that shows the key, take nothing
    /// from each other; together the variants of one tool stay within a bound.
    #[test]
    fn variants_are_kept_within_a_bound() {
        let keys: Vec<Key> = [None, Some(Shown { required: true })]
            .into_iter()
            .flat_map(|key| {
                Profile::ALL.map(|profile| {
                    (
                        profile,
                        How {
                            key,
                            reshaped: false,
                        },
                    )
                })
            })
            .collect();
        assert_eq!(made_anew(&keys, 4_096), 0);
        assert_eq!(made_anew(&keys, KEPT / 4), keys.len(), "four have room");
        assert_eq!(made_anew(&keys[..4], KEPT / 4), 0);
        assert_eq!(
            made_anew(&keys[..1], KEPT + 1),
            0,
            "the latest is kept, whatever it takes"
        );
        let variants = Variants::default();
        for key in &keys {
            assert!(variants.get(*key, || Ok(of_length(KEPT / 2))).0.is_ok());
        }
        assert_eq!(variants.0.lock().len(), 2);
    }
}
