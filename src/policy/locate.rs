//! A path in the YAML → `file:line:column`. The one place that reads YAML.

use crate::model::diagnostic::{Diagnostic, MeantPart, PlaceSet, Problem, Severity};
use crate::owners;
use crate::owners::regular::{self, FileFault};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};
use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

mod node;
mod roots;
mod salvage;
mod scalar;

use node::YamlNode;
use scalar::Mark;

/// Bytes of a configuration or policy file (threat-model §8).
pub(crate) const YAML_FILE_BYTES_MAX: u64 = 1 << 20;

/// Nested lists and maps: a schema of 32 levels (threat-model §4) in a contract, and some room.
/// Each costs stack.
const MAX_YAML_DEPTH: usize = 48;
/// What all aliases of a file may stand for, in values and the ends of lists and maps: each is judged
/// where it stands.
const MAX_ALIASED_EVENTS: usize = 100_000;

/// What is said of a key without a value.
pub(crate) const EMPTY_VALUE_MESSAGE: &str = "empty value";

/// A YAML file as a tree, with the place of everything in it.
pub(crate) struct YamlDocument {
    file: String,
    text: String,
    /// Where each line of the text begins, once that is asked.
    line_starts: OnceLock<Vec<usize>>,
    tree: Value,
    spots: HashMap<Vec<String>, Spot>,
    /// All of it could be read.
    is_complete: bool,
    /// The keys of the root below which something could not be read.
    lost: Vec<String>,
    /// The lines, from 0, on which what could not be read begins.
    lost_lines: Vec<usize>,
    /// Where something stands in for what is written, which was told of.
    stand_ins: PlaceSet,
}

#[derive(Debug, Clone, Copy)]
struct Spot {
    key: Option<Mark>,
    value: Mark,
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
        let (file, text) = text_of(path, most)?;
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
        options.alias_limits.max_total_replayed_events = MAX_ALIASED_EVENTS;
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
            line_starts: OnceLock::new(),
            tree,
            spots,
            is_complete: true,
            lost: Vec::new(),
            lost_lines: Vec::new(),
            stand_ins: PlaceSet::default(),
        })
    }

    /// The file, as diagnostics call it.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    /// Whether all of it could be read.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether anything below this key of the root could not be read.
    pub(crate) fn has_lost(&self, key: &str) -> bool {
        self.lost.iter().any(|lost| lost == key)
    }

    /// From here on nothing is to be told of what stands at or below these paths.
    pub(crate) fn told_of(&mut self, stand_ins: PlaceSet) {
        self.stand_ins = stand_ins;
    }

    /// Whether nothing was told of this place that makes `problem` a matter of it.
    pub(crate) fn is_news(&self, problem: &Problem) -> bool {
        let path: Vec<String> = problem.path.iter().flat_map(|step| steps(step)).collect();
        !self.stand_ins.covers(&path)
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
        let line = spot.map(|spot| spot.key.unwrap_or(spot.value).line);
        line.map_or_else(|| self.file.clone(), |line| format!("{}:{line}", self.file))
    }

    /// Gives a problem its place: that of the value if it is a scalar, or of the part of it that is
    /// meant, else of its key, else of what is around it.
    pub(crate) fn locate(&self, problem: Problem) -> Diagnostic {
        let Problem {
            severity,
            path,
            part,
            mut message,
            hint,
        } = problem;
        let mut path: Vec<String> = path.iter().flat_map(|step| steps(step)).collect();
        let part = part.map(|part| {
            self.part(&path, part)
                .ok_or_else(|| self.within(&path, part))
        });
        let spot = loop {
            match self.spots.get(&path) {
                Some(spot) => break Some(*spot),
                None if path.is_empty() => break None,
                None => path.pop(),
            };
        };
        let whole = spot.map_or(Mark::default(), |spot| match spot {
            Spot {
                key: Some(key),
                scalar: false,
                ..
            } => key,
            Spot { value, .. } => value,
        });
        let Mark {
            line,
            column,
            length,
        } = match part {
            Some(Ok(mark)) => mark,
            Some(Err(within)) => {
                message = format!("{within}: {message}");
                whole
            }
            None => whole,
        };
        Diagnostic {
            severity,
            file: self.file.clone(),
            line,
            column,
            length,
            message,
            hint,
        }
    }

    /// The text at `path`.
    fn text_at(&self, path: &[String]) -> Option<&str> {
        self.value_at(path).and_then(Value::as_str)
    }

    fn value_at(&self, path: &[String]) -> Option<&Value> {
        path.iter().try_fold(&self.tree, |at, step| match at {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            Value::Object(map) => map.get(step),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        })
    }

    /// Where a part of the text at `path` stands; none if that cannot be told.
    fn part(&self, path: &[String], part: MeantPart) -> Option<Mark> {
        let spot = self.spots.get(path).filter(|spot| spot.scalar)?;
        let text = self.text_from(spot.value.line)?;
        scalar::part(text, spot.value, self.text_at(path)?, part)
    }

    /// The text from the beginning of a line on, which is counted from 1.
    fn text_from(&self, line: u32) -> Option<&str> {
        let starts = self.line_starts.get_or_init(|| {
            let breaks = self.text.match_indices('\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(breaks).collect()
        });
        let index = usize::try_from(line.checked_sub(1)?).ok()?;
        self.text.get(*starts.get(index)?..)
    }

    /// The same in words.
    fn within(&self, path: &[String], part: MeantPart) -> String {
        match part.place_in(self.text_at(path).unwrap_or_default()) {
            (1, column) => format!("column {column}"),
            (line, column) => format!("line {line}, column {column}"),
        }
    }

    /// The lines on which values stand whose path `wanted` accepts.
    pub(crate) fn lines_of(&self, wanted: impl Fn(&[String], &Value) -> bool) -> Vec<u32> {
        let of = |path: &Vec<String>| self.value_at(path).is_some_and(|value| wanted(path, value));
        self.spots
            .iter()
            .filter(|(path, _)| of(path))
            .map(|(_, spot)| spot.value.line)
            .collect()
    }
}

/// The file's name for diagnostics, and what is in it, at most `most` bytes.
fn text_of(path: &Path, most: u64) -> Result<(String, String), Diagnostic> {
    let file = path.display().to_string();
    let whole = |message: String, hint: &str| Diagnostic {
        severity: Severity::Error,
        file: file.clone(),
        line: 0,
        column: 0,
        length: 0,
        message,
        hint: Some(hint.to_owned()),
    };
    let cannot = |error: std::io::Error| {
        whole(
            format!("cannot be read: {error}"),
            "name a file that exists and that this account may read",
        )
    };
    let bytes = regular::read(path, most).map_err(|fault| match fault {
        FileFault::Unreadable(error) => cannot(error),
        FileFault::NotRegular => whole("is not a file".to_owned(), "name a YAML file"),
        FileFault::TooLarge(most) => whole(
            format!("is larger than {most} bytes"),
            "split it into several files",
        ),
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| whole("is not UTF-8".to_owned(), "save it as UTF-8"))?;
    Ok((file, text))
}

/// An error for each thing on the way to the file that others than its owner may change, which is
/// as good as writing policy (threat-model §9, §10).
pub(crate) fn too_open(path: &Path) -> Vec<Diagnostic> {
    let found = owners::exposed(path).into_iter().map(|exposed| Diagnostic {
        severity: Severity::Error,
        file: exposed.path.display().to_string(),
        line: 0,
        column: 0,
        length: 0,
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
    let Mark { line, column, .. } = error.location().map_or(Mark::default(), place);
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
        length: 0,
        message,
        hint: Some(hint.to_owned()),
    }
}

fn place(location: Location) -> Mark {
    let number = |count: u64| u32::try_from(count).unwrap_or(0);
    Mark {
        line: number(location.line()),
        column: number(location.column()),
        length: number(location.span().len()),
    }
}

fn plant(
    node: Spanned<YamlNode>,
    key: Option<Mark>,
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
