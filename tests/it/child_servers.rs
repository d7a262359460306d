//! Tool servers as child processes: none outlives toolgate, and each ends in good order
//! (threat-model §3H H3, §3I).

mod conversations;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use toolgate::model::ids::ServerName;
use toolgate::upstream::child::sandbox::Sandbox;
use toolgate::upstream::child::{ChildCommand, ChildProcess};
use toolgate::upstream::leftovers::{Leftovers, Swept};

const TOOLGATE: &str = env!("CARGO_BIN_EXE_toolgate");

/// Ignores the end of its input and every signal that can be ignored; says its process id.
const STUBBORN: &str = "trap '' TERM HUP INT QUIT; echo $$; while :; do sleep 0.05; done";

/// Ends at once when told to, and leaves a daemon in a session of its own that is as stubborn.
const DAEMON: &str = "
import os, signal, sys, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() > 0: os._exit(0)
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(name, signal.SIG_IGN)
    os.close(2); os.close(0)
    os.write(writer, b'%d' % os.getpid())
    while True: time.sleep(1)
print(os.read(reader, 20).decode(), flush=True)
";

fn command(program: &str, args: &[&str]) -> ChildCommand {
    ChildCommand {
        program: program.to_owned(),
        args: args.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
        cwd: None,
        sandbox: Sandbox::default(),
        name: ServerName::new("billing"),
    }
}

fn start(command: &ChildCommand) -> ChildProcess {
    ChildProcess::spawn(command, Path::new(TOOLGATE), &Leftovers::default()).unwrap()
}

fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

/// Waits until none of them lives.
fn gone(pids: &[u32]) {
    for _ in 0..400 {
        if !pids.iter().any(|pid| lives(*pid)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!(
        "still there after 2 s: {:?}",
        pids.iter().filter(|pid| lives(**pid)).collect::<Vec<_>>()
    );
}

async fn first_line(
    process: &mut ChildProcess,
) -> (
    tokio::process::ChildStdin,
    tokio::process::ChildStdout,
    String,
) {
    let (stdin, stdout) = process.take_pipes().unwrap();
    let (mut line, mut stdout) = (String::new(), tokio::io::BufReader::new(stdout));
    stdout.read_line(&mut line).await.unwrap();
    (stdin, stdout.into_inner(), line.trim().to_owned())
}

/// A guard as a toolgate starts it whose only trace is the pipe the test holds in its place.
fn guarded(args: &[&str]) -> (std::process::Child, Vec<u32>) {
    let mut guard = std::process::Command::new(TOOLGATE)
        .args(["__guard", "--"])
        .args(args)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(guard.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    assert!(lives(pid));
    (guard, vec![pid])
}

#[test]
fn a_killed_toolgate_takes_a_stubborn_server_along() {
    let (mut guard, pids) = guarded(&["sh", "-c", STUBBORN]);
    drop(guard.stderr.take());
    gone(&pids);
    guard.wait().unwrap();
}

#[test]
fn a_killed_toolgate_takes_a_server_that_closed_its_standard_error_along() {
    let script = format!("exec 2>&- 2>/dev/null; {STUBBORN}");
    let (mut guard, pids) = guarded(&["sh", "-c", &script]);
    drop(guard.stderr.take());
    gone(&pids);
    guard.wait().unwrap();
}

#[test]
fn a_killed_toolgate_takes_a_daemon_along_that_left_group_and_session() {
    let script = format!("{DAEMON}\nwhile True: time.sleep(1)");
    let (mut guard, pids) = guarded(&["python3", "-c", &script]);
    drop(guard.stderr.take());
    gone(&pids);
    guard.wait().unwrap();
}

#[test]
fn a_toolgate_killed_by_sigkill_takes_its_servers_along() {
    // A stand-in for toolgate that really dies by SIGKILL.
    let script = format!(
        "import subprocess, sys, time\n\
         p = subprocess.Popen(['{TOOLGATE}', '__guard', '--', 'sh', '-c', sys.argv[1]], process_group=0,\n\
         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n\
         print(p.stdout.readline().decode().strip(), p.pid, flush=True)\n\
         time.sleep(600)"
    );
    let mut toolgate = std::process::Command::new("python3")
        .args(["-c", &script, STUBBORN])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(toolgate.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let pids: Vec<u32> = line
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| lives(*pid)));
    toolgate.kill().unwrap();
    toolgate.wait().unwrap();
    gone(&pids);
}

#[test]
fn the_guard_ends_what_the_server_left_and_passes_its_status_on() {
    let script = format!("{DAEMON}\nsys.exit(7)");
    let mut guard = std::process::Command::new(TOOLGATE)
        .args(["__guard", "--", "python3", "-c", &script])
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    guard
        .stdout
        .as_mut()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(guard.wait().unwrap().code(), Some(7));
    gone(&[said.trim().parse().unwrap()]);
}

#[tokio::test]
async fn a_server_that_follows_the_rules_ends_when_its_input_does() {
    let mut process = start(&command("cat", &[]));
    let (mut stdin, mut stdout) = process.take_pipes().unwrap();
    stdin.write_all(b"hello\n").await.unwrap();
    drop(stdin);
    let mut said = String::new();
    stdout.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "hello\n");
    assert_eq!(
        process.shutdown(Duration::from_secs(30)).await.status,
        Some(0)
    );
}

#[tokio::test]
async fn a_server_that_ignores_the_end_of_its_input_gets_sigterm_and_may_end_well() {
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut process = start(&command("sh", &["-c", script]));
    let (stdin, _stdout, ready) = first_line(&mut process).await;
    assert_eq!(ready, "ready");
    drop(stdin);
    assert_eq!(
        process.shutdown(Duration::from_millis(50)).await.status,
        Some(5)
    );
}

#[tokio::test]
async fn a_stubborn_server_is_killed_and_reaped() {
    let mut process = start(&command("sh", &["-c", STUBBORN]));
    let (stdin, _stdout, pid) = first_line(&mut process).await;
    let guard = u32::try_from(process.id()).unwrap();
    drop(stdin);
    assert_eq!(
        process.shutdown(Duration::from_millis(50)).await.status,
        Some(128 + 9)
    );
    gone(&[pid.parse().unwrap()]);
    assert!(
        !Path::new(&format!("/proc/{guard}")).exists(),
        "a zombie is left"
    );
}

#[tokio::test]
async fn a_dropped_process_ends() {
    let mut process = start(&command("sh", &["-c", STUBBORN]));
    let (_stdin, _stdout, pid) = first_line(&mut process).await;
    let ended = process.ending();
    drop(process);
    assert!(ended.await.contains("signal 9"));
    gone(&[pid.parse().unwrap()]);
}

#[test]
fn a_runtime_that_goes_takes_its_servers_along() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (pid, guard) = runtime.block_on(async {
        let mut process = start(&command("sh", &["-c", STUBBORN]));
        let (stdin, stdout, pid) = first_line(&mut process).await;
        let guard = process.id();
        std::mem::forget((process, stdin, stdout));
        (pid.parse().unwrap(), guard)
    });
    drop(runtime);
    gone(&[pid, u32::try_from(guard).unwrap()]);
}

#[tokio::test]
async fn a_killed_guard_does_not_free_its_server() {
    let mut process = start(&command("sh", &["-c", STUBBORN]));
    let (_stdin, _stdout, pid) = first_line(&mut process).await;
    let guard = rustix::process::Pid::from_raw(process.id()).unwrap();
    rustix::process::kill_process(guard, rustix::process::Signal::KILL).unwrap();
    assert_eq!(process.ended().await.status, None);
    gone(&[pid.parse().unwrap()]);
}

/// threat-model §3F F5: the environment is what is configured and nothing else.
#[tokio::test]
async fn the_environment_is_what_is_configured() {
    let mut env = command("env", &[]);
    env.env.push(("KEY".to_owned(), "value".to_owned()));
    let mut process = start(&env);
    let (_stdin, mut stdout) = process.take_pipes().unwrap();
    let mut said = String::new();
    stdout.read_to_string(&mut said).await.unwrap();
    let mut names: Vec<&str> = said
        .lines()
        .map(|line| line.split_once('=').unwrap().0)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["KEY", "PATH"]);
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_quoted() {
    let process = start(&command(
        "sh",
        &["-c", "echo first >&2; echo 'no such database' >&2; exit 3"],
    ));
    assert_eq!(
        process.ending().await,
        "it exited with status 3; it last said: no such database"
    );
    assert_eq!(process.stderr_tail(), ["first", "no such database"]);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "not a program").unwrap();
    let fault = |command: &ChildCommand| {
        ChildProcess::spawn(command, Path::new(TOOLGATE), &Leftovers::default())
            .unwrap_err()
            .to_string()
    };
    let missing = fault(&command("no-such-program-here", &[]));
    assert!(
        missing.contains("server `billing`") && missing.contains("not found in PATH; install it"),
        "{missing}"
    );
    let absent = fault(&command("/no/such/program", &[]));
    assert!(
        absent.contains("/no/such/program does not exist"),
        "{absent}"
    );
    let forbidden = fault(&command(plain.to_str().unwrap(), &[]));
    assert!(
        forbidden.contains("may not be executed; set its permissions"),
        "{forbidden}"
    );
    let nowhere = ChildCommand {
        cwd: Some("/no/such/folder".into()),
        ..command("cat", &[])
    };
    assert!(fault(&nowhere).contains("its directory /no/such/folder does not exist"));
}

/// Only the guard finds out: the program is there, its interpreter is not.
#[tokio::test]
async fn a_program_without_its_interpreter_is_quoted() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ending = start(&command(script.to_str().unwrap(), &[]))
        .ending()
        .await;
    assert!(
        ending.starts_with("it exited with status 127; it last said: toolgate: cannot start"),
        "{ending}"
    );
}

/// The second net: toolgate and the guard are both killed, and the next start ends what is left.
#[tokio::test]
async fn a_server_whose_guard_was_killed_too_is_ended_at_the_next_start() {
    let data = tempfile::tempdir().unwrap();
    let leftovers = Leftovers::open(Some(data.path())).unwrap();
    let record = leftovers.begin(&ServerName::new("billing")).unwrap();
    let path = record.path().unwrap().to_owned();
    std::mem::forget(record);
    let mut guard = std::process::Command::new(TOOLGATE)
        .args(["__guard".as_ref(), "--record".as_ref(), path.as_os_str()])
        .args(["--", "sh", "-c", STUBBORN])
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(guard.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let pid: u32 = line.trim().parse().unwrap();
    let text = until(|| {
        std::fs::read_to_string(&path)
            .ok()
            .filter(|text| text.lines().count() == 3)
    });
    guard.kill().unwrap();
    guard.wait().unwrap();
    assert!(lives(pid));
    let mut head: Vec<&str> = text.lines().next().unwrap().split(' ').collect();
    head[3] = "1"; // the start of a process that is not this one
    let rest: Vec<&str> = text.lines().skip(1).collect();
    std::fs::write(&path, format!("{}\n{}\n", head.join(" "), rest.join("\n"))).unwrap();
    assert_eq!(
        leftovers.sweep().unwrap(),
        Swept {
            ended: 1,
            ..Swept::default()
        }
    );
    gone(&[pid]);
    assert!(!path.exists());
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..400 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("not within 2 s")
}
