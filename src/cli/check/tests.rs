//! Scenarios of what `check` prints.

use super::judge;
use std::fs;

const CONFIG: &str = r#"servers: { fs: { command: x, env: { KEY: "s3cr3t" }, colour: red } }
callers: [{ agent: bot, token: "${TOOLGATE_TEST_NOT_SET}" }]
policies: [p.yaml]
"#;

#[test]
fn problems_are_shown_with_their_line_but_never_with_a_secret() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("toolgate.yaml"), CONFIG).unwrap();
    fs::write(directory.path().join("p.yaml"), "contracts:\n  fs__a: { purpose: p, actions: [read] }\n").unwrap();
    for path in [directory.path().to_path_buf(), directory.path().join("p.yaml")] {
        let (text, code) = judge(&[path]).unwrap();
        assert_eq!(code, 1);
        assert!(!text.contains("s3cr3t"));
        insta::assert_snapshot!("broken", text.replace(&format!("{}/", directory.path().display()), ""));
    }
}

#[test]
fn no_configuration_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let error = judge(&[directory.path().to_path_buf()]).unwrap_err();
    assert!(error.to_string().starts_with("no toolgate.yaml in or above"), "{error}");
}

#[test]
fn the_quickstart_is_fine() {
    let quickstart = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/quickstart");
    let (text, code) = judge(&[quickstart]).unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("5 contracts, policy "), "{text}");
}

#[test]
fn several_servers_are_told_what_their_common_address_offers() {
    let directory = tempfile::tempdir().unwrap();
    let config = "servers: { one: { command: x }, two: { url: 'http://127.0.0.1:1/mcp' } }\nmode: observe\n";
    fs::write(directory.path().join("toolgate.yaml"), config).unwrap();
    let (text, code) = judge(&[directory.path().to_path_buf()]).unwrap();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("note: /mcp offers the revisions that all 2 servers speak"), "{text}");
}
