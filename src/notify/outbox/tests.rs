//! What is told follows from the journal, whenever toolgate ends; nobody is told what they need not
//! hear.

use super::followed::FollowedCall;
use super::{MAX_WAITING_OF_RECEIVER, NoticeOutcome, Outbox, TELL_MILLIS_MAX};
use crate::model::digest::Digest;
use crate::notify::notice::{Notice, NoticeKind, NoticeSubject};
use crate::notify::receiver::{EscalationStep, NoticeReceiver, QuietHours, ReceiverAbsence};
use crate::notify::tests::{MIDNIGHT, action, decided, held, hold, key, receiver, settled};
use crate::store::state::Millis;
use crate::store::state::claim::{ClaimPhase, Stored};
use crate::store::state::event::StoreEvent;
use crate::store::tests::same::SplitMixRng;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Takes an event in, and queues what it says.
fn take(outbox: &mut Outbox, event: &StoreEvent, receivers: &[NoticeReceiver], now: Millis) {
    if let Some(notice) = outbox.take(event) {
        outbox.tell(&notice, receivers, now);
    }
}

/// What a receiver is told, if it takes everything at once.
fn all(outbox: &mut Outbox, receiver: &str, now: Millis) -> Vec<Notice> {
    let mut told = Vec::new();
    while let Ok((notice, _)) = outbox.next_for(receiver, now) {
        outbox.delivered(&notice.id, receiver);
        told.push(notice);
    }
    told
}

fn states(told: &[Notice]) -> Vec<String> {
    let one = |notice: &Notice| format!("{} {}", notice.kind.word(), notice.state);
    told.iter().map(one).collect()
}

/// Ten held calls, decided one way or the other: what the journal says of them.
fn journal() -> Vec<StoreEvent> {
    let asked = (0..10).map(|number| held(number, MIDNIGHT + u64::from(number)));
    let said = (0..10).map(|number| decided(number, MIDNIGHT + 1_000, number % 2 == 0));
    asked.chain(said).collect()
}

/// Receivers that lose three of ten things they are told, a process that is killed at any moment
/// and starts again from what it had kept, at any moment, too: each receiver hears of everything at least
/// once, under the same ids.
#[test]
fn everything_is_told_whenever_toolgate_is_killed() {
    let receivers = [receiver("one"), receiver("two")];
    let journal = journal();
    for seed in 0..200 {
        let mut dice = SplitMixRng::new(seed);
        let mut kept = serde_json::to_string(&Outbox::starting(0)).unwrap();
        let mut outbox = Outbox::starting(0);
        let mut heard: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut now = MIDNIGHT + 2_000;
        for _ in 0..2_000 {
            now += 1_000;
            match dice.roll(10) {
                0 => outbox = serde_json::from_str(&kept).unwrap(),
                1 | 2 => kept = serde_json::to_string(&outbox).unwrap(),
                3..=5 => {
                    let next = usize::try_from(outbox.after).unwrap();
                    if let Some(event) = journal.get(next) {
                        take(&mut outbox, event, &receivers, now);
                        outbox.after += 1;
                    }
                }
                _ => {
                    let to = ["one", "two"][usize::try_from(dice.roll(2)).unwrap()];
                    let Ok((notice, _)) = outbox.next_for(to, now) else {
                        continue;
                    };
                    if dice.roll(10) < 3 {
                        outbox.failed(&notice.id, to, now, Duration::from_secs(1));
                    } else {
                        heard.entry(to).or_default().insert(notice.id.clone());
                        outbox.delivered(&notice.id, to);
                    }
                }
            }
        }
        let expected: BTreeSet<String> = (0..10)
            .flat_map(|number| {
                ["requested", "decided"].map(|kind| format!("{}.{kind}", action(number)))
            })
            .collect();
        for to in ["one", "two"] {
            assert_eq!(heard[to], expected, "seed {seed}, {to}");
        }
    }
}

/// Of a held call that time ends, or that was allowed and did not run.
#[test]
fn time_tells_of_what_nobody_decided_and_of_what_did_not_run() {
    let receivers = [receiver("ops")];
    let mut outbox = Outbox::starting(0);
    take(&mut outbox, &held(1, MIDNIGHT), &receivers, MIDNIGHT);
    take(&mut outbox, &held(2, MIDNIGHT), &receivers, MIDNIGHT);
    take(
        &mut outbox,
        &decided(2, MIDNIGHT + 5_000, true),
        &receivers,
        MIDNIGHT + 5_000,
    );
    assert!(outbox.overdue(MIDNIGHT + 64_999).is_empty());
    assert_eq!(outbox.overdue(MIDNIGHT + 65_000), [action(2)]);
    let lapsed = outbox.over(action(2)).unwrap();
    assert_eq!(
        (lapsed.state.as_str(), lapsed.at),
        ("lapsed", MIDNIGHT + 65_000)
    );
    // It was given more time.
    outbox.goes_on(action(1), MIDNIGHT + 900_000);
    assert!(outbox.overdue(MIDNIGHT + 600_000).is_empty());
    assert_eq!(outbox.overdue(MIDNIGHT + 900_000), [action(1)]);
    let expired = outbox.over(action(1)).unwrap();
    assert_eq!(
        (expired.state.as_str(), expired.at),
        ("expired", MIDNIGHT + 900_000)
    );
    assert!(outbox.followed.is_empty());
    assert_eq!(
        states(&all(&mut outbox, "ops", MIDNIGHT + 900_000)),
        ["requested pending", "requested pending", "decided allowed"]
    );
}

/// A call is told of once, however often the journal says that it is held.
#[test]
fn what_is_followed_is_not_asked_again() {
    let receivers = [receiver("ops")];
    let mut outbox = Outbox::starting(0);
    take(&mut outbox, &held(1, MIDNIGHT), &receivers, MIDNIGHT);
    assert_eq!(all(&mut outbox, "ops", MIDNIGHT).len(), 1);
    take(&mut outbox, &held(1, MIDNIGHT), &receivers, MIDNIGHT);
    assert!(all(&mut outbox, "ops", MIDNIGHT).is_empty());
}

/// In the place of a receiver whose operator is away, those of the delegate are told, each once, until the
/// time is over; where there are none, nobody is.
#[test]
fn who_is_away_is_told_nothing() {
    let away = |instead: &[&str]| {
        Some(ReceiverAbsence {
            until: MIDNIGHT + 1_000,
            instead: instead.iter().map(ToString::to_string).collect(),
        })
    };
    let gone = NoticeReceiver {
        away: away(&["bert", "phone"]),
        ..receiver("gone")
    };
    let nobodys = NoticeReceiver {
        away: away(&[]),
        ..receiver("nobodys")
    };
    let deaf = |name| NoticeReceiver {
        events: Vec::new(),
        ..receiver(name)
    };
    let receivers = [gone, nobodys, receiver("bert"), deaf("phone")];
    for (at, told) in [(MIDNIGHT, [0, 0, 1, 1]), (MIDNIGHT + 1_000, [1, 1, 1, 0])] {
        let mut outbox = Outbox::starting(0);
        let notice = outbox.take(&held(1, MIDNIGHT)).unwrap();
        outbox.tell(&notice, &receivers, at);
        let names = ["gone", "nobodys", "bert", "phone"];
        let heard = names.map(|name| all(&mut outbox, name, at).len());
        assert_eq!(heard, told, "{at}");
    }
}

/// What happens in quiet hours is not told then, and not later; a dear effect is told all the same.
/// Roles narrow who is told.
#[test]
fn quiet_hours_suppress_and_roles_narrow() {
    let quiet = Some(QuietHours {
        from: 22 * 60,
        to: 7 * 60,
        clock: jiff::tz::TimeZone::UTC,
    });
    let asleep = NoticeReceiver {
        quiet: quiet.clone(),
        ..receiver("asleep")
    };
    let pierce = vec!["pay".to_owned()];
    let pierced = NoticeReceiver {
        quiet,
        pierce,
        ..receiver("pierced")
    };
    let other = NoticeReceiver {
        roles: vec!["sre".to_owned()],
        ..receiver("other")
    };
    let theirs = NoticeReceiver {
        roles: vec!["sre".to_owned(), "finance".to_owned()],
        ..receiver("theirs")
    };
    let receivers = [asleep, pierced, other, theirs];
    let mut outbox = Outbox::starting(0);
    let notice = outbox.take(&held(1, MIDNIGHT)).unwrap();
    let told = outbox.tell(&notice, &receivers, MIDNIGHT);
    assert_eq!(told, [("asleep".to_owned(), NoticeOutcome::Quiet)]);
    let morning = MIDNIGHT + 8 * 3_600_000;
    for (name, heard) in [("asleep", 0), ("pierced", 1), ("other", 0), ("theirs", 1)] {
        assert_eq!(all(&mut outbox, name, morning).len(), heard, "{name}");
    }
}

/// While nobody decides, others are told, once for each step; not of what is decided.
#[test]
fn what_nobody_decides_is_told_to_others() {
    let step = |minutes: u64, to: &str| EscalationStep {
        after: Duration::from_secs(60 * minutes),
        to: vec![to.to_owned()],
    };
    let first = NoticeReceiver {
        escalate: vec![step(2, "lead"), step(5, "chief")],
        ..receiver("ops")
    };
    let silent = |name| NoticeReceiver {
        events: Vec::new(),
        ..receiver(name)
    };
    let receivers = [first, silent("lead"), silent("chief")];
    let mut outbox = Outbox::starting(0);
    take(&mut outbox, &held(1, MIDNIGHT), &receivers, MIDNIGHT);
    take(&mut outbox, &held(2, MIDNIGHT), &receivers, MIDNIGHT);
    assert_eq!(outbox.escalate(&receivers, MIDNIGHT + 119_999), None);
    assert_eq!(
        outbox.escalate(&receivers, MIDNIGHT + 120_000),
        Some(Vec::new())
    );
    // A restart between two steps tells nobody again.
    let kept = serde_json::to_string(&outbox).unwrap();
    let mut outbox: Outbox = serde_json::from_str(&kept).unwrap();
    assert_eq!(outbox.escalate(&receivers, MIDNIGHT + 150_000), None);
    take(
        &mut outbox,
        &decided(2, MIDNIGHT + 200_000, false),
        &receivers,
        MIDNIGHT + 200_000,
    );
    assert_eq!(
        outbox.escalate(&receivers, MIDNIGHT + 300_000),
        Some(Vec::new())
    );
    let now = MIDNIGHT + 300_000;
    let lead = all(&mut outbox, "lead", now);
    let ids: BTreeSet<&str> = lead.iter().map(|notice| notice.id.as_str()).collect();
    assert_eq!(ids.len(), 2);
    assert!(
        ids.contains(format!("{}.escalated.120", action(1)).as_str()),
        "{ids:?}"
    );
    let chief = all(&mut outbox, "chief", now);
    assert_eq!(chief.len(), 1);
    assert_eq!(chief[0].id, format!("{}.escalated.300", action(1)));
    assert_eq!(outbox.escalate(&receivers, MIDNIGHT + 700_000), None);
}

/// A receiver that takes nothing is tried for a day; another one is told meanwhile.
#[test]
fn what_nobody_takes_has_bounds() {
    let receivers = [receiver("dead"), receiver("alive")];
    let mut outbox = Outbox::starting(0);
    take(&mut outbox, &held(1, MIDNIGHT), &receivers, MIDNIGHT);
    let (notice, tries) = outbox.next_for("dead", MIDNIGHT).unwrap();
    assert_eq!(tries, 0);
    let pause = Duration::from_hours(1);
    let failed = |outbox: &mut Outbox, now| outbox.failed(&notice.id, "dead", now, pause);
    assert_eq!(failed(&mut outbox, MIDNIGHT), NoticeOutcome::Failed);
    assert_eq!(
        outbox.next_for("dead", MIDNIGHT),
        Err(Some(MIDNIGHT + 3_600_000))
    );
    assert_eq!(all(&mut outbox, "alive", MIDNIGHT).len(), 1);
    let late = MIDNIGHT + TELL_MILLIS_MAX;
    assert_eq!(failed(&mut outbox, late), NoticeOutcome::Dropped);
    assert_eq!(outbox.next_for("dead", late + 3_600_000), Err(None));
    // What happened more than a day ago is not told any more.
    let mut outbox = Outbox::starting(0);
    take(
        &mut outbox,
        &held(1, MIDNIGHT),
        &receivers,
        MIDNIGHT + TELL_MILLIS_MAX,
    );
    assert_eq!(outbox.next_for("dead", MIDNIGHT), Err(None));
}

/// Something about the call `number` of `agent`; of calls that nobody follows.
fn of(agent: &str, kind: NoticeKind, number: usize) -> Notice {
    let mut about = NoticeSubject::held(&hold(1, MIDNIGHT));
    (about.id, about.agent) = (format!("{agent}-{number}"), agent.to_owned());
    about.notice(kind, MIDNIGHT, "pending")
}

/// The same, of a call that waits.
fn asks(outbox: &mut Outbox, agent: &str, number: usize) -> Notice {
    let notice = of(agent, NoticeKind::Requested, number);
    if outbox.followed.is_empty() {
        outbox.take(&held(1, MIDNIGHT)).unwrap();
    }
    let call = outbox.followed.values().next().unwrap().clone();
    outbox.followed.insert(notice.about.id.clone(), call);
    notice
}

/// threat-model §3E: one agent that asks without end, at a receiver that takes nothing, hides neither what others
/// ask nor what has waited for long; what asks in vain gives way.
#[test]
fn one_agent_cannot_silence_others() {
    let receivers = [receiver("dead")];
    let mut outbox = Outbox::starting(0);
    let mut asked = Vec::new();
    let queue = |outbox: &mut Outbox, notice: &Notice| {
        let told = outbox.tell(notice, &receivers, MIDNIGHT);
        told.first().map(|(_, outcome)| *outcome)
    };
    let dropped = Some(NoticeOutcome::Dropped);
    for number in 0..300 {
        let notice = asks(&mut outbox, "loud", number);
        let came = queue(&mut outbox, &notice);
        assert_eq!(came, if number < 64 { None } else { dropped }, "{number}");
        asked.push(notice);
    }
    let quiet = asks(&mut outbox, "quiet", 0);
    assert_eq!(queue(&mut outbox, &quiet), None);
    for number in 0..300 {
        let notice = of("loud", NoticeKind::Unknown, number);
        let came = queue(&mut outbox, &notice);
        assert_eq!(came, if number < 128 { None } else { dropped }, "{number}");
    }
    for number in 0..300 {
        let notice = asks(&mut outbox, &format!("other-{number}"), 0);
        let came = queue(&mut outbox, &notice);
        let places = MAX_WAITING_OF_RECEIVER - MAX_WAITING_OF_RECEIVER / 8 - 64 - 128 - 1;
        assert_eq!(
            came,
            if number < places { None } else { dropped },
            "{number}"
        );
    }
    let listens = NoticeReceiver {
        events: vec![NoticeKind::Escalated],
        ..receiver("dead")
    };
    let escalated = of("quiet", NoticeKind::Escalated, 0);
    let told = outbox.tell(&escalated, &[listens], MIDNIGHT);
    assert!(told.is_empty(), "a place was kept for it: {told:?}");
    // A call of the loud one is over, and another asks in its place.
    outbox.followed.remove(&asked[0].about.id);
    let more = asks(&mut outbox, "loud", 300);
    assert_eq!(
        queue(&mut outbox, &more),
        dropped,
        "that of the call that is over"
    );
    let heard: BTreeSet<String> = all(&mut outbox, "dead", MIDNIGHT)
        .into_iter()
        .map(|notice| notice.id)
        .collect();
    for notice in [&quiet, &escalated, &more, &asked[1]] {
        assert!(heard.contains(&notice.id), "{}", notice.id);
    }
    assert!(!heard.contains(&asked[0].id) && !heard.contains(&asked[64].id));
}

/// A call that was allowed and whose tool asked something has run: nothing more is followed of it.
#[test]
fn a_call_whose_tool_asks_is_followed_no_longer() {
    let ends = [
        (awaiting(), Some("awaiting_input")),
        (ClaimPhase::Abandoned, None),
        (ClaimPhase::NotSent, Some("failed")),
    ];
    for (phase, told) in ends {
        let mut outbox = Outbox::starting(0);
        outbox.take(&held(1, MIDNIGHT)).unwrap();
        outbox.take(&decided(1, MIDNIGHT + 1, true)).unwrap();
        outbox.begins(key(1), action(7));
        assert!(outbox.is_running(action(7)));
        let notice = outbox.take(&settled(7, MIDNIGHT + 2, phase));
        assert_eq!(notice.map(|notice| notice.state).as_deref(), told);
        assert!(outbox.followed.is_empty(), "{told:?}");
    }
}

fn awaiting() -> ClaimPhase {
    ClaimPhase::AwaitingInput {
        round: 1,
        asked: Stored {
            is_error: false,
            size: 2,
            digest: Digest::of(b"{}"),
            in_file: false,
            sealed: None,
            body: Bytes::from_static(b"{}"),
        },
        is_task: false,
    }
}

/// Nothing of what the call says is kept, but for what its contract marks.
#[test]
fn no_argument_is_kept_unless_it_is_marked() {
    let receivers = [receiver("ops")];
    let mut outbox = Outbox::starting(0);
    take(&mut outbox, &held(1, MIDNIGHT), &receivers, MIDNIGHT);
    let followed: Vec<&FollowedCall> = outbox.followed.values().collect();
    assert_eq!(
        followed[0].about.marked,
        [["/amount".to_owned(), "12500".to_owned()]]
    );
    let kept = serde_json::to_string(&outbox).unwrap();
    assert!(
        !kept.contains("the-secret-argument") && !kept.contains("DE89"),
        "{kept}"
    );
}
