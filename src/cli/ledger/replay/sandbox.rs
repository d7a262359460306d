//! Runs a recorded call against a sandbox, and says what came of it.

use super::parcel::parcel;
use super::sending::SandboxRequest;
use super::stability::ReplayComparison;
use super::{ReplayArgs, ReplayCase, line};
use crate::cli::ledger::text::{plain, short};
use crate::owners::keep_private;
use anyhow::Context as _;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

/// The exit code of a call that could not be replayed.
pub(super) const NOT_REPLAYED_CODE: u8 = 2;
/// How long a sandbox may take to answer, if nothing is said.
const SANDBOX_TIMEOUT: Duration = Duration::from_secs(30);

impl ReplayArgs {
    /// Sends the call to the sandbox, and prints what came of it. 0 if it is stable.
    pub(super) fn send(&self, case: &ReplayCase, out: &mut dyn Write) -> anyhow::Result<u8> {
        keep_private();
        let parcel = parcel(case, self.arguments.as_deref())?;
        let entry = &case.call.entry;
        let may_be_own = parcel.only_reads(entry);
        let config = case.config.as_ref();
        let config = config.context("the configuration cannot be used")?;
        let server = self.sandbox.server(&parcel.server, config, may_be_own)?;
        let request = SandboxRequest {
            server,
            parcel: &parcel,
            entry,
            mode: case.policy.mode,
            timeout: self.sandbox.timeout.unwrap_or(SANDBOX_TIMEOUT),
            times: self.sandbox.times,
        };
        let place = request.place();
        let answers = request.send().context("the call could not be replayed")?;
        let compared = ReplayComparison::of(&case.call, &answers);
        let code = u8::from(!compared.is_stable());
        if self.json {
            let mut said = compared.fields();
            said["action_id"] = json!(entry.action_id);
            said["tool"] = json!(entry.tool);
            said["sandbox"] = json!(place);
            said["sent"] = parcel.fields();
            said["policy"] = json!({ "then": entry.policy, "now": case.policy.version });
            line(&said, out)?;
            return Ok(code);
        }
        let of = [&entry.action_id, entry.agent(), &entry.tool].map(short);
        let mut text = format!(
            "call {} · agent {} · tool {}\nsandbox:  {}\nsent:     {}\n",
            of[0],
            of[1],
            of[2],
            plain(&place),
            parcel.words()
        );
        if entry.policy != case.policy.version {
            let _ = writeln!(
                text,
                "note: what came back is redacted as policy {} says, then it was policy {}",
                case.policy.version,
                plain(&entry.policy)
            );
        }
        text.push_str(&compared.words());
        out.write_all(text.as_bytes())?;
        Ok(code)
    }
}
