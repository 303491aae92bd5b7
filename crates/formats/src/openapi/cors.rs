//! `x-wso2-cors`, with the keys of API Microgateway or of API Manager.

use base::Method;
use model::{Cors, Endpoint, Place};

use super::values;
use crate::address;
use crate::report::{Report, shorten, suggest};
use crate::tree::{Map, Node};

const ORIGINS: [&str; 2] = ["access-control-allow-origins", "accessControlAllowOrigins"];
const METHODS: [&str; 2] = ["access-control-allow-methods", "accessControlAllowMethods"];
const HEADERS: [&str; 2] = ["access-control-allow-headers", "accessControlAllowHeaders"];
const EXPOSED: [&str; 2] = ["access-control-expose-headers", "accessControlExposeHeaders"];
const CREDENTIALS: [&str; 2] =
    ["access-control-allow-credentials", "accessControlAllowCredentials"];
const ENABLED: [&str; 1] = ["corsConfigurationEnabled"];

/// Reads the rules. `None` if CORS is disabled, or is not a map, which is reported.
pub(super) fn read(node: &Node<'_>, report: &mut Report) -> Option<Cors> {
    let map = values::map(node, "x-wso2-cors", report)?;
    check_keys(map, report);
    let enabled = one(map, &ENABLED, report).map(|node| values::flag(node, ENABLED[0], report));
    let origins = texts(map, &ORIGINS, report, origin);
    let methods = texts(map, &METHODS, report, method);
    let headers = texts(map, &HEADERS, report, header);
    let exposed = texts(map, &EXPOSED, report, header);
    let credentials = one(map, &CREDENTIALS, report)
        .and_then(|node| Some((values::flag(node, CREDENTIALS[0], report)?, node.place)));
    let allow_origins = origins.unwrap_or_else(|| vec!["*".to_owned()]);
    if enabled == Some(Some(false)) {
        return None;
    }
    Some(Cors {
        allow_credentials: credentials
            .is_some_and(|wanted| allowed(wanted, &allow_origins, report)),
        allow_origins,
        allow_methods: methods.unwrap_or_default(),
        allow_headers: headers.unwrap_or_default(),
        expose_headers: exposed.unwrap_or_default(),
    })
}

/// With credentials allowed for any origin, every site could use the user's session. Source: the
/// Fetch standard, "CORS protocol and credentials": `*` and credentials exclude each other.
fn allowed((wanted, place): (bool, Place), origins: &[String], report: &mut Report) -> bool {
    let help = "list the origins that may send credentials";
    if wanted && origins.iter().any(|origin| origin == "*") {
        report.warning(
            place,
            "credentials are never allowed for origin `*`: this has no effect",
            help,
        );
        return false;
    }
    if let Some((origin, domain)) =
        origins.iter().find_map(|one| whole_domain(one)).filter(|_| wanted)
    {
        let message = format!(
            "`{}` allows credentials for every site below the top-level domain `{}`",
            shorten(origin),
            shorten(domain)
        );
        report.warning(place, message, help);
    }
    wanted
}

/// The origin and `com`, if the origin is like `https://*.com`.
fn whole_domain(origin: &str) -> Option<(&str, &str)> {
    let (_, below) = origin.split_once("://*.")?;
    let domain = below.split(':').next()?;
    (!domain.contains('.') && domain != "localhost").then_some((origin, domain))
}

fn check_keys(map: &Map<'_>, report: &mut Report) {
    let known =
        || [ORIGINS, METHODS, HEADERS, EXPOSED, CREDENTIALS].into_iter().flatten().chain(ENABLED);
    for member in map.iter().filter(|member| known().all(|name| name != member.key)) {
        let help = suggest(&member.key, known(), || "remove it".to_owned());
        report.error(
            member.key_place,
            format!("unknown key `{}` in `x-wso2-cors`", shorten(&member.key)),
            help,
        );
    }
}

/// The value under one of the spellings of a name.
fn one<'n, 'a>(map: &'n Map<'a>, names: &[&str], report: &mut Report) -> Option<&'n Node<'a>> {
    let mut found = names.iter().filter_map(|name| map.member(name));
    let first = found.next()?;
    if let Some(second) = found.next() {
        let message = format!("`{}` repeats `{}`", second.key, first.key);
        report.error(second.key_place, message, "remove one of them");
    }
    Some(&first.value)
}

fn texts(
    map: &Map<'_>,
    names: &[&str; 2],
    report: &mut Report,
    item: fn(&str) -> Result<String, address::Wrong>,
) -> Option<Vec<String>> {
    let node = one(map, names, report)?;
    let mut out = Vec::new();
    for (text, place) in values::texts(node, names[0], report)? {
        match item(text) {
            Ok(text) => out.push(text),
            Err((message, help)) => report.error(place, message, help),
        }
    }
    Some(out)
}

/// `*`, or an origin as browsers send it: in lower case, without the scheme's default port and without
/// a path. A host may start with `*.`, which matches one or more labels.
pub(crate) fn origin(text: &str) -> Result<String, address::Wrong> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    let exact = text.replacen("://*.", "://", 1);
    match address::endpoint(&exact) {
        Ok(Endpoint { scheme, authority, path, .. }) if path.is_empty() && !text.ends_with('/') => {
            let wildcard = if exact == text { "" } else { "*." };
            Ok(format!("{}://{wildcard}{authority}", scheme.as_str()))
        }
        Ok(_) => Err((
            format!("the origin `{}` has a path", shorten(text)),
            "end it after the host or port".to_owned(),
        )),
        Err((message, _)) => {
            let help = "write `https://host`, `https://*.host`, `http://host:port` or `*`";
            Err((message, help.to_owned()))
        }
    }
}

fn method(text: &str) -> Result<String, address::Wrong> {
    let upper = text.to_ascii_uppercase();
    if Method::from_bytes(upper.as_bytes()) == Method::Other {
        return Err((
            format!("unknown method `{}`", shorten(text)),
            "write methods such as GET and POST".to_owned(),
        ));
    }
    Ok(upper)
}

pub(crate) fn header(text: &str) -> Result<String, address::Wrong> {
    if text == "*" || is_token(text) {
        return Ok(text.to_owned());
    }
    Err((
        format!("`{}` is not a valid header field name", shorten(text)),
        "use letters, digits and `-`".to_owned(),
    ))
}

/// Whether `text` is a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
