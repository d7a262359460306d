//! Each form as a golden file: what people read, and that nothing that an agent chose is read as
//! anything else.

use super::{MAX_NOTICE_BYTES, Rendered, render};
use crate::model::ids::ToolName;
use crate::notify::notice::{Notice, NoticeKind, NoticeSubject};
use crate::notify::receiver::NoticeTemplate;
use crate::notify::tests::{MIDNIGHT, hold};
use crate::store::state::hold::Hold;
use serde_json::{Value, json};

const FORMS: [NoticeTemplate; 6] = [
    NoticeTemplate::Generic,
    NoticeTemplate::Slack,
    NoticeTemplate::Teams,
    NoticeTemplate::Discord,
    NoticeTemplate::Ntfy,
    NoticeTemplate::Email,
];
const PUBLIC: Option<&str> = Some("https://toolgate.example.com");

/// What is meant to be read as something else: links, mentions, markup, ends of lines, characters
/// that are not seen.
const HOSTILE: &str = "<!channel> <https://evil.example|Open> *a* `b` [c](https://evil.example) @here &amp; \
                       \u{202e}live\u{200b}\r\nDecide by: never\u{1b}[2J </script> \"}]}";

fn notices(hold: &Hold) -> [Notice; 4] {
    let about = NoticeSubject::held(hold);
    [
        about.notice(NoticeKind::Requested, MIDNIGHT, "pending"),
        about
            .notice(NoticeKind::Decided, MIDNIGHT + 1_000, "denied")
            .by(&["ann".to_owned()]),
        about.notice(NoticeKind::Expired, MIDNIGHT + 600_000, "expired"),
        about.notice(NoticeKind::Executed, MIDNIGHT + 2_000, "completed"),
    ]
}

fn hostile() -> Hold {
    let mut hold = hold(1, MIDNIGHT);
    hold.question.tool = ToolName::new(HOSTILE);
    hold.question.agent = HOSTILE.to_owned();
    hold.question.user = Some(HOSTILE.to_owned());
    hold.question.arguments = json!({ "amount": HOSTILE, "note": "the-secret-argument" });
    hold
}

fn written(rendered: &Rendered) -> String {
    let headers = rendered
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"));
    let body: Option<Value> = serde_json::from_str(&rendered.body).ok();
    let body = body.map_or_else(|| rendered.body.clone(), |body| format!("{body:#}"));
    headers.collect::<String>() + "\n" + &body
}

#[test]
fn each_form_is_as_it_was() {
    for form in FORMS {
        let plain = notices(&hold(1, MIDNIGHT));
        let shown = plain
            .iter()
            .map(|notice| written(&render(form, notice, PUBLIC)));
        let mut shown: Vec<String> = shown.collect();
        shown.push(written(&render(form, &notices(&hostile())[0], None)));
        insta::assert_snapshot!(
            format!("{form:?}").to_lowercase(),
            shown.join("\n\n=====\n\n")
        );
    }
}

/// However long and hostile its texts are: in 2 KiB, on lines of its own, and in JSON that is whole.
#[test]
fn nothing_makes_a_message_long_or_broken() {
    for text in [
        HOSTILE.repeat(400),
        "\u{202e}".repeat(16 << 10),
        "&".repeat(16 << 10),
        "\"".repeat(9_000),
        "語".repeat(9_000),
    ] {
        let mut hold = hostile();
        hold.question.tool = ToolName::new(&text);
        (
            hold.question.agent,
            hold.question.user,
            hold.question.tenant,
        ) = (text.clone(), Some(text.clone()), Some(text.clone()));
        hold.question.actions = vec![text.clone(); 9];
        hold.roles = vec![text.clone(); 16];
        hold.question.arguments = json!({ "amount": text });
        for form in FORMS {
            for notice in notices(&hold) {
                let rendered = render(form, &notice, PUBLIC);
                let Rendered { headers, body } = &rendered;
                assert!(body.len() <= MAX_NOTICE_BYTES, "{form:?}: {}", body.len());
                let is_json = serde_json::from_str::<Value>(body).is_ok();
                let is_text = matches!(form, NoticeTemplate::Ntfy | NoticeTemplate::Email);
                assert_eq!(is_json, !is_text);
                for (_, value) in headers {
                    assert!(
                        value.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
                        "{value}"
                    );
                }
                let shown = written(&rendered);
                assert!(
                    !shown.contains(['\u{202e}', '\u{200b}', '\u{1b}', '\r']),
                    "{shown}"
                );
                assert!(!shown.contains("the-secret-argument"), "{shown}");
            }
        }
    }
}

/// A long value hides none that comes after it.
#[test]
fn a_long_value_hides_no_later_one() {
    let mut hold = hold(1, MIDNIGHT);
    hold.question.notify = vec!["/a".to_owned(), "/amount".to_owned()];
    hold.question.arguments = json!({ "a": "x".repeat(9_000), "amount": 99_999 });
    for form in FORMS {
        let body = render(form, &notices(&hold)[0], PUBLIC).body;
        assert!(
            body.contains("99999") && body.contains("9000 bytes"),
            "{form:?}: {body}"
        );
    }
}
