//! Whether two hosts are one machine, whatever they are called: by their addresses, of which this
//! machine's own are one.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _, UdpSocket};
use url::{Host, Url};

/// No machine has them: they stand in documents (RFC 5737, RFC 3849).
const NOBODYS_ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// Who knows addresses.
pub(super) struct HostDirectory {
    /// The addresses of a name; none where nobody knows it.
    pub(super) lookup: fn(&str) -> Vec<IpAddr>,
    /// Whether an address is one of this machine.
    pub(super) is_here: fn(IpAddr) -> bool,
}

/// What is known of a host.
pub(super) struct KnownHost {
    /// Its name, where it has one.
    name: Option<String>,
    /// All of its addresses; those of this machine are one.
    addresses: BTreeSet<IpAddr>,
}

impl HostDirectory {
    /// As this machine resolves names now.
    pub(super) const OF_MACHINE: Self = Self {
        lookup: |name| {
            let found = (name, 0).to_socket_addrs();
            found.map_or_else(|_| Vec::new(), |all| all.map(|one| one.ip()).collect())
        },
        is_here,
    };

    /// The host of `url`; none of one that has no host.
    pub(super) fn host(&self, url: &Url) -> Option<KnownHost> {
        let name = match url.host()? {
            Host::Ipv4(address) => return Some(self.at(address.into())),
            Host::Ipv6(address) => return Some(self.at(address.into())),
            Host::Domain(name) => name.trim_end_matches('.').to_ascii_lowercase(),
        };
        let is_local = name == "localhost" || name.ends_with(".localhost");
        let found = if is_local {
            vec![Ipv4Addr::LOCALHOST.into()]
        } else {
            (self.lookup)(&name)
        };
        let addresses = found.into_iter().map(|address| self.one(address));
        Some(KnownHost {
            addresses: addresses.collect(),
            name: Some(name),
        })
    }

    /// The host with this address.
    pub(super) fn at(&self, address: IpAddr) -> KnownHost {
        KnownHost {
            name: None,
            addresses: [self.one(address)].into(),
        }
    }

    /// The address; of all that this machine has one.
    fn one(&self, address: IpAddr) -> IpAddr {
        let address = address.to_canonical();
        let is_here = address.is_loopback() || address.is_unspecified() || (self.is_here)(address);
        if is_here {
            Ipv4Addr::LOCALHOST.into()
        } else {
            address
        }
    }
}

impl KnownHost {
    /// Whether both are one machine, for all that is known.
    pub(super) fn is(&self, other: &Self) -> bool {
        let is_named_alike = self.name.is_some() && self.name == other.name;
        is_named_alike || !self.addresses.is_disjoint(&other.addresses)
    }
}

/// Whether an interface has the address: only to such a one a program binds.
fn is_here(address: IpAddr) -> bool {
    let binds = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    // Some machines bind to any address (`ip_nonlocal_bind`); there it says nothing.
    let mut foreign = NOBODYS_ADDRESSES.into_iter();
    let foreign = foreign.find(|other| other.is_ipv4() == address.is_ipv4());
    binds(address) && !foreign.is_some_and(binds)
}
