//! What comes faster than each of it is worth an entry of the ledger (threat-model §13 F14, §3G
//! G7), of calls and of messages beside them: refusals, plans, answers that are given again,
//! outcomes that stay unknown, reads that fail. Beyond a rate, those of one agent for one tool,
//! with one code, of one earlier call and under one policy, are summed up. The sum is written as
//! one entry, which is that of the last of them, and says how many they were and when the first
//! was. Reads join them while the ledger has no room. What was sent and changes something is never
//! part of a sum.

use crate::model::clock::Clock;
use crate::model::entry::Entry;
use crate::model::rate::{Meter, Rate};
use crate::store::journal::{Extent, Item, Journal};
use crate::telemetry::metrics::{CallOutcome, Metrics};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How many of one kind have entries of their own.
const KIND_ENTRY_RATE: Rate = Rate {
    calls: 100,
    per: 60_000,
};
/// How many of one agent have.
const AGENT_ENTRY_RATE: Rate = Rate {
    calls: 1_000,
    per: 600_000,
};
/// Kinds of one agent that are told apart, by what an agent can choose of them: names that nobody
/// offers, of which more are summed up without the name; earlier calls, of which more are summed up
/// without saying which; and only offered tools. Each has room of its own: nobody hides one tool
/// behind made-up others.
const MAX_KINDS_PER_ROOM: [usize; 3] = [64, 64, 512];
/// What stands for several tools; no tool can have the name.
pub const SEVERAL_TOOLS: &str = "*";
/// How long a sum is added to before it is written.
const SUM_DURATION: Duration = Duration::from_mins(1);
/// How often that is looked at.
const SUM_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Writes what makes no promise into the ledger, by itself or summed up.
pub struct LedgerSums {
    journal: Arc<Journal>,
    metrics: Arc<Metrics>,
    clock: Clock,
    open: OpenSums,
}

/// The sums that are being made.
#[derive(Debug, Default)]
struct OpenSums(Mutex<BTreeMap<AgentAndTenant, AgentSums>>);

/// An agent, and its tenant.
type AgentAndTenant = (String, Option<String>);

/// What has to be the same in all that one entry stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SumKind {
    /// The user, where one was named.
    user: Option<String>,
    tool: String,
    /// Of what is no call.
    method: Option<String>,
    outcome: String,
    code: Option<String>,
    would_refuse: Option<String>,
    unasked: Vec<String>,
    is_error: Option<bool>,
    was_sent: bool,
    policy: String,
    /// To which earlier call it belongs: the one that holds the key, the one that was held, and the
    /// one that a look was about.
    of: [Option<String>; 4],
}

impl SumKind {
    fn of(entry: &Entry) -> Self {
        Self {
            user: entry.named_user().map(str::to_owned),
            tool: entry.tool.clone(),
            method: entry.method.clone(),
            outcome: entry.outcome.clone(),
            code: entry.aborted_reason.clone(),
            would_refuse: entry.would_refuse.clone(),
            unasked: entry.unasked.clone(),
            is_error: entry.is_error,
            was_sent: entry.attempts > 0,
            policy: entry.policy.clone(),
            of: [
                entry.claimed_by.clone(),
                entry.approval.clone(),
                entry.probe_of.clone(),
                entry.compensates.clone(),
            ],
        }
    }

    /// Whether it says of `entry` which tool it is of, and for whom.
    fn is_of(&self, entry: &Entry) -> bool {
        self.tool != SEVERAL_TOOLS && self.user.as_deref() == entry.named_user()
    }

    /// In which room it is told apart.
    fn room(&self, is_offered: bool) -> usize {
        match is_offered {
            false => 0,
            true if self.of.iter().any(Option::is_some) => 1,
            true => 2,
        }
    }
}

#[derive(Debug)]
struct AgentSums {
    pace: Meter,
    rooms: Rooms,
}

#[derive(Debug, Default)]
struct Rooms([BTreeMap<SumKind, Sum>; MAX_KINDS_PER_ROOM.len()]);

impl Rooms {
    /// The sum for what `entry` is, and whether it is for one tool of one user only.
    fn sum(&mut self, entry: &Entry) -> (&mut Sum, bool) {
        let (mut kind, is_offered) = (SumKind::of(entry), entry.schema_hash.is_some());
        if !self.has_room(&kind, is_offered) {
            kind.of = [None, None, None, None];
        }
        if !self.has_room(&kind, is_offered) || self.has_many_users(&kind, is_offered) {
            kind.user = None;
        }
        if !self.has_room(&kind, is_offered) {
            SEVERAL_TOOLS.clone_into(&mut kind.tool);
        }
        let is_one = kind.is_of(entry);
        let room = &mut self.0[kind.room(is_offered)];
        (
            room.entry(kind).or_insert_with(|| Sum {
                pace: Meter::new(KIND_ENTRY_RATE),
                begun: None,
            }),
            is_one,
        )
    }

    /// Users are names that an agent makes up: half of a room is for kinds that name none.
    fn has_many_users(&self, kind: &SumKind, is_offered: bool) -> bool {
        let room = kind.room(is_offered);
        kind.user.is_some()
            && self.0[room].len() >= MAX_KINDS_PER_ROOM[room] / 2
            && !self.0[room].contains_key(kind)
    }

    fn has_room(&self, kind: &SumKind, is_offered: bool) -> bool {
        let room = kind.room(is_offered);
        self.0[room].len() < MAX_KINDS_PER_ROOM[room] || self.0[room].contains_key(kind)
    }
}

#[derive(Debug)]
struct Sum {
    pace: Meter,
    begun: Option<BegunSum>,
}

#[derive(Debug)]
struct BegunSum {
    /// Steady time since when it is added to.
    since: Duration,
    first: String,
    count: u64,
    last: Box<Entry>,
}

impl OpenSums {
    /// Gives `entry` back if it is to be written by itself, at `now`; else it is part of a sum.
    /// `lean`: nothing is.
    fn take(&self, entry: Box<Entry>, now: Duration, lean: bool) -> Option<Box<Entry>> {
        let mut agents = self.0.lock();
        let whose = (entry.agent().to_owned(), entry.tenant_id.clone());
        let agent = agents.entry(whose).or_insert_with(|| AgentSums {
            pace: Meter::new(AGENT_ENTRY_RATE),
            rooms: Rooms::default(),
        });
        let (sum, is_one) = agent.rooms.sum(&entry);
        if let Some(begun) = &mut sum.begun {
            begun.count += 1;
            begun.last = entry;
        } else if !lean && is_one && sum.pace.take(now).is_ok() && agent.pace.take(now).is_ok() {
            return Some(entry);
        } else {
            sum.begun = Some(BegunSum {
                since: now,
                first: entry.time.clone(),
                count: 1,
                last: entry,
            });
        }
        None
    }

    /// The sums that are to be written at `now`; `all`: at the end of the process.
    fn drain(&self, now: Duration, all: bool) -> Vec<Entry> {
        let mut agents = self.0.lock();
        let mut drained = Vec::new();
        agents.retain(|_, agent| {
            for room in &mut agent.rooms.0 {
                room.retain(|kind, sum| {
                    let is_due = |begun: &mut BegunSum| {
                        all || now.saturating_sub(begun.since) >= SUM_DURATION
                    };
                    drained.extend(sum.begun.take_if(is_due).map(|begun| begun.entry(kind)));
                    sum.begun.is_some() || !sum.pace.is_unused(now)
                });
            }
            agent.rooms.0.iter().any(|room| !room.is_empty()) || !agent.pace.is_unused(now)
        });
        drained
    }
}

impl BegunSum {
    fn entry(self, kind: &SumKind) -> Entry {
        let Self {
            first, count, last, ..
        } = self;
        let (is_one, agent) = (kind.is_of(&last), last.agent().to_owned());
        let mut sum = Entry {
            tool: kind.tool.clone(),
            ..*last
        };
        if kind.user.is_none() {
            sum.agent_id = None;
            sum.user_id = agent;
        }
        if count == 1 && is_one {
            sum
        } else {
            Entry {
                count: Some(count),
                first_time: Some(first),
                ..sum
            }
        }
    }
}

/// How something is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteMode {
    /// As an entry.
    Alone,
    /// As an entry, as long as it does not come too fast.
    Rated,
    /// As part of a sum.
    Summed,
}

impl WriteMode {
    /// `lean`: the ledger has room only for what belongs to promises.
    fn of(entry: &Entry, outcome: CallOutcome, lean: bool, reads: impl Fn() -> bool) -> Self {
        let (unsent, is_held) = (entry.attempts == 0, entry.claimed_by.is_some());
        let costs_nothing = match outcome {
            CallOutcome::Refused | CallOutcome::Planned => unsent,
            CallOutcome::Answered | CallOutcome::Unknown => unsent && is_held,
            CallOutcome::Failed => unsent || reads(),
        };
        // What belongs to an earlier call is not the first to go.
        let is_spared = is_held || entry.approval.is_some() || outcome == CallOutcome::Unknown;
        match (costs_nothing, lean && !is_spared) {
            (true, true) => Self::Summed,
            (true, false) => Self::Rated,
            (false, true) if reads() => Self::Summed,
            (false, _) => Self::Alone,
        }
    }
}

impl LedgerSums {
    /// Of `journal`, with nothing summed up yet.
    pub fn new(journal: Arc<Journal>, metrics: Arc<Metrics>) -> Self {
        Self {
            journal,
            metrics,
            clock: Clock::default(),
            open: OpenSums::default(),
        }
    }

    /// Records what a message beside calls made no promise with: by itself, or as part of a sum.
    pub fn enter(&self, entry: Box<Entry>, outcome: CallOutcome) {
        self.enter_call(entry, Vec::new(), outcome, || true);
    }

    /// Records what made no promise: by itself with its `contents`, or as part of a sum. `reads`:
    /// whether it changes nothing.
    pub fn enter_call(
        &self,
        entry: Box<Entry>,
        contents: Vec<Item>,
        outcome: CallOutcome,
        reads: impl Fn() -> bool,
    ) {
        let lean = self.journal.extent() >= Extent::Lean;
        let entry = match WriteMode::of(&entry, outcome, lean, reads) {
            WriteMode::Alone => return self.record_with(*entry, contents),
            WriteMode::Rated => self.open.take(entry, self.clock.steady(), false),
            WriteMode::Summed => self.open.take(entry, self.clock.steady(), true),
        };
        // A sum has the arguments of none of its calls.
        if let Some(entry) = entry {
            let contents = if entry.count.is_none() {
                contents
            } else {
                Vec::new()
            };
            self.record_with(*entry, contents);
        }
    }

    /// Writes sums when they are due, until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        while tokio::time::timeout(SUM_CHECK_INTERVAL, stop.cancelled())
            .await
            .is_err()
        {
            self.write(false);
        }
    }

    /// Writes the sums that are due, or all.
    pub fn write(&self, all: bool) {
        for entry in self.open.drain(self.clock.steady(), all) {
            self.record(entry);
        }
    }

    /// Writes an entry with what is kept beside it, or neither.
    fn record_with(&self, entry: Entry, mut contents: Vec<Item>) {
        if contents.is_empty() {
            return self.record(entry);
        }
        contents.push(entry.into());
        if self.journal.append_unless_crowded(contents).is_err() {
            self.metrics.ledger_dropped(1);
        }
    }

    fn record(&self, entry: Entry) {
        let count = entry.count.unwrap_or(1);
        if self.journal.record(entry).is_err() {
            self.metrics.ledger_dropped(count);
        }
    }
}

#[cfg(test)]
mod tests;
