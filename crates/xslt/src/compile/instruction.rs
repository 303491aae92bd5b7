//! The instructions of a template's body, one function each.

use base::limits;
use xml::{Kind, Node, XML_NAMESPACE};

use super::tables::{self, Stands};
use super::{Compiled, Compiler};
use crate::alphabet;
use crate::is_out;
use crate::load::{XSL, is_out_element, is_xsl, said};
use crate::program::{ApplyOp, Avt, Literal, LoopOp, Name, Op, ResultName, Sort};

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
        let visible = self.scope.len();
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
        debug_assert_eq!(mark, visible);
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
            _ => Err(self.refuse(node, format!("not supported yet: xsl:{name}"))),
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

    fn is_extension(&self, node: Node<'t>) -> bool {
        let uri = node.namespace();
        !uri.is_empty() && listed(node, "extension-element-prefixes").any(|found| found == uri)
    }

    /// Sets the target of a jump to the next operation.
    fn land(&mut self, jump: usize) {
        let here = self.ops.len();
        match self.ops.get_mut(jump) {
            Some(Op::Jump(to) | Op::JumpUnless(_, to) | Op::Copy(to)) => *to = here,
            Some(Op::Param { end, .. }) => *end = here,
            Some(Op::ForEach(each)) => each.end = here,
            Some(_) | None => debug_assert!(false, "only jumps land"),
        }
    }

    fn collect(&mut self, node: Node<'t>, end: Op) -> Compiled {
        let place = self.place.clone();
        self.emit(Op::Collect);
        self.sequence(node, &[])?;
        self.place = place;
        self.emit(end);
        Ok(())
    }

    fn text(&mut self, node: Node<'t>) -> Compiled {
        if let Some(child) = node.children().find(|child| child.is_element()) {
            return Err(self.refuse(child, "`xsl:text` holds text only"));
        }
        let text = node.string_value().into_owned();
        let raw = self.yes_no(node, "disable-output-escaping")?.unwrap_or(false);
        self.emit(if raw { Op::RawText(text) } else { Op::Text(text) });
        Ok(())
    }

    fn choose(&mut self, node: Node<'t>) -> Compiled {
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

    fn for_each(&mut self, node: Node<'t>) -> Compiled {
        let select = self.selection(node, "select")?;
        let sorts = self.sorts(node)?;
        let jump = self.emit(Op::ForEach(Box::new(LoopOp { select, sorts, end: 0 })));
        self.sequence(node, &["sort"])?;
        self.emit(Op::Next);
        self.land(jump);
        Ok(())
    }

    fn sorts(&mut self, node: Node<'t>) -> Compiled<Vec<Sort>> {
        let mut sorts = Vec::new();
        for sort in node.children().filter(|child| is_xsl(*child, "sort")) {
            self.check_attributes(sort)?;
            self.check_empty(sort)?;
            let select = match said(sort, "select") {
                Some(_) => Some(self.expression(sort, "select")?),
                None => None,
            };
            let avt = |name: &str, default: &str| {
                self.template_text(sort, name, said(sort, name).unwrap_or(default))
            };
            let lang = avt("lang", "")?;
            if let Avt::Text(tag) = &lang
                && !tag.is_empty()
            {
                alphabet::language(tag).map_err(|why| self.refuse(sort, why))?;
            }
            sorts.push(Sort {
                select,
                data_type: avt("data-type", "text")?,
                order: avt("order", "ascending")?,
                case_order: avt("case-order", "")?,
                lang,
            });
        }
        Ok(sorts)
    }

    fn apply(&mut self, node: Node<'t>) -> Compiled {
        let select = match said(node, "select") {
            Some(_) => Some(self.selection(node, "select")?),
            None => None,
        };
        let mode = match self.optional_name(node, "mode")? {
            Some(mode) => self.mode(mode),
            None => 0,
        };
        let sorts = self.sorts(node)?;
        let passes = self.with_params(node, &["sort", "with-param"])?;
        self.emit(Op::Apply(Box::new(ApplyOp { select, mode, sorts, passes })));
        Ok(())
    }

    fn call(&mut self, node: Node<'t>) -> Compiled {
        let name = self.expanded(node, "name")?;
        let Some((template, _)) = self.named.get(&name).copied() else {
            return Err(self.refuse(node, format!("there is no template named `{name}`")));
        };
        let passes = self.with_params(node, &["with-param"])?;
        self.emit(Op::Call { template, passes });
        Ok(())
    }

    fn with_params(&mut self, node: Node<'t>, allowed: &[&str]) -> Compiled<bool> {
        let place = self.place.clone();
        let mut seen = Vec::new();
        for child in node.children() {
            let text = child.kind() == Kind::Text && !child.text().trim().is_empty();
            let strange = child.namespace() != XSL || !allowed.contains(&child.local_name());
            if text || (child.is_element() && strange) {
                let message = format!("this can't stand in `xsl:{}`", node.local_name());
                return Err(self.refuse(child, message));
            }
            if !is_xsl(child, "with-param") {
                continue;
            }
            if seen.is_empty() {
                self.emit(Op::BeginPass);
            }
            self.check_attributes(child)?;
            self.place = crate::load::place(child, &self.uri);
            let name = self.expanded(child, "name")?;
            let number = self.param_number(name);
            if seen.contains(&number) {
                return Err(self.refuse(child, "this parameter is passed twice"));
            }
            seen.push(number);
            if said(child, "select").is_some() {
                self.check_empty(child)?;
                let select = self.expression(child, "select")?;
                self.emit(Op::Pass(number, select));
            } else if child.first_child().is_none() {
                self.emit(Op::PassText(number, String::new()));
            } else {
                self.emit(Op::Build);
                self.sequence(child, &[])?;
                self.emit(Op::EndBuildPass(number));
            }
        }
        self.place = place;
        Ok(!seen.is_empty())
    }

    fn new_slot(&mut self) -> u32 {
        let slot = self.slots;
        self.slots = self.slots.saturating_add(1);
        slot
    }

    fn variable(&mut self, node: Node<'t>) -> Compiled {
        let name = self.expanded(node, "name")?;
        if self.scope.iter().any(|(known, _)| *known == name) {
            let message = format!("the variable `{name}` is declared here already: section 11.5");
            return Err(self.refuse(node, message));
        }
        let slot = self.new_slot();
        self.bind(node, slot)?;
        self.scope.push((name, slot));
        Ok(())
    }

    /// The value of a variable or parameter, put into a slot.
    pub(super) fn bind(&mut self, node: Node<'t>, slot: u32) -> Compiled {
        if said(node, "select").is_some() {
            self.check_empty(node)?;
            let select = self.expression(node, "select")?;
            self.emit(Op::Set(slot, select));
        } else if node.first_child().is_none() {
            self.emit(Op::SetText(slot, String::new()));
        } else {
            self.emit(Op::Build);
            self.sequence(node, &[])?;
            self.emit(Op::EndBuild(slot));
        }
        Ok(())
    }

    /// The parameters at the head of a template.
    pub(super) fn head_params(&mut self, template: Node<'t>) -> Compiled {
        for node in template.children() {
            if node.is_element() && !is_xsl(node, "param") {
                return Ok(());
            }
            if !node.is_element() {
                if node.kind() == Kind::Text && is_kept(node) {
                    return Ok(());
                }
                continue;
            }
            self.place = crate::load::place(node, &self.uri);
            self.check_attributes(node)?;
            let expanded = self.expanded(node, "name")?;
            if self.scope.iter().any(|(known, _)| *known == expanded) {
                return Err(self.refuse(node, format!("a second parameter named `{expanded}`")));
            }
            let slot = self.new_slot();
            let name = self.param_number(expanded.clone());
            let jump = self.emit(Op::Param { name, slot, end: 0 });
            self.bind(node, slot)?;
            self.land(jump);
            self.scope.push((expanded, slot));
        }
        Ok(())
    }

    pub(super) fn use_sets(&mut self, node: Node<'t>, in_copy: bool) -> Compiled {
        let names = said(node, "use-attribute-sets").unwrap_or("");
        for name in names.split_whitespace() {
            let name = self.expand(node, name)?;
            let Some(set) = self.set_names.get(&name).copied() else {
                return Err(self.refuse(node, format!("there is no attribute set `{name}`")));
            };
            self.emit(Op::CallSet { set, in_copy });
        }
        Ok(())
    }

    fn made_name(&mut self, node: Node<'t>, element: bool) -> Compiled<ResultName> {
        let text = self.required(node, "name")?;
        let name = self.template_text(node, "name", text)?;
        let namespace = match said(node, "namespace") {
            Some(text) => Some(self.template_text(node, "namespace", text)?),
            None => None,
        };
        if let (Avt::Text(text), None) = (&name, &namespace) {
            let name = self.result_name(node, text, element)?;
            if !element && name.prefix.is_empty() && name.local == "xmlns" {
                return Err(self.refuse(node, "an attribute can't be named `xmlns`"));
            }
            return Ok(ResultName::Fixed(name));
        }
        let bindings =
            node.namespaces_in_scope().filter(|(prefix, _)| element || !prefix.is_empty());
        let scope = bindings.map(|(prefix, uri)| (prefix.to_owned(), uri.to_owned())).collect();
        Ok(ResultName::Made { name, namespace, scope })
    }

    /// A literal result element: section 7.1.1.
    pub(super) fn literal(&mut self, node: Node<'t>) -> Compiled {
        self.check_prefixes(node)?;
        let name = self.aliased(node);
        let namespaces =
            if self.inherits_namespaces(node) { Vec::new() } else { self.literal_namespaces(node) };
        self.emit(Op::Literal(Box::new(Literal { name, namespaces })));
        self.use_sets(node, false)?;
        for attribute in node.attributes() {
            if attribute.namespace() == XSL {
                let known = ["version", "exclude-result-prefixes", "extension-element-prefixes"];
                let local = attribute.local_name();
                let later = forwards(node);
                if !known.contains(&local) && local != "use-attribute-sets" && !later {
                    return Err(self.refuse(attribute, format!("not supported: xsl:{local}")));
                }
                continue;
            }
            let value = self.template_text(node, attribute.local_name(), attribute.text())?;
            let name = self.aliased(attribute);
            self.emit(Op::Attribute(Box::new((name, value))));
        }
        self.sequence(node, &[])?;
        self.emit(Op::EndElement);
        Ok(())
    }

    fn aliased(&self, node: Node<'t>) -> Name {
        let unaliased = (node.prefix().to_owned(), node.namespace().to_owned());
        let known = self.aliases.get(node.namespace()).cloned();
        let (prefix, namespace) = known
            .filter(|_| node.is_element() || !node.namespace().is_empty())
            .unwrap_or(unaliased);
        Name { prefix, namespace, local: node.local_name().to_owned() }
    }

    fn literal_namespaces(&self, node: Node<'t>) -> Vec<(String, String)> {
        let excluded: Vec<&str> = listed(node, "exclude-result-prefixes")
            .chain(listed(node, "extension-element-prefixes"))
            .collect();
        let mut found: Vec<(String, String)> = Vec::new();
        for (prefix, uri) in node.namespaces_in_scope() {
            if uri == XML_NAMESPACE || uri == XSL || excluded.contains(&uri) {
                continue;
            }
            let (prefix, uri) = match self.aliases.get(uri) {
                Some((prefix, uri)) => (prefix.as_str(), uri.as_str()),
                None => (prefix, uri),
            };
            if !found.iter().any(|(known, _)| known == prefix) && !uri.is_empty() {
                found.push((prefix.to_owned(), uri.to_owned()));
            }
        }
        found.reverse();
        found
    }

    /// Whether a literal element around it declares the same already, with nothing but control flow between.
    fn inherits_namespaces(&self, node: Node<'t>) -> bool {
        let mut at = node;
        loop {
            let own = at.declarations().next().is_some()
                || at.attribute(XSL, "exclude-result-prefixes").is_some()
                || at.attribute("", "exclude-result-prefixes").is_some() && at.namespace() == XSL
                || at.attribute(XSL, "extension-element-prefixes").is_some();
            let Some(parent) = at.parent().filter(|_| !own) else { return false };
            let flow = ["if", "choose", "when", "otherwise", "for-each"];
            match parent.namespace() {
                XSL if flow.contains(&parent.local_name()) => at = parent,
                XSL => return false,
                _ => return parent.is_element() && !self.is_extension(parent),
            }
        }
    }
}

/// Text that isn't white space, or stands where white space is kept: section 3.4.
fn is_kept(node: Node<'_>) -> bool {
    if node.text().contains(|c| !matches!(c, ' ' | '\t' | '\r' | '\n')) {
        return true;
    }
    let space = node.ancestors().find_map(|above| above.attribute(XML_NAMESPACE, "space"));
    space == Some("preserve") && !is_out(&["xml:space in a sheet"])
}

/// The version that holds at a node: section 2.5.
fn version(node: Node<'_>) -> &str {
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

/// Literal elements and the outermost one of a sheet: sections 7.1.1 and 14.1.
fn may_list(node: Node<'_>) -> bool {
    let is_sheet = || is_xsl(node, "stylesheet") || is_xsl(node, "transform");
    node.is_element() && (node.namespace() != XSL || is_sheet())
}

/// The namespaces that the prefixes in such attributes, here and above, are bound to.
fn listed<'t>(node: Node<'t>, attribute: &'static str) -> impl Iterator<Item = &'t str> {
    let here = std::iter::once(node).chain(node.ancestors());
    here.filter(|at| may_list(*at)).flat_map(move |at| {
        let prefixes = said(at, attribute).unwrap_or("").split_whitespace();
        prefixes.filter_map(move |prefix| {
            at.lookup_namespace(if prefix == "#default" { "" } else { prefix })
        })
    })
}
