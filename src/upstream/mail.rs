//! Mail that toolgate sends by itself: one message each over SMTP, encrypted unless the configuration
//! says otherwise, to addresses of the public internet only, unless it names the receiver as one that
//! is near. The address is judged after its name was looked up, and that very address is connected to.

mod wire;

use super::egress::EgressError;
use super::reachable::is_public;
use crate::model::secret::Secret;
use lettre::address::Envelope;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail as MailFrom, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use lettre::{Address, Message};
use std::net::SocketAddr;
use std::time::Duration;
use wire::MailWire;

/// What toolgate calls itself to mail servers.
const HELLO_NAME: &str = "toolgate.invalid";
/// How long a mail server may take over a letter that it has (RFC 5321 §4.5.3.2.6): what is sent again
/// because it reads slowly is delivered again.
const LETTER_TIMEOUT: Duration = Duration::from_mins(10);

/// How what is sent is kept from being read on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MailSecurity {
    /// TLS from the first byte.
    Tls,
    /// TLS before anything is said, or nothing is said.
    StartTls,
    /// Not at all.
    Plain,
}

/// A mail server, and who writes to whom there.
#[derive(Debug, Clone)]
pub(crate) struct MailRoute {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is spoken to.
    pub security: MailSecurity,
    /// A name and a password for it.
    pub login: Option<(String, Secret)>,
    /// Who writes.
    pub from: Mailbox,
    /// To whom.
    pub to: Vec<Mailbox>,
    /// Whether it may be at this machine and its network.
    pub is_near: bool,
}

/// What is written.
#[derive(Debug)]
pub(crate) struct Mail {
    /// By which a reader knows it again: letters, digits, `-` and `.`.
    pub id: String,
    /// Our words.
    pub subject: String,
    /// Plain text.
    pub body: String,
}

impl MailRoute {
    /// Sends it once: everything until the letter itself within `timeout`. It is sent to those whom the
    /// server takes letters for, if it takes them for anybody.
    pub(crate) async fn send(&self, mail: Mail, timeout: Duration) -> Result<(), EgressError> {
        let letter = self.message(mail)?;
        let begun = tokio::time::timeout(timeout, Box::pin(self.begun(letter.envelope()))).await;
        let mut connection = begun.unwrap_or(Err(EgressError::Late(timeout)))?;
        let text = letter.formatted();
        let taken = tokio::time::timeout(LETTER_TIMEOUT, connection.message(&text)).await;
        taken
            .map_err(|_| EgressError::Late(LETTER_TIMEOUT))?
            .map_err(|error| told(&error))?;
        // The letter is with the server, whatever it says of the end.
        drop(tokio::time::timeout(timeout, connection.quit()).await);
        Ok(())
    }

    /// A connection on which nothing but the letter is to be said yet.
    async fn begun(&self, envelope: &Envelope) -> Result<AsyncSmtpConnection, EgressError> {
        let mut connection = self.connected().await?;
        if let Some((name, password)) = &self.login {
            let login = Credentials::new(name.clone(), password.expose().to_owned());
            let ways = [Mechanism::Plain, Mechanism::Login];
            connection
                .auth(&ways, &login)
                .await
                .map_err(|error| told(&error))?;
        }
        let mut parameters = Vec::new();
        let mut addresses = envelope.to().iter().chain(envelope.from());
        if addresses.any(|address| !AsRef::<str>::as_ref(address).is_ascii()) {
            let server = connection.server_info();
            if !server.supports_feature(Extension::SmtpUtfEight) {
                let said = "the mail server takes ASCII addresses only (it has no SMTPUTF8)";
                return Err(EgressError::Unreachable(said.to_owned()));
            }
            parameters.push(MailParameter::SmtpUtfEight);
        }
        let from = MailFrom::new(envelope.from().cloned(), parameters);
        connection
            .command(from)
            .await
            .map_err(|error| told(&error))?;
        self.name_readers(&mut connection, envelope.to()).await?;
        connection
            .command(Data)
            .await
            .map_err(|error| told(&error))?;
        Ok(connection)
    }

    /// Tells the server for whom the letter is. One whom it does not take letters for costs the others
    /// nothing; that it takes them for nobody is an error.
    async fn name_readers(
        &self,
        connection: &mut AsyncSmtpConnection,
        readers: &[Address],
    ) -> Result<(), EgressError> {
        let mut refused = None;
        let mut taken = 0;
        for reader in readers {
            match connection
                .command(Rcpt::new(reader.clone(), Vec::new()))
                .await
            {
                Ok(_) => taken += 1,
                Err(error) if error.status().is_some() => {
                    let error = told(&error);
                    tracing::warn!(server = self.host, %reader, %error,
                        "a mail server takes no letters for one of its receivers; the others are told"
                    );
                    refused = Some(error);
                }
                Err(error) => return Err(told(&error)),
            }
        }
        match refused {
            Some(error) if taken == 0 => Err(error),
            _ => Ok(()),
        }
    }

    async fn connected(&self) -> Result<AsyncSmtpConnection, EgressError> {
        let address = self.address().await?;
        let name = ClientId::Domain(HELLO_NAME.to_owned());
        let unreachable = |error: std::io::Error| EgressError::Unreachable(error.to_string());
        let stream = MailWire::connected(address).await.map_err(unreachable)?;
        if self.security == MailSecurity::Tls {
            let stream = stream.encrypted(&self.host).await.map_err(unreachable)?;
            let connection = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &name);
            return connection.await.map_err(|error| told(&error));
        }
        let connection = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &name);
        let mut connection = connection.await.map_err(|error| told(&error))?;
        if self.security == MailSecurity::StartTls {
            let named = TlsParameters::new(self.host.clone()).map_err(|error| told(&error))?;
            connection
                .starttls(named, &name)
                .await
                .map_err(|error| told(&error))?;
        }
        Ok(connection)
    }

    fn message(&self, mail: Mail) -> Result<Message, EgressError> {
        let mut message = Message::builder()
            .message_id(Some(format!("<{}@{HELLO_NAME}>", mail.id)))
            .from(self.from.clone())
            .subject(mail.subject)
            .header(ContentType::TEXT_PLAIN);
        for to in &self.to {
            message = message.to(to.clone());
        }
        let message = message.body(mail.body);
        message.map_err(|error| EgressError::Unreachable(error.to_string()))
    }

    /// Where its name leads.
    async fn address(&self) -> Result<SocketAddr, EgressError> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found = found.map_err(|error| {
            EgressError::Unreachable(format!("the name cannot be looked up: {error}"))
        })?;
        let mut fit = found.filter(|one| self.is_near || is_public(one.ip()));
        fit.next().ok_or(EgressError::Private)
    }
}

fn told(error: &lettre::transport::smtp::Error) -> EgressError {
    match error.status() {
        Some(code) => EgressError::Status {
            status: u16::from(code),
            after: None,
        },
        None => EgressError::Unreachable(error.to_string()),
    }
}
