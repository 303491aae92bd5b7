//! Opening connections to upstreams.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use model::Scheme;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use wire::stream::Stream;
use wire::tls::ClientTls;

use super::ports::{LocalPort, LocalPorts};
use super::turns::ConnectTurns;
use crate::shares::own_connections::{OwnConnection, OwnConnections};

/// Where a connection leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) scheme: Scheme,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The outcomes of single addresses.
pub(crate) trait Report {
    fn failed(&self, ip: IpAddr);
    fn connected(&self, ip: IpAddr);
}

/// The registers of open connections, and the turns in which new ones begin.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) own: OwnConnections,
    pub(crate) ports: LocalPorts,
    pub(crate) turns: Rc<ConnectTurns>,
}

/// The entries of an open connection in the registers, until dropped.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    _own: Option<OwnConnection>,
    _port: Option<LocalPort>,
}

/// A new connection.
pub(crate) struct Connected {
    pub(crate) stream: Stream,
    pub(crate) ip: IpAddr,
    pub(crate) registered: Registered,
}

/// Connects to one of `ips`, and performs the TLS handshake if there is one.
///
/// # Errors
/// The last failure.
pub(super) async fn connect(
    address: &Address,
    ips: &[IpAddr],
    tls: &ClientTls,
    connect_ms: u32,
    opening: &Opening,
    report: &impl Report,
) -> io::Result<Connected> {
    #[cfg(test)]
    if let (Some(connected), Some(ip)) =
        (crate::simulation::connect(address.port).await, ips.first())
    {
        let registered = Registered::default();
        return connected.map(|stream| Connected { stream, ip: *ip, registered });
    }
    let ((tcp, port), ip) =
        connect_to_one_of(ips, address.port, connect_ms, opening, report).await?;
    tcp.set_nodelay(true)?;
    let registered = Registered { _own: opening.own.open(&tcp), _port: Some(port) };
    let stream = match address.scheme {
        Scheme::Http => Stream::Clear(tcp),
        Scheme::Https => tls.connect(tcp, &address.host).await?,
    };
    if let Some(tcp) = stream.socket() {
        SockRef::from(tcp).set_linger(None)?;
    }
    Ok(Connected { stream, ip, registered })
}

/// Opens a connection, from one of the source addresses if there are some. It is reset if it is dropped: an upstream
/// that hangs would hold the port of one that is given up before or during the TLS handshake.
async fn open(to: SocketAddr, opening: &Opening) -> io::Result<(TcpStream, LocalPort)> {
    opening.turns.wait().await;
    let port = opening.ports.take(to)?;
    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    SockRef::from(&socket).set_linger(Some(Duration::ZERO))?;
    if let Some(source) = port.source() {
        // The kernel chooses the port when it knows the destination: each destination has the whole range.
        setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
        socket.bind(SocketAddr::new(source, 0))?;
    }
    Ok((socket.connect(to).await?, port))
}

/// Whether the connection failed for lack of something on this machine, such as descriptors, memory or ports.
pub(super) fn is_local(error: &io::Error) -> bool {
    use nix::errno::Errno::{EADDRNOTAVAIL, EMFILE, ENFILE, ENOBUFS, ENOMEM};
    let lacking = [EADDRNOTAVAIL, EMFILE, ENFILE, ENOBUFS, ENOMEM];
    let is_lacking = |code| lacking.iter().any(|lacking| *lacking as i32 == code);
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error().is_some_and(is_lacking)
}

/// Whether the connection failed because the process, or the machine, has too many files open.
pub(super) fn lacks_descriptors(error: &io::Error) -> bool {
    use nix::errno::Errno::{EMFILE, ENFILE};
    error.raw_os_error().is_some_and(|code| [EMFILE, ENFILE].iter().any(|no| *no as i32 == code))
}

/// Tries each address in turn, each but the last for its share of the time, so that an address that drops
/// packets does not prevent the next attempt. The last one is limited by the caller.
async fn connect_to_one_of(
    ips: &[IpAddr],
    port: u16,
    connect_ms: u32,
    opening: &Opening,
    report: &impl Report,
) -> io::Result<((TcpStream, LocalPort), IpAddr)> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    let share = Duration::from_millis(u64::from(connect_ms)) / shares_of(ips.len());
    let last = ips.len().saturating_sub(1);
    for (position, ip) in ips.iter().enumerate() {
        let connecting = open(SocketAddr::new(*ip, port), opening);
        let tried = if position == last {
            connecting.await
        } else {
            let tried = tokio::time::timeout(share, connecting).await;
            tried.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        match tried {
            Ok(opened) => {
                report.connected(*ip);
                return Ok((opened, *ip));
            }
            Err(error) => {
                if !is_local(&error) {
                    report.failed(*ip);
                }
                failure = error;
            }
        }
    }
    Err(failure)
}

fn shares_of(addresses: usize) -> u32 {
    u32::try_from(addresses).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use socket2::{Domain, Socket, Type};

    use super::*;

    /// A listener whose queue is full: Linux drops further connection attempts.
    fn black_hole() -> (Socket, Vec<Socket>, SocketAddr) {
        let tcp = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = tcp();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let queued = std::iter::repeat_with(|| {
            let waiting = tcp();
            waiting.set_nonblocking(true).unwrap();
            // Stays in progress for those beyond the queue.
            let _ = waiting.connect(&address);
            waiting
        });
        let queued = queued.take(3).collect();
        (listener, queued, address.as_socket().unwrap())
    }

    #[test]
    fn what_this_machine_lacks_is_no_failure_of_an_address() {
        use nix::errno::Errno;
        for (lack, local, descriptors) in [
            (Errno::EMFILE, true, true),
            (Errno::ENFILE, true, true),
            (Errno::ENOMEM, true, false),
            (Errno::ENOBUFS, true, false),
            (Errno::EADDRNOTAVAIL, true, false),
            (Errno::ECONNREFUSED, false, false),
            (Errno::EHOSTUNREACH, false, false),
        ] {
            let error = io::Error::from_raw_os_error(lack as i32);
            assert_eq!(
                (is_local(&error), lacks_descriptors(&error)),
                (local, descriptors),
                "{lack}"
            );
        }
        assert!(!is_local(&io::ErrorKind::TimedOut.into()));
    }

    fn opening() -> Opening {
        let turns = Rc::default();
        Opening { own: OwnConnections::default(), ports: LocalPorts::default(), turns }
    }

    /// As [`connect_to_one_of`].
    async fn connect_to(
        ips: &[IpAddr],
        port: u16,
        log: &Log,
    ) -> io::Result<((TcpStream, LocalPort), IpAddr)> {
        let opening = opening();
        let run = connect_to_one_of(ips, port, 200, &opening, log);
        tokio::task::LocalSet::new().run_until(run).await
    }

    #[derive(Default)]
    struct Log(RefCell<Vec<String>>);

    impl Report for Log {
        fn failed(&self, ip: IpAddr) {
            self.0.borrow_mut().push(format!("failed {ip}"));
        }

        fn connected(&self, ip: IpAddr) {
            self.0.borrow_mut().push(format!("connected {ip}"));
        }
    }

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const TWO: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    #[tokio::test(flavor = "current_thread")]
    async fn the_next_address_is_tried_if_one_drops_packets() {
        let (_listener, _queued, hole) = black_hole();
        let log = Log::default();
        let good = tokio::net::TcpListener::bind((TWO, hole.port())).await.unwrap();
        let ((tcp, _port), ip) = connect_to(&[ONE, TWO], hole.port(), &log).await.unwrap();
        assert_eq!((tcp.peer_addr().unwrap(), ip), (good.local_addr().unwrap(), TWO));
        assert_eq!(*log.0.borrow(), ["failed 127.0.0.1", "connected 127.0.0.2"]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_last_failure_is_returned_if_no_address_accepts() {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = closed.local_addr().unwrap().port();
        drop(closed);
        let log = Log::default();
        let failure = connect_to(&[ONE, ONE], port, &log).await.unwrap_err();
        assert_eq!(failure.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(*log.0.borrow(), ["failed 127.0.0.1", "failed 127.0.0.1"]);
        let nothing = connect_to(&[], port, &log).await.unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::NotFound);
    }
}
