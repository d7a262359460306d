//! What the tool server of a task asks its agent, and the answers so far: the next round of the call
//! is sent once there are all of them.

use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;
use std::collections::HashSet;
use std::time::Duration;
use tokio::sync::oneshot;

/// Bytes of the questions of all tasks.
pub(super) const MAX_QUESTION_BYTES: usize = 16 << 20;
/// Questions of one round.
const MAX_QUESTIONS: usize = 64;
/// Bytes of the answers to one round.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Rounds of questions of one task.
pub(super) const MAX_ROUNDS: u32 = 10;
/// How long a task waits for answers.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_hours(1);

/// What kind of result a question is.
const ASKS_TYPE: &str = "input_required";

/// What became of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenAnswers {
    /// Those to what is asked are kept.
    Taken,
    /// They are more than is kept.
    TooMuch,
    /// They are no object, or one to what is asked is none, as every answer is (protocol §6.4).
    NoAnswers,
    /// Nothing waits for any.
    NothingAsked,
}

/// One round of questions.
pub(super) struct TaskRound {
    requests: Object,
    answers: Object,
    done: Option<oneshot::Sender<Text>>,
}

impl TaskRound {
    /// Of what is asked, by its names; none if that is nothing, or too much.
    pub(super) fn of(requests: &Text) -> Option<(Self, oneshot::Receiver<Text>)> {
        let requests = requests.object()?;
        let count = requests.iter().count();
        (1..=MAX_QUESTIONS).contains(&count).then_some(())?;
        let (done, answers) = oneshot::channel();
        let round = Self {
            requests,
            answers: Object::new(),
            done: Some(done),
        };
        Some((round, answers))
    }

    /// What is not answered yet.
    pub(super) fn open(&self) -> Text {
        let mut open = Object::new();
        for (name, request) in self.requests.iter() {
            if self.answers.get(name).is_none() {
                open.set(name, request.clone());
            }
        }
        open.text()
    }

    /// Keeps the answers to what is asked; others are nobody's.
    pub(super) fn take(&mut self, given: &Text) -> TakenAnswers {
        let names: HashSet<&str> = self.requests.iter().map(|(name, _)| name).collect();
        let mut answers = self.answers.clone();
        let Some(given) = given.object() else {
            return TakenAnswers::NoAnswers;
        };
        for (name, answer) in given.iter().filter(|(name, _)| names.contains(name)) {
            if !answer.is_object() {
                return TakenAnswers::NoAnswers;
            }
            answers.set(name, answer.clone());
        }
        if answers.text().as_bytes().len() > MAX_ANSWER_BYTES {
            return TakenAnswers::TooMuch;
        }
        self.answers = answers;
        if self
            .requests
            .iter()
            .all(|(name, _)| self.answers.get(name).is_some())
            && let Some(done) = self.done.take()
        {
            // Nobody waits for them where the task ends in this moment.
            drop(done.send(self.answers.text()));
        }
        TakenAnswers::Taken
    }

    pub(super) fn is_answered(&self) -> bool {
        self.done.is_none()
    }

    pub(super) fn bytes(&self) -> usize {
        self.requests
            .iter()
            .map(|(name, request)| name.len() + request.as_bytes().len())
            .sum()
    }
}

/// What an answer asks, and the state that its server wants back.
pub(super) struct ServerQuestions {
    pub(super) requests: Text,
    pub(super) state: Option<Text>,
}

impl ServerQuestions {
    /// Of an answer that is a question.
    pub(super) fn of(answer: &Message) -> Option<Self> {
        let body = answer.body.as_ref().filter(|_| !answer.is_error)?;
        let kind = body.get("resultType")?;
        (kind.as_str().as_deref() == Some(ASKS_TYPE)).then_some(())?;
        Some(Self {
            requests: body
                .get("inputRequests")
                .unwrap_or_else(|| Object::new().text()),
            state: body.get("requestState"),
        })
    }

    /// The same as an answer.
    pub(super) fn answer(&self, id: Option<Text>) -> Message {
        let mut body = Object::new();
        body.set("resultType", Text::string(ASKS_TYPE));
        body.set("inputRequests", self.requests.clone());
        Message::response(id, body.text(), false)
    }

    /// The parameters of the next round: `params` as they were sent, with these answers.
    pub(super) fn next(&self, params: &Text, answers: Text) -> Option<Text> {
        let mut params = params.object()?;
        params.set("inputResponses", answers);
        match &self.state {
            Some(state) => params.set("requestState", state.clone()),
            None => drop(params.remove("requestState")),
        }
        Some(params.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn asking(count: usize) -> Text {
        let names = (0..count).map(|nth| (nth.to_string(), json!({ "method": "roots/list" })));
        Text::of(&Value::Object(names.collect()))
    }

    /// A round asks something, and no more than is kept; answers to it come one by one, and those to
    /// nothing are nobody's.
    #[test]
    fn a_round_has_bounds() {
        assert!(TaskRound::of(&asking(0)).is_none());
        assert!(TaskRound::of(&asking(MAX_QUESTIONS + 1)).is_none());
        assert!(TaskRound::of(&Text::bool(true)).is_none());
        let (mut round, mut answers) = TaskRound::of(&asking(MAX_QUESTIONS)).unwrap();
        let long = Text::of(&json!({ "0": { "content": "x".repeat(MAX_ANSWER_BYTES) } }));
        assert_eq!(round.take(&long), TakenAnswers::TooMuch);
        assert_eq!(round.open(), asking(MAX_QUESTIONS));
        for wrong in [
            json!(null),
            json!([]),
            json!({ "0": null }),
            json!({ "1": {}, "0": 5 }),
        ] {
            assert_eq!(round.take(&Text::of(&wrong)), TakenAnswers::NoAnswers);
            assert_eq!(round.open(), asking(MAX_QUESTIONS), "{wrong}");
        }
        let foreign = Text::of(&json!({ "64": "x".repeat(MAX_ANSWER_BYTES) }));
        assert_eq!(round.take(&foreign), TakenAnswers::Taken);
        for nth in 0..MAX_QUESTIONS {
            assert!(!round.is_answered() && answers.try_recv().is_err());
            let answer = Text::of(&json!({ nth.to_string(): { "roots": [] } }));
            assert_eq!(round.take(&answer), TakenAnswers::Taken);
        }
        assert!(round.is_answered());
        let all = answers.try_recv().unwrap().object().unwrap();
        assert_eq!(all.iter().count(), MAX_QUESTIONS);
    }
}
