//! The instructions of a template's body, one function each.

use crate::limits;
use xml::{Kind, Node, XML_NAMESPACE};

use super::literal::listed;
use super::tables::{self, Stands};
use super::{Compiled, Compiler};
use crate::is_out;
use crate::load::{XSL, is_out_element, is_xsl, said};
use crate::program::{Avt, Op};

impl<'t> Compiler<'t> {
    /// The content of `parent`; elements of XSLT named in `head` may come first, and are the caller's.
    pub(super) fn sequence(&mut self, parent: Node<'t>, head: &[&str]) -> Compiled {
        self.depth = self.depth.saturating_add(1);
        if self.depth > limits::XSLT_NESTING_MAX {
            let most = limits::XSLT_NESTING_MAX;
            return Err(
                self.refuse(parent, format!("more than {most} elements inside one another"))
            );
        }
        let mark = self.scope.len();
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
                    self.place = crate::load::place(node, &self.uri);
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
        self.scope.truncate(mark);
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }

    /// Section 2.5: what a sheet of a later version says wrong for us fails when it is reached, not before.
    pub(super) fn instruction(&mut self, node: Node<'t>) -> Compiled {
        if !forwards(node) {
            return self.one_instruction(node);
        }
        let (mark, scope, depth) = (self.ops.len(), self.scope.len(), self.depth);
        let Err(error) = self.one_instruction(node) else { return Ok(()) };
        self.ops.truncate(mark);
        self.places.truncate(mark);
        self.scope.truncate(scope);
        self.depth = depth;
        self.place = crate::load::place(node, &self.uri);
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
        match row.stands {
            Stands::Body => {}
            Stands::Top | Stands::Inside => {
                return Err(self.refuse(node, format!("`xsl:{name}` can't stand here")));
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
                self.land(jump);
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
                self.use_sets(node, true)?;
                self.sequence(node, &[])?;
                self.emit(Op::EndCopy);
                self.land(jump);
                Ok(())
            }
            "element" => {
                let name = self.made_name(node, true)?;
                self.emit(Op::Element(Box::new(name)));
                self.use_sets(node, false)?;
                self.sequence(node, &[])?;
                self.emit(Op::EndElement);
                Ok(())
            }
            "attribute" => {
                let name = self.made_name(node, false)?;
                self.collect(node, Op::EndAttribute(Box::new(name)))
            }
            "comment" => self.collect(node, Op::EndComment),
            "processing-instruction" => {
                let name = self.required(node, "name")?;
                let name = self.template_text(node, "name", name)?;
                if let Avt::Text(name) = &name
                    && (!xml::is_ncname(name) || name.eq_ignore_ascii_case("xml"))
                {
                    let message = format!("`{name}` can't be the name of a processing instruction");
                    return Err(self.refuse(node, message));
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
            // Its instruction is known, so it isn't needed: section 15.
            "fallback" => Ok(()),
            _ => self.unknown(node),
        }
    }

    /// Section 15: what isn't known is done by its fallback. Without one, names of later versions are
    /// refused, those of unknown versions and of extensions fail when they are reached.
    fn unknown(&mut self, node: Node<'t>) -> Compiled {
        let mut fallbacks = node.children().filter(|child| is_xsl(*child, "fallback")).peekable();
        if fallbacks.peek().is_some() {
            for fallback in fallbacks {
                self.sequence(fallback, &[])?;
            }
            return Ok(());
        }
        let message = if node.namespace() == XSL {
            format!("not supported: xsl:{}, which isn't of XSLT 1.0", node.local_name())
        } else {
            format!("not supported: the extension element {}", node.local_name())
        };
        if node.namespace() == XSL && !forwards(node) {
            return Err(self.refuse(node, message));
        }
        self.emit(Op::Fail(message));
        Ok(())
    }

    pub(super) fn is_extension(&self, node: Node<'t>) -> bool {
        let uri = node.namespace();
        !uri.is_empty() && listed(node, "extension-element-prefixes").any(|found| found == uri)
    }

    /// Sets the target of a jump to the next operation.
    pub(super) fn land(&mut self, jump: usize) {
        let here = self.ops.len();
        match self.ops.get_mut(jump) {
            Some(Op::Jump(to) | Op::JumpUnless(_, to) | Op::Copy(to)) => *to = here,
            Some(Op::Param { end, .. }) => *end = here,
            Some(Op::ForEach(each)) => each.end = here,
            Some(_) | None => debug_assert!(false, "only jumps land"),
        }
    }

    pub(super) fn collect(&mut self, node: Node<'t>, end: Op) -> Compiled {
        let place = self.place.clone();
        self.emit(Op::Collect);
        self.sequence(node, &[])?;
        self.place = place;
        self.emit(end);
        Ok(())
    }

    pub(super) fn text(&mut self, node: Node<'t>) -> Compiled {
        if let Some(child) = node.children().find(|child| child.is_element()) {
            return Err(self.refuse(child, "`xsl:text` holds text only"));
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
                return Err(self.refuse(child, "`xsl:choose` holds no text"));
            }
            if !child.is_element() || is_out_element(child) {
                continue;
            }
            self.place = crate::load::place(child, &self.uri);
            self.check_attributes(child)?;
            if is_xsl(child, "when") && !otherwise {
                whens = whens.saturating_add(1);
                let test = self.expression(child, "test")?;
                let jump = self.emit(Op::JumpUnless(test, 0));
                self.sequence(child, &[])?;
                ends.push(self.emit(Op::Jump(0)));
                self.land(jump);
            } else if is_xsl(child, "otherwise") && !otherwise {
                otherwise = true;
                self.sequence(child, &[])?;
            } else {
                let message = "`xsl:choose` holds `xsl:when`, then at most one `xsl:otherwise`";
                return Err(self.refuse(child, message));
            }
        }
        if whens == 0 {
            return Err(self.refuse(node, "`xsl:choose` needs an `xsl:when`"));
        }
        for end in ends {
            self.land(end);
        }
        Ok(())
    }
}

/// Text that isn't white space, or stands where white space is kept: section 3.4.
pub(super) fn is_kept(node: Node<'_>) -> bool {
    if node.text().contains(|c| !matches!(c, ' ' | '\t' | '\r' | '\n')) {
        return true;
    }
    let space = node.ancestors().find_map(|above| above.attribute(XML_NAMESPACE, "space"));
    space == Some("preserve") && !is_out(&["xml:space in a sheet"])
}

/// The version that holds at a node: section 2.5.
pub(super) fn version(node: Node<'_>) -> &str {
    let said = std::iter::once(node).chain(node.ancestors()).find_map(|at| {
        let sheet = is_xsl(at, "stylesheet") || is_xsl(at, "transform");
        if sheet || at.namespace() != XSL { said(at, "version") } else { None }
    });
    said.unwrap_or("1.0")
}

/// Whether forwards-compatible processing holds: section 2.5. Versions 2.0 and 3.0 are known, and what they
/// have beyond 1.0 is refused by name instead.
pub(super) fn forwards(node: Node<'_>) -> bool {
    !matches!(version(node).trim(), "1.0" | "1" | "2.0" | "3.0")
}
