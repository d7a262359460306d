//! A path in the YAML → `file:line:column`. The one place that reads YAML.

use crate::model::diagnostic::{Diagnostic, Problem, Severity};
use crate::owners;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// Bytes of a configuration or policy file (threat-model §8).
pub(crate) const YAML_FILE_BYTES_MAX: u64 = 1 << 20;

/// Nested lists and maps: a schema of 32 levels (threat-model §4) in a contract, and some room.
/// Each costs stack.
const MAX_YAML_DEPTH: usize = 48;

/// A YAML file as a tree, with the place of everything in it.
pub(crate) struct YamlDocument {
    file: String,
    text: String,
    tree: Value,
    spots: HashMap<Vec<String>, Spot>,
}

#[derive(Debug, Clone, Copy)]
struct Spot {
    key: Option<(u32, u32)>,
    value: (u32, u32),
    scalar: bool,
}

impl YamlDocument {
    /// Reads the file at `path`, at most [`YAML_FILE_BYTES_MAX`]; diagnostics call it `path`, too.
    ///
    /// # Errors
    /// The one reason for which the file cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, Diagnostic> {
        Self::read_within(path, YAML_FILE_BYTES_MAX)
    }

    /// As `Self::read`, with at most `most` bytes.
    ///
    /// # Errors
    /// The one reason for which the file cannot be read.
    pub(crate) fn read_within(path: &Path, most: u64) -> Result<Self, Diagnostic> {
        let file = path.display().to_string();
        let whole = |message: String, hint: &str| Diagnostic {
            severity: Severity::Error,
            file: file.clone(),
            line: 0,
            column: 0,
            message,
            hint: Some(hint.to_owned()),
        };
        let cannot = |error: std::io::Error| {
            whole(
                format!("cannot be read: {error}"),
                "name a file that exists and that this account may read",
            )
        };
        let opened = std::fs::File::open(path).map_err(cannot)?;
        if !opened.metadata().map_err(cannot)?.is_file() {
            return Err(whole("is not a file".to_owned(), "name a YAML file"));
        }
        let mut bytes = Vec::new();
        opened
            .take(most + 1)
            .read_to_end(&mut bytes)
            .map_err(cannot)?;
        if bytes.len() as u64 > most {
            return Err(whole(
                format!("is larger than {most} bytes"),
                "split it into several files",
            ));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| whole("is not UTF-8".to_owned(), "save it as UTF-8"))?;
        Self::parse(&file, text)
    }

    /// Reads `text`; diagnostics call it `file`.
    ///
    /// # Errors
    /// The first place at which the text is not YAML, or not the YAML this reads: one document, no
    /// key twice.
    pub(crate) fn parse(file: &str, text: String) -> Result<Self, Diagnostic> {
        let mut options = serde_saphyr::Options::default();
        options.with_snippet = false;
        // Only `true` and `false`: `command: y` is a program, not a yes.
        options.strict_booleans = true;
        let mut budget = serde_saphyr::Budget::default();
        budget.max_depth = MAX_YAML_DEPTH;
        options.budget = Some(budget);
        let root: Spanned<YamlNode> = if is_blank(&text) {
            Spanned {
                value: YamlNode::Map(Vec::new()),
                referenced: Location::UNKNOWN,
                defined: Location::UNKNOWN,
            }
        } else {
            serde_saphyr::from_str_with_options(&text, options)
                .map_err(|error| not_yaml(file, &text, &error))?
        };
        let mut spots = HashMap::new();
        let tree = plant(root, None, &mut Vec::new(), &mut spots);
        Ok(Self {
            file: file.to_owned(),
            text,
            tree,
            spots,
        })
    }

    /// The file, as diagnostics call it.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// The bytes of the file.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What the file says.
    pub(crate) fn tree(&self) -> &Value {
        &self.tree
    }

    /// Where the value at `path` stands: the file, and the line of its key.
    pub(crate) fn place_of(&self, path: &[String]) -> String {
        let spot = self.spots.get(path);
        let line = spot.map(|spot| spot.key.unwrap_or(spot.value).0);
        line.map_or_else(|| self.file.clone(), |line| format!("{}:{line}", self.file))
    }

    /// Gives a problem its place: that of the value if it is a scalar, else of its key, else of
    /// what is around it.
    pub(crate) fn locate(&self, problem: Problem) -> Diagnostic {
        let mut path: Vec<String> = problem.path.iter().flat_map(|step| steps(step)).collect();
        let spot = loop {
            match self.spots.get(&path) {
                Some(spot) => break Some(*spot),
                None if path.is_empty() => break None,
                None => path.pop(),
            };
        };
        let (line, column) = match spot {
            None => (0, 0),
            Some(Spot {
                key: Some(key),
                scalar: false,
                ..
            }) => key,
            Some(spot) => spot.value,
        };
        let Problem {
            severity,
            path: _,
            message,
            hint,
        } = problem;
        Diagnostic {
            severity,
            file: self.file.clone(),
            line,
            column,
            message,
            hint,
        }
    }

    /// The lines on which values stand whose path `wanted` accepts.
    pub(crate) fn lines_of(&self, wanted: impl Fn(&[String], &Value) -> bool) -> Vec<u32> {
        let of = |path: &Vec<String>| {
            let value = path.iter().try_fold(&self.tree, |at, step| match at {
                Value::Array(items) => items.get(step.parse::<usize>().ok()?),
                Value::Object(map) => map.get(step),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            });
            value.is_some_and(|value| wanted(path, value))
        };
        self.spots
            .iter()
            .filter(|(path, _)| of(path))
            .map(|(_, spot)| spot.value.0)
            .collect()
    }
}

/// An error for each thing on the way to the file that others than its owner may change, which is
/// as good as writing policy (threat-model §9, §10).
pub(crate) fn too_open(path: &Path) -> Vec<Diagnostic> {
    let found = owners::exposed(path).into_iter().map(|exposed| Diagnostic {
        severity: Severity::Error,
        file: exposed.path.display().to_string(),
        line: 0,
        column: 0,
        message: exposed.message(),
        hint: Some(exposed.hint()),
    });
    found.collect()
}

/// `rules[0]` and `[0]` name what `rules`, `0` name.
fn steps(step: &str) -> Vec<String> {
    match step
        .strip_suffix(']')
        .and_then(|open| open.rsplit_once('['))
    {
        Some((list, index)) if index.bytes().all(|byte| byte.is_ascii_digit()) => [list, index]
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(ToOwned::to_owned)
            .collect(),
        _ => vec![step.to_owned()],
    }
}

fn is_blank(text: &str) -> bool {
    text.lines()
        .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

fn not_yaml(file: &str, text: &str, error: &serde_saphyr::Error) -> Diagnostic {
    let (line, column) = error.location().map_or((0, 0), place);
    let message = error.without_snippet().to_string();
    let first = message.lines().next().unwrap_or_default();
    // The library repeats the place and advises on its own options.
    let first = [" at line ", ", set ", "; use "]
        .iter()
        .fold(first, |text, end| text.split(end).next().unwrap_or(text));
    let written = usize::try_from(line)
        .ok()
        .and_then(|line| text.lines().nth(line.checked_sub(1)?));
    let hint = if written.is_some_and(|written| written.contains("${")) {
        "put `${…}` in quotes: \"${NAME}\""
    } else {
        "correct the YAML; nothing behind this place was judged"
    };
    let message = format!("not YAML that can be read: {first}");
    Diagnostic {
        severity: Severity::Error,
        file: file.to_owned(),
        line,
        column,
        message,
        hint: Some(hint.to_owned()),
    }
}

fn place(location: Location) -> (u32, u32) {
    (
        u32::try_from(location.line()).unwrap_or(0),
        u32::try_from(location.column()).unwrap_or(0),
    )
}

fn plant(
    node: Spanned<YamlNode>,
    key: Option<(u32, u32)>,
    path: &mut Vec<String>,
    spots: &mut HashMap<Vec<String>, Spot>,
) -> Value {
    let scalar = !matches!(node.value, YamlNode::List(_) | YamlNode::Map(_));
    spots.insert(
        path.clone(),
        Spot {
            key,
            value: place(node.referenced),
            scalar,
        },
    );
    match node.value {
        YamlNode::Scalar(value) => value,
        YamlNode::List(items) => {
            let below = |(index, item): (usize, Spanned<YamlNode>)| {
                path.push(index.to_string());
                let value = plant(item, None, path, spots);
                path.pop();
                value
            };
            Value::Array(items.into_iter().enumerate().map(below).collect())
        }
        YamlNode::Map(entries) => {
            let mut map = Map::new();
            for (name, item) in entries {
                path.push(name.value.clone());
                let value = plant(item, Some(place(name.referenced)), path, spots);
                path.pop();
                map.insert(name.value, value);
            }
            Value::Object(map)
        }
    }
}

enum YamlNode {
    Scalar(Value),
    List(Vec<Spanned<YamlNode>>),
    Map(Vec<(Spanned<String>, Spanned<YamlNode>)>),
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = YamlNode;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::Number(value.into())))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<YamlNode, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("this number has no end"))?;
        Ok(YamlNode::Scalar(Value::Number(number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<YamlNode, E> {
        Ok(YamlNode::Scalar(Value::String(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<YamlNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(YamlNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlNode, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(YamlNode::Map(entries))
    }
}
