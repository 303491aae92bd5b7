//! The prefixes in scope while writing, and the choice of one for a name.

use std::collections::HashMap;

/// Up to this many bindings are searched rather than indexed.
const FEW: usize = 12;

#[derive(Debug, Clone)]
struct Binding {
    prefix: String,
    uri: String,
    /// The last tag that has a name with the prefix: it can't redeclare it.
    tag: u64,
}

/// A stack of declarations; elements store its height.
#[derive(Debug, Default)]
pub(super) struct NamespaceStack {
    bindings: Vec<Binding>,
    /// Popped bindings, whose strings are reused.
    spare: Vec<Binding>,
    /// Once there are many: their places in the stack by prefix and by URI, ascending.
    prefixes: HashMap<String, Vec<usize>>,
    uris: HashMap<String, Vec<usize>>,
    indexed: bool,
    tag: u64,
    invented: u32,
}

impl NamespaceStack {
    /// Resets an empty stack, keeping its buffers.
    pub(super) fn restart(&mut self) {
        if std::mem::take(&mut self.indexed) {
            (self.prefixes, self.uris) = Default::default();
        }
        self.invented = 0;
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let bindings = self.bindings.iter().chain(&self.spare);
        let texts: usize = bindings.map(|of| of.prefix.capacity() + of.uri.capacity()).sum();
        let slots = self.bindings.capacity() + self.spare.capacity();
        let indexes = [&self.prefixes, &self.uris].map(|index| {
            let keys = index
                .iter()
                .map(|(key, places)| key.capacity() + places.capacity() * size_of::<usize>());
            index.capacity() * size_of::<(String, Vec<usize>)>() + keys.sum::<usize>()
        });
        slots * size_of::<Binding>() + texts + indexes.iter().sum::<usize>()
    }

    pub(super) fn mark(&self) -> usize {
        self.bindings.len()
    }

    pub(super) fn since(&self, mark: usize) -> impl Iterator<Item = (&str, &str)> {
        let fresh = self.bindings.get(mark..).unwrap_or(&[]);
        fresh.iter().map(|binding| (binding.prefix.as_str(), binding.uri.as_str()))
    }

    pub(super) fn leave(&mut self, mark: usize) {
        while self.bindings.len() > mark {
            let Some(binding) = self.bindings.pop() else { break };
            if self.indexed {
                forget(&mut self.prefixes, &binding.prefix);
                forget(&mut self.uris, &binding.uri);
            }
            self.spare.push(binding);
        }
    }

    /// Returns false if the prefix was declared with another URI since `mark`. A binding in scope isn't repeated.
    pub(super) fn declare(&mut self, prefix: &str, uri: &str, mark: usize) -> bool {
        match self.find(prefix) {
            Some((_, bound)) if bound == uri => true,
            Some((at, _)) if at >= mark => false,
            None if prefix.is_empty() && uri.is_empty() => true,
            Some(_) | None => {
                self.push(prefix, uri);
                true
            }
        }
    }

    /// Whether `prefix` is bound to `uri`; an empty URI stands for unbound.
    pub(super) fn binds(&self, prefix: &str, uri: &str) -> bool {
        self.find(prefix).map_or("", |(_, bound)| bound) == uri
    }

    pub(super) fn begin_tag(&mut self) {
        self.tag = self.tag.wrapping_add(1);
    }

    /// Replaces `prefix` unless an element in `uri` can have it; declares it if necessary.
    pub(super) fn element_prefix(&mut self, prefix: &mut String, uri: &str, mark: usize) {
        if uri == crate::XML_NAMESPACE {
            super::assign(prefix, "xml");
        } else if !self.declare(prefix, uri, mark) {
            *prefix = self.usable(uri, true).unwrap_or_else(|| self.invent(uri));
        }
    }

    /// As [`Self::element_prefix`] for an attribute in a namespace, which requires a prefix.
    pub(super) fn attribute_prefix(&mut self, prefix: &mut String, uri: &str, mark: usize) {
        if uri == crate::XML_NAMESPACE {
            super::assign(prefix, "xml");
            return;
        }
        let bound = self.find(prefix).is_some_and(|(_, bound)| bound == uri);
        if prefix.is_empty() || !bound {
            let free = !prefix.is_empty() && !self.is_locked(prefix);
            if let Some(found) = self.usable(uri, false) {
                *prefix = found;
            } else if !(free && self.declare(prefix, uri, mark)) {
                *prefix = self.invent(uri);
            }
        }
        self.lock(prefix);
    }

    /// A name of the current tag uses `prefix`.
    pub(super) fn lock(&mut self, prefix: &str) {
        let tag = self.tag;
        let found = self.find(prefix).map(|(at, _)| at);
        if let Some(binding) = found.and_then(|at| self.bindings.get_mut(at)) {
            binding.tag = tag;
        }
    }

    fn is_locked(&self, prefix: &str) -> bool {
        let binding = self.find(prefix).and_then(|(at, _)| self.bindings.get(at));
        binding.is_some_and(|binding| binding.tag == self.tag)
    }

    /// A prefix in scope that is bound to `uri`.
    fn usable(&self, uri: &str, allow_default: bool) -> Option<String> {
        let fits = |at: usize| {
            let binding = self.bindings.get(at)?;
            let seen = self.find(&binding.prefix).is_some_and(|(visible, _)| visible == at);
            let good = binding.uri == uri && seen && (allow_default || !binding.prefix.is_empty());
            good.then(|| binding.prefix.clone())
        };
        if self.indexed {
            self.uris.get(uri)?.iter().rev().take(FEW).find_map(|&at| fits(at))
        } else {
            (0..self.bindings.len()).rev().find_map(fits)
        }
    }

    fn invent(&mut self, uri: &str) -> String {
        loop {
            let prefix = format!("ns{}", self.invented);
            self.invented = self.invented.wrapping_add(1);
            if self.find(&prefix).is_none() {
                self.push(&prefix, uri);
                return prefix;
            }
        }
    }

    #[inline]
    fn find(&self, prefix: &str) -> Option<(usize, &str)> {
        let at = if self.indexed {
            *self.prefixes.get(prefix)?.last()?
        } else {
            self.bindings.iter().rposition(|binding| binding.prefix == prefix)?
        };
        self.bindings.get(at).map(|binding| (at, binding.uri.as_str()))
    }

    fn push(&mut self, prefix: &str, uri: &str) {
        let mut binding = self.spare.pop().unwrap_or_else(|| Binding {
            prefix: String::new(),
            uri: String::new(),
            tag: 0,
        });
        binding.tag = 0;
        super::assign(&mut binding.prefix, prefix);
        super::assign(&mut binding.uri, uri);
        self.bindings.push(binding);
        let from = if self.indexed { self.bindings.len().saturating_sub(1) } else { 0 };
        self.indexed |= self.bindings.len() > FEW;
        if !self.indexed {
            return;
        }
        for (at, binding) in self.bindings.iter().enumerate().skip(from) {
            self.prefixes.entry(binding.prefix.clone()).or_default().push(at);
            self.uris.entry(binding.uri.clone()).or_default().push(at);
        }
    }
}

fn forget(index: &mut HashMap<String, Vec<usize>>, key: &str) {
    if let Some(places) = index.get_mut(key) {
        places.pop();
        if places.is_empty() {
            index.remove(key);
        }
    }
}
