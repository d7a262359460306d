//! The five stories, what each promises, and whether what was seen is that. The numbers of an evidence come from the
//! tool servers' own files and from the ledger, its words from what the agent read: nothing here is asked of what is
//! judged.

use serde::Serialize;

/// How often the loop of the third story calls.
pub(super) const LOOP_CALLS: usize = 8;
/// How often the demo's policy lets it (`max_calls_per_task`).
pub(super) const LOOP_BUDGET: usize = 3;
/// What an agent reads whose connection breaks.
pub(super) const NO_ANSWER: &str = "no answer";

/// One of the stories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DemoStory {
    LostAnswer,
    Killed,
    Loop,
    WrongTenant,
    Deletion,
}

/// What a person said of the deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PersonWord {
    Allowed,
    Denied,
    /// Nothing, in time.
    Nothing,
}

/// What came of a story.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct StoryEvidence {
    /// How often the tool ran where the agent called the tool server itself.
    pub without: usize,
    /// And where toolgate stood between.
    pub with: usize,
    /// How often it had run when a person was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_word: Option<usize>,
    /// What that person said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<PersonWord>,
    /// What the tool server made, and what the agent read of it in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made: Option<String>,
    /// The same as the agent read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_of_it: Option<String>,
    /// What the agent read through toolgate, a word for each call.
    pub agent: Vec<String>,
    /// What the ledger says, a word for each call.
    pub ledger: Vec<String>,
}

/// What a story promises.
struct StoryPromise {
    without: usize,
    with: usize,
    agent: Vec<&'static str>,
    ledger: Vec<&'static str>,
}

impl DemoStory {
    /// All of them, in order.
    pub(super) const ALL: [Self; 5] = [
        Self::LostAnswer,
        Self::Killed,
        Self::Loop,
        Self::WrongTenant,
        Self::Deletion,
    ];

    /// Its number, from 1.
    pub(super) fn number(self) -> usize {
        match self {
            Self::LostAnswer => 1,
            Self::Killed => 2,
            Self::Loop => 3,
            Self::WrongTenant => 4,
            Self::Deletion => 5,
        }
    }

    /// What happens, at most 46 columns.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LostAnswer => "An answer is lost, and the call comes again",
            Self::Killed => "kill -9 between effect and answer",
            Self::Loop => "A loop meets its budget",
            Self::WrongTenant => "A call about another tenant",
            Self::Deletion => "A deletion waits for a person",
        }
    }

    /// The tool that it is about; no other story calls it.
    pub(super) fn tool(self) -> &'static str {
        match self {
            Self::LostAnswer => "create_invoice",
            Self::Killed => "refund",
            Self::Loop => "send_reminder",
            Self::WrongTenant => "list_customers",
            Self::Deletion => "delete_customer",
        }
    }

    /// What was shown, where it was.
    pub(super) fn shown(self, person: Option<PersonWord>) -> &'static str {
        match (self, person) {
            (Self::LostAnswer, _) => "ran once, and the agent has its answer",
            (Self::Killed, _) => "ran once, and is not sent again without proof or a person",
            (Self::Loop, _) => "ran as often as the contract lets a task",
            (Self::WrongTenant, _) => "never reached the tool server",
            (Self::Deletion, Some(PersonWord::Allowed)) => "ran once, after a person allowed it",
            (Self::Deletion, Some(PersonWord::Denied)) => "never ran: a person denied it",
            (Self::Deletion, _) => "never ran: nobody allowed it",
        }
    }

    /// The same in a word or two.
    pub(super) fn noted(self, person: Option<PersonWord>) -> &'static str {
        match (self, person) {
            (Self::LostAnswer, _) => "same answer",
            (Self::Killed, _) => "told honestly",
            (Self::Loop, _) => "in its budget",
            (Self::WrongTenant, _) => "refused",
            (Self::Deletion, Some(PersonWord::Allowed)) => "after a yes",
            (Self::Deletion, Some(PersonWord::Denied)) => "after a no",
            (Self::Deletion, _) => "without a yes",
        }
    }

    /// How many calls of it the ledger will have.
    pub(super) fn entries(self) -> usize {
        self.promise(None).ledger.len()
    }

    fn promise(self, person: Option<PersonWord>) -> StoryPromise {
        let (without, with, agent, ledger) = match (self, person) {
            (Self::LostAnswer, _) => {
                let ledger = vec!["answered", "replayed"];
                (2, 1, vec![NO_ANSWER, "replayed"], ledger)
            }
            (Self::Killed, _) => {
                let agent = vec![NO_ANSWER, "outcome_unknown"];
                (2, 1, agent, vec!["unknown", "outcome_unknown"])
            }
            (Self::Loop, _) => {
                let mut words = vec!["answered"; LOOP_BUDGET];
                words.resize(LOOP_CALLS, "budget_calls_exceeded");
                (LOOP_CALLS, LOOP_BUDGET, words.clone(), words)
            }
            (Self::WrongTenant, _) => (1, 0, vec!["tenant_mismatch"], vec!["tenant_mismatch"]),
            (Self::Deletion, Some(PersonWord::Allowed)) => {
                (1, 1, vec!["answered"], vec!["answered"])
            }
            (Self::Deletion, Some(PersonWord::Denied)) => {
                (1, 0, vec!["approval_denied"], vec!["approval_denied"])
            }
            (Self::Deletion, _) => (1, 0, vec!["approval_timeout"], vec!["approval_timeout"]),
        };
        StoryPromise {
            without,
            with,
            agent,
            ledger,
        }
    }

    /// What is not as promised, if anything is.
    pub(super) fn broken(self, seen: &StoryEvidence) -> Option<String> {
        let promise = self.promise(seen.person);
        let tool = self.tool();
        if seen.with != promise.with {
            let (ran, expected) = (times(seen.with), times(promise.with));
            return Some(format!("{tool} ran {ran} instead of {expected}"));
        }
        if seen.without != promise.without {
            let (ran, expected) = (times(seen.without), times(promise.without));
            return Some(format!(
                "called directly, {tool} ran {ran} instead of {expected}"
            ));
        }
        if seen.agent != promise.agent {
            let (read, expected) = (seen.agent.join(", "), promise.agent.join(", "));
            return Some(format!("the agent read {read}, and not {expected}"));
        }
        if seen.ledger != promise.ledger {
            let (said, expected) = (seen.ledger.join(", "), promise.ledger.join(", "));
            return Some(format!("the ledger says {said}, and not {expected}"));
        }
        match self {
            Self::LostAnswer if seen.made.is_none() || seen.made != seen.read_of_it => {
                Some("the agent read another answer than the one that was lost".to_owned())
            }
            Self::Deletion if seen.before_word != Some(0) => {
                Some(format!("{tool} ran before a person had said anything"))
            }
            Self::Deletion if seen.person.is_none() => Some("no person was asked".to_owned()),
            Self::LostAnswer | Self::Killed | Self::Loop | Self::WrongTenant | Self::Deletion => {
                None
            }
        }
    }
}

/// How often, in words.
fn times(count: usize) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen where everything is as promised.
    fn as_promised(story: DemoStory, person: Option<PersonWord>) -> StoryEvidence {
        let promise = story.promise(person);
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let made = (story == DemoStory::LostAnswer).then(|| "inv_0001".to_owned());
        StoryEvidence {
            without: promise.without,
            with: promise.with,
            before_word: (story == DemoStory::Deletion).then_some(0),
            person,
            read_of_it: made.clone(),
            made,
            agent: words(&promise.agent),
            ledger: words(&promise.ledger),
        }
    }

    /// Every story with everything that a person can say of it.
    fn cases() -> Vec<(DemoStory, Option<PersonWord>)> {
        let said = [PersonWord::Allowed, PersonWord::Denied, PersonWord::Nothing];
        let others = DemoStory::ALL.into_iter();
        let others = others.filter(|story| *story != DemoStory::Deletion);
        let others = others.map(|story| (story, None));
        let deletions = said.map(|word| (DemoStory::Deletion, Some(word)));
        others.chain(deletions).collect()
    }

    #[test]
    fn what_is_as_promised_is_not_broken() {
        for (story, person) in cases() {
            assert_eq!(story.broken(&as_promised(story, person)), None, "{story:?}");
        }
    }

    /// The verb checks: one run too many or too few, of either tool server, and it is told.
    #[test]
    fn a_wrong_count_breaks_each_story() {
        for (story, person) in cases() {
            let seen = as_promised(story, person);
            for (with, without) in [(1, 0), (0, 1)] {
                let more = StoryEvidence {
                    with: seen.with + with,
                    without: seen.without + without,
                    ..seen.clone()
                };
                let told = story.broken(&more).unwrap();
                assert!(told.contains(story.tool()), "{told}");
                let fewer = StoryEvidence {
                    with: seen.with.wrapping_sub(with),
                    without: seen.without.wrapping_sub(without),
                    ..seen.clone()
                };
                assert!(story.broken(&fewer).is_some(), "{story:?}");
            }
        }
    }

    /// So is a word that the agent or the ledger lacks, has too many, or says otherwise.
    #[test]
    fn a_wrong_word_breaks_each_story() {
        type Change = fn(&mut StoryEvidence);
        let changes: [Change; 6] = [
            |seen| drop(seen.agent.pop()),
            |seen| drop(seen.ledger.pop()),
            |seen| seen.agent.push("answered".to_owned()),
            |seen| seen.ledger.push("answered".to_owned()),
            |seen| "failed".clone_into(seen.agent.last_mut().unwrap()),
            |seen| "refused".clone_into(seen.ledger.last_mut().unwrap()),
        ];
        for (story, person) in cases() {
            for change in changes {
                let mut seen = as_promised(story, person);
                change(&mut seen);
                assert!(story.broken(&seen).is_some(), "{story:?} {seen:?}");
            }
        }
    }

    /// Another answer is no replay, though it is called one; and a deletion that ran before it was allowed was not
    /// held, though it ran once in the end.
    #[test]
    fn what_only_one_story_promises_breaks_it() {
        let lost = DemoStory::LostAnswer;
        for read_of_it in [Some("inv_0002".to_owned()), None] {
            let seen = StoryEvidence {
                read_of_it,
                ..as_promised(lost, None)
            };
            assert!(lost.broken(&seen).unwrap().contains("another answer"));
        }
        let nothing_made = StoryEvidence {
            made: None,
            read_of_it: None,
            ..as_promised(lost, None)
        };
        assert!(lost.broken(&nothing_made).is_some());
        let deletion = DemoStory::Deletion;
        for before_word in [Some(1), None] {
            let seen = StoryEvidence {
                before_word,
                ..as_promised(deletion, Some(PersonWord::Allowed))
            };
            assert!(deletion.broken(&seen).unwrap().contains("before a person"));
        }
        let unasked = StoryEvidence {
            person: None,
            ..as_promised(deletion, Some(PersonWord::Nothing))
        };
        assert_eq!(
            deletion.broken(&unasked).as_deref(),
            Some("no person was asked")
        );
    }

    /// A denied call that ran is the worst of all, whatever the agent was told.
    #[test]
    fn a_denied_call_that_ran_is_broken() {
        let seen = StoryEvidence {
            with: 1,
            ..as_promised(DemoStory::Deletion, Some(PersonWord::Denied))
        };
        let told = DemoStory::Deletion.broken(&seen).unwrap();
        assert_eq!(told, "delete_customer ran once instead of never");
    }

    #[test]
    fn stories_are_numbered_and_short() {
        for (number, story) in (1..).zip(DemoStory::ALL) {
            assert_eq!(story.number(), number);
            assert!(story.title().len() <= 46, "{}", story.title());
        }
    }
}
