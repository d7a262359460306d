//! What verifying has shown: a row for each guarantee of each tool under each caller, for people and for programs.

use crate::cli::ledger::text::plain;
use crate::model::counted::counted;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What is never done for real, whatever the configuration says.
const NOT_DONE: &str = "not done here: hooks, notifications, e-mail, breakers, secrets and the loop detector; no tool server was started or asked, and nothing was \
                        written to the ledger of this configuration";
/// What stands above rows that are of no tool.
const OF_NO_TOOL: &str = "all tools";

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarantee {
    /// A call whose answer was lost is not made again (guarantees §1).
    AtMostOnce,
    /// What a person allowed runs once (guarantees §7).
    ApprovalOnce,
    /// And with exactly those arguments.
    ApprovalBinding,
    /// As many calls run as the limit of this name says (guarantees §6).
    Budget(&'static str),
    /// A holder that another has followed changes nothing any more (guarantees §5).
    Fencing,
    /// A tool that no server has is not called (guarantees §2).
    UnknownTool,
    /// Nor what the caller may not use.
    WithheldTool,
    /// Nor arguments that the schemas do not take.
    InvalidArguments,
    /// Nor what could not be recorded.
    FailingStore,
    /// What was recorded is as it was written (guarantees §8).
    LedgerChain,
    /// The same of the ledger of this configuration.
    OwnLedger,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowVerdict {
    /// It was seen to hold; how.
    Holds(String),
    /// Nothing was seen of it; why.
    NotShown(String),
    /// It does not hold; what was seen.
    Broken(String),
}

/// One guarantee, of one tool under one caller where it is about those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuaranteeRow {
    pub(super) guarantee: Guarantee,
    pub(super) tool: Option<String>,
    pub(super) caller: Option<String>,
    pub(super) verdict: RowVerdict,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct GuaranteeReport {
    /// Version of the policy.
    pub(super) policy: String,
    pub(super) rows: Vec<GuaranteeRow>,
    /// What was left out, and why.
    pub(super) left_out: Vec<String>,
    /// Whether all of it has to be shown.
    pub(super) requires_all: bool,
}

/// How many rows have each verdict.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct VerdictCounts {
    hold: usize,
    not_shown: usize,
    broken: usize,
}

impl Guarantee {
    fn words(self) -> String {
        let words = match self {
            Self::AtMostOnce => "at most once",
            Self::ApprovalOnce => "approval, used once",
            Self::ApprovalBinding => "approval, bound to its arguments",
            Self::Budget(limit) => return format!("budget, {limit}"),
            Self::Fencing => "fencing",
            Self::UnknownTool => "fail closed, unknown tool",
            Self::WithheldTool => "fail closed, withheld tool",
            Self::InvalidArguments => "fail closed, invalid arguments",
            Self::FailingStore => "fail closed, failing store",
            Self::LedgerChain => "ledger chain",
            Self::OwnLedger => "ledger chain of this configuration",
        };
        words.to_owned()
    }

    /// The word for programs.
    fn word(self) -> &'static str {
        match self {
            Self::AtMostOnce => "at_most_once",
            Self::ApprovalOnce => "approval_once",
            Self::ApprovalBinding => "approval_binding",
            Self::Budget(_) => "budget",
            Self::Fencing => "fencing",
            Self::UnknownTool => "unknown_tool",
            Self::WithheldTool => "withheld_tool",
            Self::InvalidArguments => "invalid_arguments",
            Self::FailingStore => "failing_store",
            Self::LedgerChain => "ledger_chain",
            Self::OwnLedger => "own_ledger",
        }
    }
}

impl RowVerdict {
    /// The state for programs, as people read it, and what was seen.
    fn parts(&self) -> [&str; 3] {
        match self {
            Self::Holds(seen) => ["holds", "holds", seen],
            Self::NotShown(why) => ["not_shown", "can't be shown", why],
            Self::Broken(seen) => ["broken", "BROKEN", seen],
        }
    }
}

impl GuaranteeRow {
    /// The line above it: of what tool and caller it is.
    fn heading(&self) -> String {
        let tool = self.tool.as_deref().unwrap_or(OF_NO_TOOL);
        match &self.caller {
            Some(caller) => format!("{}, called by {}", plain(tool), plain(caller)),
            None => plain(tool),
        }
    }

    fn json(&self) -> Value {
        let [state, _, words] = self.verdict.parts();
        let limit = match self.guarantee {
            Guarantee::Budget(limit) => Some(limit),
            Guarantee::AtMostOnce
            | Guarantee::ApprovalOnce
            | Guarantee::ApprovalBinding
            | Guarantee::Fencing
            | Guarantee::UnknownTool
            | Guarantee::WithheldTool
            | Guarantee::InvalidArguments
            | Guarantee::FailingStore
            | Guarantee::LedgerChain
            | Guarantee::OwnLedger => None,
        };
        json!({
            "guarantee": self.guarantee.word(), "limit": limit, "tool": self.tool, "caller": self.caller,
            "state": state, "words": words,
        })
    }
}

impl GuaranteeReport {
    /// 0: nothing is broken, and all is shown that has to be; else 1.
    pub(super) fn exit_code(&self) -> u8 {
        let counts = self.counts();
        u8::from(counts.broken > 0 || self.requires_all && counts.not_shown > 0)
    }

    fn counts(&self) -> VerdictCounts {
        let mut counts = VerdictCounts::default();
        for row in &self.rows {
            match row.verdict {
                RowVerdict::Holds(_) => counts.hold += 1,
                RowVerdict::NotShown(_) => counts.not_shown += 1,
                RowVerdict::Broken(_) => counts.broken += 1,
            }
        }
        counts
    }

    /// A line for each row, under what it is about, and the sum.
    pub(super) fn words(&self) -> String {
        let mut text = format!("policy {}\n", self.policy);
        let mut above = String::new();
        for row in &self.rows {
            let heading = row.heading();
            if heading != above {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{heading}");
                above = heading;
            }
            let [_, state, words] = row.verdict.parts();
            let guarantee = row.guarantee.words();
            let _ = writeln!(text, "  {guarantee}: {state}: {}", plain(words));
        }
        for left_out in &self.left_out {
            let _ = writeln!(text, "left out: {}", plain(left_out));
        }
        let VerdictCounts {
            hold,
            not_shown,
            broken,
        } = self.counts();
        let shown = counted(hold, "guarantee");
        let verb = if hold == 1 { "holds" } else { "hold" };
        let _ = writeln!(text, "{NOT_DONE}");
        let _ = writeln!(
            text,
            "{shown} {verb}, {not_shown} can't be shown, {broken} broken"
        );
        text
    }

    /// The same as one object.
    pub(super) fn json(&self) -> Value {
        let counts = self.counts();
        json!({
            "policy": self.policy, "hold": counts.hold, "not_shown": counts.not_shown, "broken": counts.broken,
            "rows": self.rows.iter().map(GuaranteeRow::json).collect::<Vec<_>>(),
            "left_out": self.left_out, "not_done": NOT_DONE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(guarantee: Guarantee, verdict: RowVerdict) -> GuaranteeRow {
        GuaranteeRow {
            guarantee,
            tool: Some("shop__pay".to_owned()),
            caller: Some("bot".to_owned()),
            verdict,
        }
    }

    /// One broken guarantee is enough, whatever else holds; what is not shown counts where all has to be.
    #[test]
    fn the_exit_code_is_that_of_the_worst() {
        let holds = || row(Guarantee::Fencing, RowVerdict::Holds("x".to_owned()));
        let unseen = || row(Guarantee::AtMostOnce, RowVerdict::NotShown("y".to_owned()));
        let broken = || {
            row(
                Guarantee::Budget("cost"),
                RowVerdict::Broken("z".to_owned()),
            )
        };
        for (rows, usual, strict) in [
            (vec![], 0, 0),
            (vec![holds()], 0, 0),
            (vec![holds(), unseen()], 0, 1),
            (vec![broken(), holds()], 1, 1),
        ] {
            let mut report = GuaranteeReport {
                rows,
                ..GuaranteeReport::default()
            };
            assert_eq!(report.exit_code(), usual, "{report:?}");
            report.requires_all = true;
            assert_eq!(report.exit_code(), strict, "{report:?}");
        }
    }

    /// What a tool or an agent is called acts on no terminal, and each heading stands once.
    #[test]
    fn rows_stand_under_what_they_are_about() {
        let mut odd = row(
            Guarantee::Fencing,
            RowVerdict::Broken("\u{1b}[2J".to_owned()),
        );
        odd.caller = None;
        let report = GuaranteeReport {
            policy: "abc".to_owned(),
            rows: vec![
                row(Guarantee::AtMostOnce, RowVerdict::Holds("seen".to_owned())),
                row(
                    Guarantee::Budget("cost"),
                    RowVerdict::NotShown("why".to_owned()),
                ),
                odd,
            ],
            left_out: vec!["more".to_owned()],
            requires_all: false,
        };
        let text = report.words();
        let expected = "policy abc\nshop__pay, called by bot\n  at most once: holds: seen\n  budget, cost: can't be shown: why\nshop__pay\n  \
                        fencing: BROKEN: \\u{1b}[2J\nleft out: more\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(
            text.ends_with("1 guarantee holds, 1 can't be shown, 1 broken\n"),
            "{text}"
        );
        let told = report.json();
        assert_eq!(told["rows"][1]["limit"], "cost");
        assert_eq!(told["rows"][2]["state"], "broken");
    }
}
