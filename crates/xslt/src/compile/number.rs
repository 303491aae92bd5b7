//! `xsl:number`: section 7.7.

use xml::Node;
use xpath::Pattern;

use super::{Compiled, Compiler};
use crate::is_out;
use crate::load::said;
use crate::program::{Avt, Level, NumberOp, Op};

impl<'t> Compiler<'t> {
    pub(super) fn number(&mut self, node: Node<'t>) -> Compiled {
        self.check_empty(node)?;
        let value = match said(node, "value") {
            Some(_) => Some(self.expression(node, "value")?),
            None => None,
        };
        let level = match said(node, "level") {
            Some(level @ ("multiple" | "any")) if is_out(&["level ", level]) => Level::Single,
            None | Some("single") => Level::Single,
            Some("multiple") => Level::Multiple,
            Some("any") => Level::Any,
            Some(other) => return Err(self.refuse(node, format!("there is no level `{other}`"))),
        };
        let number = NumberOp {
            value,
            level,
            count: self.optional_pattern(node, "count")?,
            from: self.optional_pattern(node, "from")?,
            format: self.optional_avt(node, "format")?,
            lang: self.optional_avt(node, "lang")?,
            letter_value: self.optional_avt(node, "letter-value")?,
            separator: self.optional_avt(node, "grouping-separator")?,
            size: self.optional_avt(node, "grouping-size")?,
            remembers: ["count", "from"].iter().all(|name| is_fixed(node, name)),
            number: self.ops.len(),
        };
        self.emit(Op::Number(Box::new(number)));
        Ok(())
    }

    fn optional_pattern(&self, node: Node<'t>, attribute: &str) -> Compiled<Option<Pattern>> {
        said(node, attribute).map(|text| self.pattern(node, text)).transpose()
    }

    fn optional_avt(&self, node: Node<'t>, attribute: &str) -> Compiled<Option<Avt>> {
        let text = said(node, attribute);
        text.map(|text| self.template_text(node, attribute, text)).transpose()
    }
}

/// Whether what a pattern matches can't change during a run: no variables, no `current()`.
fn is_fixed(node: Node<'_>, attribute: &str) -> bool {
    let text = said(node, attribute).unwrap_or("");
    !text.contains('$') && !text.contains("current")
}
