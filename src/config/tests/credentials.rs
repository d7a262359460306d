//! What tool servers are shown of toolgate and its callers, as people write it badly.

use super::*;

/// Every problem of `oauth` and `headers_for` is named.
#[test]
fn what_is_wrong_with_credentials_is_named() {
    let good =
        "token_url: \"https://login.example/token\", client_id: toolgate, client_secret: a-secret";
    let many: Vec<String> = (0..65).map(|nth| format!("s{nth}")).collect();
    let cases = [
        format!("command: x, oauth: {{ {good} }}, headers_for: [ {{ agents: [a], headers: {{ x: y }} }} ]"),
        format!("url: \"https://t.example/mcp\", headers: {{ Authorization: Bearer x }}, oauth: {{ {good} }}"),
        "url: \"https://t.example/mcp\", oauth: { token_url: \"http://login.example/token\", client_id: \" \", client_secret: a-secret, \
         scopes: [\"a b\"], resource: \"#\" }"
            .to_owned(),
        format!("url: \"https://t.example/mcp\", oauth: {{ {good}, scopes: [ {} ] }}", many.join(", ")),
        "url: \"https://t.example/mcp\", headers_for: [ { headers: { x: y } }, { agents: [a], headers: {} }, { agents: [a], headers: { \"x y\": \"z\" } } ]"
            .to_owned(),
    ];
    let shown = cases.map(|server| {
        let (loaded, _) = load_text(&format!(
            "mode: observe\nservers: {{ s: {{ {server} }} }}\n"
        ));
        let errors = loaded.reading.diagnostics.into_iter();
        let errors = errors.filter(|found| found.severity == Severity::Error);
        let words = errors.map(|found| {
            let hint = found.hint.unwrap_or_default();
            format!("{}: {}\n    help: {hint}\n", found.line, found.message)
        });
        words.collect::<String>() + "\n"
    });
    insta::assert_snapshot!("what_is_wrong_with_credentials", shown.concat());
}
