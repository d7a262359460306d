//! What cannot be judged, or is judged to be wrong, is not sent: unknown tools, withheld ones, arguments that do not
//! fit, and everything that could not be recorded.

use crate::cli::verify::agent::TrialAnswer;
use crate::cli::verify::person::TrialWord;
use crate::cli::verify::plan::{TrialSubject, row};
use crate::cli::verify::rows::{Guarantee, GuaranteeRow, RowVerdict};
use crate::cli::verify::trial::{Trial, wait_for_end};
use crate::model::caller::Caller;
use crate::model::counted::counted;
use crate::model::ids::{ServerName, ToolName};
use serde_json::{Value, json};

/// A tool that no server has.
const NO_TOOL: &str = "toolgate_verify_no_such_tool";
/// What is not known, or withheld, reads this.
const HIDDEN_CODE: &str = "tool_not_allowlisted";
/// Withheld tools that are called for each caller, at most.
const MAX_WITHHELD: usize = 16;

/// A call that is not to be sent, and the code that it is to read.
struct UnsentCall<'a> {
    caller: &'a Caller,
    tool: &'a ToolName,
    arguments: &'a Value,
    code: &'a str,
}

impl UnsentCall<'_> {
    async fn send(&self, trial: &Trial) -> anyhow::Result<RowVerdict> {
        let mut agent = trial.agent(self.caller);
        let call = Trial::fresh_call(self.caller, self.tool, self.arguments);
        let before = trial.echo.count();
        let asked = trial.call(&mut agent, &call, TrialWord::AllowWithinLimits);
        let answer = Box::pin(asked).await?;
        wait_for_end(agent.hang_up()).await;
        Ok(judged(&answer, trial.echo.count() - before, self.code))
    }
}

/// `ran`: how much has reached a tool server.
fn judged(answer: &TrialAnswer, ran: usize, code: &str) -> RowVerdict {
    let word = answer.word();
    if ran > 0 {
        let calls = counted(ran, "call");
        return RowVerdict::Broken(format!(
            "{calls} reached the tool server, and the agent read {word}"
        ));
    }
    if answer.is_answered() {
        return RowVerdict::Broken(format!("nothing was sent, and yet the agent read {word}"));
    }
    if answer.is(code) {
        return RowVerdict::Holds(format!("refused with `{code}`, and nothing was sent"));
    }
    RowVerdict::NotShown(format!(
        "nothing was sent; it is refused with {word} already, in place of `{code}`"
    ))
}

/// Arguments that the schemas of the tool do not take.
pub(in crate::cli::verify) async fn invalid_arguments(
    trial: &Trial,
    subject: &TrialSubject,
) -> anyhow::Result<RowVerdict> {
    let Some(arguments) = &subject.invalid else {
        let why = "no arguments were found that its schemas do not take";
        return Ok(RowVerdict::NotShown(why.to_owned()));
    };
    let call = UnsentCall {
        caller: &subject.caller,
        tool: &subject.tool.name,
        arguments,
        code: "schema_invalid",
    };
    call.send(trial).await
}

/// A call of what the caller does not see.
fn hidden<'a>(caller: &'a Caller, tool: &'a ToolName, arguments: &'a Value) -> UnsentCall<'a> {
    UnsentCall {
        caller,
        tool,
        arguments,
        code: HIDDEN_CODE,
    }
}

/// A tool that no server has, and those that the caller may not use.
pub(in crate::cli::verify) async fn hidden_tools(
    trial: &Trial,
    caller: &Caller,
    servers: &[ServerName],
    withheld: &[ToolName],
) -> anyhow::Result<Vec<GuaranteeRow>> {
    let arguments = json!({});
    let mut rows = Vec::new();
    if let Some(server) = servers.first() {
        let tool = ToolName::of(server, NO_TOOL);
        let verdict = hidden(caller, &tool, &arguments).send(trial).await?;
        rows.push(row(Guarantee::UnknownTool, None, Some(caller), verdict));
    }
    let (mut held, mut odd) = (0_usize, None);
    for tool in withheld.iter().take(MAX_WITHHELD) {
        match hidden(caller, tool, &arguments).send(trial).await? {
            RowVerdict::Holds(_) => held += 1,
            RowVerdict::NotShown(why) => {
                odd = odd.or(Some(RowVerdict::NotShown(format!("{tool}: {why}"))));
            }
            RowVerdict::Broken(seen) => {
                odd = Some(RowVerdict::Broken(format!("{tool}: {seen}")));
                break;
            }
        }
    }
    let verdict = odd.unwrap_or_else(|| {
        if withheld.is_empty() {
            return RowVerdict::NotShown("no known tool is withheld from it".to_owned());
        }
        let (tools, of) = (counted(held, "tool"), withheld.len());
        RowVerdict::Holds(format!(
            "{tools} of {of}: refused with `{HIDDEN_CODE}`, and nothing was sent"
        ))
    });
    rows.push(row(Guarantee::WithheldTool, None, Some(caller), verdict));
    Ok(rows)
}

/// Calls that could not be recorded: the ledger is closed before them.
pub(in crate::cli::verify) async fn failing_store(
    trial: &Trial,
    subjects: &[TrialSubject],
) -> anyhow::Result<Vec<GuaranteeRow>> {
    trial.app.door.gate.journal.close().await?;
    let mut rows = Vec::new();
    for subject in subjects {
        let call = UnsentCall {
            caller: &subject.caller,
            tool: &subject.tool.name,
            arguments: &subject.arguments,
            code: "store_unavailable",
        };
        let verdict = call.send(trial).await?;
        rows.push(subject.row(Guarantee::FailingStore, verdict));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has reached a server is broken, whatever the agent read; another refusal shows nothing of this one.
    #[test]
    fn what_is_sent_never_holds() {
        let refused = |code: &str| TrialAnswer {
            outcome: "refused".to_owned(),
            code: Some(code.to_owned()),
            ..TrialAnswer::default()
        };
        let right = refused("schema_invalid");
        assert!(matches!(
            judged(&right, 0, "schema_invalid"),
            RowVerdict::Holds(_)
        ));
        assert!(matches!(
            judged(&right, 1, "schema_invalid"),
            RowVerdict::Broken(_)
        ));
        assert!(matches!(
            judged(&refused("rate_exceeded"), 0, "schema_invalid"),
            RowVerdict::NotShown(_)
        ));
        let answered = TrialAnswer {
            outcome: "answered".to_owned(),
            ..TrialAnswer::default()
        };
        assert!(matches!(
            judged(&answered, 0, "schema_invalid"),
            RowVerdict::Broken(_)
        ));
    }
}
