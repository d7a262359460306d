//! How much of the ledger is kept.

use super::*;
use crate::store::journal::Sizes;
use std::time::Duration;

/// threat-model §3G G6, G7: how long the ledger goes back is said, and not guessed.
#[test]
fn the_ledger_is_kept_as_long_as_the_configuration_says() {
    let day = Duration::from_hours(24);
    for (written, keep) in [
        ("{}", 90 * day),
        ("{ keep: 7d }", 7 * day),
        ("{ keep: 12h }", day / 2),
        ("{ keep: 36500d }", 36_500 * day),
    ] {
        let (loaded, shown) = load_text(&format!("mode: observe\nledger: {written}\n"));
        assert_eq!(
            loaded.config.map(|config| config.ledger.keep),
            Some(keep),
            "{written}: {shown}"
        );
    }
    for (written, problem) in [
        ("59m", "between 3600s and 36500d"),
        ("36501d", "is out of bounds"),
        ("-1d", "is no length of time"),
        ("d", "is no length of time"),
        ("99999999999999999999d", "is no length of time"),
    ] {
        let (loaded, shown) = load_text(&format!("ledger: {{ keep: {written} }}\n"));
        assert!(
            loaded.config.is_none() && shown.contains(problem),
            "{written}: {shown}"
        );
    }
}

/// Issue 18: closed segments are compressed unless an operator says that they are not.
#[test]
fn closed_segments_are_compressed_unless_it_is_said() {
    for (written, compressed) in [
        ("{}", true),
        ("{ keep: 7d }", true),
        ("{ compress: true }", true),
        ("{ compress: false }", false),
    ] {
        let (loaded, shown) = load_text(&format!("mode: observe\nledger: {written}\n"));
        let compress = loaded.config.map(|config| config.ledger.compress);
        assert_eq!(compress, Some(compressed), "{written}: {shown}");
    }
    let (loaded, shown) = load_text("mode: observe\nledger: { compress: 7 }\n");
    assert!(loaded.config.is_none(), "{shown}");
    assert!(Ledger::default().compress, "without a configuration, too");
}

/// A size is what is given, and none is none: nothing is dropped because of what nobody wrote.
/// Where a ledger's archive and heads go, nobody else should write.
#[test]
fn the_ledger_is_as_large_as_it_becomes_unless_a_size_is_given() {
    let sizes = |written: &str| {
        load_text(&format!("mode: observe\nledger: {written}\n"))
            .0
            .config
            .unwrap()
            .ledger
            .sizes()
    };
    let none = sizes("{}");
    assert_eq!((none.lean, none.most), (8 << 30, u64::MAX));
    assert_eq!(
        sizes("{ max_bytes: 16777216 }"),
        Sizes {
            lean: 14 << 20,
            most: 16 << 20
        }
    );
    assert_eq!(
        Ledger::default().sizes(),
        none,
        "without a configuration, too"
    );
    let directory = tempfile::tempdir().unwrap();
    write(
        directory.path(),
        &[(
            FILE_NAME,
            "ledger: { archive: old, heads: { file: elsewhere/heads } }\nmode: observe\n",
        )],
    );
    let path = directory.path().join(FILE_NAME);
    for (mode, warnings) in [(0o700, 0), (0o777, 2)] {
        for name in ["old", "elsewhere"] {
            let _ = fs::create_dir(directory.path().join(name));
            chmod(&directory.path().join(name), mode);
        }
        let Loaded {
            config, reading, ..
        } = load_with(&path, &variables);
        let said: Vec<_> = reading
            .diagnostics
            .iter()
            .map(ToString::to_string)
            .collect();
        let told = said
            .iter()
            .filter(|said| said.contains("others than its owner") && said.contains("chmod go-w"));
        assert_eq!(
            (told.count(), config.is_some()),
            (warnings, true),
            "{said:?}"
        );
        assert!(
            warnings == 0 || said.iter().any(|said| said.contains("toolgate.yaml:1:")),
            "{said:?}"
        );
    }
}
