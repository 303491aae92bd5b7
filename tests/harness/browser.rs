//! A client that keeps cookies as browsers do.

use std::collections::BTreeMap;

use jose::SealingKeys;

use crate::message::values;
use crate::{Client, Response};

/// A browser with its cookies, for one origin.
pub struct Browser {
    connect: Box<dyn Fn() -> Client>,
    host: String,
    is_secure: bool,
    /// By name.
    pub cookies: BTreeMap<String, String>,
}

impl std::fmt::Debug for Browser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Browser {
    /// `host`: that of the address bar, with its port; `connect` opens a connection to it.
    #[must_use]
    pub fn new(host: &str, is_secure: bool, connect: impl Fn() -> Client + 'static) -> Self {
        let (connect, host, cookies) = (Box::new(connect), host.to_owned(), BTreeMap::new());
        Self { connect, host, is_secure, cookies }
    }

    /// Scheme and host.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.is_secure { "https" } else { "http" }, self.host)
    }

    /// The head of a request without a body, with the cookies.
    #[must_use]
    pub fn head(&self, request: &str, fields: &str) -> String {
        let pairs: Vec<_> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = match pairs.as_slice() {
            [] => String::new(),
            pairs => format!("Cookie: {}\r\n", pairs.join("; ")),
        };
        format!("{request} HTTP/1.1\r\nHost: {}\r\n{cookies}{fields}\r\n", self.host)
    }

    /// Sends a request of a page, such as `GET /a`, with these field lines.
    pub fn send(&mut self, request: &str, fields: &str) -> Response {
        let response = (self.connect)().send(self.head(request, fields)).read();
        self.store(&response);
        response
    }

    /// Opens a page, as a user does by a link of another site.
    pub fn open(&mut self, target: &str) -> Response {
        let fields = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\
            Sec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Site: cross-site\r\n";
        self.send(&format!("GET {target}"), fields)
    }

    /// Changes the numbers of its session, which was sealed with `key`: when it ends, and when its token expires, in
    /// seconds since the Unix epoch.
    pub fn change_session(
        &mut self,
        login: &str,
        key: &[u8],
        change: impl Fn([u64; 2]) -> [u64; 2],
    ) {
        let (keys, context) = (SealingKeys::new(key).unwrap(), format!("session {login}"));
        let prefix = if self.is_secure { "__Host-" } else { "" };
        let cookie = self.cookies.get_mut(&format!("{prefix}penstock-login-{login}")).unwrap();
        let sealed = cookie.strip_prefix("1.").unwrap();
        let text = String::from_utf8(keys.open(&context, sealed.as_bytes()).unwrap()).unwrap();
        let [until, expires, tokens] = text.splitn(3, '\n').collect::<Vec<_>>().try_into().unwrap();
        let [until_s, expires_s] = change([until, expires].map(|number| number.parse().unwrap()));
        let text = format!("{until_s}\n{expires_s}\n{tokens}");
        *cookie = format!("1.{}", keys.seal(&context, text.as_bytes()).unwrap());
    }

    /// Keeps the cookies of a response, by the rules of RFC 6265 and for the prefix `__Host-`.
    pub fn store(&mut self, response: &Response) {
        for line in values(&response.head, "set-cookie") {
            let mut parts = line.split("; ");
            let (name, value) = parts.next().unwrap().split_once('=').unwrap();
            let attributes: Vec<_> = parts.collect();
            let has = |attribute| attributes.contains(&attribute);
            assert!(line.len() <= 4_096, "browsers reject longer cookies: {}", line.len());
            if name.starts_with("__Host-") {
                assert!(self.is_secure && has("Secure") && has("Path=/"), "{line}");
                assert!(!attributes.iter().any(|one| one.starts_with("Domain")), "{line}");
            }
            assert!(self.is_secure || !has("Secure"), "{line}");
            if has("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}
