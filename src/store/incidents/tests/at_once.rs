//! Operators who act at the same time: each incident is opened once and closed once, and nothing is closed by
//! a proof of something else.

use super::*;
use std::sync::mpsc;
use tokio::sync::oneshot;

/// Packs that run until they are let go, and say so when they begin.
fn held_packs() -> (Arc<RunPacks>, oneshot::Receiver<()>, mpsc::Sender<()>) {
    let (begun, begins) = oneshot::channel();
    let (go, goes) = mpsc::channel::<()>();
    let parts = Held::new((Some(begun), goes));
    let run = move |_: &[IncidentSample]| {
        let mut parts = parts.lock();
        if let Some(begun) = parts.0.take() {
            begun.send(()).unwrap();
        }
        parts.1.recv().unwrap();
        Ok("all as expected".to_owned())
    };
    (Arc::new(run), begins, go)
}

async fn opened_with_a_sample(bed: &IncidentsTestBed) {
    let opened = bed.incidents.begin(&bed.store, wish("bank__*", "odd"));
    opened.await.unwrap();
    let noted = bed.incidents.sampled(&bed.store, 1, sample("a-1"), "ann");
    noted.await.unwrap();
}

/// How those were refused who were.
fn refusals<T>(ends: [Result<T, IncidentError>; 2]) -> Vec<IncidentError> {
    ends.into_iter().filter_map(Result::err).collect()
}

/// The ledger has the step, once.
async fn is_told_once(bed: IncidentsTestBed, data: &Path, step: IncidentStep) {
    let told = recorded(bed, data).await;
    let is_it = |(told, _): &&(IncidentStep, String)| *told == step;
    assert_eq!(told.iter().filter(is_it).count(), 1, "{told:?}");
}

#[tokio::test]
async fn two_who_open_the_same_have_one_incident() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    let open = || bed.incidents.begin(&bed.store, wish("bank__*", "odd"));
    let (one, other) = tokio::join!(open(), open());
    assert_eq!(refusals([one, other]), [IncidentError::AlreadyOpen(1)]);
    is_told_once(bed, data.path(), IncidentStep::Opened).await;
}

#[tokio::test]
async fn two_who_close_it_close_it_once() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    opened_with_a_sample(&bed).await;
    let close = |force| {
        let closing = closing(1, force);
        bed.incidents.close(&bed.store, closing, packs(true))
    };
    let (one, other) = tokio::join!(close(false), close(true));
    assert_eq!(refusals([one, other]), [IncidentError::Closed(1)]);
    is_told_once(bed, data.path(), IncidentStep::Closed).await;
}

/// A sample that comes while the packs run has not been asked for: nothing is closed by that run, and what the
/// operators do meanwhile does not wait for it.
#[tokio::test]
async fn a_sample_that_comes_meanwhile_keeps_it_open() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    opened_with_a_sample(&bed).await;
    let (run, begins, go) = held_packs();
    let close = bed.incidents.close(&bed.store, closing(1, false), run);
    let meanwhile = async {
        begins.await.unwrap();
        let noted = bed.incidents.sampled(&bed.store, 1, sample("a-2"), "ann");
        noted.await.unwrap();
        go.send(()).unwrap();
    };
    let (closed, ()) = tokio::join!(close, meanwhile);
    assert_eq!(closed, Err(IncidentError::Changed));
    assert!(bed.incidents.find(1).await.unwrap().is_open());
    assert_eq!(*bed.in_force.lock(), ["bank__*"]);
}

/// One operator forces the end while the packs of another still run: the later one finds it closed.
#[tokio::test]
async fn what_is_closed_meanwhile_is_not_closed_again() {
    let data = tempfile::tempdir().unwrap();
    let bed = open(data.path());
    opened_with_a_sample(&bed).await;
    let (run, begins, go) = held_packs();
    let close = bed.incidents.close(&bed.store, closing(1, false), run);
    let meanwhile = async {
        begins.await.unwrap();
        let forced = bed
            .incidents
            .close(&bed.store, closing(1, true), packs(false));
        forced.await.unwrap();
        go.send(()).unwrap();
    };
    let (closed, ()) = tokio::join!(close, meanwhile);
    assert_eq!(closed, Err(IncidentError::Closed(1)));
    let end = bed.incidents.find(1).await.unwrap().closed.unwrap();
    assert!(end.forced, "{end:?}");
}
