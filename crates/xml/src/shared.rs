//! Name tables that documents share, and tables that a thread keeps from one parse for the next, since the messages of
//! a service have the same names.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Weak};

use crate::limits::{XML_KEPT_NAME_BYTES_MAX, XML_KEPT_NAMES_MAX};
use crate::machine::Scratch;
use crate::names::{NameId, Names, Symbol};

/// A table of names. Adding a name to a shared table copies it first.
#[derive(Debug, Clone)]
pub(crate) struct SharedNames(Arc<Names>);

/// Identifies the name table of a document, so that a [`NameId`](crate::NameId) can be kept for other documents with
/// the same table.
#[derive(Debug, Clone, Default)]
pub struct NamesKey(Weak<Names>);

impl crate::Document {
    /// The key of the document's name table.
    #[must_use]
    pub fn names_key(&self) -> NamesKey {
        NamesKey(Arc::downgrade(&self.names.0))
    }

    /// Whether the document has the name table with that key: then it has the same names with the same ids.
    #[must_use]
    pub fn has_names(&self, key: &NamesKey) -> bool {
        // A table with a key does not change: adding a name creates another table.
        std::ptr::eq(Arc::as_ptr(&self.names.0), key.0.as_ptr())
    }
}

impl Deref for SharedNames {
    type Target = Names;

    #[inline]
    fn deref(&self) -> &Names {
        &self.0
    }
}

impl SharedNames {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Names::new()))
    }

    /// A placeholder.
    pub(crate) fn none() -> Self {
        static NONE: LazyLock<Arc<Names>> = LazyLock::new(|| Arc::new(Names::none()));
        Self(Arc::clone(&NONE))
    }

    pub(crate) fn symbol(&mut self, text: &str) -> Symbol {
        match self.0.find_symbol(text) {
            Some(found) => found,
            None => Arc::make_mut(&mut self.0).symbol(text),
        }
    }

    pub(crate) fn name(&mut self, uri: Symbol, local: Symbol) -> NameId {
        match self.0.find_name(uri, local) {
            Some(found) => found,
            None => Arc::make_mut(&mut self.0).name(uri, local),
        }
    }

    pub(crate) fn qname(&mut self, prefix: Symbol, name: NameId) -> u32 {
        match self.0.find_qname(prefix, name) {
            Some(found) => found,
            None => Arc::make_mut(&mut self.0).qname(prefix, name),
        }
    }

    /// Whether the table is small enough for the next document to share it.
    pub(crate) fn are_few(&self) -> bool {
        self.symbols_len() <= XML_KEPT_NAMES_MAX as usize
            && self.text_len() <= XML_KEPT_NAME_BYTES_MAX as usize
    }

    /// Shares the table with the thread's next parse, without the parts that only a large table needs.
    pub(crate) fn share(&mut self) -> Self {
        self.shrink();
        self.clone()
    }

    /// Releases the memory that only parsing needs, unless they are shared.
    pub(crate) fn shrink(&mut self) {
        if let Some(own) = Arc::get_mut(&mut self.0) {
            own.shrink();
        }
    }
}

thread_local! {
    static KEPT: Cell<Option<Scratch>> = const { Cell::new(None) };
}

/// The tables kept from this thread's last parse, or new ones.
pub(crate) fn scratch() -> Scratch {
    let kept = KEPT.try_with(Cell::take).ok().flatten();
    kept.unwrap_or_else(Scratch::new)
}

pub(crate) fn keep(scratch: Scratch) {
    // A thread that is ending can't keep anything.
    let _ = KEPT.try_with(|kept| kept.set(Some(scratch)));
}

#[cfg(test)]
mod tests {
    use super::KEPT;
    use crate::{Doctype, Document, Error, ErrorKind, Limits, Node, Options};

    /// Names as written and as resolved, or the error.
    fn described(text: &str) -> Result<Vec<String>, Error> {
        let options = Options { doctype: Doctype::Read, ..Options::default() };
        let document = Document::parse_with(text.as_bytes(), &options)?;
        let line = |node: Node<'_>| {
            let declarations: Vec<_> = node.declarations().collect();
            let name = (node.prefix(), node.namespace(), node.local_name());
            format!("{name:?} {declarations:?} {:?}", node.text())
        };
        let nodes = document.root().descendants();
        Ok(nodes.flat_map(|node| node.attributes().chain([node])).map(line).collect())
    }

    /// Two elements whose names, and that of an attribute, have `len` bytes.
    fn of_len(len: usize) -> String {
        let name = "n".repeat(len);
        format!("<{name}>1</{name}><{name} {name}='3'>2</{name}>")
    }

    #[test]
    fn a_document_after_others_is_as_it_is_alone() {
        let many: String = (0..300).map(|number| format!("<n{number}/>")).collect();
        let tags: String = (0..40).map(|n| format!("<c xmlns='u{n}'>{n}</c>")).collect();
        let texts = [
            "<a:b xmlns:a='u'><a:b>1</a:b><c>2</c></a:b>",
            "<a:b xmlns:a='v'><a:b>1</a:b><c>2</c></a:b>",
            "<a:b><c/></a:b>",
            "<b xmlns='u' x='1'><c>2</c></b>",
            "<b x='1' x='2'><c/></b>",
            "<b xmlns='u'><c xmlns=''>2</c><c>3</c>",
            "<b><c>2</c><c>3</c></b>",
            "<b xmlns='u'><c xmlns=''>2</c><c>3</c></b>",
            "<b xmlns:p='u' xmlns:q='u' p:x='1' q:x='2'/>",
            "<b xmlns:p='u' xmlns:q='v' p:x='1' q:x='2'/>",
            &format!("<b xmlns='u'>{many}</b>"),
            "<b xmlns:p='v' p:x='1'><c>2</c></b>",
            &format!("<b>{tags}</b>"),
            "<b xmlns:p='v w'/>",
            "<!DOCTYPE b [<!ENTITY e ''>]><b xmlns='&e;'><c/></b>",
            "<b xmlns='&e;'><c/></b>",
            "<!DOCTYPE b [<!ENTITY e 'u'>]><b xmlns='&e;'><c/></b>",
            "<b xmlns:p='v&amp;w'><p:c/></b>",
            "<b xmlns:p='v&w'><p:c/></b>",
            "<b xmlns:p='v\"w'/>",
            "<b xmlns:p=\"v\"w\"/>",
            "<b xmlns:p='v'w'/>",
            "<b xmlns:p='v",
            "<b xmlns:p=\"v\"><p:c/></b>",
            "<b xmlns:p='v/w'><p:c/></b>",
            "<b xmlns:p='v/w'/>",
            "<b xmlns:p='v/w' ><p:c/></b>",
            "<b xmlns:p='v/w' x=''><p:c/></b>",
            "<p:b xmlns:p='v/w'><q:c/></p:b>",
            "<p:b xmlns:p='v/w'><q:c xmlns:q='w'><p:d/></q:c><q:c xmlns:q='w'><q:d/></q:c></p:b>",
            "<p:b xmlns:p='v'><q:c xmlns:q='w'><p:d/></q:c><q:c xmlns:q='w'/><q:d/></p:b>",
            "<q:c xmlns:q='w'><p:d/></q:c>",
            "<b><p:c xmlns:p='v/w'/><p:c xmlns:p='v/w'><p:c xmlns:p='v/w'>1</p:c></p:c><p:c/></b>",
            "<b><i x='1' y=\"2\">t</i><i x='' y=\"2\"/><i x='1' y=\"2\"><i x='3'/></i><i/><i>3</i></b>   ",
            "<b><i x=\"it's\" y='\"'/><i x='1'y='2'/></b>                ",
            "<b><i x='1' y='2'/><i x='1' x='2'/></b>                 ",
            "<b><i x='1' y='2' x='3'/></b>                  ",
            "<b xmlns:p='u' xmlns:q='v'><i p:x='1' q:x='2'/><i p:x='1' q:x='2'/></b>                   ",
            "<b xmlns:p='u' xmlns:q='u'><i p:x='1' q:x='2'/></b>                   ",
            "<b><i p:x='1'/></b>                   ",
            "<b><i x='1' xmlns='u'><i x='1'/></i><i x='1' xmlns='v'/><i x='1'/></b>                 ",
            "<b><i x='<'/></b>                  ",
            "<b><i x='1'><i x='&lt;' y='&#9;&#10;'/></i></b>                  ",
            "<b><i x='1\t2\n3\r\n4'/><i x='1' /><i x='1' >2</i></b>                 ",
            "<b><i x ='1'/><i x= '1'/><i x=1/></b>                 ",
            "<b><i x='1'/ ></b>                 ",
            "<b><i x='1",
            "<b><i x='1' ",
            "<b><i x='1'>2</i x='1'></b>                 ",
            "<b><i a='1' b='2' c='3' d='4' e='5' f='6' g='7' h='8'/><i/></b>                ",
            "<b><i a='1' b='2' c='3' d='4' e='5' f='6' g='7' h='8' i='9'/><i/></b>               ",
            &format!("<b>{}</b>", [14, 15, 16, 17, 30, 31, 32, 33].map(of_len).concat().repeat(2)),
            &format!("<b>{}</b>                             ", of_len(31).replacen("n>", "m>", 1)),
            &format!("<b>{}</b>                             ", of_len(31).replace("</n", "</m")),
            &format!("<b>{}</b>                             ", of_len(31).replace("n>2", "m>2")),
            &format!("<b>{}</b>                             ", of_len(16).replace("n>2", "nn>2")),
            &format!("<b>{}</b>                             ", of_len(16).replace("n=", "m=")),
        ];
        let alone = texts.map(|text| {
            KEPT.take();
            described(text)
        });
        for _ in 0..2 {
            for (text, alone) in texts.iter().zip(&alone) {
                for _ in 0..2 {
                    assert_eq!(&described(text), alone, "{text}");
                }
            }
        }
    }

    #[test]
    fn a_key_is_that_of_documents_with_the_same_names() {
        KEPT.take();
        let read = |text: &str| Document::parse(text.as_bytes()).unwrap();
        let one = read("<b xmlns:p='u'><p:c/></b>");
        let key = one.names_key();
        assert!(one.has_names(&key) && one.clone().has_names(&key));
        assert!(read("<p:c xmlns:p='u'/>").has_names(&key));
        assert!(!one.has_names(&super::NamesKey::default()));
        let id = one.name_id("u", "c").unwrap();
        drop(one);
        // The key's table stays unchanged even if no other document shares it.
        let mut more = read("<b><d/></b>");
        assert!(!more.has_names(&key));
        let (key, element) = (more.names_key(), more.element().unwrap().id());
        assert_eq!(more.name_id("u", "c"), Some(id));
        more.set_attribute(element, crate::QNameRef::local("e"), "").unwrap();
        assert!(!more.has_names(&key));
        assert!(read("<d/>").has_names(&key));
    }

    #[test]
    fn limits_hold_for_names_and_tags_that_were_read_before() {
        let declared = "<b xmlns:p='u' xmlns:q='v'><c>1</c></b>";
        let all = Limits { attributes: 2, depth: 2, name_bytes: 7, nodes: 3, ..Limits::default() };
        let name = "n".repeat(31);
        let attributes =
            &format!("<b><{name} {name}='1' y='2'/><c x='1' y='2'>1</c></b>                ");
        let more = Limits { name_bytes: 31, nodes: 8, ..all };
        let tried = [
            (declared, all, None),
            (declared, Limits { attributes: 1, ..all }, Some("attributes per element")),
            (declared, Limits { depth: 1, ..all }, Some("nested elements")),
            (declared, Limits { name_bytes: 6, ..all }, Some("bytes per name")),
            (declared, Limits { name_bytes: 0, ..all }, Some("bytes per name")),
            (declared, Limits { nodes: 2, ..all }, Some("nodes")),
            (declared, Limits { nodes: 0, ..all }, Some("nodes")),
            (attributes, more, None),
            (attributes, Limits { attributes: 1, ..more }, Some("attributes per element")),
            (attributes, Limits { depth: 1, ..more }, Some("nested elements")),
            (attributes, Limits { name_bytes: 30, ..more }, Some("bytes per name")),
            (attributes, Limits { nodes: 7, ..more }, Some("nodes")),
            (attributes, Limits { nodes: 5, ..more }, Some("nodes")),
            (attributes, Limits { nodes: 3, ..more }, Some("nodes")),
            (attributes, Limits { nodes: 1, ..more }, Some("nodes")),
        ];
        for (text, limits, exceeded) in tried {
            let text = text.as_bytes();
            for _ in 0..2 {
                assert!(Document::parse(text).is_ok());
            }
            let options = Options { limits, ..Options::default() };
            let error = Document::parse_with(text, &options).err();
            let limit = error.map(|error| {
                let ErrorKind::Limit { what, .. } = error.kind() else { panic!("{error:?}") };
                *what
            });
            assert_eq!(limit, exceeded, "{limits:?}");
        }
    }

    #[test]
    fn a_document_with_many_names_leaves_none() {
        let many: String = (0..300).map(|number| format!("<n{number}/>")).collect();
        let document = Document::parse(format!("<b>{many}</b>").as_bytes()).unwrap();
        assert_eq!(document.names_len(), 302);
        assert!(KEPT.take().is_none());
        assert_eq!(Document::parse(b"<b/>").unwrap().names_len(), 2);
        assert!(KEPT.take().is_some());
    }
}
