//! StartTLS on a connection to an LDAP server. Source: RFC 4511 section 4.14.
//!
//! The response precedes TLS, so any machine on the path could have sent it: it is parsed strictly, and nothing may
//! follow it.

use super::ber::{self, Broken};

/// An extended request with the number 1, without a value. Source: RFC 4511 section 4.14.1.
pub const LDAP_START_TLS: &[u8] = b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037";

/// The tag of an extended response. Source: RFC 4511 section 4.12.
const EXTENDED_RESPONSE: u8 = 0x78;

/// Parses the response to [`LDAP_START_TLS`]; `None` if it is incomplete.
///
/// # Errors
/// The server rejects the request, or the response is malformed or followed by more bytes.
pub fn ldap_tls_started(received: &[u8]) -> Option<Result<(), String>> {
    let malformed = || Some(Err("the response is malformed".to_owned()));
    if received.first().is_some_and(|tag| *tag != ber::SEQUENCE) {
        return malformed();
    }
    let (message, rest) = match ber::next(received) {
        Ok((_, message, rest)) => (message, rest),
        Err(Broken::Incomplete) => return None,
        Err(Broken::Malformed) => return malformed(),
    };
    match result(message) {
        Some((1, 0)) if rest.is_empty() => Some(Ok(())),
        Some((1, 0)) => Some(Err("more bytes than the response".to_owned())),
        // Number 0: the server is about to close the connection. Source: RFC 4511 section 4.4.1.
        Some((0 | 1, code)) => Some(Err(format!("the server rejects it with the result {code}"))),
        Some(_) | None => malformed(),
    }
}

/// The number of an extended response, and the code of its result.
fn result(message: &[u8]) -> Option<(u8, u8)> {
    let (number, rest) = ber::expect(message, ber::INTEGER)?;
    let (response, _) = ber::expect(rest, EXTENDED_RESPONSE)?;
    match (number, ber::expect(response, ber::ENUMERATED)?.0) {
        ([number], [code]) => Some((*number, *code)),
        (_, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENLDAP: &[u8] = b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00";

    #[test]
    fn a_server_begins_tls_after_exactly_one_response() {
        let windows = b"\x30\x84\x00\x00\x00\x10\x02\x01\x01\x78\x84\x00\x00\x00\x07\x0a\x01\x00\x04\x00\x04\x00";
        assert_eq!(ldap_tls_started(OPENLDAP), Some(Ok(())));
        assert_eq!(ldap_tls_started(windows), Some(Ok(())));
        for end in 0..OPENLDAP.len() {
            assert_eq!(ldap_tls_started(&OPENLDAP[..end]), None, "{end} bytes");
        }
        let injected = [OPENLDAP, b"\x30\x00"].concat();
        assert_eq!(ldap_tls_started(&injected), Some(Err("more bytes than the response".into())));
    }

    #[test]
    fn a_response_that_is_no_success_is_an_error() {
        const MALFORMED: &str = "the response is malformed";
        for (response, expect) in [
            (
                &b"\x30\x0c\x02\x01\x01\x78\x07\x0a\x01\x35\x04\x00\x04\x00"[..],
                "the server rejects it with the result 53",
            ),
            (
                b"\x30\x0c\x02\x01\x00\x78\x07\x0a\x01\x34\x04\x00\x04\x00",
                "the server rejects it with the result 52",
            ),
            (b"\x30\x0c\x02\x01\x02\x78\x07\x0a\x01\x00\x04\x00\x04\x00", MALFORMED),
            (b"\x30\x0d\x02\x01\x01\x78\x08\x0a\x02\x00\x00\x04\x00\x04\x00", MALFORMED),
            (b"\x30\x05\x02\x01\x01\x61\x00", MALFORMED),
            (b"\x30\x05\x02\x01\x01\x78\x00", MALFORMED),
            (b"\x30\x05\x02\x01\x01\x78\x7f", MALFORMED),
            (b"\x30\x80\x02\x01\x01\x78\x00\x00\x00", MALFORMED),
            (b"\x30\x00", MALFORMED),
            (b"\x04", MALFORMED),
            (b"HTTP/1.1 400", MALFORMED),
        ] {
            assert_eq!(ldap_tls_started(response), Some(Err(expect.to_owned())), "{response:?}");
        }
    }
}
