//! Doors that are entered with TLS or by a socket: certificates for both ends, and agents that speak
//! HTTP over what is under it.

use super::DEADLINE;
use super::agent::Agent;
use super::answer::Answer;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use jiff::civil::{Date, date};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType, date_time_ymd};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Who vouches for certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

/// A certificate and its key, in PEM.
pub struct Issued {
    /// The certificate.
    pub cert: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// A new one, which is like any other but for its key.
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = params.self_signed(&key).unwrap();
        Self {
            pem: own.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for the door at 127.0.0.1, until the first day of `year`.
    pub fn door(&self, year: i16) -> Issued {
        self.door_until(date(year, 1, 1))
    }

    /// The same until that day.
    pub fn door_until(&self, day: Date) -> Issued {
        let mut params = CertificateParams::new(vec![
            Ipv4Addr::LOCALHOST.to_string(),
            "localhost".to_owned(),
        ])
        .unwrap();
        let [month, number] = [day.month(), day.day()].map(|one| u8::try_from(one).unwrap());
        params.not_after = date_time_ymd(i32::from(day.year()), month, number);
        self.issue(&params)
    }

    /// A certificate for an agent that is known by these URIs.
    pub fn agent(&self, uris: &[&str]) -> Issued {
        let mut params = CertificateParams::default();
        let each = uris
            .iter()
            .map(|uri| SanType::URI((*uri).try_into().unwrap()));
        params.subject_alt_names.extend(each);
        self.issue(&params)
    }

    fn issue(&self, params: &CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        let issued = params.signed_by(&key, &self.issuer).unwrap();
        Issued {
            cert: issued.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Issued {
    /// Puts it into `directory` as `{name}.pem` and `{name}-key.pem`: each is there whole or not at all.
    pub fn put(&self, directory: &Path, name: &str) {
        place(directory, &format!("{name}.pem"), &self.cert);
        place(directory, &format!("{name}-key.pem"), &self.key);
    }
}

/// Writes beside and renames, so that nobody reads a part; only its owner may read it.
pub fn place(directory: &Path, name: &str, text: &str) {
    let (new, file) = (directory.join(format!("{name}.new")), directory.join(name));
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// How a door is reached.
#[derive(Clone)]
pub enum Way {
    /// By TLS, as this end speaks it.
    Tls(SocketAddr, Arc<ClientConfig>),
    /// By a socket.
    Unix(PathBuf),
}

/// A connection to a door.
pub struct DoorConnection {
    sender: SendRequest<Full<Bytes>>,
    carrying: JoinHandle<()>,
    /// What `Host` has.
    host: String,
}

impl Drop for DoorConnection {
    fn drop(&mut self) {
        self.carrying.abort();
    }
}

impl Way {
    /// By TLS to the door at `address`, which one of `authorities` vouches for, with `own` certificate.
    pub fn tls(address: SocketAddr, authorities: &[&Authority], own: Option<&Issued>) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(certificate(&authority.pem)).unwrap();
        }
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                let chain = vec![certificate(&own.cert)];
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Self::Tls(address, Arc::new(config))
    }

    /// The same, offering these protocols.
    pub fn offering(&self, protocols: &[&[u8]]) -> Self {
        let Self::Tls(address, config) = self else {
            panic!("no TLS")
        };
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
        Self::Tls(*address, Arc::new(config))
    }

    /// Connects; an error where the door does not let it in.
    pub async fn connect(&self) -> io::Result<DoorConnection> {
        let connected = async {
            match self {
                Self::Tls(address, config) => {
                    let stream = TcpStream::connect(address).await?;
                    let connector = TlsConnector::from(config.clone());
                    let stream = connector.connect(address.ip().into(), stream).await?;
                    DoorConnection::over(stream, address.to_string()).await
                }
                Self::Unix(path) => {
                    let stream = UnixStream::connect(path).await?;
                    DoorConnection::over(stream, "localhost".to_owned()).await
                }
            }
        };
        let connected = tokio::time::timeout(DEADLINE, connected).await;
        connected.expect("a connection in time")
    }

    /// What one request on a connection of its own is answered; an error where nothing is.
    pub async fn call(&self, token: Option<&str>, tool: &str) -> io::Result<Answer> {
        self.connect().await?.call(token, tool, json!({})).await
    }
}

impl DoorConnection {
    async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        host: String,
    ) -> io::Result<Self> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let carrying = tokio::spawn(async move {
            drop(connection.await);
        });
        Ok(Self {
            sender,
            carrying,
            host,
        })
    }

    /// A modern call of `tool`.
    pub async fn call(
        &mut self,
        token: Option<&str>,
        tool: &str,
        arguments: Value,
    ) -> io::Result<Answer> {
        // The address says nothing here: it is only what `Host` has.
        let mut agent = Agent::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        agent.token = token.map(str::to_owned);
        let params = json!({ "name": tool, "arguments": arguments });
        let message = agent.request("tools/call", params);
        let mut request = Request::post("/mcp");
        for (name, value) in agent.mirrored(&message) {
            let value = if name == "Host" {
                self.host.clone()
            } else {
                value
            };
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(message.to_string()));
        self.send(request.body(body).unwrap()).await
    }

    /// What any request is answered.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> io::Result<Answer> {
        let exchange = async {
            self.sender.ready().await.map_err(io::Error::other)?;
            let answer = self.sender.send_request(request).await;
            let (head, body) = answer.map_err(io::Error::other)?.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?;
            let headers = head.headers.iter().map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                (name.as_str().to_owned(), value)
            });
            Ok(Answer {
                status: head.status.as_u16(),
                headers: headers.collect(),
                body: body.to_bytes().to_vec(),
            })
        };
        let answered = tokio::time::timeout(DEADLINE, exchange).await;
        answered.expect("an answer in time")
    }
}

/// The certificate in a PEM text.
pub fn certificate(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}
