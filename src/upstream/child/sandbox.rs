//! What a tool server that is a child process may do to the machine: which files it may reach
//! (Landlock), that it gains no rights by what it starts, and how much it may take
//! (threat-model §3I).
//!
//! It is laid on by a process between the guard and the program, which then becomes the program:
//! the guard itself has to read `/proc` and to end what it guards. What is laid on once, neither
//! the program nor anything it starts takes off.

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The hidden verb that makes toolgate what lays it on.
pub const CONFINE_VERB: &str = "__confine";
/// What every program needs to read to start at all, where there is such a thing: its libraries,
/// names of hosts and people, the time, certificates, and what the kernel says. None of it is
/// anybody's own.
const SYSTEM_READ_PATHS: &[&str] = &[
    "/bin",
    "/dev/full",
    "/dev/null",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sbin",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/usr",
];
/// With these, who is root reads the memory and the environment of others in `/proc`, whatever
/// Landlock says.
const PRYING_CAPABILITIES: [CapabilitySet; 3] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::PERFMON,
    CapabilitySet::SYS_PTRACE,
];
/// With these, who is root makes devices that are disks, loads programs into the kernel or takes
/// its place, and so passes by what keeps it to its files; and raises its limits again.
const ESCAPE_CAPABILITIES: [CapabilitySet; 6] = [
    CapabilitySet::MKNOD,
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::SYS_BOOT,
    CapabilitySet::SYS_MODULE,
    CapabilitySet::SYS_RAWIO,
    CapabilitySet::SYS_RESOURCE,
];
/// What everybody writes to.
const SINK_DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/zero"];
/// The oldest Landlock that keeps files from being cut to nothing, too; what later ones add is
/// taken where it is there.
const MIN_LANDLOCK_ABI: ABI = ABI::V3;
const MAX_LANDLOCK_ABI: ABI = ABI::V6;

/// How a tool server is confined.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// The files it may reach; none: all that toolgate may.
    pub files: Option<FileAccess>,
    /// Whether programs that give rights to who starts them (`sudo`) give it none. With `files`
    /// they never do.
    pub no_new_privs: bool,
    /// How much it may take.
    pub limits: ProcessLimits,
}

/// The files a tool server may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAccess {
    /// It may read these, with everything below, what it may write, and what every program needs;
    /// none: all files.
    pub read: Option<Vec<PathBuf>>,
    /// It may change these, with everything below, and nothing else.
    pub write: Vec<PathBuf>,
    /// Whether it must not start where the kernel cannot keep it to that.
    pub required: bool,
}

/// How much a tool server may take: each of its processes, but `nproc`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessLimits {
    /// Open files.
    pub nofile: Option<u64>,
    /// Bytes of address space.
    pub address_space: Option<u64>,
    /// Processes and threads of its user id, all programs of it together.
    pub nproc: Option<u64>,
    /// Seconds of CPU time.
    pub cpu: Option<u64>,
    /// Bytes of one file that it writes.
    pub fsize: Option<u64>,
}

/// Why a program cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum Unconfined {
    /// A file that is named is not there.
    #[error("{0}; create it, or take it out of `sandbox.landlock`")]
    Missing(#[from] landlock::PathFdError),
    /// The kernel cannot keep it to its files.
    #[error(
        "this kernel cannot keep it to its files (Landlock), and `sandbox.landlock.required` is set: {0}"
    )]
    Kernel(String),
    /// Landlock refused.
    #[error("Landlock: {0}")]
    Ruleset(#[from] landlock::RulesetError),
    /// Another call of the system failed.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
    /// What is to be laid on cannot be read.
    #[error("what its guard was told cannot be read: {0}")]
    Told(#[from] serde_json::Error),
}

impl Sandbox {
    /// For the command line of a guard.
    pub fn told(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether it asks for anything.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// In words, for operators.
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(files) = &self.files {
            let list = |paths: &[PathBuf]| {
                paths
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            words.push(match &files.read {
                Some(read) => {
                    format!(
                        "reads only {}",
                        if read.is_empty() {
                            "what it writes".to_owned()
                        } else {
                            list(read)
                        }
                    )
                }
                None => "reads all files".to_owned(),
            });
            words.push(if files.write.is_empty() {
                "writes none".to_owned()
            } else {
                format!("writes only {}", list(&files.write))
            });
        }
        if self.no_new_privs || self.files.is_some() {
            words.push("gains no rights".to_owned());
        }
        let ProcessLimits {
            nofile,
            address_space,
            nproc,
            cpu,
            fsize,
        } = self.limits;
        let limits = [
            ("nofile", nofile),
            ("as", address_space),
            ("nproc", nproc),
            ("cpu", cpu),
            ("fsize", fsize),
        ];
        words.extend(
            limits
                .into_iter()
                .filter_map(|(name, limit)| Some(format!("{name} {}", limit?))),
        );
        words.join("; ")
    }

    /// Lays what `told` says on this process, `say`s what of it the kernel cannot, and becomes the
    /// program, which `command` starts. Returns only when that fails.
    pub fn become_confined(
        told: &str,
        program: &Path,
        mut command: Command,
        say: fn(&str),
    ) -> Unconfined {
        let laid_on = serde_json::from_str::<Self>(told)
            .map_err(Unconfined::from)
            .and_then(|sandbox| sandbox.lay_on(program, say));
        match laid_on {
            Ok(()) => Unconfined::System("it cannot be started", command.exec()),
            Err(unconfined) => unconfined,
        }
    }

    fn lay_on(&self, program: &Path, say: fn(&str)) -> Result<(), Unconfined> {
        if self.no_new_privs {
            let error = |errno: rustix::io::Errno| Unconfined::System("no_new_privs", errno.into());
            rustix::thread::set_no_new_privs(true).map_err(error)?;
        }
        if let Some(files) = &self.files {
            give_up(&ESCAPE_CAPABILITIES)?;
            if !files.keep_to(program)? {
                say("toolgate: this kernel has no Landlock: the program is not kept to its files");
            }
        }
        if self.limits != ProcessLimits::default() {
            give_up(&[CapabilitySet::SYS_RESOURCE])?;
        }
        self.limits.set()
    }
}

impl FileAccess {
    /// Keeps this process to its files; false where the kernel can't.
    fn keep_to(&self, program: &Path) -> Result<bool, Unconfined> {
        let reading = AccessFs::from_read(MAX_LANDLOCK_ABI);
        let handled = if self.read.is_some() {
            AccessFs::from_all(MIN_LANDLOCK_ABI)
        } else {
            AccessFs::from_write(MIN_LANDLOCK_ABI)
        };
        let need = if self.required {
            CompatLevel::HardRequirement
        } else {
            CompatLevel::BestEffort
        };
        let unable = |error: landlock::RulesetError| {
            if self.required {
                Unconfined::Kernel(error.to_string())
            } else {
                error.into()
            }
        };
        let mut rules = Ruleset::default()
            .set_compatibility(need)
            .handle_access(handled)
            .map_err(unable)?
            .set_compatibility(CompatLevel::BestEffort)
            // Later kernels: devices, and signals to processes outside.
            .handle_access(AccessFs::from_write(MAX_LANDLOCK_ABI))?
            .scope(Scope::Signal)?
            .create()
            .map_err(unable)?
            .set_compatibility(CompatLevel::BestEffort);
        // A device leads to any disk, wherever it stands.
        let mut writing =
            AccessFs::from_write(MAX_LANDLOCK_ABI) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
        if let Some(read) = &self.read {
            writing |= reading;
            give_up(&PRYING_CAPABILITIES)?;
            rules = rules
                .add_rules(path_beneath_rules(SYSTEM_READ_PATHS, reading))?
                .add_rules(path_beneath_rules([program], reading))?;
            for path in read {
                PathFd::new(path)?;
                rules = rules.add_rules(path_beneath_rules([path], reading))?;
            }
        }
        rules = rules.add_rules(path_beneath_rules(SINK_DEVICES, writing))?;
        for path in &self.write {
            PathFd::new(path)?;
            rules = rules.add_rules(path_beneath_rules([path], writing))?;
        }
        match rules.restrict_self()?.ruleset {
            RulesetStatus::NotEnforced if self.required => {
                Err(Unconfined::Kernel("it has no Landlock".to_owned()))
            }
            RulesetStatus::NotEnforced => Ok(false),
            RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(true),
        }
    }
}

impl ProcessLimits {
    /// Sets them for this process and what it starts; none is raised above what it is.
    fn set(self) -> Result<(), Unconfined> {
        let Self {
            nofile,
            address_space,
            nproc,
            cpu,
            fsize,
        } = self;
        let limits = [
            (Resource::Nofile, nofile),
            (Resource::Nproc, nproc),
            (Resource::Cpu, cpu),
            (Resource::Fsize, fsize),
            (Resource::As, address_space),
        ];
        for (resource, limit) in limits
            .into_iter()
            .filter_map(|(resource, limit)| Some((resource, limit?)))
        {
            let most = getrlimit(resource)
                .maximum
                .map_or(limit, |most| most.min(limit));
            set(resource, most)?;
        }
        Ok(())
    }
}

/// Takes these from this process and from what it starts: from root for good, and from another
/// account to which they were handed.
fn give_up(capabilities: &[CapabilitySet]) -> Result<(), Unconfined> {
    let error = |errno: rustix::io::Errno| Unconfined::System("capset", errno.into());
    for capability in capabilities {
        // Only who may set capabilities may take this away; for others, a program that is started
        // gives nothing new.
        let _ = rustix::thread::remove_capability_from_bounding_set(*capability);
    }
    let gone = capabilities
        .iter()
        .fold(CapabilitySet::empty(), |all, capability| all | *capability);
    let mut sets = rustix::thread::capabilities(None).map_err(error)?;
    sets.effective -= gone;
    sets.permitted -= gone;
    sets.inheritable -= gone;
    rustix::thread::set_capabilities(None, sets).map_err(error)
}

/// Nothing this process starts, nor itself, leaves its memory in a file when it breaks.
pub fn leave_no_core() {
    let _ = set(Resource::Core, 0);
}

fn set(resource: Resource, limit: u64) -> Result<(), Unconfined> {
    let error = |errno: rustix::io::Errno| Unconfined::System("setrlimit", errno.into());
    setrlimit(
        resource,
        Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        },
    )
    .map_err(error)
}

/// Whether this kernel can keep a program to its files.
pub fn keeps_to_files() -> bool {
    let needed = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    needed
        .handle_access(AccessFs::from_all(MIN_LANDLOCK_ABI))
        .and_then(Ruleset::create)
        .is_ok()
}
