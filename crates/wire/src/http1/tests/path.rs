//! Normalisation of the path that is routed and forwarded.

use super::super::RequestHead;
use super::check;

fn head(path: &str) -> String {
    format!("GET {path}?q=/../%zz HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn dot_segments_are_resolved_also_when_escaped() {
    for (sent, expect) in [
        ("/", "/"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/b/..", "/a/"),
        ("/a/b/.", "/a/b/"),
        ("/.", "/"),
        ("/a/..", "/"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e/b", "/a/b"),
        ("/a/b/c/./../../g", "/a/g"),
        ("/a//../b", "/a/b"),
        ("/..a/.b/...", "/..a/.b/..."),
        ("/a./b..", "/a./b.."),
        ("/1.0.0/a", "/1.0.0/a"),
    ] {
        normalised(sent, expect);
    }
}

#[test]
fn only_escapes_of_unreserved_characters_are_decoded() {
    for (sent, expect) in [
        ("/%61dmin", "/admin"),
        ("/%41%5A%61%7a%30%39%2D%2e%5F%7E", "/AZaz09-._~"),
        ("/a%2Fb", "/a%2Fb"),
        ("/a%2fb", "/a%2fb"),
        ("/a%5Cb", "/a%5Cb"),
        ("/a%20b%3F%23%25", "/a%20b%3F%23%25"),
        ("/%252e%252e/a", "/%252e%252e/a"),
        ("/%25%32%65/a", "/%252e/a"),
        ("/%C3%A9", "/%C3%A9"),
        ("/%7f%01", "/%7f%01"),
        ("/a..%2Fb", "/a..%2Fb"),
        ("/a%2F.b%5C..c/.%2B", "/a%2F.b%5C..c/.%2B"),
        ("/a%2F/%5C.../%252F..", "/a%2F/%5C.../%252F.."),
        ("/%61/%2F", "/a/%2F"),
    ] {
        normalised(sent, expect);
    }
}

#[test]
fn empty_segments_and_unusual_characters_are_kept() {
    for path in
        ["//", "//a", "/a//b", "/a///", "/a;b=c/d", "/a:b@c", "/~a!$&'()*+,=", "/a|b{c}^\"<>`"]
    {
        normalised(path, path);
    }
}

#[test]
fn a_path_above_the_root_is_rejected() {
    for path in
        ["/..", "/../", "/../a", "/a/../..", "/./..", "/%2e%2e", "/a/../../b", "/.%2E/%2e./x"]
    {
        check(&head(path), "400");
    }
}

#[test]
fn an_ambiguous_path_is_rejected() {
    for path in [
        "/%00",
        "/a%00b",
        "/%61%00",
        "/%",
        "/%1",
        "/%zz",
        "/%2",
        "/%2g",
        "/%u0041",
        "/%%32e",
        "/a\\b",
        "/a/..\\b",
        "/\\",
        "/%61\\",
        "/a/..;/b",
        "/..;a",
        "/a/.;/b",
        "/a/%2e%2e;/b",
        "/a/.%2e;x",
        "/..%3bx",
        "/a/..%3Bx/b",
        "/a/.%3bx",
        "/a/%2e%2E%3b",
        "/a%2f..%3bx/b",
        "/a/..%3fx/b",
        "/a/..%3Fx",
        "/a/.%23",
        "/a/..%23x/b",
        "/..%2f",
        "/a/..%2Fb",
        "/a/%2e%2e%5cb",
        "/a%2f..",
        "/a%2F../b",
        "/a/.%2e%2f",
        "/a/%5c..",
        "/a%5C..%5cb",
        "/a/.%2fb",
        "/a%5c%2E/b",
        "/a%2f..;x/b",
        "/a%2F%2f..",
        "/%61%2f%2e%2e%2fb",
    ] {
        check(&head(path), "400");
    }
}

#[test]
fn a_path_is_ambiguous_unless_every_server_reads_it_as_sent() {
    for path in ["/", "/a/b/", "/a.b/c..", "/a%20b%3B%25", "/a%C3%A9", "/.well-known/x", "/a,b=c"] {
        ambiguous(path, false);
    }
    for path in [
        "//",
        "//a",
        "/a//b",
        "/a//",
        "/a;b",
        "/;",
        "/a%2Fb",
        "/a%2fb",
        "/a%5Cb",
        "/a%5cb",
        "/./a",
        "/a/..",
        "/%2e/a",
        "/%61",
        "/a/%2E%2e/b",
    ] {
        ambiguous(path, true);
    }
    for (line, expect) in [
        ("GET http://a HTTP/1.1", false),
        ("GET http://a?//; HTTP/1.1", false),
        ("GET http://a/b HTTP/1.1", false),
        ("GET http://a//b HTTP/1.1", true),
        ("OPTIONS * HTTP/1.1", false),
    ] {
        ambiguous_line(line, expect);
    }
}

#[track_caller]
fn ambiguous(path: &str, expect: bool) {
    ambiguous_line(&format!("GET {path}?q=//;%2F HTTP/1.1"), expect);
}

#[track_caller]
fn ambiguous_line(line: &str, expect: bool) {
    let text = format!("{line}\r\nHost: a\r\n\r\n");
    check(&text, "ok");
    let mut parsed = RequestHead::default();
    parsed.parse(b"GET //;%2F HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(parsed.has_ambiguous_path());
    parsed.parse(text.as_bytes()).unwrap();
    assert_eq!(parsed.has_ambiguous_path(), expect, "{line}");
}

#[test]
fn a_normalised_path_is_not_copied() {
    for (path, copied) in [("/a/b.c", false), ("/a%20b%2F/.well-known/x", false), ("/a/./b", true)]
    {
        let text = head(path);
        let mut parsed = RequestHead::default();
        parsed.parse(text.as_bytes()).unwrap();
        let inside =
            text.as_bytes().as_ptr_range().contains(&parsed.path(text.as_bytes()).as_ptr());
        assert_eq!(inside, !copied, "{path}");
    }
}

#[track_caller]
fn normalised(sent: &str, expect: &str) {
    let text = head(sent);
    check(&text, "ok");
    let mut parsed = RequestHead::default();
    parsed.parse(text.as_bytes()).unwrap();
    assert_eq!(
        parsed.path(text.as_bytes()).escape_ascii().to_string(),
        expect.as_bytes().escape_ascii().to_string()
    );
    assert_eq!(parsed.query(text.as_bytes()), Some(b"q=/../%zz".as_slice()));
}
