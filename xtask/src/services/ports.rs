//! Free ports on the loopback address.
//!
//! They are taken from below the range that the system uses for outgoing connections, so that a server that is
//! stopped for a while finds its port free when it comes back.

use std::collections::HashSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{LazyLock, Mutex};

use crate::error::{Result, failed};

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

struct Handed {
    next: u16,
    taken: HashSet<u16>,
}

static HANDED: LazyLock<Mutex<Handed>> = LazyLock::new(|| {
    // Two supervisors that start together begin at different places.
    let start = (std::process::id().wrapping_mul(2_654_435_761) >> 16) as u16 % COUNT;
    Mutex::new(Handed { next: start, taken: HashSet::new() })
});

/// A port that nothing listens on and that this process has not handed out before.
pub(super) fn free() -> Result<u16> {
    let mut handed = HANDED.lock().map_err(|_| failed("the list of ports is lost"))?;
    for _ in 0..COUNT {
        let port = FIRST + handed.next;
        handed.next = (handed.next + 1) % COUNT;
        if !handed.taken.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            handed.taken.insert(port);
            return Ok(port);
        }
    }
    Err(failed("no free port on the loopback address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_handed_out_twice() {
        let ports: HashSet<u16> = (0..20).map(|_| free().unwrap()).collect();
        assert_eq!(ports.len(), 20);
    }

    #[test]
    fn a_port_in_use_is_passed_over() {
        let first = free().unwrap();
        let held: Vec<_> = (first + 1..first + 4)
            .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
            .collect();
        let next = free().unwrap();
        assert!(held.iter().all(|listener| listener.local_addr().unwrap().port() != next));
    }
}
