//! A legacy server's error that says which pages a person has to open before it does anything, as an
//! agent of 2026-07-28 is asked to have them opened: by a result, and with a state by which it
//! sends the same request again (protocol §4.3).

use crate::mcp::error_codes::URL_ELICITATION_REQUIRED;
use crate::mcp::json::{Object, Text};
use crate::mcp::message::Message;

/// What the state begins with that such an agent brings back.
const PAGES_STATE_PREFIX: &str = "toolgate-pages:";
/// Pages that a person is asked to open at once; an error that names more stays an error.
const MAX_PAGES: usize = 64;
/// What only legacy questions have.
const LEGACY_QUESTION_MEMBERS: [&str; 3] = ["_meta", "elicitationId", "task"];

/// The pages that have to be opened first, as the requests by which a legacy server would ask for
/// them; none if the error says something else, or in another form than its own.
pub(crate) fn pages_of(error: &Text) -> Option<Vec<Message>> {
    let code = error.get("code")?.value().as_i64()?;
    let pages = error.at(&["data", "elicitations"])?.elements()?;
    let is_page = |page: &Text| {
        let is_url = |mode: Text| mode.as_str().as_deref() == Some("url");
        page.get("mode").is_some_and(is_url) && page.get("url").is_some()
    };
    let asks = code == URL_ELICITATION_REQUIRED
        && (1..=MAX_PAGES).contains(&pages.len())
        && pages.iter().all(is_page);
    let request = |page| Message::request(0, "elicitation/create", Some(page));
    asks.then(|| pages.into_iter().map(request).collect())
}

/// The result that asks an agent of 2026-07-28 these questions of a legacy server, under the names
/// that they have there.
pub(crate) fn input_required<'a>(
    questions: impl Iterator<Item = (&'a str, &'a Message)>,
    state: &str,
) -> Text {
    let mut result = Object::new();
    result.set("resultType", Text::string("input_required"));
    result.set("inputRequests", input_requests(questions));
    result.set("requestState", Text::string(state));
    result.text()
}

/// Questions of a legacy server, as a server of 2026-07-28 puts them.
pub(crate) fn input_requests<'a>(questions: impl Iterator<Item = (&'a str, &'a Message)>) -> Text {
    let mut requests = Object::new();
    for (key, question) in questions {
        let params = question.body.as_ref().and_then(Text::object);
        let mut params = params.unwrap_or_default();
        for name in LEGACY_QUESTION_MEMBERS {
            params.remove(name);
        }
        // Up to 2025-06-18 the name means nothing, and every question is a form.
        let mode = params.get("mode").map(Text::as_str);
        if mode.is_some_and(|mode| !matches!(mode.as_deref(), Some("form" | "url"))) {
            params.remove("mode");
        }
        let method = Text::string(&question.method);
        let request = Text::members_of(&[("method", method), ("params", params.text())]);
        requests.set(key, request);
    }
    requests.text()
}

/// The state of a request that is to be sent again once the pages were opened; `id` tells it from
/// others.
pub(crate) fn pages_state(id: &str) -> String {
    format!("{PAGES_STATE_PREFIX}{id}")
}

/// Whether these are the parameters of a request that comes again after its pages.
pub(crate) fn is_after_pages(params: Option<&Text>) -> bool {
    let state = params.and_then(|params| params.get("requestState"));
    state.is_some_and(|state| {
        state
            .as_str()
            .is_some_and(|state| state.starts_with(PAGES_STATE_PREFIX))
    })
}

/// Whether the person has agreed to open pages, and to all that are answered for.
pub(crate) fn has_opened_all(params: Option<&Text>) -> bool {
    let answers = params.and_then(|params| params.get("inputResponses"));
    let mut answers = answers
        .iter()
        .filter_map(Text::members)
        .flatten()
        .peekable();
    answers.peek().is_some()
        && answers.all(|(_, answer)| {
            answer
                .get("action")
                .is_some_and(|action| action.as_str().as_deref() == Some("accept"))
        })
}
