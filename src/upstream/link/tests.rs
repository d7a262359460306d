//! A child that answers nothing is asked for a sign of life, on paused time.

use super::*;
use crate::model::ids::ServerName;
use crate::upstream::lines::Lines;
use std::sync::atomic::AtomicUsize;
use tokio::io::{AsyncWriteExt as _, duplex};

/// A child that reads, counts what it is asked, and says what it is told to say, but answers nothing.
struct SilentChild {
    link: Arc<Link>,
    asked: Arc<AtomicUsize>,
    says: mpsc::UnboundedSender<&'static str>,
}

impl SilentChild {
    fn start() -> Self {
        let (ours, theirs) = duplex(1 << 16);
        let (input, output) = tokio::io::split(ours);
        let name = ServerName::new("billing");
        let (conversation, _) = Conversation::start(&name, input, output, std::future::pending());
        let (says, mut said) = mpsc::unbounded_channel::<&str>();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        tasks::spawn("played child", async move {
            let (input, mut output) = tokio::io::split(theirs);
            let mut lines = Lines::new(input);
            loop {
                tokio::select! {
                    line = lines.next() => match line {
                        Ok(Some(line)) if line.windows(8).any(|part| part == b"discover") => {
                            counted.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(Some(_)) => {}
                        Ok(None) | Err(_) => return,
                    },
                    Some(text) = said.recv() => output.write_all(text.as_bytes()).await.unwrap(),
                }
            }
        });
        Self {
            link: Arc::new(Link::over(Arc::new(conversation))),
            asked,
            says,
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    async fn calls(&self) -> UpstreamExchange {
        let call = Message::request(1, "tools/call", None);
        let mut exchange = self.link.request(call, Vec::new()).await.unwrap();
        exchange.begin().await.unwrap();
        exchange
    }
}

/// Asked twice in vain, it is ended; however often it is doubted, it is asked once at a time.
#[tokio::test(start_paused = true)]
async fn a_child_that_gives_no_sign_of_life_is_ended() {
    let child = SilentChild::start();
    for _ in 0..3 {
        child.link.doubt(Duration::from_millis(1));
    }
    tokio::time::sleep(MIN_SIGN_OF_LIFE_TIMEOUT).await;
    assert!(
        !child.link.is_over(),
        "a short deadline of a call proves little"
    );
    tokio::time::timeout(SIGN_OF_LIFE_TIMEOUT, child.link.ended())
        .await
        .unwrap();
    assert_eq!(child.asked(), 2);
}

/// A child that may be changing something is asked six times and never ended: its work could be cut
/// in two. Once it has ended its work, it is no longer spared.
#[tokio::test(start_paused = true)]
async fn a_child_that_may_change_something_is_not_ended() {
    let child = SilentChild::start();
    let mut exchange = child.calls().await;
    exchange.keeps(&child.link);
    child.link.doubt(Duration::from_mins(1));
    tokio::time::sleep(20 * SIGN_OF_LIFE_TIMEOUT).await;
    assert!(!child.link.is_over());
    assert_eq!(child.asked(), usize::try_from(SIGNS_OF_LIFE_ASKED).unwrap());
    drop(exchange);
    child.link.doubt(Duration::from_mins(1));
    tokio::time::timeout(3 * SIGN_OF_LIFE_TIMEOUT, child.link.ended())
        .await
        .unwrap();
}

/// Whatever it says is a sign of life, be it no answer and no message.
#[tokio::test(start_paused = true)]
async fn any_line_is_a_sign_of_life() {
    let child = SilentChild::start();
    let _read = child.calls().await;
    child.link.doubt(Duration::from_secs(1));
    tokio::time::sleep(MIN_SIGN_OF_LIFE_TIMEOUT / 2).await;
    child.says.send("still busy\n").unwrap();
    tokio::time::sleep(20 * SIGN_OF_LIFE_TIMEOUT).await;
    assert!(!child.link.is_over());
    assert_eq!(child.asked(), 1);
}

/// What a server is told holds nobody up that never reads it.
#[tokio::test(start_paused = true)]
async fn a_child_that_reads_nothing_holds_up_nobody() {
    let (ours, _theirs) = duplex(1);
    let (input, output) = tokio::io::split(ours);
    let name = ServerName::new("billing");
    let (conversation, _) = Conversation::start(&name, input, output, std::future::pending());
    let link = Link::over(Arc::new(conversation));
    let begun = tokio::time::Instant::now();
    let fault = loop {
        let note = Message::notification("notifications/initialized", None);
        if let Err(fault) = link.notify(note).await {
            break fault;
        }
    };
    assert!(fault.what.contains("did not take a message"), "{fault}");
    assert_eq!(begun.elapsed(), Duration::from_secs(30));
}
