use std::sync::Arc;

use base::Method;
use model::{Api, ApiState, Denial, LoadedApi, Snapshot};
use proptest::prelude::*;

use super::{ApiRoutes, Routes};
use crate::{properties, samples};

// --- templates ----------------------------------------------------------------------------------

#[test]
fn a_literal_beats_a_parameter_and_the_wildcard_comes_last() {
    let api = ["GET /*", "GET /{x}", "GET /{x}.json", "GET /{x}.min.json", "GET /pets"];
    check(&api, "GET /pets", "GET /pets");
    check(&api, "GET /a.min.json", "GET /{x}.min.json");
    check(&api, "GET /a.json", "GET /{x}.json");
    check(&api, "GET /petz", "GET /{x}");
    check(&api, "GET /pets/1", "GET /*");
}

#[test]
fn the_search_backtracks_from_a_literal_without_match() {
    let api = ["GET /a/b/c", "GET /a/{x}/d", "GET /{x}/b/e", "GET /a/b/*"];
    check(&api, "GET /a/b/c", "GET /a/b/c");
    check(&api, "GET /a/b/d", "GET /a/b/*");
    check(&api, "GET /a/z/d", "GET /a/{x}/d");
    check(&api, "GET /z/b/e", "GET /{x}/b/e");
    check(&["GET /a/b/c", "GET /a/{x}/d", "GET /{x}/b/e"], "GET /a/b/e", "GET /{x}/b/e");
}

#[test]
fn the_wildcard_may_match_nothing() {
    for path in ["", "/", "/x", "/x/", "/x//y", "//"] {
        check(&["GET /*"], &format!("GET {path}"), "GET /*");
    }
    for path in ["/files", "/files/", "/files/x/y"] {
        check(&["GET /files/*"], &format!("GET {path}"), "GET /files/*");
    }
    check(&["GET /files/*"], "GET /filesx", "no resource");
    check(&["GET /files/*"], "GET /", "no resource");
}

#[test]
fn a_parameter_matches_one_non_empty_segment() {
    let api = ["GET /pets/{id}"];
    check(&api, "GET /pets/5", "GET /pets/{id}");
    check(&api, "GET /pets/5%2F6", "GET /pets/{id}");
    for path in ["/pets", "/pets/", "/pets//", "/pets/5/6"] {
        check(&api, &format!("GET {path}"), "no resource");
    }
}

#[test]
fn parameters_may_share_a_segment_with_text() {
    let api = ["GET /compare/{base}...{head}", "GET /zip/{ref}", "GET /{a}-{b}"];
    check(&api, "GET /compare/main...dev", "GET /compare/{base}...{head}");
    check(&api, "GET /compare/main..dev", "no resource");
    check(&api, "GET /x-y-z", "GET /{a}-{b}");
    check(&api, "GET /x-", "no resource");
}

#[test]
fn a_trailing_slash_matters_only_if_both_templates_exist() {
    let both = ["GET /pets", "GET /pets/"];
    check(&both, "GET /pets", "GET /pets");
    check(&both, "GET /pets/", "GET /pets/");
    check(&["GET /pets"], "GET /pets/", "GET /pets");
    check(&["GET /pets/"], "GET /pets", "GET /pets/");
    check(&["GET /pets", "POST /pets/"], "POST /pets", "POST /pets/");
    check(&["GET /pets", "GET /*"], "GET /pets/", "GET /pets");
    check(&["GET /"], "GET ", "GET /");
    check(&["GET "], "GET /", "GET ");
    check(&["GET /pets"], "GET /pets//", "no resource");
}

#[test]
fn the_most_specific_template_with_the_method_wins() {
    let api = ["GET /pets/mine", "DELETE /pets/{id}", "PATCH /*"];
    check(&api, "GET /pets/mine", "GET /pets/mine");
    check(&api, "DELETE /pets/mine", "DELETE /pets/{id}");
    check(&api, "PATCH /pets/mine", "PATCH /*");
}

#[test]
fn an_unsupported_method_yields_all_methods_of_matching_templates() {
    let api = ["GET /pets/mine", "DELETE /pets/{id}", "PATCH /*", "PUT /other"];
    check(&api, "POST /pets/mine", "allow GET, DELETE, PATCH");
    check(&api, "POST /pets/5", "allow DELETE, PATCH");
    check(&api, "GET /nowhere", "allow PATCH");
    check(&["GET /pets"], "get /pets", "allow GET");
}

#[test]
fn head_and_options_are_not_found_unless_declared() {
    check(&["GET /pets"], "HEAD /pets", "allow GET");
    check(&["GET /pets"], "OPTIONS /pets", "allow GET");
    check(&["GET /pets", "HEAD /pets", "OPTIONS /pets"], "HEAD /pets", "HEAD /pets");
}

#[test]
fn escapes_do_not_bypass_a_template() {
    let api = ["GET /gr\u{f6}\u{df}e", "GET /%40me/{id}.json", "GET /a%2fb", "GET /*"];
    for (path, expect) in [
        ("/gr%C3%B6%C3%9Fe", api[0]),
        ("/gr%c3%b6%c3%9fe", api[0]),
        ("/gr\u{f6}\u{df}e", api[0]),
        ("/@me/1.json", api[1]),
        ("/%40me/%31.j%73on", api[1]),
        ("/%40me/1%2F2.json", api[1]),
        ("/a%2Fb", api[2]),
        ("/a%2fb", api[2]),
        ("/a/b", api[3]),
        ("/%40me%2F1.json", api[3]),
    ] {
        check(&api, &format!("GET {path}"), expect);
    }
}

#[test]
fn of_two_templates_that_differ_only_in_parameter_names_the_first_is_used() {
    check(&["GET /a/{x}", "GET /a/{y}"], "GET /a/1", "GET /a/{x}");
}

#[test]
fn a_template_above_the_depth_limit_is_ignored() {
    let depth = base::limits::TEMPLATE_SEGMENTS_MAX;
    let (deep, deeper) = ("/a".repeat(depth), "/a".repeat(depth + 1));
    let api = [format!("GET {deep}"), format!("GET {deeper}")];
    let api: Vec<&str> = api.iter().map(String::as_str).collect();
    check(&api, api[0], api[0]);
    check(&api, api[1], "no resource");
}

/// `request` is `METHOD PATH`; `expect` the operation's line, `no resource`, or `allow` and methods.
#[track_caller]
fn check(operations: &[&str], request: &str, expect: &str) {
    let routes = compile(&[samples::api("/shop/1", operations)], None);
    let (method, path) = request.split_once(' ').unwrap();
    let path = format!("/shop/1{path}");
    let method = Method::from_bytes(method.as_bytes());
    let shown = match routes.find(b"", method, path.as_bytes(), true) {
        Ok(found) => operations[found.operation].to_owned(),
        Err(not_found) if not_found.denial == Denial::NoResource => "no resource".to_owned(),
        Err(not_found) => {
            assert_eq!(not_found.denial, Denial::MethodNotAllowed);
            format!("allow {}", not_found.allow)
        }
    };
    assert_eq!(shown, expect, "{request} among {operations:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    #[test]
    fn the_trie_agrees_with_the_naive_search(
        input in proptest::collection::vec(any::<u8>(), 0..80)
    ) {
        properties::route(&input);
    }
}

// --- hosts and base paths -----------------------------------------------------------------------

#[test]
fn the_longest_base_path_that_ends_a_segment_wins() {
    let apis = [claim("", ""), claim("/echo", ""), claim("/echo/1.0.0", ""), claim("/a/b/c", "")];
    for (path, expect) in [
        ("/echo/1.0.0", "/echo/1.0.0 + "),
        ("/echo/1.0.0/", "/echo/1.0.0 + /"),
        ("/echo/1.0.0/x/y", "/echo/1.0.0 + /x/y"),
        ("/echo/1.0.00", "/echo + /1.0.00"),
        ("/echo", "/echo + "),
        ("/echoes", " + /echoes"),
        ("/a/b", " + /a/b"),
        ("/a/b/c/d", "/a/b/c + /d"),
        ("/", " + /"),
        ("", " + "),
        ("*", "none"),
        ("//echo", " + //echo"),
    ] {
        check_api(&apis, "any", path, expect);
    }
    check_api(&[claim("/echo", "")], "any", "/", "none");
    check_api(&[], "any", "/", "none");
}

#[test]
fn base_paths_of_more_than_64_segments_are_found() {
    let deep = "/a".repeat(70);
    check_api(
        &[claim(&deep, ""), claim("/a", "")],
        "any",
        &format!("{deep}/x"),
        &format!("{deep} + /x"),
    );
    check_api(
        &[claim(&deep, ""), claim("/a", "")],
        "any",
        &deep[2..],
        &format!("/a + {}", &deep[4..]),
    );
}

#[test]
fn an_exact_host_beats_a_wildcard_and_a_wildcard_any_host() {
    let apis = [
        named("any", claim("/p", "")),
        named("wide", claim("/p", "*.example.org")),
        named("narrow", claim("/p", "*.eu.example.org")),
        named("exact", claim("/p", "api.eu.example.org")),
    ];
    for (host, expect) in [
        ("api.eu.example.org", "exact + "),
        ("API.EU.Example.Org:8443", "exact + "),
        ("api.eu.example.org.", "exact + "),
        ("x.eu.example.org", "narrow + "),
        ("x.y.eu.example.org", "narrow + "),
        ("eu.example.org", "wide + "),
        ("a.b.example.org:80", "wide + "),
        ("example.org", "any + "),
        (".example.org", "any + "),
        ("xexample.org", "any + "),
        ("", "any + "),
        ("[::1]:80", "any + "),
    ] {
        check_api(&apis, host, "/p", expect);
    }
    check_api(&apis, &"a.".repeat(400), "/p", "any + ");
}

#[test]
fn a_host_without_the_path_falls_back_to_less_specific_ones() {
    let apis = [
        named("exact", claim("/a", "api.example.org")),
        named("wild", claim("/b", "*.example.org")),
        named("any", claim("/c", "")),
        named("root", claim("", "root.example.org")),
    ];
    for (host, path, expect) in [
        ("api.example.org", "/a/x", "exact + /x"),
        ("api.example.org", "/b/x", "wild + /x"),
        ("api.example.org", "/c/x", "any + /x"),
        ("api.example.org", "/d", "none"),
        ("root.example.org", "/c/x", "root + /c/x"),
    ] {
        check_api(&apis, host, path, expect);
    }
}

#[test]
fn addresses_are_valid_hosts() {
    let apis = [named("six", claim("", "2001:db8::1")), named("four", claim("", "192.0.2.1"))];
    check_api(&apis, "[2001:DB8::1]:8243", "/", "six + /");
    check_api(&apis, "[2001:db8::1]", "/", "six + /");
    check_api(&apis, "192.0.2.1:8280", "/", "four + /");
    check_api(&apis, "192.0.2.2", "/", "none");
}

#[test]
fn a_default_path_is_served_unless_it_is_the_base_path_of_an_api() {
    let versioned = |name: &str, base: &str, default: &str| Api {
        default_path: Some(default.to_owned()),
        ..named(name, claim(base, ""))
    };
    let apis = [
        versioned("pets 2", "/pets/2", "/pets"),
        versioned("shop 2", "/shop/2", "/shop"),
        named("shop", claim("/shop", "")),
    ];
    for (path, expect) in [
        ("/pets/2/x", "pets 2 + /x"),
        ("/pets/x", "pets 2 + /x"),
        ("/pets", "pets 2 + "),
        ("/shop/2/x", "shop 2 + /x"),
        ("/shop/x", "shop + /x"),
    ] {
        check_api(&apis, "any", path, expect);
    }
}

#[test]
fn base_paths_are_compared_without_escapes_and_the_remainder_keeps_its_own() {
    let apis =
        [named("api", claim("/gr\u{f6}\u{df}e/@1", "")), named("escaped", claim("/a%2fb", ""))];
    for (path, expect) in [
        ("/gr%C3%B6%C3%9Fe/@1/x%20y", "api + /x%20y"),
        ("/gr%c3%b6%c3%9fe/%401", "api + "),
        ("/gr\u{f6}\u{df}e/@1/", "api + /"),
        ("/a%2Fb/c%2Fd/e", "escaped + /c%2Fd/e"),
        ("/a/b/c", "none"),
        ("/gr%C3%B6%C3%9Fe%2F@1", "none"),
    ] {
        check_api(&apis, "any", path, expect);
    }
}

fn claim(base_path: &str, hosts: &str) -> Api {
    let mut api = samples::api(base_path, &["GET /*"]);
    api.hosts = hosts.split_whitespace().map(str::to_owned).collect();
    api
}

fn named(name: &str, mut api: Api) -> Api {
    api.name = name.to_owned();
    api
}

/// `expect`: the API's name, ` + ` and the remainder; or `none`.
#[track_caller]
fn check_api(apis: &[Api], host: &str, path: &str, expect: &str) {
    let routes = compile(apis, None);
    let shown = match routes.find(host.as_bytes(), Method::Get, path.as_bytes(), false) {
        Ok(found) => {
            format!("{} + {}", found.api.api.name, String::from_utf8_lossy(found.remainder))
        }
        Err(not_found) => {
            assert_eq!(not_found.denial, Denial::NoApi);
            assert!(not_found.api.is_none());
            "none".to_owned()
        }
    };
    assert_eq!(shown, expect, "{host}{path}");
}

// --- listeners and states -----------------------------------------------------------------------

#[test]
fn an_api_is_served_only_on_its_listeners() {
    for (http, https, secure, expect) in [
        (true, true, false, None),
        (true, false, false, None),
        (true, false, true, Some(Denial::UnsupportedTransport)),
        (false, true, true, None),
        (false, true, false, Some(Denial::UnsupportedTransport)),
    ] {
        let mut api = samples::api("/p", &["GET /*"]);
        api.transports = model::Transports { http, https };
        let routes = compile(&[api], None);
        let not_found = routes.find(b"", Method::Get, b"/p/x", secure).err();
        assert_eq!(not_found.map(|not_found| not_found.denial), expect);
    }
}

#[test]
fn an_unloaded_api_is_unavailable() {
    let api = Arc::new(samples::api("/p", &[]));
    let apis = vec![LoadedApi { api, state: ApiState::Unloaded }];
    let routes =
        Routes::compile(&Snapshot { revision: 7, apis: apis.into(), ..Snapshot::default() }, None);
    assert_eq!(routes.revision(), 7);
    let not_found = routes.find(b"", Method::Get, b"/p/x", true).unwrap_err();
    assert_eq!(not_found.denial, Denial::ApiUnloaded);
    assert_eq!(not_found.remainder, b"/x");
    assert!(not_found.api.is_some());
}

#[test]
fn methods_lists_every_method_of_a_path() {
    let routes =
        compile(&[samples::api("/p", &["GET /a", "PUT /{x}", "OPTIONS /a", "POST /b"])], None);
    let api = routes.apis().next().unwrap();
    assert_eq!(api.methods(b"/a").to_string(), "GET, PUT, OPTIONS");
    assert_eq!(api.methods(b"/a/b").to_string(), "");
}

// --- changes ------------------------------------------------------------------------------------

#[test]
fn unchanged_apis_are_reused_and_an_edited_api_keeps_its_slot() {
    let mut apis = loaded(&[claim("/a", ""), claim("/b", ""), claim("/c", "")]);
    let first = Routes::compile(&snapshot(&apis), None);
    check_slots(&first, "/a=0 /b=1 /c=2");

    let mut edited = claim("/b", "");
    edited.operations.push(samples::operation("GET /new"));
    apis[1].api = Arc::new(edited);
    let second = Routes::compile(&snapshot(&apis), Some(&first));
    check_slots(&second, "/a=0 /b=1 /c=2");
    let same: Vec<bool> = first.apis().zip(second.apis()).map(|(a, b)| Arc::ptr_eq(a, b)).collect();
    assert_eq!(same, [true, false, true]);
    assert!(second.find(b"", Method::Get, b"/b/new", true).is_ok_and(|found| found.operation == 1));
    assert!(!second.has_apis_of(&first));
}

#[test]
fn while_no_api_changes_nothing_is_compiled() {
    let first = snapshot(&loaded(&[claim("/a", ""), claim("/b", "")]));
    let second = Snapshot { revision: 2, ..first.clone() };
    let before = Routes::compile(&first, None);
    let after = Routes::compile(&second, Some(&before));
    assert!(after.has_apis_of(&before));
    assert_eq!(after.revision(), 2);
}

#[test]
fn a_slot_is_reused_only_after_its_api_is_gone() {
    let all = loaded(&[claim("/a", ""), claim("/b", ""), claim("/c", ""), claim("/d", "")]);
    let pick = |names: &str| -> Vec<LoadedApi> {
        let is_picked = |one: &&LoadedApi| names.contains(&one.api.base_path[1..]);
        all.iter().filter(is_picked).cloned().collect()
    };
    let mut routes = Routes::compile(&snapshot(&pick("ab")), None);
    for (names, expect) in [
        ("ab", "/a=0 /b=1"),
        ("bc", "/b=1 /c=2"),
        ("bcd", "/b=1 /c=2 /d=0"),
        ("d", "/d=0"),
        ("ad", "/a=1 /d=0"),
        ("", ""),
    ] {
        routes = Routes::compile(&snapshot(&pick(names)), Some(&routes));
        check_slots(&routes, expect);
    }
}

#[test]
fn an_api_with_another_state_is_compiled_again_in_its_slot() {
    let mut apis = loaded(&[claim("/a", ""), claim("/b", "")]);
    apis[1].state = ApiState::Unloaded;
    let first = Routes::compile(&snapshot(&apis), None);
    assert!(first.find(b"", Method::Get, b"/b", true).is_err());
    apis[1].state = ApiState::Serving;
    let second = Routes::compile(&snapshot(&apis), Some(&first));
    check_slots(&second, "/a=0 /b=1");
    assert!(second.find(b"", Method::Get, b"/b", true).is_ok());
}

#[test]
fn two_apis_with_the_same_identity_have_different_slots() {
    let twins = loaded(&[claim("/a", ""), claim("/a", "")]);
    let first = Routes::compile(&snapshot(&twins), None);
    check_slots(&first, "/a=0 /a=1");
    let twins = loaded(&[claim("/a", ""), claim("/a", "")]);
    let second = Routes::compile(&snapshot(&twins), Some(&first));
    let mut slots: Vec<u32> = second.apis().map(|api| api.slot).collect();
    slots.dedup();
    assert_eq!(slots.len(), 2);
}

fn loaded(apis: &[Api]) -> Vec<LoadedApi> {
    let load = |api: &Api| LoadedApi { api: Arc::new(api.clone()), state: ApiState::Serving };
    apis.iter().map(load).collect()
}

fn snapshot(apis: &[LoadedApi]) -> Snapshot {
    Snapshot { revision: 1, apis: apis.into(), ..Snapshot::default() }
}

fn compile(apis: &[Api], previous: Option<&Routes>) -> Routes {
    Routes::compile(&snapshot(&loaded(apis)), previous)
}

/// `expect`: `BASE_PATH=SLOT` in the snapshot's order.
#[track_caller]
fn check_slots(routes: &Routes, expect: &str) {
    let show = |api: &Arc<ApiRoutes>| format!("{}={}", api.api.base_path, api.slot);
    assert_eq!(routes.apis().map(show).collect::<Vec<_>>().join(" "), expect);
    let highest = routes.apis().map(|api| api.slot as usize + 1).max().unwrap_or(0);
    assert_eq!(routes.slots(), highest);
}
