//! Who is told of what, and when.

use super::notice::{IRREVERSIBLE_EFFECT, Notice, NoticeKind};
use crate::model::secret::Secret;
use crate::store::state::Millis;
use crate::upstream::mail::MailRoute;
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::time::Duration;

const MINUTES_OF_A_DAY: i64 = 24 * 60;

/// A program or a channel that is told.
#[derive(Debug, Clone)]
pub(crate) struct NoticeReceiver {
    /// Its name in the configuration.
    pub name: String,
    /// Where it is.
    pub uri: Uri,
    /// In which form it is told.
    pub template: NoticeTemplate,
    /// What it is told of.
    pub events: Vec<NoticeKind>,
    /// What signs what it is told.
    pub key: Option<Secret>,
    /// Headers of each request.
    pub headers: HeaderMap,
    /// Only of calls that operators with one of these roles may decide; without any, of all.
    pub roles: Vec<String>,
    /// When it is not told.
    pub quiet: Option<QuietHours>,
    /// Of calls with one of these effects it is told all the same.
    pub pierce: Vec<String>,
    /// Who else is told while nobody decides.
    pub escalate: Vec<EscalationStep>,
    /// Whose it is alone.
    pub operator: Option<String>,
    /// Who is told in its place while that operator is away.
    pub away: Option<ReceiverAbsence>,
    /// The way to it by mail, where it is told so.
    pub mail: Option<MailRoute>,
    /// Whether it may be at a private address.
    pub is_near: bool,
    /// How long it may take.
    pub timeout: Duration,
}

/// The form in which a receiver is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeTemplate {
    /// Plain JSON, signed.
    Generic,
    /// Slack's incoming webhooks, and those of Mattermost.
    Slack,
    /// A card for Teams.
    Teams,
    /// Discord's webhooks.
    Discord,
    /// A topic of ntfy.
    Ntfy,
    /// Mail.
    Email,
}

/// Who is told in the place of a receiver whose operator is away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceiverAbsence {
    /// Until when, in milliseconds since 1970.
    pub until: Millis,
    /// Names of receivers; none: nobody.
    pub instead: Vec<String>,
}

/// A part of each day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuietHours {
    /// The minute of the day at which it begins.
    pub from: i64,
    /// The minute at which it ends; before `from`, on the next day.
    pub to: i64,
    /// The clock there.
    pub clock: TimeZone,
}

/// Who else is told of a call that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EscalationStep {
    /// When it has waited for so long.
    pub after: Duration,
    /// Names of receivers.
    pub to: Vec<String>,
}

impl NoticeReceiver {
    /// Whether it is told of it at all.
    pub(super) fn hears(&self, notice: &Notice) -> bool {
        let about = &notice.about;
        let is_theirs = !about.is_held
            || self.roles.is_empty()
            || self.roles.iter().any(|role| about.roles.contains(role));
        self.events.contains(&notice.kind) && is_theirs
    }

    /// Who is told in its place at `now`, where its operator is away.
    pub(super) fn instead(&self, now: Millis) -> Option<&[String]> {
        let away = self.away.as_ref().filter(|away| now < away.until)?;
        Some(&away.instead)
    }

    /// Whether it is left alone with it at `now`.
    pub(super) fn is_quiet(&self, notice: &Notice, now: Millis) -> bool {
        let effects = &notice.about.effects;
        let pierces = self.pierce.iter().any(|effect| effects.contains(effect));
        !pierces && self.quiet.as_ref().is_some_and(|quiet| quiet.holds(now))
    }
}

impl QuietHours {
    /// Whether `now` is in it.
    pub(super) fn holds(&self, now: Millis) -> bool {
        let at = i64::try_from(now).ok();
        let at = at.and_then(|at| Timestamp::from_millisecond(at).ok());
        let ahead = at.map_or(0, |at| i64::from(self.clock.to_offset(at).seconds()) / 60);
        let minutes = i64::try_from(now / 60_000).unwrap_or(0) + ahead;
        let minute = minutes.rem_euclid(MINUTES_OF_A_DAY);
        if self.from <= self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

/// Effects that can be named under `pierce`.
pub(crate) fn is_effect(word: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    word == IRREVERSIBLE_EFFECT || (!word.is_empty() && word.bytes().all(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::Offset;

    /// Its nights are those of its clock, in summer and in winter.
    #[test]
    fn quiet_hours_follow_summer_time() {
        let night = QuietHours {
            from: 22 * 60,
            to: 7 * 60,
            clock: TimeZone::get("Europe/Berlin").unwrap(),
        };
        for (at, holds) in [
            ("2026-01-15T20:59:00Z", false),
            ("2026-01-15T21:00:00Z", true),
            ("2026-07-15T19:59:00Z", false),
            ("2026-07-15T20:00:00Z", true),
            ("2026-07-15T04:59:00Z", true),
            ("2026-07-15T05:00:00Z", false),
        ] {
            let at: Timestamp = at.parse().unwrap();
            let now = u64::try_from(at.as_millisecond()).unwrap();
            assert_eq!(night.holds(now), holds, "{at}");
        }
    }

    #[test]
    fn quiet_hours_are_of_the_clock_there() {
        let fixed = |minutes: i32| TimeZone::fixed(Offset::from_seconds(minutes * 60).unwrap());
        let night = |ahead| QuietHours {
            from: 22 * 60,
            to: 7 * 60,
            clock: fixed(ahead),
        };
        let day = QuietHours {
            from: 9 * 60,
            to: 17 * 60,
            clock: fixed(0),
        };
        let at = |hour: u64, minute: u64| 1_700_006_400_000 + (hour * 60 + minute) * 60_000;
        for (quiet, hour, minute, holds) in [
            (night(0), 21, 59, false),
            (night(0), 22, 0, true),
            (night(0), 3, 0, true),
            (night(0), 6, 59, true),
            (night(0), 7, 0, false),
            (night(120), 20, 0, true),
            (night(120), 5, 0, false),
            (night(-300), 22, 0, false),
            (night(-300), 3, 0, true),
            (day.clone(), 9, 0, true),
            (day, 17, 0, false),
            (
                QuietHours {
                    from: 60,
                    to: 60,
                    clock: fixed(0),
                },
                1,
                0,
                false,
            ),
        ] {
            assert_eq!(
                quiet.holds(at(hour, minute)),
                holds,
                "{quiet:?} {hour}:{minute}"
            );
        }
    }
}
