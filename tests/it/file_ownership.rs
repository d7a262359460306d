//! Files are trusted when nobody else can change them, and kept so that nobody else can read them
//! (threat-model §13 F6, F13, L6, L7; §9, §10, §3E E4). Other accounts are played by `nobody`,
//! which takes root: without it these scenarios say so.

mod data_directory;
mod warnings;

use crate::harness::left_out::left_out;
use crate::harness::setup::{Setup, TOOLGATE};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

const NOBODY: u32 = 65_534;

/// Whether other accounts can be played.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        left_out("root", "run as root to try what other accounts do");
    }
    is_root
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn give(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

/// A configuration with a policy directory and a pin file, all of it well kept; each scenario
/// spoils one thing.
struct Files {
    setup: Setup,
    root: PathBuf,
}

impl Files {
    fn new() -> Self {
        let setup = Setup::new();
        let root = setup.directory().join("above");
        fs::create_dir_all(root.join("conf/policies")).unwrap();
        fs::create_dir(root.join("else")).unwrap();
        let contract = "contracts: { s__t: { purpose: p, actions: [read], secrets: [] } }\n";
        let config = "servers: { s: { url: 'http://127.0.0.1:9/mcp' } }\npolicies: [policies]\npins: {}\n\
            secrets: { token: { file: token, for: [ { server: s, tool: t, pointer: /token } ] } }\n\
            ledger: { seal: { key: { file: seal.key } } }\n";
        for (name, text) in [
            ("conf/toolgate.yaml", config),
            ("conf/policies/a.yaml", contract),
            ("conf/toolgate.pins.yaml", "pins: {}\n"),
            ("else/file", contract),
            ("conf/token", "token-of-the-file\n"),
            ("conf/seal.key", "0123456789abcdef0123456789abcdef\n"),
        ] {
            fs::write(root.join(name), text).unwrap();
        }
        for name in ["conf/token", "conf/seal.key"] {
            mode(&root.join(name), 0o600);
        }
        Self { setup, root }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Moves it to `else`, and leaves a link in its place.
    fn linked(&self, name: &str) -> PathBuf {
        let (path, to) = (
            self.at(name),
            self.at("else").join(Path::new(name).file_name().unwrap()),
        );
        fs::rename(&path, &to).unwrap();
        symlink(&to, &path).unwrap();
        to
    }

    async fn check(&self) -> (Option<i32>, String) {
        let path = self.at("conf/toolgate.yaml");
        let output = self.setup.run(&["check", path.to_str().unwrap()]).await;
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }
}

/// The commands that the hints name.
fn mending(text: &str) -> Vec<String> {
    let hints = text
        .lines()
        .filter_map(|line| line.split_once("run `")?.1.split_once('`'));
    let mut commands: Vec<String> = hints.map(|(command, _)| command.to_owned()).collect();
    commands.dedup();
    commands
}

const FILES: [&str; 5] = [
    "conf/toolgate.yaml",
    "conf/policies/a.yaml",
    "conf/toolgate.pins.yaml",
    "conf/token",
    "conf/seal.key",
];

const DIRECTORIES: [&str; 3] = ["conf/policies", "conf", ""];

/// One way to spoil a thing, or not: what it is called, and whether it is refused.
type Spoil = (&'static str, bool, fn(&Files, &str));

const OF_FILES: [Spoil; 12] = [
    ("well kept", false, |_, _| ()),
    ("0640", false, |files, name| mode(&files.at(name), 0o640)),
    ("0666", true, |files, name| mode(&files.at(name), 0o666)),
    ("0664", true, |files, name| mode(&files.at(name), 0o664)),
    ("0646", true, |files, name| mode(&files.at(name), 0o646)),
    ("nobody's", true, |files, name| give(&files.at(name))),
    ("a link", false, |files, name| drop(files.linked(name))),
    ("a link to nobody's file", true, |files, name| {
        give(&files.linked(name));
    }),
    (
        "a link to a file that others may write",
        true,
        |files, name| mode(&files.linked(name), 0o666),
    ),
    ("nobody's link", true, |files, name| {
        files.linked(name);
        give(&files.at(name));
    }),
    ("a link into nobody's directory", true, |files, name| {
        files.linked(name);
        give(&files.at("else"));
    }),
    ("a link into an open directory", true, |files, name| {
        files.linked(name);
        mode(&files.at("else"), 0o777);
    }),
];

const OF_DIRECTORIES: [Spoil; 8] = [
    ("0700", false, |files, name| mode(&files.at(name), 0o700)),
    ("0755", false, |files, name| mode(&files.at(name), 0o755)),
    ("1777", false, |files, name| mode(&files.at(name), 0o1777)),
    ("1777 with nobody's file in it", true, |files, name| {
        mode(&files.at(name), 0o1777);
        give(&files.at("conf/policies/a.yaml"));
    }),
    ("0777", true, |files, name| mode(&files.at(name), 0o777)),
    ("0775", true, |files, name| mode(&files.at(name), 0o775)),
    ("0757", true, |files, name| mode(&files.at(name), 0o757)),
    ("nobody's", true, |files, name| give(&files.at(name))),
];

/// threat-model §13 F6, lane: every kind of file × every way in which others can change it. What is
/// refused names the file, why, and the command that mends it; the command does.
#[tokio::test]
async fn files_that_others_can_change_are_refused() {
    if !is_root() {
        return;
    }
    let files = FILES
        .iter()
        .flat_map(|name| OF_FILES.iter().map(move |spoil| (*name, spoil)));
    let directories = DIRECTORIES
        .iter()
        .flat_map(|name| OF_DIRECTORIES.iter().map(move |spoil| (*name, spoil)));
    let (mut cases, mut refused) = (0, 0);
    for (name, (what, is_refused, spoil)) in files.chain(directories) {
        let files = Files::new();
        spoil(&files, name);
        let (code, text) = files.check().await;
        assert_eq!(code, Some(i32::from(*is_refused)), "{name} {what}: {text}");
        cases += 1;
        if !is_refused {
            continue;
        }
        refused += 1;
        let commands = mending(&text);
        assert!(
            !commands.is_empty() && commands.len() <= 2,
            "{name} {what}: {text}"
        );
        for command in commands {
            assert!(
                command.starts_with("chmod ") || command.starts_with("chown "),
                "{command}"
            );
            let mended = std::process::Command::new("sh")
                .args(["-c", &command])
                .current_dir(files.setup.directory())
                .status();
            assert!(mended.unwrap().success(), "{command}");
        }
        let (code, text) = files.check().await;
        assert_eq!(code, Some(0), "{name} {what}, mended: {text}");
    }
    assert_eq!((cases, refused), (5 * 12 + 3 * 8, 5 * 9 + 3 * 5));
}

/// threat-model §9: a secret alone in a directory of its own, so that nothing else is refused for
/// it; a directory that exists before the file does is judged, too.
#[tokio::test]
async fn a_secret_that_others_could_put_there_is_refused() {
    let mut cases = 0;
    for section in [
        "secrets: { t: { file: away/file, for: [ { server: s, tool: t, pointer: /p } ] } }",
        "ledger: { seal: { key: { file: away/file } } }",
    ] {
        for (bits, is_there, is_refused) in [
            (0o700, true, false),
            (0o1777, true, false),
            (0o777, true, true),
            (0o775, true, true),
            (0o777, false, true),
        ] {
            let setup = Setup::new();
            let away = setup.directory().join("away");
            fs::create_dir(&away).unwrap();
            if is_there {
                fs::write(away.join("file"), "0123456789abcdef0123456789abcdef").unwrap();
                mode(&away.join("file"), 0o600);
            }
            mode(&away, bits);
            let path = setup.directory().join("toolgate.yaml");
            fs::write(
                &path,
                format!("servers: {{ s: {{ url: 'http://127.0.0.1:9/mcp' }} }}\nmode: observe\n{section}\n"),
            )
            .unwrap();
            let output = setup.run(&["check", path.to_str().unwrap()]).await;
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(
                output.status.code(),
                Some(i32::from(is_refused)),
                "{bits:o} {section}: {text}"
            );
            let named =
                text.contains("away: others than its owner may change what is in this directory");
            assert_eq!(
                named && text.contains("what the secret is"),
                is_refused,
                "{text}"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 2 * 5);
}

/// threat-model §3I, §9: a program that others could exchange is warned of, with what mends it,
/// wherever it is named; where only root and toolgate's account may write, nothing is said.
#[tokio::test]
async fn a_program_that_others_could_exchange_is_warned_of() {
    let setup = Setup::new();
    let bin = setup.directory().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::create_dir(setup.directory().join("behind")).unwrap();
    for name in ["bin/tool", "behind/other"] {
        fs::write(setup.directory().join(name), "#!/bin/sh\n").unwrap();
        mode(&setup.directory().join(name), 0o755);
    }
    symlink("../bin/tool", setup.directory().join("behind/linked")).unwrap();
    let at = setup.directory().display().to_string();
    let path = setup.directory().join("toolgate.yaml");
    let cases = [
        format!("servers: {{ s: {{ command: {at}/bin/tool }} }}"),
        format!("servers: {{ s: {{ command: ../bin/tool, cwd: {at}/behind }} }}"),
        format!("servers: {{ s: {{ command: {at}/behind/linked }} }}"),
        format!("servers: {{ s: {{ command: tool, env: {{ PATH: '{at}/bin:/usr/bin' }} }} }}"),
        // Found behind it; a program of the same name could be put before.
        format!("servers: {{ s: {{ command: other, env: {{ PATH: '{at}/bin:{at}/behind' }} }} }}"),
        "secrets: { t: { command: [bin/tool], ttl: 5m, for: [ { server: s, tool: t, pointer: /p } ] } }".to_owned(),
        "ledger: { seal: { key: { command: [bin/tool] } } }".to_owned(),
    ];
    let usual = "servers: { s: { command: sh } }".to_owned();
    for (bits, is_open) in [
        (0o755, false),
        (0o1777, false),
        (0o777, true),
        (0o775, true),
    ] {
        mode(&bin, bits);
        for (section, is_open) in cases
            .iter()
            .map(|case| (case, is_open))
            .chain([(&usual, false)])
        {
            let server = if section.starts_with("servers") {
                ""
            } else {
                "servers: { s: { url: 'http://127.0.0.1:9' } }\n"
            };
            fs::write(&path, format!("mode: observe\n{server}{section}\n")).unwrap();
            let output = setup.run(&["check", path.to_str().unwrap()]).await;
            let text = String::from_utf8(output.stdout).unwrap();
            assert_eq!(output.status.code(), Some(0), "{section}: {text}");
            let is_warned =
                text.contains("others than its owner may change what is in this directory, and so which program runs");
            assert_eq!(is_warned, is_open, "{bits:o} {section}: {text}");
            assert_eq!(text.contains(&format!("{at}/bin`")), is_open, "{text}");
        }
    }
}

/// threat-model §10: what Kubernetes mounts (links to a directory of root's below one in which
/// every account may write, with the sticky bit or read-only), and another account that keeps its own
/// files.
#[tokio::test]
async fn what_is_well_kept_elsewhere_is_taken() {
    if !is_root() {
        return;
    }
    let files = Files::new();
    let (policies, version) = (
        files.at("conf/policies"),
        files.at("conf/policies/..2026_11_22"),
    );
    fs::create_dir(&version).unwrap();
    fs::rename(policies.join("a.yaml"), version.join("a.yaml")).unwrap();
    symlink("..2026_11_22", policies.join("..data")).unwrap();
    symlink("..data/a.yaml", policies.join("a.yaml")).unwrap();
    mode(&policies, 0o1777);
    let (code, text) = files.check().await;
    assert!(code == Some(0) && text.contains("1 contract,"), "{text}");
    mode(&policies, 0o777);
    assert_eq!(
        files.check().await.0,
        Some(1),
        "anybody may rename a link there"
    );
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" || exit 77; exec \"$2\" check \"$3\"";
    let mut unshared = std::process::Command::new("unshare");
    unshared
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([&policies, Path::new(TOOLGATE)]);
    let output = unshared
        .arg(files.at("conf/toolgate.yaml"))
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    if output.status.code() != Some(77) && !text.contains("unshare failed") {
        assert!(output.status.success(), "read-only: {text}");
    }
}
