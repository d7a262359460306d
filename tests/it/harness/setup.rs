//! A configuration in a directory of its own, and the built program on it.

use super::left_out::left_out;
use super::tool_server::ToolServer;
use super::{DEADLINE, folding};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::Command;

/// The program under test.
pub const TOOLGATE: &str = env!("CARGO_BIN_EXE_toolgate");

/// Runs a program on a machine that has been up for more seconds, which follow, as an account that
/// may make a user namespace.
const LATER: [&str; 5] = [
    "unshare",
    "--map-root-user",
    "--user",
    "--time",
    "--boottime",
];

/// Whether [`Setup::later`] can be had here; says so when it cannot.
pub fn has_later() -> bool {
    let mut command = std::process::Command::new(LATER[0]);
    let done = command.args(&LATER[1..]).args(["60", "true"]).output();
    let has_later = done.is_ok_and(|done| done.status.success());
    if !has_later {
        left_out("time namespace", "allow user namespaces to try it");
    }
    has_later
}

/// Of a contract: calls with equal arguments are the same for an hour, in whatever session.
const EQUAL_CALLS_ARE_ONE: &str = ", idempotency: { derive: arguments }";

/// A contract of `server__tool` with nothing but what it must have, and with `more` such as `,
/// owner_only: true`. What it changes is taken back by the server's `undo`, and equal calls are one
/// where `more` says nothing of that.
pub fn contract(tool: &str, action: &str, more: &str) -> String {
    let server = tool.split_once("__").unwrap().0;
    let rollback =
        format!(", side_effect: {{ writes: test, rollback: {{ tool: {server}__undo }} }}");
    let effect = if action == "read" { "" } else { &rollback };
    let says_who = action == "read" || more.contains("permission:");
    let anyone = if says_who { "" } else { ", permission: anyone" };
    let says_keys = action == "read" || more.contains("idempotency:");
    let keys = if says_keys { "" } else { EQUAL_CALLS_ARE_ONE };
    format!("{{ purpose: a test, actions: [{action}], secrets: []{anyone}{effect}{keys}{more} }}")
}

/// The line for the tool `undo` of the server of `tool`, which takes back what others do there.
pub fn undo(tool: &str) -> String {
    let server = tool.split_once("__").unwrap().0;
    format!(
        "  {server}__undo: {{ purpose: Takes it back., actions: [write], permission: anyone, secrets: [], side_effect: {{ writes: test, rollback: \
         {{ manual: by hand }} }} }}"
    )
}

/// A configuration in the making. A clone starts again in the same directory, as after a restart.
#[derive(Clone)]
pub struct Setup {
    directory: Arc<Directory>,
    servers: String,
    policy: String,
    sides: bool,
    policies: String,
    mode: &'static str,
    callers: String,
    pub(super) operators: String,
    more: String,
    listen: String,
    admin_listen: String,
    environment: Vec<(String, String)>,
    later: Duration,
    program: PathBuf,
    pub(super) log: &'static str,
}

/// A directory that is looked at once more before it goes.
struct Directory(TempDir);

impl Drop for Directory {
    fn drop(&mut self) {
        folding::judge_children(self.0.path());
    }
}

impl Setup {
    /// No servers, no policy, no callers, `enforce`, any ports.
    pub fn new() -> Self {
        // Files that others may write are refused, whatever the developer's own habit is.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        Self {
            directory: Arc::new(Directory(tempfile::tempdir().unwrap())),
            servers: String::new(),
            policy: String::new(),
            sides: false,
            policies: String::new(),
            mode: "enforce",
            callers: String::new(),
            operators: String::new(),
            more: String::new(),
            listen: "127.0.0.1:0".to_owned(),
            admin_listen: "127.0.0.1:0".to_owned(),
            environment: Vec::new(),
            later: Duration::ZERO,
            program: PathBuf::from(TOOLGATE),
            log: "info",
        }
    }

    /// A server over HTTP.
    pub fn server(self, name: &str, server: &ToolServer) -> Self {
        self.server_with(name, &format!("url: \"{}\", timeout: 20s", server.url()))
    }

    /// A server, with its members as YAML flow text, such as `url: "…", timeout: 1s`.
    pub fn server_with(mut self, name: &str, members: &str) -> Self {
        writeln!(self.servers, "  {name}: {{ {members} }}").unwrap();
        self
    }

    /// One more member of the server that was named last, such as `ping_after: 1s`.
    pub fn server_member(mut self, member: &str) -> Self {
        let end = self.servers.rfind(" }").unwrap();
        self.servers.insert_str(end, &format!(", {member}"));
        self
    }

    /// The oracle as a child process, with its arguments and a time for each call.
    pub fn child(self, name: &str, arguments: &str, timeout: &str) -> Self {
        let (program, log) = (beside("oracle-server"), self.log_of(name));
        let members = format!(
            "command: \"{}\", args: [{arguments}], env: {{ ORACLE_LOG: \"{}\" }}, timeout: {timeout}",
            program.display(),
            log.display()
        );
        self.server_with(name, &members)
    }

    /// Where a child of that name notes what it executes.
    pub fn log_of(&self, name: &str) -> PathBuf {
        self.directory().join(format!("{name}.executions"))
    }

    /// The policy file, whole.
    pub fn policy(mut self, yaml: &str) -> Self {
        yaml.clone_into(&mut self.policy);
        self
    }

    /// Equal calls are no circle, as often as a test asks; after the policy.
    pub fn unwatched(mut self) -> Self {
        self.policy += "\nrepetition: { unwatched: true }\n";
        self
    }

    /// Everything besides tools is open to everybody, by a policy file of its own.
    pub fn open_sides(mut self) -> Self {
        self.sides = true;
        self
    }

    /// Policy files besides, or directories of them.
    pub fn more_policies(mut self, paths: &[&str]) -> Self {
        self.policies = [&[""], paths].concat().join(", ");
        self
    }

    /// A policy with one contract per `server__tool action`, and one more for the tool that takes
    /// back what the first of them changes on each server.
    pub fn contracts(self, tools: &[(&str, &str)]) -> Self {
        let mut yaml = "contracts:\n".to_owned();
        let mut undone = BTreeSet::new();
        for (tool, action) in tools {
            let contract = contract(tool, action, "");
            writeln!(yaml, "  {tool}: {contract}").unwrap();
            let server = tool.split_once("__").unwrap().0;
            if *action != "read" && undone.insert(server) {
                writeln!(yaml, "{}", undo(tool)).unwrap();
            }
        }
        self.policy(&yaml)
    }

    /// `enforce` or `observe`.
    pub fn mode(mut self, mode: &'static str) -> Self {
        self.mode = mode;
        self
    }

    /// The callers, as a YAML list; without it everybody is `anonymous`.
    pub fn callers(mut self, yaml: &str) -> Self {
        yaml.clone_into(&mut self.callers);
        self
    }

    /// More of `admin`, as YAML flow text, such as `tokens: […]`.
    pub fn operators(mut self, members: &str) -> Self {
        members.clone_into(&mut self.operators);
        self
    }

    /// More lines for the configuration.
    pub fn more(mut self, yaml: &str) -> Self {
        self.more.push_str(yaml);
        self.more.push('\n');
        self
    }

    /// Other words in what [`Setup::more`] added.
    pub fn instead(mut self, before: &str, after: &str) -> Self {
        assert!(self.more.contains(before));
        self.more = self.more.replace(before, after);
        self
    }

    /// The agents' address.
    pub fn listen(self, address: SocketAddr) -> Self {
        self.listens(&address.to_string())
    }

    /// The agents' door, as `listen` has it.
    pub fn listens(mut self, at: &str) -> Self {
        at.clone_into(&mut self.listen);
        self
    }

    /// The operators' door, as `admin.listen` has it.
    pub fn admin_listens(mut self, at: &str) -> Self {
        at.clone_into(&mut self.admin_listen);
        self
    }

    /// The same place for commands of the operator `name`, who has their own token in the environment.
    pub fn operator(&self, name: &str) -> Self {
        let named = self.operators.split_once(&format!("name: {name}, token: "));
        let (_, token) = named.unwrap_or_else(|| panic!("no operator {name}: {}", self.operators));
        let token = token.trim_start_matches('"');
        let token = token.split(['"', ',', ' ']).next().unwrap();
        self.clone().environment("OPERATOR_TOKEN", token)
    }

    /// A variable of toolgate's environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// From now on toolgate runs on a machine that has been up for so much longer (a time
    /// namespace).
    pub fn later(mut self, later: Duration) -> Self {
        self.later = later;
        self
    }

    /// How much toolgate writes to its log.
    pub fn log(mut self, level: &'static str) -> Self {
        self.log = level;
        self
    }

    /// From now on another build of toolgate runs.
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// The directory of configuration, policy, data and log.
    pub fn directory(&self) -> &Path {
        self.directory.0.path()
    }

    /// Writes the files; the configuration's path.
    pub fn write(&self) -> PathBuf {
        let mut text = format!(
            "listen: {}\nadmin: {{ listen: {}, {} }}\ndata: data\nmode: {}\n{}",
            self.listen, self.admin_listen, self.operators, self.mode, self.more
        );
        for (key, block) in [("servers", &self.servers), ("callers", &self.callers)] {
            if !block.is_empty() {
                write!(text, "{key}:\n{block}\n").unwrap();
            }
        }
        if !self.policy.is_empty() {
            std::fs::write(self.directory().join("policy.yaml"), &self.policy).unwrap();
            let sides = if self.sides { ", sides.yaml" } else { "" };
            writeln!(text, "policies: [policy.yaml{sides}{}]", self.policies).unwrap();
        }
        if self.sides {
            let doors = [
                "resources",
                "prompts",
                "completions",
                "sampling",
                "elicitation",
                "roots",
                "logging",
            ];
            let open = doors
                .map(|door| format!("{door}: {{ allow: [\"*\"] }}"))
                .join(", ");
            std::fs::write(
                self.directory().join("sides.yaml"),
                format!("layers: {{ global: {{ {open} }} }}\n"),
            )
            .unwrap();
        }
        let path = self.directory().join("toolgate.yaml");
        std::fs::write(&path, text).unwrap();
        // Its tokens are written out, so that only its owner may read it.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        path
    }

    /// The program with an environment of its own, to be run to its end or piped.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = if self.later.is_zero() {
            Command::new(&self.program)
        } else {
            let mut command = Command::new(LATER[0]);
            command
                .args(&LATER[1..])
                .arg(self.later.as_secs().to_string())
                .arg(&self.program);
            command
        };
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .kill_on_drop(true);
        command
            .current_dir(self.directory())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        let ended = tokio::time::timeout(DEADLINE, self.command(arguments).output()).await;
        ended
            .unwrap_or_else(|_| panic!("toolgate {arguments:?} did not end"))
            .unwrap()
    }
}

/// Where the programs of the workspace are.
pub fn programs() -> &'static Path {
    Path::new(TOOLGATE).parent().unwrap()
}

/// A program of the workspace, beside toolgate.
pub fn beside(name: &str) -> PathBuf {
    let path = Path::new(TOOLGATE).with_file_name(name);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo build` first",
        path.display()
    );
    path
}

/// What toolgate is started with.
pub struct Settings {
    /// Names and addresses.
    pub servers: Vec<(&'static str, String)>,
    /// Lines of `callers`.
    pub callers: &'static str,
    /// Other lines.
    pub more: &'static str,
    /// The policy file; none if empty.
    pub policy: String,
    /// Whether nothing is refused.
    pub observe: bool,
}

impl Settings {
    /// One server that everybody may use, by contracts of that name with no conditions.
    pub fn open(url: String, tools: &[&str]) -> Self {
        let contract = |tool: &&str| {
            format!("  oracle__{tool}: {{ purpose: test, actions: [read], secrets: [] }}\n")
        };
        let policy = format!(
            "contracts:\n{}",
            tools.iter().map(contract).collect::<String>()
        );
        Self {
            servers: vec![("oracle", url)],
            callers: "",
            more: "",
            policy,
            observe: false,
        }
    }

    /// One server that is only observed.
    pub fn observed(url: String) -> Self {
        Self {
            servers: vec![("oracle", url)],
            callers: "",
            more: "",
            policy: String::new(),
            observe: true,
        }
    }

    pub fn setup(&self) -> Setup {
        let mut setup = Setup::new()
            .more(self.more)
            .callers(self.callers)
            .policy(&self.policy);
        for (name, url) in &self.servers {
            setup = setup.server_with(name, &format!("url: \"{url}\""));
        }
        if self.observe {
            setup.mode("observe")
        } else {
            setup.open_sides()
        }
    }
}
