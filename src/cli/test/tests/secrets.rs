//! What packs say of secret references (guarantees §2, step 13), as far as no value decides.

use super::test;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const POLICY: &str = "
contracts:
  bank__undo: { purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: { writes: test, rollback: { manual: by hand } } }
  bank__pay: { purpose: p, actions: [write], side_effect: { writes: test, rollback: { tool: bank__undo } }, secrets: [/token, /auth/key], permission: { tenant: /tenant }, arguments: { properties: { token: {}, note: {}, auth: {} } } }
  bank__look: { purpose: p, actions: [read], secrets: [] }
";

const CALLERS: &str = "callers: { clerk: { agent: clerk, tenant: t_001 } }\n";

/// What a call says besides its tenant, and what is expected; the pack's and the configuration's
/// bindings say the same.
const BINDING_ROWS: &[(&str, &str)] = &[
    ("tenant: t_001, token: plain", "allow"),
    ("tenant: t_001, token: '<secret_ref:bank>'", "allow"),
    ("tenant: t_001, auth: { key: '<secret_ref:bank>' }", "allow"),
    // Where the contract takes none; of a name that is not bound; not whole; not well-formed.
    ("tenant: t_001, note: '<secret_ref:bank>'", "secret_denied"),
    ("tenant: t_001, auth: '<secret_ref:bank>'", "secret_denied"),
    ("tenant: t_001, token: '<secret_ref:shop>'", "secret_denied"),
    (
        "tenant: t_001, token: 'Bearer <secret_ref:bank>'",
        "secret_denied",
    ),
    ("tenant: t_001, token: '<SECRET_REF:bank>'", "secret_denied"),
    (
        "tenant: t_001, token: ['<secret_ref:bank>']",
        "secret_denied",
    ),
    // The earlier step answers.
    (
        "tenant: t_002, note: '<secret_ref:bank>'",
        "tenant_mismatch",
    ),
];

fn pack(head: &str, rows: &[(&str, &str)]) -> String {
    let mut pack = format!("pack: secrets\n{head}samples:\n");
    for (arguments, expect) in rows {
        let name = arguments.replace('\'', "");
        writeln!(
            pack,
            "  - {{ name: \"{name}\", caller: clerk, tool: bank__pay, arguments: {{ {arguments} }}, expect: {expect} }}"
        )
        .unwrap();
    }
    pack
}

fn stage(pack: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("tests")).unwrap();
    fs::write(directory.path().join("policy.yaml"), POLICY).unwrap();
    fs::write(directory.path().join("tests/secrets.yaml"), pack).unwrap();
    directory
}

fn lines<'o>(out: &'o str, start: &str) -> Vec<&'o str> {
    out.lines()
        .filter(|line| line.trim_start().starts_with(start))
        .collect()
}

/// 002-28, 002-31: a reference outside the contract's places, or to a secret that nothing binds, is
/// refused as the gate does it; the pack names the secrets that its own policies may take, and no
/// value.
#[test]
fn a_pack_names_the_secrets_that_are_bound() {
    let own = format!("policies: [../policy.yaml]\nsecrets: [bank]\n{CALLERS}");
    let (out, _) = test(stage(&pack(&own, BINDING_ROWS)).path(), &["--coverage"]);
    assert_eq!(lines(&out, "ok ").len(), BINDING_ROWS.len(), "{out}");
    assert_eq!(lines(&out, "FAIL  "), [""; 0], "{out}");
    assert!(
        !out.contains("bank__pay                             secret_denied"),
        "it is reached: {out}"
    );
    assert!(
        !lines(&out, "no sample reaches")
            .iter()
            .any(|line| line.contains("bank__look") && line.contains("secret_denied"))
    );

    let (out, code) = test(
        stage(&pack(&own.replace("[bank]", "[Bank]"), BINDING_ROWS)).path(),
        &[],
    );
    assert!(
        code == 1
            && out.contains("is no secret's name")
            && out.contains("a name is lower-case letters"),
        "{out}"
    );

    // The same pack without the name: nothing is bound.
    let (out, code) = test(
        stage(&pack(&own.replace("secrets: [bank]\n", ""), BINDING_ROWS)).path(),
        &[],
    );
    assert_eq!(code, 1);
    let wrong = lines(&out, "FAIL  ");
    assert!(
        wrong.len() == 2
            && wrong
                .iter()
                .all(|line| line.ends_with("UNEXPECTED REJECT got=secret_denied expect=allow")),
        "{out}"
    );
    assert!(
        out.contains(
            "idempotency, budget; refused at secrets: secret_denied: a secret reference stands where none may"
        ),
        "{out}"
    );
}

/// 003-35: a pack that expects otherwise is told so, in both directions.
#[test]
fn a_pack_that_is_wrong_about_secrets_fails() {
    let turned: Vec<(&str, &str)> = BINDING_ROWS
        .iter()
        .filter(|(_, expect)| *expect != "tenant_mismatch")
        .map(|(arguments, expect)| {
            (
                *arguments,
                if *expect == "allow" {
                    "secret_denied"
                } else {
                    "allow"
                },
            )
        })
        .collect();
    let own = format!("policies: [../policy.yaml]\nsecrets: [bank]\n{CALLERS}");
    let (out, code) = test(stage(&pack(&own, &turned)).path(), &["--coverage"]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("3 UNEXPECTED PASS, 6 UNEXPECTED REJECT"),
        "{out}"
    );
    // What is said of a key counts too.
    let key = "  - { name: key, caller: clerk, tool: bank__pay, arguments: { tenant: t_001 }, key: '<secret_ref:bank>', expect: secret_denied }\n";
    let (out, _) = test(stage(&(pack(&own, &[]) + key)).path(), &[]);
    assert_eq!(lines(&out, "ok ").len(), 1, "{out}");
    // Where its server has the argument repeated in a header, no reference may stand.
    let tool = "{ name: pay, inputSchema: { type: object, properties: { tenant: {}, note: {}, auth: {}, token: { type: string, x-mcp-header: Token } } } }";
    let listed = format!("{own}servers: {{ bank: {{ tools: [ {tool} ] }} }}\n");
    let (out, _) = test(
        stage(&pack(
            &listed,
            &[("tenant: t_001, token: '<secret_ref:bank>'", "secret_denied")],
        ))
        .path(),
        &[],
    );
    assert_eq!(lines(&out, "ok ").len(), 1, "{out}");
    // Coverage asks for the code where a contract takes references.
    let (out, _) = test(
        stage(&pack(&own, &[("tenant: t_001", "allow")])).path(),
        &["--coverage"],
    );
    let asked: Vec<_> = lines(&out, "no sample reaches")
        .into_iter()
        .filter(|line| line.ends_with("secret_denied"))
        .collect();
    assert!(
        matches!(asked.as_slice(), [line] if line.contains("bank__pay")),
        "{out}"
    );
}

/// With the configuration's policies its own bindings count, place by place; a pack cannot add to
/// them.
#[test]
fn the_configuration_says_where_its_secrets_go() {
    let directory = stage(&pack("", BINDING_ROWS));
    let config = |pointer: &str| {
        format!(
            "listen: 127.0.0.1:7777\nservers: {{ bank: {{ url: \"http://127.0.0.1:9/mcp\" }} }}\npolicies: [policy.yaml]\n\
             callers: [ {{ agent: clerk, tenant: t_001, token: a-token-of-16-bytes }} ]\n\
             secrets:\n  bank: {{ env: NO_SUCH_BANK, for: [ {{ server: bank, tool: pay, pointer: /token }}, {{ server: bank, tool: pay, pointer: {pointer} }} ] }}\n  \
             shop: {{ env: NO_SUCH_SHOP, for: [ {{ server: bank, tool: look, pointer: /token }} ] }}\n"
        )
    };
    let write =
        |pointer: &str| fs::write(directory.path().join("toolgate.yaml"), config(pointer)).unwrap();
    let run = |path: &Path| test(path, &[]).0;
    write("/auth/key");
    let out = run(directory.path());
    assert_eq!(lines(&out, "ok ").len(), BINDING_ROWS.len(), "{out}");
    write("/auth/other");
    let out = run(directory.path());
    assert!(
        matches!(lines(&out, "FAIL  ").as_slice(), [line] if line.contains("auth: { key") && line.contains("UNEXPECTED REJECT")),
        "{out}"
    );
    fs::write(
        directory.path().join("tests/secrets.yaml"),
        pack("secrets: [bank]\n", BINDING_ROWS),
    )
    .unwrap();
    let out = run(directory.path());
    assert!(
        out.contains("error: the configuration says which secrets there are"),
        "{out}"
    );
    let own = format!("policies: [../policy.yaml]\nsecrets: [Bank, '']\n{CALLERS}");
    fs::write(
        directory.path().join("tests/secrets.yaml"),
        pack(&own, BINDING_ROWS),
    )
    .unwrap();
    assert_eq!(
        run(directory.path()).matches("is no secret's name").count(),
        2
    );
}
