use std::collections::HashMap;

use base::SystemEntropy;

use super::*;

const NOW: Now = Now { unix_s: 1_000, mono_us: 0 };

fn keys() -> SealingKeys {
    SealingKeys::new(b"a secret of a test, which has 32 bytes and more").unwrap()
}

fn session(access_token: &str) -> Session {
    Session {
        access_token: access_token.to_owned(),
        expires_s: 1_300,
        refresh_token: Some("refresh".to_owned()),
        id_token: None,
        until_s: 2_000,
    }
}

/// Updates the cookies of a browser with these field lines.
fn store(browser: &mut HashMap<String, String>, lines: &[u8]) {
    for line in std::str::from_utf8(lines).unwrap().split_terminator("\r\n") {
        let (pair, attributes) =
            line.strip_prefix("Set-Cookie: ").unwrap().split_once("; ").unwrap();
        let (name, value) = pair.split_once('=').unwrap();
        assert!(is_cookie(name.as_bytes()), "{name}");
        assert!(line.len() <= 4_096, "browsers limit a cookie to that");
        for attribute in ["Path=/", "HttpOnly", "SameSite=Lax"] {
            assert!(attributes.contains(attribute), "{line}");
        }
        assert_eq!(name.starts_with("__Host-"), attributes.contains("Secure"), "{line}");
        if attributes.contains("Max-Age=0") {
            browser.remove(name);
        } else {
            browser.insert(name.to_owned(), value.to_owned());
        }
    }
}

fn found(browser: &HashMap<String, String>, cookies: &Cookies) -> Option<Session> {
    let sealed = cookies.session(|name| browser.get(name).map(String::as_bytes))?;
    Session::open(&keys(), "staff", &sealed, NOW)
}

#[test]
fn a_session_of_any_size_survives_the_cookies_of_a_browser() {
    let mut browser = HashMap::new();
    for (secure, bytes) in [(true, 10), (true, 9_000), (false, 3_000), (false, 0)] {
        let cookies = Cookies::of("staff", secure);
        let session = session(&"t".repeat(bytes));
        let mut lines = Vec::new();
        cookies.set_session(&session.seal(&keys(), "staff").unwrap(), &mut lines).unwrap();
        store(&mut browser, &lines);
        assert_eq!(found(&browser, &cookies), Some(session), "{bytes}");
        assert_eq!(found(&browser, &Cookies::of("others", secure)), None);
        lines.clear();
        cookies.remove_session(&mut lines);
        let mut left = browser.clone();
        store(&mut left, &lines);
        assert_eq!(found(&left, &cookies), None);
    }
    let mut lines = Vec::new();
    let sealed = session(&"t".repeat(16_000)).seal(&keys(), "staff").unwrap();
    assert_eq!(Cookies::of("staff", true).set_session(&sealed, &mut lines), Err(TooLarge));
    assert!(lines.is_empty(), "nothing is appended");
}

#[test]
fn cookies_that_are_missing_mixed_or_of_another_login_are_no_session() {
    let cookies = Cookies::of("staff", true);
    let mut browser = HashMap::new();
    let mut lines = Vec::new();
    let sealed = session(&"t".repeat(9_000)).seal(&keys(), "staff").unwrap();
    cookies.set_session(&sealed, &mut lines).unwrap();
    store(&mut browser, &lines);
    for name in browser.keys() {
        let mut less = browser.clone();
        less.remove(name);
        assert_eq!(found(&less, &cookies), None, "{name}");
    }
    for first in ["", "0.", "9.", "1", "x.y", "4."] {
        let mut wrong = browser.clone();
        wrong.insert("__Host-penstock-login-staff".to_owned(), first.to_owned());
        assert_eq!(found(&wrong, &cookies), None, "{first}");
    }
    assert!(Session::open(&keys(), "others", sealed.as_bytes(), NOW).is_none());
    let later = Now { unix_s: 2_000, ..NOW };
    assert!(Session::open(&keys(), "staff", sealed.as_bytes(), later).is_none(), "it has ended");
    let attempt = begin((b"/", None), None, &SystemEntropy, NOW).seal(&keys(), "staff").unwrap();
    assert!(Session::open(&keys(), "staff", attempt.as_bytes(), NOW).is_none());
}

#[test]
fn an_attempt_is_for_one_login_and_state_and_ends() {
    let (cookies, mut browser) = (Cookies::of("staff", true), HashMap::new());
    let begin = |_| begin((b"/a", Some(b"b")), Some(60), &SystemEntropy, NOW);
    let attempts: Vec<_> = (0..2).map(begin).collect();
    for attempt in &attempts {
        let mut lines = Vec::new();
        let sealed = attempt.seal(&keys(), "staff").unwrap();
        cookies.set_attempt(&attempt.state, &sealed, &mut lines);
        store(&mut browser, &lines);
    }
    let find = |state: &str, login: &str, unix_s: u64| {
        let value = |name: &str| browser.get(name).map(String::as_bytes);
        let sealed = cookies.attempt(state.as_bytes(), value)?;
        SignInAttempt::open(&keys(), login, (sealed, state.as_bytes()), Now { unix_s, ..NOW })
    };
    for attempt in &attempts {
        assert_eq!(find(&attempt.state, "staff", 1_000).as_ref(), Some(attempt));
        assert_eq!(attempt.target, "/a?b");
        assert_eq!(find(&attempt.state, "others", 1_000), None);
        assert_eq!(find(&attempt.state, "staff", 1_000 + SIGN_IN_S_MAX), None);
        let other = format!("{}x", &attempt.state[..42]);
        assert_eq!(find(&other, "staff", 1_000), None, "the same cookie");
        assert_ne!(attempt.challenge(), attempt.verifier);
    }
    assert_eq!(find("", "staff", 1_000), None);
    assert_eq!(find("a;b", "staff", 1_000), None);
    let mut names: Vec<_> =
        browser.keys().map(|name| cookies.attempt_of(name.as_bytes()).unwrap()).collect();
    let mut states: Vec<_> = attempts.iter().map(|attempt| &attempt.state[..8]).collect();
    names.sort_unstable();
    states.sort_unstable();
    assert_eq!(names, states);
    assert_eq!(cookies.attempt_of(b"__Host-penstock-login-staff"), None);
    assert_eq!(cookies.attempt_of(b"__Host-penstock-login-staff2~abc"), None);
}

#[test]
fn a_browser_returns_to_its_own_origin_only() {
    for (path, query, expect) in [
        ("/a/b", None, "/a/b"),
        ("/a", Some("b=c&d"), "/a?b=c&d"),
        ("/a", Some(""), "/a?"),
        ("//evil.example/x", None, "/"),
        ("/\\evil.example", None, "/"),
        ("https://evil.example/", None, "/"),
        ("*", None, "/"),
        ("", None, "/"),
        ("/a\r\nSet-Cookie: b", None, "/"),
        ("/\u{e9}", None, "/"),
    ] {
        assert_eq!(target(path.as_bytes(), query.map(str::as_bytes)), expect, "{path}");
    }
    let long = "a".repeat(SIGN_IN_TARGET_BYTES_MAX);
    assert_eq!(target(b"/", Some(long.as_bytes())), "/");
}

#[test]
fn only_what_a_user_sees_is_a_navigation() {
    const HTML: &[u8] = b"text/html,application/xhtml+xml,*/*;q=0.8";
    for (method, accept, mode, expect) in [
        (Method::Get, Some(HTML), Some(&b"navigate"[..]), true),
        (Method::Get, Some(HTML), None, true),
        (Method::Get, Some(b"application/json, Text/HTML;q=0.1"), None, true),
        (Method::Get, Some(HTML), Some(b"cors"), false),
        (Method::Post, Some(HTML), Some(b"navigate"), false),
        (Method::Head, Some(HTML), None, false),
        (Method::Get, Some(b"*/*"), None, false),
        (Method::Get, Some(b"application/json"), Some(b"navigate"), false),
        (Method::Get, Some(b"text/html5"), None, false),
        (Method::Get, None, None, false),
    ] {
        assert_eq!(is_navigation(method, accept, mode), expect, "{accept:?} {mode:?}");
    }
}

#[test]
fn another_site_is_told_from_this_origin() {
    let check = |site: Option<&str>, origin: Option<&str>| {
        let [site, origin] = [site, origin].map(|text| text.map(str::as_bytes));
        is_same_origin(site, origin, (b"https", b"app.example:8443"))
    };
    assert!(check(Some("same-origin"), None));
    assert!(check(Some("none"), None), "the user has typed the address");
    assert!(check(None, Some("https://APP.example:8443")));
    for (site, origin) in [
        (Some("cross-site"), Some("https://app.example:8443")),
        (Some("same-site"), None),
        (Some(""), None),
        (None, Some("https://app.example")),
        (None, Some("http://app.example:8443")),
        (None, Some("https://app.example:8443.evil.example")),
        (None, Some("https://evil.example")),
        (None, Some("null")),
        (None, None),
    ] {
        assert!(!check(site, origin), "{site:?} {origin:?}");
    }
}
