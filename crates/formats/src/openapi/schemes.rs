//! The kinds of credential that a description names: its security schemes, and `x-wso2-application-security`.

use std::collections::BTreeMap;

use model::{KeyPlace, Place};

use super::general;
use super::refs::Resolver;
use super::values;
use crate::report::{Report, one_of, shorten, suggest};
use crate::tree::{Map, Node};

/// The kinds of credential that a file can require.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A token of an issuer: oauth2, openIdConnect, http bearer.
    Token,
    Key(KeyPlace),
    /// The password of a user.
    Login,
    /// A scheme that is not supported yet; its name for diagnostics.
    Unsupported(&'static str),
    /// An invalid scheme, which has been reported.
    Invalid,
}

/// The security schemes of a document, by name, and settings for all of them.
#[derive(Debug)]
pub(super) struct Schemes<'n> {
    pub(super) list: BTreeMap<&'n str, Kind>,
    /// `x-wso2-api-key-header`, in lower case.
    key_header: String,
    /// Whether client certificates count.
    certificates: bool,
}

impl<'n> Schemes<'n> {
    /// Reads `components.securitySchemes` (OpenAPI 3) or `securityDefinitions` (Swagger 2.0).
    pub(super) fn read(
        node: Option<&'n Node<'n>>,
        root: &Map<'_>,
        resolver: &mut Resolver<'n, '_>,
        report: &mut Report,
    ) -> Self {
        let mut list = BTreeMap::new();
        let map = node.and_then(|node| values::map(node, "securitySchemes", report));
        for member in map.iter().flat_map(|map| map.iter()) {
            let mut found = Kind::Invalid;
            resolver.resolve(&member.value, REFERABLE, report, &mut |node, report| {
                found = kind(node, report).unwrap_or(Kind::Invalid);
            });
            list.insert(member.key.as_ref(), found);
        }
        let certificates = general::has_certificates(root);
        Self { list, key_header: key_header(root, report), certificates }
    }

    pub(super) fn kind(&self, name: &str) -> Option<&Kind> {
        self.list.get(name)
    }

    /// The default places of API keys, if no scheme names any. Source: API Manager.
    fn key_places(&self) -> Vec<KeyPlace> {
        vec![KeyPlace::Header(self.key_header.clone()), KeyPlace::Query("apikey".to_owned())]
    }
}

fn key_header(root: &Map<'_>, report: &mut Report) -> String {
    let name = "x-wso2-api-key-header";
    let node = root.get(name);
    let text = node.and_then(|node| Some((values::text(node, name, report)?, node.place)));
    text.map_or_else(|| "apikey".to_owned(), |(text, place)| general::field(text, place, report))
}

/// Maps in which a `$ref` within the document may find a security scheme.
const REFERABLE: &[&[&str]] = &[&["components", "securitySchemes"], &["securityDefinitions"]];

const TYPES: [&str; 6] = ["oauth2", "openIdConnect", "http", "apiKey", "basic", "mutualTLS"];

fn kind(node: &Node<'_>, report: &mut Report) -> Option<Kind> {
    let map = values::map(node, "securitySchemes", report)?;
    let Some(of) = map.get("type") else {
        return report.reject(
            node.place,
            "the security scheme has no `type`",
            "add `type: oauth2`",
        );
    };
    let written = values::text(of, "type", report)?;
    match written {
        "oauth2" | "openIdConnect" => Some(Kind::Token),
        "apiKey" => key(map, node.place, report).map(Kind::Key),
        "basic" => Some(Kind::Login),
        "mutualTLS" => Some(Kind::Unsupported("client certificates are")),
        "http" => match map.get("scheme").and_then(Node::as_text) {
            Some(scheme) if scheme.eq_ignore_ascii_case("bearer") => Some(Kind::Token),
            Some(scheme) if scheme.eq_ignore_ascii_case("basic") => Some(Kind::Login),
            Some(_) => Some(Kind::Unsupported("this HTTP authentication scheme is")),
            None => report.reject(
                node.place,
                "the http security scheme has no `scheme`",
                "add `scheme: bearer`",
            ),
        },
        other => {
            let help = suggest(other, TYPES, || format!("write {}", one_of(TYPES)));
            report.reject(
                of.place,
                format!("unknown type of security scheme `{}`", shorten(other)),
                help,
            )
        }
    }
}

/// `in` and `name` of an API key.
fn key(map: &Map<'_>, place: Place, report: &mut Report) -> Option<KeyPlace> {
    const PLACES: [&str; 3] = ["header", "query", "cookie"];
    let (Some(within), Some(name)) = (map.get("in"), map.get("name")) else {
        let help = "add `in: header` and `name: X-API-Key`";
        return report.reject(place, "the apiKey security scheme needs `in` and `name`", help);
    };
    let text = values::text(name, "name", report).filter(|text| !text.is_empty())?;
    match values::text(within, "in", report)? {
        "header" => Some(KeyPlace::Header(general::field(text, name.place, report))),
        "query" => Some(KeyPlace::Query(text.to_owned())),
        "cookie" => Some(KeyPlace::Cookie(text.to_owned())),
        other => {
            let help = suggest(other, PLACES, || format!("write {}", one_of(PLACES)));
            report.reject(within.place, format!("unknown place `{}`", shorten(other)), help)
        }
    }
}

/// The credentials that `x-wso2-application-security` accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Application {
    /// `security-types`
    pub(super) types: Option<Types>,
    /// `optional`
    pub(super) optional: Option<bool>,
}

/// The kinds of credential among `security-types`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Types {
    pub(super) token: bool,
    pub(super) login: bool,
    /// The default places of API keys, if they are accepted and no scheme names any.
    pub(super) keys: Option<Vec<KeyPlace>>,
}

impl Application {
    /// `{security-types: [...], optional: ...}`
    pub(super) fn read(map: &Map<'_>, schemes: &Schemes<'_>, report: &mut Report) -> Self {
        const KEYS: [&str; 2] = ["security-types", "optional"];
        let name = "x-wso2-application-security";
        let map = map.get(name).and_then(|node| values::map(node, name, report));
        let Some(map) = map else { return Self::default() };
        for member in map.iter().filter(|member| !KEYS.contains(&member.key.as_ref())) {
            let help = suggest(&member.key, KEYS, || "remove it".to_owned());
            let message = format!("unknown key `{}` in `{name}`", shorten(&member.key));
            report.error(member.key_place, message, help);
        }
        let types = map.get(KEYS[0]).and_then(|node| types(node, schemes, report));
        let node = map.get(KEYS[1]);
        let optional = node.and_then(|node| values::flag(node, KEYS[1], report));
        if let (Some(node), Some(true), false) = (node, optional, schemes.certificates) {
            let message = "`optional: true` has no effect without client certificates: clients need a credential";
            let help = "write `x-wso2-mutual-ssl: mandatory` or `optional` as well, or `x-wso2-disable-security: true` for public access";
            report.warning(node.place, message, help);
        }
        Self { types, optional: optional.map(|optional| optional && schemes.certificates) }
    }
}

fn types(node: &Node<'_>, schemes: &Schemes<'_>, report: &mut Report) -> Option<Types> {
    const TYPES: [&str; 4] = ["oauth2", "jwt", "api_key", "basic_auth"];
    let listed = values::texts(node, "security-types", report)?;
    let has = |kinds: &[&str]| listed.iter().any(|(kind, _)| kinds.contains(kind));
    let (token, key, login) = (has(&["oauth2", "jwt"]), has(&["api_key"]), has(&["basic_auth"]));
    for (kind, place) in &listed {
        match *kind {
            "oauth2" | "jwt" | "api_key" | "basic_auth" => {}
            other => {
                let help = suggest(other, TYPES, || format!("write {}", one_of(TYPES)));
                report.error(*place, format!("unknown security type `{}`", shorten(other)), help);
            }
        }
    }
    let keys = || key.then(|| schemes.key_places());
    (token || key || login).then(|| Types { token, login, keys: keys() })
}
