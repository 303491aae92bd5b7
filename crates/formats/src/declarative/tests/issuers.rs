//! `[[issuer]]`.

use super::*;

#[test]
fn every_source_of_keys_reaches_its_issuer() {
    let issuers = load(FULL).0.expect("it is complete").issuers;
    let keys: Vec<&KeySource> = issuers.iter().map(|issuer| &issuer.keys).collect();
    let secret = || KeySource::Secret(SECRET.as_bytes().to_vec());
    let expect = [
        KeySource::JwksFile(PathBuf::from("etc/keys/jwks.json")),
        KeySource::JwksUrl("https://partner.example/keys?v=1".to_owned()),
        KeySource::Pem(PathBuf::from("etc/keys/key.pem")),
        secret(),
        secret(),
        KeySource::Discovery("https://idp.example/realms/a".to_owned()),
    ];
    assert!(keys.iter().zip(&expect).all(|(found, expect)| *found == expect), "{keys:?}");
    assert_eq!(keys.len(), expect.len());
    let first = issuers.first().expect("there are six");
    let names: Vec<&str> = first.algorithms.iter().map(|algorithm| algorithm.as_str()).collect();
    assert_eq!((names, first.leeway_s), (vec!["RS256", "ES256"], 300));
    assert!(first.padded_segments && first.api_keys && first.internal_keys);
    let unlimited: Vec<bool> = issuers.iter().map(|issuer| issuer.allow_unlimited).collect();
    assert_eq!(unlimited, [true, false, false, false, false, false]);
    assert_eq!(first.audiences, ["a", "b"]);
    let introspection = issuers.last().and_then(|last| last.introspection.clone());
    let introspection = introspection.expect("the last one has it");
    assert_eq!((introspection.client_id.as_str(), introspection.cache_s), ("gateway", 60));
    assert_eq!(introspection.url, "https://idp.example/introspect");
    assert_eq!(introspection.client_secret, SECRET.as_bytes());
    let passwords = issuers.last().and_then(|last| last.passwords.clone());
    let passwords = passwords.expect("the last one has users");
    assert_eq!(passwords.token_url, "https://idp.example/token");
    assert_eq!(
        (passwords.client_secret.as_slice(), passwords.scopes.join(" ")),
        (SECRET.as_bytes(), "read".to_owned())
    );
    let revocations = issuers.last().and_then(|last| last.revocations.clone());
    let revocations = revocations.expect("the last one has them");
    assert_eq!(revocations.url, "https://idp.example/revocations");
    assert_eq!(revocations.client_id, "gateway");
    assert!(!format!("{issuers:?}").contains(SECRET), "a secret is printed");
}

#[test]
fn an_issuer_has_one_source_of_keys_and_matching_algorithms() {
    issuer("", "3:1: [[issuer]] has no keys");
    issuer("jwks = \"k\"\npem = \"k\"", "3:1: [[issuer]] has more than one");
    issuer("jwks = \"k\"\nalgorithms = [\"HS256\"]", "7:14: `HS256`");
    issuer("pem = \"k\"\nalgorithms = [\"RS256\", \"HS512\"]", "7:14: `HS512`");
    issuer("secret = { env = \"SHARED\" }\nalgorithms = [\"HS256\", \"RS256\"]", "7:14: `RS256`");
    issuer("jwks = \"k\"\nalgorithms = [\"RS25\"]", "7:15: `RS25` > `RS256`");
    issuer("jwks = \"k\"\nalgorithms = [\"none\"]", "7:15: `none`");
    issuer("jwks = \"k\"\nleeway_s = 301", "7:12: `leeway_s`");
    gateway("[[issuer]]\njwks = \"k\"", "3:1: `iss`; 3:1: `name`");
}

#[test]
fn issuers_have_unique_names_and_claims() {
    issuer("pem = \"k\"\n[[issuer]]\nname = \"b\"\niss = \"i\"\npem = \"k\"", "9:7: `i`");
    issuer("pem = \"k\"\n[[issuer]]\nname = \"a\"\niss = \"j\"\npem = \"k\"", "8:8: `a`");
    issuer("pem = \"k\"\n[[issuer]]\nname = \"b\"\niss = \"j\"\npem = \"k\"", "");
}

#[test]
fn keys_over_http_are_allowed_for_loopback_only() {
    let rejected = "6:8: keys fetched over http";
    issuer("jwks = \"https://idp.example/keys\"", "");
    issuer("jwks = \"http://localhost:9443/keys\"", "");
    issuer("jwks = \"http://127.0.0.1/keys\"", "");
    issuer("jwks = \"http://[::1]:80/keys\"", "");
    issuer("jwks = \"http://idp.example/keys\"", rejected);
    issuer("jwks = \"HTTP://localhost.example/keys\"", rejected);
    issuer("jwks = \"ftp://idp.example/keys\"", "6:8: `ftp`");
    issuer("jwks = \"https://u:p@idp.example/keys\"", "6:8: password");
}

#[test]
fn introspection_takes_the_place_of_keys_and_has_all_its_parts() {
    let introspection = |parts: &str, more: &str| format!("introspection = {{ {parts} }}\n{more}");
    let whole = "url = \"https://idp.example/introspect?a=b\", client_id = \"c\", \
                 client_secret = { env = \"SHARED\" }";
    issuer(&introspection(whole, ""), "");
    issuer(&introspection(whole, "jwks = \"k\""), "");
    issuer(&introspection(&format!("{whole}, cache_s = 900"), ""), "");
    issuer(&introspection(&format!("{whole}, cache_s = 0"), ""), "6:126: `cache_s`");
    issuer(&introspection(&format!("{whole}, cache_s = 901"), ""), "6:126: `cache_s`");
    issuer(&introspection(&format!("{whole}, cached = 1"), ""), "6:116: `cached` > `cache_s`");
    issuer(&introspection(whole, "algorithms = [\"RS256\"]"), "7:14: `algorithms` without keys");
    issuer(
        &introspection("", ""),
        "6:17: no `client_id`; 6:17: no `client_secret`; 6:17: no `url`",
    );
    let clear = whole.replace("https", "http");
    issuer(&introspection(&clear, ""), "6:25: tokens sent over http");
    issuer(&introspection(&clear.replace("idp.example", "localhost:9443"), ""), "");
    issuer(&introspection(&whole.replace("SHARED", "MISSING"), ""), "6:104: `MISSING`");
}

#[test]
fn revocations_have_all_their_parts() {
    let revocations = |parts: &str| format!("revocations = {{ {parts} }}\njwks = \"k\"");
    let whole = "url = \"https://idp.example/revocations\", client_id = \"c\", \
                 client_secret = { env = \"SHARED\" }";
    issuer(&revocations(whole), "");
    issuer(&revocations(""), "6:15: no `client_id`; 6:15: no `client_secret`; 6:15: no `url`");
    issuer(&revocations(&whole.replace("https", "http")), "6:23: revocations fetched over http");
}

#[test]
fn an_issuer_is_given_by_its_url_alone() {
    let alone = |lines: &str, expect| gateway(&format!("[[issuer]]\n{lines}"), expect);
    alone("issuer = \"https://idp.example/realms/a\"", "");
    alone("issuer = \"https://idp.example/\"\nname = \"a\"\naudiences = [\"b\"]", "");
    alone("issuer = \"http://127.0.0.1:9443/a\"", "");
    alone("issuer = \"http://idp.example\"", "4:10: keys fetched over http");
    alone("issuer = \"https://idp.example?a=b\"", "4:10: no query");
    alone("issuer = \"idp.example\"", "4:10: not a URL");
    alone("issuer = \"https://a.example\"\niss = \"b\"", "5:7: `iss` and `issuer`");
    alone("issuer = \"https://a.example\"\njwks = \"k\"", "3:1: more than one source");
    alone("issuer = \"https://a.example\"\nalgorithms = [\"HS256\"]", "5:14: `HS256`");
    let (settings, _) = load(
        "[gateway]\nhttp = \"127.0.0.1:8280\"\n[[issuer]]\nissuer = \"https://idp.example/\"\n",
    );
    let issuer = &settings.unwrap().issuers[0];
    assert_eq!(issuer.keys, KeySource::Discovery("https://idp.example/".to_owned()));
    assert_eq!(
        (issuer.name.as_str(), issuer.iss.as_str()),
        ("https://idp.example/", "https://idp.example/")
    );
}

#[test]
fn a_secret_is_read_from_outside_and_long_enough() {
    let hs = |source: &str, algorithm: &str| {
        format!("algorithms = [\"{algorithm}\"]\nsecret = {source}")
    };
    issuer(&hs("{ env = \"SHARED\" }", "HS512"), "");
    issuer(&hs("{ env = \"MISSING\" }", "HS256"), "7:18: `MISSING`");
    issuer(&hs("{ file = \"missing\" }", "HS256"), "7:19: `missing`");
    issuer(&hs("{ env = \"SHORT\" }", "HS256"), "7:10: 32 bytes");
    issuer(&hs("{}", "HS256"), "7:10: `secret` needs");
    issuer(&hs("{ env = \"SHARED\", file = \"keys/secret\" }", "HS256"), "7:10: several sources");
    issuer(&hs("\"swordfish\"", "HS256"), "7:10: must be a table");
    issuer("secret = { env = \"SHARED\" }", "3:1: needs `algorithms`");
}
