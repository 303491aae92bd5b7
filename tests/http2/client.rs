//! An HTTP/2 client, built on the h2 crate. It runs on its own thread, so that a test can play the upstream
//! meanwhile.

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

/// Waits for `future`; a hang fails the test.
#[track_caller]
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    RUNTIME
        .block_on(async { tokio::time::timeout(PATIENCE, future).await })
        .expect("an event within PATIENCE")
}

/// One connection to the gateway.
pub(crate) struct Http2Client {
    streams: SendRequest<Bytes>,
    ended: JoinHandle<Result<(), h2::Error>>,
    scheme: &'static str,
}

/// An open stream.
pub(crate) struct Stream {
    pub(crate) up: SendStream<Bytes>,
    pub(crate) response: ResponseFuture,
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
}

/// A response whose body has not been read.
pub(crate) struct StreamingResponse {
    pub(crate) status: u16,
    pub(crate) fields: HeaderMap,
    pub(crate) down: RecvStream,
}

impl Http2Client {
    /// In clear, by prior knowledge.
    pub(crate) fn connect(gateway: &Gateway) -> Self {
        Self::connect_to(gateway.http())
    }

    /// In clear, with windows of `bytes`.
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

    /// Over TLS, selected by ALPN.
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
        // The connection window covers the bytes that tests leave unread on some streams.
        let (streams, connection) = h2::client::Builder::new()
            .initial_connection_window_size(16 << 20)
            .handshake(stream)
            .await
            .unwrap();
        Self { streams, ended: RUNTIME.spawn(connection), scheme }
    }

    /// Opens a stream with a head, the body to follow: `open("POST /a", &[("te", "trailers")])`.
    pub(crate) fn open(&self, request: &str, fields: &[(&str, &str)]) -> Stream {
        self.start(self.request(request, fields), false).expect("the gateway accepts new streams")
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

    pub(crate) fn start(&self, request: Request<()>, is_all: bool) -> Result<Stream, h2::Error> {
        let streams = self.streams.clone();
        let mut streams = wait(streams.ready())?;
        let (response, up) = streams.send_request(request, is_all)?;
        Ok(Stream { up, response })
    }

    /// A request without a body, and its response.
    #[track_caller]
    pub(crate) fn fetch(&self, request: &str, fields: &[(&str, &str)]) -> Response {
        self.start(self.request(request, fields), true).unwrap().response()
    }

    /// A request with a body, and its response.
    #[track_caller]
    pub(crate) fn fetch_with_body(
        &self,
        request: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut stream = self.open(request, fields);
        stream.send(body).end();
        stream.response()
    }

    /// Drops the connection.
    pub(crate) fn abort(&self) {
        self.ended.abort();
    }

    /// Waits for the end of the connection; returns the reason, if any.
    pub(crate) fn ended(self) -> Option<Reason> {
        drop(self.streams);
        wait(self.ended).unwrap().err().and_then(|error| error.reason())
    }
}

impl Stream {
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

    /// Waits for the response head.
    #[track_caller]
    pub(crate) fn head(self) -> StreamingResponse {
        wait(self.try_head()).unwrap()
    }

    async fn try_head(self) -> Result<StreamingResponse, h2::Error> {
        let (parts, down) = self.response.await?.into_parts();
        Ok(StreamingResponse { status: parts.status.as_u16(), fields: parts.headers, down })
    }

    /// Waits for the whole response.
    #[track_caller]
    pub(crate) fn response(self) -> Response {
        wait(self.try_response()).unwrap()
    }

    /// The reason for a failed response.
    #[track_caller]
    pub(crate) fn failure(self) -> Option<Reason> {
        wait(self.try_response()).expect_err("the response is not whole").reason()
    }

    /// The status of a whole response, or the error. A response that is not read to its end is reset, and a client that
    /// resets many streams is cut off.
    pub(crate) fn try_status(self) -> Result<u16, h2::Error> {
        wait(self.try_response()).map(|response| response.status)
    }

    async fn try_response(self) -> Result<Response, h2::Error> {
        // Dropping the sending half before its end would reset the stream.
        let Self { up, response } = self;
        let (parts, down) = response.await?.into_parts();
        let response =
            StreamingResponse { status: parts.status.as_u16(), fields: parts.headers, down };
        let response = response.try_rest().await;
        drop(up);
        response
    }
}

impl StreamingResponse {
    /// The rest of the response.
    #[track_caller]
    pub(crate) fn rest(self) -> Response {
        wait(self.try_rest()).unwrap()
    }

    async fn try_rest(mut self) -> Result<Response, h2::Error> {
        let mut body = Vec::new();
        while let Some(piece) = next(&mut self.down).await {
            body.extend_from_slice(&piece?);
        }
        let trailers = self.down.trailers().await?;
        Ok(Response { status: self.status, fields: self.fields, body, trailers })
    }
}

/// The next piece of a body; releases its flow-control capacity.
pub(crate) async fn next(down: &mut RecvStream) -> Option<Result<Bytes, h2::Error>> {
    let piece = poll_fn(|cx| down.poll_data(cx)).await?;
    if let Ok(piece) = &piece {
        down.flow_control().release_capacity(piece.len()).unwrap();
    }
    Some(piece)
}

/// Sends `piece` as the window allows.
pub(crate) async fn send_all(up: &mut SendStream<Bytes>, mut piece: Bytes) {
    while !piece.is_empty() {
        up.reserve_capacity(piece.len());
        let room = poll_fn(|cx| up.poll_capacity(cx)).await.expect("an open stream").unwrap();
        up.send_data(piece.split_to(room.min(piece.len())), false).unwrap();
    }
}

impl Response {
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
