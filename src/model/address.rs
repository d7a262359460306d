//! Addresses that configurations name, of tool servers and hooks.

use super::diagnostic::Problems;
use url::{Host, Url};

/// An address that can be reached over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// The address.
    pub url: Url,
    /// Whether what is sent leaves this machine, and machines on the way can read it.
    pub is_exposed: bool,
}

impl Address {
    /// Reads `text`, noting what is wrong with it; `instead`: what is used in place of a password.
    pub(crate) fn read(text: &str, instead: &str, problems: &mut Problems) -> Option<Self> {
        let url = Url::parse(text)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = url else {
            problems.error(
                "is no address that can be reached",
                "write https://host/path",
            );
            return None;
        };
        if !url.username().is_empty() || url.password().is_some() {
            problems.error("holds a password", instead);
        }
        let is_near = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        };
        let is_exposed = url.scheme() == "http" && !is_near;
        Some(Self { url, is_exposed })
    }
}

/// Whether `text` is an address to take keys or tokens from: `https` without a user, or `http` on this
/// machine. Who can change them on their way to toolgate can be every agent.
pub(crate) fn is_trustworthy(text: &str) -> bool {
    let is_near = |url: &Url| match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.to_canonical().is_loopback(),
        None => false,
    };
    let is_plain = |url: &Url| url.username().is_empty() && url.password().is_none();
    let is_safe = |url: &Url| url.scheme() == "https" || (url.scheme() == "http" && is_near(url));
    let read = Url::parse(text).ok().filter(Url::has_host);
    read.is_some_and(|url| is_plain(&url) && is_safe(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where what is sent can be read on the way, and where it cannot.
    #[test]
    fn plain_http_is_exposed_off_this_machine_only() {
        for (text, exposed) in [
            ("https://example.com/x", Some(false)),
            ("http://example.com", Some(true)),
            ("http://127.0.0.1:9/", Some(false)),
            ("http://127.8.0.1:9/", Some(false)),
            ("http://[::1]:9/", Some(false)),
            ("http://localhost:9/", Some(false)),
            ("http://localhost.example.com/", Some(true)),
            ("http://10.0.0.1/", Some(true)),
            ("http://[::ffff:10.0.0.1]/", Some(true)),
            ("ftp://localhost/", None),
            ("localhost:9", None),
            ("", None),
        ] {
            let read = Address::read(text, "", &mut Problems::default());
            assert_eq!(read.map(|address| address.is_exposed), exposed, "{text}");
        }
    }
}
