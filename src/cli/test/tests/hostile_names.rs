//! Names that are no names, as programs read them.

use super::{PACK_HEAD, least, stage, test};
use std::fs;

/// Names as hostile as YAML lets them be are read by an XML parser as they are, but for what XML
/// cannot hold at all.
#[test]
fn hostile_names_are_read_by_an_xml_parser() {
    let [foreign, memo, second] = least();
    let names = [
        "]]> & <failure message=\"x\"/> </testsuite>",
        "a\tb\nc\rd 'e' \"f\"",
        "<!-- --> <![CDATA[ &#0; &amp; &unknown; %x;",
        "\u{202e}abc \u{85}\u{2028} \u{1f980} \u{7f}",
        "held\u{1}back\u{fffe}",
    ];
    let quoted = |name: &str| {
        serde_json::to_string(name)
            .unwrap()
            .replace('\u{fffe}', "\\uFFFE")
            .replace('\u{7f}', "\\x7F")
    };
    let hostile = |name: &str| {
        foreign
            .replace("name: foreign", &format!("name: {}", quoted(name)))
            .replace("t_999", "t_001")
    };
    let samples: String = names.iter().map(|name| hostile(name)).collect();
    let pack =
        format!("{PACK_HEAD}{samples}{memo}{second}").replace("pack: invoice", "pack: \"a<b>&'c\"");
    let directory = stage(&pack);
    let junit = directory.path().join("junit.xml");
    let (out, code) = test(directory.path(), &["--junit", junit.to_str().unwrap()]);
    assert_eq!(code, 1, "{out}");
    let xml = fs::read_to_string(junit).unwrap();
    let read = roxmltree::Document::parse(&xml).unwrap_or_else(|error| panic!("{error}: {xml}"));
    let suites: Vec<_> = read
        .root_element()
        .children()
        .filter(roxmltree::Node::is_element)
        .collect();
    assert_eq!(suites[0].attribute("name"), Some("a<b>&'c"));
    let cases: Vec<_> = suites[0]
        .children()
        .filter(roxmltree::Node::is_element)
        .collect();
    for (case, name) in cases.iter().zip(names) {
        let held: String = name
            .chars()
            .filter(|letter| !"\u{1}\u{fffe}".contains(*letter))
            .collect();
        assert_eq!(case.attribute("name"), Some(held.as_str()), "{xml}");
        let failure = case.first_element_child().unwrap();
        assert_eq!(
            failure.attribute("message"),
            Some("UNEXPECTED PASS got=allow expect=tenant_mismatch")
        );
    }
    for suite in suites {
        has_its_numbers(suite, &xml);
    }
}

/// A suite says how many cases it has, and how many failed.
fn has_its_numbers(suite: roxmltree::Node<'_, '_>, xml: &str) {
    let number = |name: &str| suite.attribute(name).unwrap().parse::<usize>().unwrap();
    let cases = || {
        suite
            .children()
            .filter(|case| case.has_tag_name("testcase"))
    };
    let failed = cases()
        .filter(|case| case.children().any(|one| one.has_tag_name("failure")))
        .count();
    assert_eq!(
        (number("tests"), number("failures")),
        (cases().count(), failed),
        "{xml}"
    );
}
