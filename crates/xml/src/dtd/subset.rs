//! The document type declaration and the markup declarations of its internal and external subset
//! (sections 2.8, 3.2 to 3.4 and 4).

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use super::cursor::{Cursor, Read};
use super::{AttributeDefinition, Dtd, Entity};
use crate::chars;
use crate::entities::{EntityResolver, ExternalEntity, Replacement};
use crate::error::{ErrorKind, OffsetError};
use crate::limits::{XML_DEPTH_MAX, XML_ENTITY_DEPTH_MAX};
use crate::machine::references::{self, Growth, Reference, Wrong};
use crate::options::Options;
use crate::scan;

/// Reads the declaration at `at` into `dtd`.
pub(super) fn read(
    text: &str,
    at: usize,
    (options, resolver): (&Options, Option<&dyn EntityResolver>),
    broken: Option<&OffsetError>,
    dtd: &mut Dtd,
) -> Read {
    let name_bytes = options.limits.name_bytes;
    let mut cursor = Cursor { text, at, blame: None, external: None, broken, name_bytes };
    cursor.expect("<!DOCTYPE", "it must start with `<!DOCTYPE`")?;
    cursor.space()?;
    cursor.qname()?;
    let mut external = None;
    if cursor.skip_space() && matches!(cursor.peek(), Some(b'S' | b'P')) {
        external = Some(external_id(&mut cursor, false)?);
        cursor.skip_space();
    }
    let mut subset = Subset {
        dtd,
        growth: Growth { bytes: 0, limit: options.limits.entity_bytes },
        parameters: HashMap::new(),
        declarations: 0,
        declarations_max: options.limits.declarations,
        open: Vec::new(),
        base: options.base_uri.as_deref().map(Rc::from),
        resolver,
    };
    if cursor.eat("[") {
        subset.declarations(&mut cursor, Until::Bracket)?;
        cursor.expect("]", "it must end with `]>`")?;
        cursor.skip_space();
    }
    cursor.expect(">", "`>` is missing")?;
    if let Some(id) = external {
        subset.external_subset(&cursor, at, &id)?;
    }
    dtd.range = Some(at..cursor.at);
    Ok(())
}

/// An external identifier. Only a notation may have a public identifier without a system one.
#[derive(Debug, Default)]
struct ExternalId {
    system: String,
    public: Option<String>,
}

/// Reads an external identifier (productions 75 and 83).
fn external_id(cursor: &mut Cursor<'_>, notation: bool) -> Read<ExternalId> {
    let text = cursor.text;
    let owned = |range: Range<usize>| text.get(range).unwrap_or("").to_owned();
    if cursor.eat("SYSTEM") {
        cursor.space()?;
        let (range, _) = cursor.quoted()?;
        return Ok(ExternalId { system: owned(range), public: None });
    }
    cursor.expect("PUBLIC", "`SYSTEM` or `PUBLIC` is missing")?;
    cursor.space()?;
    let (range, _) = cursor.quoted()?;
    let public = owned(range);
    let good = |b: u8| b.is_ascii_alphanumeric() || b" \n-'()+,./:=?;!*#@$_%".contains(&b);
    if !public.bytes().all(good) {
        return Err(
            cursor.bad("the public identifier contains a character that isn't allowed in one")
        );
    }
    let public = Some(public);
    let spaced = cursor.skip_space();
    if notation && !matches!(cursor.peek(), Some(b'"' | b'\'')) {
        return Ok(ExternalId { system: String::new(), public });
    }
    if !spaced {
        return Err(cursor.bad("a space is missing"));
    }
    let (range, _) = cursor.quoted()?;
    Ok(ExternalId { system: owned(range), public })
}

/// A declared parameter entity.
enum Parameter {
    Known(Rc<Replacement>),
    /// An external entity that isn't loaded yet, with the base URI of its declaration.
    External(ExternalId, Option<Rc<str>>),
}

/// The end of a sequence of declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// The `]` of the internal subset.
    Bracket,
    /// The end of an entity's text.
    End,
    /// The `]]>` of a conditional section.
    Section,
}

struct Subset<'d> {
    dtd: &'d mut Dtd,
    growth: Growth,
    parameters: HashMap<String, Parameter>,
    declarations: u32,
    declarations_max: u32,
    /// Names of the parameter entities being read, and an empty one for each conditional section. There are at most
    /// [`XML_ENTITY_DEPTH_MAX`], which bounds the recursion.
    open: Vec<String>,
    /// The URI of the document or external entity being read.
    base: Option<Rc<str>>,
    resolver: Option<&'d dyn EntityResolver>,
}

impl Subset<'_> {
    /// All declarations up to `until`.
    fn declarations(&mut self, cursor: &mut Cursor<'_>, until: Until) -> Read {
        loop {
            cursor.skip_space();
            match cursor.peek() {
                None if until == Until::End => return Ok(()),
                None => return Err(cursor.bad("it doesn't end")),
                Some(b']') if until == Until::Bracket => return Ok(()),
                Some(b']') if until == Until::Section && cursor.eat("]]>") => return Ok(()),
                Some(b'%') => self.parameter(cursor)?,
                Some(b'<') if cursor.external.is_some() && cursor.rest().starts_with("<![") => {
                    self.conditional_section(cursor)?;
                }
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
                false => Err(cursor.error(ErrorKind::HyphensInComment)),
            };
        }
        if cursor.eat("<?") {
            let target = cursor.ncname()?;
            if target.eq_ignore_ascii_case("xml") {
                return Err(cursor.error(ErrorKind::ReservedTarget(target.to_owned())));
            }
            if !cursor.rest().starts_with("?>") {
                cursor.space()?;
            }
            return cursor.pass("?>").map(drop);
        }
        let Some(substituted) = self.substituted(cursor)? else {
            return self.markup_declaration(cursor);
        };
        let (text, end) = substituted;
        let blame = Some(cursor.blame.unwrap_or(cursor.at));
        let mut inner = Cursor { text: &text, at: 0, blame, ..cursor.clone() };
        self.markup_declaration(&mut inner)?;
        if inner.peek().is_some() {
            return Err(inner.bad("`>` is expected only at its end"));
        }
        cursor.at = end;
        Ok(())
    }

    fn markup_declaration(&mut self, cursor: &mut Cursor<'_>) -> Read {
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

    /// The declaration at the cursor with its parameter entities replaced, and its end, in an external entity; `None`
    /// if the declaration has no parameter entities.
    fn substituted(&mut self, cursor: &Cursor<'_>) -> Read<Option<(String, usize)>> {
        if cursor.external.is_none() {
            return Ok(None);
        }
        let rest = cursor.rest();
        let Some(len) = declaration_len(rest) else { return Ok(None) };
        let declaration = rest.get(..len).unwrap_or("");
        if memchr::memchr(b'%', declaration.as_bytes()).is_none() {
            return Ok(None);
        }
        let mut out = String::with_capacity(declaration.len());
        let blame = cursor.blame.unwrap_or(cursor.at);
        self.substitute(declaration, blame, &mut out)?;
        Ok((out != declaration).then(|| (out, cursor.at.saturating_add(len))))
    }

    /// Copies `text`, replacing references to parameter entities outside of literals, with a space on
    /// either side (section 4.4.8).
    fn substitute(&mut self, text: &str, blame: usize, out: &mut String) -> Read {
        let mut rest = text;
        while let Some(at) = rest.find(['%', '"', '\'']) {
            let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
            out.push_str(before);
            if let Some(name) = parameter_name(from) {
                let replacement = self.enter(name, blame)?;
                out.push(' ');
                self.substitute(replacement.content(), blame, out)?;
                out.push(' ');
                self.open.pop();
                rest = from.get(name.len().saturating_add(2)..).unwrap_or("");
                continue;
            }
            let quote = from.chars().next().unwrap_or('%');
            let len = match from.get(1..).and_then(|inside| inside.find(quote)) {
                Some(len) if quote != '%' => len.saturating_add(2),
                Some(_) | None => 1,
            };
            out.push_str(from.get(..len).unwrap_or(""));
            rest = from.get(len..).unwrap_or("");
        }
        out.push_str(rest);
        Ok(())
    }

    /// Reads a conditional section (section 3.4).
    fn conditional_section(&mut self, cursor: &mut Cursor<'_>) -> Read {
        let at = cursor.at;
        cursor.expect("<![", "`<![` is missing")?;
        let Some(len) = cursor.rest().find('[') else {
            return Err(cursor.bad("`[` is missing after the keyword of a conditional section"));
        };
        let mut keyword = String::new();
        let written = cursor.rest().get(..len).unwrap_or("");
        self.substitute(written, cursor.blame.unwrap_or(at), &mut keyword)?;
        let after = cursor.at.saturating_add(len).saturating_add(1);
        match keyword.trim_matches([' ', '\t', '\n']) {
            "INCLUDE" => {
                cursor.at = after;
                self.deeper(String::new(), cursor.blame.unwrap_or(at))?;
                self.declarations(cursor, Until::Section)?;
                self.open.pop();
                Ok(())
            }
            "IGNORE" => {
                cursor.at = after;
                ignore_section(cursor)
            }
            _ => {
                Err(cursor
                    .bad("the keyword of a conditional section must be `INCLUDE` or `IGNORE`"))
            }
        }
    }

    /// A reference to a parameter entity between declarations.
    fn parameter(&mut self, cursor: &mut Cursor<'_>) -> Read {
        let at = cursor.at;
        cursor.expect("%", "`%` is missing")?;
        let name = cursor.ncname()?;
        cursor.expect(";", "`;` is missing after the name of a parameter entity")?;
        let blame = cursor.blame.unwrap_or(at);
        let replacement = self.enter(name, blame)?;
        if replacement.uri.is_some() {
            self.external(&replacement, cursor, blame)?;
        } else {
            let text = replacement.content();
            let mut inner = Cursor { text, at: 0, blame: Some(blame), ..cursor.clone() };
            self.declarations(&mut inner, Until::End)?;
        }
        self.open.pop();
        Ok(())
    }

    fn external_subset(&mut self, cursor: &Cursor<'_>, at: usize, id: &ExternalId) -> Read {
        let base = self.base.clone();
        match self.load(None, id, base, at)? {
            Some(replacement) => {
                references::grow(&mut self.growth, replacement.text.len())
                    .map_err(|kind| OffsetError::new(at, kind))?;
                self.external(&replacement, cursor, at)
            }
            None => Ok(()),
        }
    }

    /// The declarations of an external entity, which `cursor` refers to at `blame`.
    fn external(&mut self, entity: &Replacement, cursor: &Cursor<'_>, blame: usize) -> Read {
        let outer = std::mem::replace(&mut self.base, entity.uri.as_deref().map(Rc::from));
        let mut inner = Cursor {
            text: &entity.text,
            at: entity.start,
            blame: None,
            external: Some(cursor.external.unwrap_or(blame)),
            broken: None,
            name_bytes: cursor.name_bytes,
        };
        let read = self.declarations(&mut inner, Until::End);
        self.base = outer;
        read.map_err(|error| entity.located(error, blame))
    }

    /// The replacement text of a parameter entity, which counts as open until it is popped from `open`.
    fn enter(&mut self, name: &str, blame: usize) -> Read<Rc<Replacement>> {
        let error =
            |kind: fn(String) -> ErrorKind| OffsetError::new(blame, kind(["%", name].concat()));
        let found = match self.parameters.remove(name) {
            Some(Parameter::Known(found)) => found,
            Some(Parameter::External(id, base)) => match self.load(Some(name), &id, base, blame)? {
                Some(found) => found,
                None => return Err(error(ErrorKind::ExternalEntity)),
            },
            None => return Err(error(ErrorKind::UnknownEntity)),
        };
        self.parameters.insert(name.to_owned(), Parameter::Known(Rc::clone(&found)));
        if self.open.iter().any(|open| open == name) {
            return Err(error(ErrorKind::EntityLoop));
        }
        // A reference counts for its own bytes too, so that empty entities aren't free.
        let bytes = found.text.len().saturating_add(name.len()).saturating_add(2);
        references::grow(&mut self.growth, bytes).map_err(|kind| OffsetError::new(blame, kind))?;
        self.deeper(name.to_owned(), blame)?;
        Ok(found)
    }

    fn deeper(&mut self, name: String, blame: usize) -> Read {
        if self.open.len() >= XML_ENTITY_DEPTH_MAX as usize {
            let (what, limit) = ("nested entities", XML_ENTITY_DEPTH_MAX);
            return Err(OffsetError::new(blame, ErrorKind::Limit { what, limit }));
        }
        self.open.push(name);
        Ok(())
    }

    /// Asks the resolver for the entity; `None` without a resolver, or if it doesn't supply this entity.
    fn load(
        &mut self,
        name: Option<&str>,
        id: &ExternalId,
        base: Option<Rc<str>>,
        blame: usize,
    ) -> Read<Option<Rc<Replacement>>> {
        let Some(resolver) = self.resolver else { return Ok(None) };
        let bytes_max = self.growth.limit.saturating_sub(self.growth.bytes);
        let entity = ExternalEntity {
            name,
            system_id: &id.system,
            public_id: id.public.as_deref(),
            base_uri: base.as_deref(),
            bytes_max,
        };
        let error = |kind| OffsetError::new(blame, kind);
        let found = resolver.resolve(&entity).map_err(|reason| {
            error(ErrorKind::EntityRejected { entity: id.system.clone(), reason })
        })?;
        let Some(found) = found else { return Ok(None) };
        if found.bytes.len() > bytes_max as usize {
            return Err(error(references::too_much_text(self.growth)));
        }
        Replacement::external(found).map(|found| Some(Rc::new(found))).map_err(error)
    }

    /// Reads an entity declaration (section 4.2).
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
            let value = self.entity_value(cursor)?;
            let place = cursor.place(start);
            if parameter {
                let value = Parameter::Known(Rc::new(Replacement::internal(value)));
                self.parameters.entry(name.to_owned()).or_insert(value);
            } else if !self.dtd.entities.contains_key(name) {
                let range = self.keep(&value, place);
                self.dtd.entities.insert(name.to_owned(), Entity::Internal(range));
            }
            return Ok(());
        }
        let id = external_id(cursor, false)?;
        let mut entity = Entity::External;
        let spaced = cursor.skip_space();
        if !parameter && cursor.eat("NDATA") {
            if !spaced {
                return Err(cursor.bad("a space is missing"));
            }
            cursor.space()?;
            cursor.ncname()?;
            entity = Entity::Unparsed(id.system.clone());
        }
        if parameter {
            let external = Parameter::External(id, self.base.clone());
            self.parameters.entry(name.to_owned()).or_insert(external);
        } else {
            self.dtd.entities.entry(name.to_owned()).or_insert(entity);
        }
        Ok(())
    }

    /// The replacement text (section 4.5): references to characters and parameter entities are
    /// replaced, those to general entities stay.
    fn entity_value(&mut self, cursor: &mut Cursor<'_>) -> Read<String> {
        let (range, _) = cursor.quoted()?;
        let inner = Cursor { at: range.start, ..cursor.clone() };
        let mut out = String::new();
        self.literal(&inner, range.end, &mut out)?;
        Ok(out)
    }

    /// Appends the replacement text of the literal from the cursor to `end`.
    fn literal(&mut self, cursor: &Cursor<'_>, end: usize, out: &mut String) -> Read {
        let text = cursor.text.get(..end).unwrap_or("");
        let mut at = cursor.at;
        while let Some(offset) =
            memchr::memchr2(b'&', b'%', text.as_bytes().get(at..).unwrap_or(&[]))
        {
            let stop = at.saturating_add(offset);
            out.push_str(text.get(at..stop).unwrap_or(""));
            let blame = cursor.blame.unwrap_or(stop);
            let error = |kind| OffsetError::new(blame, kind);
            let rest = text.get(stop..).unwrap_or("");
            if rest.starts_with('%') {
                if cursor.external.is_none() {
                    let why = "`%` isn't allowed inside a declaration here; write `&#37;`";
                    return Err(error(ErrorKind::BadDoctype(why)));
                }
                let Some(name) = parameter_name(rest) else {
                    let why = "`%` starts a reference, which ends in `;`; write `&#37;`";
                    return Err(error(ErrorKind::BadDoctype(why)));
                };
                let replacement = self.enter(name, blame)?;
                let inner = Cursor {
                    text: &replacement.text,
                    at: replacement.start,
                    blame: Some(blame),
                    ..cursor.clone()
                };
                self.literal(&inner, replacement.text.len(), out)?;
                self.open.pop();
                at = stop.saturating_add(name.len()).saturating_add(2);
                continue;
            }
            let (reference, end) =
                references::read(text, stop).map_err(|wrong| error(kind(wrong)))?;
            let written = text.get(stop..end).unwrap_or("");
            match reference {
                Reference::Character(c) if written.starts_with("&#") => out.push(c),
                Reference::Character(_) | Reference::Entity(_) => out.push_str(written),
            }
            at = end;
        }
        out.push_str(text.get(at..).unwrap_or(""));
        Ok(())
    }

    fn keep(&mut self, text: &str, place: usize) -> Range<usize> {
        let start = self.dtd.text.len();
        self.dtd.origins.push((start, place));
        self.dtd.text.push_str(text);
        start..self.dtd.text.len()
    }

    /// Reads an attribute-list declaration (section 3.3).
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
        if self.declarations <= self.declarations_max {
            return Ok(());
        }
        let (what, limit) = ("declarations", self.declarations_max);
        Err(cursor.error(ErrorKind::Limit { what, limit }))
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
        let place = cursor.place(cursor.at.saturating_add(1));
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
            let stop = scan::value_in_entity(text.as_bytes(), at, b'&');
            out.push_str(text.get(at..stop).unwrap_or(""));
            let error = |kind| OffsetError::new(cursor.blame.unwrap_or(stop), kind);
            match text.as_bytes().get(stop) {
                None => return Ok(out),
                Some(b'<') => return Err(error(ErrorKind::LessThanInAttribute)),
                Some(b'&') => {
                    let (reference, end) =
                        references::read(text, stop).map_err(|w| error(kind(w)))?;
                    match reference {
                        Reference::Character(c) => out.push(c),
                        Reference::Entity(name) => {
                            let name = text.get(name).unwrap_or("");
                            references::expand(self.dtd, name, &mut self.growth, &mut out)
                                .map_err(error)?;
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

/// A reference cut short by the end of its literal is malformed.
fn kind(wrong: Wrong) -> ErrorKind {
    match wrong {
        Wrong::Short => ErrorKind::BadReference,
        Wrong::Kind(kind) => kind,
    }
}

/// The name in a reference to a parameter entity that `text` begins with.
fn parameter_name(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('%')?.split_once(';')?;
    chars::is_ncname(name).then_some(name)
}

/// The length of the declaration that `text` begins with: up to the first `>` outside of literals.
fn declaration_len(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return at.checked_add(1),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Skips the content of an ignored section, in which only `<![` and `]]>` mean something.
fn ignore_section(cursor: &mut Cursor<'_>) -> Read {
    let mut open = 1u32;
    while open > 0 {
        let rest = cursor.rest();
        let Some(at) = rest.find(['<', ']']) else {
            cursor.at = cursor.text.len();
            return Err(cursor.bad("unterminated conditional section: add `]]>`"));
        };
        cursor.at = cursor.at.saturating_add(at);
        if cursor.eat("<![") {
            open = open.saturating_add(1);
        } else if cursor.eat("]]>") {
            open = open.saturating_sub(1);
        } else {
            cursor.at = cursor.at.saturating_add(1);
        }
    }
    Ok(())
}

/// Reads the list of an enumerated type (productions 58 and 59).
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

/// Reads an element declaration (section 3.2). The content model is checked and dropped.
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
                false => Err(cursor.bad("a mixed content model must end with `)*`")),
            };
        }
        cursor.expect("|", "`|` or `)` is missing")?;
        cursor.skip_space();
        cursor.qname()?;
        named = true;
    }
}

/// Reads a content model of element content (productions 47 to 50). `open` has the separator of each open group.
fn children(cursor: &mut Cursor<'_>) -> Read {
    let mut open: Vec<Option<u8>> = Vec::new();
    loop {
        // A particle: a group or a name.
        cursor.skip_space();
        if cursor.eat("(") {
            if open.len() >= XML_DEPTH_MAX as usize {
                let (what, limit) = ("nested groups", XML_DEPTH_MAX);
                return Err(cursor.error(ErrorKind::Limit { what, limit }));
            }
            open.push(None);
            continue;
        }
        cursor.qname()?;
        occurrence(cursor);
        // Then a separator, or the ends of groups.
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
