//! How often requests from one address may prove nothing. Those that prove who sends them are not
//! counted and never wait: an agent may share its address with a stranger who guesses.

use crate::model::rate::{Meter, Rate};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Requests of one address that prove nothing.
const UNPROVEN_RATE: Rate = Rate {
    calls: 300,
    per: 60_000,
};
/// Addresses that are told apart at once; more share one count.
const MAX_ADDRESSES: usize = 4_096;

/// Addresses, and how often they have proved nothing.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<HashMap<IpAddr, Meter>>);

impl Peers {
    /// Counts one request of `peer` at `now`; how long it takes until one more is answered in words
    /// of its own.
    pub(super) fn count(&self, peer: IpAddr, now: Duration) -> Result<(), Duration> {
        let mut peers = self.0.lock();
        let mut network = network(peer);
        if peers.len() >= MAX_ADDRESSES && !peers.contains_key(&network) {
            peers.retain(|_, meter| !meter.is_unused(now));
            if peers.len() >= MAX_ADDRESSES {
                network = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
            }
        }
        peers
            .entry(network)
            .or_insert_with(|| Meter::new(UNPROVEN_RATE))
            .take(now)
    }
}

/// What one host has of addresses: all of a /64 of IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(_) => peer,
        IpAddr::V6(peer) => IpAddr::V6(Ipv6Addr::from_bits(peer.to_bits() >> 64 << 64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// threat-model §3I: each address by itself, in bounded memory.
    #[test]
    fn addresses_are_counted_by_themselves_in_bounded_memory() {
        let (peers, now) = (Peers::default(), Duration::from_secs(9_999_999));
        let v6 = |host: u128| IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) + host));
        assert!((0..300).all(|host| peers.count(v6(host), now).is_ok()));
        assert!(peers.count(v6(300), now).is_err() && peers.count(v6(1 << 64), now).is_ok());
        for address in 0..20_000_u32 {
            let _ = peers.count(IpAddr::V4(address.into()), now);
        }
        assert!(peers.0.lock().len() <= MAX_ADDRESSES + 1);
        assert!(peers.count(v6(301), now + Duration::from_secs(1)).is_ok());
    }
}
