//! `[backend_jwt]`: the JWT by which upstreams learn who the caller is.

use base::limits;
use jose::SigningKey;
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
    if let Err(error) = SigningKey::from_pem(&key) {
        let place = table.get("key").map(|item| item.place);
        let help = "generate one: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256";
        report.error(place, format!("`key` is not a private key: {error}"), help);
    }
    Some(BackendJwt { key, header, issuer, dialect, expires_s })
}
