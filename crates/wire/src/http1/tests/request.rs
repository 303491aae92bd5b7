//! The syntax of request heads, and their meaning apart from the body.

use base::{Method, limits};

use super::super::{Known, Parsed, RequestHead, Upgrade, Version};
use super::{check, check_all, check_fields, with_fields};

#[test]
fn a_query_is_shortened_in_place() {
    for (query, target, expect) in [
        ("key=b", "/a?key=b", Some("key=b")),
        ("", "/a", None),
        ("key=1&more=2&x", "/a?key=1&more=2", Some("key=1&more=2")),
    ] {
        let mut bytes = b"GET /a?key=1&more=2 HTTP/1.1\r\nHost: me\r\n\r\n".to_vec();
        let mut head = RequestHead::default();
        assert_eq!(head.parse(&bytes), Ok(Parsed::Complete));
        head.shorten_query(&mut bytes, query.as_bytes());
        assert_eq!(head.query(&bytes), expect.map(str::as_bytes), "{query}");
        assert_eq!((head.target(&bytes), head.path(&bytes)), (target.as_bytes(), &b"/a"[..]));
        assert_eq!(head.host(&bytes), b"me");
    }
}

#[test]
fn a_valid_head_is_parsed() {
    let bytes = b"GET /pizza/1.0.0/menu?size=l&x=/../ HTTP/1.1\r\nHost: api.example.org:8243\r\n\
        Accept:  text/html \t\r\nEmpty:\r\nauthorization:Bearer a.b.c\r\n\r\nbody";
    let mut head = RequestHead::default();
    assert_eq!(head.parse(bytes), Ok(Parsed::Complete));
    assert_eq!(head.len(), bytes.len() - b"body".len());
    assert_eq!((head.method(), head.method_bytes(bytes)), (Method::Get, b"GET".as_slice()));
    assert_eq!(head.target(bytes), b"/pizza/1.0.0/menu?size=l&x=/../");
    assert_eq!(head.path(bytes), b"/pizza/1.0.0/menu");
    assert_eq!(head.query(bytes), Some(b"size=l&x=/../".as_slice()));
    assert_eq!(head.host(bytes), b"api.example.org:8243");
    assert_eq!(head.version(), Version::Http11);
    let fields: Vec<_> =
        head.fields().iter().map(|f| (f.name.of(bytes), f.value.of(bytes))).collect();
    assert_eq!(
        fields,
        [
            (b"Host".as_slice(), b"api.example.org:8243".as_slice()),
            (b"Accept", b"text/html"),
            (b"Empty", b""),
            (b"authorization", b"Bearer a.b.c"),
        ]
    );
    let found = head.find(Known::Authorization).map(|field| field.value.of(bytes));
    assert_eq!(found, Some(b"Bearer a.b.c".as_slice()));
    assert_eq!(head.find_name(bytes, b"empty").map(|field| field.value.len()), Some(0));
    assert!(head.find(Known::Cookie).is_none() && head.find_name(bytes, b"cookie").is_none());
}

#[test]
fn a_reused_head_keeps_nothing_of_the_previous_one() {
    let mut head = RequestHead::default();
    let first = with_fields(
        "Connection: close, x-a\r\nX-A: b\r\nExpect: 100-continue\r\nContent-Length: 3\r\n",
    );
    head.parse(first.as_bytes()).unwrap();
    let second = b"GET /a/./b HTTP/1.0\r\n\r\n";
    head.parse(second).unwrap();
    assert_eq!(
        (head.fields().len(), head.host(second), head.path(second)),
        (0, &b""[..], &b"/a/b"[..])
    );
    assert!(!head.expects_continue() && head.find(Known::Connection).is_none());
    assert_eq!(head.parse(b"GET / HT"), Ok(Parsed::Partial));
    assert_eq!((head.len(), head.path(second), head.method()), (0, &b"/"[..], Method::Other));
}

#[test]
fn offsets_beyond_another_buffer_are_empty() {
    let mut head = RequestHead::default();
    head.parse(with_fields("").as_bytes()).unwrap();
    assert_eq!((head.path(b"GET"), head.host(b""), head.query(b"")), (&b""[..], &b""[..], None));
}

#[test]
fn lines_end_with_crlf() {
    check_all(
        &[
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "GET / HTTP/1.1\r\nHost: a\r\nB: c\n\n",
            "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
            "GET / HTTP/1.1\rHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\rB: c\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\rX: y\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:\n a\r\n\r\n",
        ],
        "400",
    );
}

#[test]
fn nothing_may_precede_the_method() {
    check_all(
        &["\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "\nGET / HTTP/1.1\r\n", " GET /", "\0"],
        "400",
    );
}

#[test]
fn a_request_line_has_three_parts_with_one_space_between() {
    check_all(
        &[
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
            "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / a HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\r\n\r\n",
            "GET\r\n\r\n",
            "G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / http/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.10\r\nHost: a\r\n\r\n",
            "GET / HTTP/11\r\nHost: a\r\n\r\n",
            "GET / HTTP/x.1\r\nHost: a\r\n\r\n",
            "GET / HTTPS/1.1\r\nHost: a\r\n\r\n",
        ],
        "400",
    );
    check("\u{16}\u{3}\u{1}\u{2}\0\u{1}", "400");
}

#[test]
fn versions_other_than_1_0_and_1_1_are_not_supported() {
    check_all(
        &[
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
            "GET / HTTP/0.9\r\nHost: a\r\n\r\n",
            "GET / HTTP/3.0",
        ],
        "505",
    );
    check("GET / HTTP/1.0\r\n\r\n", "ok");
}

#[test]
fn any_token_up_to_the_limit_is_a_method() {
    check("get / HTTP/1.1\r\nHost: a\r\n\r\n", "ok");
    check("X!#$%&'*+-.^_`|~9 / HTTP/1.1\r\nHost: a\r\n\r\n", "ok");
    let longest = "M".repeat(limits::METHOD_BYTES_MAX);
    check(&format!("{longest} / HTTP/1.1\r\nHost: a\r\n\r\n"), "ok");
    check(&format!("{longest}M / HTTP/1.1\r\nHost: a\r\n\r\n"), "501");
    check(&format!("{longest}M"), "501");
}

#[test]
fn a_field_name_is_a_token_directly_followed_by_a_colon() {
    check_fields(
        &[
            "X-A : b\r\n",
            "X-A\t: b\r\n",
            ": b\r\n",
            "X A: b\r\n",
            "X-A\r\n",
            "X-A b\r\n",
            "X(A): b\r\n",
            "X\u{e9}: b\r\n",
            "X\0: b\r\n",
            "\"x\": b\r\n",
            "X-A\r\n: b\r\n",
            "Content-Length : 3\r\n",
            "\u{b}X: b\r\n",
            "\u{1}: b\r\n",
        ],
        "400",
    );
}

#[test]
fn folded_lines_are_rejected() {
    check_fields(
        &["X-A: b\r\n c\r\n", "X-A: b\r\n\tc\r\n", "X-A:\r\n b\r\n", "X-A: b\r\n \r\n"],
        "400",
    );
    check("GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400");
}

#[test]
fn a_value_may_contain_tabs_and_high_bytes_but_no_control_characters() {
    for byte in 0..=u8::MAX {
        let head = [b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b", &[byte][..], b"c\r\n\r\n"].concat();
        let allowed = matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
        check(&head, if allowed { "ok" } else { "400" });
    }
}

#[test]
fn a_target_is_visible_ascii_without_fragment() {
    for byte in 0..=u8::MAX {
        let head = [b"GET /a?b", &[byte][..], b"c HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
        let allowed = matches!(byte, b'!'..=b'~') && byte != b'#';
        check(&head, if allowed { "ok" } else { "400" });
    }
}

#[test]
fn a_target_above_its_limit_is_rejected_early() {
    let longest = format!("/{}", "a".repeat(limits::TARGET_BYTES_MAX as usize - 1));
    check(&format!("GET {longest} HTTP/1.1\r\nHost: a\r\n\r\n"), "ok");
    check(&format!("GET {longest}a HTTP/1.1\r\nHost: a\r\n\r\n"), "414");
    check(&format!("GET {longest}"), "partial");
    check(&format!("GET {longest}a"), "414");
}

#[test]
fn a_head_above_its_limit_is_rejected_early() {
    let start = "GET / HTTP/1.1\r\nHost: a\r\nX-A: ";
    let fill = limits::HEAD_BYTES_MAX as usize - start.len() - b"\r\n\r\n".len();
    let largest = format!("{start}{}", "b".repeat(fill));
    check(&format!("{largest}\r\n\r\n"), "ok");
    check(&format!("{largest}\r\n\r"), "partial");
    check(&format!("{largest}b\r\n\r\n"), "431");
    check(&format!("{largest}bbbb"), "431");
}

#[test]
fn too_many_fields_are_rejected_early() {
    let most = "X-A: b\r\n".repeat(limits::HEADER_FIELDS_MAX - 1);
    check(&with_fields(&most), "ok");
    check(&with_fields(&format!("{most}X-A: b\r\n")), "431");
    let shown = with_fields(&format!("{most}X"));
    check(shown.trim_end(), "431");
}

#[test]
fn http_1_1_needs_one_valid_host_and_http_1_0_may_have_one() {
    check("GET / HTTP/1.1\r\n\r\n", "400");
    check("GET / HTTP/1.0\r\n\r\n", "ok");
    check_fields(&["Host: api.example.org\r\n", "host: b\r\n", "HOST:\r\n"], "400");
    for host in [
        "a",
        "a.b-c_d~e",
        "A.B:80",
        "a:",
        "127.0.0.1:8280",
        "[::1]",
        "[2001:db8::1]:443",
        "a:65535",
    ] {
        check(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), "ok");
    }
    for host in [
        "",
        ":80",
        "user@a",
        "a:b@c",
        "a/b",
        "a?b",
        "a#b",
        "a b",
        "a,b",
        "a\\b",
        "a:80:80",
        "a:65536",
        "a:x",
        "a:-1",
        "[::1",
        "::1",
        "[]",
        "[a]",
        "[::1]a",
        "a%00",
        "\u{e9}",
        "a\"b",
        "a<b",
        "[fe80::1%25eth0]",
        "a:999999999999",
    ] {
        check(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), "400");
        check(&format!("GET / HTTP/1.0\r\nHost: {host}\r\n\r\n"), "400");
    }
}

#[test]
fn an_absolute_form_must_agree_with_host_and_is_the_authority() {
    let parsed = |target: &str, host: &str| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        check(&text, "ok");
        let mut head = RequestHead::default();
        head.parse(text.as_bytes()).unwrap();
        let part = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let query = head.query(text.as_bytes()).map(part);
        (part(head.host(text.as_bytes())), part(head.path(text.as_bytes())), query)
    };
    let expect = |host: &str, path: &str, query: Option<&str>| {
        (host.to_owned(), path.to_owned(), query.map(str::to_owned))
    };
    assert_eq!(parsed("http://a/b?c", "a"), expect("a", "/b", Some("c")));
    assert_eq!(parsed("HTTP://A:80/b/../c", "a"), expect("A:80", "/c", None));
    assert_eq!(parsed("https://a", "a:443"), expect("a", "/", None));
    assert_eq!(parsed("http://a?c", "A:"), expect("a", "/", Some("c")));
    for (target, host) in [
        ("http://a/", "b"),
        ("http://a:81/", "a"),
        ("https://a:80/", "a"),
        ("http://u@a/", "a"),
        ("http:///b", "a"),
        ("http://", "a"),
        ("http:/a", "a"),
        ("ftp://a/", "a"),
        ("ws://a/", "a"),
        ("a/b", "a"),
        ("//", ""),
        ("a:80", "a"),
        ("http://a\\b/", "a"),
        ("?a", "a"),
    ] {
        check(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"), "400");
    }
    check("GET http://a/ HTTP/1.1\r\n\r\n", "400");
    check("GET http://a/ HTTP/1.0\r\n\r\n", "ok");
}

#[test]
fn the_asterisk_form_is_for_options_and_the_authority_form_for_connect() {
    check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "ok");
    check("GET * HTTP/1.1\r\nHost: a\r\n\r\n", "400");
    check("OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n", "400");
    check("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", "501");
    check("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", "400");
    check("CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n", "400");
    let bare = b"OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut head = RequestHead::default();
    head.parse(bare).unwrap();
    assert_eq!(head.path(bare), b"*");
}

#[test]
fn a_connection_is_kept_by_default_from_1_1_on() {
    let kept = |head: String| {
        check(&head, "ok");
        let mut parsed = RequestHead::default();
        parsed.parse(head.as_bytes()).unwrap();
        parsed.keep_alive()
    };
    for (lines, on_1_1, on_1_0) in [
        ("", true, false),
        ("Connection: close\r\n", false, false),
        ("Connection: Keep-Alive\r\n", true, true),
        ("Connection: keep-alive, CLOSE\r\n", false, false),
        ("Connection: keep-alive\r\nX-A: b\r\nConnection: ,close ,\r\n", false, false),
        ("Connection:\r\n", true, false),
        ("Connection: x-close\r\n", true, false),
    ] {
        let head = with_fields(lines);
        assert_eq!(kept(head.clone()), on_1_1, "{lines:?} on HTTP/1.1");
        assert_eq!(kept(head.replace("HTTP/1.1", "HTTP/1.0")), on_1_0, "{lines:?} on HTTP/1.0");
    }
}

#[test]
fn hop_by_hop_fields_are_marked_by_name_or_by_connection() {
    let text = with_fields(
        "Connection: x-a, Authorization,keep-alive\r\nKeep-Alive: 1\r\nX-A: b\r\nx-a: c\r\nX-AB: d\r\n\
         Authorization: e\r\nProxy-Connection: f\r\nTE: trailers\r\nTrailer: g\r\nUpgrade: h\r\n\
         HTTP2-Settings: i\r\nProxy-Authorization: j\r\nProxy-Authenticate: k\r\nTransfer-Encoding: chunked\r\n",
    );
    check(&text, "ok");
    let mut head = RequestHead::default();
    head.parse(text.as_bytes()).unwrap();
    let stay: Vec<_> =
        head.fields().iter().filter(|f| !f.hop).map(|f| f.name.of(text.as_bytes())).collect();
    assert_eq!(stay, [b"Host".as_slice(), b"X-AB"]);
}

#[test]
fn connection_cannot_name_framing_or_routing_fields() {
    check_fields(
        &[
            "Connection: Host\r\n",
            "Connection: close, content-length\r\nContent-Length: 1\r\n",
            "Connection: \"x\"\r\n",
            "Connection: a b\r\n",
            "Connection: a;b\r\n",
        ],
        "400",
    );
    let many = |count: u32| format!("Connection: {}\r\n", "a, ".repeat(count as usize));
    check_fields(&[&many(limits::CONNECTION_OPTIONS_MAX)], "ok");
    check_fields(&[&many(limits::CONNECTION_OPTIONS_MAX + 1)], "400");
}

#[test]
fn only_a_100_continue_can_be_expected() {
    check_fields(&["Expect: 100-continue\r\n", "Expect: 100-Continue\r\n"], "ok");
    check_fields(
        &[
            "Expect: 100-continue2\r\n",
            "Expect:\r\n",
            "Expect: a\r\n",
            "Expect: 100-continue\r\nExpect: 100-continue\r\n",
        ],
        "417",
    );
    for (lines, expect) in [
        ("Expect: 100-continue\r\nContent-Length: 5\r\n", true),
        ("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", true),
        ("Expect: 100-continue\r\n", false),
        ("Content-Length: 5\r\n", false),
    ] {
        let mut head = RequestHead::default();
        head.parse(with_fields(lines).as_bytes()).unwrap();
        assert_eq!(head.expects_continue(), expect, "{lines:?}");
    }
    let old = with_fields("Expect: what\r\nContent-Length: 5\r\n").replace("HTTP/1.1", "HTTP/1.0");
    check(&old, "ok");
}

#[test]
fn an_upgrade_counts_only_when_connection_says_so_on_1_1() {
    for (lines, expect) in [
        ("Connection: Upgrade\r\nUpgrade: WebSocket\r\n", Upgrade::WebSocket),
        ("Connection: keep-alive, upgrade\r\nUpgrade: websocket\r\n", Upgrade::WebSocket),
        ("Connection: upgrade\r\nUpgrade: h2c\r\n", Upgrade::Other),
        ("Connection: upgrade\r\nUpgrade: websocket, h2c\r\n", Upgrade::Other),
        ("Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n", Upgrade::Other),
        ("Upgrade: websocket\r\n", Upgrade::None),
        ("Connection: upgrade\r\n", Upgrade::None),
    ] {
        let text = with_fields(lines);
        let mut head = RequestHead::default();
        head.parse(text.as_bytes()).unwrap();
        assert_eq!(head.upgrade(text.as_bytes()), expect, "{lines:?}");
        let text = text.replace("HTTP/1.1", "HTTP/1.0");
        head.parse(text.as_bytes()).unwrap();
        assert_eq!(head.upgrade(text.as_bytes()), Upgrade::None, "{lines:?} on HTTP/1.0");
    }
}
