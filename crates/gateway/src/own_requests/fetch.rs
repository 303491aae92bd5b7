//! The gateway's own requests, such as for an issuer's key set. They go through `forward`, like those of clients.

use std::future::poll_fn;
use std::rc::Rc;

use base::limits;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::{Endpoint, Upstream, UpstreamKind};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use wire::http1::{BodyFraming, Known};
use wire::tls::ClientTls;

use super::own_body::OwnBody;
use crate::body::Held;
use crate::body::held::{HeldBytes, Hold, HoldError};
use crate::body::request_body::upstream_fault;
use crate::forward::document::{Bounds, Content, FetchError, Fetched};
use crate::forward::{Balancer, Forwarding, Pools, RetryCounts, UpstreamResponse};
use crate::message::resources::Resources;
use crate::message::{HeadEdits, Outgoing, Peer};
use crate::tasks;

/// The characters that a form has unescaped. Source: the URL Standard, application/x-www-form-urlencoded.
pub(crate) const FORM: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_');

/// The value of `Authorization` for an OAuth2 client. Source: RFC 6749 section 2.3.1.
pub(crate) fn basic(client_id: &str, client_secret: &[u8]) -> String {
    let id = percent_encode(client_id.as_bytes(), FORM);
    let secret = percent_encode(client_secret, FORM);
    format!("Basic {}", BASE64_STANDARD.encode(format!("{id}:{secret}")))
}

/// Sends `content` to a target at `endpoint`. `own`: memory and connections of this thread.
pub(crate) async fn within(
    own: (&Resources, &Pools),
    endpoint: Endpoint,
    target: (&str, &Content),
    tls: &ClientTls,
    bounds: Bounds,
) -> Result<Fetched, FetchError> {
    let total_ms = bounds.total_ms;
    let fetched = tasks::within(total_ms, exchange(own, endpoint, target, tls, bounds)).await;
    fetched.unwrap_or(Err(FetchError::Timeout { total_ms }))
}

async fn exchange(
    (resources, pools): (&Resources, &Pools),
    endpoint: Endpoint,
    (target, content): (&str, &Content),
    tls: &ClientTls,
    Bounds { bytes_max, total_ms }: Bounds,
) -> Result<Fetched, FetchError> {
    // The target is whole.
    let endpoint = Endpoint { path: String::new(), ..endpoint };
    let mut upstream = Upstream::new(UpstreamKind::Single, vec![endpoint]);
    upstream.response_head_ms = total_ms;
    let balancer = Rc::new(Balancer::new(&upstream, None, pools));
    let forwarding = Forwarding {
        client_tls: tls,
        connect_ms: total_ms,
        stall_ms: total_ms,
        min_rate: 0,
        endpoint_waiting_max: limits::ENDPOINT_WAITING_DEFAULT,
        begun_us: resources.now_us(),
        retries: &RetryCounts::default(),
        balancer: &balancer,
        operation: 0,
        forward_fields: &[],
        judged_later: None,
    };
    send(resources, &forwarding, (target, None), content, bytes_max).await
}

/// Sends `content` and reads the response. A path without a query may be a whole target.
pub(super) async fn send(
    resources: &Resources,
    forwarding: &Forwarding<'_>,
    (path, query): (&str, Option<&str>),
    content: &Content,
    bytes_max: usize,
) -> Result<Fetched, FetchError> {
    let mut edits = HeadEdits::default();
    edits.append(b"Accept", b"*/*");
    edits.append(b"User-Agent", b"penstock");
    for (name, value) in &content.fields {
        edits.remove(name.as_bytes());
        edits.append(name.as_bytes(), value.as_bytes());
    }
    let (method, framing) = match &content.body {
        Some(body) => (&b"POST"[..], BodyFraming::Length(body.len() as u64)),
        None => (&b"GET"[..], BodyFraming::None),
    };
    // As if it came from a trusted client, so that nothing is added to it.
    let peer = Peer { trusted: true, ..Peer::default() };
    let outgoing = Outgoing {
        framing,
        repetition: content.repetition,
        query: query.map(str::as_bytes),
        ..Outgoing::own(method, path.as_bytes(), &edits, &peer)
    };
    let body = content.body.clone().unwrap_or_default();
    let mut body = OwnBody::new(Held::new(body.into()), resources);
    let response = crate::forward::exchange(resources, forwarding, &outgoing, &mut body).await?;
    whole(resources, response, bytes_max).await
}

/// Reads the rest of a response.
async fn whole(
    resources: &Resources,
    mut response: UpstreamResponse,
    bytes_max: usize,
) -> Result<Fetched, FetchError> {
    let fetched = read(resources, &mut response, bytes_max).await;
    response.body.release(resources, fetched.is_ok());
    resources.release_head(response.head);
    fetched
}

async fn read(
    resources: &Resources,
    response: &mut UpstreamResponse,
    bytes_max: usize,
) -> Result<Fetched, FetchError> {
    let status = response.head.status();
    if let 301 | 302 | 303 | 307 | 308 = status {
        let location = response.head.parsed.find(Known::Location);
        let location = location.map(|field| field.value.of(&response.head.bytes));
        // The query may hold secrets.
        let location =
            location.unwrap_or_default().split(|byte| matches!(byte, b'?' | b'#')).next();
        let location = String::from_utf8_lossy(location.unwrap_or_default()).into_owned();
        return Err(FetchError::Redirect { status, location });
    }
    let authority = response.body.connection.authority.to_string();
    let mut source = response.body.source(&resources.buffers);
    let holding = HeldBytes::default().holding(None, [bytes_max; 2], 0);
    let held = match Hold::begin(&holding, None) {
        Ok(mut hold) => poll_fn(|cx| hold.poll(cx, &mut source)).await,
        Err(error) => Err(error),
    };
    match held {
        Ok(body) => Ok(Fetched { status, body: body.into() }),
        Err(HoldError::TooLarge | HoldError::Exhausted) => Err(FetchError::TooLarge { bytes_max }),
        Err(HoldError::Body(error)) => Err(upstream_fault(&authority, &error).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::Upstreams;

    const BOUNDS: Bounds = Bounds { bytes_max: 10, total_ms: 10_000 };

    /// Status and body, or the kind of error.
    fn outcome(response: Result<Fetched, FetchError>) -> String {
        match response {
            Ok(fetched) => format!("{} {}", fetched.status, String::from_utf8_lossy(&fetched.body)),
            Err(FetchError::Fault(fault)) => {
                format!("{fault:?}").split(' ').next().unwrap_or_default().to_owned()
            }
            Err(FetchError::Redirect { location, .. }) => format!("Redirect {location}"),
            Err(error) => {
                let debug = format!("{error:?}");
                debug.split([' ', '(']).next().unwrap_or_default().to_owned()
            }
        }
    }

    /// `response`: the text after `HTTP/1.1 `, lines ended by LF; empty: no response. It is sent to every connection.
    #[track_caller]
    fn check(response: &str, expect: &str) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let whole =
            if response.is_empty() { String::new() } else { format!("HTTP/1.1 {response}") };
        let whole = whole.replace('\n', "\r\n");
        thread::spawn(move || {
            for tcp in listener.incoming() {
                let (mut tcp, mut request) = (tcp.unwrap(), Vec::new());
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    tcp.read_exact(&mut byte).unwrap();
                    request.push(byte[0]);
                }
                let request = String::from_utf8(request).unwrap();
                let expect = format!(
                    "GET /keys?a=b HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\nUser-Agent: penstock\r\n\r\n"
                );
                assert_eq!(request, expect);
                tcp.write_all(whole.as_bytes()).unwrap();
            }
        });
        let url = format!("http://{address}/keys?a=b");
        let fetched = Upstreams::alone().unwrap().fetch(
            &url,
            Content::default(),
            &ClientTls::insecure(),
            BOUNDS,
        );
        assert_eq!(outcome(fetched), expect, "{response:?}");
    }

    #[test]
    fn a_response_is_complete_or_an_error() {
        check("200 OK\nContent-Length: 2\n\n{}", "200 {}");
        check("404 No\nContent-Length: 0\n\n", "404 ");
        check("204 No Content\n\n", "204 ");
        check("200 OK\nContent-Length: 10\n\n0123456789", "200 0123456789");
        check("200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n2;x\nde\n0\nX-T: 1\n\n", "200 abcde");
        check("200 OK\n\nto the end", "200 to the end");
        check("103 Early\nLink: x\n\nHTTP/1.1 200 OK\nContent-Length: 1\n\nx", "200 x");

        check("200 OK\nContent-Length: 11\n\n0123456789x", "TooLarge");
        check("200 OK\nTransfer-Encoding: chunked\n\n6\nabcdef\n6\nabcdef\n0\n\n", "TooLarge");
        check("200 OK\n\nmore than ten bytes", "TooLarge");

        check("", "Closed");
        check("200 OK\nContent-Length: 9\n\nhalf", "Truncated");
        check("200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n", "Truncated");
        check(
            "302 Found\nLocation: http://b.test/x?token=a#b\nContent-Length: 0\n\n",
            "Redirect http://b.test/x",
        );
        check("200 OK\nContent-Length: 1\nContent-Length: 2\n\n", "ProtocolViolation");
        check("200 OK\nTransfer-Encoding: chunked\n\nxyz\n", "ProtocolViolation");
    }

    #[test]
    fn a_server_that_never_responds_times_out_and_a_closed_port_is_unreachable() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let bounds = Bounds { total_ms: 20, ..BOUNDS };
        let (upstreams, tls) = (Upstreams::alone().unwrap(), ClientTls::insecure());
        assert_eq!(outcome(upstreams.fetch(&url, Content::default(), &tls, bounds)), "Timeout");
        drop(listener);
        assert_eq!(outcome(upstreams.fetch(&url, Content::default(), &tls, BOUNDS)), "Unreachable");
    }
}
