//! Declarations at the top level of a stylesheet, read before any template is compiled.

use xml::Node;
use xpath::ExpandedName;

use super::instruction::is_forwards_compatible;
use super::tables::{self, Placement};
use super::{AttributeSet, Compiled, Compiler, is_top_level};
use crate::load::{TopLevel, XSL, attribute, is_out_element, is_xsl};
use crate::program::{Block, Global, SpaceTest, Symbols, Template};

impl<'t> Compiler<'t> {
    pub(super) fn declare_all(&mut self) -> Compiled {
        for (root, module) in std::mem::take(&mut self.roots) {
            self.enter(root, module);
            self.check_attributes(root)?;
            self.check_prefixes(root)?;
        }
        let top_level = std::mem::take(&mut self.top_level);
        for top in &top_level {
            self.enter(top.node, top.module);
            if is_top_level(top.node) {
                self.declare(top)?;
            } else if attribute(top.node, "version").is_none() {
                let message =
                    "not a stylesheet: the root is not `xsl:stylesheet` and has no `xsl:version`";
                return Err(self.invalid(top.node, message));
            } else {
                self.templates.push(Template { block: Block::default(), imports: (0, 0) });
            }
        }
        self.top_level = top_level;
        self.finish_output()
    }

    fn declare(&mut self, top: &TopLevel<'t>) -> Compiled {
        let node = top.node;
        if node.namespace() != XSL {
            if node.namespace().is_empty() {
                return Err(self.invalid(node, "a top-level element must have a namespace"));
            }
            return Ok(());
        }
        let known =
            tables::find(node.local_name()).filter(|row| row.placement == Placement::TopLevel);
        let variable = is_xsl(node, "variable") || is_xsl(node, "param");
        if known.is_none() && !variable && is_forwards_compatible(node) {
            return Ok(());
        }
        if known.is_none() && !variable {
            let message = format!("`xsl:{}` is not supported at the top level", node.local_name());
            return Err(self.unsupported(node, message));
        }
        if is_out_element(node) {
            return Ok(());
        }
        self.check_attributes(node)?;
        match node.local_name() {
            "template" => self.declare_template(top),
            "variable" | "param" => self.declare_global(top),
            "attribute-set" => {
                let name = self.expanded(node, "name")?;
                let next = self.sets.len();
                let index = *self.set_names.entry(name).or_insert(next);
                if index == next {
                    self.sets.push(AttributeSet::default());
                }
                if let Some(set) = self.sets.get_mut(index) {
                    set.declarations.push(*top);
                }
                Ok(())
            }
            "key" => self.check_empty(node),
            "output" => self.declare_output(node),
            "strip-space" | "preserve-space" => self.declare_spaces(top),
            "decimal-format" => self.declare_format(top),
            "namespace-alias" => self.declare_alias(node),
            _ => Ok(()),
        }
    }

    fn declare_template(&mut self, top: &TopLevel<'t>) -> Compiled {
        let index = self.templates.len();
        self.templates.push(Template { block: Block::default(), imports: (0, 0) });
        let Some(name) = self.optional_name(top.node, "name")? else { return Ok(()) };
        match self.named.get(&name) {
            Some((_, precedence)) if *precedence == top.precedence => {
                Err(self.invalid(top.node, format!("the template `{name}` is declared twice")))
            }
            Some(_) | None => {
                self.named.insert(name, (index, top.precedence));
                Ok(())
            }
        }
    }

    fn declare_global(&mut self, top: &TopLevel<'t>) -> Compiled {
        let name = self.expanded(top.node, "name")?;
        let is_param = is_xsl(top.node, "param");
        if let Some((index, precedence)) = self.global_names.get_mut(&name) {
            if *precedence == top.precedence {
                let message = format!("the variable or parameter `{name}` is declared twice");
                return Err(self.invalid(top.node, message));
            }
            *precedence = top.precedence;
            if let Some(global) = self.globals.get_mut(*index as usize) {
                global.is_param = is_param;
            }
            return Ok(());
        }
        let index = u32::try_from(self.globals.len()).unwrap_or(u32::MAX);
        self.global_names.insert(name.clone(), (index, top.precedence));
        self.globals.push(Global { name, block: Block::default(), is_param, needs: Vec::new() });
        Ok(())
    }

    fn declare_spaces(&mut self, top: &TopLevel<'t>) -> Compiled {
        self.check_empty(top.node)?;
        let strip = is_xsl(top.node, "strip-space");
        for text in self.required(top.node, "elements")?.split_whitespace() {
            let test = if text == "*" {
                SpaceTest::Any
            } else if let Some(prefix) = text.strip_suffix(":*") {
                let name = self.qname(top.node, &format!("{prefix}:x"), false)?;
                SpaceTest::Namespace(name.namespace)
            } else {
                let name = self.qname(top.node, text, false)?;
                SpaceTest::Name(ExpandedName::new(name.namespace, name.local))
            };
            self.spaces.add(test, strip, top.precedence);
        }
        Ok(())
    }

    fn declare_format(&mut self, top: &TopLevel<'t>) -> Compiled {
        let node = top.node;
        self.check_empty(node)?;
        let mut symbols = Symbols::default();
        let Symbols {
            decimal, grouping, percent, per_mille, zero, digit, separator, minus, ..
        } = &mut symbols;
        for (name, slot) in [
            ("decimal-separator", decimal),
            ("grouping-separator", grouping),
            ("percent", percent),
            ("per-mille", per_mille),
            ("zero-digit", zero),
            ("digit", digit),
            ("pattern-separator", separator),
            ("minus-sign", minus),
        ] {
            let Some(text) = attribute(node, name) else { continue };
            let mut chars = text.chars();
            let (Some(c), None) = (chars.next(), chars.next()) else {
                return Err(self.invalid(node, format!("`{name}` must be a single character")));
            };
            *slot = c;
        }
        if let Some(text) = attribute(node, "infinity") {
            text.clone_into(&mut symbols.infinity);
        }
        if let Some(text) = attribute(node, "NaN") {
            text.clone_into(&mut symbols.nan);
        }
        let name = self.optional_name(node, "name")?.unwrap_or_default();
        if let Some((known, precedence)) = self.formats.get(&name)
            && *precedence == top.precedence
            && *known != symbols
        {
            let message = format!("the decimal format `{name}` is declared twice");
            return Err(self.invalid(node, message));
        }
        self.formats.insert(name, (symbols, top.precedence));
        Ok(())
    }

    fn declare_alias(&mut self, node: Node<'t>) -> Compiled {
        self.check_empty(node)?;
        let mut ends = [("", ""); 2];
        for (end, attribute) in ends.iter_mut().zip(["stylesheet-prefix", "result-prefix"]) {
            let prefix = self.required(node, attribute)?;
            let prefix = if prefix == "#default" { "" } else { prefix };
            let uri = node.lookup_namespace(prefix);
            let uri = uri.ok_or_else(|| self.undeclared_prefix(node, prefix))?;
            *end = (prefix, uri);
        }
        let [(_, from), (prefix, to)] = ends;
        self.aliases.insert(from.to_owned(), (prefix.to_owned(), to.to_owned()));
        Ok(())
    }

    pub(super) fn param_number(&mut self, name: ExpandedName) -> u32 {
        let next = u32::try_from(self.params.len()).unwrap_or(u32::MAX);
        *self.params.entry(name).or_insert(next)
    }
}
