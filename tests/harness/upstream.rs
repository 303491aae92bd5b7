//! A backend that misbehaves on demand.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use model::{Endpoint, Scheme};
use socket2::{Domain, SockRef, Type};

use crate::PATIENCE;
use crate::message::{Incoming, Request};
use crate::socket::{Identity, Socket};

/// A backend on a port of its own.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
    tls: Option<Identity>,
    role: Role,
}

#[derive(Debug)]
enum Role {
    /// The test accepts and answers.
    ByHand(TcpListener),
    /// Threads do.
    Answering(Server),
    /// The port is bound and nobody listens.
    Refusing { _held: socket2::Socket },
}

/// What a backend does after a request.
#[derive(Clone, Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Keep,
    Close,
}

impl Answer {
    /// Exactly these bytes; the connection stays.
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

    /// The same, and then the end of the connection.
    #[must_use]
    pub fn then_close(self) -> Self {
        Self { then: Then::Close, ..self }
    }
}

impl Upstream {
    /// A backend that the test plays by itself: [`Upstream::accept`].
    #[must_use]
    pub fn by_hand() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        SockRef::from(&listener).set_read_timeout(Some(PATIENCE)).unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, tls: None, role: Role::ByHand(listener) }
    }

    /// The same over TLS.
    #[must_use]
    pub fn by_hand_tls(identity: &Identity) -> Self {
        Self { tls: Some(identity.clone()), ..Self::by_hand() }
    }

    /// A backend that answers every request by `answer`, on threads of its own.
    pub fn answering(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::served(None, Arc::new(answer))
    }

    /// The same over TLS.
    pub fn answering_tls(
        identity: &Identity,
        answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::served(Some(identity.clone()), Arc::new(answer))
    }

    fn served(tls: Option<Identity>, answer: Answering) -> Self {
        let server = Server::start(tls.clone(), answer);
        Self { address: server.address, tls, role: Role::Answering(server) }
    }

    /// 200 with the request's body.
    #[must_use]
    pub fn echo() -> Self {
        Self::answering(|request| Answer::ok(&request.text()))
    }

    /// 200 with `body`, whatever is asked.
    #[must_use]
    pub fn saying(body: &'static str) -> Self {
        Self::answering(move |_| Answer::ok(body))
    }

    /// Every connection is refused.
    #[must_use]
    pub fn refusing() -> Self {
        let held = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = held.local_addr().unwrap().as_socket().unwrap();
        Self { address, tls: None, role: Role::Refusing { _held: held } }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// As an API names it.
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

    /// As a configuration file names it.
    #[must_use]
    pub fn url(&self) -> String {
        let endpoint = self.endpoint();
        let scheme = if endpoint.scheme == Scheme::Http { "http" } else { "https" };
        format!("{scheme}://{}", endpoint.authority)
    }

    /// Takes the next connection, played by hand.
    #[track_caller]
    pub fn accept(&self) -> Visit {
        let (tcp, _) = self.listener().accept().expect("the gateway connects");
        self.visit(tcp)
    }

    /// Takes the next connection, unless `given_up` comes first.
    pub fn accept_or(&self, mut given_up: impl FnMut() -> bool) -> Option<Visit> {
        self.listener().set_nonblocking(true).unwrap();
        let found = loop {
            match self.listener().accept() {
                Ok((tcp, _)) => break Some(tcp),
                Err(_) if given_up() => break None,
                Err(_) => thread::yield_now(),
            }
        };
        self.listener().set_nonblocking(false).unwrap();
        found.map(|tcp| self.visit(tcp))
    }

    fn listener(&self) -> &TcpListener {
        match &self.role {
            Role::ByHand(listener) => listener,
            Role::Answering(_) | Role::Refusing { .. } => panic!("it is not played by hand"),
        }
    }

    fn visit(&self, tcp: TcpStream) -> Visit {
        tcp.set_nonblocking(false).unwrap();
        let socket = Socket::clear(tcp);
        Visit(Incoming::new(match &self.tls {
            None => socket,
            Some(identity) => socket.tls_server(identity.server()),
        }))
    }

    /// Whether nobody waits to be accepted.
    #[must_use]
    pub fn is_left_alone(&self) -> bool {
        self.accept_or(|| true).is_none()
    }

    /// Requests that were answered by function so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        let Role::Answering(server) = &self.role else { panic!("it is played by hand") };
        server.seen.lock().unwrap().requests.clone()
    }

    /// Connections that were taken so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        let Role::Answering(server) = &self.role else { panic!("it is played by hand") };
        server.seen.lock().unwrap().connections
    }

    /// All requests that ever arrived. To be called when the gateway has ended: it waits until every
    /// connection has.
    #[must_use]
    pub fn finish(mut self) -> Vec<Request> {
        let Role::Answering(server) = &mut self.role else { panic!("it is played by hand") };
        server.join();
        self.requests()
    }
}

/// One connection from the gateway, played by hand.
#[derive(Debug)]
pub struct Visit(Incoming);

impl Visit {
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

    /// The gateway closes, and says nothing before that.
    #[track_caller]
    pub fn expect_close(&mut self) {
        assert_eq!(self.read_until_close(), "", "nothing but the end was expected");
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.socket.write_all(bytes.as_ref()).expect("the gateway reads");
        self
    }

    /// Sends what the gateway takes of `bytes`.
    pub fn offer(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let _ = self.0.socket.write_all(bytes.as_ref());
        self
    }

    /// 200 with `body`.
    pub fn ok(&mut self, body: &str) -> &mut Self {
        self.send(Answer::ok(body).bytes)
    }

    /// Sends no more; still reads.
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

type Answering = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// The threads of a backend that answers by function.
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
    fn start(tls: Option<Identity>, answer: Answering) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, ending) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let (all, end) = (Arc::clone(&seen), Arc::clone(&ending));
        let accepting = thread::spawn(move || {
            let tls = tls.map(|identity| identity.server());
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
                let (seen, answer) = (Arc::clone(&all), Arc::clone(&answer));
                // Counted before it is answered, so that a test never sees an answer from nowhere.
                let mut all = all.lock().unwrap();
                all.connections += 1;
                all.open.push(open);
                all.threads.push(thread::spawn(move || {
                    serve(Incoming::new(socket), &seen, &answer);
                }));
            }
        });
        Self { address, seen, ending, accepting: Some(accepting) }
    }

    /// Waits for all connections to end.
    fn join(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.ending.store(true, Ordering::Release);
        // Wakes the accepting thread, behind all that waits before it.
        let _ = TcpStream::connect(self.address);
        accepting.join().unwrap();
        let threads = std::mem::take(&mut self.seen.lock().unwrap().threads);
        for thread in threads {
            thread.join().expect("the gateway speaks HTTP to its backends");
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

fn serve(mut incoming: Incoming, seen: &Mutex<Seen>, answer: &Answering) {
    let _ending = Ending(incoming.socket.handle());
    while let Some(request) = incoming.request() {
        let answer = answer(&request);
        seen.lock().unwrap().requests.push(request);
        // The gateway may have left, for its caller did.
        let taken = incoming.socket.write_all(&answer.bytes).is_ok();
        if !taken || answer.then == Then::Close {
            break;
        }
    }
    incoming.socket.half_close();
}

/// Ends a connection even when its thread panics: a second handle is kept, so dropping the socket
/// alone would not.
struct Ending(TcpStream);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
