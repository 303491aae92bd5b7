//! Blocks of IP addresses, and the address of a client behind proxies.

use std::net::{IpAddr, SocketAddr};

/// A network and the length of its prefix.
pub type Block = (IpAddr, u8);

/// An address, or a block in CIDR notation whose bits after the prefix are zero: `10.1.0.0/8` is probably a mistake.
#[must_use]
pub fn block(text: &str) -> Option<Block> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let (bits, width) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32_u8),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    };
    let Some(prefix) = prefix else { return Some((address, width)) };
    let digits = prefix.bytes().all(|b| b.is_ascii_digit());
    let prefix: u8 = prefix.parse().ok().filter(|prefix| digits && *prefix <= width)?;
    let behind = u32::from(width.checked_sub(prefix)?);
    let rest = bits.checked_shl(128_u32.checked_sub(behind)?).unwrap_or(0);
    (rest == 0).then_some((address, prefix))
}

/// Whether `address` is in one of `blocks`.
#[must_use]
pub fn is_in(blocks: &[Block], address: IpAddr) -> bool {
    blocks.iter().any(|block| contains(*block, address))
}

fn contains((network, prefix): Block, address: IpAddr) -> bool {
    let same = |a: u128, b: u128, bits: u8| {
        let shift = u32::from(bits.saturating_sub(prefix.min(bits)));
        let width = u32::from(bits);
        if shift >= width { true } else { (a ^ b) >> shift == 0 }
    };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            same(u32::from(network).into(), u32::from(address).into(), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => same(network.into(), address.into(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// The client behind a `trusted` proxy: the last address in the values of `X-Forwarded-For` that does not belong to a
/// trusted proxy. `None` without one.
#[must_use]
pub fn forwarded_for<'v>(
    values: impl DoubleEndedIterator<Item = &'v [u8]>,
    trusted: &[Block],
) -> Option<IpAddr> {
    let texts = values.rev().flat_map(|value| value.rsplit(|byte| *byte == b','));
    let address = |text: &[u8]| {
        let text = std::str::from_utf8(text).ok()?.trim();
        text.parse().or_else(|_| text.parse().map(|with_port: SocketAddr| with_port.ip())).ok()
    };
    let addresses = texts.map_while(address).map(|address: IpAddr| address.to_canonical());
    addresses.into_iter().find(|address| !is_in(trusted, *address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, address: &str, inside: bool) {
        let block = block(text).expect("a block");
        let address = address.parse().expect("an address");
        assert_eq!(is_in(&[block], address), inside, "{text} {address}");
    }

    #[test]
    fn addresses_are_matched_by_cidr_block() {
        check("10.0.0.0/8", "10.1.2.3", true);
        check("10.0.0.0/8", "11.1.2.3", false);
        check("10.0.0.7", "10.0.0.7", true);
        check("10.0.0.7", "10.0.0.8", false);
        check("0.0.0.0/0", "192.0.2.1", true);
        check("2001:db8::/32", "2001:db8::1", true);
        check("2001:db8::/32", "2001:db9::1", false);
        check("::/0", "10.0.0.1", false);
        for text in ["", "10", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/+8", "10.0.0.0/", "::/129"] {
            assert_eq!(block(text), None, "{text}");
        }
    }

    #[test]
    fn a_client_is_the_last_address_that_no_trusted_proxy_has() {
        let trusted = [block("10.0.0.0/8").expect("a block")];
        for (values, expect) in [
            (&[][..], None),
            (&["192.0.2.1"], Some("192.0.2.1")),
            (&["192.0.2.9, 192.0.2.1, 10.0.0.1"], Some("192.0.2.1")),
            (&["192.0.2.9", "192.0.2.1,10.0.0.1", "::ffff:10.0.0.2"], Some("192.0.2.1")),
            (&["10.0.0.1"], None),
            (&["192.0.2.1:5123, 10.0.0.1:80"], Some("192.0.2.1")),
            (&["[2001:db8::1]:5123"], Some("2001:db8::1")),
            (&["192.0.2.1:"], None),
            // The values before the client's address are not trusted.
            (&["192.0.2.1, unknown, 10.0.0.1"], None),
        ] {
            let found = forwarded_for(values.iter().map(|value| value.as_bytes()), &trusted);
            assert_eq!(found.map(|it| it.to_string()).as_deref(), expect, "{values:?}");
        }
    }
}
