//! In what order toolgate writes, syncs and sends, as the system sees it: nothing goes upstream
//! before its intent is on the disk, no agent is answered before the outcome is (004-14;
//! guarantees §8).

use crate::harness::left_out::left_out;
use crate::harness::setup::programs;
use toolgate_faults::agent::{Agents, Errand, What};
use toolgate_faults::dice::Dice;
use toolgate_faults::stand::{Settings, Stand};
use toolgate_faults::trace::{disorder, steps};

/// `-D` keeps toolgate our child; strings are written whole.
const STRACE: &[&str] = &[
    "strace",
    "-D",
    "-f",
    "-yy",
    "-s",
    "1000000",
    "-e",
    "trace=write,pwrite64,writev,pwritev,sendto,sendmsg,fdatasync,fsync",
    "-o",
    "trace",
];

/// Needs strace; says so when it is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_or_answered_before_it_is_on_the_disk() {
    if std::process::Command::new("strace")
        .args(["-o", "/dev/null", "true"])
        .status()
        .is_ok_and(|status| !status.success())
        || std::process::Command::new("strace")
            .arg("-V")
            .output()
            .is_err()
    {
        left_out(
            "strace",
            "install it, and let it trace, to see the order of syncs",
        );
        return;
    }
    // What is audited stands in the intent, so that the trace says whose intent was written.
    let settings = Settings {
        contract: ", audit: [key]",
        ..Settings::of("toolgate")
    };
    let mut stand = Stand::new(programs(), settings).await.unwrap();
    stand.start_under(Some(STRACE), None).await.unwrap();
    let agents = Agents::new(stand.agents(), Dice::new(1));
    let calls = (0..8).map(|call| {
        let (agents, errand) = (
            agents.clone(),
            Errand::effect(&format!("traced-{call}."), &format!("session-{call}")),
        );
        async move { assert_eq!(agents.run(&errand).await, What::Done { replayed: false }) }
    });
    futures_util::future::join_all(calls).await;
    stand.stop().await.unwrap();
    let data = format!("{}/", stand.path("data").canonicalize().unwrap().display());
    let trace = crate::harness::until("the trace is whole", || async {
        let trace = std::fs::read_to_string(stand.path("trace")).unwrap();
        trace.contains("+++ exited with 0 +++").then_some(trace)
    })
    .await;
    let steps = steps(&trace);
    let wrong: Vec<String> = (0..8)
        .flat_map(|call| {
            disorder(
                &steps,
                &data,
                &format!("traced-{call}."),
                &format!("done traced-{call}."),
            )
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
