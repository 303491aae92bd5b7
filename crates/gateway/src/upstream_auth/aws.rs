//! Signatures of AWS, version 4, by which the gateway authenticates itself at endpoints there.
//!
//! Source: AWS, "Signature Version 4 for API requests: create a signed request".

use jose::{hmac_sha256, sha256};
use model::AwsCredential;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, percent_encode};
use time::OffsetDateTime;

/// Characters that are not escaped. Source: RFC 3986 section 2.3.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The signed parts of a request.
pub(crate) struct Signed<'a> {
    pub(crate) method: &'a [u8],
    /// As it is sent.
    pub(crate) path: &'a [u8],
    pub(crate) query: &'a [u8],
    /// Names in lower case, in alphabetical order, with their values.
    pub(crate) fields: &'a [(&'a str, &'a [u8])],
    /// The hash of the body in hexadecimal, or a placeholder.
    pub(crate) payload: &'a str,
}

/// The value of `X-Amz-Date` at this time.
pub(super) fn date(unix_s: u64) -> String {
    let seconds = i64::try_from(unix_s).unwrap_or(i64::MAX);
    let at = OffsetDateTime::from_unix_timestamp(seconds).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.to_hms();
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The hash of a body.
pub(super) fn payload(body: &[u8]) -> String {
    hexadecimal(&sha256(body))
}

/// The value of `Authorization`. `date`: see [`date`].
pub(super) fn authorization(credential: &AwsCredential, date: &str, signed: &Signed<'_>) -> String {
    let AwsCredential { access_key_id, secret_access_key, region, service, .. } = credential;
    let day = date.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let names = signed.fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let hash = hexadecimal(&sha256(&canonical(signed, &names, service != "s3")));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    let first = [b"AWS4", secret_access_key.as_slice()].concat();
    let parts = [day, region, service, "aws4_request"];
    let key = parts.iter().fold(first, |key, part| hmac_sha256(&key, part.as_bytes()).to_vec());
    let signature = hexadecimal(&hmac_sha256(&key, text.as_bytes()));
    format!(
        "AWS4-HMAC-SHA256 Credential={access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
}

/// `is_sent`: the path is signed as it is sent, but without empty segments, as for every service but S3.
fn canonical(signed: &Signed<'_>, names: &str, is_sent: bool) -> Vec<u8> {
    let mut out = signed.method.to_vec();
    out.push(b'\n');
    let mut segments = signed.path.split(|byte| *byte == b'/').enumerate().peekable();
    while let Some((number, segment)) = segments.next() {
        if is_sent && segment.is_empty() && number > 0 && segments.peek().is_some() {
            continue;
        }
        if number > 0 {
            out.push(b'/');
        }
        if is_sent {
            out.extend(percent_encode(segment, UNRESERVED).flat_map(str::bytes));
        } else {
            out.extend_from_slice(escaped(segment).as_bytes());
        }
    }
    out.push(b'\n');
    let pairs = signed.query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<_> = pairs
        .map(|pair| {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            let mut next = || escaped(&spaced(parts.next().unwrap_or_default()));
            (next(), next())
        })
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    out.extend_from_slice(pairs.join("&").as_bytes());
    out.push(b'\n');
    for (name, value) in signed.fields {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        out.extend_from_slice(value.trim_ascii());
        out.push(b'\n');
    }
    for text in ["\n", names, "\n", signed.payload] {
        out.extend_from_slice(text.as_bytes());
    }
    out
}

/// In the one way that signatures have, however it was escaped.
fn escaped(text: &[u8]) -> String {
    let decoded: Vec<u8> = percent_decode(text).collect();
    percent_encode(&decoded, UNRESERVED).to_string()
}

/// In a query, `+` is a space.
fn spaced(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature of a request of AWS's test suite: of the service `service` in `us-east-1`.
    #[track_caller]
    fn check(request: &str, query: &str, service: &str, expect: &str) {
        let credential = AwsCredential {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: b"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_vec(),
            session_token: None,
            region: "us-east-1".to_owned(),
            service: service.to_owned(),
        };
        let (method, path) = request.split_once(' ').unwrap();
        let date = date(1_440_938_160);
        let fields = [("host", &b"example.amazonaws.com"[..]), ("x-amz-date", date.as_bytes())];
        let payload = payload(b"");
        let signed = Signed {
            method: method.as_bytes(),
            path: path.as_bytes(),
            query: query.as_bytes(),
            fields: &fields,
            payload: &payload,
        };
        let found = authorization(&credential, &date, &signed);
        let start = format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/aws4_request, \
             SignedHeaders=host;x-amz-date, Signature="
        );
        assert_eq!(found.strip_prefix(&start), Some(expect), "{request} {query}");
    }

    /// Source: AWS's Signature Version 4 test suite.
    #[test]
    fn requests_have_the_published_signatures() {
        let check = |request, query, expect| check(request, query, "service", expect);
        check("GET /", "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
        check("POST /", "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
        check(
            "GET /",
            "Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        );
        check(
            "GET /",
            "%E1%88%B4=bar",
            "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
        );
        check(
            "GET /",
            "Param1=value1",
            "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
        );
        check(
            "POST /",
            "Param1=value1",
            "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
        );
        check(
            "GET /-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            "",
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        );
    }

    /// The texts that are signed, since the suite escapes paths once for its service.
    #[test]
    fn a_path_is_escaped_once_more_than_it_is_sent_except_for_s3() {
        let of = |path: &str, query: &str, is_sent: bool| {
            let signed = Signed {
                method: b"GET",
                path: path.as_bytes(),
                query: query.as_bytes(),
                fields: &[("host", b" a ")],
                payload: "UNSIGNED-PAYLOAD",
            };
            String::from_utf8(canonical(&signed, "host", is_sent)).unwrap()
        };
        let end = "\nhost:a\n\nhost\nUNSIGNED-PAYLOAD";
        for (path, query, is_sent, expect) in [
            ("/example%20space/", "", false, "/example%20space/\n"),
            ("/example%20space/", "", true, "/example%2520space/\n"),
            ("/functions/arn:aws:x/a@b", "", true, "/functions/arn%3Aaws%3Ax/a%40b\n"),
            ("/%c3%a9", "", true, "/%25c3%25a9\n"),
            ("//example//", "", true, "/example/\n"),
            ("//", "", true, "/\n"),
            ("//example//", "", false, "//example//\n"),
            ("/%e1%88%b4", "", false, "/%E1%88%B4\n"),
            ("/a%2Fb", "", false, "/a%2Fb\n"),
            ("/a+b@c", "", false, "/a%2Bb%40c\n"),
            ("/", "b=2&b=1&a&c=%2F+x=", false, "/\na=&b=1&b=2&c=%2F%20x%3D"),
        ] {
            assert_eq!(of(path, query, is_sent), format!("GET\n{expect}{end}"), "{path}");
        }
    }
}
