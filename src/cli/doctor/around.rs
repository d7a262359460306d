//! What `doctor` says of a toolgate that runs, or of what it would need: ports, disk, tools that operators took
//! away.

use super::DoctorFindings;
use crate::admin::overview::StatusReport;
use crate::admin::status::{Quarantined, ServerStatus};
use crate::app::doors::bind;
use crate::cli::ledger::text::{plain, short};
use crate::cli::running::{DimView, Running, UnseenDoor};
use crate::cli::status::bytes;
use crate::config::Config;
use crate::model::counted::counted;
use crate::model::disabled::{Disabled, FrozenScope, MAX_DISABLED_TOOLS, TakenAway};
use crate::model::listen::ListenAddress;
use crate::policy::Policy;
use crate::store::disabling;
use crate::store::disk_space::DiskSpace;
use crate::store::incidents;
use crate::store::journal::DataHolder;
use std::path::Path;

/// Tools that are named; the others are only counted.
const MAX_TOOLS_NAMED: usize = 20;

/// The two doors: those of the toolgate that runs, or free.
pub(super) fn ports(config: &Config, running: &Running, found: &mut DoctorFindings) {
    match running {
        Running::Seen(address, report) => {
            found.fine(&format!(
                "a toolgate runs as process {}; it answers operators at {address}",
                report.process.pid
            ));
            return agents_door(config, report.process.listen.as_deref(), found);
        }
        Running::Dim(DimView {
            address,
            ready,
            is_stale,
            why,
            ..
        }) => {
            found.fine(&format!(
                "a toolgate runs, and answers operators at {address}; {} is its door for agents",
                config.listen
            ));
            if *ready {
                found.fine("it is ready");
            } else {
                found.wrong("it is not ready; its log says why");
            }
            if *is_stale {
                found.wrong(
                    "an older policy than that of the files is in force, since these had errors",
                );
            }
            found.note(&format!("it says no more of itself: {}", plain(why)));
            return;
        }
        Running::Unseen(unseen) => match (&unseen.holder, &unseen.door) {
            (DataHolder::Process(_), _) => found.note(&unseen.words()),
            (
                DataHolder::Free | DataHolder::Hidden,
                UnseenDoor::Another(_) | UnseenDoor::Untrusted(..),
            ) => {
                found.note(&format!("toolgate {}", unseen.words()));
            }
            (DataHolder::Free | DataHolder::Hidden, _) => {}
        },
    }
    free(config, true, found);
}

/// The door for agents of a toolgate that runs, at `listen`.
fn agents_door(config: &Config, listen: Option<&str>, found: &mut DoctorFindings) {
    let configured = config.listen;
    // Port 0 is a port of the system's choice.
    let is_configured = |listen: &str| {
        listen.parse::<ListenAddress>().is_ok_and(|address| {
            match (address.tcp(), configured.tcp()) {
                (Some(address), Some(configured)) => {
                    address.ip() == configured.ip()
                        && [0, address.port()].contains(&configured.port())
                }
                _ => address == configured,
            }
        })
    };
    if let Some(listen) = listen.filter(|listen| is_configured(listen)) {
        found.fine(&format!("it answers agents at {}", plain(listen)));
    } else {
        let listen = listen.unwrap_or("no address");
        found.note(&format!(
            "it answers agents at {}, and the configuration says {configured}: that applies from the next start on",
            plain(listen)
        ));
        free(config, false, found);
    }
}

/// Whether the doors can be opened; `both`: also that of operators.
fn free(config: &Config, both: bool, found: &mut DoctorFindings) {
    let doors = [
        (config.listen, &config.entrance, "agents"),
        (config.admin.listen, &config.admin.entrance, "operators"),
    ];
    for (address, entrance, whose) in doors.into_iter().take(1 + usize::from(both)) {
        match bind(address, entrance, whose) {
            Ok(_) => found.fine(&format!("{address} is free for {whose}")),
            Err(error) => found.wrong(&format!("{error:#}")),
        }
    }
}

/// How much room the disk of the data directory has.
pub(super) fn disk(config: &Config, found: &mut DoctorFindings) {
    let data = config.data.display();
    match DiskSpace::of(&config.data) {
        Ok(disk) if disk.is_low() => found.wrong(&format!(
            "the disk of {data} is nearly full: {} of {} are free; once it is full, no side effect runs",
            bytes(disk.free),
            bytes(disk.total)
        )),
        Ok(disk) => found.fine(&format!("the disk of {data} has room: {} are free", bytes(disk.free))),
        Err(error) => found.note(&format!("how much room the disk of {data} has cannot be known: {error}")),
    }
}

/// Tools that operators have taken away, as they stand in the data directory.
pub(super) fn disabled(data: &Path, found: &mut DoctorFindings) {
    match disabling::read(data) {
        Ok(disabled) => taken_away(&disabled, found),
        Err(error) => found.wrong(&error.to_string()),
    }
    match incidents::frozen(data) {
        Ok(scopes) => frozen(&scopes, found),
        Err(error) => found.wrong(&error.to_string()),
    }
}

fn frozen(scopes: &[FrozenScope], found: &mut DoctorFindings) {
    for FrozenScope {
        incident,
        pattern,
        reason,
    } in scopes
    {
        found.note(&format!(
            "`{}` is frozen by {} since {}: {}; `toolgate incident show {incident}` tells more",
            short(pattern),
            plain(&reason.who),
            plain(&reason.since),
            plain(&reason.why)
        ));
    }
}

fn taken_away(disabled: &Disabled, found: &mut DoctorFindings) {
    for (tool, reason) in disabled.iter().take(MAX_TOOLS_NAMED) {
        found.note(&format!(
            "`{}` is disabled by {} since {}: {}; `toolgate enable` gives it back",
            short(tool.as_str()),
            plain(&reason.who),
            plain(&reason.since),
            plain(&reason.why)
        ));
    }
    let more = disabled
        .len()
        .min(MAX_DISABLED_TOOLS)
        .saturating_sub(MAX_TOOLS_NAMED);
    if more > 0 {
        found.note(&format!(
            "{} more are disabled; `toolgate disable` lists them",
            counted(more, "tool")
        ));
    }
}

/// What a toolgate that runs says of itself, beside the `policy` that the files say.
pub(super) fn seen(report: &StatusReport, policy: &Policy, found: &mut DoctorFindings) {
    let readiness = &report.readiness;
    if readiness.ready {
        found.fine("it is ready");
    }
    for reason in &readiness.reasons {
        found.wrong(&plain(reason));
    }
    // What operators and incidents took away changes what is in force, and so its version.
    let away = TakenAway {
        tools: report.disabled.clone(),
        frozen: report.frozen.clone(),
    };
    let here = policy.clone().without(away).version;
    if readiness.policy.version == here {
        found.fine("it has the policy of the files");
    } else if !readiness.policy.stale {
        let hint = "send it SIGHUP, and see its log";
        found.wrong(&format!(
            "it has another policy in force than the files say; {hint}"
        ));
    }
    for one in &readiness.servers {
        server(one, found);
    }
    for Quarantined { profile, why, .. } in &report.withheld {
        match profile {
            Some(profile) => found.wrong(&format!(
                "not shown in profile {}: {}",
                plain(profile),
                plain(why)
            )),
            None => found.wrong(&format!("withheld: {}", plain(why))),
        }
    }
    taken_away(&report.disabled, found);
    frozen(&report.frozen, found);
    for (count, what, remedy) in [
        (report.held, "held call", "toolgate approvals"),
        (report.unknown, "unknown outcome", "toolgate calls list"),
    ] {
        if let Some(count) = count.filter(|count| *count > 0) {
            found.note(&format!("{}; see `{remedy}`", counted(count, what)));
        }
    }
    let problems = report.process.problems.len();
    if problems > 0 {
        found.note(&format!(
            "{} of its log; see `toolgate status`",
            counted(problems, "recent warning or error line")
        ));
    }
}

fn server(server: &ServerStatus, found: &mut DoctorFindings) {
    let ServerStatus {
        name,
        state,
        era,
        tools,
        last_fault,
        ..
    } = server;
    let name = plain(name);
    match (&**state, last_fault) {
        ("up", fault) => {
            let (era, tools) = (era.as_deref().unwrap_or_default(), counted(*tools, "tool"));
            found.fine(&format!(
                "tool server `{name}` answers: {}, {tools}",
                plain(era)
            ));
            if let Some(why) = fault {
                found.note(&format!("tool server `{name}`: {}", plain(why)));
            }
        }
        (_, Some(why)) => found.wrong(&format!(
            "tool server `{name}` does not answer: {}",
            plain(why)
        )),
        (state, None) => found.wrong(&format!("tool server `{name}` is {}", plain(state))),
    }
}
