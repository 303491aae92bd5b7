//! Tokens that are not JWTs.

use std::rc::Rc;
use std::sync::Arc;

use base::limits;
use jose::KeySet;
use model::{AuthFailure, Caller, Introspection, Issuer};

use super::{Fixture, SECRET, issuer};
use crate::authenticate::{self, Identity, Question, refuse};

#[test]
fn a_token_with_other_than_two_dots_is_left_to_the_issuers() {
    let mut fixture = Fixture::new(vec![issuer(1), introspected()]);
    for token in ["x", "a.b", "a.b.c.d", "a.b.c.d.e", "2YotnFZFEjr1zCsicMWpAA", "a/b+c~d=="] {
        assert_eq!(fixture.identify(token), Identity::Ask(Question::Token), "{token}");
    }
    for token in ["a.b.c", "..", "a b", "=", "", "a=b"] {
        fixture.check(token, Err(AuthFailure::MalformedToken), token);
    }
    let mut keys_only = Fixture::new(vec![issuer(1)]);
    keys_only.check("2YotnFZFEjr1zCsicMWpAA", Err(AuthFailure::MalformedToken), "nobody to ask");
}

#[test]
fn an_active_token_is_cached_until_it_expires_or_cache_s_is_over() {
    for (response, until_s, then) in [
        (r#"{"active":true,"exp":1700000060}"#, 60, Identity::Rejected(AuthFailure::Expired)),
        (r#"{"active":true,"exp":1700009999}"#, 100, Identity::Ask(Question::Token)),
        (r#"{"active":true}"#, 100, Identity::Ask(Question::Token)),
    ] {
        let mut fixture = Fixture::new(vec![introspected()]);
        let known = conclude(&mut fixture, "token", response).unwrap().unwrap();
        fixture.after_s(until_s - 1);
        assert_eq!(fixture.identify("token"), Identity::Known(known), "{response}");
        fixture.after_s(1);
        assert_eq!(fixture.identify("token"), then, "{response}");
        assert_eq!(fixture.identify("token"), Identity::Ask(Question::Token), "{response}");
    }
}

#[test]
fn the_callers_of_similar_tokens_are_kept_apart() {
    let mut fixture = Fixture::new(vec![introspected()]);
    let tail = "0123456789abcdef0123456789abcdef";
    let tokens: Vec<String> = ["a", "b"].map(|start| format!("{start}{tail}")).into();
    for token in &tokens {
        let response = format!(r#"{{"active":true,"sub":"{token}"}}"#);
        conclude(&mut fixture, token, &response).unwrap();
    }
    // Both tokens have the same key, so the second has replaced the first.
    assert_eq!(fixture.identify(&tokens[0]), Identity::Ask(Question::Token));
    assert_eq!(fixture.known(&tokens[1]).subject.as_deref(), Some(&*tokens[1]));
    assert_eq!(fixture.identify(tail), Identity::Ask(Question::Token));
}

#[test]
fn a_token_that_is_not_active_is_rejected_for_a_while() {
    let mut fixture = Fixture::new(vec![introspected()]);
    assert_eq!(conclude(&mut fixture, "token", r#"{"active":false}"#), Ok(None));
    assert_eq!(
        fixture.identify("token"),
        Identity::Ask(Question::Token),
        "another issuer may know it"
    );
    refuse(&mut fixture.cache, b"token", fixture.now);
    fixture.check("token", Err(AuthFailure::InactiveToken), "just asked about");
    for other in ["toke", "token0", "tokem", "token\0", "0token"] {
        let expect = if other.contains('\0') {
            Identity::Rejected(AuthFailure::MalformedToken)
        } else {
            Identity::Ask(Question::Token)
        };
        assert_eq!(fixture.identify(other), expect, "{other}");
    }
    fixture.after_s(limits::INACTIVE_TOKEN_S);
    assert_eq!(fixture.identify("token"), Identity::Ask(Question::Token));
}

#[test]
fn a_revoked_token_is_rejected_without_asking() {
    let mut fixture = Fixture::new(vec![introspected()]);
    fixture.revoke(&["other"]);
    conclude(&mut fixture, "token", r#"{"active":true,"jti":"id"}"#).unwrap();
    fixture.revoke(&["id"]);
    assert!(matches!(fixture.identify("token"), Identity::Known(_)), "its hash counts");
    fixture.revoke(&["token"]);
    fixture.check("token", Err(AuthFailure::Revoked), "it is cached");
    let late = conclude(&mut fixture, "token", r#"{"active":true}"#);
    assert_eq!(late, Err(AuthFailure::Revoked), "the response was on its way");
}

#[test]
fn a_changed_issuer_is_asked_again() {
    let mut fixture = Fixture::new(vec![introspected()]);
    conclude(&mut fixture, "token", r#"{"active":true}"#).unwrap();
    fixture.issuers = vec![Arc::new(Issuer { revision: 2, ..introspected() })];
    assert_eq!(fixture.identify("token"), Identity::Ask(Question::Token));
    // Without an introspection endpoint, none of its opaque tokens is accepted any more.
    conclude(&mut fixture, "token", r#"{"active":true}"#).unwrap();
    fixture.issuers = vec![Arc::new(issuer(3))];
    fixture.check("token", Err(AuthFailure::MalformedToken), "nobody to ask");
}

/// An issuer without keys, whose opaque tokens are cached for 100 s.
fn introspected() -> Issuer {
    let introspection = Introspection {
        url: "https://idp.example/introspect".to_owned(),
        client_id: "gateway".to_owned(),
        client_secret: SECRET.to_vec(),
        cache_s: 100,
    };
    Issuer { keys: KeySet::default(), introspection: Some(introspection), ..issuer(1) }
}

/// Evaluates `response` of the first issuer for `token`.
fn conclude(
    fixture: &mut Fixture,
    token: &str,
    response: &str,
) -> Result<Option<Rc<Caller>>, AuthFailure> {
    let (token, response) = (token.as_bytes(), response.as_bytes());
    let Fixture { cache, issuers, now } = fixture;
    authenticate::conclude(cache, token, issuers, 0, response, *now)
}
