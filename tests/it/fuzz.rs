//! The fuzz targets (`fuzz/`) on any toolchain: each with its whole corpus, and with mutations of
//! it that follow from a seed (threat-model §12, §13.2). `fuzz/run` lets libFuzzer look further.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use targets::{TARGETS, Target};
use toolgate_faults::dice::{Dice, seed};

/// Bytes of all corpora together.
const CORPORA: u64 = 200 << 10;
/// Longest mutation, in bytes.
const LONGEST: usize = 4 << 10;
/// Where chance begins; `TOOLGATE_SEED` is another one, `TOOLGATE_FUZZ_CASES` another number
/// of mutations.
const SEED: u64 = 12;
/// What parsers mind.
const WORDS: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00",
    b"\x7f",
    b"\0",
    b"\n",
    b"\r\n",
    b"-",
    b"0",
    b"1e-400",
    b"-0",
    b"9007199254740993",
    b"1e17",
    b"null",
    b"true",
    b"METHOD",
    b"\"id\":1,",
    b"\"Id\":1,",
    "ß".as_bytes(),
    "ẞ".as_bytes(),
    "\u{17f}".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{feff}".as_bytes(),
    b"=?base64?",
    b"?=",
    b"data: ",
    b"\n\n",
    b": ",
    b"id: 1\n",
    b"$ref",
    b"#/",
    b"allOf",
    b"pattern",
    b"enum",
    b"%25",
    b"\\\\",
    b"&a ",
    b"*a",
    b"- ",
];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

/// Says which bytes it was, should a target panic.
struct FuzzCase<'a>(&'a str, &'a [u8]);

impl Drop for FuzzCase<'_> {
    #[expect(
        clippy::print_stderr,
        reason = "what broke a promise is to be tried again"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "{}: these bytes break it: {:?}",
                self.0,
                self.1.escape_ascii().to_string()
            );
        }
    }
}

/// One to four changes.
fn mutated(dice: &mut Dice, one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = one.to_vec();
    for _ in 0..=dice.below(4) {
        let mut place =
            |room: usize| usize::try_from(dice.below(u64::try_from(room).unwrap() + 1)).unwrap();
        let at = place(bytes.len());
        let end = at + place((bytes.len() - at).min(16));
        match place(6) {
            0 => bytes
                .iter_mut()
                .skip(at)
                .take(1)
                .for_each(|byte| *byte ^= 1 << place(7)),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            3 => {
                let from = place(other.len());
                let part = &other[from..from + place((other.len() - from).min(64))];
                bytes.splice(at..end, part.iter().copied());
            }
            4 => bytes.insert(at, u8::try_from(place(255)).unwrap()),
            _ => drop(bytes.splice(at..at, WORDS[place(WORDS.len() - 1)].iter().copied())),
        }
    }
    bytes.truncate(LONGEST);
    bytes
}

/// Runs the corpus of the target `name` and `mutations` of it.
#[expect(
    clippy::print_stderr,
    reason = "the number of cases is what the lane shows"
)]
fn replay(name: &str, mutations: u64) {
    let run: Target = TARGETS.iter().find(|(known, _)| *known == name).unwrap().1;
    let files = corpus(name);
    assert!(
        files.len() >= 8,
        "{name}: a corpus of {} files",
        files.len()
    );
    for (path, bytes) in &files {
        let _case = FuzzCase(path.to_str().unwrap(), bytes);
        run(bytes);
    }
    let mut dice = Dice::new(seed(SEED));
    let mutations = number("TOOLGATE_FUZZ_CASES").unwrap_or(mutations);
    let count = u64::try_from(files.len()).unwrap();
    for _ in 0..mutations {
        let mut any = || &files[usize::try_from(dice.below(count)).unwrap()].1;
        let (one, other) = (any(), any());
        let bytes = mutated(&mut dice, one, other);
        let _case = FuzzCase(name, &bytes);
        run(&bytes);
    }
    eprintln!(
        "{name}: {} cases ({count} of the corpus, {mutations} mutations)",
        count + mutations
    );
}

macro_rules! lanes {
    ($($name:ident: $mutations:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name), $mutations);
            }
        )*
        const LANES: &[&str] = &[$(stringify!($name)),*];
    };
}

lanes! {
    strict_reader: 20_000,
    envelope: 20_000,
    header_codec: 20_000,
    sse: 20_000,
    schema: 600,
    canonical: 20_000,
    renderer: 10_000,
    scrubber: 1_500,
    policy_loader: 400,
    audit_verify: 500,
}

/// Every target has a lane here, a door for libFuzzer and a corpus, and all corpora together stay
/// small.
#[test]
fn every_target_is_replayed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let names: BTreeSet<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        LANES.iter().copied().collect(),
        "a lane for each target"
    );
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for name in &names {
        assert!(
            root.join(format!("fuzz_targets/{name}.rs")).is_file(),
            "{name} has no door for libFuzzer"
        );
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} is no program of fuzz/Cargo.toml"
        );
    }
    let folders: BTreeSet<String> = std::fs::read_dir(root.join("corpus"))
        .unwrap()
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        folders.iter().map(String::as_str).eq(names.iter().copied()),
        "a corpus for each target: {folders:?}"
    );
    let bytes: usize = names
        .iter()
        .flat_map(|name| corpus(name))
        .map(|(_, bytes)| bytes.len())
        .sum();
    assert!(
        u64::try_from(bytes).unwrap() <= CORPORA,
        "{bytes} bytes of corpora"
    );
}
