//! What is said of the steps of a call: lines for people, members for programs.

use serde_json::{Value, json};
use std::fmt::{self, Display, Write as _};

/// All of it, in order.
#[derive(Debug, Default)]
pub(in crate::cli) struct ExplainedSteps {
    /// What stands above the steps.
    pub(in crate::cli) head: String,
    steps: Vec<ExplainedStep>,
}

#[derive(Debug)]
struct ExplainedStep {
    step: String,
    mark: String,
    words: String,
    more: Vec<String>,
}

impl ExplainedSteps {
    /// With `head` above them.
    pub(in crate::cli) fn under(head: String) -> Self {
        Self {
            head,
            steps: Vec::new(),
        }
    }

    /// A step, what became of the call there, and why.
    pub(super) fn add(&mut self, step: &str, mark: &str, words: impl Display) {
        self.steps.push(ExplainedStep {
            step: step.to_owned(),
            mark: mark.to_owned(),
            words: words.to_string(),
            more: Vec::new(),
        });
    }

    /// More of the last step.
    pub(super) fn more(&mut self, words: impl Display) {
        match self.steps.last_mut() {
            Some(last) => last.more.push(words.to_string()),
            None => self.add("", "", words),
        }
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let steps = self.steps.iter().map(|step| {
            let ExplainedStep {
                step,
                mark,
                words,
                more,
            } = step;
            json!({ "step": step, "mark": mark, "words": words, "more": more })
        });
        steps.collect()
    }
}

impl Display for ExplainedSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head)?;
        for ExplainedStep {
            step,
            mark,
            words,
            more,
        } in &self.steps
        {
            let line = format!("  {step:11} {mark:8} {words}");
            f.write_str(line.trim_end())?;
            f.write_char('\n')?;
            for words in more {
                writeln!(f, "              {words}")?;
            }
        }
        Ok(())
    }
}
