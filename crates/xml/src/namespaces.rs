//! The namespace bindings in scope while parsing. A look-up takes constant time at any depth.

use crate::limits::{XML_KEPT_TAG_BYTES_MAX, XML_KEPT_TAGS_MAX};
use crate::names::{EMPTY, NameId, Symbol, XML, XML_URI, number};
use crate::options::Limits;
use crate::scan::Closed;
use crate::shared::SharedNames;

const UNBOUND: u32 = u32::MAX;
/// Stands for no environment; environments count from 1.
const NO_ENVIRONMENT: u32 = 0;

/// A name as written, by its symbol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw {
    symbol: Symbol,
    prefix: Symbol,
    local: Symbol,
    /// The element that followed this one last time: the prediction.
    next: Symbol,
    /// The attribute that followed this name in a tag last time.
    attribute: Symbol,
    /// The last tag with an attribute of this name.
    tag: u32,
    /// The environment of the last resolution and its result, as element and as attribute.
    resolved: [(u32, u32); 2],
    closed: Closed,
    /// Bytes of the name.
    len: u32,
}

const UNSPLIT: Raw = Raw {
    symbol: EMPTY,
    prefix: UNBOUND,
    local: EMPTY,
    next: EMPTY,
    attribute: EMPTY,
    tag: 0,
    resolved: [(NO_ENVIRONMENT, 0); 2],
    closed: Closed::NEVER,
    len: 0,
};

/// Names without prefix resolve differently in elements and attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Element,
    Attribute,
}

/// The scopes; `mark` and `leave` bracket an element.
#[derive(Debug)]
pub(crate) struct Namespaces {
    pub(crate) names: SharedNames,
    raws: Vec<Raw>,
    bindings: Bindings,
    /// The set of bindings in scope.
    environment: u32,
    environments: u32,
    /// Environments that resulted from a binding in another environment. Valid for every document.
    changes: Vec<Change>,
    /// Start tags that declare namespaces. Valid for every document.
    known: Vec<KnownTag>,
    /// The last element that began.
    last: Symbol,
    /// The last tag with an attribute of each name, by `NameId`.
    seen: Vec<u32>,
    tags: u32,
}

/// The bindings in scope.
#[derive(Debug)]
pub(crate) struct Bindings {
    /// The namespace of each prefix, by the prefix's symbol.
    bound: Vec<Symbol>,
    /// Previous bindings to restore: (prefix, URI).
    undo: Vec<(Symbol, Symbol)>,
}

impl Bindings {
    /// The number of bindings to restore, for the mark of an element that begins.
    #[inline]
    pub(crate) fn undone(&self) -> u32 {
        number(self.undo.len())
    }

    /// Restores the bindings before an element.
    #[inline]
    pub(crate) fn leave(&mut self, mark: Mark) {
        while self.undo.len() > mark.undo as usize {
            let Some((prefix, uri)) = self.undo.pop() else { break };
            if let Some(slot) = self.bound.get_mut(prefix as usize) {
                *slot = uri;
            }
        }
    }

    fn bind(&mut self, prefix: Symbol, uri: Symbol) {
        let index = prefix as usize;
        if self.bound.len() <= index {
            self.bound.resize(index.saturating_add(1), UNBOUND);
        }
        if let Some(slot) = self.bound.get_mut(index) {
            self.undo.push((prefix, *slot));
            *slot = uri;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Change {
    from: u32,
    prefix: Symbol,
    uri: Symbol,
    to: u32,
}

/// More changes of environments are not remembered.
const CHANGES_MAX: usize = 32;

/// A start tag whose attributes are declarations alone.
#[derive(Debug)]
struct KnownTag {
    name: Symbol,
    /// The environments around and inside the element.
    from: u32,
    to: u32,
    /// The bytes of the tag after its name.
    rest: Box<[u8]>,
    qname: u32,
    declared: Box<[(Symbol, Symbol)]>,
}
/// The environment of a document before its first declaration.
const FIRST: u32 = 1;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) undo: u32,
    pub(crate) environment: u32,
}

/// Predicts names from the order in which they followed each other before.
#[derive(Clone, Copy)]
pub(crate) struct Prediction<'n> {
    raws: &'n [Raw],
    /// The scope in which names are resolved.
    pub(crate) environment: u32,
}

impl<'n> Prediction<'n> {
    /// The name predicted after `raw`, if it follows, with `>` after it, and is resolved as an element in this scope.
    #[inline(always)]
    pub(crate) fn after(&self, raw: &Raw, text: &[u8]) -> Option<&'n Raw> {
        let raw = self.element_after(raw)?;
        raw.is_closed(text).then_some(raw)
    }

    /// The name predicted after `raw`, if it is resolved as an element in this scope.
    #[inline(always)]
    pub(crate) fn element_after(&self, raw: &Raw) -> Option<&'n Raw> {
        let raw = self.named(raw.next)?;
        let [(environment, _), _] = raw.resolved;
        (environment == self.environment).then_some(raw)
    }

    /// The attribute predicted after `raw` in a tag, and its qualified name.
    #[inline]
    pub(crate) fn attribute_after(&self, raw: &Raw) -> Option<(&'n Raw, u32)> {
        let raw = self.named(raw.attribute)?;
        let [_, (environment, qname)] = raw.resolved;
        // A name without prefix resolves alike in each scope.
        let is_known =
            environment == self.environment || raw.prefix == EMPTY && environment != NO_ENVIRONMENT;
        is_known.then_some((raw, qname))
    }

    #[inline]
    pub(crate) fn named(&self, symbol: Symbol) -> Option<&'n Raw> {
        self.raws.get(symbol as usize)
    }
}

impl Raw {
    /// Whether `text` begins with the name and `>`.
    #[inline(always)]
    pub(crate) fn is_closed(&self, text: &[u8]) -> bool {
        self.closed.fits(self.len as usize, text)
    }

    /// Whether `text` begins with the end tag.
    #[inline(always)]
    pub(crate) fn is_ended(&self, text: &[u8]) -> bool {
        text.strip_prefix(b"</").is_some_and(|name| self.is_closed(name))
    }

    /// The rest of `text` after the name, if it begins with the name.
    #[inline]
    pub(crate) fn behind<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let len = self.len as usize;
        if self.closed.begins(len, text) { text.get(len..) } else { None }
    }

    #[inline]
    pub(crate) fn local(&self) -> Symbol {
        self.local
    }

    /// Bytes of a start tag without attributes.
    #[inline]
    pub(crate) fn tag_len(&self) -> usize {
        (self.len as usize).wrapping_add("<>".len())
    }

    /// Bytes of an end tag.
    #[inline]
    pub(crate) fn end_len(&self) -> usize {
        (self.len as usize).wrapping_add("</>".len())
    }

    /// Bytes of the name and the `>` after it.
    #[inline]
    pub(crate) fn closing_len(&self) -> usize {
        (self.len as usize).wrapping_add(">".len())
    }

    #[inline]
    pub(crate) fn symbol(&self) -> Symbol {
        self.symbol
    }

    /// The qualified name as an element, in the scope of its last resolution.
    #[inline]
    pub(crate) fn as_element(&self) -> u32 {
        let [(_, qname), _] = self.resolved;
        qname
    }
}

impl Namespaces {
    pub(crate) fn new() -> Self {
        let mut bound = vec![UNBOUND; 32];
        for (prefix, uri) in [(EMPTY, EMPTY), (XML, XML_URI)] {
            if let Some(slot) = bound.get_mut(prefix as usize) {
                *slot = uri;
            }
        }
        let bindings = Bindings { bound, undo: Vec::new() };
        Self { names: SharedNames::new(), raws: Vec::with_capacity(48), bindings, ..Self::none() }
    }

    /// A placeholder.
    pub(crate) fn none() -> Self {
        Self {
            names: SharedNames::none(),
            raws: Vec::new(),
            bindings: Bindings { bound: Vec::new(), undo: Vec::new() },
            environment: FIRST,
            environments: FIRST,
            changes: Vec::new(),
            known: Vec::new(),
            last: EMPTY,
            seen: Vec::new(),
            tags: 0,
        }
    }

    /// Prepares for another document. Returns false if this one had too many names or declarations.
    pub(crate) fn reset(&mut self) -> bool {
        const COUNTED_MAX: u32 = u32::MAX / 2;
        const UNDO_MAX: usize = 64;
        self.leave(Mark { undo: 0, environment: FIRST });
        self.last = EMPTY;
        if self.known.len() >= XML_KEPT_TAGS_MAX as usize || self.changes.len() >= CHANGES_MAX {
            self.known.clear();
            self.changes.clear();
        }
        let is_bound = !self.bindings.bound.is_empty();
        is_bound
            && self.names.are_few()
            && self.bindings.undo.capacity() <= UNDO_MAX
            && self.environments < COUNTED_MAX
            && self.tags < COUNTED_MAX
    }

    /// The element predicted next.
    #[inline]
    pub(crate) fn predicted(&self) -> Symbol {
        self.raws.get(self.last as usize).map_or(EMPTY, |raw| raw.next)
    }

    /// The attribute predicted after the name `before` in a tag.
    #[inline]
    pub(crate) fn predicted_attribute(&self, before: Symbol) -> Symbol {
        self.raws.get(before as usize).map_or(EMPTY, |raw| raw.attribute)
    }

    /// Records the attribute after `before`.
    #[inline]
    pub(crate) fn seen_attribute(&mut self, before: Symbol, symbol: Symbol) {
        if let Some(raw) = self.raws.get_mut(before as usize) {
            raw.attribute = symbol;
        }
    }

    /// Records the next element.
    #[inline]
    pub(crate) fn seen_element(&mut self, symbol: Symbol) {
        if let Some(raw) = self.raws.get_mut(self.last as usize) {
            raw.next = symbol;
        }
        self.last = symbol;
    }

    /// The names predicted next, for elements in this scope, and the last element that began.
    #[inline]
    pub(crate) fn prediction(&mut self) -> (Prediction<'_>, Symbol, &mut Bindings) {
        let Self { raws, environment, last, bindings, .. } = self;
        (Prediction { raws, environment: *environment }, *last, bindings)
    }

    /// Records that `last` was predicted, and the scope that was reached.
    #[inline]
    pub(crate) fn seen_prediction(&mut self, last: Symbol, environment: u32) {
        self.last = last;
        self.environment = environment;
    }

    /// Interns a name as written; `colon` is the offset of its colon.
    pub(crate) fn raw(&mut self, written: &str, colon: Option<usize>) -> Symbol {
        let symbol = self.names.symbol(written);
        let index = symbol as usize;
        if self.raws.get(index).is_some_and(|raw| raw.prefix != UNBOUND) {
            return symbol;
        }
        let (prefix, local) = match colon.and_then(|colon| written.split_at_checked(colon)) {
            Some((prefix, rest)) => {
                (self.names.symbol(prefix), self.names.symbol(rest.get(1..).unwrap_or("")))
            }
            None => (EMPTY, symbol),
        };
        if self.raws.len() <= index {
            self.raws.resize(index.saturating_add(1), UNSPLIT);
        }
        if let Some(raw) = self.raws.get_mut(index) {
            let (closed, len) = (Closed::new(written), number(written.len()));
            *raw = Raw { symbol, prefix, local, closed, len, ..UNSPLIT };
        }
        symbol
    }

    /// Prefix and local part of a written name.
    pub(crate) fn parts(&self, raw: Symbol) -> (Symbol, Symbol) {
        self.raws.get(raw as usize).map_or((EMPTY, raw), |raw| (raw.prefix, raw.local))
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { undo: self.bindings.undone(), environment: self.environment }
    }

    pub(crate) fn leave(&mut self, mark: Mark) {
        self.bindings.leave(mark);
        self.environment = mark.environment;
    }

    /// The environment with one more binding.
    fn changed(&mut self, prefix: Symbol, uri: Symbol) -> u32 {
        let from = self.environment;
        let is_it = |known: &&Change| (known.from, known.prefix, known.uri) == (from, prefix, uri);
        if let Some(known) = self.changes.iter().find(is_it) {
            return known.to;
        }
        self.environments = self.environments.wrapping_add(1).max(FIRST);
        let to = self.environments;
        if self.changes.len() < CHANGES_MAX {
            self.changes.push(Change { from, prefix, uri, to });
        }
        to
    }

    /// Binds the declarations of a known tag that `rest` begins with (after the name), if it is within the limits, and
    /// adds them to `declared`. Returns the element's qualified name and the length of the tag after its name.
    pub(crate) fn enter_known(
        &mut self,
        name: Symbol,
        rest: &[u8],
        limits: &Limits,
        declared: &mut Vec<(Symbol, Symbol)>,
    ) -> Option<(u32, usize)> {
        let known = self.known.iter().find(|tag| {
            (tag.name, tag.from) == (name, self.environment) && rest.starts_with(&tag.rest)
        })?;
        let is_within = known.declared.len() <= limits.attributes as usize
            && known.rest.len() <= limits.name_bytes as usize;
        if !is_within {
            return None;
        }
        for &(prefix, uri) in &known.declared {
            self.bindings.bind(prefix, uri);
            declared.push((prefix, uri));
        }
        self.environment = known.to;
        Some((known.qname, known.rest.len()))
    }

    /// Records a tag whose attributes are all declarations: `rest` is the tag after its name, `from` the environment
    /// before it.
    pub(crate) fn seen_tag(
        &mut self,
        (name, qname): (Symbol, u32),
        rest: &[u8],
        from: Mark,
        declared: &[(Symbol, Symbol)],
    ) {
        if self.known.len() < XML_KEPT_TAGS_MAX as usize
            && rest.len() <= XML_KEPT_TAG_BYTES_MAX as usize
        {
            self.known.push(KnownTag {
                name,
                from: from.environment,
                to: self.environment,
                rest: rest.into(),
                qname,
                declared: declared.into(),
            });
        }
    }

    /// Binds `prefix` in the element that has just begun.
    pub(crate) fn bind(&mut self, prefix: Symbol, uri: Symbol) {
        self.environment = self.changed(prefix, uri);
        self.bindings.bind(prefix, uri);
    }

    /// The number of the qualified name, or the prefix that isn't bound.
    #[inline]
    pub(crate) fn resolve(&mut self, symbol: Symbol, used: Use) -> Result<u32, Symbol> {
        let Some(raw) = self.raws.get_mut(symbol as usize) else { return Err(symbol) };
        let [as_element, as_attribute] = &mut raw.resolved;
        let resolved = match used {
            Use::Element => as_element,
            Use::Attribute => as_attribute,
        };
        let (environment, known) = *resolved;
        if environment == self.environment {
            return Ok(known);
        }
        let (prefix, local) = (raw.prefix, raw.local);
        let uri = if prefix == EMPTY && used == Use::Attribute {
            EMPTY
        } else {
            match self.bindings.bound.get(prefix as usize) {
                Some(&uri) if uri != UNBOUND => uri,
                Some(_) | None => return Err(prefix),
            }
        };
        // Prefix and local name are the same in each environment.
        let known_uri = self.names.get_pair(self.names.get_qname(known).name).uri;
        if environment != NO_ENVIRONMENT && known_uri == uri {
            resolved.0 = self.environment;
            return Ok(known);
        }
        let name = self.names.name(uri, local);
        let qname = self.names.qname(prefix, name);
        *resolved = (self.environment, qname);
        Ok(qname)
    }

    /// Begins a tag, in which each attribute may occur once.
    pub(crate) fn tag(&mut self) {
        self.tags = self.tags.wrapping_add(1);
    }

    /// Whether an attribute with this name as written occurred in this tag before.
    pub(crate) fn repeats_raw(&mut self, symbol: Symbol) -> bool {
        let tag = self.tags;
        self.raws
            .get_mut(symbol as usize)
            .is_some_and(|raw| std::mem::replace(&mut raw.tag, tag) == tag)
    }

    /// Whether an attribute with this expanded name occurred in this tag before.
    pub(crate) fn repeats(&mut self, name: NameId) -> bool {
        if self.seen.len() <= name.index() {
            self.seen.resize(name.index().saturating_add(16), 0);
        }
        let tag = self.tags;
        self.seen.get_mut(name.index()).is_some_and(|slot| std::mem::replace(slot, tag) == tag)
    }
}
