//! What a tool server that is a child process may do to the machine (threat-model §3I, §13.2):
//! each attempt is seen to succeed without a sandbox, and to fail in one.

use crate::harness::answer::code;
use crate::harness::gate::run;
use crate::harness::left_out::left_out;
use crate::harness::setup::{Setup, beside};
use crate::harness::until;
use serde_json::json;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

const TOOLGATE: &str = env!("CARGO_BIN_EXE_toolgate");

/// `inside` and `outside`, with a file in each.
fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for folder in ["inside", "outside"] {
        std::fs::create_dir(place.path().join(folder)).unwrap();
        std::fs::write(place.path().join(folder).join("kept"), "kept\n").unwrap();
    }
    place
}

/// What is told to a guard: `files` as JSON, and more members.
fn told(files: &serde_json::Value, no_new_privs: bool, limits: &serde_json::Value) -> String {
    json!({ "files": files, "no_new_privs": no_new_privs, "limits": limits }).to_string()
}

/// What a shell says and how it ends, under a guard, in a sandbox or not.
fn guarded(place: &Path, sandbox: Option<&str>, script: &str) -> (i32, String) {
    let mut guard = std::process::Command::new(TOOLGATE);
    guard.arg("__guard");
    if let Some(sandbox) = sandbox {
        guard.arg("--confine").arg(sandbox);
    }
    let guard = guard
        .args(["--", "/bin/sh", "-c", script])
        .current_dir(place);
    let ended = guard
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ended = ended.wait_with_output().unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    (
        ended.status.code().unwrap(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Whether this kernel can keep a program to its files; says so when it cannot.
fn has_landlock() -> bool {
    let place = place();
    let files = json!({ "read": null, "write": [place.path().join("inside")], "required": true });
    let (code, said) = guarded(place.path(), Some(&told(&files, false, &json!({}))), "true");
    if code != 0 {
        left_out(
            "Landlock",
            &format!("enable it (`lsm=landlock,…`) to try it: {said}"),
        );
    }
    code == 0
}

/// What a program may try that must not write outside: all of it works without a sandbox.
const WRITES: &[&str] = &[
    "echo x > outside/new",
    "echo x >> outside/kept",
    ": > outside/kept",
    "rm outside/kept",
    "mkdir outside/folder",
    "mv outside/kept outside/moved",
    "mv inside/kept outside/moved",
    "ln inside/kept outside/link",
    "ln -s ../inside outside/link",
    "ln -s ../outside inside/door && echo x > inside/door/new",
    "mkfifo outside/fifo",
    "cp /bin/true outside/program",
    "sh -c 'sh -c \"echo x > outside/new\"'",
    "cd outside && echo x > new",
    "exec 3> outside/new",
    "echo x > inside/../outside/new",
    "truncate -s 0 outside/kept",
    "dd if=/dev/zero of=outside/kept bs=1 count=1",
];

/// threat-model §3I: what is not listed is not written, whatever way is tried; what is listed is.
#[test]
fn files_outside_are_not_written() {
    if !has_landlock() {
        return;
    }
    for script in WRITES {
        let open = place();
        let (code, said) = guarded(open.path(), None, script);
        assert_eq!(code, 0, "without a sandbox, {script}: {said}");
        for read in [json!(null), json!(["inside", "outside"])] {
            let place = place();
            let path = |folder: &str| place.path().join(folder);
            let read = if read.is_null() {
                read
            } else {
                json!([path("inside"), path("outside")])
            };
            let files = json!({ "read": read, "write": [path("inside")], "required": true });
            let sandbox = told(&files, false, &json!({}));
            let (code, said) = guarded(place.path(), Some(&sandbox), script);
            assert_ne!(code, 0, "in a sandbox, {script}: {said}");
            let left: Vec<_> = std::fs::read_dir(path("outside"))
                .unwrap()
                .map(|file| file.unwrap().file_name())
                .collect();
            assert_eq!(left, ["kept"], "{script}");
            assert_eq!(
                std::fs::read_to_string(path("outside").join("kept")).unwrap(),
                "kept\n",
                "{script}"
            );
            let allowed = script
                .replace("outside", "inside")
                .replace("inside/kept inside/", "inside/kept inside/x");
            if !allowed.contains("door") {
                let (code, said) = guarded(place.path(), Some(&sandbox), &allowed);
                assert_eq!(code, 0, "what is listed is written, {allowed}: {said}");
            }
        }
    }
}

/// threat-model §3I: a device that is a disk is not made, not even where files may be written;
/// pipes and sockets are.
#[test]
fn devices_are_not_made() {
    if !has_landlock() {
        return;
    }
    let mut cases = 0;
    // The first of them the kernel lets every account make.
    for device in ["c 0 0", "c 1 5", "b 7 0"] {
        let open = place();
        let script = format!("mknod inside/device {device}");
        let (code, said) = guarded(open.path(), None, &script);
        if code != 0 {
            assert_ne!(device, "c 0 0", "{said}");
            continue;
        }
        for read in [json!(null), json!([open.path()])] {
            let place = place();
            let files =
                json!({ "read": read, "write": [place.path().join("inside")], "required": true });
            let (code, said) = guarded(
                place.path(),
                Some(&told(&files, false, &json!({}))),
                &script,
            );
            assert!(
                code != 0 && !place.path().join("inside/device").exists(),
                "{device}: {said}"
            );
            cases += 1;
        }
    }
    assert!(cases >= 2);
    let place = place();
    let files = json!({ "read": null, "write": [place.path().join("inside")], "required": true });
    let (code, said) = guarded(
        place.path(),
        Some(&told(&files, false, &json!({}))),
        "mknod inside/pipe p",
    );
    assert_eq!(code, 0, "{said}");
}

/// threat-model §3I: root in a sandbox has none of the rights that would undo it, nor what it
/// starts, and does not raise its limits.
#[test]
fn root_has_no_rights_that_undo_it() {
    if !rustix::process::geteuid().is_root() {
        return left_out(
            "root",
            "run as root, which alone has such rights, to try it",
        );
    }
    // Only it needs them gone.
    if !has_landlock() {
        return;
    }
    let place = place();
    let files = json!({ "read": null, "write": [place.path().join("inside")], "required": true });
    let (files, limits) = (
        told(&files, false, &json!({})),
        told(&json!(null), false, &json!({ "nofile": 64 })),
    );
    // By their numbers: SYS_MODULE, SYS_RAWIO, SYS_ADMIN, SYS_BOOT, SYS_RESOURCE, MKNOD.
    let undoing: u64 = [16, 17, 21, 22, 24, 27].iter().map(|bit| 1 << bit).sum();
    for (sandbox, gone) in [(&files, undoing), (&limits, 1 << 24)] {
        let (code, said) = guarded(
            place.path(),
            Some(sandbox),
            "sh -c 'grep ^Cap /proc/self/status'",
        );
        assert_eq!(code, 0, "{said}");
        let sets: Vec<u64> = said
            .lines()
            .map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap())
            .collect();
        assert_eq!(sets.len(), 5, "{said}");
        assert!(sets.iter().all(|set| set & gone == 0), "{said}");
    }
    let raise = "ulimit -n 128";
    assert_eq!(guarded(place.path(), None, raise).0, 0);
    assert_ne!(guarded(place.path(), Some(&limits), raise).0, 0);
}

/// threat-model §3I: with a list of what may be read nothing else is read, listed or run; what
/// every program needs, is.
#[test]
fn files_outside_are_not_read() {
    if !has_landlock() {
        return;
    }
    for script in [
        "cat outside/kept",
        "ls outside",
        "cp outside/kept inside/got",
        "cat inside/../outside/kept",
        "sh -c 'cat outside/kept'",
        "ln -s ../outside/kept inside/door && cat inside/door",
        "cp /bin/true outside/program 2>/dev/null; outside/program",
        "cat /proc/$PPID/environ",
    ] {
        let place = place();
        std::fs::copy("/bin/true", place.path().join("outside/program")).unwrap();
        let (code, said) = guarded(place.path(), None, script);
        assert_eq!(code, 0, "without a sandbox, {script}: {said}");
        let _ = std::fs::remove_file(place.path().join("inside/door"));
        let files = json!({ "read": [], "write": [place.path().join("inside")], "required": true });
        let (code, said) = guarded(place.path(), Some(&told(&files, false, &json!({}))), script);
        assert_ne!(code, 0, "in a sandbox, {script}: {said}");
        assert!(!said.contains("kept\n"), "{script}: {said}");
    }
    let place = place();
    let files =
        json!({ "read": [place.path().join("outside/kept")], "write": [], "required": true });
    let script = "cat outside/kept && date > /dev/null && ls /usr > /dev/null && cat /etc/passwd > /dev/null";
    let (code, said) = guarded(place.path(), Some(&told(&files, false, &json!({}))), script);
    assert_eq!((code, said.as_str()), (0, "kept\n"));
}

/// threat-model §3I: processes outside get no signal from inside.
#[test]
fn processes_outside_get_no_signal() {
    if !has_landlock() {
        return;
    }
    let place = place();
    let script = format!("kill -0 {}", std::process::id());
    assert_eq!(guarded(place.path(), None, &script).0, 0);
    let sandbox = told(
        &json!({ "read": null, "write": [], "required": true }),
        false,
        &json!({}),
    );
    let (code, said) = guarded(place.path(), Some(&sandbox), &script);
    assert!(
        code != 0 || said.contains("not permitted"),
        "an old kernel can't: {said}"
    );
    let (code, said) = guarded(
        place.path(),
        Some(&sandbox),
        "sleep 60 & kill $! && wait $! || true",
    );
    assert_eq!(code, 0, "its own do: {said}");
}

/// threat-model §3I: limits hold, for what it starts too, and are not raised again; no server
/// leaves its memory in a file.
#[test]
fn limits_hold() {
    let place = place();
    let limits = json!({ "nofile": 64, "address_space": 1 << 30, "cpu": 30, "fsize": 1 << 20 });
    let sandbox = told(&json!(null), false, &limits);
    for (script, without, within) in [
        ("ulimit -n", None, "64"),
        ("sh -c 'ulimit -Hn'", None, "64"),
        ("ulimit -v", None, "1048576"),
        ("ulimit -t", None, "30"),
        ("ulimit -c; ulimit -Hc", Some("0\n0"), "0\n0"),
    ] {
        let (code, said) = guarded(place.path(), None, script);
        assert_eq!(code, 0, "{said}");
        assert!(
            without.map_or(said.trim() != within, |without| said.trim() == without),
            "without, {script}: {said}"
        );
        let (code, said) = guarded(place.path(), Some(&sandbox), script);
        assert_eq!((code, said.trim()), (0, within), "{script}");
    }
    let big = "head -c 2000000 /dev/zero > inside/big";
    assert_eq!(guarded(place.path(), None, big).0, 0);
    assert_ne!(
        guarded(place.path(), Some(&sandbox), big).0,
        0,
        "a file beyond its limit"
    );
}

/// threat-model §3I: a program that gives its owner's rights to the account that starts it gives
/// none.
#[test]
fn no_rights_are_gained() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        return left_out(
            "root",
            "run as root, to make a program that gives rights, to try it",
        );
    }
    let place = place();
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("setuid");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let script = "setpriv --reuid 65534 --clear-groups ./setuid -u";
    let (code, said) = guarded(place.path(), None, script);
    if (code, said.trim()) != (0, "0") {
        let advice = format!("mount the temporary directory without `nosuid` to try it: {said}");
        return left_out("program that gives rights", &advice);
    }
    let privileges = told(&json!(null), true, &json!({}));
    assert_eq!(
        guarded(place.path(), Some(&privileges), script),
        (0, "65534\n".to_owned())
    );
    if has_landlock() {
        let files = told(
            &json!({ "read": null, "write": [], "required": true }),
            false,
            &json!({}),
        );
        assert_eq!(
            guarded(place.path(), Some(&files), script),
            (0, "65534\n".to_owned()),
            "files imply it"
        );
    }
}

/// threat-model §3I: what cannot be laid on keeps the server from starting, in words that help.
#[test]
fn what_cannot_be_laid_on_is_said() {
    if !has_landlock() {
        return;
    }
    let place = place();
    let files = json!({ "read": null, "write": [place.path().join("nowhere")], "required": true });
    let (code, said) = guarded(
        place.path(),
        Some(&told(&files, false, &json!({}))),
        "echo started",
    );
    assert_eq!(code, 126, "{said}");
    assert!(
        said.contains("nowhere") && said.contains("sandbox.landlock") && !said.contains("started"),
        "{said}"
    );
    let (code, said) = guarded(place.path(), Some("{"), "echo started");
    assert!(code == 126 && !said.contains("started"), "{said}");
}

/// threat-model §3I: a real tool server in a sandbox of the configuration works, and what its
/// program tries besides is refused; doctor says how each server is confined.
#[tokio::test]
async fn a_configured_server_is_confined() {
    if !has_landlock() {
        return;
    }
    for confined in [false, true] {
        let place = place();
        let folder = |name: &str| place.path().join(name).display().to_string();
        let oracle = beside("oracle-server");
        let script = format!(
            "echo x > {0}/escaped; cat {0}/kept > {1}/got; exec {2}",
            folder("outside"),
            folder("inside"),
            oracle.display()
        );
        let landlock = format!(
            "{{ read: [\"{}\"], write: [\"{}\"], required: true }}",
            oracle.display(),
            folder("inside")
        );
        let sandbox = format!("sandbox: {{ landlock: {landlock}, rlimits: {{ nofile: 256 }} }}");
        let members = format!(
            "command: /bin/sh, args: [-c, \"{script}\"], env: {{ ORACLE_LOG: \"{}/log\", PATH: /usr/bin:/bin }}, {}",
            folder("inside"),
            if confined {
                sandbox.as_str()
            } else {
                "timeout: 20s"
            },
        );
        let contract = "{ purpose: test, actions: [read], secrets: [] }";
        let setup = Setup::new()
            .server_with("oracle", &members)
            .policy(&format!("contracts:\n  oracle__read: {contract}\n"));
        setup.write();
        let (code_of_doctor, said, wrong) = run(&setup, &["doctor"]).await;
        assert_eq!(code_of_doctor, 0, "{said}{wrong}");
        let words = if confined {
            "`oracle` reads only"
        } else {
            "`oracle` is not confined"
        };
        assert!(said.contains(words), "{said}");
        std::fs::remove_file(place.path().join("outside/escaped")).unwrap_or_default();
        let gate = setup.start().await;
        let agent = gate.agent().at("/mcp/oracle");
        until("it lists", || async {
            (!agent.tools().await.is_empty()).then_some(())
        })
        .await;
        assert_eq!(code(&agent.call("read", json!({})).await), None);
        assert_eq!(place.path().join("outside/escaped").exists(), !confined);
        assert_eq!(
            std::fs::read_to_string(place.path().join("inside/got")).unwrap() == "kept\n",
            !confined
        );
    }
}
