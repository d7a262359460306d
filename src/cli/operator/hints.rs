//! What the operators' door advises, in the words of the command line: its hints name requests, which are
//! for programs, and who reads them here has typed a verb.

/// What a hint names, and what does the same here; of two that begin alike the longer one is first.
const VERBS: [(&str, &str); 13] = [
    ("GET /api/approvals/{id}", "`toolgate approvals show ID`"),
    ("GET /api/approvals", "`toolgate approvals list`"),
    (
        "POST /api/calls/{action}/resolve",
        "`toolgate calls resolve ID`",
    ),
    ("GET /api/calls", "`toolgate calls list`"),
    ("GET /api/grants", "`toolgate approvals grants list`"),
    ("POST /api/grants", "`toolgate approvals grants add`"),
    ("GET /api/incidents", "`toolgate incident list`"),
    (
        "POST /api/tasks/{task}/stop or /reset",
        "`toolgate tasks stop ID` or `tasks reset ID`",
    ),
    ("GET /api/tasks", "`toolgate tasks list`"),
    ("GET /api/tools/disabled", "`toolgate disable`"),
    ("GET /api/undos", "`toolgate undo --list`"),
    ("send `\"force\": true`", "use --force"),
    ("/readyz and the log say", "`toolgate status` says"),
];

/// `hint` for who runs a command.
pub(super) fn for_people(hint: &str) -> String {
    let named = |text: String, (request, verb): &(&str, &str)| text.replace(request, verb);
    VERBS.iter().fold(hint.to_owned(), named)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;
    use std::path::Path;

    /// The texts of `folder` that name a request.
    fn named(folder: &Path, found: &mut Vec<String>) {
        let literal = Regex::new(r#""((?:[^"\\\n]|\\.)*)""#).unwrap();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                named(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let texts = literal
                .captures_iter(&text)
                .map(|found| found[1].to_owned());
            found.extend(texts.filter(|text| {
                ["GET /api/", "POST /api/"].iter().any(|request| {
                    // Not what is sent as HTTP, nor for programs that listen to events.
                    text.contains(*request)
                        && !text.contains("HTTP/1.1")
                        && !text.contains("every few seconds")
                })
            }));
        }
    }

    /// Issue 17 D7: no hint of the door sends who has typed a verb to a path of the API.
    #[test]
    fn each_hint_names_a_verb_here() {
        let mut hints = Vec::new();
        let admin = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/admin");
        named(&admin, &mut hints);
        assert!(hints.len() > 12, "{hints:?}");
        for hint in hints {
            let said = for_people(&hint);
            assert!(!said.contains("/api/"), "{hint}: {said}");
            assert!(said.contains("`toolgate "), "{hint}: {said}");
        }
        let tasks = "there is no task; GET /api/tasks lists those there are";
        let told = "there is no task; `toolgate tasks list` lists those there are";
        assert_eq!(for_people(tasks), told);
        let forced = "mend the policy, or send `\"force\": true`, which is recorded";
        assert_eq!(
            for_people(forced),
            "mend the policy, or use --force, which is recorded"
        );
    }
}
