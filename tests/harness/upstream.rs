//! An upstream that can be made to misbehave.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use model::{Endpoint, Scheme};
use socket2::{Domain, SockRef, Type};

use crate::PATIENCE;
use crate::message::{Incoming, Request};
use crate::socket::{Identity, Socket};

/// An upstream on its own port.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    tls: Option<Identity>,
    role: Role,
}

#[derive(Debug)]
enum Role {
    /// The test accepts connections and responds.
    Manual(TcpListener),
    /// Threads do.
    Threaded(Server),
    /// The port is bound but not listening.
    Refusing { _held: socket2::Socket },
}

/// The bytes that an upstream sends after a request.
#[derive(Clone, Debug)]
pub struct CannedResponse {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Keep,
    Close,
}

impl CannedResponse {
    /// Exactly these bytes; the connection stays open.
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Self {
        Self { bytes: bytes.as_ref().to_vec(), then: Then::Keep }
    }

    /// 200 with `body` as text.
    #[must_use]
    pub fn ok(body: &str) -> Self {
        let len = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\n\r\n");
        Self::bytes(head + body)
    }

    /// Closes the connection afterwards.
    #[must_use]
    pub fn then_close(self) -> Self {
        Self { then: Then::Close, ..self }
    }
}

impl Upstream {
    /// An upstream whose connections the test accepts itself: [`Upstream::accept`].
    #[must_use]
    pub fn manual() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, tls: None, role: Role::Manual(listener) }
    }

    /// The same over TLS.
    #[must_use]
    pub fn manual_tls(identity: &Identity) -> Self {
        Self { tls: Some(identity.clone()), ..Self::manual() }
    }

    /// An upstream that responds to every request by `respond`, on its own threads.
    pub fn responding(
        response: impl Fn(&Request) -> CannedResponse + Send + Sync + 'static,
    ) -> Self {
        Self::served(None, Arc::new(response))
    }

    /// The same over TLS.
    pub fn responding_tls(
        identity: &Identity,
        response: impl Fn(&Request) -> CannedResponse + Send + Sync + 'static,
    ) -> Self {
        Self::served(Some(identity.clone()), Arc::new(response))
    }

    /// The same over TLS for clients with the certificate `client` only.
    pub fn responding_mutual_tls(
        identity: &Identity,
        client: &Identity,
        response: impl Fn(&Request) -> CannedResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server::on(listener, Some(identity.server_for(client)), Arc::new(response));
        let tls = Some(identity.clone());
        Self { address: server.address, tls, role: Role::Threaded(server) }
    }

    fn served(tls: Option<Identity>, response: Responder) -> Self {
        let server = Server::start(tls.as_ref().map(Identity::server), response);
        Self { address: server.address, tls, role: Role::Threaded(server) }
    }

    /// 200 with `body` for every request, at `address`.
    #[must_use]
    pub fn fixed_at(address: SocketAddr, body: &'static str) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let server = Server::on(listener, None, Arc::new(move |_| CannedResponse::ok(body)));
        Self { address: server.address, tls: None, role: Role::Threaded(server) }
    }

    /// 200 with the request's body.
    #[must_use]
    pub fn echo() -> Self {
        Self::responding(|request| CannedResponse::ok(&request.text()))
    }

    /// 200 with `body` for every request.
    #[must_use]
    pub fn fixed(body: &'static str) -> Self {
        Self::responding(move |_| CannedResponse::ok(body))
    }

    /// Every connection is refused.
    #[must_use]
    pub fn refusing() -> Self {
        let held = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = held.local_addr().unwrap().as_socket().unwrap();
        Self { address, tls: None, role: Role::Refusing { _held: held } }
    }

    /// The upstream's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The upstream as an endpoint of an API.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let (host, scheme) = match &self.tls {
            None => ("127.0.0.1", Scheme::Http),
            Some(_) => ("localhost", Scheme::Https),
        };
        Endpoint {
            scheme,
            host: host.to_owned(),
            port: self.address.port(),
            path: String::new(),
            authority: format!("{host}:{}", self.address.port()),
        }
    }

    /// The upstream's URL in a file.
    #[must_use]
    pub fn url(&self) -> String {
        let endpoint = self.endpoint();
        let scheme = if endpoint.scheme == Scheme::Http { "http" } else { "https" };
        format!("{scheme}://{}", endpoint.authority)
    }

    /// Accepts the next connection.
    #[track_caller]
    pub fn accept(&self) -> UpstreamConnection {
        let (tcp, _) = self.listener().accept().expect("the gateway connects");
        self.connection(tcp)
    }

    /// Accepts the next connection, unless `given_up` becomes true first.
    pub fn accept_or(&self, mut given_up: impl FnMut() -> bool) -> Option<UpstreamConnection> {
        self.listener().set_nonblocking(true).unwrap();
        let found = loop {
            match self.listener().accept() {
                Ok((tcp, _)) => break Some(tcp),
                Err(_) if given_up() => break None,
                Err(_) => thread::yield_now(),
            }
        };
        self.listener().set_nonblocking(false).unwrap();
        found.map(|tcp| self.connection(tcp))
    }

    fn listener(&self) -> &TcpListener {
        match &self.role {
            Role::Manual(listener) => listener,
            Role::Threaded(_) | Role::Refusing { .. } => panic!("not a manual upstream"),
        }
    }

    fn connection(&self, tcp: TcpStream) -> UpstreamConnection {
        tcp.set_nonblocking(false).unwrap();
        let socket = Socket::clear(tcp);
        UpstreamConnection(Incoming::new(match &self.tls {
            None => socket,
            Some(identity) => socket.tls_server(identity.server()),
        }))
    }

    /// Whether no connection waits to be accepted.
    #[must_use]
    pub fn has_no_connection(&self) -> bool {
        self.accept_or(|| true).is_none()
    }

    /// Requests received so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        let Role::Threaded(server) = &self.role else { panic!("a manual upstream") };
        server.seen.lock().unwrap().requests.clone()
    }

    /// Connections accepted so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        let Role::Threaded(server) = &self.role else { panic!("a manual upstream") };
        server.seen.lock().unwrap().connections
    }

    /// All requests received. To be called after the gateway has stopped: waits until every connection has ended.
    #[must_use]
    pub fn finish(mut self) -> Vec<Request> {
        let Role::Threaded(server) = &mut self.role else { panic!("a manual upstream") };
        server.join();
        self.requests()
    }
}

/// One connection from the gateway to a manual upstream.
#[derive(Debug)]
pub struct UpstreamConnection(Incoming);

impl UpstreamConnection {
    /// Reads a whole request.
    #[track_caller]
    pub fn request(&mut self) -> Request {
        self.0.request().expect("a request, not the end of the connection")
    }

    /// Reads a request's head and leaves its body unread.
    #[track_caller]
    pub fn request_head(&mut self) -> String {
        self.0.request_head().expect("a request, not the end of the connection").0
    }

    /// Reads `count` bytes as they are.
    pub fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        let bytes = self.0.exactly(count);
        assert_eq!(bytes.len(), count, "the gateway closed after {bytes:?}");
        bytes
    }

    /// Reads `bytes` of a body and drops them as they come.
    pub fn skip(&mut self, bytes: u64) {
        self.0.skip(bytes);
    }

    /// Everything until the gateway closes.
    pub fn read_until_close(&mut self) -> String {
        String::from_utf8_lossy(&self.0.rest()).into_owned()
    }

    /// The gateway closes without sending another byte.
    #[track_caller]
    pub fn expect_close(&mut self) {
        assert_eq!(self.read_until_close(), "", "expected the end of the connection");
    }

    /// Expects the gateway to reset the connection, perhaps after some bytes.
    #[track_caller]
    pub fn expect_reset(&mut self) {
        let rest = self.read_until_close();
        assert!(self.0.socket.is_broken(), "closed in order after {rest:?}");
    }

    /// The gateway closes in order, without sending another byte.
    #[track_caller]
    pub fn expect_end(&mut self) {
        self.expect_close();
        assert!(!self.0.socket.is_broken(), "reset");
    }

    /// The gateway's address.
    pub fn peer(&self) -> SocketAddr {
        self.0.socket.handle().peer_addr().unwrap()
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.socket.write_all(bytes.as_ref()).expect("the gateway reads");
        self
    }

    /// Sends `bytes` as far as the gateway reads them.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _ = self.0.socket.write_all(bytes.as_ref());
        self
    }

    /// 200 with `body`.
    pub fn ok(&mut self, body: &str) -> &mut Self {
        self.send(CannedResponse::ok(body).bytes)
    }

    /// Closes the sending side.
    pub fn half_close(&mut self) -> &mut Self {
        self.0.socket.half_close();
        self
    }

    /// Closes.
    pub fn close(self) {}

    /// Closes with a reset.
    pub fn reset(self) {
        self.0.socket.reset();
    }
}

type Responder = Arc<dyn Fn(&Request) -> CannedResponse + Send + Sync>;

/// The threads of an upstream that responds by a function.
#[derive(Debug)]
struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
    ending: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    connections: usize,
    requests: Vec<Request>,
    open: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    fn start(tls: Option<Arc<rustls::ServerConfig>>, response: Responder) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), tls, response)
    }

    fn on(
        listener: TcpListener,
        tls: Option<Arc<rustls::ServerConfig>>,
        response: Responder,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let (seen, ending) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let (all, end) = (Arc::clone(&seen), Arc::clone(&ending));
        let accepting = thread::spawn(move || {
            while let Ok((tcp, _)) = listener.accept() {
                if end.load(Ordering::Acquire) {
                    return;
                }
                let socket = Socket::clear(tcp);
                let open = socket.handle();
                let socket = match &tls {
                    None => socket,
                    Some(config) => socket.tls_server(Arc::clone(config)),
                };
                let (seen, response) = (Arc::clone(&all), Arc::clone(&response));
                // Counted before the response, so that a test never sees an uncounted one.
                let mut all = all.lock().unwrap();
                all.connections += 1;
                all.open.push(open);
                all.threads.push(thread::spawn(move || {
                    serve(Incoming::new(socket), &seen, &response);
                }));
            }
        });
        Self { address, seen, ending, accepting: Some(accepting) }
    }

    /// Waits for all connections to end.
    fn join(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.ending.store(true, Ordering::Release);
        // Wakes the accepting thread, after all connections in the backlog.
        let _ = TcpStream::connect(self.address);
        accepting.join().unwrap();
        let threads = std::mem::take(&mut self.seen.lock().unwrap().threads);
        for thread in threads {
            thread.join().expect("the gateway sends valid requests");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        for open in &self.seen.lock().unwrap().open {
            // It may have ended already.
            let _ = open.shutdown(Shutdown::Both);
        }
        self.join();
    }
}

fn serve(mut incoming: Incoming, seen: &Mutex<Seen>, response: &Responder) {
    let _ending = Ending(incoming.socket.handle());
    while let Some(request) = incoming.request() {
        let response = response(&request);
        seen.lock().unwrap().requests.push(request);
        // The gateway closes if its client has left.
        let sent = incoming.socket.write_all(&response.bytes).is_ok();
        if !sent || response.then == Then::Close {
            break;
        }
    }
    incoming.socket.half_close();
}

/// Closes a connection even if its thread panics: dropping the socket is not enough, since there is a second handle.
struct Ending(TcpStream);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
