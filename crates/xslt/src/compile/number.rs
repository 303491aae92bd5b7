//! `xsl:number`: section 7.7.

use xml::Node;
use xpath::Pattern;

use super::{Compiled, Compiler};
use crate::knock_out::is_out;
use crate::load::attribute;
use crate::program::{Avt, Level, NumberOp, Op};

impl<'t> Compiler<'t> {
    pub(super) fn number(&mut self, node: Node<'t>) -> Compiled {
        self.check_empty(node)?;
        let value = match attribute(node, "value") {
            Some(_) => Some(self.expression(node, "value")?),
            None => None,
        };
        let level = match attribute(node, "level") {
            Some(level @ ("multiple" | "any")) if is_out(&["level ", level]) => Level::Single,
            None | Some("single") => Level::Single,
            Some("multiple") => Level::Multiple,
            Some("any") => Level::Any,
            Some(other) => {
                let message = format!("unknown level `{other}`; write single, multiple or any");
                return Err(self.invalid(node, message));
            }
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
            is_cached: ["count", "from"].iter().all(|name| is_fixed(node, name)),
            id: self.ops.len(),
        };
        self.emit(Op::Number(Box::new(number)));
        Ok(())
    }

    fn optional_pattern(&self, node: Node<'t>, name: &str) -> Compiled<Option<Pattern>> {
        attribute(node, name).map(|text| self.pattern(node, name, text)).transpose()
    }

    fn optional_avt(&self, node: Node<'t>, name: &str) -> Compiled<Option<Avt>> {
        attribute(node, name).map(|text| self.avt(node, name, text)).transpose()
    }
}

/// Whether a pattern matches the same nodes during the whole run: it reads no variables.
fn is_fixed(node: Node<'_>, name: &str) -> bool {
    !attribute(node, name).unwrap_or("").contains('$')
}
