//! The proxy breaks what it should, and the same again for the same seed.

use super::{Plan, Proxy};
use crate::dice::Dice;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[test]
fn the_same_seed_breaks_the_same() {
    let plans = |seed| {
        let mut dice = Dice::new(seed);
        (0..1000)
            .map(|_| Plan::draw(&mut dice, 30))
            .collect::<Vec<_>>()
    };
    assert_eq!(plans(7), plans(7));
    assert_ne!(plans(7), plans(8));
    let broken = plans(7)
        .iter()
        .filter(|plan| matches!(plan, Plan::Swallow(_) | Plan::Cut { .. }))
        .count();
    assert!((250..350).contains(&broken), "{broken} of 1000 broke");
}

/// Says every line back until it is left.
async fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.into_split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn what_is_not_broken_arrives_and_what_is_does_not() {
    let target = Arc::new(Mutex::new(echo().await));
    for (percent, expected) in [(0, 50), (100, 0)] {
        let proxy = Proxy::start(target.clone(), Dice::new(1), percent)
            .await
            .unwrap();
        let mut whole = 0;
        for _ in 0..50 {
            let mut stream = TcpStream::connect(proxy.address).await.unwrap();
            let mut heard = vec![0; 800];
            let sent = stream.write_all(&[b'x'; 800]).await;
            whole += usize::from(sent.is_ok() && stream.read_exact(&mut heard).await.is_ok());
        }
        assert_eq!(whole, expected, "{percent} of 100 break");
        let breaks = proxy.breaks().len();
        assert!(
            if percent == 0 {
                breaks == 0
            } else {
                breaks >= 50
            },
            "{breaks} breaks"
        );
    }
}
