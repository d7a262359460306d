//! Floor 1: named points at which a test ends toolgate as `kill -9` does, or lets it panic
//! (threat-model §12). Only a build with the feature `failpoints` has them; in every other build nothing is left of a call to
//! [`reached`].

/// The points, in the order in which a call passes them; those of incidents and those from `rollback-written` on
/// belong to no call.
pub const POINTS: &[&str] = &[
    "after-parse",
    "preparing",
    "after-policy",
    "approval-pending",
    "approval-approved",
    "intent-before-fsync",
    "intent-after-fsync",
    "before-send",
    "mid-send",
    "after-send",
    "first-response-byte",
    "mid-response",
    "outcome-before-fsync",
    "outcome-after-fsync",
    "reply-to-agent",
    "incident-opened",
    "incident-noted",
    "rollback-written",
    "rollback-ended",
    "reload",
    "rotate",
    "fill",
    "opening",
    "opened",
    "compress",
    "compressed",
];

#[cfg(feature = "failpoints")]
pub use armed::{half, held, opening_records, reached, segment_bytes};

/// Ends toolgate here, if `TOOLGATE_FAILPOINT=point[:nth]` names this point and it is passed the
/// nth time (from 1). Panics here, if `TOOLGATE_PANIC` names it so.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn reached(_point: &'static str) {}

/// How many of `length` bytes to write now that `written` are: all, or the first half where a point
/// stands between.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn half(_written: usize, length: usize) -> usize {
    length
}

/// The size of a journal's segment, in bytes; with fail points `TOOLGATE_SEGMENT_BYTES`, so that
/// one is soon full.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn segment_bytes(bytes: u64) -> u64 {
    bytes
}

/// Waits here, if `TOOLGATE_HOLD=point:pipe` names this point, until something has been written to that named pipe
/// and its writer has closed it.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn held(_point: &'static str) {}

/// How many records an index may lack for a start to wait for it; with fail points
/// `TOOLGATE_OPENING_RECORDS`, so that a few are too many.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn opening_records(records: u64) -> u64 {
    records
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::fs::OpenOptions;
    use std::io::Write as _;
    use std::path::Path;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// Tool servers are probed before any call; these points count from the first call on.
    const OF_A_SENT_CALL: &[&str] = &[
        "mid-send",
        "after-send",
        "first-response-byte",
        "mid-response",
    ];

    static KILLS: ArmedPoint = ArmedPoint::new("TOOLGATE_FAILPOINT");
    static PANICS: ArmedPoint = ArmedPoint::new("TOOLGATE_PANIC");
    static CALLING: AtomicBool = AtomicBool::new(false);

    /// A point that a variable names, as `point[:nth]`.
    struct ArmedPoint {
        variable: &'static str,
        named: OnceLock<Option<(String, u64)>>,
        passed: AtomicU64,
    }

    impl ArmedPoint {
        const fn new(variable: &'static str) -> Self {
            Self {
                variable,
                named: OnceLock::new(),
                passed: AtomicU64::new(0),
            }
        }

        fn read(&self) -> Option<(String, u64)> {
            let text = std::env::var(self.variable).ok()?;
            match text.split_once(':') {
                Some((point, nth)) => Some((point.to_owned(), nth.parse().ok()?)),
                None => Some((text, 1)),
            }
        }

        /// Whether this is the point, passed for the nth time.
        fn is(&self, point: &str) -> bool {
            let named = self.named.get_or_init(|| self.read());
            named.as_ref().is_some_and(|(armed, nth)| {
                armed == point && self.passed.fetch_add(1, Ordering::SeqCst) + 1 == *nth
            })
        }
    }

    /// Ends toolgate here, if `TOOLGATE_FAILPOINT=point[:nth]` names this point and it is passed
    /// the nth time (from 1). Panics here, if `TOOLGATE_PANIC` names it so.
    ///
    /// # Panics
    /// When it is told to.
    pub fn reached(point: &'static str) {
        if point == "before-send" {
            CALLING.store(true, Ordering::SeqCst);
        }
        if OF_A_SENT_CALL.contains(&point) && !CALLING.load(Ordering::SeqCst) {
            return;
        }
        assert!(!PANICS.is(point), "a panic at {point} was asked for");
        if KILLS.is(point) {
            let own = rustix::process::getpid();
            // A signal to oneself that cannot be caught has been delivered when this returns; it
            // does not return.
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        }
    }

    /// How many of `length` bytes to write now that `written` are.
    pub fn half(written: usize, length: usize) -> usize {
        if written < length / 2 {
            length / 2
        } else {
            length
        }
    }

    /// Waits for `TOOLGATE_HOLD=point:pipe`, if it names this point and there is such a pipe; how many wait, or have
    /// waited, is how long `pipe.arrived` is.
    pub fn held(point: &'static str) {
        let named = std::env::var("TOOLGATE_HOLD").ok();
        let named = named.as_deref().and_then(|text| text.split_once(':'));
        let pipe = named.filter(|(armed, _)| *armed == point);
        if let Some((_, pipe)) = pipe.filter(|(_, pipe)| Path::new(pipe).exists()) {
            let mut arrived = OpenOptions::new();
            let arrived = arrived.create(true).append(true);
            let arrived = arrived.open(format!("{pipe}.arrived"));
            let _ = arrived.and_then(|mut file| file.write_all(b"."));
            // Its opening waits for a writer, and its end is when that closes it.
            drop(std::fs::read(pipe));
        }
    }

    /// `TOOLGATE_SEGMENT_BYTES`, or else `bytes`.
    pub fn segment_bytes(bytes: u64) -> u64 {
        number("TOOLGATE_SEGMENT_BYTES").unwrap_or(bytes)
    }

    /// `TOOLGATE_OPENING_RECORDS`, or else `records`.
    pub fn opening_records(records: u64) -> u64 {
        number("TOOLGATE_OPENING_RECORDS").unwrap_or(records)
    }

    fn number(variable: &str) -> Option<u64> {
        std::env::var(variable).ok()?.parse().ok()
    }
}
