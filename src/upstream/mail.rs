//! Mail that toolgate sends by itself: one message each over SMTP, encrypted unless the configuration
//! says otherwise, to addresses of the public internet only, unless it names the receiver as one that
//! is near. The address is judged after its name was looked up, and that very address is connected to.

use super::egress::EgressError;
use super::reachable::is_public;
use crate::model::secret::Secret;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use std::net::IpAddr;
use std::time::Duration;

/// What toolgate calls itself to mail servers.
const HELLO_NAME: &str = "toolgate.invalid";

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
    /// Sends it once, within `timeout`.
    pub(crate) async fn send(&self, mail: Mail, timeout: Duration) -> Result<(), EgressError> {
        let sent = tokio::time::timeout(timeout, self.sent(mail, timeout)).await;
        sent.unwrap_or(Err(EgressError::Late(timeout)))
    }

    async fn sent(&self, mail: Mail, timeout: Duration) -> Result<(), EgressError> {
        let message = self.message(mail)?;
        let address = self.address().await?;
        let mut transport =
            AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.to_string())
                .port(self.port)
                .hello_name(ClientId::Domain(HELLO_NAME.to_owned()))
                .timeout(Some(timeout))
                .tls(self.tls()?);
        if let Some((name, password)) = &self.login {
            let password = password.expose().to_owned();
            transport = transport.credentials(Credentials::new(name.clone(), password));
        }
        let sent = transport.build().send(message).await;
        sent.map(drop).map_err(|error| match error.status() {
            Some(code) => EgressError::Status {
                status: u16::from(code),
                after: None,
            },
            None => EgressError::Unreachable(error.to_string()),
        })
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
    async fn address(&self) -> Result<IpAddr, EgressError> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let found = found.map_err(|error| {
            EgressError::Unreachable(format!("the name cannot be looked up: {error}"))
        })?;
        let mut fit = found.filter(|one| self.is_near || is_public(one.ip()));
        fit.next().map(|one| one.ip()).ok_or(EgressError::Private)
    }

    fn tls(&self) -> Result<Tls, EgressError> {
        let named = || {
            TlsParameters::new(self.host.clone())
                .map_err(|error| EgressError::Unreachable(error.to_string()))
        };
        Ok(match self.security {
            MailSecurity::Tls => Tls::Wrapper(named()?),
            MailSecurity::StartTls => Tls::Required(named()?),
            MailSecurity::Plain => Tls::None,
        })
    }
}
