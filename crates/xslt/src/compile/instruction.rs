//! Instructions: the content of templates.

use crate::limits;
use xml::{Kind, Node, XML_NAMESPACE};

use super::literal::listed;
use super::tables::{self, Placement};
use super::{Compiled, Compiler};
use crate::error::{ErrorKind, LoadError, Place};
use crate::knock_out::is_out;
use crate::load::{XSL, attribute, is_out_element, is_xsl};
use crate::program::{Avt, Op};

impl<'t> Compiler<'t> {
    /// Compiles the content of `parent`. XSLT elements named in `head` are skipped at its beginning.
    pub(super) fn sequence(&mut self, parent: Node<'t>, head: &[&str]) -> Compiled {
        self.depth = self.depth.saturating_add(1);
        if self.depth > limits::XSLT_NESTING_MAX {
            let max = limits::XSLT_NESTING_MAX;
            let message = format!("elements are nested more than {max} deep");
            return Err(LoadError::at(Place::of(parent), ErrorKind::Limit, message));
        }
        let mark = self.locals.names.len();
        let mut at_head = true;
        for node in parent.children() {
            match node.kind() {
                Kind::Text if is_kept(node) => {
                    at_head = false;
                    self.emit(Op::Text(node.text().to_owned()));
                }
                Kind::Element => {
                    let ours = node.namespace() == XSL && head.contains(&node.local_name());
                    if ours && at_head {
                        continue;
                    }
                    at_head = false;
                    self.place = Place::of(node);
                    self.check_namespace_bytes(node)?;
                    self.instruction(node)?;
                }
                Kind::Text
                | Kind::Root
                | Kind::Comment
                | Kind::ProcessingInstruction
                | Kind::Attribute
                | Kind::Namespace => {}
            }
        }
        self.locals.truncate(mark);
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }

    /// Compiles an instruction. In forwards-compatible mode, an invalid one is an error only when it is reached
    /// (section 2.5).
    pub(super) fn instruction(&mut self, node: Node<'t>) -> Compiled {
        if !is_forwards_compatible(node) {
            return self.one_instruction(node);
        }
        let (mark, locals, depth) = (self.ops.len(), self.locals.names.len(), self.depth);
        let Err(error) = self.one_instruction(node) else { return Ok(()) };
        self.ops.truncate(mark);
        self.places.truncate(mark);
        self.locals.truncate(locals);
        self.depth = depth;
        self.place = Place::of(node);
        self.emit(Op::Fail(error.message));
        Ok(())
    }

    fn one_instruction(&mut self, node: Node<'t>) -> Compiled {
        if node.namespace() != XSL {
            if self.is_extension(node) {
                return self.unknown(node);
            }
            return self.literal(node);
        }
        let name = node.local_name();
        let Some(row) = tables::find(name) else { return self.unknown(node) };
        if is_out_element(node) {
            return Ok(());
        }
        match row.placement {
            Placement::Body => {}
            Placement::TopLevel | Placement::Nested => {
                return Err(self.invalid(node, format!("`xsl:{name}` is not allowed here")));
            }
        }
        self.check_attributes(node)?;
        match name {
            "apply-templates" => self.apply(node),
            "call-template" => self.call(node),
            "apply-imports" => {
                self.check_empty(node)?;
                self.emit(Op::ApplyImports);
                Ok(())
            }
            "for-each" => self.for_each(node),
            "if" => {
                let test = self.expression(node, "test")?;
                let jump = self.emit(Op::JumpUnless(test, 0));
                self.sequence(node, &[])?;
                self.set_target(jump);
                Ok(())
            }
            "choose" => self.choose(node),
            "variable" => self.variable(node),
            "value-of" => {
                self.check_empty(node)?;
                let select = self.selection(node, "select")?;
                let raw = self.yes_no(node, "disable-output-escaping")?.unwrap_or(false);
                self.emit(Op::ValueOf { select, raw });
                Ok(())
            }
            "text" => self.text(node),
            "number" => self.number(node),
            "copy-of" => {
                self.check_empty(node)?;
                let select = self.expression(node, "select")?;
                self.emit(Op::CopyOf(select));
                Ok(())
            }
            "copy" => {
                let jump = self.emit(Op::Copy(0));
                _ = self.use_sets(node, true)?;
                self.sequence(node, &[])?;
                self.emit(Op::EndCopy);
                self.set_target(jump);
                Ok(())
            }
            "element" => {
                let name = self.computed_name(node, true)?;
                self.emit(Op::Element(Box::new(name)));
                _ = self.use_sets(node, false)?;
                self.sequence(node, &[])?;
                self.emit(Op::EndElement);
                Ok(())
            }
            "attribute" => {
                let name = self.computed_name(node, false)?;
                self.collect(node, Op::EndAttribute(Box::new(name)))
            }
            "comment" => self.collect(node, Op::EndComment),
            "processing-instruction" => {
                let name = self.required(node, "name")?;
                let name = self.avt(node, "name", name)?;
                if let Avt::Text(name) = &name
                    && (!xml::is_ncname(name) || name.eq_ignore_ascii_case("xml"))
                {
                    let message = format!("`{name}` is not a valid processing instruction name");
                    return Err(self.invalid(node, message));
                }
                self.collect(node, Op::EndInstruction(name))
            }
            "message" => {
                let terminate = self.yes_no(node, "terminate")?.unwrap_or(false);
                self.emit(Op::Build);
                self.sequence(node, &[])?;
                self.emit(Op::EndMessage { terminate });
                Ok(())
            }
            // The parent of this `xsl:fallback` is supported, so it has no effect: section 15.
            "fallback" => Ok(()),
            _ => self.unknown(node),
        }
    }

    /// Replaces an unknown instruction by its `xsl:fallback` (section 15). Without one, instructions of XSLT 2.0 and
    /// 3.0 are errors; those of other versions and extension elements fail when they are reached.
    fn unknown(&mut self, node: Node<'t>) -> Compiled {
        let mut fallbacks = node.children().filter(|child| is_xsl(*child, "fallback")).peekable();
        if fallbacks.peek().is_some() {
            for fallback in fallbacks {
                self.sequence(fallback, &[])?;
            }
            return Ok(());
        }
        let message = if node.namespace() == XSL {
            format!("`xsl:{}` is not an instruction of XSLT 1.0", node.local_name())
        } else {
            format!("the extension element `{}` is not supported", node.local_name())
        };
        if node.namespace() == XSL && !is_forwards_compatible(node) {
            return Err(self.unsupported(node, message));
        }
        self.emit(Op::Fail(message));
        Ok(())
    }

    pub(super) fn is_extension(&self, node: Node<'t>) -> bool {
        let uri = node.namespace();
        !uri.is_empty() && listed(node, "extension-element-prefixes").any(|found| found == uri)
    }

    /// Sets the target of a jump to the next operation.
    pub(super) fn set_target(&mut self, jump: usize) {
        let here = self.ops.len();
        match self.ops.get_mut(jump) {
            Some(Op::Jump(to) | Op::JumpUnless(_, to) | Op::Copy(to)) => *to = here,
            Some(Op::Param { end, .. }) => *end = here,
            Some(Op::ForEach(each)) => each.end = here,
            Some(_) | None => debug_assert!(false, "not a jump"),
        }
    }

    pub(super) fn collect(&mut self, node: Node<'t>, end: Op) -> Compiled {
        let place = self.place;
        self.emit(Op::Collect);
        self.sequence(node, &[])?;
        self.place = place;
        self.emit(end);
        Ok(())
    }

    pub(super) fn text(&mut self, node: Node<'t>) -> Compiled {
        if let Some(child) = node.elements().next() {
            return Err(self.invalid(child, "`xsl:text` may contain text only"));
        }
        let text = node.string_value().into_owned();
        let raw = self.yes_no(node, "disable-output-escaping")?.unwrap_or(false);
        self.emit(if raw { Op::RawText(text) } else { Op::Text(text) });
        Ok(())
    }

    pub(super) fn choose(&mut self, node: Node<'t>) -> Compiled {
        let mut ends = Vec::new();
        let (mut whens, mut otherwise) = (0usize, false);
        for child in node.children() {
            if child.kind() == Kind::Text && !child.text().trim().is_empty() {
                return Err(self.invalid(child, "`xsl:choose` may not contain text"));
            }
            if !child.is_element() || is_out_element(child) {
                continue;
            }
            self.place = Place::of(child);
            self.check_attributes(child)?;
            if is_xsl(child, "when") && !otherwise {
                whens = whens.saturating_add(1);
                let test = self.expression(child, "test")?;
                let jump = self.emit(Op::JumpUnless(test, 0));
                self.sequence(child, &[])?;
                ends.push(self.emit(Op::Jump(0)));
                self.set_target(jump);
            } else if is_xsl(child, "otherwise") && !otherwise {
                otherwise = true;
                self.sequence(child, &[])?;
            } else {
                let message =
                    "`xsl:choose` may contain `xsl:when`, then at most one `xsl:otherwise`";
                return Err(self.invalid(child, message));
            }
        }
        if whens == 0 {
            return Err(self.invalid(node, "`xsl:choose` requires an `xsl:when`"));
        }
        for end in ends {
            self.set_target(end);
        }
        Ok(())
    }
}

/// Whether a text node is kept: section 3.4.
pub(super) fn is_kept(node: Node<'_>) -> bool {
    if node.text().contains(|c| !matches!(c, ' ' | '\t' | '\r' | '\n')) {
        return true;
    }
    let space = node.ancestors().find_map(|above| above.attribute(XML_NAMESPACE, "space"));
    space == Some("preserve") && !is_out(&["xml:space in a sheet"])
}

/// The version in effect at a node: section 2.5.
fn version(node: Node<'_>) -> &str {
    let found = std::iter::once(node).chain(node.ancestors()).find_map(|at| {
        let sheet = is_xsl(at, "stylesheet") || is_xsl(at, "transform");
        if sheet || at.namespace() != XSL { attribute(at, "version") } else { None }
    });
    found.unwrap_or("1.0")
}

/// Whether forwards-compatible processing is enabled: section 2.5. It isn't for versions 2.0 and 3.0, whose additions
/// are rejected by name.
pub(super) fn is_forwards_compatible(node: Node<'_>) -> bool {
    !matches!(version(node).trim(), "1.0" | "1" | "2.0" | "3.0")
}
