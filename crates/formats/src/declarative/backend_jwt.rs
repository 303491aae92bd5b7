//! `[backend_jwt]`: the JWT that identifies the caller to upstreams.

use base::limits;
use jose::{KeyError, KeySet, SigningKey};
use model::BackendJwt;

use super::table::Table;
use super::{Outside, is_framing, secret};
use crate::openapi::cors::is_token;
use crate::report::{Report, shorten};

pub(super) fn read(
    table: &Table<'_>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<BackendJwt> {
    if !table.is_present() {
        return None;
    }
    if table.get("key").is_none() {
        let help = "add `key = { file = \"private.pem\" }`, or remove the section";
        report.error(table.place, "there is no `key` in [backend_jwt]", help);
    }
    let text = |key: &str, default: &str, report: &mut Report| {
        table.text(key, report).map_or_else(|| default.to_owned(), |(text, _)| text.to_owned())
    };
    let header = text("header", "X-JWT-Assertion", report);
    if !is_token(&header) || is_framing(&header) {
        let place = table.get("header").map(|item| item.place);
        let message = format!("the header field `{}` cannot carry a JWT", shorten(&header));
        report.error(place, message, "use another one, such as X-JWT-Assertion");
    }
    let issuer = text("issuer", "wso2.org/products/am", report);
    let dialect = text("dialect", "http://wso2.org/claims", report);
    let range = limits::BACKEND_JWT_S_MIN..=limits::BACKEND_JWT_S_MAX;
    let expires_s = table.number("expires_s", range, report).unwrap_or(limits::BACKEND_JWT_S);
    let key = secret::read(table, "key", "backend_jwt.key", outside, report)?;
    let signing = SigningKey::from_pem(&key);
    if let Err(error) = &signing {
        let place = table.get("key").map(|item| item.place);
        let help = "generate one: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256";
        report.error(place, format!("`key` is not a private key: {error}"), help);
    }
    let certificate = certificate(table, signing.ok().as_ref(), outside, report);
    Some(BackendJwt { key, certificate, header, issuer, dialect, expires_s })
}

/// The certificate of `key`, in DER.
fn certificate(
    table: &Table<'_>,
    key: Option<&SigningKey>,
    outside: &Outside<'_>,
    report: &mut Report,
) -> Option<Vec<u8>> {
    let (name, place) = table.text("certificate", report)?;
    let read = (outside.read_file)(&outside.path(name)).map_err(|error| error.to_string());
    let problem = match read.and_then(|text| of_one(&text).map_err(|error| error.to_string())) {
        Ok((der, public)) if key.is_none_or(|key| key.is_private_key_of(&public)) => {
            return Some(der);
        }
        Ok(_) => "it is the certificate of another key".to_owned(),
        Err(problem) => problem,
    };
    let message = format!("the certificate in `{}`: {problem}", shorten(name));
    report.reject(place, message, "name the PEM file with the certificate of `key` alone")
}

fn of_one(text: &[u8]) -> Result<(Vec<u8>, KeySet), KeyError> {
    let der = jose::certificates(text)?.swap_remove(0);
    Ok((der, KeySet::from_pem(text)?))
}
