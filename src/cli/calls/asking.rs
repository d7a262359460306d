//! `toolgate calls ask`: the tool server is asked now what became of a call.

use crate::cli::ledger::text::plain;
use crate::cli::operator::ReplyArgs;
use crate::cli::terminal::ids::TypedId;
use crate::store::operator::asking::AskedOutcome;

/// What is asked about.
#[derive(Debug, clap::Args)]
pub(super) struct CallAskArgs {
    /// The call's action id, as `toolgate calls list` has it, or its beginning or end
    pub(super) action_id: TypedId,
    #[command(flatten)]
    pub(super) reply: ReplyArgs,
}

/// What was found, and what that comes to, in words.
pub(super) fn told(asked: &AskedOutcome) -> String {
    let AskedOutcome {
        words,
        fault,
        state,
        ..
    } = asked;
    let fault = fault.as_deref().map(plain);
    let fault = fault.map_or_else(String::new, |fault| format!(" ({fault})"));
    let next = match state.as_str() {
        "completed" => "it was carried out: the same call is told so, and nothing runs",
        "not_sent" => "it was not carried out: the same call may be sent again, and then runs",
        _ => "it stays unknown: `toolgate calls resolve` takes your word for it",
    };
    format!("the probe says: {}{fault}\n{next}\n", plain(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operator reads what was found and what it comes to; words of a server cannot play with the
    /// terminal.
    #[test]
    fn an_operator_reads_what_was_found() {
        let asked = |found: &str, fault: Option<&str>, state: &str| AskedOutcome {
            action_id: "019abc00-0000-7001-8000-0000aaaa1111".to_owned(),
            found: found.to_owned(),
            words: found.to_owned(),
            fault: fault.map(str::to_owned),
            state: state.to_owned(),
        };
        for (outcome, expected) in [
            (
                asked("found", None, "completed"),
                "the probe says: found\nit was carried out: the same call is told so, and nothing runs\n",
            ),
            (
                asked("absent", None, "not_sent"),
                "the probe says: absent\nit was not carried out: the same call may be sent again, and then runs\n",
            ),
        ] {
            assert_eq!(told(&outcome), expected);
        }
        let broken = told(&asked("unclear", Some("it \u{1b}[2J broke"), "unknown"));
        assert!(
            broken.starts_with("the probe says: unclear (it "),
            "{broken}"
        );
        assert!(broken.contains("toolgate calls resolve") && !broken.contains('\u{1b}'));
    }
}
