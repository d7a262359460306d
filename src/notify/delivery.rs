//! How one receiver is told of one thing, and when it is told again.

use super::notice::Notice;
use super::receiver::{NoticeReceiver, NoticeTemplate};
use super::templates::render;
use crate::upstream::backoff::jittered;
use crate::upstream::egress::{EgressError, EgressPost};
use crate::upstream::hook::signed_headers;
use crate::upstream::mail::Mail;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// The first pause before something is told again, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_hours(2);
const NOTICE_ID: HeaderName = HeaderName::from_static("webhook-id");

/// What `receiver` is told of `notice`; none where no header can say it, which the configuration
/// does not let happen.
pub(super) fn request(
    receiver: &NoticeReceiver,
    notice: &Notice,
    public: Option<&str>,
) -> Option<EgressPost> {
    let rendered = render(receiver.template, notice, public);
    let body = Bytes::from(rendered.body);
    let mut headers = match &receiver.key {
        Some(key) => signed_headers(key, &notice.id, &body)?,
        None => HeaderMap::new(),
    };
    if receiver.template == NoticeTemplate::Generic {
        headers.insert(NOTICE_ID, HeaderValue::from_str(&notice.id).ok()?);
    }
    for (name, value) in rendered.headers {
        headers.insert(name, HeaderValue::from_str(&value).ok()?);
    }
    for (name, value) in &receiver.headers {
        headers.insert(name, value.clone());
    }
    Some(EgressPost {
        uri: receiver.uri.clone(),
        headers,
        body,
        is_near: receiver.is_near,
    })
}

/// What `receiver` is told of `notice` by mail.
pub(super) fn mail(receiver: &NoticeReceiver, notice: &Notice, public: Option<&str>) -> Mail {
    let rendered = render(receiver.template, notice, public);
    let subject = rendered.headers.into_iter().next();
    Mail {
        id: notice.id.clone(),
        subject: subject.map(|(_, subject)| subject).unwrap_or_default(),
        body: rendered.body,
    }
}

/// How long a receiver is left alone with what it has not taken `tries` times: twice as long each time, and
/// as long as it asks.
pub(super) fn pause(tries: u32, error: &EgressError) -> Duration {
    let doubled = FIRST_PAUSE
        .saturating_mul(1 << tries.min(16))
        .min(LONGEST_PAUSE);
    let asked = if let EgressError::Status { after, .. } = error {
        *after
    } else {
        None
    };
    jittered(doubled).max(asked.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_hours_and_a_receiver_may_ask_for_more() {
        let error = EgressError::Late(FIRST_PAUSE);
        let mut longest = FIRST_PAUSE;
        for tries in 0..40 {
            let pause = pause(tries, &error);
            assert!(
                longest / 2 <= pause && pause <= longest,
                "{tries}: {pause:?}"
            );
            longest = (longest * 2).min(LONGEST_PAUSE);
        }
        let after = Some(Duration::from_mins(10));
        let asked = EgressError::Status { status: 429, after };
        assert_eq!(pause(0, &asked), Duration::from_mins(10));
    }
}
