//! Drafts whose report nobody reads.

use super::{KEPT, drafts, files, observed, observing};
use crate::closed_pipes::unread;

/// Issue 17: what is said before the drafts are written is no reason not to write them.
#[tokio::test]
async fn drafts_are_written_though_nobody_reads_of_them() {
    let server = files().await;
    let setup = observed(observing(&server).more(KEPT)).await;
    let first = unread(&setup, &["suggest"]).await;
    assert_eq!(first, 0);
    let written = drafts(&setup, "suggested");
    let again = unread(&setup, &["suggest", "--json", "--out", "again"]).await;
    assert_eq!(again, 0);
    assert_eq!(drafts(&setup, "again").len(), written.len());
}
