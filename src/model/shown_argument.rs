//! The arguments that matter first to a person who decides about a call, as its contract names them
//! (`approval.show`), and their values in units that people use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The unit of which a hundred make one of a currency.
const CENTS_UNIT: &str = "cents";
/// Letters of a currency that an agent names.
const MAX_CURRENCY_LETTERS: usize = 8;

/// One of them: where it is, or that with its unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum ShownArgument {
    /// A JSON pointer into the arguments, such as `/customer_id`.
    Plain(String),
    /// The same, with its unit.
    Measured(MeasuredArgument),
}

/// A number with its unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct MeasuredArgument {
    /// A JSON pointer into the arguments, such as `/amount_cents`.
    pub pointer: String,
    /// `cents`: a hundred make one, so that 12500 is shown as 125.00; any other word stands behind the
    /// number.
    pub unit: String,
    /// The currency of cents: a word such as `USD`, or a pointer such as `/currency`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub currency: Option<String>,
}

impl ShownArgument {
    /// Where it is.
    pub fn pointer(&self) -> &str {
        match self {
            Self::Plain(pointer) => pointer,
            Self::Measured(measured) => &measured.pointer,
        }
    }

    /// Where else it looks: the currency, if another argument has it.
    pub fn beside(&self) -> Option<&str> {
        let Self::Measured(measured) = self else {
            return None;
        };
        let currency = measured.currency.as_deref()?;
        currency.starts_with('/').then_some(currency)
    }

    /// Its value as people read it, where it is a number with a unit; none: as it is written. What an agent
    /// says in place of a currency is no part of an amount, unless it can be one.
    pub fn measured(&self, arguments: &Value) -> Option<String> {
        let Self::Measured(measured) = self else {
            return None;
        };
        let number = arguments.pointer(&measured.pointer)?.as_number()?;
        let currency = match (self.beside(), &measured.currency) {
            (Some(pointer), _) => {
                let named = arguments.pointer(pointer)?.as_str()?;
                if !is_currency(named) {
                    return None;
                }
                Some(named.to_owned())
            }
            (None, written) => written.clone(),
        };
        let behind = |word: Option<String>| word.map(|word| format!(" {word}")).unwrap_or_default();
        if measured.unit != CENTS_UNIT {
            return Some(format!("{number} {}", measured.unit));
        }
        let written = number.to_string();
        // What is no whole number of cents is shown as it is.
        let (sign, digits) = match written.strip_prefix('-') {
            Some(digits) => ("-", digits),
            None => ("", written.as_str()),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(format!("{written} {CENTS_UNIT}{}", behind(currency)));
        }
        let padded = format!("{digits:0>3}");
        let (whole, rest) = padded.split_at(padded.len() - 2);
        Some(format!("{sign}{whole}.{rest}{}", behind(currency)))
    }
}

/// Whether it can be the name of a currency: letters that stand for nothing else, and few of them.
fn is_currency(named: &str) -> bool {
    let is_short = (1..=MAX_CURRENCY_LETTERS).contains(&named.len());
    is_short && named.bytes().all(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A person reads an amount as people write it, and never another one.
    #[test]
    fn cents_are_shown_as_amounts() {
        let cents = |currency: Option<&str>| {
            ShownArgument::Measured(MeasuredArgument {
                pointer: "/amount".to_owned(),
                unit: "cents".to_owned(),
                currency: currency.map(str::to_owned),
            })
        };
        for (amount, currency, shown) in [
            (json!(12500), Some("USD"), "125.00 USD"),
            (json!(7), Some("/currency"), "0.07 EUR"),
            (json!(-105), None, "-1.05"),
            (json!(0), None, "0.00"),
            (json!(12.5), Some("USD"), "12.5 cents USD"),
            (json!(u64::MAX), None, "184467440737095516.15"),
        ] {
            let arguments = json!({ "amount": amount, "currency": "EUR" });
            assert_eq!(cents(currency).measured(&arguments).as_deref(), Some(shown));
        }
        for named in [
            "",
            "EUR and fees of 9,000.00",
            "EUR\u{202e}",
            "\u{415}UR",
            "1000",
            "ABCDEFGHI",
            "E\nR",
        ] {
            let arguments = json!({ "amount": 12500, "currency": named });
            assert_eq!(
                cents(Some("/currency")).measured(&arguments),
                None,
                "{named:?}"
            );
        }
        let without = json!({ "amount": 12500, "currency": 7 });
        assert_eq!(cents(Some("/currency")).measured(&without), None);
        let text = json!({ "amount": "12500" });
        assert_eq!(cents(None).measured(&text), None, "a text has no unit");
        let plain: ShownArgument = serde_json::from_value(json!("/amount")).unwrap();
        assert_eq!((plain.pointer(), plain.measured(&text)), ("/amount", None));
    }
}
