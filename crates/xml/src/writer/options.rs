//! Options and errors of serialisation.

use super::Encoding;
use crate::chars;

/// How a document is serialised. The default is UTF-8 with a declaration, without indentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterOptions {
    pub encoding: Encoding,
    /// `<?xml version="1.0" encoding="..."?>`. UTF-16 has a byte order mark with or without.
    pub declaration: bool,
    pub standalone: Option<bool>,
    /// Spaces per level; elements that contain text aren't indented.
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

/// Identifiers of the document type declaration; a public one requires a system one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DoctypeIds {
    pub public: Option<String>,
    pub system: String,
}

impl DoctypeIds {
    /// Whether both identifiers are valid (section 2.3, productions 11 to 13).
    pub(super) fn are_valid(&self) -> bool {
        let public = self.public.as_deref().unwrap_or("");
        let is_public = |c: char| c.is_ascii_alphanumeric() || " -'()+,./:=?;!*#@$_%\n".contains(c);
        public.chars().all(is_public)
            && chars::is_text(&self.system)
            && !(self.system.contains('"') && self.system.contains('\''))
    }
}
