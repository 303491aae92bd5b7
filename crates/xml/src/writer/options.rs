//! How a document is written, and why it can't be.

use super::Encoding;
use crate::chars;

/// How a document is written. The default is UTF-8 with a declaration, without indentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    pub encoding: Encoding,
    /// `<?xml version="1.0" encoding="..."?>`. UTF-16 has a byte order mark with or without.
    pub declaration: bool,
    pub standalone: Option<bool>,
    /// Spaces for each level; elements that hold text are left as they are.
    pub indent: Option<u8>,
    pub doctype: Option<DoctypeIds>,
    /// Elements, as (namespace, local name), whose text is written as CDATA sections.
    pub cdata_elements: Vec<(String, String)>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            encoding: Encoding::Utf8,
            declaration: true,
            standalone: None,
            indent: None,
            doctype: None,
            cdata_elements: Vec::new(),
        }
    }
}

/// Identifiers of the document type declaration; a public one needs a system one beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DoctypeIds {
    pub public: Option<String>,
    pub system: String,
}

impl DoctypeIds {
    /// Section 2.3, productions 11 to 13.
    pub(super) fn are_good(&self) -> bool {
        let public = self.public.as_deref().unwrap_or("");
        let is_public = |c: char| c.is_ascii_alphanumeric() || " -'()+,./:=?;!*#@$_%\n".contains(c);
        public.chars().all(is_public)
            && chars::is_text(&self.system)
            && !(self.system.contains('"') && self.system.contains('\''))
    }
}

/// Why a piece can't be written. Nothing of it was, but the start tag before it may be complete now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("`{0}` isn't a name that XML with namespaces allows")]
    BadName(String),
    #[error("XML 1.0 can't carry these characters, or not in this kind of node")]
    BadText,
    #[error("attributes and namespaces come right after the start of their element")]
    NotInStartTag,
    #[error("no element is open")]
    NothingOpen,
    #[error("`{0}` can't be written in {1}, which has no character references here")]
    NotInEncoding(char, &'static str),
    #[error("these identifiers can't stand in a document type declaration")]
    BadDoctype,
    #[error("the prefix `{0}` is declared twice on one element, or is reserved")]
    BadDeclaration(String),
}
