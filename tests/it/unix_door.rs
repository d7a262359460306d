//! Doors that are Unix sockets: who may come in, and what is left behind.

use crate::harness::answer::Answer;
use crate::harness::doors::Way;
use crate::harness::gate::{Gate, run};
use crate::harness::left_out::left_out;
use crate::harness::setup::{Setup, TOOLGATE};
use crate::harness::tool_server::{Behaviour, Script, ToolServer};
use crate::harness::{DEADLINE, until, until_or};
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CEL_TOKEN: &str = "cel-0123456789abcdef";
const ANN_TOKEN: &str = "ann-operator-0123456789abcdef";
/// An account that is nobody's.
const NOBODY: u32 = 65_534;

/// A directory for sockets, in which everybody may look.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        Self(place)
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

async fn server() -> ToolServer {
    let script = Script::new().tool("read", Behaviour::Answers);
    script.start().await
}

/// A toolgate in the making with both doors in `place`; `unix` is said of the operators' one.
fn setup(server: &ToolServer, place: &Place, unix: &str) -> Setup {
    let at = |name| format!("unix:{}", place.socket(name).display());
    Setup::new()
        .server("oracle", server)
        .contracts(&[("oracle__read", "read")])
        .unwatched()
        .callers(&format!("  - {{ agent: cel, token: {CEL_TOKEN} }}"))
        .listens(&at("agents.sock"))
        .admin_listens(&at("operators.sock"))
        .operators(&format!(
            "unix: {{ {unix} }}, tokens: [{{ name: ann, token: {ANN_TOKEN}, roles: [approver, switch] }}]"
        ))
        .environment("OPERATOR_TOKEN", ANN_TOKEN)
}

/// It runs and is ready, as the verb sees that reaches it by its socket.
async fn ready(gate: &Gate) {
    until_or(
        || format!("`status` is well; log:\n{}", gate.log()),
        || async {
            let (code, ..) = run(&gate.setup, &["status"]).await;
            (code == 0).then_some(())
        },
    )
    .await;
}

/// Issue 20 "Unix sockets": agents call by one, verbs ask by the other, and both go with toolgate.
#[tokio::test]
async fn agents_and_operators_come_in_by_sockets() {
    let (server, place) = (server().await, Place::new());
    let gate = setup(&server, &place, "mode: \"0660\"").begin().await;
    ready(&gate).await;
    let agents = Way::Unix(place.socket("agents.sock"));
    let mut open = agents.connect().await.unwrap();
    for number in 0..3 {
        let arguments = json!({ "n": number });
        let answer = open.call(Some(CEL_TOKEN), "oracle__read", arguments).await;
        assert!(answer.as_ref().is_ok_and(Answer::is_done), "{answer:?}");
    }
    let answer = agents.call(None, "oracle__read").await.unwrap();
    assert_eq!(
        answer.status, 401,
        "a socket is no proof of who calls: {answer:?}"
    );
    for (name, mode) in [("agents.sock", 0o600), ("operators.sock", 0o660)] {
        let found = fs::metadata(place.socket(name)).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, mode, "{name}");
        assert!(found.file_type().is_socket(), "{name}");
    }
    let (code, out, err) = run(&gate.setup, &["approvals", "list"]).await;
    assert_eq!(code, 0, "{out}{err}");
    let named = format!("unix:{}", place.socket("operators.sock").display());
    let (code, out, err) = run(&gate.setup, &["approvals", "list", "--admin", &named]).await;
    assert_eq!(code, 0, "{out}{err}");
    drop(open);
    gate.stop().await;
    for name in ["agents.sock", "operators.sock"] {
        assert!(!place.socket(name).exists(), "{name} goes with its door");
    }
}

/// Issue 20 "stale socket removed only if nobody listens": after `kill -9` the next start comes up, and a
/// second one beside a living one does not.
#[tokio::test]
async fn a_stale_socket_is_in_nobodys_way() {
    let (server, place) = (server().await, Place::new());
    let mut gate = setup(&server, &place, "").begin().await;
    ready(&gate).await;
    gate.kill().await;
    assert!(place.socket("agents.sock").exists(), "as it was left");
    let gate = gate.setup.clone().begin().await;
    ready(&gate).await;
    let second = setup(&server, &place, "");
    let config = second.write();
    let (code, _, err) = run(&second, &["serve", "--config", config.to_str().unwrap()]).await;
    assert!(
        code != 0 && err.contains("another process listens there"),
        "{err}"
    );
    let agents = Way::Unix(place.socket("agents.sock"));
    let answer = agents.call(Some(CEL_TOKEN), "oracle__read").await.unwrap();
    assert!(answer.is_done(), "the first goes on: {answer:?}");
}

/// What `approvals list` by the socket says to the account `uid`.
async fn asked_as(uid: u32, program: &Path, socket: &Path) -> (bool, String) {
    let mut command = tokio::process::Command::new(program);
    let named = format!("unix:{}", socket.display());
    command
        .args(["approvals", "list", "--admin", &named])
        .env_clear()
        .env("OPERATOR_TOKEN", ANN_TOKEN)
        .current_dir("/")
        .uid(uid)
        .gid(uid)
        .kill_on_drop(true);
    let ended = tokio::time::timeout(DEADLINE, command.output()).await;
    let output = ended.expect("an end in time").unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.success(), text)
}

/// Issue 20 "peer check", and its enemy: an account that the mode lets in, and that has a good token, is
/// refused by the kernel's word.
#[tokio::test]
async fn an_account_that_is_not_named_is_refused() {
    if !rustix::process::geteuid().is_root() {
        left_out("another account", "run as root to try it");
        return;
    }
    let (server, place) = (server().await, Place::new());
    let program = place.socket("toolgate");
    fs::copy(TOOLGATE, &program).unwrap();
    let socket = place.socket("operators.sock");
    let gate = setup(&server, &place, "mode: \"0666\", peers: { uids: [0] }")
        .begin()
        .await;
    ready(&gate).await;
    let (is_done, text) = asked_as(NOBODY, &program, &socket).await;
    assert!(
        !is_done && text.contains("is not among `unix.peers`"),
        "{text}"
    );
    let (is_done, text) = asked_as(0, &program, &socket).await;
    assert!(is_done, "{text}");
    until("the log says who came", || async {
        let told = NOBODY.to_string();
        let log = gate.log();
        (log.contains("an account that is not among") && log.contains(&told)).then_some(())
    })
    .await;
    gate.stop().await;
    // By its group, the same account comes in.
    let named = format!("mode: \"0666\", peers: {{ uids: [0], gids: [{NOBODY}] }}");
    let gate = setup(&server, &place, &named).begin().await;
    ready(&gate).await;
    let (is_done, text) = asked_as(NOBODY, &program, &socket).await;
    assert!(is_done, "{text}");
}
