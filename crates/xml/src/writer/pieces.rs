//! The [`Sink`] of a writer. Each piece is checked before anything of it is written.

use super::escape::{self, Place};
use super::{Encoding, PendingAttribute, Writer, WriterOptions, assign, push_name};
use crate::chars;
use crate::edit::{QNameRef, check_comment, check_instruction};
use crate::error::{Error, ErrorKind};
use crate::names::{XML_NAMESPACE, XMLNS_NAMESPACE};
use crate::node::Node;
use crate::sink::Sink;

impl Sink for Writer {
    type Error = Error;

    fn start_element(&mut self, name: QNameRef<'_>) -> Result<(), Error> {
        if !name.is_valid() {
            return Err(ErrorKind::BadName(name.local.to_owned()).into());
        }
        self.start_checked(name)
    }

    fn namespace(&mut self, prefix: &str, uri: &str) -> Result<(), Error> {
        if !self.pending {
            return Err(ErrorKind::NotInStartTag.into());
        }
        let reserved = matches!(prefix, "xml" | "xmlns")
            || matches!(uri, XML_NAMESPACE | XMLNS_NAMESPACE)
            || (uri.is_empty() && !prefix.is_empty())
            || !(prefix.is_empty() || chars::is_ncname(prefix));
        if reserved {
            return Err(ErrorKind::BadNamespaceDeclaration(prefix.to_owned()).into());
        }
        // An element in no namespace can't declare a default namespace.
        if prefix.is_empty() && !uri.is_empty() && self.name.1.is_empty() {
            return Ok(());
        }
        self.options.encoding.check(prefix)?;
        if !chars::is_text(uri) {
            return Err(ErrorKind::BadText.into());
        }
        let mark = self.open.last().map_or(0, |open| open.bindings);
        if self.scope.declare(prefix, uri, mark) {
            Ok(())
        } else {
            Err(ErrorKind::BadNamespaceDeclaration(prefix.to_owned()).into())
        }
    }

    fn attribute(&mut self, name: QNameRef<'_>, value: &str) -> Result<(), Error> {
        if !self.pending {
            return Err(ErrorKind::NotInStartTag.into());
        }
        self.check_name(name)?;
        if name.namespace.is_empty() && name.local == "xmlns" {
            return Err(ErrorKind::BadName(name.local.to_owned()).into());
        }
        if !chars::is_text(value) {
            return Err(ErrorKind::BadText.into());
        }
        if name.namespace == XML_NAMESPACE
            && name.local == "space"
            && let Some(open) = self.open.last_mut()
        {
            open.mixed = value == "preserve";
        }
        if let Some(same) = self.pending_attribute(name) {
            assign(&mut same.value, value);
            return Ok(());
        }
        let mut next = self.spare.pop().unwrap_or_else(|| PendingAttribute {
            prefix: String::new(),
            namespace: String::new(),
            local: String::new(),
            value: String::new(),
        });
        assign(&mut next.prefix, name.prefix);
        assign(&mut next.namespace, name.namespace);
        assign(&mut next.local, name.local);
        assign(&mut next.value, value);
        self.attributes.push(next);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), Error> {
        if text.is_empty() {
            return Ok(());
        }
        let encoding = self.options.encoding;
        if self.open.last().is_some_and(|open| open.cdata) {
            if !chars::is_text(text) {
                return Err(ErrorKind::BadText.into());
            }
            if !self.in_cdata {
                self.before_content()?;
                self.out.push_str("<![CDATA[");
                self.in_cdata = true;
            }
            self.mixed();
            escape::push_cdata(&mut self.out, text, encoding);
            return Ok(());
        }
        self.before_content()?;
        self.mixed();
        if escape::push(&mut self.out, text, Place::Text, encoding) {
            Ok(())
        } else {
            Err(ErrorKind::BadText.into())
        }
    }

    fn comment(&mut self, text: &str) -> Result<(), Error> {
        check_comment(text)?;
        self.check_exact(text)?;
        self.before_child()?;
        self.out.extend(["<!--", text, "-->"]);
        Ok(())
    }

    fn processing_instruction(&mut self, target: &str, data: &str) -> Result<(), Error> {
        check_instruction(target, data)?;
        self.check_exact(target)?;
        self.check_exact(data)?;
        self.before_child()?;
        self.out.extend(["<?", target, if data.is_empty() { "" } else { " " }, data, "?>"]);
        Ok(())
    }

    fn end_element(&mut self) -> Result<(), Error> {
        if self.pending {
            self.begin();
            self.start_tag()?;
            self.out.push_str("/>");
        } else {
            self.before_content()?;
            let open =
                self.open.last().copied().ok_or_else(|| Error::from(ErrorKind::NothingOpen))?;
            if open.has_children {
                self.break_line(open.mixed, self.open.len().saturating_sub(1));
            }
            self.out.extend(["</", self.names.get(open.name..).unwrap_or(""), ">"]);
        }
        if let Some(open) = self.open.pop() {
            self.names.truncate(open.name);
            self.scope.leave(open.bindings);
        }
        if self.open.is_empty() && self.options.indent.is_some() {
            self.out.push('\n');
        }
        Ok(())
    }

    /// Takes an element whose namespace is in scope, unchanged.
    fn leaf(&mut self, element: Node<'_>) -> Result<bool, Error> {
        let WriterOptions { encoding, indent, cdata_elements, .. } = &self.options;
        let encoding = *encoding;
        if encoding != Encoding::Utf8 || indent.is_some() || !cdata_elements.is_empty() {
            return Ok(false);
        }
        self.before_content()?;
        let (prefix, local) = (element.prefix(), element.local_name());
        if self.open.is_empty() || !self.scope.binds(prefix, element.namespace()) {
            return Ok(false);
        }
        let text = element.first_child().map_or("", Node::text);
        let names = prefix.len().saturating_add(local.len()).saturating_mul(2);
        self.out.reserve(names.saturating_add(text.len()).saturating_add("<:></:>".len()));
        self.out.push('<');
        push_name(&mut self.out, prefix, local);
        if text.is_empty() {
            self.out.push_str("/>");
            return Ok(true);
        }
        self.out.push('>');
        if !escape::push(&mut self.out, text, Place::Text, encoding) {
            return Err(ErrorKind::BadText.into());
        }
        self.out.push_str("</");
        push_name(&mut self.out, prefix, local);
        self.out.push('>');
        Ok(true)
    }
}
