use std::net::SocketAddr;
use std::sync::Arc;

use base::limits;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{converted, parsed};
use crate::h2::*;
use crate::http1::{Parsed, RequestHead};
use crate::stream::Stream;
use crate::tls::{self, CertificateSet, ServerCertificates};

/// A listener on a free port.
async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Accepts a connection, reads the preface and performs the HTTP/2 handshake.
async fn serve_clear(listener: &TcpListener) -> Connection {
    let (mut tcp, _) = listener.accept().await.unwrap();
    let mut read = BytesMut::new();
    while match_preface(&read) == PrefaceMatch::Partial {
        assert_ne!(tcp.read_buf(&mut read).await.unwrap(), 0, "closed before the preface");
    }
    assert_eq!(match_preface(&read), PrefaceMatch::Yes);
    Connection::handshake(Stream::Clear(tcp), read.freeze()).await.unwrap()
}

/// Responds to every request of `connection` with its own body and trailers.
async fn echo_all(mut connection: Connection) -> Result<(), Error> {
    while let Some(accepted) = connection.accept().await {
        let (parts, body, respond) = accepted?;
        tokio::spawn(echo(parts, Incoming::new(body), respond));
    }
    Ok(())
}

async fn echo(parts: Parts, mut body: Incoming, mut respond: SendResponse<Bytes>) {
    let mut buf = Vec::new();
    head_bytes(&mut buf, &parts, body.is_end()).unwrap();
    let mut request = RequestHead::default();
    assert_eq!(request.parse(&buf), Ok(Parsed::Complete));
    let target = String::from_utf8(request.path(&buf).to_vec()).unwrap();
    let (head, bytes) = parsed(&format!("HTTP/1.1 200 OK\nX-Path: {target}\n\n"));
    let response = converted(&head, &bytes).unwrap();
    let mut out = Outgoing::new(respond.send_response(response, false).unwrap());
    if target == "/cut" {
        out.write(Bytes::from_static(b"half")).await.unwrap();
        return;
    }
    while let Some(piece) = body.next().await {
        out.write(piece.unwrap()).await.unwrap();
    }
    match body.trailers().await.unwrap() {
        Some(trailers) => out.trailers(trailers).unwrap(),
        None => out.finish().unwrap(),
    }
}

type Client = ::h2::client::SendRequest<Bytes>;

/// An HTTP/2 client over `stream`; its connection is driven by a task.
async fn client_over<S>(stream: S) -> Client
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = ::h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Sends `body` to `path`, with trailers if given, and reads the echo: body and trailers.
async fn exchange(
    client: &Client,
    path: &str,
    body: Bytes,
    trailers: Option<HeaderMap>,
) -> Result<(http::response::Parts, Vec<u8>, Option<HeaderMap>), Error> {
    let mut client = client.clone().ready().await?;
    let uri = format!("http://a.test{path}");
    let request = Request::builder().method("POST").uri(uri).body(()).unwrap();
    let (response, stream) = client.send_request(request, false)?;
    let upload = async {
        let mut out = Outgoing::new(stream);
        out.write(body).await?;
        match trailers {
            Some(trailers) => out.trailers(trailers),
            None => out.finish(),
        }
    };
    let download = async {
        let (parts, body) = response.await?.into_parts();
        let mut body = Incoming::new(body);
        let mut got = Vec::new();
        while let Some(piece) = body.next().await {
            got.extend_from_slice(&piece?);
        }
        let trailers = body.trailers().await?;
        Ok((parts, got, trailers))
    };
    let (_, response) = tokio::join!(upload, download);
    response
}

#[tokio::test]
async fn a_client_with_prior_knowledge_exchanges_bodies_and_trailers_of_any_size() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move { echo_all(serve_clear(&listener).await).await });
    let client = client_over(TcpStream::connect(address).await.unwrap()).await;

    let window_bytes = limits::H2_CONNECTION_WINDOW_BYTES as usize;
    for bytes in [0, 1, 100_000, 3 * window_bytes + 17] {
        let body = (0..=250).cycle().take(bytes).collect::<Bytes>();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let (parts, got, back) =
            exchange(&client, "/a/../b", body.clone(), Some(trailers.clone())).await.unwrap();
        assert_eq!(parts.headers["x-path"], "/b", "the head passed the HTTP/1.1 parser");
        assert!(got == body, "{bytes} bytes were changed");
        assert_eq!(back, Some(trailers));
    }
    drop(client);
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn many_streams_share_a_connection() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move { echo_all(serve_clear(&listener).await).await });
    let client = client_over(TcpStream::connect(address).await.unwrap()).await;
    let calls = (0..2 * limits::H2_STREAMS_MAX).map(|call| {
        let client = client.clone();
        let body = Bytes::from(call.to_string().repeat(1_000));
        tokio::spawn(async move {
            let (_, got, _) = exchange(&client, "/", body.clone(), None).await.unwrap();
            assert!(got == body, "call {call} got the response to another one");
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    drop(client);
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn unread_uploads_are_limited_by_the_connection_window() {
    const STREAMS: usize = 8;
    let window_bytes = limits::H2_CONNECTION_WINDOW_BYTES as usize;
    let stream_bytes = limits::H2_STREAM_WINDOW_BYTES as usize;
    assert!(STREAMS * stream_bytes > window_bytes, "the streams' windows alone would allow more");
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let mut connection = serve_clear(&listener).await;
        let mut unread = Vec::new();
        while let Some(Ok(accepted)) = connection.accept().await {
            unread.push(accepted);
        }
    });
    let client = client_over(TcpStream::connect(address).await.unwrap()).await;
    let mut uploads = Vec::new();
    for _ in 0..STREAMS {
        let request = Request::post("http://a.test/").body(()).unwrap();
        let mut client = client.clone().ready().await.unwrap();
        let (response, mut upload) = client.send_request(request, false).unwrap();
        upload.reserve_capacity(stream_bytes);
        uploads.push((response, upload));
    }
    let mut sent = 0;
    // Each stream sends as it gets capacity; the sum is never more than the connection's window.
    while sent < window_bytes {
        let room = std::future::poll_fn(|cx| {
            let ready = uploads.iter_mut().find_map(|(_, upload)| match upload.poll_capacity(cx) {
                std::task::Poll::Ready(room) => {
                    let room = room.unwrap().unwrap();
                    upload.send_data(Bytes::from(vec![b'x'; room]), false).unwrap();
                    Some(room)
                }
                std::task::Poll::Pending => None,
            });
            ready.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        });
        sent += room.await;
    }
    assert_eq!(sent, window_bytes);
    for (_, upload) in &uploads {
        assert_eq!(upload.capacity(), 0, "no stream may send more");
    }
    server.abort();
}

#[tokio::test]
async fn a_truncated_response_is_reset_and_the_connection_stays_open() {
    let (listener, address) = listen().await;
    tokio::spawn(async move { echo_all(serve_clear(&listener).await).await });
    let client = client_over(TcpStream::connect(address).await.unwrap()).await;
    let error = exchange(&client, "/cut", Bytes::new(), None).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::INTERNAL_ERROR));
    exchange(&client, "/whole", Bytes::from_static(b"x"), None).await.unwrap();
}

#[tokio::test]
async fn a_graceful_shutdown_serves_open_streams_and_then_ends() {
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let mut connection = serve_clear(&listener).await;
        let (parts, body, respond) = connection.accept().await.unwrap().unwrap();
        assert!(!connection.is_idle());
        connection.graceful_shutdown();
        tokio::spawn(echo(parts, Incoming::new(body), respond));
        assert!(connection.accept().await.is_none());
    });
    let client = client_over(TcpStream::connect(address).await.unwrap()).await;
    let (_, got, _) = exchange(&client, "/", Bytes::from_static(b"last"), None).await.unwrap();
    assert_eq!(got, b"last");
    server.await.unwrap();
}

#[tokio::test]
async fn the_handshake_leads_to_http_2_over_tls() {
    let now_s = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let (cert, key) = tls::generate_self_signed(&["a.test"], now_s).unwrap();
    let set = CertificateSet::load(Some((cert.as_bytes(), key.as_bytes())), Vec::new()).unwrap();
    let config = tls::server_config(Arc::new(ServerCertificates::new(set)), true);
    let (listener, address) = listen().await;
    let server = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let stream = tls::accept(tcp, config).await.unwrap();
        assert_eq!(stream.alpn(), Some(tls::ALPN_H2));
        echo_all(Connection::handshake(stream, Bytes::new()).await.unwrap()).await
    });

    let tcp = TcpStream::connect(address).await.unwrap();
    let stream = tls::tests::connect_offering_h2(cert.as_bytes(), tcp, "a.test").await;
    let client = client_over(stream).await;
    let (_, got, _) = exchange(&client, "/", Bytes::from_static(b"secret"), None).await.unwrap();
    assert_eq!(got, b"secret");
    drop(client);
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_head_above_the_limit_is_rejected_with_431() {
    let (listener, address) = listen().await;
    tokio::spawn(async move { echo_all(serve_clear(&listener).await).await });
    let client = client_over(TcpStream::connect(address).await.unwrap()).await;
    let long = "v".repeat(limits::HEAD_BYTES_MAX as usize);
    let request = Request::get("http://a.test/").header("x-long", long).body(()).unwrap();
    let (response, _) = client.ready().await.unwrap().send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status(), 431);
}

// Frame types and flags. Source: RFC 9113 section 6.
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const END_HEADERS: u8 = 0x4;
const END_STREAM_AND_HEADERS: u8 = 0x5;

/// A serialised frame. Source: RFC 9113 section 4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[tokio::test]
async fn a_client_that_only_opens_and_resets_streams_is_disconnected() {
    // :method GET, :scheme http, :path / from the static table, :authority a. RFC 7541 appendix A.
    const HEAD: &[u8] = &[0x82, 0x86, 0x84, 0x41, 0x01, b'a'];
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for stream in (1..).step_by(2).take(2 * limits::H2_PENDING_RESETS_MAX) {
        bytes.extend(frame(HEADERS, END_STREAM_AND_HEADERS, stream, HEAD));
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    let (listener, address) = listen().await;
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(&bytes).await.unwrap();
    let mut connection = serve_clear(&listener).await;
    let error = loop {
        match connection.accept().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
            None => panic!("the connection ended without an error"),
        }
    };
    assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM));
}

/// A field block without indexing or Huffman coding. Source: RFC 7541 section 6.2.2.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let string = |text: &str| {
        let length = u8::try_from(text.len()).unwrap();
        assert!(length < 0x7f, "longer ones take more than one byte of length");
        [&[length], text.as_bytes()].concat()
    };
    let field = |&(name, value): &(&str, &str)| [vec![0], string(name), string(value)].concat();
    fields.iter().flat_map(field).collect()
}

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "http");
const PATH: (&str, &str) = (":path", "/p");
const HOST: (&str, &str) = (":authority", "a.test");
const GOOD: &[(&str, &str)] = &[METHOD, SCHEME, HOST, (":path", "/good")];

/// Sends `frames`, then a valid request to `/good` on stream 3.
async fn connect_and_send(frames: &[Vec<u8>]) -> (Connection, TcpStream) {
    let good = frame(HEADERS, END_STREAM_AND_HEADERS, 3, &block(GOOD));
    let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frames.concat(), &good].concat();
    let (listener, address) = listen().await;
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(&bytes).await.unwrap();
    (serve_clear(&listener).await, tcp)
}

/// RFC 9113 section 8.1.1 makes a malformed message an error of its stream. The h2 crate closes the connection
/// where its HPACK decoder already rejects the field, which section 5.4 allows.
#[tokio::test]
async fn a_malformed_head_never_becomes_a_request() {
    check(&[METHOD, SCHEME, HOST, PATH], "GET /p HTTP/1.1").await;
    check(&[METHOD, SCHEME, PATH, ("host", "a.test")], "GET /p HTTP/1.1").await;
    // The http crate removes the fragment before the gateway sees the path.
    check(&[METHOD, SCHEME, HOST, (":path", "/p#f")], "GET /p HTTP/1.1").await;
    check(&[METHOD, SCHEME, PATH], "400").await;
    check(&[METHOD, SCHEME, HOST, PATH, ("host", "b.test")], "400").await;
    check(&[METHOD, SCHEME, HOST, (":path", "*")], "400").await;
    check(&[(":method", "CONNECT"), HOST], "501").await;
    check(&[METHOD, SCHEME, HOST, (":path", "?q")], "400").await;
    check(&[METHOD, SCHEME, HOST, (":path", "/p/..%2fq")], "400").await;
    check(&[METHOD, SCHEME, HOST, PATH, ("content-length", "0")], "GET /p HTTP/1.1").await;
    for path in ["", "p", "b.test:80", "http://b.test/p", "/p HTTP/1.1", "/p\r\nx: y"] {
        check(&[METHOD, SCHEME, HOST, (":path", path)], "reset").await;
    }
    for (name, value, expect) in [
        ("connection", "close", "reset"),
        ("keep-alive", "timeout=5", "reset"),
        ("proxy-connection", "close", "reset"),
        ("transfer-encoding", "chunked", "reset"),
        ("upgrade", "websocket", "reset"),
        ("te", "gzip", "reset"),
        ("te", "trailers, gzip", "reset"),
        ("content-length", "5", "reset"),
        ("content-length", "+0", "reset"),
        (":path", "/q", "reset"),
        (":status", "200", "reset"),
        (":protocol", "websocket", "reset"),
        ("X-Upper", "1", "closed"),
        ("x y", "1", "closed"),
        ("x", "1\r\ny: 2", "closed"),
        ("x", "\0", "closed"),
        ("", "1", "closed"),
        (":unknown", "1", "closed"),
    ] {
        let mut fields = vec![METHOD, SCHEME, HOST, PATH];
        fields.push((name, value));
        check(&fields, expect).await;
    }
    check(&[SCHEME, HOST, PATH], "reset").await;
    check(&[METHOD, HOST, PATH], "reset").await;
    check(&[METHOD, SCHEME, HOST], "reset").await;
    check(&[METHOD, SCHEME, HOST, ("x", "1"), PATH], "reset").await;

    /// `expect`: the request line, the status of a rejection, `reset` if the valid request that follows is the
    /// first one accepted, or `closed` if the connection ends.
    async fn check(fields: &[(&str, &str)], expect: &str) {
        let head = frame(HEADERS, END_STREAM_AND_HEADERS, 1, &block(fields));
        let (mut connection, _tcp) = connect_and_send(&[head]).await;
        let result = match connection.accept().await {
            Some(Ok((parts, _, _))) if parts.uri.path() == "/good" => "reset".to_owned(),
            Some(Ok((parts, body, _))) => validate(&parts, body.is_end_stream()),
            Some(Err(_)) | None => "closed".to_owned(),
        };
        assert_eq!(result, expect, "{fields:?}");
    }

    fn validate(parts: &Parts, end_of_stream: bool) -> String {
        let mut out = Vec::new();
        let result = head_bytes(&mut out, parts, end_of_stream)
            .and_then(|()| RequestHead::default().parse(&out));
        match result {
            Ok(_) => String::from_utf8_lossy(&out).lines().next().unwrap().to_owned(),
            Err(rejection) => rejection.status.to_string(),
        }
    }
}

#[tokio::test]
async fn trailers_carry_no_pseudo_fields_and_nothing_connection_specific() {
    check(&[("x-t", "1")], "x-t: 1\r\n").await;
    check(&[("x-t", "1"), (":path", "/q")], "reset").await;
    check(&[("connection", "x")], "reset").await;
    check(&[("te", "gzip")], "reset").await;
    check(&[("X-T", "1")], "closed").await;
    // The h2 crate drops pseudo-fields that come first, instead of reporting them.
    check(&[(":path", "/q"), ("x-t", "1")], "x-t: 1\r\n").await;
    check(&[(":status", "200")], "").await;
    check(&[("content_length", "9"), ("x-t", "1"), ("x_jwt_assertion", "a")], "x-t: 1\r\n").await;

    /// `expect`: the trailer lines that are forwarded, or what becomes of the stream, as above.
    async fn check(trailers: &[(&str, &str)], expect: &str) {
        let head = frame(HEADERS, END_HEADERS, 1, &block(&[METHOD, SCHEME, HOST, PATH]));
        let trailers_frame = frame(HEADERS, END_STREAM_AND_HEADERS, 1, &block(trailers));
        let (mut connection, _tcp) = connect_and_send(&[head, trailers_frame]).await;
        let (first, second) = (connection.accept().await, connection.accept().await);
        let result = match (first, second) {
            (Some(Ok((_, body, _respond))), Some(Ok(_))) => read(Incoming::new(body)).await,
            _ => "closed".to_owned(),
        };
        assert_eq!(result, expect, "{trailers:?}");
    }

    async fn read(mut body: Incoming) -> String {
        while let Some(piece) = body.next().await {
            if piece.is_err() {
                return "reset".to_owned();
            }
        }
        let mut lines = Vec::new();
        match body.trailers().await {
            Ok(trailers) => trailer_lines(&mut lines, &trailers.unwrap_or_default()).unwrap(),
            Err(_) => return "reset".to_owned(),
        }
        String::from_utf8(lines).unwrap()
    }
}
