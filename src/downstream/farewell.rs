//! The answer to a peer that may not come in. It is given once the peer has begun to ask, since a peer
//! that has not takes it for noise, and the rest of what was asked is read: a connection that ends with
//! bytes unread takes the answer with it.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

/// How long a peer may take to begin, and then to read the answer.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of its request that are read.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Answers, and ends the connection: two seconds at most.
pub(super) async fn farewell<S>(mut stream: S, answer: &[u8])
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut piece = [0; 1024];
    // One that asks nothing is told all the same.
    let _ = timeout(FAREWELL_TIMEOUT, stream.read(&mut piece)).await;
    let answered = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        let mut bytes = 0;
        while bytes < REQUEST_BYTES_MAX {
            match stream.read(&mut piece).await? {
                0 => break,
                read => bytes += read,
            }
        }
        io::Result::Ok(())
    };
    drop(timeout(FAREWELL_TIMEOUT, answered).await);
}
