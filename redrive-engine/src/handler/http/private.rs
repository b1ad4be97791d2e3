//! Which addresses are not on the public Internet, and a resolver that refuses them.
//!
//! The check stands where a name becomes the address that is connected to. Checked any earlier, a name could
//! answer with another address the second time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

/// Whether an address belongs to this machine, a private network, or to no host of the public Internet.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_private_v4(v4),
        IpAddr::V6(v6) => is_private_v6(v6),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    match address.octets() {
        // Shared by carriers.
        [100, second, ..] => (64..128).contains(&second),
        [172, second, ..] => (16..32).contains(&second),
        // This network, loopback, private use, multicast and reserved.
        [0 | 10 | 127 | 224..=255, ..]
        // Link-local, where clouds keep their credentials.
        | [169, 254, ..]
        | [192, 168, ..]
        // Protocol assignments, documentation, the old 6to4 relays, benchmarks.
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _] => true,
        _ => false,
    }
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // Unspecified, loopback and the old IPv4-compatible form; IPv4-mapped.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        // IPv4-translated; NAT64.
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        // 6to4.
        | [0x2002, high, low, ..] => embedded(high, low),
        // NAT64 of one's own; discard only; Teredo and other protocol assignments, documentation.
        [0x64, 0xff9b, 1, ..]
        | [0x100, 0, 0, 0, ..]
        | [0x2001, 0..=0x1ff | 0xdb8, ..]
        | [0x3fff, 0..=0xfff, ..] => true,
        // Unique local, link-local, the old site-local, multicast.
        [first, ..] => first & 0xfe00 == 0xfc00 || first & 0xff80 == 0xfe80 || first >= 0xff00,
    }
}

/// Why a name has no address to connect to.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResolveError {
    #[error("`{host}` cannot be resolved: {error}")]
    Unresolved { host: String, error: std::io::Error },
    #[error("`{host}` has no address")]
    Nothing { host: String },
    #[error("`{host}` is at {address}, and private addresses are refused here")]
    Private { host: String, address: IpAddr },
}

/// The system's resolver, which refuses private addresses when asked to.
#[derive(Debug, Clone)]
pub(super) struct Resolver {
    system: GaiResolver,
    refuse_private: bool,
}

impl Resolver {
    pub(super) fn new(refuse_private: bool) -> Self {
        Self { system: GaiResolver::new(), refuse_private }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let host = name.as_str().to_owned();
        let refuse_private = self.refuse_private;
        let resolving = self.system.call(name);
        Box::pin(async move {
            match resolving.await {
                Ok(addresses) => check(host, addresses.collect(), refuse_private),
                Err(error) => Err(ResolveError::Unresolved { host, error }),
            }
        })
    }
}

/// One private address among public ones spoils them all: it is how a name is bent towards the inside.
fn check(
    host: String,
    addresses: Vec<SocketAddr>,
    refuse_private: bool,
) -> Result<std::vec::IntoIter<SocketAddr>, ResolveError> {
    if addresses.is_empty() {
        return Err(ResolveError::Nothing { host });
    }
    match addresses.iter().find(|address| refuse_private && is_private(address.ip())) {
        Some(address) => Err(ResolveError::Private { host, address: address.ip() }),
        None => Ok(addresses.into_iter()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_private_addresses_in_every_disguise() {
        for text in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
        ] {
            assert!(is_private(text.parse().unwrap()), "{text}");
        }
        for text in [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.0.1",
            "172.32.0.1",
            "192.167.0.1",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::",
            "2606:4700::1111",
            "2a00:1450::1",
        ] {
            assert!(!is_private(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn one_private_address_spoils_a_name() {
        let addresses = || vec!["1.1.1.1:0".parse().unwrap(), "[::ffff:10.0.0.1]:0".parse().unwrap()];
        assert!(matches!(check("h".into(), addresses(), true), Err(ResolveError::Private { .. })));
        assert_eq!(check("h".into(), addresses(), false).unwrap().len(), 2);
        assert!(matches!(check("h".into(), Vec::new(), false), Err(ResolveError::Nothing { .. })));
    }
}
