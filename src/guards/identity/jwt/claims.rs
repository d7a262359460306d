//! What a token says, read by the names that the configuration gives. A claim that is missing, or is
//! in another form than it has to be, is never read as something else: no default tenant, no text
//! for a list.

use super::rejected::TokenRejected;
use crate::mcp::seen::is_seen;
use crate::model::diagnostic::Problems;
use crate::model::pointer;
use serde_json::Value;

/// Letters of a name that a token gives.
const NAME_CHARS_MAX: usize = 256;
/// Roles, or scopes, that one token gives.
const LISTED_MAX: usize = 256;

/// Where a claim stands: a name, or a JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimPlace(String);

/// What a token says, once its signature, its issuer, its audience and its time were checked.
#[derive(Debug)]
pub(crate) struct Claims(pub(super) Value);

impl ClaimPlace {
    /// The place that is written; what cannot be one is noted.
    pub(crate) fn compile(written: &str, problems: &mut Problems) -> Self {
        let is_place = if written.starts_with('/') {
            pointer::is_pointer(written)
        } else {
            !written.is_empty() && written.trim() == written
        };
        if !is_place {
            problems.error(
                "names no claim",
                "write the claim's name, such as azp, or a JSON pointer, such as /realm_access/roles",
            );
        }
        Self(written.to_owned())
    }

    fn of<'c>(&self, claims: &'c Claims) -> Option<&'c Value> {
        if self.0.starts_with('/') {
            pointer::at(&claims.0, &self.0)
        } else {
            claims.0.get(&self.0)
        }
    }
}

impl Claims {
    /// The name that stands there.
    pub(crate) fn name(&self, place: &ClaimPlace) -> Result<String, TokenRejected> {
        let name = place.of(self).and_then(Value::as_str);
        let name = name.filter(|name| is_name(name));
        name.map(ToOwned::to_owned).ok_or(TokenRejected::Claim)
    }

    /// The names that stand there: a list, or one text with blanks between them, as scopes are written.
    pub(crate) fn names(&self, place: &ClaimPlace) -> Result<Vec<String>, TokenRejected> {
        let names: Option<Vec<String>> = match place.of(self) {
            Some(Value::String(text)) => {
                Some(text.split_ascii_whitespace().map(str::to_owned).collect())
            }
            Some(Value::Array(list)) => list
                .iter()
                .map(|one| one.as_str().map(ToOwned::to_owned))
                .collect(),
            _ => None,
        };
        let are_names =
            |names: &Vec<String>| names.len() <= LISTED_MAX && names.iter().all(|one| is_name(one));
        names.filter(are_names).ok_or(TokenRejected::Claim)
    }

    /// Whom the token is about, as its issuer calls them; none where it does not say.
    pub(crate) fn subject(&self) -> Option<String> {
        let subject = self.0.get("sub").and_then(Value::as_str);
        subject.filter(|sub| is_name(sub)).map(ToOwned::to_owned)
    }

    /// Whether all of `scopes` are among those that the token gives.
    pub(crate) fn has_scopes(&self, scopes: &[String]) -> bool {
        let given = ["scope", "scp"].map(|name| ClaimPlace(name.to_owned()));
        let given: Vec<String> = given
            .iter()
            .filter_map(|place| self.names(place).ok())
            .flatten()
            .collect();
        scopes.iter().all(|scope| given.contains(scope))
    }

    /// Whether the token is for `audience`.
    pub(super) fn is_for(&self, audience: &str) -> bool {
        match self.0.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(several)) => several.iter().any(|one| one == audience),
            _ => false,
        }
    }

    /// A time of the token, in seconds since 1970; none where it has none.
    pub(super) fn time(&self, name: &str) -> Result<Option<f64>, TokenRejected> {
        match self.0.get(name) {
            None => Ok(None),
            Some(time) => time.as_f64().map(Some).ok_or(TokenRejected::Malformed),
        }
    }
}

/// Whether people and records can tell it from others: on one line, without what nobody sees.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.trim() == name
        && name.chars().count() <= NAME_CHARS_MAX
        && is_seen(name)
}
