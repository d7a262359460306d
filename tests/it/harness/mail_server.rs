//! A mail server that keeps what it is sent: SMTP with STARTTLS, with TLS from the first byte, or without.

use super::http2_server::plain_acceptor;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How it is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    Never,
    StartTls,
    Tls,
}

/// A letter, and how it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    pub from: String,
    pub to: Vec<String>,
    pub text: String,
    pub is_encrypted: bool,
    /// What `AUTH` brought.
    pub login: Option<String>,
}

#[derive(Default)]
struct Kept {
    letters: Mutex<Vec<Letter>>,
    /// How many letters are not taken before one is.
    refused: Mutex<u32>,
    /// For whom no letters are taken, as a part of the address.
    strangers: Mutex<Vec<&'static str>>,
}

pub struct MailServer {
    pub address: SocketAddr,
    kept: Arc<Kept>,
    _serving: JoinSet<()>,
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

impl MailServer {
    /// Does not take the first letters, as many as are `refused`.
    pub async fn start(encryption: Encryption, refused: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Arc::new(Kept {
            refused: Mutex::new(refused),
            ..Kept::default()
        });
        let (keeps, mut serving) = (kept.clone(), JoinSet::new());
        serving.spawn(async move {
            let mut sessions = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let keeps = keeps.clone();
                sessions.spawn(async move {
                    let wire: Box<dyn Wire> = match encryption {
                        Encryption::Tls => Box::new(plain_acceptor().accept(stream).await.ok()?),
                        Encryption::Never | Encryption::StartTls => Box::new(stream),
                    };
                    let mut session = Session {
                        wire: BufReader::new(wire),
                        is_encrypted: encryption == Encryption::Tls,
                        offers: encryption == Encryption::StartTls,
                        login: None,
                    };
                    session.run(&keeps).await
                });
            }
        });
        Self {
            address,
            kept,
            _serving: serving,
        }
    }

    /// Takes no letters for addresses with `part` in them from now on.
    pub fn knows_nobody(&self, part: &'static str) {
        self.kept.strangers.lock().unwrap().push(part);
    }

    /// What it has taken.
    pub fn letters(&self) -> Vec<Letter> {
        self.kept.letters.lock().unwrap().clone()
    }
}

struct Session {
    wire: BufReader<Box<dyn Wire>>,
    is_encrypted: bool,
    /// Whether it offers to be encrypted.
    offers: bool,
    login: Option<String>,
}

impl Session {
    async fn say(&mut self, words: &str) -> Option<()> {
        let wire = self.wire.get_mut();
        wire.write_all(words.as_bytes()).await.ok()?;
        wire.flush().await.ok()
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.wire.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
    }

    async fn greet(&mut self) -> Option<()> {
        let more = match (self.offers && !self.is_encrypted, self.is_encrypted) {
            (true, _) => "250-STARTTLS\r\n",
            (_, true) => "250-AUTH PLAIN\r\n",
            (false, false) => "",
        };
        self.say(&format!("250-mail.test\r\n{more}250 8BITMIME\r\n"))
            .await
    }

    /// The lines of a letter.
    async fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            let line = self.line().await?;
            if line == "." {
                return Some(text);
            }
            text += &line;
            text.push('\n');
        }
    }

    /// None: it is over.
    async fn run(&mut self, kept: &Kept) -> Option<()> {
        self.say("220 mail.test ESMTP\r\n").await?;
        let (mut from, mut to) = (String::new(), Vec::new());
        loop {
            let line = self.line().await?;
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            match word {
                "EHLO" => self.greet().await?,
                "STARTTLS" => {
                    self.say("220 go on\r\n").await?;
                    let closed: Box<dyn Wire> = Box::new(tokio::io::empty());
                    let before = std::mem::replace(&mut self.wire, BufReader::new(closed));
                    let encrypted = plain_acceptor().accept(before.into_inner()).await.ok()?;
                    self.wire = BufReader::new(Box::new(encrypted));
                    self.is_encrypted = true;
                }
                "AUTH" => {
                    self.login = Some(rest.to_owned());
                    self.say("235 welcome\r\n").await?;
                }
                "MAIL" => {
                    from = rest.to_owned();
                    self.say("250 ok\r\n").await?;
                }
                "RCPT" if kept.knows_nobody(rest) => self.say("550 no such reader\r\n").await?,
                "RCPT" => {
                    to.push(rest.to_owned());
                    self.say("250 ok\r\n").await?;
                }
                "DATA" => {
                    self.say("354 go on\r\n").await?;
                    let letter = Letter {
                        text: self.text().await?,
                        from: from.clone(),
                        to: std::mem::take(&mut to),
                        is_encrypted: self.is_encrypted,
                        login: self.login.clone(),
                    };
                    let answer = kept.take(letter);
                    self.say(answer).await?;
                }
                "QUIT" => {
                    self.say("221 bye\r\n").await?;
                    return None;
                }
                _ => self.say("250 ok\r\n").await?,
            }
        }
    }
}

impl Kept {
    fn knows_nobody(&self, reader: &str) -> bool {
        let strangers = self.strangers.lock().unwrap();
        strangers.iter().any(|part| reader.contains(part))
    }

    fn take(&self, letter: Letter) -> &'static str {
        let mut refused = self.refused.lock().unwrap();
        if *refused > 0 {
            *refused -= 1;
            return "451 not now\r\n";
        }
        self.letters.lock().unwrap().push(letter);
        "250 taken\r\n"
    }
}
