//! Heads and trailers: those that become requests, those that are rejected, and those that reset the stream.

use base::limits;

use super::*;

/// `expect`: the request's head with `|` for each line end, the status of a rejection, or `reset`.
#[track_caller]
fn check(fields: &[(&str, &str)], expect: &str) {
    let head = frame(HEADERS, WHOLE, 1, &block(fields));
    let mut server = Server::new();
    server.receive(&head).receive(&request(3, WHOLE));
    let events = server.events();
    assert_eq!(server.failure, None, "{fields:?}: the connection stays open");
    let good = "GET /p HTTP/1.1|host: a.test||.";
    assert_eq!(server.sent().contains("RST 1 1"), expect == "reset", "{fields:?}");
    let expect = match expect {
        "reset" => format!("0: {good}"),
        "400" | "431" | "501" => format!("0: {expect}; 1: {good}"),
        head => format!("0: {head}||.; 1: {good}"),
    };
    assert_eq!(events, expect, "{fields:?}");
}

#[test]
fn a_head_is_rendered_as_http_1() {
    check(&[METHOD, SCHEME, HOST, PATH], "GET /p HTTP/1.1|host: a.test");
    check(&[PATH, HOST, SCHEME, METHOD], "GET /p HTTP/1.1|host: a.test");
    check(&[METHOD, SCHEME, PATH, ("host", "a.test")], "GET /p HTTP/1.1|host: a.test");
    check(&[METHOD, SCHEME, HOST, PATH, ("host", "A.test")], "GET /p HTTP/1.1|host: a.test");
    check(&[METHOD, SCHEME, HOST, (":path", "/p?x=%2F&y")], "GET /p?x=%2F&y HTTP/1.1|host: a.test");
    check(
        &[(":method", "OPTIONS"), SCHEME, HOST, (":path", "*")],
        "OPTIONS * HTTP/1.1|host: a.test",
    );
    let cookies =
        [METHOD, SCHEME, HOST, PATH, ("cookie", "a=1"), ("x-b", "2"), ("cookie", "c=3; d=4")];
    check(&cookies, "GET /p HTTP/1.1|host: a.test|x-b: 2|cookie: a=1; c=3; d=4");
    for (name, value) in
        [("te", "trailers"), ("content-length", "0"), ("x-empty", ""), ("x-utf", "ü\tb")]
    {
        let expect = format!("GET /p HTTP/1.1|host: a.test|{name}: {value}");
        check(&[METHOD, SCHEME, HOST, PATH, (name, value)], &expect);
    }
}

/// RFC 9113 section 8.1.1: a malformed message is an error of its stream.
#[test]
fn a_malformed_head_ends_its_stream_and_no_other() {
    for path in
        ["", "p", "b.test:80", "http://b.test/p", "/p HTTP/1.1", "/p\r\nx: y", "/p\tq", "?q"]
    {
        check(&[METHOD, SCHEME, HOST, (":path", path)], "reset");
    }
    for (name, value) in [
        ("connection", "close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("content-length", "5"),
        ("content-length", "+0"),
        ("content-length", ""),
        ("content-length", "18446744073709551616"),
        (":path", "/q"),
        (":status", "200"),
        (":protocol", "websocket"),
        (":unknown", "1"),
        ("X-Upper", "1"),
        ("x y", "1"),
        ("x:y", "1"),
        ("x\r\ny", "1"),
        ("ü", "1"),
        ("", "1"),
        ("x", "1\r\ny: 2"),
        ("x", "1\n"),
        ("x", "\0"),
        ("x", "\u{7f}"),
        ("x", " 1"),
        ("x", "1\t"),
    ] {
        check(&[METHOD, SCHEME, HOST, PATH, (name, value)], "reset");
    }
    check(&[SCHEME, HOST, PATH], "reset");
    check(&[METHOD, HOST, PATH], "reset");
    check(&[METHOD, SCHEME, HOST], "reset");
    check(&[METHOD, METHOD, SCHEME, HOST, PATH], "reset");
    check(&[METHOD, SCHEME, SCHEME, HOST, PATH], "reset");
    check(&[METHOD, SCHEME, HOST, HOST, PATH], "reset");
    check(&[METHOD, SCHEME, HOST, ("x", "1"), PATH], "reset");
    check(&[(":method", "G T"), SCHEME, HOST, PATH], "reset");
    check(&[], "reset");
}

#[test]
fn what_http_1_rejects_gets_the_same_status() {
    check(&[METHOD, SCHEME, HOST, (":path", "/p#f")], "400");
    check(&[METHOD, SCHEME, HOST, (":path", "*")], "400");
    check(&[METHOD, SCHEME, HOST, (":path", "/p/..%2fq")], "400");
    check(&[METHOD, SCHEME, HOST, (":path", "/a\\b")], "400");
    check(&[METHOD, SCHEME, HOST, (":path", "/%00")], "400");
    check(&[METHOD, SCHEME, HOST, (":path", "/%zz")], "400");
    check(&[METHOD, SCHEME, PATH], "400");
    check(&[METHOD, SCHEME, (":authority", ""), PATH], "400");
    check(&[METHOD, SCHEME, (":authority", "user@a.test"), PATH], "400");
    check(&[METHOD, SCHEME, (":authority", "a b"), PATH], "400");
    check(&[METHOD, SCHEME, HOST, PATH, ("host", "b.test")], "400");
    check(&[METHOD, SCHEME, HOST, PATH, ("host", "a.test:80")], "400");
    check(&[METHOD, SCHEME, HOST, PATH, ("host", "")], "400");
    check(&[METHOD, SCHEME, PATH, ("host", "a.test"), ("host", "a.test")], "400");
    check(&[METHOD, SCHEME, HOST, PATH, ("content-length", "0"), ("content-length", "0")], "400");
    check(&[(":method", "CONNECT"), HOST], "501");
    let long = "v".repeat(limits::HEAD_BYTES_MAX as usize / 8);
    let fields = [("x", long.as_str()); 8];
    let fields = [&[METHOD, SCHEME, HOST, PATH], &fields[..]].concat();
    let mut server = Server::new();
    let block = block(&fields);
    let (first, rest) = block.split_at(16_384);
    server.receive(&frame(HEADERS, END_STREAM, 1, first));
    for (index, part) in rest.chunks(16_384).enumerate() {
        let flags = if (index + 1) * 16_384 >= rest.len() { END_HEADERS } else { 0 };
        server.receive(&frame(CONTINUATION, flags, 1, part));
    }
    assert_eq!((server.events().as_str(), server.failure), ("0: 431", None));
    let many = [("x", "1"); limits::HEADER_FIELDS_MAX];
    check(&[&[METHOD, SCHEME, HOST, PATH], &many[..]].concat(), "431");
}

/// Source: RFC 8441.
#[test]
fn an_extended_connect_is_rendered_as_a_websocket_handshake_without_key() {
    let handshake = "GET /p HTTP/1.1|connection: upgrade|upgrade: websocket|host: a.test";
    check(&[CONNECT, WEBSOCKET, SCHEME, HOST, PATH], handshake);
    check(&[CONNECT, (":protocol", "WebSocket"), SCHEME, HOST, PATH], handshake);
    let version = ("sec-websocket-version", "13");
    let fields = [CONNECT, WEBSOCKET, SCHEME, HOST, PATH, ("sec-websocket-key", "AAAA"), version];
    check(&fields, &format!("{handshake}|sec-websocket-version: 13"));
    let mut server = Server::new();
    let open = block(&[CONNECT, WEBSOCKET, SCHEME, HOST, PATH]);
    server.receive(&frame(HEADERS, END_HEADERS, 1, &open)).receive(&frame(DATA, 0, 1, b"x"));
    assert_eq!(server.events(), format!("0: {handshake}||; 0: x"), "what follows is no body");
    server.receive(&frame(HEADERS, WHOLE, 1, &block(&[("x-t", "1")])));
    assert_eq!(server.events(), "0: reset", "a tunnel has no trailers");
}

#[test]
fn a_connect_that_is_malformed_or_for_another_protocol_opens_nothing() {
    check(&[CONNECT, WEBSOCKET, HOST, PATH], "reset");
    check(&[CONNECT, WEBSOCKET, SCHEME, HOST], "reset");
    check(&[CONNECT, WEBSOCKET, HOST], "reset");
    check(&[CONNECT, WEBSOCKET, WEBSOCKET, SCHEME, HOST, PATH], "reset");
    check(&[(":method", "POST"), WEBSOCKET, SCHEME, HOST, PATH], "reset");
    check(&[CONNECT, WEBSOCKET, SCHEME, HOST, (":path", "a.test:80")], "reset");
    for (name, value) in
        [("connection", "upgrade"), ("upgrade", "websocket"), ("content-length", "0")]
    {
        check(&[CONNECT, WEBSOCKET, SCHEME, HOST, PATH, (name, value)], "reset");
    }
    check(&[CONNECT, WEBSOCKET, SCHEME, PATH], "400");
    for protocol in ["", "connect-udp", "websocket, h2c", "h2c"] {
        check(&[CONNECT, (":protocol", protocol), SCHEME, HOST, PATH], "501");
    }
}

#[test]
fn the_settings_say_whether_tunnels_are_allowed() {
    for is_allowed in [true, false] {
        let engine = Connection::with_output(Vec::new(), is_allowed);
        let mut server = Server { engine, unread: Vec::new(), events: Vec::new(), failure: None };
        let says_so = server.engine.output().windows(6).any(|part| part == [0, 8, 0, 0, 0, 1]);
        assert_eq!(says_so, is_allowed);
        server.receive(&hello()).sent();
        let open = block(&[CONNECT, WEBSOCKET, SCHEME, HOST, PATH]);
        server.receive(&frame(HEADERS, END_HEADERS, 1, &open));
        assert_eq!(server.sent(), if is_allowed { "" } else { "RST 1 1" });
    }
}

#[test]
fn framing_follows_from_the_length_and_the_end_of_the_stream() {
    let check = |fields: &[(&str, &str)], flags: u8, expect: &str| {
        let fields = [&[METHOD, SCHEME, HOST, PATH], fields].concat();
        let mut server = Server::new();
        server.receive(&frame(HEADERS, flags, 1, &block(&fields)));
        assert_eq!(server.events(), format!("0: GET /p HTTP/1.1|host: a.test|{expect}"));
    };
    check(&[], WHOLE, "|.");
    check(&[], END_HEADERS, "transfer-encoding: chunked||");
    check(&[("content-length", "7")], END_HEADERS, "content-length: 7||");
    check(&[("content-length", "0")], WHOLE, "content-length: 0||.");
}

#[test]
fn trailers_carry_no_pseudo_fields_and_nothing_connection_specific() {
    check(&[("x-t", "1")], "x-t: 1|");
    check(&[("content_length", "9"), ("x-t", "1"), ("x-jwt-assertion", "a")], "x-t: 1|");
    check(&[], "");
    for malformed in [
        (":path", "/q"),
        (":status", "200"),
        ("connection", "x"),
        ("te", "gzip"),
        ("X-T", "1"),
        ("x", "\n"),
    ] {
        check(&[malformed, ("x-t", "1")], "reset");
        check(&[("x-t", "1"), malformed], "reset");
    }
    let long = "v".repeat(limits::TRAILER_BYTES_MAX as usize);
    check(&[("x-t", long.as_str())], "431");

    #[track_caller]
    fn check(trailers: &[(&str, &str)], expect: &str) {
        let mut server = Server::new();
        server.receive(&request(1, END_HEADERS)).events();
        server.receive(&frame(HEADERS, WHOLE, 1, &block(trailers)));
        let expect =
            if expect == "reset" { "0: reset".to_owned() } else { format!("0: end {expect}") };
        assert_eq!((server.events(), server.failure), (expect, None), "{trailers:?}");
    }
}

#[test]
fn a_response_is_encoded_field_by_field() {
    let fields: [(&[u8], &[u8]); 2] = [(b"X-A", b"1"), (b"Content-Type", b"text/plain")];
    let mut block = Vec::new();
    head_block(&mut block, 200, fields.into_iter(), Some(12)).unwrap();
    let expect = [
        &[0x88, 0, 3][..],
        b"x-a",
        &[1, b'1'],
        &[0x0f, 16, 10],
        b"text/plain",
        &[0x0f, 13, 2],
        b"12",
    ];
    assert_eq!(block, expect.concat());
    for status in [101, 100, 0] {
        assert_eq!(
            head_block(&mut block, status, fields.into_iter(), None).unwrap_err().status,
            502
        );
    }
    block.clear();
    trailer_block(&mut block, b"grpc-status: 0\r\nGRPC-Message:  ok \r\n").unwrap();
    let expect = [&[0, 11][..], b"grpc-status", &[1, b'0'], &[0, 12], b"grpc-message", &[2], b"ok"];
    assert_eq!(block, expect.concat());
    assert_eq!(trailer_block(&mut block, b"no name\r\n").unwrap_err().status, 502);
}

#[test]
fn the_preface_is_recognised_by_its_first_bytes() {
    let with_more = [PREFACE, b"\0\0\0"].concat();
    for cut in 0..PREFACE.len() {
        assert_eq!(match_preface(&PREFACE[..cut]), PrefaceMatch::Partial, "cut at {cut}");
    }
    assert_eq!(match_preface(PREFACE), PrefaceMatch::Yes);
    assert_eq!(match_preface(&with_more), PrefaceMatch::Yes);
    for other in ["GET / HTTP/1.1\r\n", "P ", "PRI * HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSN"]
    {
        assert_eq!(match_preface(other.as_bytes()), PrefaceMatch::No, "{other}");
    }
}

/// One byte of a block may stand for a field of 4 KiB.
#[test]
fn fields_that_are_dropped_count_as_well() {
    use base::limits::HEAD_BYTES_MAX;
    let value = "a".repeat(3_900);
    let added = |name: &str, value: &str| {
        let mut bytes = block(&[(name, value)]);
        // With incremental indexing. Source: RFC 7541 section 6.2.1.
        bytes[0] = 0x40;
        bytes
    };
    let first = [METHOD, SCHEME, PATH, (":authority", value.as_str())];
    let indexed = |count: usize| vec![0xbe; count];
    let few = HEAD_BYTES_MAX as usize / 3_900 - 3;
    for (count, expect) in [(few, None), (few + 4, Some("431"))] {
        let head = [block(&first), added("host", &value), indexed(count)].concat();
        let mut server = Server::new();
        server.receive(&frame(HEADERS, WHOLE, 1, &head));
        let is_rejected = server.events.iter().any(|event| event.ends_with("431"));
        assert_eq!(is_rejected, expect.is_some(), "{count}: {:?}", server.events);
    }
}
