//! What a running toolgate hands out that is too long to be held in memory.

use super::door::{self, DoorRequest};
use super::{AskedDoor, token};
use crate::cli::runtime::runtime;
use anyhow::{Context as _, bail};
use http::StatusCode;
use http_body_util::BodyExt as _;
use std::io::Write;
use std::time::Duration;

/// Bytes of one at most.
const DOWNLOAD_BYTES_MAX: u64 = 1 << 30;
/// How long the next piece may take: a long ledger is read whole before its first row comes.
const PIECE_TIMEOUT: Duration = Duration::from_mins(10);

impl AskedDoor<'_> {
    /// Writes what stands at `path` to `out` as it comes; in words, why the door refuses.
    ///
    /// # Errors
    /// Nobody answers, it breaks off or is longer than 1 GiB, or `out` takes no more of it.
    pub(in crate::cli) fn save(
        &self,
        path: String,
        out: &mut dyn Write,
    ) -> anyhow::Result<Result<(), String>> {
        runtime()?.block_on(self.saves(path, out))
    }

    async fn saves(&self, path: String, out: &mut dyn Write) -> anyhow::Result<Result<(), String>> {
        let (address, bound) = (self.address, self.args.answer_bound());
        let shown = self.token.map(|token| token.secret.expose());
        let late = || format!("{address} has not answered {}", door::words_of(bound));
        let asked = door::send(address, shown, DoorRequest::get(path));
        let asked = tokio::time::timeout(bound, asked).await;
        let nobody = || format!("no operators' door answers at {address}");
        let answer = asked.with_context(late)?.with_context(nobody)?;
        let status = answer.status();
        if status != StatusCode::OK {
            let text = tokio::time::timeout(bound, door::read(answer)).await;
            let text = text.with_context(late)??;
            let refused = door::refusal(address, status, &text)?;
            let refused = refused.of_token(|| token::refused(self.token));
            return Ok(Err(refused.to_string()));
        }
        let (mut body, mut bytes) = (answer.into_body(), 0_u64);
        loop {
            let next = tokio::time::timeout(PIECE_TIMEOUT, body.frame()).await;
            let next = next.with_context(|| format!("{address} goes on no more"))?;
            let Some(frame) = next else { return Ok(Ok(())) };
            let frame = frame.with_context(|| format!("{address} broke off"))?;
            let Some(piece) = frame.data_ref() else {
                continue;
            };
            bytes += piece.len() as u64;
            if bytes > DOWNLOAD_BYTES_MAX {
                bail!("{address} sends more than {DOWNLOAD_BYTES_MAX} bytes");
            }
            out.write_all(piece).context("it cannot be written")?;
        }
    }
}
