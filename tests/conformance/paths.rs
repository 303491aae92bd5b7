//! The path that was routed is the path that is forwarded, byte for byte.

use harness::{ApiBuilder, Gateway, Upstream, api};

/// The target that the upstream receives for each target sent, or the status of the rejection.
#[track_caller]
fn check(rows: &[(&str, &str)]) {
    check_api(api("/a").open("* /*").secured("* /admin, * /admin/*"), rows);
}

#[track_caller]
fn check_api(api: ApiBuilder, rows: &[(&str, &str)]) {
    let upstream = Upstream::fixed("seen");
    let gateway = Gateway::of(api.to(&upstream)).start();
    for (target, expect) in rows {
        let before = upstream.requests().len();
        let response = gateway.fetch(&format!("GET {target}"), "");
        let got = match upstream.requests().get(before) {
            Some(request) => request.target().to_owned(),
            None => response.status.to_string(),
        };
        assert_eq!(&got, expect, "{target}");
    }
}

#[test]
fn dot_segments_are_resolved_before_routing() {
    check(&[
        ("/a/./x", "/x"),
        ("/a/b/../x", "/x"),
        ("/a/b/%2e%2E/x", "/x"),
        ("/a/%2e/x", "/x"),
        ("/a/x/.", "/x/"),
        ("/a/x/y/..", "/x/"),
        ("/a/b/../../a/x", "/x"),
        ("/z/../a/x", "/x"),
        ("/a/...", "/..."),
        ("/a/.x/..y", "/.x/..y"),
    ]);
}

#[test]
fn no_spelling_of_a_path_bypasses_security() {
    check(&[
        ("/a/admin", "401"),
        ("/a/x/../admin", "401"),
        ("/a/%61dmin", "401"),
        ("/a/x/%2e%2e/admin/y", "401"),
        ("/a/./admin", "401"),
        ("/../a/admin", "400"),
        ("http://gateway/a/x/../admin", "401"),
    ]);
}

#[test]
fn an_escaped_separator_stays_escaped_and_separates_nothing() {
    check(&[
        ("/a/x%2Fy", "/x%2Fy"),
        ("/a/x%2fy", "/x%2fy"),
        ("/a/x%5Cy", "/x%5Cy"),
        ("/a/x%2F..y%2Fadmin", "/x%2F..y%2Fadmin"),
        ("/a/admin%2Fy", "/admin%2Fy"),
        ("/a%2Fadmin", "404"),
    ]);
}

#[test]
fn an_ambiguous_path_is_rejected() {
    check(&[
        ("/a/x%00y", "400"),
        ("/a/x%0", "400"),
        ("/a/x%", "400"),
        ("/a/x%zz", "400"),
        ("/a/x\\..\\admin", "400"),
        ("/a/x%2F..%2Fadmin", "400"),
        ("/a/x%5c%2e%2e/admin", "400"),
    ]);
}

#[test]
fn escapes_of_unreserved_characters_are_decoded_and_others_kept() {
    check(&[
        ("/a/%78", "/x"),
        ("/a/x%20y", "/x%20y"),
        ("/a/%C3%A9", "/%C3%A9"),
        ("/a/x;v=1,2", "/x;v=1,2"),
        ("/a/x//y", "/x//y"),
    ]);
}

#[test]
fn with_strict_paths_only_what_was_sent_is_routed() {
    check_api(
        api("/a").open("* /*").strict_paths(),
        &[
            ("/a", "/"),
            ("/a/x/", "/x/"),
            ("/a/x%20y/.z?q=//;%2F", "/x%20y/.z?q=//;%2F"),
            ("http://gateway/a/x", "/x"),
            ("/a/x//y", "400"),
            ("/a//", "400"),
            ("/a/x;v=1", "400"),
            ("/a/x%2Fy", "400"),
            ("/a/x%5cy", "400"),
            ("/a/./x", "400"),
            ("/z/../a/x", "400"),
            ("/a/%78", "400"),
            ("http://gateway/a/x//y", "400"),
            ("/z//y", "404"),
        ],
    );
}

#[test]
fn the_query_is_forwarded_untouched() {
    check(&[
        ("/a/x?", "/x?"),
        ("/a/x?a=b&a=%00&c=/../d?e", "/x?a=b&a=%00&c=/../d?e"),
        ("/a/x?%zz", "/x?%zz"),
        ("/a?q", "/?q"),
        ("/a", "/"),
        ("/a/", "/"),
        ("http://gateway/a/x?q", "/x?q"),
    ]);
}
