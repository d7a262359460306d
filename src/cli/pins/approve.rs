//! `toolgate pins approve`.

use super::compared::{PinStatus, choose, compare};
use super::{PinsState, shown};
use crate::cli::files;
use crate::cli::ledger::text::json as escaped;
use crate::mcp::pretty::plain;
use crate::model::ids::NAME_SEPARATOR;
use crate::policy::pins::{PIN_FILE_BYTES_MAX, written};
use anyhow::{Context as _, bail};
use serde_json::json;
use std::io::Write;

/// Rights of a new pin file. It holds what servers say of their tools, and is meant to be read.
const PIN_FILE_MODE: u32 = 0o644;

/// What to approve.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["tools", "all"]))]
pub(super) struct Approve {
    /// `server__tool`; a `*` at the end stands for any rest
    tools: Vec<String>,
    /// Every tool that is listed; nothing is approved while a server does not answer
    #[arg(long)]
    all: bool,
    /// With it, pins of tools that their servers do not list any more are taken away
    #[arg(long)]
    prune: bool,
}

impl Approve {
    /// Writes the pins, all of them or none.
    pub(super) fn run(
        &self,
        ground: &PinsState,
        as_json: bool,
        out: &mut impl Write,
    ) -> anyhow::Result<u8> {
        if !as_json {
            return self.approve(ground, &mut Vec::new(), out);
        }
        let mut changed = Vec::new();
        let code = self.approve(ground, &mut changed, &mut std::io::sink())?;
        let said = json!({ "file": ground.file.display().to_string(), "changed": changed });
        writeln!(out, "{}", escaped(&said.to_string()))?;
        Ok(code)
    }

    /// The same; `changed` gets the names of the tools whose pins are others now.
    fn approve(
        &self,
        ground: &PinsState,
        changed: &mut Vec<String>,
        out: &mut impl Write,
    ) -> anyhow::Result<u8> {
        self.judge_servers(ground)?;
        let found = compare(&ground.pins, &ground.listed);
        let chosen = choose(&found, &self.tools)?;
        let mut pins = ground.pins.clone();
        for one in chosen {
            match &one.stands {
                PinStatus::AsPinned => {}
                PinStatus::Drifted(_, now) | PinStatus::New(now) => {
                    pins.insert(one.key.clone(), now.clone());
                    changed.push(one.name.to_string());
                    out.write_all(shown(one).as_bytes())?;
                    writeln!(out, "approved {} sha256:{}", one.name, now.digest)?;
                }
                PinStatus::Absent if self.prune => {
                    pins.remove(&one.key);
                    changed.push(one.name.to_string());
                    writeln!(out, "removed  {}: its server does not list it", one.name)?;
                }
                PinStatus::Absent if self.all => {
                    writeln!(out, "{one}; --prune takes the pin away")?;
                }
                PinStatus::Quarantined if self.all => writeln!(out, "{one}")?,
                PinStatus::Absent | PinStatus::Quarantined => bail!("nothing was written:\n{one}"),
            }
        }
        ground.notes(out)?;
        let file = ground.file.display();
        let complete = ground.listed.complete(&pins, &ground.complete);
        let count = changed.len();
        if count == 0 && complete == ground.complete && ground.text.is_some() {
            writeln!(out, "nothing to approve: {file} is as it was")?;
            return Ok(0);
        }
        let _alone = files::alone(&ground.file).context("nothing was approved")?;
        let now = files::read(&ground.file, PIN_FILE_BYTES_MAX).ok();
        let now = now.and_then(|bytes| String::from_utf8(bytes).ok());
        if now != ground.text {
            bail!("{file} was written by somebody else meanwhile; nothing was written, look again");
        }
        files::replace(
            &ground.file,
            written(&pins, &complete).as_bytes(),
            PIN_FILE_MODE,
        )
        .context("nothing was approved")?;
        writeln!(
            out,
            "wrote    {file}: {} pins, {count} of them changed",
            pins.len()
        )?;
        Ok(0)
    }

    /// What a server does not say cannot be approved, and is never taken for "nothing".
    fn judge_servers(&self, ground: &PinsState) -> anyhow::Result<()> {
        let concerned = |server: &str| {
            let prefix = format!("{server}{NAME_SEPARATOR}");
            self.all
                || self.tools.iter().any(|wanted| {
                    let begin = wanted.strip_suffix('*').unwrap_or(wanted);
                    begin.starts_with(&prefix)
                        || (wanted.ends_with('*') && prefix.starts_with(begin))
                })
        };
        let mut down = ground
            .listed
            .down
            .iter()
            .filter(|(server, _)| concerned(server.as_str()))
            .peekable();
        if down.peek().is_none() {
            return Ok(());
        }
        let lines: Vec<String> = down
            .map(|(server, why)| format!("  {server}: {}", plain(why)))
            .collect();
        bail!(
            "nothing was written: these servers do not answer\n{}",
            lines.join("\n")
        );
    }
}
