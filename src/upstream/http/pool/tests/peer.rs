//! A server that scenarios play, and a lane to it.

use super::*;
use tokio::net::TcpListener;

/// No scenario takes a second; one that takes so long hangs.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(20);

/// What a server has seen.
#[derive(Default)]
pub(super) struct ServerTally {
    pub(super) opened: usize,
    pub(super) ended: usize,
    /// The path of each whole request.
    pub(super) requests: Vec<String>,
}

impl ServerTally {
    pub(super) fn all_ended(&self) -> bool {
        self.opened == self.ended
    }
}

pub(super) type SharedTally = Arc<Mutex<ServerTally>>;

/// A server's side of one connection.
pub(super) struct Peer {
    pub(super) stream: TcpStream,
    seen: SharedTally,
}

impl Peer {
    /// Reads one whole request and notes it; none when the connection has ended.
    pub(super) async fn request(&mut self) -> Option<String> {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte).await.ok()?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .unwrap()
            .parse()
            .unwrap();
        self.stream.read_exact(&mut vec![0; length]).await.ok()?;
        let path = head.split(' ').nth(1).unwrap().to_owned();
        self.seen.lock().requests.push(path.clone());
        Some(path)
    }

    pub(super) async fn says(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes()).await;
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.seen.lock().ended += 1;
    }
}

/// A lane to a server that serves each connection so.
pub(super) async fn lane<S: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(Peer) -> S + Send + 'static,
) -> (Arc<ConnectionPool>, SharedTally) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let seen = SharedTally::default();
    let tally = seen.clone();
    tasks::spawn("server", async move {
        while let Ok((stream, _)) = listener.accept().await {
            tally.lock().opened += 1;
            tasks::spawn(
                "connection",
                serve(Peer {
                    stream,
                    seen: tally.clone(),
                }),
            );
        }
    });
    (ConnectionPool::new(HttpConnector::new(), address), seen)
}

pub(super) fn post(path: &str, length: usize) -> Request<Payload> {
    let mut request = Request::new(payload(Bytes::from(vec![b'x'; length]), None));
    (*request.method_mut(), *request.uri_mut()) = (Method::POST, path.parse().unwrap());
    request.headers_mut().insert(HOST, "a".parse().unwrap());
    request
}

/// Sends one request and reads the whole answer: its body, or what is proven of the request.
pub(super) async fn ask(lane: &Arc<ConnectionPool>, path: &str) -> Result<String, Sent> {
    let response = in_time(lane.send(post(path, 4)))
        .await
        .map_err(|fault| fault.sent)?;
    // Once the head of an answer has come, the request has left.
    let body = in_time(response.into_body().collect())
        .await
        .map_err(|_| Sent::Maybe)?;
    Ok(String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

pub(super) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SCENARIO_TIMEOUT, future)
        .await
        .expect("it ends in time")
}

pub(super) async fn until(mut is_so: impl FnMut() -> bool) {
    in_time(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

pub(super) fn answer(path: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}",
        path.len()
    )
}
