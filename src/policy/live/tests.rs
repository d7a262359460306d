//! Files change under a running process.

use super::*;
use crate::config::{self, FILE_NAME};
use crate::model::ids::ToolName;
use std::fs;
use std::path::Path;

const CONFIG_YAML: &str = "servers: { fs: { command: x } }\npolicies: [policies]\n";

fn contract(tool: &str) -> String {
    format!("contracts: {{ fs__{tool}: {{ purpose: p, actions: [read], secrets: [] }} }}\n")
}

fn start(directory: &Path) -> Arc<LivePolicy> {
    let path = directory.join(FILE_NAME);
    let loaded = config::load(&path);
    let running = loaded
        .config
        .unwrap_or_else(|| panic!("{:?}", loaded.reading.diagnostics));
    LivePolicy::start(loaded.reading, config::reader(path, &running)).unwrap()
}

fn has(live: &LivePolicy, tool: &str) -> bool {
    live.current()
        .allowlist
        .contracts()
        .any(|known| *known == ToolName::new(tool))
}

fn set_up(policy: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("policies")).unwrap();
    fs::write(directory.path().join(FILE_NAME), CONFIG_YAML).unwrap();
    fs::write(directory.path().join("policies/a.yaml"), policy).unwrap();
    directory
}

#[test]
fn a_valid_change_swaps_and_a_broken_one_keeps_the_last_good() {
    let directory = set_up(&contract("one"));
    let live = start(directory.path());
    let file = directory.path().join("policies/a.yaml");
    let held = live.current();
    assert_eq!(live.reload(), ReloadOutcome::Unchanged);

    fs::write(&file, contract("two")).unwrap();
    assert_eq!(live.reload(), ReloadOutcome::Swapped);
    assert!(has(&live, "fs__two") && !has(&live, "fs__one"));
    assert!(
        held.allowlist
            .contracts()
            .any(|tool| tool.as_str() == "fs__one"),
        "a call keeps its snapshot"
    );

    fs::write(&file, "contracts: { fs__three: {} }\n").unwrap();
    assert_eq!(live.reload(), ReloadOutcome::KeptLastGood);
    assert!(has(&live, "fs__two"));
    let status = live.status();
    assert!(status.stale() && status.failed == 1 && status.version == live.current().version);

    fs::write(&file, contract("two")).unwrap();
    assert_eq!(live.reload(), ReloadOutcome::Unchanged);
    assert!(
        !live.status().stale(),
        "the files say again what is in force"
    );

    fs::remove_file(directory.path().join(FILE_NAME)).unwrap();
    assert_eq!(live.reload(), ReloadOutcome::KeptLastGood);
    assert!(has(&live, "fs__two"));
}

/// threat-model §3I: a reload gives no agent a new burst.
#[test]
fn a_reload_gives_nobody_messages_anew() {
    let directory = set_up(&contract("one"));
    let live = start(directory.path());
    let now = Duration::from_secs(1_000_000);
    let take = || {
        live.current().identity.callers()[0]
            .pace
            .as_ref()
            .unwrap()
            .take(now)
            .is_ok()
    };
    let sent = (0..100_000).take_while(|_| take()).count();
    assert!((1..100_000).contains(&sent), "{sent}");
    fs::write(directory.path().join("policies/a.yaml"), contract("two")).unwrap();
    assert_eq!(live.reload(), ReloadOutcome::Swapped);
    assert!(!take(), "all was sent before the reload");
}

/// What only a restart applies is said, and everything else is in force.
#[test]
fn a_change_that_needs_a_restart_is_said() {
    let directory = set_up(&contract("one"));
    let live = start(directory.path());
    fs::write(directory.path().join("policies/a.yaml"), contract("two")).unwrap();
    let config = CONFIG_YAML.replace("command: x", "command: y") + "data: elsewhere\n";
    fs::write(directory.path().join(FILE_NAME), config).unwrap();
    assert_eq!(live.reload(), ReloadOutcome::Swapped);
    assert!(has(&live, "fs__two"));
    let found = live
        .status()
        .diagnostics
        .into_iter()
        .filter(|one| one.message.contains("changed"));
    let said = found.fold(String::new(), |text, one| text + &format!("{one}\n"));
    insta::assert_snapshot!(
        "restart",
        said.replace(&format!("{}/", directory.path().display()), "")
    );
}

async fn until(live: &LivePolicy, tool: &str) {
    let mut changes = live.changes();
    let arrived = async {
        while !has(live, tool) {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(10), arrived)
        .await
        .unwrap_or_else(|_| panic!("{tool} did not arrive"));
}

/// A deployment links `a.yaml → ..data/a.yaml → ..1/a.yaml` and swaps the middle link; an editor
/// renames over the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapped_links_renames_and_plain_writes_are_seen() {
    use std::os::unix::fs::symlink;
    let directory = set_up(&contract("zero"));
    let policies = directory.path().join("policies");
    for (version, tool) in [("..1", "one"), ("..2", "two")] {
        fs::create_dir(policies.join(version)).unwrap();
        fs::write(policies.join(version).join("a.yaml"), contract(tool)).unwrap();
    }
    fs::remove_file(policies.join("a.yaml")).unwrap();
    symlink("..1", policies.join("..data")).unwrap();
    symlink("..data/a.yaml", policies.join("a.yaml")).unwrap();
    let live = start(directory.path());
    assert!(has(&live, "fs__one"));
    let watch =
        crate::telemetry::tasks::spawn("watch", Arc::clone(&live).watch(Arc::default(), |_| ()));
    // The watch is on once it has seen a first change: repeat that one until it arrives.
    let first = async {
        while !has(&live, "fs__first") {
            fs::write(policies.join("first.yaml"), contract("first")).unwrap();
            drop(tokio::time::timeout(Duration::from_millis(200), live.changes().changed()).await);
        }
    };
    tokio::time::timeout(Duration::from_secs(10), first)
        .await
        .unwrap();

    symlink("..2", policies.join("..data_new")).unwrap();
    fs::rename(policies.join("..data_new"), policies.join("..data")).unwrap();
    until(&live, "fs__two").await;

    fs::write(policies.join("first.yaml~"), contract("renamed")).unwrap();
    fs::rename(policies.join("first.yaml~"), policies.join("first.yaml")).unwrap();
    until(&live, "fs__renamed").await;

    let below = policies.join("more/deep");
    fs::create_dir_all(&below).unwrap();
    fs::write(below.join("b.yaml"), contract("deep")).unwrap();
    until(&live, "fs__deep").await;

    let swapped = live.status().swapped;
    live.ask();
    fs::write(below.join("b.yaml"), contract("last")).unwrap();
    until(&live, "fs__last").await;
    assert_eq!(live.status().swapped, swapped + 1);
    watch.abort();
}

/// A log or a journal that grows beside the configuration is not a reason to read it again; a file
/// that is named is, under whatever name it is written.
#[test]
fn only_writes_to_what_is_read_lead_to_reading() {
    use notify::event::{CreateKind, DataChange, MetadataKind};
    let directory = set_up(&contract("one"));
    let at = |name: &str| directory.path().join(name);
    fs::rename(at(FILE_NAME), at("production.yaml")).unwrap();
    std::os::unix::fs::symlink("production.yaml", at(FILE_NAME)).unwrap();
    fs::write(at("toolgate.log"), "a line\n").unwrap();
    let live = start(directory.path());
    let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
    for (kind, name, counts) in [
        (written, "toolgate.log", false),
        (closed, "toolgate.log", false),
        (written, "production.yaml", true),
        (closed, FILE_NAME, true),
        (written, "policies/a.yaml", true),
        (closed, "policies/more/new.yaml", true),
        (EventKind::Access(AccessKind::Read), FILE_NAME, false),
        (EventKind::Create(CreateKind::Any), "toolgate.log", true),
        (
            EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any)),
            FILE_NAME,
            true,
        ),
    ] {
        let event = Event::new(kind).add_path(at(name));
        assert_eq!(live.scope.lock().concerns(&event), counts, "{event:?}");
    }
}

/// 003-41: what is taken away is gone at once and stays so over reloads, also while the files have
/// errors; each state is a version of its own, and giving it back is the first one again.
#[test]
fn what_is_taken_away_stays_away_over_reloads() {
    use crate::model::caller::Caller;
    use crate::model::disabled::{Disabled, Reason};
    let directory = set_up(&contract("one"));
    let live = start(directory.path());
    let sees = |tool: &str| {
        live.current()
            .allowlist
            .admit(&Caller::named("anonymous"), &ToolName::new(tool))
            .is_ok()
    };
    let (first, changes) = (live.current().version.clone(), live.changes());
    let file = directory.path().join("policies/a.yaml");
    fs::write(&file, "contracts: { fs__one: {} }\n").unwrap();
    assert_eq!(live.reload(), ReloadOutcome::KeptLastGood);

    let reason = Reason {
        who: "ann".to_owned(),
        why: "w".to_owned(),
        since: String::new(),
    };
    live.take_away(Disabled::from([(ToolName::new("fs__one"), reason)]));
    assert!(!sees("fs__one") && changes.has_changed().unwrap());
    let second = live.current().version.clone();
    assert!(second != first && second == live.status().version && live.status().stale());

    fs::write(
        &file,
        contract("one") + "layers: { global: { deny: ['*__two'] } }\n",
    )
    .unwrap();
    assert_eq!(live.reload(), ReloadOutcome::Swapped);
    assert!(!sees("fs__one"));
    fs::write(&file, contract("one")).unwrap();
    assert_eq!(live.reload(), ReloadOutcome::Swapped);
    assert_eq!(live.current().version, second);
    live.take_away(Disabled::new());
    assert!(sees("fs__one") && live.current().version == first);
}
