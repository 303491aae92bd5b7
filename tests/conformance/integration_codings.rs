//! Compressed bodies in mediation.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::{GzEncoder, ZlibEncoder};
use harness::{CannedResponse, Gateway, Response, Upstream};

const XML: &str = "Content-Type: application/xml\r\n";
const ENDPOINT: &str = "<endpoint><address uri=\"HERE/\"/></endpoint>";
const COUNT: &str = "<payloadFactory media-type=\"text\"><format>$1</format><args>\
    <arg expression=\"string(count(//item))\"/></args></payloadFactory>";

fn proxy(upstream: &Upstream, target: &str) -> Gateway {
    let target = target.replace("HERE", &format!("http://{}", upstream.address()));
    Gateway::mediating(&format!("<proxy name=\"it\"><target>{target}</target></proxy>")).start()
}

fn gzip(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn deflate(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_ref()).unwrap();
    encoder.finish().unwrap()
}

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

fn items(count: usize) -> String {
    format!("<all>{}</all>", "<item>x</item>".repeat(count))
}

/// The response to a body with this coding.
fn post(gateway: &Gateway, coding: &str, body: &[u8]) -> Response {
    post_as(XML, gateway, coding, body)
}

fn post_as(content_type: &str, gateway: &Gateway, coding: &str, body: &[u8]) -> Response {
    let length = body.len();
    let head = format!(
        "POST /services/it HTTP/1.1\r\nHost: me\r\nContent-Length: {length}\r\n{content_type}\
         Content-Encoding: {coding}\r\n\r\n"
    );
    let mut client = gateway.connect();
    client.send([head.as_bytes(), body].concat());
    client.read()
}

/// An upstream whose response is always compressed.
fn compressing(body: &str) -> Upstream {
    let body = gzip(body);
    Upstream::responding(move |_| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nETag: \"1\"\r\n{XML}\
             Content-Length: {length}\r\n\r\n"
        );
        CannedResponse::bytes([head.as_bytes(), &body].concat())
    })
}

#[test]
fn a_mediator_reads_a_compressed_request() {
    let upstream = Upstream::echo();
    let gateway = proxy(&upstream, &format!("<inSequence>{COUNT}<respond/></inSequence>"));
    for count in [1, 1_000, 50_000] {
        let items = items(count);
        for (coding, body) in [
            ("gzip", gzip(&items)),
            ("X-GZip", gzip(&items)),
            ("identity, deflate", deflate(&items)),
        ] {
            let response = post(&gateway, coding, &body);
            assert_eq!((response.status, response.text()), (200, count.to_string()), "{coding}");
            assert_eq!(response.header("content-encoding"), None);
        }
    }
    assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0, "nothing is left of it");
}

#[test]
fn a_compressed_body_that_is_read_and_not_changed_is_sent_as_it_came() {
    let body = gzip(items(10));
    let upstream = compressing(&items(20));
    let log = "<log level=\"custom\"><property name=\"n\" expression=\"count(//item)\"/></log>";
    let gateway = proxy(
        &upstream,
        &format!(
            "<inSequence>{log}</inSequence>{ENDPOINT}<outSequence>{log}<respond/></outSequence>"
        ),
    );
    let response = post(&gateway, "gzip", &body);
    assert_eq!(gunzip(&response.body), items(20));
    assert_eq!(
        (response.all("content-encoding"), response.all("etag")),
        ("gzip".into(), "\"1\"".into())
    );
    let sent = &upstream.requests()[0];
    assert_eq!((sent.header("content-encoding"), &sent.body), (Some("gzip"), &body));
}

#[test]
fn attachments_are_sent_as_they_came_when_their_envelope_is_edited() {
    let upstream = Upstream::echo();
    let edit = "<enrich><source type=\"inline\">SUN</source><target xpath=\"//s\"/></enrich>";
    let gateway = proxy(&upstream, &format!("<inSequence>{edit}</inSequence>{ENDPOINT}"));
    let content_type = "multipart/related; type=\"text/xml\"; boundary=\"B\"";
    let field = format!("Content-Type: {content_type}\r\n");
    let package = |symbol: &str| {
        let soap = "http://schemas.xmlsoap.org/soap/envelope/";
        let root =
            format!("<e:Envelope xmlns:e=\"{soap}\"><e:Body><s>{symbol}</s></e:Body></e:Envelope>");
        let head = format!("--B\r\nContent-Type: text/xml\r\n\r\n{root}\r\n--B\r\n\r\n");
        [head.as_bytes(), &b"\0\xff\r\n--b".repeat(20_000), b"\r\n--B--\r\n"].concat()
    };
    for (coding, body) in [("identity", package("IBM")), ("gzip", gzip(package("IBM")))] {
        assert_eq!(post_as(&field, &gateway, coding, &body).status, 200);
    }
    assert_eq!(upstream.requests().len(), 2);
    for sent in upstream.requests() {
        assert_eq!(sent.header("content-type"), Some(content_type));
        assert_ne!(sent.header("content-encoding"), Some("gzip"));
        assert!(sent.body == package("SUN"));
    }
    assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0, "nothing is left of it");
}

#[test]
fn a_compressed_body_that_is_changed_is_sent_without_its_coding() {
    let upstream = compressing(&items(20));
    let gateway = proxy(
        &upstream,
        &format!(
            "<inSequence>{COUNT}</inSequence>{ENDPOINT}<outSequence>{COUNT}<respond/></outSequence>"
        ),
    );
    let response = post(&gateway, "gzip", &gzip(items(10)));
    assert_eq!((response.text().as_str(), response.header("content-encoding")), ("20", None));
    let sent = &upstream.requests()[0];
    assert_eq!((sent.text().as_str(), sent.header("content-encoding")), ("10", None));
}

#[test]
fn a_compressed_body_is_written_in_another_format() {
    let upstream = Upstream::echo();
    let gateway = proxy(
        &upstream,
        "<inSequence><property name=\"messageType\" scope=\"axis2\" value=\"application/json\"/>\
         <property name=\"n\" expression=\"//item\"/><respond/></inSequence>",
    );
    let response = post(&gateway, "gzip", &gzip("<all><item>1</item></all>"));
    assert_eq!(response.text(), "{\"all\":{\"item\":1}}");
    assert_eq!(response.header("content-encoding"), None);
}

#[test]
fn the_parts_of_a_compressed_body_have_no_coding() {
    let upstream = Upstream::echo();
    let gateway = proxy(
        &upstream,
        "<inSequence><iterate expression=\"//item\"><target><endpoint><address uri=\"HERE/\"/>\
         </endpoint></target></iterate></inSequence><outSequence><aggregate><onComplete \
         expression=\"$body/*\"><respond/></onComplete></aggregate></outSequence>",
    );
    post(&gateway, "gzip", &gzip(items(3)));
    let sent = upstream.requests();
    let fields: Vec<_> = sent.iter().map(|part| part.header("content-encoding")).collect();
    assert_eq!(fields, [None; 3]);
    assert!(sent.iter().all(|part| part.text() == "<item>x</item>"), "{sent:?}");
}

#[test]
fn a_compressed_response_to_a_call_is_read() {
    let upstream = compressing(&items(7));
    let gateway = proxy(
        &upstream,
        &format!("<inSequence><call>{ENDPOINT}</call>{COUNT}<respond/></inSequence>"),
    );
    assert_eq!(post(&gateway, "identity", b"<a/>").text(), "7");
}

#[test]
fn a_coding_that_nobody_knows_passes_if_nobody_reads_the_body() {
    let upstream = Upstream::manual();
    // The body is held, since the client does not wait for the response.
    let passing = proxy(
        &upstream,
        &format!(
            "<inSequence><property name=\"FORCE_SC_ACCEPTED\" value=\"true\" scope=\"axis2\"/>\
             <send>{ENDPOINT}</send></inSequence>"
        ),
    );
    assert_eq!(post(&passing, "br", b"anything").status, 202);
    let sent = upstream.accept().request();
    assert_eq!((sent.header("content-encoding"), sent.text()), (Some("br"), "anything".into()));
    let gateway = proxy(&upstream, &format!("<inSequence>{COUNT}<respond/></inSequence>"));
    for coding in ["br", "gzip, gzip", "zstd"] {
        let response = post(&gateway, coding, &gzip("<a/>"));
        assert_eq!(response.status_and_code(), "500 601000", "{coding}");
    }
}

#[test]
fn a_body_that_is_not_what_its_coding_says_fails_alone() {
    let upstream = Upstream::echo();
    let gateway = proxy(&upstream, &format!("<inSequence>{COUNT}<respond/></inSequence>"));
    let whole = gzip(items(1_000));
    let cut = &whole[..whole.len() - 1];
    // A few kilobytes that would be hundreds of megabytes, and many that would be nothing.
    let bomb = gzip(vec![b' '; 64 << 20]);
    let members = gzip("").repeat(100_000);
    for body in [b"<all/>", cut, &bomb, &members, &[&*whole, b"x"].concat()] {
        let response = post(&gateway, "gzip", body);
        assert_eq!(response.status, 500, "{}", response.text());
    }
    assert_eq!(post(&gateway, "gzip", &bomb).status_and_code(), "500 601000");
    assert_eq!(gateway.metric("penstock_held_body_bytes", ""), 0, "nothing is left of it");
    assert_eq!(post(&gateway, "gzip", &whole).text(), "1000");
}
