//! What a contract may say of keys, and what it means.

use super::*;

/// 004-54: the argument is ours, shown or hidden, unless the tool has one of its own; hidden, it is a key
/// only where no call passes without one.
#[test]
fn the_argument_is_taken_off_unless_it_is_the_tools_own() {
    let plain = Schema::compile(&json!({ "type": "object", "properties": { "sku": {} } })).unwrap();
    let own =
        Schema::compile(&json!({ "type": "object", "properties": { "idempotency_key": {} } }))
            .unwrap();
    let arguments = json!({ "sku": "s1", "idempotency_key": "k" });
    let rest = json!({ "sku": "s1" });
    let (hidden, shown) = (rule(json!({ "expose": false })), Rule::default());
    let needed = rule(json!({ "expose": false, "require": true }));
    let cases = [
        (&shown, &plain, &rest, Some(json!("k"))),
        (&shown, &own, &arguments, Some(json!("k"))),
        (&hidden, &own, &arguments, Some(json!("k"))),
        (&hidden, &plain, &rest, None),
        (&needed, &plain, &rest, Some(json!("k"))),
    ];
    for (index, (rule, tool, left, key)) in cases.into_iter().enumerate() {
        let (split, found) = rule.split(tool, &arguments);
        assert_eq!(
            (&*split, found.map(Cow::into_owned)),
            (left, key),
            "{index}"
        );
    }
    assert_eq!(shown.shown(&plain), Some(Shown { required: false }));
    assert_eq!(
        rule(json!({ "require": true })).shown(&plain),
        Some(Shown { required: true })
    );
    assert_eq!(
        rule(json!({ "require": true, "expose": false })).shown(&plain),
        None
    );
    assert_eq!(shown.shown(&own), None);
    let named = rule(json!({ "upstream": { "argument": "request_id" } }));
    let arguments = json!({ "request_id": "r" });
    let (split, key) = named.split(&plain, &arguments);
    assert_eq!(
        (&*split, key.map(Cow::into_owned)),
        (&arguments, Some(json!("r")))
    );
}

fn assert_only_problem(written: Value, expected: &str) {
    let what = written.to_string();
    let (_, problems) = compiled(written);
    assert!(
        problems.len() == 1 && problems[0].starts_with(expected),
        "{what}: {problems:?}"
    );
}

/// 004-55 and the rest of the section: contradictions don't load.
#[test]
fn contradictions_are_named() {
    for (written, expected) in [
        (
            json!({ "require": true, "derive": "arguments" }),
            "Error derive: every call has a key",
        ),
        (
            json!({ "require": true, "window": "2m" }),
            "Error window: is for derived keys",
        ),
        (
            json!({ "derive": "arguments", "window": "2h" }),
            "Error window: is longer than `ttl` (3600s)",
        ),
        (
            json!({ "ttl": "1h", "window": "2h" }),
            "Error window: is out of bounds",
        ),
        (json!({ "window": "30s" }), "Warning window: is so short"),
        (json!({ "ttl": "1m" }), "Warning ttl: is so short"),
        (json!({ "ttl": "1s" }), "Error ttl: is out of bounds"),
        (json!({ "ttl": "soon" }), "Error ttl: is no length of time"),
        (json!({ "derive": [] }), "Error derive: no key can be made"),
        (
            json!({ "derive": ["a"] }),
            "Error derive.0: not a JSON pointer",
        ),
        (
            json!({ "derive": ["/a", "/a"] }),
            "Error derive.1: is there twice",
        ),
        (json!({ "derive": "args" }), "Error derive: no such way"),
        (
            json!({ "not_executed": [200] }),
            "Error not_executed.0: is no error",
        ),
        (json!({ "attempts": 0 }), "Error attempts: is out of bounds"),
    ] {
        assert_only_problem(written, expected);
    }
}

/// The same of where a key goes, and of how a tool server is asked.
#[test]
fn contradictions_of_what_servers_hear_are_named() {
    for (written, expected) in [
        (
            json!({ "upstream": {} }),
            "Error upstream: the key goes to exactly one place",
        ),
        (
            json!({ "upstream": { "argument": "a", "meta": "b" } }),
            "Error upstream: the key goes to exactly one place",
        ),
        (
            json!({ "upstream": { "meta": "dev.toolgate/fence" } }),
            "Error upstream.meta: is not for",
        ),
        (
            json!({ "upstream": { "header": "Authorization" } }),
            "Error upstream.header: is a header with a meaning",
        ),
        (
            json!({ "upstream": { "header": "a b" } }),
            "Error upstream.header: is no name",
        ),
        (
            json!({ "upstream": { "header": "Idempotency-Key", "window": "1m", "margin": "1m" } }),
            "Error upstream.margin: is not shorter",
        ),
        (
            json!({ "probe": { "tool": "shop__find", "found": "x" } }),
            "Error probe.found: not a JSON pointer",
        ),
        (
            json!({ "probe": { "tool": "shop__find", "found": "/x", "nothing": [[1]] } }),
            "Error probe.nothing.0: cannot be listed",
        ),
        (
            json!({ "probe": { "tool": "shop__find", "found": "/x", "nothing": [0, false] } }),
            "Error probe.nothing.1: means nothing anyway",
        ),
        (
            json!({ "probe": { "tool": "shop__find", "found": "/x", "nothing": vec![0; 17] } }),
            "Error probe.nothing: lists more than 16",
        ),
    ] {
        assert_only_problem(written, expected);
    }
}

/// guarantees §4: a probe that finds nothing proves something only after a while.
#[test]
fn a_probe_tells_found_from_absent_from_unclear() {
    let rule = rule(
        json!({ "probe": { "tool": "shop__find", "found": "/orders", "absent_after": "10s",
        "arguments": { "sku": "arguments#/sku", "key": "key#", "state": "open" } } }),
    );
    let probe = rule.probe().unwrap();
    assert_eq!(
        probe.ask(&json!({ "sku": 7 }), "k"),
        Some(json!({ "sku": 7, "key": "k", "state": "open" }))
    );
    assert_eq!(probe.ask(&json!({}), "k"), None);
    let (early, late) = (Duration::from_secs(9), Duration::from_secs(10));
    let orders = |orders: &Value, since| probe.read(&json!({ "orders": orders }), since);
    for found in [json!([1]), json!(3), json!("a"), json!(true), json!([0])] {
        assert_eq!(orders(&found, early), ProbeVerdict::Found, "{found}");
    }
    for nothing in [json!(null), json!(false)] {
        assert_eq!(orders(&nothing, early), ProbeVerdict::Unclear, "{nothing}");
        assert_eq!(orders(&nothing, late), ProbeVerdict::Absent, "{nothing}");
    }
    assert_eq!(probe.read(&json!({}), late), ProbeVerdict::Absent);
    assert_eq!(probe.read(&json!("no orders"), late), ProbeVerdict::Unclear);
}

/// guarantees §4: a zero, or what is empty, means what the contract says, and nothing where it says
/// nothing.
#[test]
fn a_probe_reads_a_zero_as_its_contract_says() {
    let late = Duration::from_secs(30);
    let reads = |nothing: Option<Value>, found: &Value| {
        let mut written = json!({ "tool": "shop__find", "found": "/n" });
        if let Some(nothing) = nothing {
            written["nothing"] = nothing;
        }
        let rule = rule(json!({ "probe": written }));
        rule.probe().unwrap().read(&json!({ "n": found }), late)
    };
    for empty in [json!(0), json!(-0.0), json!(""), json!([]), json!({})] {
        assert_eq!(reads(None, &empty), ProbeVerdict::Unsaid, "{empty}");
        let anything_is_done = Some(json!([]));
        assert_eq!(reads(anything_is_done, &empty), ProbeVerdict::Found);
        let listed = Some(json!(["x", empty]));
        assert_eq!(reads(listed, &empty), ProbeVerdict::Absent, "{empty}");
    }
    let listed = || Some(json!([0, "none"]));
    for (found, verdict) in [
        (json!(0.0), ProbeVerdict::Absent),
        (json!("none"), ProbeVerdict::Absent),
        (json!(null), ProbeVerdict::Absent),
        (json!("None"), ProbeVerdict::Found),
        (json!(1), ProbeVerdict::Found),
        (json!([]), ProbeVerdict::Found),
        (json!("0"), ProbeVerdict::Found),
    ] {
        assert_eq!(reads(listed(), &found), verdict, "{found}");
    }
}

#[test]
fn declared_errors_prove_that_nothing_was_done() {
    let rule = rule(json!({ "not_executed": [409, -32050] }));
    assert!(
        rule.proves_nothing_done(Some(409), None) && rule.proves_nothing_done(None, Some(-32050))
    );
    assert!(
        !rule.proves_nothing_done(Some(500), Some(-32603)) && !rule.proves_nothing_done(None, None)
    );
}
