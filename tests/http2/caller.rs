//! A caller that speaks HTTP/2, by the h2 crate's client. Its frames move on a thread of their own, so
//! that a test can play the backend meanwhile.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use harness::{Gateway, PATIENCE};
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

static RUNTIME: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
});

/// The outcome of `future`; a hang is a failed test.
#[track_caller]
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    RUNTIME
        .block_on(async { tokio::time::timeout(PATIENCE, future).await })
        .expect("it happens in time")
}

/// One connection to the gateway.
pub(crate) struct Caller {
    streams: SendRequest<Bytes>,
    ended: JoinHandle<Result<(), h2::Error>>,
    scheme: &'static str,
}

/// A request under way.
pub(crate) struct Exchange {
    pub(crate) up: SendStream<Bytes>,
    pub(crate) response: ResponseFuture,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

/// An answer whose body is still to be read.
pub(crate) struct Begun {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) down: RecvStream,
}

impl Caller {
    /// In clear, by prior knowledge.
    pub(crate) fn connect(gateway: &Gateway) -> Self {
        Self::connect_to(gateway.http())
    }

    /// In clear; no window of its own ever holds the gateway up.
    pub(crate) fn connect_with_windows(gateway: &Gateway, bytes: u32) -> Self {
        wait(async {
            let tcp = TcpStream::connect(gateway.http()).await.unwrap();
            let (streams, connection) = h2::client::Builder::new()
                .initial_window_size(bytes)
                .initial_connection_window_size(bytes)
                .handshake(tcp)
                .await
                .unwrap();
            Self { streams, ended: RUNTIME.spawn(connection), scheme: "http" }
        })
    }

    pub(crate) fn connect_to(address: SocketAddr) -> Self {
        wait(async {
            let tcp = TcpStream::connect(address).await.unwrap();
            Self::over(tcp, "http").await
        })
    }

    /// Over TLS, agreed on by ALPN.
    pub(crate) fn connect_tls(gateway: &Gateway) -> Self {
        let config = gateway.identity().client(&["h2", "http/1.1"]);
        wait(async {
            let tcp = TcpStream::connect(gateway.https()).await.unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let tls = tokio_rustls::TlsConnector::from(Arc::clone(&config))
                .connect(name, tcp)
                .await
                .unwrap();
            assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            Self::over(tls, "https").await
        })
    }

    async fn over<S>(stream: S, scheme: &'static str) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The connection's window holds what tests leave unread on some of its streams.
        let (streams, connection) = h2::client::Builder::new()
            .initial_connection_window_size(16 << 20)
            .handshake(stream)
            .await
            .unwrap();
        Self { streams, ended: RUNTIME.spawn(connection), scheme }
    }

    /// Opens a stream with a head, the body to follow: `open("POST /a", &[("te", "trailers")])`.
    pub(crate) fn open(&self, request: &str, fields: &[(&str, &str)]) -> Exchange {
        self.start(self.request(request, fields), false).expect("the gateway takes new streams")
    }

    pub(crate) fn request(&self, request: &str, fields: &[(&str, &str)]) -> Request<()> {
        let (method, path) = request.split_once(' ').expect("METHOD PATH");
        let mut head =
            Request::builder().method(method).uri(format!("{}://gateway{path}", self.scheme));
        for (name, value) in fields {
            head = head.header(*name, *value);
        }
        head.body(()).unwrap()
    }

    pub(crate) fn start(&self, request: Request<()>, is_all: bool) -> Result<Exchange, h2::Error> {
        let streams = self.streams.clone();
        let mut streams = wait(streams.ready())?;
        let (response, up) = streams.send_request(request, is_all)?;
        Ok(Exchange { up, response })
    }

    /// A request without a body, and its answer.
    #[track_caller]
    pub(crate) fn ask(&self, request: &str, fields: &[(&str, &str)]) -> Answer {
        self.start(self.request(request, fields), true).unwrap().answer()
    }

    /// A request with a body, and its answer.
    #[track_caller]
    pub(crate) fn ask_with(&self, request: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut exchange = self.open(request, fields);
        exchange.send(body).end();
        exchange.answer()
    }

    /// Breaks the connection off.
    pub(crate) fn abort(&self) {
        self.ended.abort();
    }

    /// Waits for the connection's end: none, or the reason.
    pub(crate) fn ended(self) -> Option<Reason> {
        drop(self.streams);
        wait(self.ended).unwrap().err().and_then(|error| error.reason())
    }
}

impl Exchange {
    /// Sends a piece of the body, which fits the window.
    pub(crate) fn send(&mut self, piece: &str) -> &mut Self {
        self.up.send_data(Bytes::copy_from_slice(piece.as_bytes()), false).unwrap();
        self
    }

    /// Ends the body.
    pub(crate) fn end(&mut self) {
        self.up.send_data(Bytes::new(), true).unwrap();
    }

    /// Ends the body with a trailer.
    pub(crate) fn end_with(&mut self, name: &'static str, value: &'static str) {
        let mut trailers = HeaderMap::new();
        trailers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self.up.send_trailers(trailers).unwrap();
    }

    /// Waits for the head of the answer.
    #[track_caller]
    pub(crate) fn begun(self) -> Begun {
        wait(self.try_begun()).unwrap()
    }

    async fn try_begun(self) -> Result<Begun, h2::Error> {
        let (parts, down) = self.response.await?.into_parts();
        Ok(Begun { status: parts.status.as_u16(), fields: parts.headers, down })
    }

    /// Waits for all of the answer.
    #[track_caller]
    pub(crate) fn answer(self) -> Answer {
        wait(self.try_answer()).unwrap()
    }

    /// Why there is no whole answer.
    #[track_caller]
    pub(crate) fn failure(self) -> Option<Reason> {
        wait(self.try_answer()).expect_err("the answer is not whole").reason()
    }

    /// The status of the answer, or why there is none.
    pub(crate) fn try_status(self) -> Result<u16, h2::Error> {
        wait(self.try_begun()).map(|begun| begun.status)
    }

    async fn try_answer(self) -> Result<Answer, h2::Error> {
        // The upload's half must live: dropped before its end, it resets the stream.
        let Self { up, response } = self;
        let (parts, down) = response.await?.into_parts();
        let begun = Begun { status: parts.status.as_u16(), fields: parts.headers, down };
        let answer = begun.try_rest().await;
        drop(up);
        answer
    }
}

impl Begun {
    /// All that is left.
    #[track_caller]
    pub(crate) fn rest(self) -> Answer {
        wait(self.try_rest()).unwrap()
    }

    async fn try_rest(mut self) -> Result<Answer, h2::Error> {
        let mut body = Vec::new();
        while let Some(piece) = next(&mut self.down).await {
            body.extend_from_slice(&piece?);
        }
        let trailers = self.down.trailers().await?;
        Ok(Answer { status: self.status, fields: self.fields, body, trailers })
    }
}

/// The next piece of a body; what was read is given back to its window.
pub(crate) async fn next(down: &mut RecvStream) -> Option<Result<Bytes, h2::Error>> {
    let piece = poll_fn(|cx| down.poll_data(cx)).await?;
    if let Ok(piece) = &piece {
        down.flow_control().release_capacity(piece.len()).unwrap();
    }
    Some(piece)
}

/// Sends `piece` at the pace of the window.
pub(crate) async fn send_all(up: &mut SendStream<Bytes>, mut piece: Bytes) {
    while !piece.is_empty() {
        up.reserve_capacity(piece.len());
        let room = poll_fn(|cx| up.poll_capacity(cx)).await.expect("an open stream").unwrap();
        up.send_data(piece.split_to(room.min(piece.len())), false).unwrap();
    }
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        self.trailers.as_ref()?.get(name).map(|value| value.to_str().unwrap())
    }
}
