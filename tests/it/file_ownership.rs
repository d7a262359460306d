//! Files are trusted when nobody else can change them, and kept so that nobody else can read them
//! (threat-model §13 F6, F13, L6, L7; §9, §10, §3E E4). Other accounts are played by `nobody`,
//! which takes root: without it these scenarios say so.

use crate::approvals::{ask, held};
use crate::harness::gate::Gate;
use crate::harness::setup::{Setup, TOOLGATE, beside};
use crate::harness::tool_server::Script;
use crate::harness::until;
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};

const NOBODY: u32 = 65_534;
const CANARY: &str = "CANARY-HELD-ARGUMENT";

/// Whether other accounts can be played.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"skipped: this takes root\n");
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
/// everybody may write, with the sticky bit or read-only), and another account that keeps its own
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

/// Everything below `path`, with what others may do.
fn open_to_others(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let known = fs::symlink_metadata(path).unwrap();
    if known.mode() & 0o077 != 0 {
        found.push(format!("{} {:o}", path.display(), known.mode()));
    }
    if known.is_dir() {
        found.extend(
            fs::read_dir(path)
                .unwrap()
                .flat_map(|entry| open_to_others(&entry.unwrap().path())),
        );
    }
    found
}

/// Gives everybody the right to read all of it, as an older version or a careless copy left it.
fn open_up(path: &Path) {
    let is_dir = path.is_dir();
    mode(path, if is_dir { 0o755 } else { 0o644 });
    if is_dir {
        for entry in fs::read_dir(path).unwrap() {
            open_up(&entry.unwrap().path());
        }
    }
}

/// threat-model §13 F6: a held call's arguments stood in files that every account could read. What
/// is there is narrowed, what sled makes is for its owner alone, and a tool server keeps the umask
/// that toolgate was started with.
#[tokio::test]
async fn nobody_reads_the_data_directory() {
    let mut setup = crate::approvals::setup();
    let seen = setup.directory().join("umask-of-the-server");
    let program = beside("oracle-server");
    let script = format!("umask > {}; exec {}", seen.display(), program.display());
    setup = setup.server_with(
        "child",
        &format!("command: sh, args: [-c, \"{script}\"], env: {{ ORACLE_LOG: log }}"),
    );
    setup.write();
    held(&setup, vec![ask(1, json!({ "to": CANARY }))]).await;
    let data = setup.directory().join("data");
    // As if it had been started before.
    fs::write(data.join("round-key"), "5a".repeat(32)).unwrap();
    open_up(&data);
    mode(setup.directory(), 0o755);
    let gate = setup.start_at_once().await;
    let is_said = || fs::read_to_string(&seen).is_ok_and(|said| said.ends_with('\n'));
    until("the tool server runs", || async { is_said().then_some(()) }).await;
    until("it is noted", || async {
        fs::read_dir(data.join("children"))
            .unwrap()
            .next()
            .map(|_| ())
    })
    .await;
    assert_eq!(open_to_others(&data), Vec::<String>::new());
    assert_eq!(fs::read_to_string(&seen).unwrap().trim(), "0022");
    assert!(
        gate.log()
            .contains("others could read what is in the data directory"),
        "{}",
        gate.log()
    );
    if is_root() {
        for file in ["index/db", "index/conf", "journal", "lock"] {
            let path = data.join(file);
            let nobody = ["--reuid", "65534", "--clear-groups", "ls"];
            let output = std::process::Command::new("setpriv")
                .args(nobody)
                .arg(&path)
                .output()
                .unwrap();
            assert!(!output.status.success(), "{} can be seen", path.display());
        }
    }
}

/// threat-model §13 L6, lane: everything that could stand where toolgate writes, as a link or as
/// another's; the target stays as it was.
#[tokio::test]
async fn nothing_planted_in_the_data_directory_is_used() {
    let mut cases = 0;
    for name in [
        "epoch.new",
        "index.new",
        "journal.new",
        "disabled.new",
        "epoch",
        "index.mark",
        "disabled.json",
        "lock",
        "journal",
        "index",
        "children",
        "results",
        "sent",
        "round-key",
        "round-key.new",
    ] {
        for how in [
            "link to a file",
            "link to a directory",
            "nobody's file",
            "nobody's directory",
        ] {
            if how.starts_with("nobody") && !is_root() {
                continue;
            }
            let setup = Setup::new().server_with("s", "url: \"http://127.0.0.1:9/mcp\"");
            let config = setup.write();
            let (data, target) = (
                setup.directory().join("data"),
                setup.directory().join("target"),
            );
            fs::create_dir(&data).unwrap();
            let planted = data.join(name);
            match how {
                "link to a file" => {
                    fs::write(&target, "keep me").unwrap();
                    symlink(&target, &planted).unwrap();
                }
                "link to a directory" => {
                    fs::create_dir(&target).unwrap();
                    symlink(&target, &planted).unwrap();
                }
                "nobody's file" => {
                    fs::write(&planted, "7").unwrap();
                    give(&planted);
                }
                _ => {
                    fs::create_dir(&planted).unwrap();
                    give(&planted);
                }
            }
            let output = setup
                .run(&["serve", "--config", config.to_str().unwrap()])
                .await;
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{name}, {how}: {said}");
            assert!(
                said.contains(&format!("data/{name}")),
                "{name}, {how}: {said}"
            );
            if how == "link to a file" {
                assert_eq!(fs::read_to_string(&target).unwrap(), "keep me", "{name}");
            } else if how == "link to a directory" {
                assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "{name}");
            }
            cases += 1;
        }
    }
    assert_eq!(cases, if is_root() { 15 * 4 } else { 15 * 2 });
}

/// threat-model §13 L6: the data directory is ours, whatever leads to it.
#[tokio::test]
async fn a_data_directory_of_anothers_is_refused() {
    if !is_root() {
        return;
    }
    for (what, spoil) in [
        (
            "nobody's",
            (|at: &Path| {
                fs::create_dir(at.join("data")).unwrap();
                give(&at.join("data"));
            }) as fn(&Path),
        ),
        ("a link into nobody's directory", |at| {
            fs::create_dir_all(at.join("theirs/data")).unwrap();
            give(&at.join("theirs"));
            symlink("theirs/data", at.join("data")).unwrap();
        }),
        ("nobody's link", |at| {
            fs::create_dir(at.join("elsewhere")).unwrap();
            symlink("elsewhere", at.join("data")).unwrap();
            give(&at.join("data"));
        }),
        ("begun by nobody", |at| {
            fs::create_dir(at.join("data.new")).unwrap();
            fs::write(at.join("data.new/x"), "").unwrap();
            give(&at.join("data.new"));
        }),
    ] {
        let setup = Setup::new().server_with("s", "url: \"http://127.0.0.1:9/mcp\"");
        let config = setup.write();
        spoil(setup.directory());
        let output = setup
            .run(&["serve", "--config", config.to_str().unwrap()])
            .await;
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && said.contains("the data directory"),
            "{what}: {said}"
        );
    }
    let setup = Setup::new().server_with("s", "url: \"http://127.0.0.1:9/mcp\"");
    setup.write();
    fs::create_dir(setup.directory().join("elsewhere")).unwrap();
    symlink("elsewhere", setup.directory().join("data")).unwrap();
    let gate = setup.start_at_once().await;
    assert!(gate.log().is_empty() || !gate.log().contains("belongs to another account"));
}

/// threat-model §13 F13, §10: an address that others reach is only listened on when that is said.
#[tokio::test]
async fn a_wide_listener_is_said() {
    let mut cases = 0;
    let token = "token-of-sixteen-bytes-or-more";
    for address in [
        "127.0.0.1:0",
        "[::1]:0",
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.1:7777",
        "[::ffff:127.0.0.1]:0",
    ] {
        for (door, flag) in [(false, false), (false, true), (true, false), (true, true)] {
            let setup = Setup::new();
            let (own, admin) = if door {
                ("127.0.0.1:0", address)
            } else {
                (address, "127.0.0.1:0")
            };
            let text = format!(
                "listen: '{own}'\nunencrypted: {}\nadmin: {{ listen: '{admin}', unencrypted: {}, tokens: [ {{ name: ann, token: {token}-a, roles: \
                 [resolver, switch, auditor] }} ] }}\ncallers: [ {{ agent: bot, token: {token}-b }} ]\nmode: observe\n",
                flag && !door,
                flag && door
            );
            let path = setup.directory().join("toolgate.yaml");
            fs::write(&path, text).unwrap();
            mode(&path, 0o600);
            let output = setup.run(&["check", path.to_str().unwrap()]).await;
            let said = String::from_utf8(output.stdout).unwrap();
            let is_near = address.starts_with("127.0.0.1") || address.starts_with("[::1]");
            let fine = is_near || flag;
            assert_eq!(
                output.status.code(),
                Some(i32::from(!fine)),
                "{address} {door} {flag}: {said}"
            );
            let key = if door {
                "`admin.unencrypted: true`"
            } else {
                "`unencrypted: true`"
            };
            assert_eq!(
                said.contains("TLS front end") && said.contains(key),
                !fine,
                "{said}"
            );
            cases += 1;
        }
    }
    assert_eq!(cases, 6 * 4);
}

/// threat-model §3E E4: a token that others than the owner may read is warned of, where it stands.
#[tokio::test]
async fn a_token_that_others_may_read_is_warned_of() {
    let mut cases = 0;
    for (bits, is_readable) in [
        (0o600, false),
        (0o400, false),
        (0o640, true),
        (0o604, true),
        (0o644, true),
    ] {
        for (yaml, is_literal) in [
            ("callers: [ { agent: bot, token: LITERAL } ]", true),
            ("callers: [ { agent: bot, token: \"${TOKEN}\" } ]", false),
            (
                "callers: [ { agent: bot, token: \"${NONE:-LITERAL}\" } ]",
                false,
            ),
            (
                "callers: []\nadmin: { tokens: [ { name: a, token: LITERAL, roles: [resolver, switch, auditor] } ] }",
                true,
            ),
            (
                "front_ends: [ { name: f, token: LITERAL, header: x-agent } ]\ncallers: [ { agent: b, front_end: f } ]",
                true,
            ),
        ] {
            let setup = Setup::new().environment("TOKEN", "token-of-the-environment");
            let path = setup.directory().join("toolgate.yaml");
            let servers = "servers: { s: { url: 'http://127.0.0.1:9/mcp' } }\nmode: observe\n";
            fs::write(
                &path,
                format!(
                    "{servers}{}\n",
                    yaml.replace("LITERAL", "token-that-is-written-out")
                ),
            )
            .unwrap();
            mode(&path, bits);
            let output = setup.run(&["check", path.to_str().unwrap()]).await;
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(
                said.contains("a token is written out here"),
                is_readable && is_literal,
                "{bits:o} {yaml}: {said}"
            );
            assert!(!said.contains("token-that-is-written-out"), "{said}");
            cases += 1;
        }
    }
    assert_eq!(cases, 5 * 5);
}

/// threat-model §10: what toolgate holds is not written to a core, and not read out of it by its
/// own account; a tool server's limits are as toolgate's.
#[tokio::test]
async fn its_memory_is_sealed() {
    let setup = Setup::new().server_with("s", "url: \"http://127.0.0.1:9/mcp\"");
    let config = setup.write();
    let program = setup.directory().join("toolgate");
    fs::copy(TOOLGATE, &program).unwrap();
    let mut command = std::process::Command::new(&program);
    command
        .args(["serve", "--config"])
        .arg(&config)
        .current_dir(setup.directory());
    if is_root() {
        use std::os::unix::process::CommandExt as _;
        for path in [setup.directory(), &config] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let mut child = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    until("its memory is sealed", || async {
        let limits = fs::read_to_string(proc.join("limits")).unwrap_or_default();
        let core = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"))?
            .to_owned();
        // What can be seen of a process that is not dumpable belongs to root, whatever account runs
        // it.
        let sealed = core.split_whitespace().skip(4).take(2).eq(["0", "0"])
            && fs::metadata(proc.join("environ")).ok()?.uid() == 0;
        sealed.then_some(())
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
}

/// threat-model §10, §3E E4: an agent of toolgate's own account is warned of, once; one of another
/// account is not.
#[tokio::test]
async fn an_agent_of_the_same_account_is_warned_of() {
    let server = Script::new().start().await;
    let gate = Setup::new()
        .server("oracle", &server)
        .mode("observe")
        .start()
        .await;
    let advisory = |gate: &Gate| gate.log().matches("approvals are advisory").count();
    let port = gate.agents.port();
    if is_root() {
        for _ in 0..2 {
            let script = format!(
                "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /mcp HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
            );
            let nobody = ["--reuid", "65534", "--clear-groups", "bash", "-c", &script];
            let output = std::process::Command::new("setpriv")
                .args(nobody)
                .output()
                .unwrap();
            assert!(output.stdout.starts_with(b"HTTP/1.1 "), "{output:?}");
        }
        assert_eq!(advisory(&gate), 0, "{}", gate.log());
    }
    for _ in 0..12 {
        let _ = crate::harness::answer::get(gate.agents, "/mcp").await;
    }
    until("it is said", || async {
        (advisory(&gate) > 0).then_some(())
    })
    .await;
    assert_eq!(advisory(&gate), 1, "{}", gate.log());
    assert!(gate.log().contains("share uid"), "{}", gate.log());
}
