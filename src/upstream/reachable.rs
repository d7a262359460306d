//! Which addresses are of the public internet. What is told to an address that a name leads to must
//! not reach what only this machine or its network is meant to reach, whatever the name's owner says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is one of the public internet, and leads to no other kind of address.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = match first {
        // This network, multicast and what is reserved.
        0 | 224.. => true,
        // What providers use inside.
        100 => matches!(second, 64..=127),
        // What protocols are given for their own use, and relays of 6to4.
        192 => matches!((second, third), (0, 0) | (88, 99)),
        // What benchmarks use inside.
        198 => matches!(second, 18..=19),
        _ => false,
    };
    !(is_special
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // An IPv4 address in another form: mapped, of NAT64, of 6to4.
    if let [0, 0, 0, 0, 0, 0xffff, high, low]
    | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
    | [0x2002, high, low, ..] = segments
    {
        let [[first, second], [third, fourth]] = [high.to_be_bytes(), low.to_be_bytes()];
        return is_public_v4(Ipv4Addr::new(first, second, third, fourth));
    }
    // Everything else that is global begins so: no loopback, link-local or unique local address.
    let is_global = matches!(segments, [0x2000..=0x3fff, ..]);
    // Teredo, documentation, and what stands for nothing reachable.
    let is_special = matches!(
        segments,
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..]
    );
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for (text, public) in [
            ("1.1.1.1", true),
            ("93.184.215.14", true),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("0.0.0.0", false),
            ("198.18.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("192.0.2.1", false),
            ("2606:4700:4700::1111", true),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:1.1.1.1", true),
            ("::127.0.0.1", false),
            ("64:ff9b::10.0.0.1", false),
            ("64:ff9b::1.1.1.1", true),
            ("64:ff9b:1::1.1.1.1", false),
            ("2002:7f00:1::", false),
            ("2002:101:101::", true),
            ("2001::1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
        }
    }
}
