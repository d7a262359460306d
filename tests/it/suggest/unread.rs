//! Drafts whose report nobody reads.

use super::{KEPT, drafts, files, observed, observing};
use crate::closed_pipes::unread;

/// Issue 17: what is said before the drafts are written is no reason not to write them.
#[tokio::test]
async fn drafts_are_written_though_nobody_reads_of_them() {
    let server = files().await;
    let setup = observed(observing(&server).more(KEPT)).await;
    for (words, place) in [
        (&["suggest"][..], "suggested"),
        (&["suggest", "--json", "--out", "again"], "again"),
    ] {
        assert_eq!(unread(&setup, words).await, 0, "{words:?}");
        let drafted = drafts(&setup, place).into_values();
        drafted.for_each(|text| assert!(text.contains("files__read"), "{text}"));
    }
}
