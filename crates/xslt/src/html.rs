//! The output method html: section 16.2. Elements without namespace are written as HTML, others as XML.

mod names;

use std::sync::Arc;

use xml::{Encoding, QNameRef, Sink, is_ncname, is_text};

use names::ElementClass;
pub(crate) use names::is_html_version;

/// The attributes of `xsl:output` for HTML.
#[derive(Debug, Clone, Default)]
pub(crate) struct HtmlOptions {
    pub(crate) encoding: Encoding,
    pub(crate) indent: bool,
    pub(crate) media_type: String,
    pub(crate) public: Option<String>,
    pub(crate) system: Option<String>,
}

/// Writes HTML.
#[derive(Debug)]
pub(crate) struct HtmlWriter {
    options: Arc<HtmlOptions>,
    out: String,
    open: Vec<Open>,
    /// The names of the open elements, as written.
    names: String,
    /// Prefixes in scope, innermost last.
    bindings: Vec<(String, String)>,
    /// The start tag to be written once its attributes are complete.
    pending: Option<Tag>,
    doctype_due: bool,
    /// A line may break here, after a block.
    after_block: bool,
    /// Numbers generated prefixes.
    generated: u32,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    name: usize,
    bindings: usize,
    class: ElementClass,
    /// Whitespace is significant in this element.
    keeps_space: bool,
}

#[derive(Debug)]
struct Tag {
    prefix: String,
    namespace: String,
    local: String,
    attributes: Vec<Attribute>,
}

#[derive(Debug)]
struct Attribute {
    prefix: String,
    namespace: String,
    local: String,
    value: String,
}

type Written = Result<(), xml::Error>;

impl HtmlWriter {
    pub(crate) fn new(options: Arc<HtmlOptions>) -> Self {
        let doctype_due = options.public.is_some() || options.system.is_some();
        Self {
            options,
            out: String::new(),
            open: Vec::new(),
            names: String::new(),
            bindings: Vec::new(),
            pending: None,
            doctype_due,
            after_block: false,
            generated: 0,
        }
    }

    pub(crate) fn finish(mut self) -> Result<String, xml::Error> {
        while !self.open.is_empty() {
            self.end_element()?;
        }
        if self.options.indent && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        Ok(self.out)
    }

    pub(crate) fn raw(&mut self, text: &str) -> Written {
        self.check_literal(text)?;
        self.before_content()?;
        self.after_block = false;
        self.out.push_str(text);
        Ok(())
    }

    /// The bindings that a look-up of a prefix may visit.
    pub(crate) fn bindings(&self) -> usize {
        self.bindings.len()
    }

    /// Checks text that is written without character references.
    fn check_literal(&self, text: &str) -> Written {
        if !is_text(text) {
            return Err(xml::ErrorKind::BadText.into());
        }
        self.options.encoding.check(text)
    }

    fn keeps_space(&self) -> bool {
        self.open.last().is_some_and(|open| open.keeps_space)
    }

    fn break_line(&mut self) {
        let breaks = self.options.indent && !self.keeps_space();
        if breaks && !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    fn before_content(&mut self) -> Written {
        match self.pending.take() {
            Some(tag) => self.begin(tag, false),
            None => Ok(()),
        }
    }

    /// Writes a start tag, or the empty-element tag of a foreign element.
    fn begin(&mut self, mut tag: Tag, empty: bool) -> Written {
        let Some(mut open) = self.open.last().copied() else {
            return Err(xml::ErrorKind::NothingOpen.into());
        };
        if open.class == ElementClass::Void && self.is_second_meta(&tag) {
            return Ok(());
        }
        self.bind(&mut tag, open.bindings);
        self.document_type(&tag);
        self.out.push('<');
        open.name = self.names.len();
        let start = self.out.len();
        push_name(&mut self.out, &tag.prefix, &tag.local);
        self.names.push_str(self.out.get(start..).unwrap_or(""));
        if let Some(last) = self.open.last_mut() {
            *last = open;
        }
        self.declarations(open.bindings);
        for attribute in &tag.attributes {
            self.attribute_of(&tag, attribute);
        }
        self.out.push_str(if empty && open.class == ElementClass::Foreign { "/>" } else { ">" });
        self.after_block = open.class.is_block();
        if open.class == ElementClass::Head {
            self.meta();
        }
        Ok(())
    }

    fn meta(&mut self) {
        self.break_line();
        let HtmlOptions { media_type, encoding, .. } = &*self.options;
        let name = encoding.name();
        let parts = ["<meta http-equiv=\"Content-Type\" content=\"", media_type, "; charset="];
        self.out.extend(parts);
        self.out.extend([name, "\">"]);
        self.after_block = true;
    }

    /// Whether this is a `meta` element that repeats the generated one.
    fn is_second_meta(&self, tag: &Tag) -> bool {
        let above = self.open.len().checked_sub(2).and_then(|at| self.open.get(at));
        let is_content_type = |attribute: &Attribute| {
            attribute.local.eq_ignore_ascii_case("http-equiv")
                && attribute.value.eq_ignore_ascii_case("content-type")
        };
        above.is_some_and(|open| open.class == ElementClass::Head)
            && tag.local.eq_ignore_ascii_case("meta")
            && tag.attributes.iter().any(is_content_type)
    }

    /// Binds the prefixes that the names need.
    fn bind(&mut self, tag: &mut Tag, mark: usize) {
        tag.prefix = self.prefix_for(&tag.prefix, &tag.namespace, true, mark);
        for attribute in &mut tag.attributes {
            if !attribute.namespace.is_empty() {
                attribute.prefix =
                    self.prefix_for(&attribute.prefix, &attribute.namespace, false, mark);
            }
        }
    }

    fn prefix_for(&mut self, wanted: &str, uri: &str, element: bool, mark: usize) -> String {
        if uri == xml::XML_NAMESPACE {
            return "xml".to_owned();
        }
        let wanted = if uri.is_empty() { "" } else { wanted };
        let usable = element || !wanted.is_empty();
        let bound = self.bound(wanted);
        if usable && bound.map_or(uri.is_empty(), |(_, bound)| bound == uri) {
            return wanted.to_owned();
        }
        if usable && bound.is_none_or(|(at, _)| at < mark) {
            self.bindings.push((wanted.to_owned(), uri.to_owned()));
            return wanted.to_owned();
        }
        loop {
            let prefix = format!("ns{}", self.generated);
            self.generated = self.generated.wrapping_add(1);
            if self.bound(&prefix).is_none() {
                self.bindings.push((prefix.clone(), uri.to_owned()));
                return prefix;
            }
        }
    }

    fn bound(&self, prefix: &str) -> Option<(usize, &str)> {
        let at = self.bindings.iter().rposition(|(known, _)| known == prefix)?;
        self.bindings.get(at).map(|(_, uri)| (at, uri.as_str()))
    }

    fn declarations(&mut self, mark: usize) {
        let fresh = self.bindings.get(mark..).unwrap_or(&[]).to_vec();
        for (prefix, uri) in fresh {
            self.out.push_str(if prefix.is_empty() { " xmlns" } else { " xmlns:" });
            self.out.extend([prefix.as_str(), "=\""]);
            self.value(&uri, false);
            self.out.push('"');
        }
    }

    fn document_type(&mut self, tag: &Tag) {
        if !std::mem::take(&mut self.doctype_due) {
            return;
        }
        let HtmlOptions { public, system, .. } = &*self.options;
        let name = if tag.local.eq_ignore_ascii_case("html") { &tag.local } else { "html" };
        self.out.extend(["<!DOCTYPE ", name]);
        match public {
            Some(public) => self.out.extend([" PUBLIC \"", public, "\""]),
            None => self.out.push_str(" SYSTEM"),
        }
        if let Some(system) = system {
            let quote = if system.contains('"') { "'" } else { "\"" };
            self.out.extend([" ", quote, system, quote]);
        }
        self.out.push_str(">\n");
    }

    fn attribute_of(&mut self, tag: &Tag, attribute: &Attribute) {
        self.out.push(' ');
        push_name(&mut self.out, &attribute.prefix, &attribute.local);
        let ours = tag.namespace.is_empty() && attribute.namespace.is_empty();
        if ours && names::is_minimized(&attribute.local, &attribute.value) {
            return;
        }
        self.out.push_str("=\"");
        if ours && names::is_uri(&tag.local, &attribute.local) {
            self.value(&names::escaped_uri(&attribute.value), true);
        } else {
            self.value(&attribute.value, ours);
        }
        self.out.push('"');
    }

    /// An attribute's value. In HTML, `<` and the `&` of `&{` are not escaped.
    fn value(&mut self, text: &str, html: bool) {
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '&' if html && rest.peek() == Some(&'{') => self.out.push('&'),
                '&' => self.out.push_str("&amp;"),
                '"' => self.out.push_str("&quot;"),
                '<' if !html => self.out.push_str("&lt;"),
                '\n' | '\t' | '\r' if !html => self.reference(c),
                c if !self.options.encoding.has(c) => self.reference(c),
                c => self.out.push(c),
            }
        }
    }

    fn reference(&mut self, c: char) {
        self.out.push_str(&format!("&#{};", u32::from(c)));
    }
}

impl Sink for HtmlWriter {
    type Error = xml::Error;

    fn start_element(&mut self, name: QNameRef<'_>) -> Written {
        if !is_ncname(name.local) || !(name.prefix.is_empty() || is_ncname(name.prefix)) {
            return Err(xml::ErrorKind::BadName(name.local.to_owned()).into());
        }
        if !is_text(name.namespace) {
            return Err(xml::ErrorKind::BadText.into());
        }
        self.check_literal(name.local)?;
        self.check_literal(name.prefix)?;
        self.before_content()?;
        let class = ElementClass::of(name.namespace, name.local);
        if class.is_block() {
            self.break_line();
        }
        let above = self.keeps_space();
        self.open.push(Open {
            name: self.names.len(),
            bindings: self.bindings.len(),
            class,
            keeps_space: above || names::keeps_space(class, name.local),
        });
        self.pending = Some(Tag {
            prefix: name.prefix.to_owned(),
            namespace: name.namespace.to_owned(),
            local: name.local.to_owned(),
            attributes: Vec::new(),
        });
        Ok(())
    }

    fn namespace(&mut self, prefix: &str, uri: &str) -> Written {
        let bad = || xml::Error::from(xml::ErrorKind::BadNamespaceDeclaration(prefix.to_owned()));
        let Some(tag) = &self.pending else { return Err(xml::ErrorKind::NotInStartTag.into()) };
        if prefix == "xml" || prefix == "xmlns" || (uri.is_empty() && !prefix.is_empty()) {
            return Err(bad());
        }
        if prefix.is_empty() && tag.prefix.is_empty() && uri != tag.namespace {
            // The element's name requires another binding.
            return Err(bad());
        }
        let mark = self.open.last().map_or(0, |open| open.bindings);
        match self.bound(prefix) {
            Some((_, known)) if known == uri => Ok(()),
            Some((at, _)) if at >= mark => Err(bad()),
            None if uri.is_empty() => Ok(()),
            Some(_) | None => {
                self.check_literal(prefix)?;
                self.bindings.push((prefix.to_owned(), uri.to_owned()));
                Ok(())
            }
        }
    }

    fn attribute(&mut self, name: QNameRef<'_>, value: &str) -> Written {
        if !is_text(value) || !is_text(name.namespace) {
            return Err(xml::ErrorKind::BadText.into());
        }
        if !is_ncname(name.local) {
            return Err(xml::ErrorKind::BadName(name.local.to_owned()).into());
        }
        self.check_literal(name.local)?;
        self.check_literal(name.prefix)?;
        let Some(tag) = &mut self.pending else { return Err(xml::ErrorKind::NotInStartTag.into()) };
        let known = tag.attributes.iter_mut().find(|attribute| {
            attribute.local == name.local && attribute.namespace == name.namespace
        });
        if let Some(known) = known {
            value.clone_into(&mut known.value);
            return Ok(());
        }
        tag.attributes.push(Attribute {
            prefix: name.prefix.to_owned(),
            namespace: name.namespace.to_owned(),
            local: name.local.to_owned(),
            value: value.to_owned(),
        });
        Ok(())
    }

    fn text(&mut self, text: &str) -> Written {
        if text.is_empty() {
            return Ok(());
        }
        if !is_text(text) {
            return Err(xml::ErrorKind::BadText.into());
        }
        self.before_content()?;
        self.after_block = false;
        if self.open.last().is_some_and(|open| open.class == ElementClass::Raw) {
            self.check_literal(text)?;
            self.out.push_str(text);
            return Ok(());
        }
        for c in text.chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                c if !self.options.encoding.has(c) => self.reference(c),
                c => self.out.push(c),
            }
        }
        Ok(())
    }

    fn comment(&mut self, text: &str) -> Written {
        if text.contains("--") || text.ends_with('-') {
            return Err(xml::ErrorKind::BadText.into());
        }
        self.check_literal(text)?;
        self.before_content()?;
        self.out.extend(["<!--", text, "-->"]);
        Ok(())
    }

    fn processing_instruction(&mut self, target: &str, data: &str) -> Written {
        if !is_ncname(target) || target.eq_ignore_ascii_case("xml") {
            return Err(xml::ErrorKind::BadName(target.to_owned()).into());
        }
        if data.contains('>') {
            return Err(xml::ErrorKind::BadText.into());
        }
        self.check_literal(target)?;
        self.check_literal(data)?;
        self.before_content()?;
        self.out.extend(["<?", target, if data.is_empty() { "" } else { " " }, data, ">"]);
        Ok(())
    }

    fn end_element(&mut self) -> Written {
        let Some(open) = self.open.last().copied() else {
            return Err(xml::ErrorKind::NothingOpen.into());
        };
        let pending = self.pending.take();
        let empty = pending.is_some();
        if let Some(tag) = pending {
            self.begin(tag, true)?;
        }
        let open = self.open.pop().unwrap_or(open);
        let class = open.class;
        let done = class == ElementClass::Void || (empty && class == ElementClass::Foreign);
        if !done {
            let breaks = self.after_block && !open.keeps_space;
            if class.is_block() && breaks && (!empty || class == ElementClass::Head) {
                self.break_line();
            }
            self.out.extend(["</", self.names.get(open.name..).unwrap_or(""), ">"]);
        }
        self.names.truncate(open.name);
        self.bindings.truncate(open.bindings);
        self.after_block = class.is_block();
        Ok(())
    }
}

fn push_name(out: &mut String, prefix: &str, local: &str) {
    if !prefix.is_empty() {
        out.extend([prefix, ":"]);
    }
    out.push_str(local);
}
