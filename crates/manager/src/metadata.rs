//! Metadata for clients and gateways: the public keys, and the addresses and abilities of the key manager.

use jose::Algorithm;
use serde_json::json;

use crate::manager::Manager;
use crate::oidc::OPENID;
use crate::register::methods;
use crate::reply::{self, Reply};
use crate::token::GRANTS;

/// Source: RFC 7517 section 5.
pub(crate) fn jwks(manager: &Manager) -> Reply {
    reply::document(manager.keys().jwks())
}

/// The discovery document. Source: RFC 8414 section 2, OpenID Connect Discovery 1.0 section 3.
pub(crate) fn discovery(manager: &Manager) -> Reply {
    let base = origin(&manager.issuer);
    let asymmetric = Algorithm::ALL.map(|algorithm| algorithm.to_string());
    let asymmetric = asymmetric.iter().filter(|name| !name.starts_with("HS")).collect::<Vec<_>>();
    let methods = methods(manager);
    let with_proof: Vec<_> = methods.iter().filter(|method| **method != "none").collect();
    let document = json!({
        "issuer": manager.issuer,
        "authorization_endpoint": format!("{base}/oauth2/authorize"),
        "token_endpoint": format!("{base}/oauth2/token"),
        "revocation_endpoint": format!("{base}/oauth2/revoke"),
        "introspection_endpoint": format!("{base}/oauth2/introspect"),
        "jwks_uri": format!("{base}/oauth2/jwks"),
        "registration_endpoint": format!("{base}/api/identity/oauth2/dcr/v1.1/register"),
        "device_authorization_endpoint": format!("{base}/oauth2/device_authorize"),
        "userinfo_endpoint": format!("{base}/oauth2/userinfo"),
        "end_session_endpoint": format!("{base}/oidc/logout"),
        "scopes_supported": [OPENID],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [manager.keys().algorithm().to_string()],
        "claims_supported": [
            "iss", "sub", "aud", "azp", "sid", "iat", "exp", "auth_time", "nonce", "at_hash",
            "preferred_username",
        ],
        "response_modes_supported": ["query"],
        "claims_parameter_supported": false,
        "request_parameter_supported": false,
        "request_uri_parameter_supported": false,
        "grant_types_supported": GRANTS,
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "introspection_endpoint_auth_methods_supported": with_proof,
        "dpop_signing_alg_values_supported": asymmetric,
        "tls_client_certificate_bound_access_tokens": manager.accepts_certificates,
        "token_endpoint_auth_signing_alg_values_supported": asymmetric,
        "access_token_signing_alg_values_supported": manager.keys().algorithms(),
    });
    reply::document(&document.to_string())
}

/// Scheme, host and port of a URL.
pub(crate) fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme.saturating_add(3));
    let path = url.get(host..).and_then(|rest| rest.find('/'));
    path.and_then(|path| url.get(..host.saturating_add(path))).unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_the_issuer_is_that_of_the_endpoints() {
        for (url, expect) in [
            ("https://localhost:9443/oauth2/token", "https://localhost:9443"),
            ("https://id.example.org", "https://id.example.org"),
            ("https://[::1]:9443/", "https://[::1]:9443"),
        ] {
            assert_eq!(origin(url), expect);
        }
    }
}
