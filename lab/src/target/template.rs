//! Templates of targets: `{{name}}` is replaced by a value. There are no loops or conditions except
//! `[part.NAME]`, so that a configuration looks like the program's own. `{{sha256.TEXT}}` is a hash, of a text that
//! may contain names.

use std::collections::BTreeMap;

use toml::Spanned;

use super::definition::TemplatePart;
use crate::suite::fingerprint;
use crate::suite::source::Source;

const HASH: &str = "sha256.";

/// The names available to every template.
pub(crate) const BUILT_IN: &[&str] = &[
    "penstock",     // the program that runs the lab
    "folder",       // the process's own folder, absolute
    "copy",         // number of the copy, from 1
    "backend_port", // the backend's port on 127.0.0.1
    "path",         // the scenario's path, without its query
    "tls_cert",
    "tls_key",
    "tls_pair", // certificate and key in one file
    "issuer",
    "token_public_key",
    "token_public_key_text",
    "token_jwks",      // path of the JWKS file
    "token_jwks_text", // content of the JWKS file
];

pub(crate) type Values = BTreeMap<String, String>;

/// The values for filling a template.
pub(crate) struct TemplateContext<'f> {
    pub(crate) values: &'f Values,
    pub(crate) parts: &'f BTreeMap<String, TemplatePart>,
    /// The scenario's needs.
    pub(crate) needs: &'f [String],
    /// The values of each copy of each process.
    pub(crate) copies: &'f BTreeMap<String, Vec<Values>>,
}

impl TemplateContext<'_> {
    /// # Errors
    /// A name without a value. Does not happen for files that passed [`check`].
    pub(crate) fn fill(&self, template: &str) -> Result<String, String> {
        self.fill_with(template, self.values).map(|filled| with_hashes(&filled))
    }

    fn fill_with(&self, template: &str, values: &Values) -> Result<String, String> {
        let mut out = String::with_capacity(template.len());
        for piece in pieces(template) {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Name(name) => match name.strip_prefix("part.") {
                    Some(part) => out.push_str(&self.part(part)?),
                    None => out.push_str(value(values, name)?),
                },
            }
        }
        Ok(out)
    }

    fn part(&self, name: &str) -> Result<String, String> {
        let part = self.parts.get(name).ok_or_else(|| format!("unknown part `{name}`"))?;
        let wanted = |need: &String| self.needs.contains(need);
        if !part.needs.as_ref().is_none_or(wanted) || part.unless.needs().iter().any(wanted) {
            return Ok(String::new());
        }
        let plain = |values: &Values| {
            let pieces = pieces(part.text.get_ref()).map(|piece| match piece {
                Piece::Text(text) => Ok(text),
                Piece::Name(name) => value(values, name),
            });
            pieces.collect::<Result<String, String>>()
        };
        match &part.each {
            None => plain(self.values),
            Some(process) => {
                let copies = self.copies.get(process).map(Vec::as_slice).unwrap_or_default();
                copies.iter().map(plain).collect()
            }
        }
    }
}

fn value<'v>(values: &'v Values, name: &str) -> Result<&'v str, String> {
    values.get(name).map(String::as_str).ok_or_else(|| format!("`{{{{{name}}}}}` has no value"))
}

/// Replaces `{{sha256.TEXT}}` by the SHA-256 of TEXT in hexadecimal, unless TEXT has a name that has no value yet.
pub(crate) fn with_hashes(filled: &str) -> String {
    let start = format!("{{{{{HASH}");
    let mut pieces = filled.split(&start);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once("}}") {
            Some((text, rest)) if !text.contains('{') => {
                out.push_str(&fingerprint::sha256(text));
                out.push_str(rest);
            }
            Some(_) | None => out.extend([start.as_str(), piece]),
        }
    }
    out
}

/// Rejects unknown names in `texts`.
pub(crate) fn check(
    source: &Source,
    names: &[String],
    texts: &[&Spanned<String>],
) -> Result<(), String> {
    for text in texts {
        for piece in pieces(text.get_ref()) {
            if let Piece::Name(name) = piece
                && names.iter().all(|known| known != name)
            {
                let written = Spanned::new(text.span(), name.to_owned());
                return Err(source.unknown_name(
                    &written,
                    "value",
                    names.iter().map(String::as_str),
                ));
            }
        }
    }
    Ok(())
}

/// Whether `template` uses the value `name`.
pub(crate) fn uses(template: &str, name: &str) -> bool {
    pieces(template).any(|piece| matches!(piece, Piece::Name(found) if found == name))
}

pub(crate) enum Piece<'t> {
    Text(&'t str),
    Name(&'t str),
}

/// Braces around anything but a name are left unchanged: many configuration formats use them. So are hashes, which
/// [`with_hashes`] replaces.
pub(crate) fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let mut rest = template;
    let mut pieces = Vec::new();
    let mut from = 0;
    while let Some(found) = rest.get(from..).and_then(|text| text.find("{{")) {
        let at = from + found;
        let (before, after) = (rest.get(..at), rest.get(at + 2..).unwrap_or_default());
        match after.split_once("}}") {
            Some((name, after_name))
                if !name.is_empty() && !name.starts_with(HASH) && name.chars().all(is_name) =>
            {
                pieces.extend(before.map(Piece::Text));
                pieces.push(Piece::Name(name));
                (rest, from) = (after_name, 0);
            }
            Some(_) | None => from = at + 1,
        }
    }
    pieces.push(Piece::Text(rest));
    pieces.into_iter()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::target::definition::Unless;

    #[test]
    fn names_are_replaced_and_other_braces_are_kept() {
        check_fill("listen {{port}};", "listen 80;");
        check_fill("a: {b: {c: {{port}}}}", "a: {b: {c: 80}}");
        check_fill("{{ port }} {{}} {{{port}}}", "{{ port }} {{}} {80}");
        check_fill("x{{part.jwt}}y", "xverify 80\ny");
        check_fill("x{{part.other}}y", "xy");
        check_fill("x{{part.without}}y", "xy");
        check_fill("{{part.servers}}", "s1 81\ns2 82\n");
    }

    #[test]
    fn hashes_are_those_of_the_filled_text() {
        const OF_PORT_80: &str = "d856c5d4ca543b4ee55286c09b294187242f8022a8e610511536036fadc7c1ab";
        check_fill("a {{sha256.port-80}} b", &format!("a {OF_PORT_80} b"));
        check_fill("{{sha256.port-{{port}}}}{{port}}", &format!("{OF_PORT_80}80"));
        check_fill("{{sha256.port-{{ x }}}}", "{{sha256.port-{{ x }}}}");
        check_fill("{{sha256.port", "{{sha256.port");
    }

    #[track_caller]
    fn check_fill(template: &str, expect: &str) {
        let values = Values::from([("port".to_owned(), "80".to_owned())]);
        let part = |text: &str, needs: Option<&str>, unless: Option<&str>, each: Option<&str>| {
            TemplatePart {
                text: Spanned::new(0..0, text.to_owned()),
                needs: needs.map(str::to_owned),
                unless: Unless::Several(unless.into_iter().map(str::to_owned).collect()),
                each: each.map(str::to_owned),
            }
        };
        let parts = BTreeMap::from([
            ("jwt".to_owned(), part("verify {{port}}\n", Some("jwt"), None, None)),
            ("other".to_owned(), part("no", Some("opaque"), None, None)),
            ("without".to_owned(), part("no", None, Some("jwt"), None)),
            ("servers".to_owned(), part("s{{copy}} {{port}}\n", None, None, Some("gateway"))),
        ]);
        let copy = |copy: &str, port: &str| {
            Values::from([("copy".into(), copy.into()), ("port".into(), port.into())])
        };
        let copies =
            BTreeMap::from([("gateway".to_owned(), vec![copy("1", "81"), copy("2", "82")])]);
        let needs = ["jwt".to_owned()];
        let context =
            TemplateContext { values: &values, parts: &parts, needs: &needs, copies: &copies };
        assert_eq!(context.fill(template).unwrap(), expect);
    }

    #[test]
    fn unknown_names_are_rejected_with_position() {
        let source = Source { name: "t.toml".into(), text: "a = 1\nb = '{{prot}}'".to_owned() };
        let text = Spanned::new(10..20, "{{prot}}".to_owned());
        let error = check(&source, &["port".to_owned()], &[&text]).unwrap_err();
        assert!(error.starts_with("t.toml:2:5: error: unknown value `prot`"), "{error}");
        assert!(error.contains("`port`"), "{error}");
    }
}
