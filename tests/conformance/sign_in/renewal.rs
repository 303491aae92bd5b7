//! Sessions whose access token expires: they are renewed once, by the request that needs it.

use std::sync::{Arc, OnceLock};

use base::limits::{SESSION_MARGIN_S, SESSION_RENEWALS_MAX};
use harness::{CannedResponse, Client, Upstream, wait_until};
use serde_json::json;

use super::{Behaviour, Provider, browser, builder, grow_old, sent_away, sign_in};

#[test]
fn a_session_is_renewed_once_however_many_requests_need_it() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let builder = builder(&provider, &upstream);
    let gateway = Arc::new(builder.settings(|settings| settings.gateway.workers = Some(4)).start());
    provider.tell(|told| told.members.push(("expires_in", json!(0))));
    let mut browser = browser(&gateway);
    sign_in(&mut browser);
    provider.tell(|told| told.members.clear());
    let old = browser.cookies.clone();
    let head = browser.head("GET /a/x", "");
    let mut clients: Vec<_> = (0..16).map(|_| gateway.connect_tls()).collect();
    for client in &mut clients {
        client.send(&head);
    }
    let responses: Vec<_> = clients.iter_mut().map(Client::read).collect();
    for response in &responses {
        assert_eq!(response.text(), "served");
        browser.store(response);
    }
    assert_eq!(provider.renewals(), 1);
    assert_ne!(browser.cookies, old);
    let response = browser.send("GET /a/x", "");
    assert_eq!((response.text().as_str(), response.header("set-cookie")), ("served", None));
    // A browser that has lost the response sends the old cookie again.
    browser.cookies = old;
    assert_eq!(browser.send("GET /a/x", "").text(), "served");
    assert_eq!(provider.renewals(), 1);
}

#[test]
fn a_refresh_token_is_sent_once_even_if_the_provider_closes_the_connection() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    provider.tell(|told| told.members.push(("expires_in", json!(0))));
    let mut browser = browser(&gateway);
    sign_in(&mut browser);
    provider.tell(|told| told.closes = true);
    assert_eq!(browser.send("GET /a/x", "").status, 503);
    assert_eq!(provider.renewals(), 1);
}

#[test]
fn requests_do_not_wait_for_the_renewal_of_a_session_that_has_not_expired() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let builder = builder(&provider, &upstream);
    let gateway = Arc::new(builder.settings(|settings| settings.gateway.workers = Some(4)).start());
    provider.tell(|told| told.members.push(("expires_in", json!(SESSION_MARGIN_S))));
    let mut browser = browser(&gateway);
    sign_in(&mut browser);
    provider.tell(|told| told.members.clear());
    let old = browser.cookies.clone();
    // The provider's response waits for this.
    let held = provider.behaviour.lock().unwrap();
    let head = browser.head("GET /a/x", "");
    let mut clients: Vec<_> = (0..16).map(|_| gateway.connect_tls()).collect();
    for client in &mut clients {
        client.send(&head);
    }
    for response in clients.iter_mut().map(Client::read) {
        assert_eq!((response.text().as_str(), response.header("set-cookie")), ("served", None));
    }
    drop(held);
    // The browser gets the session with one of its next requests, however often it has sent the old cookie.
    wait_until(|| {
        browser.cookies = old.clone();
        browser.send("GET /a/x", "").header("set-cookie").is_some()
    });
    assert_eq!(provider.renewals(), 1);
    let response = browser.send("GET /a/x", "");
    assert_eq!((response.text().as_str(), response.header("set-cookie")), ("served", None));
    assert_eq!(provider.renewals(), 1);
}

#[test]
fn a_session_that_is_renewed_during_a_request_is_given_with_its_response() {
    let provider = Provider::start();
    // The slow response waits until another request with the same cookie has got the new session.
    let again: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>> = Arc::default();
    let own = Arc::clone(&again);
    let upstream = Upstream::responding(move |request| {
        if request.target() == "/slow" {
            own.get().unwrap()();
        }
        CannedResponse::ok("served")
    });
    let gateway = Arc::new(builder(&provider, &upstream).start());
    provider.tell(|told| told.members.push(("expires_in", json!(SESSION_MARGIN_S))));
    let mut browser = browser(&gateway);
    sign_in(&mut browser);
    let (head, slow) = (browser.head("GET /a/x", ""), browser.head("GET /a/slow", ""));
    let other = Arc::downgrade(&gateway);
    let renewed = move || {
        let gateway = other.upgrade().unwrap();
        let send = || gateway.connect_tls().send(&head).read();
        wait_until(|| send().header("set-cookie").is_some());
    };
    assert!(again.set(Box::new(renewed)).is_ok());
    let response = gateway.connect_tls().send(&slow).read();
    assert_eq!(response.text(), "served");
    assert!(response.header("set-cookie").is_some(), "{}", response.head);
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(provider.renewals(), 1);
}

#[test]
fn a_user_who_signs_out_with_the_old_cookie_ends_the_session_that_was_renewed() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    provider.tell(|told| told.members.push(("expires_in", json!(SESSION_MARGIN_S))));
    let mut browser = browser(&gateway);
    sign_in(&mut browser);
    let old = browser.cookies.clone();
    browser.send("GET /a/x", "");
    wait_until(|| provider.renewals() == 1);
    browser.cookies = old;
    let response = browser.send("GET /.login/staff/logout", "Sec-Fetch-Site: same-origin\r\n");
    assert_eq!(response.status, 303);
    let revoked = provider.server.requests();
    let revoked = revoked.iter().find(|request| request.target() == "/revoke").unwrap();
    assert!(revoked.text().starts_with("token=refresh-1&"), "{}", revoked.text());
}

#[test]
fn a_session_whose_refresh_token_stays_is_renewed_whenever_its_access_token_expires() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let gateway = Arc::new(builder(&provider, &upstream).start());
    let mut browser = browser(&gateway);
    provider.tell(|told| told.members.push(("expires_in", json!(0))));
    sign_in(&mut browser);
    provider.tell(|told| {
        told.keeps_refresh_tokens = true;
        told.members.push(("refresh_token", json!(null)));
    });
    for number in 1..=3 {
        assert_eq!(browser.send("GET /a/x", "").text(), "served");
        assert_eq!(provider.renewals(), number);
    }
}

/// A browser that has lost the responses with its new cookies sends the old one, whose session was renewed to one that
/// has expired since, or to several.
#[test]
fn a_session_that_was_renewed_and_has_expired_since_is_renewed_again_a_few_times() {
    const MOST: usize = SESSION_RENEWALS_MAX;
    for (expired, expect, renewals) in [
        (0, "200, 200, 200, 200", 1),
        (MOST - 1, "200, 200, 200, 200", MOST),
        (MOST, "200, 200, 200, 503 503003", MOST),
    ] {
        let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
        let gateway = Arc::new(builder(&provider, &upstream).start());
        provider.tell(|told| told.members.push(("expires_in", json!(0))));
        let mut browser = browser(&gateway);
        sign_in(&mut browser);
        let old = browser.cookies.clone();
        // Each refresh token is good for once.
        let found = (0..=MOST).map(|sent| {
            if sent == expired {
                provider.tell(|told| told.members.clear());
            }
            browser.cookies = old.clone();
            browser.send("GET /a/x", "").status_and_code()
        });
        assert_eq!(found.collect::<Vec<_>>().join(", "), expect, "{expired}");
        assert_eq!(provider.renewals(), renewals, "{expired}");
    }
}

#[test]
fn a_session_that_cannot_be_renewed_ends_unless_the_provider_is_only_down() {
    let (provider, upstream) = (Provider::start(), Upstream::fixed("served"));
    let start = || {
        let gateway = Arc::new(builder(&provider, &upstream).start());
        provider.tell(|told| *told = Behaviour::default());
        provider.tell(|told| told.members.push(("expires_in", json!(0))));
        let mut browser = browser(&gateway);
        sign_in(&mut browser);
        browser
    };
    let mut browser = start();
    provider.tell(|told| told.status = Some(400));
    assert_eq!(browser.send("GET /a/x", "").status_and_code(), "401 900901");
    let opened = browser.open("/a/x");
    assert_eq!(opened.status_and_code(), "401 900901", "the user has just signed in");
    grow_old(&mut browser);
    sent_away(&browser.open("/a/x"));
    let mut browser = start();
    provider.tell(|told| told.status = Some(500));
    assert_eq!(browser.send("GET /a/x", "").status_and_code(), "503 503003");
    // Without a refresh token.
    provider.tell(|told| told.members.push(("refresh_token", json!(null))));
    let mut browser = start();
    provider.tell(|told| told.members.clear());
    assert_eq!(browser.send("GET /a/x", "").text(), "served");
}
