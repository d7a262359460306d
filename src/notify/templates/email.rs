//! A message by mail: text, line by line. Our words only stand in its subject.

use super::{Notice, Rendered, headline, lines};

pub(super) fn render(notice: &Notice, link: Option<&str>) -> Rendered {
    let lines = lines(notice);
    let lines = lines
        .iter()
        .map(|(label, value)| format!("{label}: {value}"));
    let headline = headline(notice);
    let link = link
        .map(|link| format!("\n{link}\nThe link says which call is meant, and asks who you are."));
    let body = std::iter::once(format!("{headline}.\n"))
        .chain(lines)
        .chain(link);
    Rendered {
        headers: vec![("subject", format!("toolgate: {headline}"))],
        body: body.collect::<Vec<_>>().join("\n") + "\n",
    }
}
