//! How an operator says at a prompt which calls a standing grant covers.

use crate::guards::approval::grant_terms::{ConstraintWords, GrantTerms, TotalWords};
use crate::model::pointer::is_pointer;
use serde_json::{Number, Value};

/// Which calls, how many and for how long. What is left out is as narrow as it can be.
#[derive(Debug, Default, Clone, clap::Args)]
pub(super) struct GrantTermArgs {
    /// How long it counts, 1m to 30d [default: 8h]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// How many calls may begin with it, 1 to 1000 [default: 10]
    #[arg(long, value_name = "N")]
    uses: Option<u64>,
    /// The argument has to be this: `/to="DE89"`; what stands behind `=` is JSON, and else text
    #[arg(long, value_name = "POINTER=VALUE")]
    equals: Vec<String>,
    /// The argument has to be one of these: `/currency=["EUR","USD"]`
    #[arg(long, value_name = "POINTER=LIST")]
    one_of: Vec<String>,
    /// The argument has to be a number from 0 to this: `/amount=500`
    #[arg(long, value_name = "POINTER=NUMBER")]
    at_most: Vec<String>,
    /// The argument has to begin so, without `..` between slashes: `/path=/srv/reports/`
    #[arg(long, value_name = "POINTER=TEXT")]
    starts_with: Vec<String>,
    /// The argument may be anything; only what the contract's `approval.grant_any` names
    #[arg(long, value_name = "POINTER")]
    any: Vec<String>,
    /// The argument of all calls together may be this at most: `/amount=2000`
    #[arg(long, value_name = "POINTER=NUMBER")]
    total: Option<String>,
}

impl GrantTermArgs {
    /// Whether nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        let lists = [
            &self.equals,
            &self.one_of,
            &self.at_most,
            &self.starts_with,
            &self.any,
        ];
        let is_said = self.until.is_some() || self.uses.is_some() || self.total.is_some();
        !is_said && lists.iter().all(|list| list.is_empty())
    }

    /// The terms, or what cannot be read of them.
    pub(super) fn terms(&self) -> Result<GrantTerms, String> {
        let mut constraints = Vec::new();
        for said in &self.equals {
            let (pointer, text) = parted(said)?;
            let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into()));
            let equals = Some(value);
            constraints.push(ConstraintWords {
                equals,
                ..named(pointer)
            });
        }
        for said in &self.one_of {
            let (pointer, text) = parted(said)?;
            let list = serde_json::from_str(text);
            let one_of = Some(list.map_err(|_| format!("{text} is no list in JSON"))?);
            constraints.push(ConstraintWords {
                one_of,
                ..named(pointer)
            });
        }
        for said in &self.at_most {
            let (pointer, number) = numbered(said)?;
            let at_most = Some(number);
            constraints.push(ConstraintWords {
                at_most,
                ..named(pointer)
            });
        }
        for said in &self.starts_with {
            let (pointer, text) = parted(said)?;
            let starts_with = Some(text.to_owned());
            constraints.push(ConstraintWords {
                starts_with,
                ..named(pointer)
            });
        }
        let open = self.any.iter().map(|pointer| ConstraintWords {
            any: true,
            ..named(pointer)
        });
        constraints.extend(open);
        let total = self.total.as_deref().map(|said| {
            let (pointer, at_most) = numbered(said)?;
            let pointer = pointer.to_owned();
            Ok::<_, String>(TotalWords { pointer, at_most })
        });
        Ok(GrantTerms {
            until: self.until.clone(),
            uses: self.uses,
            constraints,
            total: total.transpose()?,
        })
    }
}

fn named(pointer: &str) -> ConstraintWords {
    ConstraintWords {
        pointer: pointer.to_owned(),
        ..ConstraintWords::default()
    }
}

/// The pointer before the first `=`, and what stands behind it.
fn parted(said: &str) -> Result<(&str, &str), String> {
    let parts = said.split_once('=');
    let parts = parts.filter(|(pointer, _)| is_pointer(pointer));
    parts.ok_or_else(|| format!("{said}: write a JSON pointer and a value, such as /amount=500"))
}

fn numbered(said: &str) -> Result<(&str, Number), String> {
    let (pointer, text) = parted(said)?;
    let number = serde_json::from_str(text).map_err(|_| format!("{text} is no number"))?;
    Ok((pointer, number))
}
