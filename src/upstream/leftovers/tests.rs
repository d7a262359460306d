//! Scenarios of tool servers that an earlier toolgate left behind.

use super::*;
use std::process::{Child, Command};

fn folder() -> (tempfile::TempDir, Leftovers) {
    let data = tempfile::tempdir().unwrap();
    let leftovers = Leftovers::open(Some(data.path())).unwrap();
    (data, leftovers)
}

fn sleeper() -> (Child, Pid) {
    use std::os::unix::process::CommandExt;
    let child = Command::new("sleep")
        .arg("600")
        .process_group(0)
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    (child, pid)
}

/// Makes a record look as if its toolgate had been killed.
fn orphan(record: &Path) {
    let text = std::fs::read_to_string(record).unwrap();
    let mut head: Vec<&str> = text.lines().next().unwrap().split(' ').collect();
    head[3] = "1";
    let rest: Vec<&str> = text.lines().skip(1).collect();
    std::fs::write(record, format!("{}\n{}\n", head.join(" "), rest.join("\n"))).unwrap();
}

fn recorded(leftovers: &Leftovers, pid: Pid) -> PathBuf {
    let record = leftovers.begin(&ServerName::new("billing")).unwrap();
    let path = record.path().unwrap().to_owned();
    add(&path, pid).unwrap();
    std::mem::forget(record);
    path
}

/// threat-model §3H H3: what an earlier run left behind is ended before anything new starts.
#[test]
fn a_child_of_a_dead_toolgate_is_ended() {
    let (_data, leftovers) = folder();
    let (mut child, pid) = sleeper();
    let path = recorded(&leftovers, pid);
    orphan(&path);
    let reaper = std::thread::spawn(move || child.wait().unwrap());
    assert_eq!(
        leftovers.sweep().unwrap(),
        Swept {
            ended: 1,
            ..Swept::default()
        }
    );
    assert!(!reaper.join().unwrap().success());
    assert!(!path.exists());
}

#[test]
fn a_child_of_a_living_toolgate_is_left_alone() {
    let (_data, leftovers) = folder();
    let (mut child, pid) = sleeper();
    let path = recorded(&leftovers, pid);
    assert_eq!(leftovers.sweep().unwrap(), Swept::default());
    assert!(path.exists() && child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn an_id_that_another_process_has_now_is_left_alone() {
    let (_data, leftovers) = folder();
    let (mut child, pid) = sleeper();
    let path = recorded(&leftovers, pid);
    orphan(&path);
    let started = lineage::look(pid).unwrap().started;
    let text = std::fs::read_to_string(&path)
        .unwrap()
        .replace(&format!(" {started} "), &format!(" {} ", started + 1));
    std::fs::write(&path, text).unwrap();
    assert_eq!(
        leftovers.sweep().unwrap(),
        Swept {
            gone: 1,
            ..Swept::default()
        }
    );
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_record_ends_with_its_child_and_an_unreadable_one_is_removed() {
    let (data, leftovers) = folder();
    let children = data.path().join("children");
    drop(leftovers.begin(&ServerName::new("billing")).unwrap());
    assert_eq!(std::fs::read_dir(&children).unwrap().count(), 0);
    std::fs::write(children.join("torn"), "toolgate-ch").unwrap();
    assert_eq!(leftovers.sweep().unwrap(), Swept::default());
    assert_eq!(std::fs::read_dir(&children).unwrap().count(), 0);
}

#[test]
fn nothing_is_recorded_without_a_data_directory() {
    let leftovers = Leftovers::open(None).unwrap();
    assert_eq!(
        leftovers.begin(&ServerName::new("billing")).unwrap().path(),
        None
    );
    assert_eq!(leftovers.sweep().unwrap(), Swept::default());
}
