//! From JSON to XML.

use std::borrow::Cow;
use std::rc::Rc;

use xml::{QNameRef, Sink as _};
use xpath::Budget;

use super::{
    ARRAY, CHARACTER_BYTES_MAX, ELEMENT, MULTIPLE, NIL, OBJECT, Rules, VALUE, XSI, element_name,
};
use crate::error::Error;
use crate::json::{Kind, Ref};

/// Memory of an element, an attribute or a text in an XML tree.
const XML_NODE_BYTES: usize = 32;

/// The name of an element, which the elements of an array share.
#[derive(Clone)]
enum Name<'j> {
    Borrowed(&'j str),
    Shared(Rc<str>),
}

impl<'j> Name<'j> {
    /// The name of a member as that of an element.
    fn of(member: Cow<'j, str>, budget: &Budget) -> Result<Self, Error> {
        budget.charge_scanning(member.len())?;
        if let Cow::Borrowed(name) = member
            && xml::is_ncname(name)
        {
            return Ok(Self::Borrowed(name));
        }
        budget.charge_memory(member.len().saturating_mul(CHARACTER_BYTES_MAX))?;
        Ok(Self::Shared(element_name(&member).into()))
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(name) => name,
            Self::Shared(name) => name,
        }
    }
}

/// Parts left to write; kept in a list, so that nesting needs no recursion.
enum Write<'j> {
    Value {
        name: Name<'j>,
        value: Ref<'j>,
        /// It is an element of an array already, so that another array is nested.
        is_element: bool,
    },
    End,
}

/// The XML of a JSON value.
///
/// # Errors
/// Text that XML does not allow, such as control characters; or [`Error::Budget`].
pub fn to_xml(root: Ref<'_>, rules: &Rules, budget: &Budget) -> Result<xml::Document, Error> {
    let mut out = Tree { out: xml::Builder::new(), rules, budget };
    let name = Name::Borrowed(match root.kind() {
        Kind::Object => OBJECT,
        Kind::Array => ARRAY,
        Kind::Null | Kind::Boolean | Kind::Number | Kind::String => VALUE,
    });
    let mut left = Vec::new();
    if root.kind() == Kind::Array {
        out.start(&name)?;
        left.push(Write::End);
        out.leave_elements(&mut left, &Name::Borrowed(ELEMENT), root)?;
    } else {
        left.push(Write::Value { name, value: root, is_element: false });
    }
    while let Some(next) = left.pop() {
        let Write::Value { name, value, is_element } = next else {
            out.out.end_element().map_err(body)?;
            continue;
        };
        match value.kind() {
            Kind::Array if !is_element => {
                out.multiple(&name)?;
                out.leave_elements(&mut left, &name, value)?;
            }
            Kind::Array => {
                out.start(&name)?;
                out.start(&Name::Borrowed(ARRAY))?;
                left.extend([Write::End, Write::End]);
                out.leave_elements(&mut left, &Name::Borrowed(ELEMENT), value)?;
            }
            Kind::Object => {
                out.start(&name)?;
                left.push(Write::End);
                out.members(&mut left, value)?;
            }
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String => {
                out.start(&name)?;
                if value.kind() == Kind::Null && rules.nil {
                    out.nil()?;
                }
                out.text(value)?;
                out.out.end_element().map_err(body)?;
            }
        }
    }
    Ok(out.out.finish())
}

fn body(error: xml::Error) -> Error {
    Error::Body(error.to_string())
}

/// The tree under construction.
struct Tree<'b> {
    out: xml::Builder,
    rules: &'b Rules,
    budget: &'b Budget,
}

impl Tree<'_> {
    fn start(&mut self, name: &Name<'_>) -> Result<(), Error> {
        let name = name.as_str();
        self.budget.charge_steps(1)?;
        self.budget.charge_reading(name.len())?;
        self.budget.charge_memory(XML_NODE_BYTES)?;
        self.out.start_element(QNameRef::local(name)).map_err(body)
    }

    fn nil(&mut self) -> Result<(), Error> {
        self.budget.charge_memory(2 * XML_NODE_BYTES)?;
        self.out.namespace("xsi", XSI).map_err(body)?;
        self.out.attribute(QNameRef::new("xsi", XSI, NIL), "true").map_err(body)
    }

    /// The elements that follow are an array.
    fn multiple(&mut self, name: &Name<'_>) -> Result<(), Error> {
        if !self.rules.writes_multiple {
            return Ok(());
        }
        self.budget.charge_memory(name.as_str().len() + XML_NODE_BYTES)?;
        self.out.processing_instruction(MULTIPLE, name.as_str()).map_err(body)
    }

    fn charged<'j>(&self, value: Ref<'j>) -> Result<Cow<'j, str>, Error> {
        let bytes = value.raw().len();
        self.budget.charge_scanning(bytes)?;
        self.budget.charge_memory(bytes + XML_NODE_BYTES)?;
        Ok(text_of(value))
    }

    fn text(&mut self, value: Ref<'_>) -> Result<(), Error> {
        let text = self.charged(value)?;
        self.out.text(&text).map_err(body)
    }

    /// Leaves the elements of `array`, each under `name`.
    fn leave_elements<'j>(
        &self,
        left: &mut Vec<Write<'j>>,
        name: &Name<'j>,
        array: Ref<'j>,
    ) -> Result<(), Error> {
        self.budget.charge_memory(array.len().saturating_mul(size_of::<Write<'_>>()))?;
        let at = left.len();
        left.extend(array.elements().map(|value| Write::Value {
            name: name.clone(),
            value,
            is_element: true,
        }));
        if let Some(new) = left.get_mut(at..) {
            new.reverse();
        }
        Ok(())
    }

    /// Writes the attributes and the text of an object, and leaves its other members.
    fn members<'j>(&mut self, left: &mut Vec<Write<'j>>, object: Ref<'j>) -> Result<(), Error> {
        self.budget.charge_memory(object.len().saturating_mul(size_of::<Write<'_>>()))?;
        for (name, value) in object.members().filter(|(_, value)| is_scalar(*value)) {
            if let Some(name) = attribute(&name) {
                self.budget.charge_scanning(name.len())?;
                let text = self.charged(value)?;
                self.out.attribute(QNameRef::local(name), &text).map_err(body)?;
            }
        }
        let at = left.len();
        for (name, value) in object.members() {
            if is_scalar(value) && attribute(&name).is_some() {
                continue;
            }
            if is_scalar(value) && name == "$" {
                self.text(value)?;
                continue;
            }
            let name = Name::of(name, self.budget)?;
            left.push(Write::Value { name, value, is_element: false });
        }
        if let Some(new) = left.get_mut(at..) {
            new.reverse();
        }
        Ok(())
    }
}

fn is_scalar(value: Ref<'_>) -> bool {
    !matches!(value.kind(), Kind::Array | Kind::Object)
}

/// The attribute's name in a member's.
fn attribute(member: &str) -> Option<&str> {
    member.strip_prefix('@').filter(|name| xml::is_ncname(name) && *name != "xmlns")
}

/// The text of a scalar; `null` has none.
fn text_of(value: Ref<'_>) -> Cow<'_, str> {
    match value.kind() {
        Kind::String => value.string().unwrap_or_default(),
        Kind::Null => Cow::Borrowed(""),
        Kind::Boolean | Kind::Number | Kind::Array | Kind::Object => Cow::Borrowed(value.raw()),
    }
}
