//! The descriptions in `examples/` are accepted without diagnostics.

use std::path::Path;

use model::{Accepts, Api, ScopeRule, Security, UpstreamKind};
use penstock_formats::openapi::{Defaults, read};

#[test]
fn the_echo_example_is_secured_on_every_method() {
    let api = load("echo.yaml");
    assert_eq!((api.base_path.as_str(), api.operations.len()), ("/echo/1.0.0", 7));
    let secured = Security::Required(Accepts::token(ScopeRule::Anything));
    assert!(api.operations.iter().all(|op| op.template == "/*" && op.security == secured));
    assert_eq!(api.upstreams[api.production.unwrap()].endpoints[0].authority, "127.0.0.1:8688");
}

#[test]
fn the_pets_example_shows_scopes_endpoints_and_cors() {
    let api = load("pets.yaml");
    assert_eq!(api.default_path.as_deref(), Some("/pets"));
    assert_eq!(api.upstreams[api.production.unwrap()].kind, UpstreamKind::RoundRobin);
    assert_eq!(api.upstreams[api.production.unwrap()].response_head_ms, 5_000);
    assert_eq!(api.upstreams[api.sandbox.unwrap()].endpoints[0].port, 8703);
    assert!(api.cors.as_ref().is_some_and(|cors| cors.allow_origins.len() == 2));
    let operations: Vec<String> = api
        .operations
        .iter()
        .map(|op| {
            let security = match &op.security {
                Security::Open => "open".to_owned(),
                Security::Required(accepts) => match accepts.token.as_ref().map(|it| &it.scopes) {
                    None => "keys".to_owned(),
                    Some(ScopeRule::Anything) => "token".to_owned(),
                    Some(ScopeRule::AnyOf(scopes)) => format!("any {}", scopes.join(" ")),
                    Some(ScopeRule::AllOf(scopes)) => format!("all {}", scopes.join(" ")),
                },
            };
            let own = op.production.map_or("", |_| " own endpoints");
            format!("{} {} {security}{own}", op.method.as_str(), op.template)
        })
        .collect();
    assert_eq!(
        operations,
        [
            "GET /pets any pets:read",
            "POST /pets any pets:write pets:admin",
            "GET /pets/{id} any pets:read",
            "DELETE /pets/{id} all pets:write pets:admin",
            "GET /pets/{id}/photos/* any pets:read own endpoints",
            "GET /opening-hours open",
        ]
    );
}

#[test]
fn the_token_urls_example_needs_no_credential_and_forwards_them() {
    let api = load("token-urls.yaml");
    assert!(api.base_path.is_empty() && api.forward_auth_header);
    assert!(api.operations.iter().all(|op| op.security == Security::Open));
}

#[track_caller]
fn load(name: &str) -> Api {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    let text = std::fs::read(&file).unwrap();
    let defaults = Defaults::default();
    let outcome =
        read(&file, &text, &|name| Err(format!("{name}: unexpected reference")), &defaults);
    assert_eq!(outcome.diagnostics, []);
    outcome.api.unwrap()
}
