//! How long a tool server may take for what, and what holds if nothing is said.

use super::settings::ToolServerSettings;
use crate::model::diagnostic::Problems;
use crate::model::times::between;
use std::time::Duration;

/// Any time.
const MIN_DURATION: Duration = Duration::from_millis(1);
/// One call's time (threat-model §8).
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
const MAX_CALL_TIMEOUT: Duration = Duration::from_mins(10);
/// A server's time until its first answer; long enough at most to build it first.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const MAX_START_TIMEOUT: Duration = Duration::from_hours(1);
/// How old what is known of a server's tools may get (threat-model §13 L7).
const REFRESH_INTERVAL: Duration = Duration::from_mins(1);
const MIN_REFRESH_INTERVAL: Duration = Duration::from_secs(1);
const MAX_REFRESH_INTERVAL: Duration = Duration::from_mins(10);
/// Longer than an agent's turn, and shorter than programs of agents wait.
const TASK_AFTER: Duration = Duration::from_secs(30);
/// Shorter than most servers take to be restarted and asked again by people, and longer than an
/// agent's turn.
const PING_AFTER: Duration = Duration::from_secs(30);
const MAX_PING_AFTER: Duration = Duration::from_hours(1);

/// A process that nobody uses ends: long enough for an agent that comes back at once.
const CHILD_IDLE_TIMEOUT: Duration = Duration::from_secs(45);
const MAX_CHILD_IDLE_TIMEOUT: Duration = Duration::from_hours(1);

/// How long what may take at one server.
pub(super) struct ServerTimes {
    pub(super) timeout: Duration,
    pub(super) task_after: Duration,
    pub(super) start_timeout: Duration,
    pub(super) refresh: Duration,
    pub(super) ping_after: Duration,
    pub(super) idle_timeout: Duration,
}

impl ServerTimes {
    /// As they are written.
    pub(super) fn of(settings: &ToolServerSettings, problems: &mut Problems) -> Self {
        let mut time = |key, written: &Option<String>, (least, most), otherwise| {
            let given = between(key, written.as_deref(), least..=most, problems);
            given.unwrap_or(otherwise)
        };
        let (call, start) = (
            (MIN_DURATION, MAX_CALL_TIMEOUT),
            (MIN_DURATION, MAX_START_TIMEOUT),
        );
        let refresh = (MIN_REFRESH_INTERVAL, MAX_REFRESH_INTERVAL);
        let ping = (MIN_DURATION, MAX_PING_AFTER);
        let idle = (MIN_DURATION, MAX_CHILD_IDLE_TIMEOUT);
        Self {
            timeout: time("timeout", &settings.timeout, call, CALL_TIMEOUT),
            task_after: time("task_after", &settings.task_after, call, TASK_AFTER),
            start_timeout: time(
                "start_timeout",
                &settings.start_timeout,
                start,
                START_TIMEOUT,
            ),
            refresh: time("refresh", &settings.refresh, refresh, REFRESH_INTERVAL),
            ping_after: time("ping_after", &settings.ping_after, ping, PING_AFTER),
            idle_timeout: time(
                "idle_timeout",
                &settings.idle_timeout,
                idle,
                CHILD_IDLE_TIMEOUT,
            ),
        }
    }
}

impl Default for ServerTimes {
    fn default() -> Self {
        Self {
            timeout: CALL_TIMEOUT,
            task_after: TASK_AFTER,
            start_timeout: START_TIMEOUT,
            refresh: REFRESH_INTERVAL,
            ping_after: PING_AFTER,
            idle_timeout: CHILD_IDLE_TIMEOUT,
        }
    }
}
