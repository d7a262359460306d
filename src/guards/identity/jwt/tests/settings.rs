//! Scenarios of what the configuration says of issuers: claims, addresses, times.

use super::*;

/// Claims are read where the configuration says, in their own form.
#[test]
fn claims_are_read_in_their_own_form() {
    let said = claims::Claims(json!({
        "azp": "bot", "blank": " ", "none": "", "number": 7, "null": null, "https://x.example/org": "t_1",
        "unseen": "bot\u{200b}", "nested": { "roles": ["a", "b"], "a/b": "slash" }, "scope": "read  write",
        "mixed": ["a", 1], "long": "l".repeat(257), "wide": vec!["r"; 257], "empty": [],
    }));
    let name = |written: &str| said.name(&place(written)).ok();
    assert_eq!(name("azp").as_deref(), Some("bot"));
    assert_eq!(name("https://x.example/org").as_deref(), Some("t_1"));
    assert_eq!(name("/nested/a~1b").as_deref(), Some("slash"));
    for odd in [
        "blank", "none", "number", "null", "unseen", "nested", "long", "missing", "/azp/x",
    ] {
        assert_eq!(said.name(&place(odd)), Err(TokenRejected::Claim), "{odd}");
    }
    let names = |written: &str| said.names(&place(written)).ok();
    assert_eq!(
        names("/nested/roles"),
        Some(vec!["a".to_owned(), "b".to_owned()])
    );
    assert_eq!(
        names("scope"),
        Some(vec!["read".to_owned(), "write".to_owned()])
    );
    assert_eq!(names("empty"), Some(Vec::new()));
    for odd in ["mixed", "number", "null", "nested", "wide", "missing"] {
        assert_eq!(said.names(&place(odd)), Err(TokenRejected::Claim), "{odd}");
    }
}

/// What the configuration cannot mean is said.
#[test]
fn settings_that_cannot_be_meant_are_named() {
    let found = |change: fn(&mut IssuerTerms)| {
        let mut terms = terms(&[]);
        change(&mut terms);
        let mut problems = Problems::default();
        terms.compile(&mut problems);
        let found = problems.into_found().into_iter();
        found
            .map(|problem| problem.path.join("."))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(|_| {}), [""; 0]);
    assert_eq!(found(|terms| terms.issuer = "login".to_owned()), ["issuer"]);
    assert_eq!(found(|terms| terms.audience.clear()), ["audience"]);
    assert_eq!(
        found(|terms| terms.leeway = Some("6m".to_owned())),
        ["leeway"]
    );
    assert_eq!(
        found(|terms| terms.max_stale = Some("25h".to_owned())),
        ["max_stale"]
    );
    assert_eq!(found(|terms| terms.jwks_url = None), [""]);
    assert_eq!(
        found(|terms| terms.jwks_file = Some("keys".to_owned())),
        [""]
    );
    for (url, is_taken) in [
        ("https://login.example.com/jwks", true),
        ("http://127.0.0.1:8080/jwks", true),
        ("http://[::1]/jwks", true),
        ("http://localhost/jwks", true),
        ("http://login.example.com/jwks", false),
        ("http://169.254.169.254/jwks", false),
        ("http://localhost.example.com/jwks", false),
        ("https://user@login.example.com/jwks", false),
        ("file:///etc/passwd", false),
        ("jwks", false),
    ] {
        let mut terms = terms(&[]);
        terms.jwks_url = Some(url.to_owned());
        let mut problems = Problems::default();
        terms.compile(&mut problems);
        assert_eq!(problems.into_found().is_empty(), is_taken, "{url}");
    }
}
