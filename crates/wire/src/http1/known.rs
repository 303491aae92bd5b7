//! Classification of the field names that matter to a gateway, by length and two machine words.

/// A field name that matters to the gateway. Any other is [`Known::Other`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Known {
    #[default]
    Other,
    Accept,
    AcceptEncoding,
    AccessControlAllowCredentials,
    AccessControlAllowHeaders,
    AccessControlAllowMethods,
    AccessControlAllowOrigin,
    AccessControlExposeHeaders,
    AccessControlMaxAge,
    AccessControlRequestHeaders,
    AccessControlRequestMethod,
    /// `apikey`, where WSO2 looks for API keys.
    ApiKey,
    Authorization,
    CacheControl,
    /// `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`, `If-Range`.
    Conditional,
    Connection,
    ContentEncoding,
    ContentLength,
    ContentRange,
    ContentType,
    Cookie,
    Date,
    /// `DPoP`, a proof of RFC 9449.
    Dpop,
    Expect,
    /// `Age`, `Expires`, `Max-Forwards`, `Pragma`, `Retry-After`, `Vary`, `Warning`.
    Control,
    Forwarded,
    Host,
    Http2Settings,
    /// Names with which a client could claim another address, user, URL or method, and which upstreams may believe:
    /// `X-Real-IP`, `X-Original-URL`, `X-HTTP-Method-Override` and the like.
    Identity,
    /// `Internal-Key`, used by WSO2's portals.
    InternalKey,
    KeepAlive,
    Location,
    /// A name that an upstream that reads `_` as `-` (CGI, WSGI, PHP) takes for a name of another kind, such as
    /// `Transfer_Encoding`. Never forwarded.
    LookAlike,
    Origin,
    ProxyAuthenticate,
    ProxyAuthorization,
    ProxyConnection,
    Range,
    SecWebSocketAccept,
    SecWebSocketExtensions,
    SecWebSocketKey,
    SecWebSocketProtocol,
    SecWebSocketVersion,
    Server,
    SetCookie,
    Te,
    TraceParent,
    TraceState,
    Trailer,
    TransferEncoding,
    Upgrade,
    UserAgent,
    Via,
    WwwAuthenticate,
    XForwardedFor,
    XForwardedHost,
    XForwardedPort,
    XForwardedPrefix,
    XForwardedProto,
    /// Any other `X-Forwarded-...`.
    XForwarded,
    XJwtAssertion,
}

impl Known {
    /// Classifies a field name, ignoring case. `name` is a token (RFC 9110 section 5.6.2).
    #[must_use]
    pub fn of(name: &[u8]) -> Self {
        classify::<true>(name)
    }

    /// Whether a name of this kind is a token, given that it has no control characters.
    pub(super) const fn is_spelt_exactly(self) -> bool {
        !matches!(self, Self::Other | Self::XForwarded | Self::LookAlike)
    }

    /// Whether the field is never forwarded: it concerns only this connection (RFC 9110 section 7.6.1), or is a
    /// look-alike.
    pub(super) const fn is_dropped(self) -> bool {
        DROPPED.contains(self)
    }
}

const DROPPED: KnownSet = KnownSet::of(&[
    Known::Connection,
    Known::Http2Settings,
    Known::KeepAlive,
    Known::LookAlike,
    Known::ProxyAuthenticate,
    Known::ProxyAuthorization,
    Known::ProxyConnection,
    Known::Te,
    Known::Trailer,
    Known::TransferEncoding,
    Known::Upgrade,
]);

/// A set of known names: one bit each, built at compile time or at run time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownSet(u64);

impl KnownSet {
    /// The number of different kinds that a set can hold.
    pub(super) const CAPACITY: usize = 64;
    pub const EMPTY: Self = Self(0);

    /// The set of `names`.
    #[must_use]
    pub const fn of(names: &[Known]) -> Self {
        let mut set = Self::EMPTY;
        let mut rest = names;
        while let [first, others @ ..] = rest {
            set = set.with(*first);
            rest = others;
        }
        set
    }

    /// This set and `name`.
    #[must_use]
    pub const fn with(self, name: Known) -> Self {
        Self(self.0 | 1 << name as u8)
    }

    /// The union of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `name` is in it.
    #[must_use]
    pub const fn contains(self, name: Known) -> bool {
        self.0 & 1 << name as u8 != 0
    }
}

const _: () = assert!((Known::XJwtAssertion as usize) < KnownSet::CAPACITY, "one bit for each");

/// The first and the last bytes of a name, eight each, in lower case. Names of 4 to 16 bytes are
/// equal when their length and key are; longer ones have to be compared in the middle too.
///
/// Setting bit 5 converts letters to lower case. Apart from letters it changes only control characters, to
/// hyphens or digits, and a field name has none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    first: u64,
    last: u64,
}

const LOWER: u64 = 0x2020_2020_2020_2020;

impl Key {
    #[inline]
    pub(super) const fn of(name: &[u8]) -> Self {
        if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
            let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
            Self { first: first | LOWER, last: last | LOWER }
        } else if let (Some(first), Some(last)) = (name.first_chunk::<4>(), name.last_chunk::<4>())
        {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            Self { first: first as u64 | LOWER, last: last as u64 | LOWER }
        } else if let (Some(first), Some(last)) = (name.first_chunk::<2>(), name.last_chunk::<2>())
        {
            let (first, last) = (u16::from_le_bytes(*first), u16::from_le_bytes(*last));
            Self { first: first as u64 | LOWER, last: last as u64 | LOWER }
        } else {
            Self { first: LOWER, last: LOWER }
        }
    }
}

const LONGEST_EXACT_KEY: usize = 16;

/// `Access-Control-Allow-Credentials`.
const LONGEST_NAME: usize = 32;

/// Whether `bytes`, free of control characters, are the `len` (4 to 16) bytes of `key`, in any case.
#[inline]
pub(super) fn is_same(bytes: &[u8], key: Key, len: usize) -> bool {
    debug_assert!((4..=LONGEST_EXACT_KEY).contains(&len));
    bytes.len() == len && Key::of(bytes) == key
}

/// Generates [`classify`] and, for tests, the table of all names, from a list by length.
macro_rules! names {
    ($($len:literal => { $($text:literal $known:ident,)* })*) => {
        /// `LOOK_ALIKES`: whether to recognise them; else they are `Other`.
        fn classify<const LOOK_ALIKES: bool>(name: &[u8]) -> Known {
            let key = Key::of(name);
            match name.len() {
                $($len => {
                    $(
                    #[allow(clippy::collapsible_match, reason = "one guard for each name")]
                    if key == const { Key::of($text.as_bytes()) }
                        && ($len <= LONGEST_EXACT_KEY
                            || name.eq_ignore_ascii_case($text.as_bytes()))
                    {
                        return Known::$known;
                    })*
                })*
                _ => {}
            }
            unlisted::<LOOK_ALIKES>(name, key)
        }

        #[cfg(test)]
        const NAMES: &[(usize, &str, Known)] = &[$($(($len, $text, Known::$known),)*)*];
    };
}

names! {
    2 => { "te" Te, }
    3 => { "age" Control, "via" Via, }
    4 => { "host" Host, "date" Date, "vary" Control, "dpop" Dpop, }
    5 => { "range" Range, "proxy" Identity, }
    6 => {
        "accept" Accept, "cookie" Cookie, "origin" Origin, "expect" Expect, "server" Server,
        "apikey" ApiKey, "pragma" Control, "x-host" Identity,
    }
    7 => { "trailer" Trailer, "upgrade" Upgrade, "expires" Control, "warning" Control, }
    8 => {
        "location" Location, "if-match" Conditional, "if-range" Conditional, "x-scheme" Identity,
    }
    9 => { "forwarded" Forwarded, "x-real-ip" Identity, "client-ip" Identity, }
    10 => {
        "connection" Connection, "user-agent" UserAgent, "keep-alive" KeepAlive,
        "set-cookie" SetCookie, "tracestate" TraceState,
    }
    11 => {
        "traceparent" TraceParent, "retry-after" Control, "x-client-ip" Identity,
        "x-remote-ip" Identity, "remote-user" Identity, "client-cert" Identity,
        "x-forwarded" Identity,
    }
    12 => {
        "content-type" ContentType, "internal-key" InternalKey, "max-forwards" Control,
        "x-url-scheme" Identity,
    }
    13 => {
        "authorization" Authorization, "cache-control" CacheControl, "content-range" ContentRange,
        "if-none-match" Conditional, "x-rewrite-url" Identity, "x-http-method" Identity,
        "x-remote-addr" Identity, "x-remote-user" Identity, "x-client-cert" Identity,
    }
    14 => {
        "content-length" ContentLength, "http2-settings" Http2Settings, "x-original-url" Identity,
        "x-original-uri" Identity, "true-client-ip" Identity, "x-proxyuser-ip" Identity,
        "x-override-url" Identity,
    }
    15 => {
        "accept-encoding" AcceptEncoding, "x-forwarded-for" XForwardedFor,
        "x-jwt-assertion" XJwtAssertion, "x-original-host" Identity, "ssl-client-cert" Identity,
        "ssl-client-s-dn" Identity, "ssl-client-i-dn" Identity, "x-ssl-client-dn" Identity,
        "x-ssl-client-cn" Identity, "front-end-https" Identity,
    }
    16 => {
        "content-encoding" ContentEncoding, "proxy-connection" ProxyConnection,
        "www-authenticate" WwwAuthenticate, "x-forwarded-host" XForwardedHost,
        "x-forwarded-port" XForwardedPort, "cf-connecting-ip" Identity, "fastly-client-ip" Identity,
        "x-originating-ip" Identity, "x-arr-clientcert" Identity, "x-azure-clientip" Identity,
    }
    17 => {
        "transfer-encoding" TransferEncoding, "sec-websocket-key" SecWebSocketKey,
        "if-modified-since" Conditional, "x-forwarded-proto" XForwardedProto,
        "x-method-override" Identity, "x-original-method" Identity, "ssl-client-verify" Identity,
        "x-ssl-client-cert" Identity, "x-ssl-client-s-dn" Identity, "x-ssl-client-i-dn" Identity,
        "client-cert-chain" Identity,
    }
    18 => { "proxy-authenticate" ProxyAuthenticate, "x-forwarded-prefix" XForwardedPrefix, }
    19 => {
        "proxy-authorization" ProxyAuthorization, "if-unmodified-since" Conditional,
        "x-cluster-client-ip" Identity, "x-ssl-client-verify" Identity,
    }
    20 => {
        "sec-websocket-accept" SecWebSocketAccept, "ssl-client-issuer-dn" Identity,
        "x-http-host-override" Identity,
    }
    21 => { "sec-websocket-version" SecWebSocketVersion, "ssl-client-subject-dn" Identity, }
    22 => {
        "sec-websocket-protocol" SecWebSocketProtocol, "access-control-max-age" AccessControlMaxAge,
        "x-http-method-override" Identity, "x-ssl-client-issuer-dn" Identity,
    }
    23 => { "x-ssl-client-subject-dn" Identity, }
    24 => {
        "sec-websocket-extensions" SecWebSocketExtensions, "x-envoy-external-address" Identity,
    }
    25 => { "x-wso2-client-certificate" Identity, }
    27 => { "access-control-allow-origin" AccessControlAllowOrigin, }
    28 => {
        "access-control-allow-headers" AccessControlAllowHeaders,
        "access-control-allow-methods" AccessControlAllowMethods,
    }
    29 => {
        "access-control-expose-headers" AccessControlExposeHeaders,
        "access-control-request-method" AccessControlRequestMethod,
    }
    30 => { "access-control-request-headers" AccessControlRequestHeaders, }
    32 => { "access-control-allow-credentials" AccessControlAllowCredentials, }
}

/// Names that are not listed: those that start with `X-Forwarded-`, look-alikes, and all others.
#[inline]
fn unlisted<const LOOK_ALIKES: bool>(name: &[u8], key: Key) -> Known {
    const START: u64 = Key::of(b"x-forwar").first;
    if key.first == START && name.get(8..12).is_some_and(|rest| rest.eq_ignore_ascii_case(b"ded-"))
    {
        return Known::XForwarded;
    }
    if LOOK_ALIKES && may_have_underscore(name, key) { with_hyphens(name) } else { Known::Other }
}

/// Whether the name has an underscore; perhaps true for other names that are not tokens. `key` holds all of
/// the name, or its ends if it is long.
#[inline]
fn may_have_underscore(name: &[u8], key: Key) -> bool {
    // An underscore with bit 5 set is 0x7f, the only byte of a token that becomes 0x80 or more by adding 1.
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let ends = key.first.wrapping_add(ONES) | key.last.wrapping_add(ONES);
    ends & HIGH != 0 || name.len() > LONGEST_EXACT_KEY && name.contains(&b'_')
}

/// Classifies a name with underscores like the same name with hyphens.
#[cold]
fn with_hyphens(name: &[u8]) -> Known {
    // One byte more than the longest listed name: a longer one can only be `X-Forwarded-...`.
    let mut copy = [0; LONGEST_NAME + 1];
    let len = name.len().min(copy.len());
    for (to, &from) in copy.iter_mut().zip(name) {
        *to = if from == b'_' { b'-' } else { from };
    }
    let hyphenated = classify::<false>(copy.get(..len).unwrap_or_default());
    if hyphenated == Known::Other { Known::Other } else { Known::LookAlike }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_names_are_found_in_any_case_and_similar_names_are_not() {
        for &(len, text, known) in NAMES {
            assert_eq!(text.len(), len, "{text} is listed with the wrong length");
            assert_eq!(Known::of(text.as_bytes()), known, "{text}");
            assert_eq!(
                Known::of(text.to_ascii_uppercase().as_bytes()),
                known,
                "{text} in capitals"
            );
            for at in 0..len {
                let mut other = text.as_bytes().to_vec();
                other[at] = if other[at] == b'q' { b'j' } else { b'q' };
                let found = Known::of(&other);
                assert!(found != known || found == Known::XForwarded, "{text} changed at {at}");
            }
            check(
                &format!("{text}x"),
                if text.starts_with("x-forwarded-") { Known::XForwarded } else { Known::Other },
            );
        }
    }

    #[test]
    fn all_names_that_start_with_x_forwarded_are_x_forwarded() {
        check("X-Forwarded-For", Known::XForwardedFor);
        check("x-forwarded-server", Known::XForwarded);
        check("X-Forwarded-", Known::XForwarded);
        check("X-Forwarded", Known::Identity);
        check("X-ForwardedFor", Known::Other);
        check("X-Forwarder-For", Known::Other);
    }

    /// Every listed name, with each set of its hyphens as underscores.
    #[test]
    fn a_name_with_underscores_is_a_look_alike_of_the_one_with_hyphens() {
        for &(len, text, _) in NAMES {
            assert!(len <= LONGEST_NAME, "{text}");
            let hyphens: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
            for chosen in 1..1_u32 << hyphens.len() {
                let mut name = text.as_bytes().to_vec();
                for (bit, &at) in hyphens.iter().enumerate() {
                    if chosen >> bit & 1 == 1 {
                        name[at] = b'_';
                    }
                }
                // `x-forwarded-a_b` starts like its kind.
                let expect = if name.starts_with(b"x-forwarded-") {
                    Known::XForwarded
                } else {
                    Known::LookAlike
                };
                assert_eq!(Known::of(&name), expect, "{}", name.escape_ascii());
                assert_eq!(Known::of(&name.to_ascii_uppercase()), expect);
            }
        }
        check("X_Forwarded_", Known::LookAlike);
        check(&format!("x_forwarded-{}", "long".repeat(20)), Known::LookAlike);
        for name in [
            "X_Forwardeds",
            "X_JWT_Assertions",
            "Content_Lengths",
            "_Host",
            "Host_",
            "_",
            "my_field",
            "access_control_allow_credentials_",
            "a-rather-long-name_with-an-underscore",
        ] {
            check(name, Known::Other);
        }
    }

    #[test]
    fn short_and_empty_names_are_other() {
        for name in ["", "t", "x", "xy", "xyz"] {
            check(name, Known::Other);
        }
    }

    #[test]
    fn a_set_contains_exactly_its_members() {
        const SET: KnownSet = KnownSet::of(&[Known::Host, Known::XJwtAssertion]);
        assert!(SET.contains(Known::Host) && SET.contains(Known::XJwtAssertion));
        assert!(!SET.contains(Known::Other) && !SET.contains(Known::Te));
        assert!(SET.union(KnownSet::EMPTY.with(Known::Te)).contains(Known::Te));
    }

    #[track_caller]
    fn check(name: &str, expect: Known) {
        assert_eq!(Known::of(name.as_bytes()), expect, "{name}");
    }
}
