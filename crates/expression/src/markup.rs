//! Writes XML within a budget.

use xpath::Budget;

use crate::error::Error;

/// `node` and everything below it as markup, with the namespaces in its scope and without a declaration; of the root,
/// its children.
///
/// # Errors
/// [`Error::Budget`] if the text does not fit the rest of `budget`.
pub fn write(node: xml::Node<'_>, budget: &Budget) -> Result<Vec<u8>, Error> {
    let charged = charge_copy(node, budget)?;
    let options = xml::WriterOptions { declaration: false, ..xml::WriterOptions::default() };
    let written = xml::Writer::new(options).and_then(|mut writer| {
        writer.tree(node)?;
        Ok(writer.take())
    });
    let written = written.map_err(|error| Error::Body(error.to_string()))?;
    budget.charge_memory(written.len().saturating_sub(charged))?;
    Ok(written)
}

/// Charges a copy of a tree and returns its bytes, without those that escaping adds.
///
/// # Errors
/// [`Error::Budget`].
pub fn charge_copy(node: xml::Node<'_>, budget: &Budget) -> Result<usize, Error> {
    let mut all = 0_usize;
    let declaration = |(prefix, uri): (&str, &str)| prefix.len() + uri.len() + " xmlns:=\"\"".len();
    let name = |node: xml::Node<'_>| node.prefix().len() + node.local_name().len() + 1;
    for part in std::iter::once(node).chain(node.descendants()) {
        budget.charge_steps(1)?;
        let mut bytes = part.text().len();
        if part.is_element() {
            // A start tag and an end tag, or one that is empty.
            bytes += 2 * name(part) + "<></>".len();
            for attribute in part.attributes() {
                budget.charge_steps(1)?;
                bytes += name(attribute) + attribute.text().len() + " =\"\"".len();
            }
            bytes += if part == node {
                part.namespaces_in_scope().map(declaration).sum::<usize>()
            } else {
                part.declarations().map(declaration).sum()
            };
        }
        budget.charge_reading(bytes)?;
        budget.charge_memory(bytes)?;
        all += bytes;
    }
    Ok(all)
}

/// A copy of `node` as a document of its own, charged.
///
/// # Errors
/// [`Error::Budget`].
pub fn copy(node: xml::Node<'_>, budget: &Budget) -> Result<xml::Document, Error> {
    if node.is_most_of_document() {
        let bytes = node.document().heap_bytes();
        budget.charge_reading(bytes)?;
        budget.charge_memory(bytes)?;
        return Ok(node.to_document());
    }
    charge_copy(node, budget)?;
    let mut builder = xml::Builder::new();
    xml::copy_subtree(node, &mut builder).map_err(|error| Error::Body(error.to_string()))?;
    let copy = builder.finish();
    budget.charge_memory(copy.heap_bytes())?;
    Ok(copy)
}
