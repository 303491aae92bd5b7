//! The document type declaration and the markup declarations of its internal subset (section 2.8).

use std::collections::HashMap;
use std::ops::Range;

use super::cursor::{Cursor, Read};
use super::{AttributeDefinition, Dtd, Entity};
use crate::error::{Fault, XmlErrorKind};
use crate::limits::{XML_DECLARATIONS_MAX, XML_DEPTH_MAX, XML_ENTITY_DEPTH_MAX};
use crate::machine::references::{self, Growth, Reference, Wrong};
use crate::options::Limits;
use crate::scan;

/// Reads the declaration at `at` into `dtd`.
pub(super) fn read(
    text: &str,
    at: usize,
    limits: Limits,
    broken: Option<&Fault>,
    dtd: &mut Dtd,
) -> Read {
    let mut cursor = Cursor { text, at, blame: None, broken, name_bytes: limits.name_bytes };
    cursor.expect("<!DOCTYPE", "it starts with `<!DOCTYPE`")?;
    cursor.space()?;
    cursor.qname()?;
    if cursor.skip_space() && matches!(cursor.peek(), Some(b'S' | b'P')) {
        external_id(&mut cursor, false)?;
        cursor.skip_space();
    }
    if cursor.eat("[") {
        let growth = Growth { bytes: 0, limit: limits.entity_bytes };
        let mut subset = Subset { dtd, growth, parameters: HashMap::new(), declarations: 0 };
        subset.declarations(&mut cursor, 0)?;
        cursor.expect("]", "it ends with `]>`")?;
        cursor.skip_space();
    }
    cursor.expect(">", "`>` is missing")?;
    dtd.range = Some(at..cursor.at);
    Ok(())
}

/// Productions 75 and 83; `notation`: a public identifier may stand alone.
/// Answers where the system identifier stands; a notation may have none.
fn external_id(cursor: &mut Cursor<'_>, notation: bool) -> Read<Option<Range<usize>>> {
    if cursor.eat("SYSTEM") {
        cursor.space()?;
        return cursor.quoted().map(|(range, _)| Some(range));
    }
    cursor.expect("PUBLIC", "`SYSTEM` or `PUBLIC` is missing")?;
    cursor.space()?;
    let (range, _) = cursor.quoted()?;
    let public = cursor.text.get(range).unwrap_or("");
    let good = |b: u8| b.is_ascii_alphanumeric() || b" \n-'()+,./:=?;!*#@$_%".contains(&b);
    if !public.bytes().all(good) {
        return Err(cursor.bad("a public identifier holds other characters than it may"));
    }
    let spaced = cursor.skip_space();
    if notation && !matches!(cursor.peek(), Some(b'"' | b'\'')) {
        return Ok(None);
    }
    if !spaced {
        return Err(cursor.bad("a space is missing"));
    }
    cursor.quoted().map(|(range, _)| Some(range))
}

struct Subset<'d> {
    dtd: &'d mut Dtd,
    growth: Growth,
    /// Parameter entities; none: external.
    parameters: HashMap<String, Option<String>>,
    declarations: u32,
}

impl Subset<'_> {
    /// All declarations up to `]` or the end. `depth` is that of parameter entities, at most
    /// [`XML_ENTITY_DEPTH_MAX`], which bounds the recursion.
    fn declarations(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Read {
        loop {
            cursor.skip_space();
            match cursor.peek() {
                None if depth > 0 => return Ok(()),
                None => return Err(cursor.bad("it doesn't end")),
                Some(b']') if depth == 0 => return Ok(()),
                Some(b'%') => self.parameter(cursor, depth)?,
                Some(_) => self.declaration(cursor)?,
            }
            self.count(cursor)?;
        }
    }

    fn declaration(&mut self, cursor: &mut Cursor<'_>) -> Read {
        if cursor.eat("<!--") {
            cursor.pass("--")?;
            return match cursor.eat(">") {
                true => Ok(()),
                false => Err(cursor.fault(XmlErrorKind::HyphensInComment)),
            };
        }
        if cursor.eat("<?") {
            let target = cursor.ncname()?;
            if target.eq_ignore_ascii_case("xml") {
                return Err(cursor.fault(XmlErrorKind::ReservedTarget(target.to_owned())));
            }
            if !cursor.rest().starts_with("?>") {
                cursor.space()?;
            }
            return cursor.pass("?>").map(drop);
        }
        if cursor.eat("<!ENTITY") {
            self.entity(cursor)?;
        } else if cursor.eat("<!ATTLIST") {
            self.attlist(cursor)?;
        } else if cursor.eat("<!ELEMENT") {
            element(cursor)?;
        } else if cursor.eat("<!NOTATION") {
            cursor.space()?;
            cursor.ncname()?;
            cursor.space()?;
            external_id(cursor, true)?;
        } else {
            return Err(cursor.bad("a declaration, a comment or `]` is expected"));
        }
        cursor.skip_space();
        cursor.expect(">", "`>` is missing")
    }

    /// A reference to a parameter entity, between declarations (the only place for one here).
    fn parameter(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Read {
        let at = cursor.at;
        cursor.expect("%", "`%` is missing")?;
        let name = cursor.ncname()?;
        cursor.expect(";", "`;` is missing behind the name of a parameter entity")?;
        let shown = ["%", name].concat();
        let blame = cursor.blame.unwrap_or(at);
        let fault = |kind| Fault::new(blame, kind);
        let text = match self.parameters.get(name) {
            Some(Some(text)) => text.clone(),
            Some(None) => return Err(fault(XmlErrorKind::ExternalEntity(shown))),
            None => return Err(fault(XmlErrorKind::UnknownEntity(shown))),
        };
        let grown = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.growth.bytes = self.growth.bytes.saturating_add(grown);
        if self.growth.bytes > self.growth.limit {
            let (what, limit) = ("bytes of expanded entities", self.growth.limit);
            return Err(fault(XmlErrorKind::Limit { what, limit }));
        }
        // Deep enough, a loop is one of these.
        if depth >= XML_ENTITY_DEPTH_MAX {
            return Err(fault(XmlErrorKind::EntityLoop(shown)));
        }
        let mut inner = Cursor { text: &text, at: 0, blame: Some(blame), ..cursor.clone() };
        self.declarations(&mut inner, depth.saturating_add(1))
    }

    /// Section 4.2.
    fn entity(&mut self, cursor: &mut Cursor<'_>) -> Read {
        cursor.space()?;
        let parameter = cursor.eat("%");
        if parameter {
            cursor.space()?;
        }
        let name = cursor.ncname()?;
        cursor.space()?;
        if matches!(cursor.peek(), Some(b'"' | b'\'')) {
            let start = cursor.at.saturating_add(1);
            let value = entity_value(cursor)?;
            let place = cursor.blame.unwrap_or(start);
            if parameter {
                self.parameters.entry(name.to_owned()).or_insert(Some(value));
            } else if !self.dtd.entities.contains_key(name) {
                let range = self.keep(&value, place);
                self.dtd.entities.insert(name.to_owned(), Entity::Internal(range));
            }
            return Ok(());
        }
        let system = external_id(cursor, false)?;
        let mut entity = Entity::External;
        let spaced = cursor.skip_space();
        if !parameter && cursor.eat("NDATA") {
            if !spaced {
                return Err(cursor.bad("a space is missing"));
            }
            cursor.space()?;
            cursor.ncname()?;
            let system = system.and_then(|range| cursor.text.get(range)).unwrap_or("");
            entity = Entity::Unparsed(system.to_owned());
        }
        if parameter {
            self.parameters.entry(name.to_owned()).or_insert(None);
        } else {
            self.dtd.entities.entry(name.to_owned()).or_insert(entity);
        }
        Ok(())
    }

    fn keep(&mut self, text: &str, place: usize) -> Range<usize> {
        let start = self.dtd.text.len();
        self.dtd.origins.push((start, place));
        self.dtd.text.push_str(text);
        start..self.dtd.text.len()
    }

    /// Section 3.3.
    fn attlist(&mut self, cursor: &mut Cursor<'_>) -> Read {
        cursor.space()?;
        let element = cursor.qname()?;
        loop {
            let spaced = cursor.skip_space();
            if matches!(cursor.peek(), Some(b'>') | None) {
                return Ok(());
            }
            if !spaced {
                return Err(cursor.bad("a space is missing"));
            }
            let (name, definition) = self.attribute(cursor)?;
            self.count(cursor)?;
            let known = self.dtd.attributes.entry(element.to_owned()).or_default();
            if known.by_name.contains_key(&name) {
                continue;
            }
            if definition.default.is_some() {
                known.defaults.push(name.clone());
            }
            known.by_name.insert(name, definition);
        }
    }

    fn count(&mut self, cursor: &Cursor<'_>) -> Read {
        self.declarations = self.declarations.saturating_add(1);
        if self.declarations <= XML_DECLARATIONS_MAX {
            return Ok(());
        }
        let (what, limit) = ("declarations", XML_DECLARATIONS_MAX);
        Err(cursor.fault(XmlErrorKind::Limit { what, limit }))
    }

    fn attribute(&mut self, cursor: &mut Cursor<'_>) -> Read<(String, AttributeDefinition)> {
        const TYPES: [&str; 8] =
            ["CDATA", "IDREFS", "IDREF", "ID", "ENTITIES", "ENTITY", "NMTOKENS", "NMTOKEN"];
        let name = cursor.qname()?.to_owned();
        cursor.space()?;
        let kind = TYPES.into_iter().find(|kind| cursor.eat(kind));
        if kind.is_none() {
            if cursor.eat("NOTATION") {
                cursor.space()?;
            }
            enumeration(cursor)?;
        }
        cursor.space()?;
        let tokenized = kind != Some("CDATA");
        let is_id = kind == Some("ID");
        if cursor.eat("#REQUIRED") || cursor.eat("#IMPLIED") {
            return Ok((name, AttributeDefinition { tokenized, is_id, default: None }));
        }
        if cursor.eat("#FIXED") {
            cursor.space()?;
        }
        let place = cursor.blame.unwrap_or(cursor.at.saturating_add(1));
        let mut value = self.default_value(cursor)?;
        if tokenized {
            value = value.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        }
        let default = Some(self.keep(&value, place));
        Ok((name, AttributeDefinition { tokenized, is_id, default }))
    }

    /// Normalised, with entities expanded.
    fn default_value(&mut self, cursor: &mut Cursor<'_>) -> Read<String> {
        let (range, _) = cursor.quoted()?;
        let text = cursor.text.get(..range.end).unwrap_or("");
        let mut out = String::new();
        let mut at = range.start;
        loop {
            let stop = scan::value(text.as_bytes(), at, b'&');
            out.push_str(text.get(at..stop).unwrap_or(""));
            let fault = |kind| Fault::new(cursor.blame.unwrap_or(stop), kind);
            match text.as_bytes().get(stop) {
                None => return Ok(out),
                Some(b'<') => return Err(fault(XmlErrorKind::LessThanInAttribute)),
                Some(b'&') => {
                    let (reference, end) =
                        references::read(text, stop).map_err(|w| fault(kind(w)))?;
                    match reference {
                        Reference::Character(c) => out.push(c),
                        Reference::Entity(name) => {
                            let name = text.get(name).unwrap_or("");
                            references::expand(self.dtd, name, &mut self.growth, &mut out)
                                .map_err(fault)?;
                        }
                    }
                    at = end;
                }
                Some(_) => {
                    out.push(' ');
                    at = stop.saturating_add(1);
                }
            }
        }
    }
}

/// A reference that its literal cuts short is as malformed as any.
fn kind(wrong: Wrong) -> XmlErrorKind {
    match wrong {
        Wrong::Short => XmlErrorKind::BadReference,
        Wrong::Kind(kind) => kind,
    }
}

/// The replacement text (section 4.5): character references are resolved, those to entities stay.
fn entity_value(cursor: &mut Cursor<'_>) -> Read<String> {
    let (range, _) = cursor.quoted()?;
    let text = cursor.text.get(..range.end).unwrap_or("");
    let mut out = String::new();
    let mut at = range.start;
    while let Some(offset) = memchr::memchr2(b'&', b'%', text.as_bytes().get(at..).unwrap_or(&[])) {
        let stop = at.saturating_add(offset);
        out.push_str(text.get(at..stop).unwrap_or(""));
        let fault = |kind| Fault::new(cursor.blame.unwrap_or(stop), kind);
        if text.as_bytes().get(stop) == Some(&b'%') {
            let why = "`%` can't stand inside a declaration here; write `&#37;`";
            return Err(fault(XmlErrorKind::BadDoctype(why)));
        }
        let (reference, end) = references::read(text, stop).map_err(|wrong| fault(kind(wrong)))?;
        let written = text.get(stop..end).unwrap_or("");
        match reference {
            Reference::Character(c) if written.starts_with("&#") => out.push(c),
            Reference::Character(_) | Reference::Entity(_) => out.push_str(written),
        }
        at = end;
    }
    out.push_str(text.get(at..).unwrap_or(""));
    Ok(out)
}

/// Productions 58 and 59.
fn enumeration(cursor: &mut Cursor<'_>) -> Read {
    cursor.expect("(", "a type of attribute is missing")?;
    loop {
        cursor.skip_space();
        cursor.nmtoken()?;
        cursor.skip_space();
        if cursor.eat(")") {
            return Ok(());
        }
        cursor.expect("|", "`|` or `)` is missing")?;
    }
}

/// Section 3.2: the content model is checked and forgotten.
fn element(cursor: &mut Cursor<'_>) -> Read {
    cursor.space()?;
    cursor.qname()?;
    cursor.space()?;
    if cursor.eat("EMPTY") || cursor.eat("ANY") {
        return Ok(());
    }
    let start = cursor.at;
    cursor.expect("(", "a content model is missing")?;
    cursor.skip_space();
    if cursor.eat("#PCDATA") {
        return mixed(cursor);
    }
    cursor.at = start;
    children(cursor)
}

fn mixed(cursor: &mut Cursor<'_>) -> Read {
    let mut named = false;
    loop {
        cursor.skip_space();
        if cursor.eat(")") {
            return match cursor.eat("*") || !named {
                true => Ok(()),
                false => Err(cursor.bad("`)*` ends a mixed content model")),
            };
        }
        cursor.expect("|", "`|` or `)` is missing")?;
        cursor.skip_space();
        cursor.qname()?;
        named = true;
    }
}

/// Productions 47 to 50. Open groups are kept with their separator.
fn children(cursor: &mut Cursor<'_>) -> Read {
    let mut open: Vec<Option<u8>> = Vec::new();
    loop {
        // A particle: a group or a name.
        cursor.skip_space();
        if cursor.eat("(") {
            if open.len() >= XML_DEPTH_MAX as usize {
                let (what, limit) = ("groups inside one another", XML_DEPTH_MAX);
                return Err(cursor.fault(XmlErrorKind::Limit { what, limit }));
            }
            open.push(None);
            continue;
        }
        cursor.qname()?;
        occurrence(cursor);
        // What follows it: a separator, or ends of groups.
        loop {
            cursor.skip_space();
            match (cursor.peek(), open.last_mut()) {
                (Some(b')'), Some(_)) => {
                    cursor.at = cursor.at.saturating_add(1);
                    open.pop();
                    occurrence(cursor);
                    if open.is_empty() {
                        return Ok(());
                    }
                }
                (Some(found @ (b'|' | b',')), Some(separator)) => {
                    if *separator.get_or_insert(found) != found {
                        return Err(cursor.bad("`|` and `,` can't be mixed in one group"));
                    }
                    cursor.at = cursor.at.saturating_add(1);
                    break;
                }
                _ => return Err(cursor.bad("`|`, `,` or `)` is missing")),
            }
        }
    }
}

fn occurrence(cursor: &mut Cursor<'_>) {
    if matches!(cursor.peek(), Some(b'?' | b'*' | b'+')) {
        cursor.at = cursor.at.saturating_add(1);
    }
}
