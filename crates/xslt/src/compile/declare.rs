//! What the top of a sheet declares, before any code is compiled.

use xml::Node;
use xpath::ExpandedName;

use super::instruction::forwards;
use super::tables::{self, Stands};
use super::{Compiled, Compiler, is_top_level};
use crate::load::{Top, XSL, is_out_element, is_xsl, said};
use crate::program::{Block, Global, SpaceTest, Symbols, Template};

impl<'t> Compiler<'t> {
    pub(super) fn declare_all(&mut self) -> Compiled {
        for (root, uri) in std::mem::take(&mut self.roots) {
            self.enter(root, &uri);
            self.check_attributes(root)?;
            self.check_prefixes(root)?;
        }
        let tops = self.tops.clone();
        for top in &tops {
            self.enter(top.node, &top.uri);
            if is_top_level(top.node) {
                self.declare(top)?;
            } else if said(top.node, "version").is_none() {
                let message =
                    "this isn't a sheet: it has neither `xsl:stylesheet` nor `xsl:version`";
                return Err(self.refuse(top.node, message));
            } else {
                self.templates.push(Template { block: Block::default(), imports: (0, 0) });
            }
        }
        self.output_said()?;
        // Stable: of equals the later declaration is the better one.
        self.spaces.tests.reverse();
        let rank = |test: &SpaceTest| std::cmp::Reverse((test.precedence, test.priority()));
        self.spaces.tests.sort_by_key(rank);
        Ok(())
    }

    fn declare(&mut self, top: &Top<'t>) -> Compiled {
        let node = top.node;
        if node.namespace() != XSL {
            if node.namespace().is_empty() {
                return Err(self.refuse(node, "an element at the top needs a namespace"));
            }
            return Ok(());
        }
        let known = tables::find(node.local_name()).filter(|row| row.stands == Stands::Top);
        let variable = is_xsl(node, "variable") || is_xsl(node, "param");
        if known.is_none() && !variable && forwards(node) {
            return Ok(());
        }
        if known.is_none() && !variable {
            let message = format!("not supported: xsl:{} at the top of a sheet", node.local_name());
            return Err(self.refuse(node, message));
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
                if *self.set_names.entry(name).or_insert(next) == next {
                    self.sets.push(Block::default());
                }
                Ok(())
            }
            "key" => {
                let name = self.expanded(node, "name")?;
                self.check_empty(node)?;
                self.key_names.push(name);
                Ok(())
            }
            "output" => self.declare_output(node),
            "strip-space" | "preserve-space" => self.declare_spaces(top),
            "decimal-format" => self.declare_format(top),
            "namespace-alias" => self.declare_alias(node),
            "import" => Err(self.refuse(node, "`xsl:import` comes before everything else")),
            _ => Ok(()),
        }
    }

    fn declare_template(&mut self, top: &Top<'t>) -> Compiled {
        let index = self.templates.len();
        self.templates.push(Template { block: Block::default(), imports: (0, 0) });
        let Some(name) = self.optional_name(top.node, "name")? else { return Ok(()) };
        match self.named.get(&name) {
            Some((_, precedence)) if *precedence == top.precedence => {
                Err(self.refuse(top.node, format!("a second template named `{name}`")))
            }
            Some(_) | None => {
                self.named.insert(name, (index, top.precedence));
                Ok(())
            }
        }
    }

    fn declare_global(&mut self, top: &Top<'t>) -> Compiled {
        let name = self.expanded(top.node, "name")?;
        let is_param = is_xsl(top.node, "param");
        if let Some((index, precedence)) = self.global_names.get_mut(&name) {
            if *precedence == top.precedence {
                let message = format!("a second variable or parameter named `{name}`");
                return Err(self.refuse(top.node, message));
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

    fn declare_spaces(&mut self, top: &Top<'t>) -> Compiled {
        self.check_empty(top.node)?;
        let strip = is_xsl(top.node, "strip-space");
        for text in self.required(top.node, "elements")?.split_whitespace() {
            let (namespace, local) = if text == "*" {
                (None, None)
            } else if let Some(prefix) = text.strip_suffix(":*") {
                let name = self.result_name(top.node, &format!("{prefix}:x"), false)?;
                (Some(name.namespace), None)
            } else {
                let name = self.result_name(top.node, text, false)?;
                (Some(name.namespace), Some(name.local))
            };
            let precedence = top.precedence;
            self.spaces.tests.push(SpaceTest { namespace, local, strip, precedence });
        }
        Ok(())
    }

    fn declare_format(&mut self, top: &Top<'t>) -> Compiled {
        let node = top.node;
        self.check_empty(node)?;
        let mut symbols = Symbols::default();
        let Symbols {
            decimal, grouping, percent, per_mille, zero, digit, separator, minus, ..
        } = &mut symbols;
        for (attribute, slot) in [
            ("decimal-separator", decimal),
            ("grouping-separator", grouping),
            ("percent", percent),
            ("per-mille", per_mille),
            ("zero-digit", zero),
            ("digit", digit),
            ("pattern-separator", separator),
            ("minus-sign", minus),
        ] {
            let Some(text) = said(node, attribute) else { continue };
            let mut chars = text.chars();
            let (Some(c), None) = (chars.next(), chars.next()) else {
                return Err(self.refuse(node, format!("`{attribute}` has to be one character")));
            };
            *slot = c;
        }
        if let Some(text) = said(node, "infinity") {
            text.clone_into(&mut symbols.infinity);
        }
        if let Some(text) = said(node, "NaN") {
            text.clone_into(&mut symbols.nan);
        }
        let name = self.optional_name(node, "name")?.unwrap_or_default();
        if let Some((known, precedence)) = self.formats.get(&name)
            && *precedence == top.precedence
            && *known != symbols
        {
            return Err(self.refuse(node, format!("a second decimal format named `{name}`")));
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
            let uri = node.lookup_namespace(prefix).ok_or_else(|| {
                self.refuse(node, format!("the prefix `{prefix}` isn't declared"))
            })?;
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
