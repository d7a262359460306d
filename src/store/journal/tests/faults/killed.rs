//! A process that is killed while it records.

use super::*;

const CHILD_ENV: &str = "TOOLGATE_TEST_JOURNAL";

/// What the process that is killed does: records and says what is synced. Does nothing unless it is
/// that process.
#[tokio::test]
async fn child_that_is_killed() {
    use std::io::Write;
    let Some(data) = std::env::var_os(CHILD_ENV) else {
        return;
    };
    let options = JournalOptions {
        segment_bytes: 64 << 10,
        reserve_bytes: 16 << 10,
        ..small()
    };
    let journal = Journal::open(Path::new(&data), options).unwrap();
    for n in journal.health().head.seq + 1.. {
        journal.record(entry(n)).unwrap();
        if n % 3 == 0 {
            let head = journal.flush().await.unwrap();
            // Not through the test's captured output.
            writeln!(io::stdout().lock(), "synced {}", head.seq).unwrap();
        }
    }
}

// A killed process loses nothing that was synced, another process is refused while it lives, and
// the next goes on.
#[test]
fn a_killed_process_loses_nothing_that_was_synced() {
    use std::io::BufRead;
    let temp = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 0..5 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                "store::journal::tests::faults::killed::child_that_is_killed",
            ])
            .env(CHILD_ENV, temp.path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let lines = io::BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heads =
            lines.filter_map(|line| line.unwrap().rsplit_once("synced ")?.1.parse::<u64>().ok());
        let synced = heads.by_ref().nth(20 + round * 7).unwrap();
        let refusal = Journal::open(temp.path(), small())
            .err()
            .unwrap()
            .to_string();
        assert!(
            refusal.contains(&format!("in use by process {};", child.id())),
            "{refusal}"
        );
        child.kill().unwrap();
        child.wait().unwrap();
        let synced = heads.last().unwrap_or(synced);
        let report = verify(temp.path(), None).unwrap();
        assert_eq!(report.problem, None);
        assert!(
            synced > before && report.records >= synced,
            "{synced} synced, {} there",
            report.records
        );
        for record in read(temp.path()).unwrap() {
            assert_eq!(record.entry().unwrap().unwrap(), entry(record.seq));
        }
        before = synced;
    }
}
