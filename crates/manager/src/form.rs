//! Parameters of a request: `application/x-www-form-urlencoded`, in a body or a query.

use percent_encoding::percent_decode_str;

use crate::limits;
use crate::reply::Refusal;

/// The parameters. No name occurs twice, and no text has control characters.
#[derive(Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Source: RFC 6749 appendix B; section 3.2 forbids repeated parameters.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let malformed = || Refusal::InvalidRequest("the parameters are not form-encoded UTF-8");
        let body = std::str::from_utf8(body).map_err(|_| malformed())?;
        let mut fields: Vec<(String, String)> = Vec::new();
        for part in body.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = decoded(name).ok_or_else(malformed)?;
            let value = decoded(value).ok_or_else(malformed)?;
            if fields.iter().any(|(other, _)| *other == name) {
                return Err(Refusal::InvalidRequest("a parameter occurs twice"));
            }
            if fields.len() >= limits::FORM_FIELDS_MAX {
                return Err(Refusal::InvalidRequest("too many parameters"));
            }
            fields.push((name, value));
        }
        Ok(Self(fields))
    }

    /// The value of `name`; an empty one counts as absent.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(other, _)| other == name)?;
        (!value.is_empty()).then_some(value)
    }

    pub(crate) fn required(&self, name: &str, missing: &'static str) -> Result<&str, Refusal> {
        self.get(name).ok_or(Refusal::InvalidRequest(missing))
    }
}

/// `None` for a text that is not UTF-8 or has control characters, which databases and logs treat differently.
pub(crate) fn decoded(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    (!decoded.chars().any(char::is_control)).then(|| decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let form = Form::parse(b"a=1+2&b=%C3%A9&c&d=&e=x%3Dy").unwrap_or_default();
        let got: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|name| form.get(name)).into();
        assert_eq!(got, [Some("1 2"), Some("é"), None, None, Some("x=y"), None]);
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_rejected() {
        for body in [&b"a=1&a=2"[..], b"a=1&%61=2", b"a=%FF", b"a=\xff", b"a=%00", b"a=x%0Ay"] {
            assert!(Form::parse(body).is_err(), "{body:?}");
        }
        let many: Vec<String> = (0..65).map(|n| format!("p{n}=1")).collect();
        assert!(Form::parse(many.join("&").as_bytes()).is_err());
    }
}
