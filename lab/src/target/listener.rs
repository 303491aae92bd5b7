//! The process that listens on a port of this machine.

use std::fs;
use std::net::SocketAddr;

/// State `LISTEN` in `/proc/net/tcp`. Source: `include/net/tcp_states.h` of Linux.
const LISTEN: &str = "0A";

/// The process that listens at `addr`, if that is an address of the loopback interface and the process may be
/// inspected. If several listen, such as the workers of one server, the first: the others are its children or siblings.
pub(crate) fn listening(addr: SocketAddr) -> Option<u32> {
    if !addr.ip().is_loopback() {
        return None;
    }
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .flat_map(|table| inodes(&table, addr.port()))
        .collect();
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| has_socket(*pid, &inodes))
        .collect();
    pids.sort_unstable();
    pids.first().copied()
}

/// The sockets that listen on `port`, in the format of `/proc/net/tcp`.
fn inodes(table: &str, port: u16) -> Vec<String> {
    let ending = format!(":{port:04X}");
    let inode = |line: &str| {
        let cells: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it = cells.get(1)?.ends_with(&ending) && *cells.get(3)? == LISTEN;
        is_it.then(|| format!("socket:[{}]", cells.get(9).copied().unwrap_or_default()))
    };
    table.lines().filter_map(inode).collect()
}

fn has_socket(pid: u32, inodes: &[String]) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    links.into_iter().any(|link| inodes.iter().any(|inode| link.as_os_str() == inode.as_str()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::net::{IpAddr, TcpListener};

    use super::*;

    #[test]
    fn a_listener_is_found_by_its_port() {
        for ip in ["127.0.0.1", "::1"] {
            let Ok(listener) = TcpListener::bind((ip.parse::<IpAddr>().unwrap(), 0)) else {
                continue;
            };
            let addr = listener.local_addr().unwrap();
            assert_eq!(listening(addr), Some(std::process::id()));
            drop(listener);
            assert_eq!(listening(addr), None);
        }
        assert_eq!(listening(SocketAddr::from(([192, 0, 2, 1], 80))), None);
    }
}
