//! Local entries, resources of the registry, and documents that artefacts name.

use std::sync::Arc;

use super::{Compiler, Element};
use crate::program::Entry;

impl Compiler {
    /// The local entry or the registry resource of this key, if there is one; else an error.
    pub(crate) fn entry(&mut self, element: &Element<'_>, key: &str) -> Option<Entry> {
        let found = self.entry_or_none(key);
        if found.is_none() {
            let help = self.nearest(key, self.entries.keys().chain(self.resources.keys()));
            let message = format!("there is no local entry or registry resource `{key}`");
            self.error(element, message, help.as_deref());
        }
        found
    }

    pub(crate) fn entry_or_none(&mut self, key: &str) -> Option<Entry> {
        self.artefacts.uses("localEntry", key);
        self.entries.get(key).cloned().or_else(|| self.registry_entry(key))
    }

    /// Keeps all entries for the messages, since any of them may be named there.
    pub(crate) fn keep_entries(&mut self) {
        self.keeps_entries = true;
    }

    /// A document that the artefact names by URL or file, if it was read; else an error.
    pub(crate) fn document(&mut self, element: &Element<'_>, name: &str) -> Option<Arc<[u8]>> {
        let key = (self.file.to_string(), name.trim().to_owned());
        let found = self.documents.get(&key).cloned();
        // Otherwise its reader has reported the reason.
        if found.is_none() && !self.artefacts.is_broken() {
            let help = "write the document into the artefact";
            self.error(element, format!("`{name}` was not read"), Some(help));
        }
        found
    }

    /// A resource; its XML is parsed once.
    fn registry_entry(&mut self, key: &str) -> Option<Entry> {
        let path = model::resource_path(key)?;
        if let Some(known) = self.resource_entries.get(&path) {
            return Some(known.clone());
        }
        let entry = Entry::of(&self.resources.get(&path)?.bytes);
        self.resource_entries.insert(path, entry.clone());
        Some(entry)
    }
}
