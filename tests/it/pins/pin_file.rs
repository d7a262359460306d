//! The file of pins: written whole or not at all, and never by what went wrong.

use super::{APPROVE, approved, lists, setup};
use crate::harness::gate::run;
use crate::harness::scripted_server::{Offers, ScriptedServer, tool};
use crate::harness::setup::Setup;
use crate::harness::until;

fn pins_of(setup: &Setup) -> String {
    std::fs::read_to_string(setup.directory().join("toolgate.pins.yaml")).unwrap()
}

/// threat-model §3D D8: nothing becomes a pin because something went wrong: a server that is down
/// or lists too much, a pin file that cannot be read.
#[tokio::test]
async fn d8_nothing_is_approved_because_something_went_wrong() {
    let scripted = ScriptedServer::start(Offers {
        tools: vec![tool("a"), tool("b")],
        page: 1,
        ..Offers::default()
    })
    .await;
    let setup = setup(&scripted, &["a", "b"]);
    approved(&setup).await;
    let before = pins_of(&setup);

    scripted.down();
    for verb in [
        APPROVE,
        &["pins", "approve", "--all", "--prune"],
        &["pins", "approve", "oracle__a"],
        &["pins", "approve", "or*"],
    ] {
        let (exit, said, wrong) = run(&setup, verb).await;
        assert_eq!(exit, 1, "{verb:?} {said}");
        assert!(
            wrong.contains("nothing was written: these servers do not answer"),
            "{wrong}"
        );
    }
    let (exit, said, _) = run(&setup, &["pins", "verify"]).await;
    assert!(
        exit == 1 && said.contains("unknown  tools of oracle: it does not answer"),
        "{said}"
    );
    assert!(
        !said.contains("absent"),
        "what is not known is not gone: {said}"
    );

    scripted.up().await;
    scripted
        .changes_tools((0..51).map(|number| tool(&format!("t{number}"))).collect())
        .await;
    let (exit, _, wrong) = run(&setup, APPROVE).await;
    assert!(
        exit == 1 && wrong.contains("more than 50 pages"),
        "a listing that was cut off: {wrong}"
    );
    scripted.changes_tools(vec![tool("a")]).await;
    let (exit, said, _) = run(&setup, APPROVE).await;
    assert!(exit == 0 && said.contains("absent   oracle__b"), "{said}");
    assert_eq!(
        pins_of(&setup),
        before,
        "whatever went wrong, the file is as it was"
    );
}

/// The same when the file of pins cannot be read or written.
#[tokio::test]
async fn d8_a_file_of_pins_that_is_broken_is_left_as_it_is() {
    let scripted = ScriptedServer::with(vec![tool("a"), tool("b")]).await;
    let setup = setup(&scripted, &["a", "b"]);
    approved(&setup).await;
    let before = pins_of(&setup);
    let file = setup.directory().join("toolgate.pins.yaml");
    scripted.changes_tools(vec![tool("a")]).await;
    for broken in [
        "",
        "pins:\n",
        &before[..before.len() / 2],
        &before.replace("does b", "does more"),
    ] {
        std::fs::write(&file, broken).unwrap();
        let (exit, _, wrong) = run(&setup, APPROVE).await;
        let is_none = broken.is_empty();
        assert_eq!(exit, i32::from(!is_none), "{broken:?} {wrong}");
        assert!(
            is_none || std::fs::read_to_string(&file).unwrap() == broken,
            "{broken}"
        );
    }
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let (exit, _, wrong) = run(&setup, APPROVE).await;
    assert!(
        exit == 1 && wrong.contains("is left as it is"),
        "what cannot be read: {wrong}"
    );
    std::fs::remove_dir(&file).unwrap();
    let text = std::fs::read_to_string(setup.directory().join("toolgate.yaml")).unwrap();
    let nowhere = text.replace("pins: toolgate.pins.yaml", "pins: nowhere/pins.yaml");
    std::fs::write(setup.directory().join("nowhere.yaml"), nowhere).unwrap();
    let (exit, _, wrong) = run(
        &setup,
        &["pins", "approve", "--all", "--config", "nowhere.yaml"],
    )
    .await;
    assert!(
        exit == 1 && wrong.contains("nothing was approved"),
        "what cannot be written: {wrong}"
    );

    std::fs::write(&file, &before).unwrap();
    let (exit, said, _) = run(&setup, &["pins", "approve", "--all", "--prune"]).await;
    assert!(exit == 0 && said.contains("removed  oracle__b"), "{said}");
    assert!(!pins_of(&setup).contains("\"b\""));
}

/// threat-model §3D D8: of several operators who approve at once each approval is kept, or said to
/// be none.
#[tokio::test]
async fn d8_approvals_at_the_same_time_lose_none() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let scripted = ScriptedServer::with(names.map(tool).to_vec()).await;
    let setup = setup(&scripted, &names);
    let approve = async |name: &str| {
        let tool = format!("oracle__{name}");
        (
            name.to_owned(),
            run(&setup, &["pins", "approve", &tool]).await,
        )
    };
    let (mut left, mut rounds) = (names.map(str::to_owned).to_vec(), 0);
    while !left.is_empty() {
        let done = futures_util::future::join_all(left.iter().map(|name| approve(name))).await;
        let pins = pins_of(&setup);
        for (name, (exit, said, wrong)) in done {
            assert_eq!(
                pins.contains(&format!("\"{name}\":")),
                exit == 0,
                "{name}: {said}{wrong}\n{pins}"
            );
            assert!(
                exit == 0 || wrong.contains("somebody else meanwhile; nothing was written"),
                "{said}{wrong}"
            );
            left.retain(|one| exit != 0 || *one != name);
        }
        rounds += 1;
        assert!(rounds <= names.len(), "one of them is written each time");
    }
}

/// threat-model §3D D8: without pins that can be read nothing starts; a running toolgate keeps the
/// last good ones and says so.
#[tokio::test]
async fn d8_a_pin_file_that_cannot_be_read_keeps_the_last_good_one() {
    let scripted = ScriptedServer::with(vec![tool("a"), tool("b")]).await;
    let setup = setup(&scripted, &["a", "b"]);
    let file = setup.directory().join("toolgate.pins.yaml");
    let (exit, _, wrong) = run(&setup, &["serve"]).await;
    assert!(
        exit == 1 && wrong.contains("toolgate pins approve --all"),
        "{wrong}"
    );
    assert_eq!(run(&setup, &["check"]).await.0, 1);
    let (exit, said, _) = run(&setup, &["pins", "approve", "oracle__a"]).await;
    assert_eq!(exit, 0, "{said}");
    assert_eq!(run(&setup, &["check"]).await.0, 0);
    let good = pins_of(&setup);
    let gate = setup.clone().start().await;
    lists(&gate, &["a"]).await;
    let stale = async |expected: bool| {
        until("readiness says so", || async {
            (gate.readiness().await["policy"]["stale"] == expected).then_some(())
        })
        .await;
    };
    for broken in [Some("pins: [\n"), None] {
        match broken {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        stale(true).await;
        lists(&gate, &["a"]).await;
        std::fs::write(&file, &good).unwrap();
        stale(false).await;
    }
    let (exit, said, _) = run(&setup, APPROVE).await;
    assert_eq!(exit, 0, "{said}");
    lists(&gate, &["a", "b"]).await;
    std::fs::write(&file, &good).unwrap();
    lists(&gate, &["a"]).await;
}
