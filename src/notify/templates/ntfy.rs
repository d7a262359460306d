//! A topic of ntfy: text for a phone, with what it shows around it in headers. Our words only stand
//! in them: a header cannot say everything that a name can.

use super::{Notice, NoticeKind, Rendered, headline, lines};
use crate::notify::notice::IRREVERSIBLE_EFFECT;

pub(super) fn render(notice: &Notice, link: Option<&str>) -> Rendered {
    let lines = lines(notice);
    let lines = lines
        .iter()
        .map(|(label, value)| format!("{label}: {value}"));
    let is_final = notice
        .about
        .effects
        .iter()
        .any(|effect| effect == IRREVERSIBLE_EFFECT);
    let (priority, tag) = match notice.kind {
        NoticeKind::Requested if is_final => ("5", "warning"),
        NoticeKind::Requested => ("4", "hourglass_flowing_sand"),
        NoticeKind::Escalated => ("5", "rotating_light"),
        NoticeKind::Unknown => ("4", "question"),
        NoticeKind::Decided => ("3", "ballot_box_with_check"),
        NoticeKind::Expired => ("3", "no_entry"),
        NoticeKind::Executed => ("3", "checkered_flag"),
    };
    let mut headers = vec![
        ("content-type", "text/plain; charset=utf-8".to_owned()),
        ("title", headline(notice).to_owned()),
        ("priority", priority.to_owned()),
        ("tags", tag.to_owned()),
    ];
    headers.extend(link.map(|link| ("click", link.to_owned())));
    Rendered {
        headers,
        body: lines.collect::<Vec<_>>().join("\n"),
    }
}
