//! A server's tools, drained page by page within bounds (threat-model §3C C2) and kept until the
//! server says they changed.

use super::link::Link;
use crate::mcp::bridge::own_params;
use crate::mcp::json::{Object, Text};
use crate::mcp::skeleton;
use crate::mcp::tools::Definition;
use crate::model::reply::Fault;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

const MAX_LIST_PAGES: usize = 50;
const MAX_TOOLS: usize = 2_000;
/// Bytes of all definitions of one server (threat-model §8).
const DEFINITIONS_BYTES_MAX: usize = 4 << 20;

/// The tools of one server at one time.
#[derive(Debug, Default)]
pub struct Catalog {
    /// In the server's order.
    pub tools: Vec<Arc<Definition>>,
    /// Tools that cannot be offered: name, reason for metrics, reason in words.
    pub quarantined: Vec<(String, &'static str, String)>,
    /// Members of the first page's result other than the tools, the cursor and caching hints.
    pub rest: Object,
    /// For how long the server says that this counts: the shortest `ttlMs` of its pages.
    pub fresh_for: Option<Duration>,
}

impl Catalog {
    /// Asks for all tools.
    pub async fn fetch(link: &Link) -> Result<Self, Fault> {
        let mut catalog = Self::default();
        let (mut cursor, mut bytes): (Option<Text>, usize) = (None, 0);
        for page in 0..MAX_LIST_PAGES {
            let answer = link
                .ask(
                    "tools/list",
                    Some(own_params(link.revision.era(), cursor.take())),
                )
                .await?;
            let result = answer.body.filter(|_| !answer.is_error);
            let result =
                result.ok_or_else(|| Fault::unsent("the tool server refused to list its tools"))?;
            bytes += result.as_bytes().len();
            let tools = result.get("tools").and_then(|tools| tools.elements());
            let tools = tools
                .ok_or_else(|| Fault::unsent("the tool server listed its tools without `tools`"))?;
            if bytes > DEFINITIONS_BYTES_MAX || catalog.tools.len() + tools.len() > MAX_TOOLS {
                return Err(Fault::unsent(format!(
                    "the tool server lists more than {MAX_TOOLS} tools or {DEFINITIONS_BYTES_MAX} bytes"
                )));
            }
            for tool in &tools {
                catalog.add(tool);
            }
            if let Some(said) = result
                .get("ttlMs")
                .and_then(|said| said.value().as_u64())
                .map(Duration::from_millis)
            {
                catalog.fresh_for = Some(catalog.fresh_for.map_or(said, |before| before.min(said)));
            }
            if page == 0 {
                catalog.rest = rest_of(&result);
            }
            cursor = result.get("nextCursor").filter(|cursor| !cursor.is_null());
            if cursor.is_none() {
                catalog.drop_twins();
                return Ok(catalog);
            }
        }
        Err(Fault::unsent(format!(
            "the tool server lists its tools on more than {MAX_LIST_PAGES} pages"
        )))
    }

    /// Whether a server that listed this and now lists `other` offers the same tools, in whatever
    /// order.
    pub fn offers_the_same(&self, other: &Self) -> bool {
        fn texts(catalog: &Catalog) -> BTreeSet<&[u8]> {
            catalog
                .tools
                .iter()
                .map(|tool| tool.text.as_bytes())
                .collect()
        }
        fn unusable(catalog: &Catalog) -> BTreeSet<&(String, &'static str, String)> {
            catalog.quarantined.iter().collect()
        }
        texts(self) == texts(other) && unusable(self) == unusable(other)
    }

    fn add(&mut self, tool: &Text) {
        match Definition::read(tool) {
            Ok(definition) => self.tools.push(Arc::new(definition)),
            Err((name, reason)) => {
                self.quarantined
                    .push((name, reason.label(), reason.to_string()));
            }
        }
    }

    /// Two tools of one name, or of names that can be taken for each other, are neither of them
    /// offered; also when one of the two cannot be used anyway (threat-model §3D D1, D3).
    fn drop_twins(&mut self) {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let unusable: HashSet<&str> = self
            .quarantined
            .iter()
            .map(|(name, ..)| name.as_str())
            .collect();
        let other = |(index, twin): (usize, Option<usize>)| match twin {
            Some(other) => Some(names[other].to_owned()),
            None => unusable.get(names[index]).map(|name| (*name).to_owned()),
        };
        let others: Vec<Option<String>> = skeleton::twins(&names)
            .into_iter()
            .enumerate()
            .map(other)
            .collect();
        let mut others = others.into_iter();
        let quarantined = &mut self.quarantined;
        self.tools.retain(|tool| {
            let Some(other) = others.next().flatten() else {
                return true;
            };
            let (reason, words) = if other.eq_ignore_ascii_case(&tool.name) {
                (
                    "twin",
                    "another tool of the server has this name, or differs in case only".to_owned(),
                )
            } else {
                (
                    "confusable",
                    format!("it can be taken for `{other}` of the same server"),
                )
            };
            quarantined.push((tool.name.clone(), reason, words));
            false
        });
    }
}

fn rest_of(result: &Text) -> Object {
    let mut rest = result.object().unwrap_or_default();
    for key in ["tools", "nextCursor", "ttlMs", "cacheScope", "resultType"] {
        rest.remove(key);
    }
    rest
}
