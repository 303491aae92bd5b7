//! HTTP Digest authentication, where a client proves that it knows a password. Source: RFC 7616.

use aws_lc_rs::digest::{SHA256, digest};
use md5::{Digest as _, Md5};

/// User name and password of a client.
#[derive(Clone, Copy)]
pub struct DigestLogin<'a> {
    pub username: &'a str,
    pub password: &'a [u8],
}

/// A server's challenge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestChallenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// The algorithm as written; absent means MD5.
    algorithm: Option<String>,
    hash: Hash,
    /// Whether the first hash also covers the nonces (`-sess`).
    is_session: bool,
    /// Whether the challenge has a `qop` with `auth`. Without `qop`, as in RFC 2069, requests are not counted.
    has_qop: bool,
    hashes_username: bool,
    is_stale: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hash {
    #[default]
    Md5,
    Sha256,
}

impl Hash {
    fn of(self, parts: &[&[u8]]) -> String {
        let bytes = parts.concat();
        let hash = match self {
            Self::Md5 => Md5::digest(&bytes).to_vec(),
            Self::Sha256 => digest(&SHA256, &bytes).as_ref().to_vec(),
        };
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl DigestChallenge {
    /// The first challenge that can be answered in the value of a `WWW-Authenticate` field, which may have several of
    /// any scheme.
    #[must_use]
    pub fn find(value: &str) -> Option<Self> {
        let mut members = elements(value).peekable();
        while let Some(element) = members.next() {
            let Some((scheme, first)) = scheme(element) else { continue };
            let mut parameters = Vec::from_iter(parameter(first));
            while let Some(next) = members.next_if(|next| self::scheme(next).is_none()) {
                parameters.extend(parameter(next));
            }
            if scheme.eq_ignore_ascii_case("Digest")
                && let Some(found) = Self::of(&parameters)
            {
                return Some(found);
            }
        }
        None
    }

    fn of(parameters: &[(&str, String)]) -> Option<Self> {
        let get = |name: &str| {
            let mut found = parameters.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            // A parameter that occurs twice is ignored.
            found.next().filter(|_| found.next().is_none()).map(|(_, value)| value.as_str())
        };
        let is = |name: &str| get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let algorithm = get("algorithm").unwrap_or("MD5").to_ascii_uppercase();
        let (hash, is_session) = match algorithm.as_str() {
            "MD5" => (Hash::Md5, false),
            "MD5-SESS" => (Hash::Md5, true),
            "SHA-256" => (Hash::Sha256, false),
            "SHA-256-SESS" => (Hash::Sha256, true),
            _ => return None,
        };
        let qop = get("qop");
        if qop.is_some_and(|all| !all.split(',').any(|one| one.trim().eq_ignore_ascii_case("auth")))
        {
            return None;
        }
        Some(Self {
            realm: get("realm")?.to_owned(),
            nonce: get("nonce").filter(|nonce| !nonce.is_empty())?.to_owned(),
            opaque: get("opaque").map(str::to_owned),
            algorithm: get("algorithm").map(str::to_owned),
            hash,
            is_session,
            has_qop: qop.is_some(),
            hashes_username: is("userhash"),
            is_stale: is("stale"),
        })
    }

    /// This challenge with the `nextnonce` of an `Authentication-Info` field, if it has one.
    #[must_use]
    pub fn next(&self, info: &str) -> Option<Self> {
        let mut parameters = elements(info).filter_map(parameter);
        let (_, nonce) = parameters.find(|(name, _)| name.eq_ignore_ascii_case("nextnonce"))?;
        (!nonce.is_empty() && nonce != self.nonce).then(|| Self { nonce, ..self.clone() })
    }

    /// Whether a request rejected with the answer to `before` may succeed with an answer to this challenge, because
    /// only its nonce was rejected.
    #[must_use]
    pub fn renews(&self, before: &Self) -> bool {
        self.is_stale || self.nonce != before.nonce
    }

    /// The value of `Authorization` for a request. `uri`: path and query as sent; `count`: the number of uses of the
    /// nonce, including this request; `cnonce`: random.
    #[must_use]
    pub fn answer(
        &self,
        login: DigestLogin<'_>,
        (method, uri): (&[u8], &[u8]),
        count: u32,
        cnonce: &str,
    ) -> String {
        let DigestLogin { username, password } = login;
        let (realm, nonce) = (self.realm.as_bytes(), self.nonce.as_bytes());
        let hash = |parts: &[&[u8]]| self.hash.of(parts);
        let mut secret = hash(&[username.as_bytes(), b":", realm, b":", password]);
        if self.is_session {
            secret = hash(&[secret.as_bytes(), b":", nonce, b":", cnonce.as_bytes()]);
        }
        let request = hash(&[method, b":", uri]);
        let (secret, request) = (secret.as_bytes(), request.as_bytes());
        let counted = format!("{count:08x}:{cnonce}:auth");
        let response = match self.has_qop {
            true => hash(&[secret, b":", nonce, b":", counted.as_bytes(), b":", request]),
            false => hash(&[secret, b":", nonce, b":", request]),
        };
        let shown = match self.hashes_username {
            true => hash(&[username.as_bytes(), b":", realm]),
            false => username.to_owned(),
        };
        let mut out = format!(
            "Digest username={}, realm={}, nonce={}, uri={}, response=\"{response}\"",
            quoted(&shown),
            quoted(&self.realm),
            quoted(&self.nonce),
            quoted(&String::from_utf8_lossy(uri)),
        );
        if self.has_qop {
            out += &format!(", qop=auth, nc={count:08x}");
        }
        if self.has_qop || self.is_session {
            out += &format!(", cnonce=\"{cnonce}\"");
        }
        if let Some(algorithm) = &self.algorithm {
            out += &format!(", algorithm={algorithm}");
        }
        if let Some(opaque) = &self.opaque {
            out += &format!(", opaque={}", quoted(opaque));
        }
        if self.hashes_username {
            out += ", userhash=true";
        }
        out
    }
}

/// The elements of a list, separated by commas outside of quoted strings.
fn elements(value: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    value
        .split(move |byte: char| {
            let escaped = std::mem::take(&mut is_escaped);
            match byte {
                '"' if !escaped => is_quoted = !is_quoted,
                '\\' if is_quoted && !escaped => is_escaped = true,
                _ => {}
            }
            byte == ',' && !is_quoted
        })
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

/// The scheme that begins with this element, and its first parameter.
fn scheme(element: &str) -> Option<(&str, &str)> {
    let end = element.find(|byte: char| !is_token(byte)).unwrap_or(element.len());
    let (name, rest) = element.split_at_checked(end)?;
    let rest = rest.trim_start();
    (!name.is_empty() && !rest.starts_with('=')).then_some((name, rest))
}

/// Name and value.
fn parameter(element: &str) -> Option<(&str, String)> {
    let (name, value) = element.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let value = match value.strip_prefix('"') {
        None => value.to_owned(),
        Some(quoted) => {
            let inner = quoted.strip_suffix('"')?;
            let mut is_escaped = false;
            inner
                .chars()
                .filter(|byte| {
                    is_escaped = *byte == '\\' && !is_escaped;
                    !is_escaped
                })
                .collect()
        }
    };
    (!name.is_empty() && name.chars().all(is_token)).then_some((name, value))
}

/// Whether a character may occur in a token. Source: RFC 9110 section 5.6.2.
fn is_token(byte: char) -> bool {
    byte.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(byte)
}

fn quoted(text: &str) -> String {
    let escaped = text.chars().flat_map(|byte| {
        let escape = matches!(byte, '"' | '\\').then_some('\\');
        escape.into_iter().chain([byte])
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: RFC 7616 section 3.9.1.
    const CHALLENGES: &str = "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, \
        nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";

    #[track_caller]
    fn check(challenge: &str, login: (&str, &str), count: u32, expect: &[&str]) {
        let found = DigestChallenge::find(challenge).unwrap();
        let login = DigestLogin { username: login.0, password: login.1.as_bytes() };
        let cnonce = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ";
        let answer = found.answer(login, (b"GET", b"/dir/index.html"), count, cnonce);
        for phrase in expect {
            assert!(answer.contains(phrase), "{answer}: {phrase}");
        }
    }

    #[test]
    fn answers_are_those_of_the_examples_of_the_rfc() {
        let mufasa = ("Mufasa", "Circle of Life");
        let sha = "response=\"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1\"";
        check(CHALLENGES, mufasa, 1, &[sha, "nc=00000001, ", "algorithm=SHA-256", "qop=auth,"]);
        let md5 = CHALLENGES.replace("SHA-256", "MD5");
        check(&md5, mufasa, 1, &["response=\"8ca523f5e9506fed4657c9700eebdbec\"", "opaque=\"FQhe"]);
        let first = format!(
            "Basic realm=\"a, Digest b\", Digest realm=x, nonce=y, algorithm=SHA-512-256, {CHALLENGES}, Negotiate"
        );
        check(&first, mufasa, 1, &[sha]);
    }

    /// Source: RFC 2617 section 3.5, whose response without `qop` is that of RFC 2069, computed with Python's hashlib.
    #[test]
    fn older_forms_are_answered() {
        let old =
            "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"";
        let login = ("Mufasa", "Circle Of Life");
        check(old, login, 1, &["response=\"670fd8c2df070c60b045671b8b24ff02\""]);
    }

    #[test]
    fn what_cannot_be_answered_is_no_challenge() {
        for value in [
            "",
            "Basic realm=\"a\"",
            "Digest",
            "Digest realm=\"a\"",
            "Digest realm=\"a\", nonce=\"\"",
            "Digest nonce=\"b\"",
            "Digest realm=\"a\", nonce=\"b\", nonce=\"c\"",
            "Digest realm=\"a\", nonce=\"b\", algorithm=SHA-512-256",
            "Digest realm=\"a\", nonce=\"b\", qop=\"auth-int\"",
            "Digestive realm=\"a\", nonce=\"b\"",
            "Digest realm=\"a, nonce=b",
        ] {
            assert_eq!(DigestChallenge::find(value), None, "{value}");
        }
    }

    #[test]
    fn quotes_are_read_and_written() {
        let value = r#"digest Realm = "a \"b\\ , c", NONCE=d, stale=TRUE, userhash=true"#;
        let found = DigestChallenge::find(value).unwrap();
        assert_eq!((found.realm.as_str(), found.nonce.as_str()), (r#"a "b\ , c"#, "d"));
        let answer =
            found.answer(DigestLogin { username: "e", password: b"f" }, (b"GET", b"/"), 1, "g");
        assert!(answer.contains(r#"realm="a \"b\\ , c", nonce="d""#), "{answer}");
        assert!(!answer.contains("\"e\""), "the name is hashed: {answer}");
        assert!(found.renews(&found));
        let next = found.next("rspauth=\"x\", nextnonce=\"h\"").unwrap();
        assert!(next.nonce == "h" && found.next("qop=auth").is_none());
    }
}
