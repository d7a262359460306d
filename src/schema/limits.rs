//! What providers and programs take: dated data, read from the files beside this one, never code
//! (policy §8).

use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::reads::{Caps, Profile};
use bytes::Bytes;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

/// What one profile takes.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ProfileLimits {
    /// Names of tools.
    pub tool_name: Alphabet,
    /// Names of properties; none: any.
    pub property_name: Option<Alphabet>,
    /// Tools in one request at most; none: any number.
    pub tools: Option<usize>,
    /// The keywords it takes; none: all but `drop`.
    pub keep: Option<Vec<String>>,
    /// Keywords it does not take.
    pub drop: Vec<String>,
    /// The formats it takes; none: any.
    pub formats: Option<Vec<String>>,
    /// Whether bounds that it does not take are told in the description.
    pub describe: bool,
    /// Properties in one schema at most.
    pub properties: Option<usize>,
    /// Objects and arrays within each other at most.
    pub depth: Option<usize>,
    /// Members of all `enum` of one schema at most.
    pub enum_values: Option<usize>,
    /// Characters of the members of one `enum` of more than 250 at most.
    pub enum_text: Option<usize>,
    /// Characters of all names, members of `enum` and constants at most.
    pub text: Option<usize>,
    /// Optional properties at most.
    pub optional: Option<usize>,
    /// Properties that are a union, or may be of several types, at most.
    pub unions: Option<usize>,
}

/// Which names there are.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Alphabet {
    first: String,
    rest: String,
    longest: usize,
    /// Only the names of the outermost object are judged.
    #[serde(default)]
    pub top_only: bool,
}

impl Alphabet {
    /// The same, for a program.
    #[must_use]
    pub(crate) fn within(&self, caps: &Caps) -> Self {
        let plain = |letters: &str| {
            if caps.plain {
                letters.replace('.', "")
            } else {
                letters.to_owned()
            }
        };
        let (first, rest) = (plain(&self.first), plain(&self.rest));
        Self {
            first,
            rest,
            longest: self.longest.min(caps.name),
            top_only: self.top_only,
        }
    }

    /// Whether `name` can stay as it is.
    pub(crate) fn takes(&self, name: &str) -> bool {
        let mut letters = name.chars();
        name.len() <= self.longest
            && letters
                .next()
                .is_some_and(|letter| holds(&self.first, letter))
            && letters.all(|letter| holds(&self.rest, letter))
    }

    /// `name` as it can be shown: itself, or what is left of it and eight digits of its SHA-256, so
    /// that two names never become one by chance.
    pub(crate) fn fit(&self, name: &str) -> String {
        if self.takes(name) {
            return name.to_owned();
        }
        let digest = super::validate::schema_hash(&name.into());
        let letters = name.chars().map(|letter| {
            if holds(&self.rest, letter) {
                letter
            } else {
                '_'
            }
        });
        let mut fitting: String = letters.collect();
        if !fitting
            .chars()
            .next()
            .is_some_and(|letter| holds(&self.first, letter))
        {
            fitting.insert(0, 'x');
        }
        let tail = &digest[..NAME_HASH_DIGITS.min(self.longest)];
        fitting.truncate(self.longest.saturating_sub(NAME_HASH_DIGITS + 1));
        if fitting.is_empty() {
            tail.to_owned()
        } else {
            format!("{fitting}_{tail}")
        }
    }
}

/// Digits of a hash that a fitted name ends with.
const NAME_HASH_DIGITS: usize = 8;

/// Whether `letters`, such as `A-Za-z_`, has this one. A `-` counts for itself where it is last.
fn holds(letters: &str, letter: char) -> bool {
    let mut rest = letters.chars();
    while let Some(first) = rest.next() {
        let mut ahead = rest.clone();
        if let (Some('-'), Some(last)) = (ahead.next(), ahead.next()) {
            if (first..=last).contains(&letter) {
                return true;
            }
            rest = ahead;
        } else if first == letter {
            return true;
        }
    }
    false
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Providers {
    as_of: String,
    #[serde(rename = "source")]
    _source: String,
    /// The first pattern that a model matches decides.
    models: Vec<(String, Profile)>,
    profiles: HashMap<Profile, ProfileLimits>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Programs {
    #[serde(rename = "as_of")]
    _as_of: String,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "programs")]
    named: BTreeMap<String, Program>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    tools: Option<usize>,
    name: Option<usize>,
    #[serde(default)]
    around: usize,
    #[serde(default)]
    plain: bool,
}

fn read<T: serde::de::DeserializeOwned + Default>(text: &'static str) -> T {
    let text = Text::read(Bytes::from_static(text.as_bytes()), &SERVER_JSON_LIMITS);
    text.ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

static PROVIDERS: LazyLock<Providers> =
    LazyLock::new(|| read(include_str!("limits/providers.json")));
static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| read(include_str!("limits/programs.json")));
/// For a profile without data: takes nothing.
static NO_LIMITS: LazyLock<ProfileLimits> = LazyLock::new(ProfileLimits::default);

/// What `profile` takes.
pub(crate) fn of(profile: Profile) -> &'static ProfileLimits {
    PROVIDERS.profiles.get(&profile).unwrap_or(&NO_LIMITS)
}

/// The day that the data on providers is of, as `2026-11-21`.
pub(crate) fn as_of() -> &'static str {
    &PROVIDERS.as_of
}

/// The profile for a model, written `provider/model` (001-19).
pub(crate) fn of_model(model: &str) -> Profile {
    let model = model.to_ascii_lowercase();
    let found = PROVIDERS
        .models
        .iter()
        .find(|(pattern, _)| matches(pattern, &model));
    found.map_or(Profile::Portable, |(_, profile)| *profile)
}

/// What the program of that name takes; none if it is unknown.
pub(crate) fn of_program(name: &str) -> Option<Caps> {
    let Program {
        tools,
        name,
        around,
        plain,
    } = PROGRAMS.named.get(name)?;
    let name = name.map_or(usize::MAX, |longest| longest.saturating_sub(*around));
    Some(Caps {
        tools: tools.unwrap_or(usize::MAX),
        name,
        plain: *plain,
    })
}

/// The programs that are known.
pub(crate) fn programs() -> Vec<String> {
    PROGRAMS.named.keys().cloned().collect()
}

/// Whether `text` is what `pattern` says, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    pattern.ends_with('*') || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 001-19: the data is whole, dated, and every profile has its part.
    #[test]
    fn every_profile_has_data() {
        for profile in Profile::ALL {
            assert!(PROVIDERS.profiles.contains_key(&profile), "{profile}");
        }
        let day = regex::Regex::new("^20[0-9]{2}-[0-1][0-9]-[0-3][0-9]$").unwrap();
        let programs_of: serde_json::Value =
            serde_json::from_str(include_str!("limits/programs.json")).unwrap();
        assert!(day.is_match(as_of()) && day.is_match(programs_of["as_of"].as_str().unwrap()));
        assert_eq!(programs(), ["claude-code", "cursor", "vscode", "windsurf"]);
        assert_eq!(
            of_program("cursor").map(|caps| (caps.tools, caps.name)),
            Some((40, 51))
        );
        assert_eq!(of_program("emacs"), None);
    }

    /// 001-19: the model decides which schemas it is shown.
    #[test]
    fn the_model_names_the_profile() {
        for (model, profile) in [
            ("openai/gpt-5", Profile::Openai),
            ("OpenAI/gpt-5", Profile::Openai),
            ("anthropic/claude-opus-5", Profile::Anthropic),
            ("anthropic/gemini-lookalike", Profile::Anthropic),
            ("bedrock/anthropic.claude-opus-5", Profile::Bedrock),
            ("vertex/gemini-3", Profile::Gemini),
            ("google/learnlm", Profile::Gemini),
            ("vertex/claude-opus-5", Profile::Anthropic),
            ("vertex/anthropic/claude-opus-5", Profile::Anthropic),
            ("azure/o5", Profile::Openai),
            ("azure/grok-5", Profile::Xai),
            ("openrouter/google/gemini-3", Profile::Gemini),
            ("openrouter/anthropic/claude", Profile::Anthropic),
            ("x-ai/grok-5", Profile::Xai),
            ("mistralai/large", Profile::Mistral),
            ("local/llama", Profile::Portable),
            ("llama", Profile::Portable),
        ] {
            assert_eq!(of_model(model), profile, "{model}");
        }
    }

    #[test]
    fn names_are_fitted_and_stay_apart() {
        let plain = &of(Profile::Portable).tool_name;
        assert_eq!(plain.fit("fs__read_file"), "fs__read_file");
        let fitted: Vec<String> = ["a.b", "a_b", "a-b", "1.b", &"n".repeat(80)]
            .map(|name| plain.fit(name))
            .into();
        for name in &fitted {
            assert!(plain.takes(name), "{name}");
        }
        assert!(
            fitted[0].starts_with("a_b_") && fitted[1] == "a_b" && fitted[2] == "a-b",
            "{fitted:?}"
        );
        let short = plain.within(&Caps {
            name: 12,
            plain: true,
            ..Caps::default()
        });
        assert!(short.takes(&short.fit("billing__create_invoice")));
        assert!(holds("A-Za-z0-9_.-", '-') && holds("A-Za-z_", '_') && !holds("A-Za-z_", '-'));
    }
}
