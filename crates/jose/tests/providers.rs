//! Discovery documents and access tokens in the shapes of identity providers, which docs/tokens.md describes.
//!
//! Source: the published documents and token references of Keycloak, Microsoft Entra ID, Okta, Auth0, Amazon Cognito,
//! Google and Firebase.

use penstock_jose::{Claims, jwks_uri, sign_in_endpoints};

/// Checks the issuer, the URL of its keys, and the URLs for signing in and out.
#[track_caller]
fn check_document(document: &str, issuer: &str, expect: [&str; 4]) {
    let [keys, authorize, token, logout] = expect;
    assert_eq!(jwks_uri(document.as_bytes(), issuer).as_deref(), Ok(keys));
    let found = sign_in_endpoints(document.as_bytes(), issuer).unwrap();
    assert_eq!((found.authorize.as_str(), found.token.as_str()), (authorize, token));
    assert_eq!(found.logout.as_deref().unwrap_or_default(), logout);
}

/// `CLIENT SUBJECT AUDIENCES SCOPES`
#[track_caller]
fn check_token(claims: &str, expect: &str) {
    let claims = Claims::parse(claims.as_bytes()).unwrap();
    assert!(!claims.has_other_use && claims.confirmation.is_none());
    let client = claims.client_id.or(claims.azp).or(claims.other_client_id).unwrap_or_default();
    let (audiences, scopes) = (claims.aud.join(","), claims.scopes.join(","));
    let subject = claims.sub.unwrap_or_default();
    assert_eq!(format!("{client} {subject} {audiences} {scopes}"), expect);
}

#[test]
fn keycloak() {
    let document = r#"{
        "issuer": "https://id.example/realms/staff",
        "authorization_endpoint": "https://id.example/realms/staff/protocol/openid-connect/auth",
        "token_endpoint": "https://id.example/realms/staff/protocol/openid-connect/token",
        "introspection_endpoint": "https://id.example/realms/staff/protocol/openid-connect/token/introspect",
        "end_session_endpoint": "https://id.example/realms/staff/protocol/openid-connect/logout",
        "jwks_uri": "https://id.example/realms/staff/protocol/openid-connect/certs",
        "mtls_endpoint_aliases": {"token_endpoint": "https://id.example/mtls"},
        "dpop_signing_alg_values_supported": ["ES256"]
    }"#;
    let at = |path: &str| format!("https://id.example/realms/staff/protocol/openid-connect/{path}");
    let expect = [at("certs"), at("auth"), at("token"), at("logout")];
    let expect = expect.each_ref().map(String::as_str);
    check_document(document, "https://id.example/realms/staff", expect);
    let token = r#"{"exp":1,"iat":1,"jti":"onrtac:1","iss":"https://id.example/realms/staff","aud":["orders","account"],
        "sub":"3f1c","typ":"Bearer","azp":"web","sid":"8d","acr":"1","allowed-origins":["https://app.example"],
        "realm_access":{"roles":["offline_access"]},"resource_access":{"account":{"roles":["view-profile"]}},
        "scope":"openid profile orders","email_verified":true,"preferred_username":"ann"}"#;
    check_token(token, "web 3f1c orders,account openid,profile,orders");
}

#[test]
fn entra_id() {
    let document = r#"{
        "token_endpoint": "https://login.microsoftonline.com/11111111-2222/oauth2/v2.0/token",
        "jwks_uri": "https://login.microsoftonline.com/11111111-2222/discovery/v2.0/keys",
        "issuer": "https://login.microsoftonline.com/11111111-2222/v2.0",
        "request_uri_parameter_supported": false,
        "authorization_endpoint": "https://login.microsoftonline.com/11111111-2222/oauth2/v2.0/authorize",
        "end_session_endpoint": "https://login.microsoftonline.com/11111111-2222/oauth2/v2.0/logout",
        "kerberos_endpoint": "https://login.microsoftonline.com/11111111-2222/kerberos",
        "tenant_region_scope": "EU", "cloud_instance_name": "microsoftonline.com"
    }"#;
    let at = |path: &str| format!("https://login.microsoftonline.com/11111111-2222/{path}");
    let expect =
        ["discovery/v2.0/keys", "oauth2/v2.0/authorize", "oauth2/v2.0/token", "oauth2/v2.0/logout"];
    let expect = expect.map(at);
    let expect = expect.each_ref().map(String::as_str);
    check_document(document, "https://login.microsoftonline.com/11111111-2222/v2.0", expect);
    // The document for all tenants belongs to no single issuer.
    let common = document.replace("11111111-2222/v2.0\",", "{tenantid}/v2.0\",");
    assert!(jwks_uri(common.as_bytes(), "https://login.microsoftonline.com/common/v2.0").is_err());
    let token = r#"{"aud":"6e74172b","iss":"https://login.microsoftonline.com/11111111-2222/v2.0","iat":1,"nbf":1,"exp":1,
        "aio":"A","azp":"43e9","azpacr":"1","name":"Ann","oid":"c3","rh":"I","scp":"Orders.Read Orders.Write","sub":"HK",
        "tid":"11111111-2222","uti":"f","ver":"2.0"}"#;
    check_token(token, "43e9 HK 6e74172b Orders.Read,Orders.Write");
    let first = r#"{"aud":"api://6e74172b","iss":"https://sts.windows.net/11111111-2222/","iat":1,"nbf":1,"exp":1,"acr":"1",
        "aio":"A","amr":["pwd"],"appid":"43e9","appidacr":"1","ipaddr":"192.0.2.1","name":"Ann","oid":"c3","rh":"I",
        "scp":"Orders.Read","sub":"HK","tid":"11111111-2222","unique_name":"ann@example.org","uti":"f","ver":"1.0"}"#;
    check_token(first, "43e9 HK api://6e74172b Orders.Read");
}

#[test]
fn okta() {
    let issuer = "https://org.okta.com/oauth2/default";
    let document = r#"{
        "issuer": "https://org.okta.com/oauth2/default",
        "authorization_endpoint": "https://org.okta.com/oauth2/default/v1/authorize",
        "token_endpoint": "https://org.okta.com/oauth2/default/v1/token",
        "registration_endpoint": "https://org.okta.com/oauth2/v1/clients",
        "jwks_uri": "https://org.okta.com/oauth2/default/v1/keys",
        "introspection_endpoint": "https://org.okta.com/oauth2/default/v1/introspect",
        "end_session_endpoint": "https://org.okta.com/oauth2/default/v1/logout",
        "request_object_signing_alg_values_supported": ["HS256", "RS256", "ES256"],
        "dpop_signing_alg_values_supported": ["RS256", "ES256"]
    }"#;
    let expect = ["keys", "authorize", "token", "logout"].map(|name| format!("{issuer}/v1/{name}"));
    check_document(document, issuer, expect.each_ref().map(String::as_str));
    // The organisation itself is another issuer.
    assert!(jwks_uri(document.as_bytes(), "https://org.okta.com").is_err());
    let of_user = r#"{"ver":1,"jti":"AT.1","iss":"https://org.okta.com/oauth2/default","aud":"api://orders","iat":1,"exp":1,
        "cid":"0oa1","uid":"00u1","scp":["openid","orders.read"],"auth_time":1,"sub":"ann@example.org"}"#;
    check_token(of_user, "0oa1 ann@example.org api://orders openid,orders.read");
    let of_client = r#"{"ver":1,"jti":"AT.2","iss":"https://org.okta.com/oauth2/default","aud":"api://orders","iat":1,
        "exp":1,"cid":"0oa1","scp":["orders.read"],"sub":"0oa1"}"#;
    check_token(of_client, "0oa1 0oa1 api://orders orders.read");
}

#[test]
fn auth0() {
    let document = r#"{
        "issuer": "https://tenant.eu.auth0.com/",
        "authorization_endpoint": "https://tenant.eu.auth0.com/authorize",
        "token_endpoint": "https://tenant.eu.auth0.com/oauth/token",
        "end_session_endpoint": "https://tenant.eu.auth0.com/oidc/logout",
        "jwks_uri": "https://tenant.eu.auth0.com/.well-known/jwks.json"
    }"#;
    let at = |path: &str| format!("https://tenant.eu.auth0.com/{path}");
    let expect = [".well-known/jwks.json", "authorize", "oauth/token", "oidc/logout"].map(at);
    let expect = expect.each_ref().map(String::as_str);
    check_document(document, "https://tenant.eu.auth0.com/", expect);
    assert!(jwks_uri(document.as_bytes(), "https://tenant.eu.auth0.com").is_err(), "the slash");
    let own = r#"{"iss":"https://tenant.eu.auth0.com/","sub":"auth0|12","aud":["https://orders.example","https://tenant.eu.auth0.com/userinfo"],
        "azp":"K1AU","exp":1,"iat":1,"scope":"openid read:orders","permissions":["read:orders"]}"#;
    let audiences = "https://orders.example,https://tenant.eu.auth0.com/userinfo";
    check_token(own, &format!("K1AU auth0|12 {audiences} openid,read:orders"));
    let standard = r#"{"iss":"https://tenant.eu.auth0.com/","sub":"K1AU@clients","aud":"https://orders.example","client_id":"K1AU",
        "exp":1,"iat":1,"jti":"7","scope":"read:orders"}"#;
    check_token(standard, "K1AU K1AU@clients https://orders.example read:orders");
}

/// An ID token, which is not accepted.
#[track_caller]
fn check_id_token(claims: &str) {
    assert!(Claims::parse(claims.as_bytes()).unwrap().has_other_use, "{claims}");
}

#[test]
fn cognito() {
    let issuer = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Ab1";
    let domain = "https://shop.auth.eu-central-1.amazoncognito.com";
    let document = r#"{
        "authorization_endpoint": "https://shop.auth.eu-central-1.amazoncognito.com/oauth2/authorize",
        "end_session_endpoint": "https://shop.auth.eu-central-1.amazoncognito.com/logout",
        "id_token_signing_alg_values_supported": ["RS256"],
        "issuer": "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Ab1",
        "jwks_uri": "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Ab1/.well-known/jwks.json",
        "response_types_supported": ["code", "token"],
        "token_endpoint": "https://shop.auth.eu-central-1.amazoncognito.com/oauth2/token",
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"]
    }"#;
    let keys = format!("{issuer}/.well-known/jwks.json");
    let at =
        ["/oauth2/authorize", "/oauth2/token", "/logout"].map(|path| format!("{domain}{path}"));
    check_document(document, issuer, [&keys, &at[0], &at[1], &at[2]]);
    let access = r#"{"sub":"aaaa","cognito:groups":["staff"],"iss":"https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Ab1",
        "version":2,"client_id":"1example","origin_jti":"o","event_id":"e","token_use":"access",
        "scope":"openid orders/read","auth_time":1,"exp":1,"iat":1,"jti":"j","username":"ann"}"#;
    check_token(access, "1example aaaa  openid,orders/read");
    check_id_token(
        r#"{"sub":"aaaa","aud":"1example","event_id":"e","token_use":"id","auth_time":1,"exp":1,"iat":1,
        "iss":"https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_Ab1","cognito:username":"ann"}"#,
    );
}

#[test]
fn google() {
    let document = r#"{
        "issuer": "https://accounts.google.com",
        "authorization_endpoint": "https://accounts.google.com/o/oauth2/v2/auth",
        "device_authorization_endpoint": "https://oauth2.googleapis.com/device/code",
        "token_endpoint": "https://oauth2.googleapis.com/token",
        "userinfo_endpoint": "https://openidconnect.googleapis.com/v1/userinfo",
        "revocation_endpoint": "https://oauth2.googleapis.com/revoke",
        "jwks_uri": "https://www.googleapis.com/oauth2/v3/certs"
    }"#;
    check_document(
        document,
        "https://accounts.google.com",
        [
            "https://www.googleapis.com/oauth2/v3/certs",
            "https://accounts.google.com/o/oauth2/v2/auth",
            "https://oauth2.googleapis.com/token",
            "",
        ],
    );
    let of_service = r#"{"aud":"https://orders.example","azp":"1138","email":"job@project.iam.gserviceaccount.com",
        "email_verified":true,"exp":1,"iat":1,"iss":"https://accounts.google.com","sub":"1138"}"#;
    check_token(of_service, "1138 1138 https://orders.example ");
    check_id_token(
        r#"{"iss":"https://accounts.google.com","azp":"1.apps.googleusercontent.com","sub":"1076",
        "aud":"1.apps.googleusercontent.com","at_hash":"HK6E_P6Dh8Y93mRNtsDB1Q","nonce":"0394","iat":1,"exp":1}"#,
    );
}

#[test]
fn firebase() {
    let issuer = "https://securetoken.google.com/shop";
    let document = r#"{
        "issuer": "https://securetoken.google.com/shop",
        "jwks_uri": "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com",
        "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"]
    }"#;
    let keys =
        "https://www.googleapis.com/service_accounts/v1/jwk/securetoken@system.gserviceaccount.com";
    assert_eq!(jwks_uri(document.as_bytes(), issuer).as_deref(), Ok(keys));
    let token = r#"{"iss":"https://securetoken.google.com/shop","aud":"shop","auth_time":1,"user_id":"u1","sub":"u1","iat":1,
        "exp":1,"email":"ann@example.org","email_verified":true,
        "firebase":{"identities":{"email":["ann@example.org"]},"sign_in_provider":"password"}}"#;
    check_token(token, " u1 shop ");
}
