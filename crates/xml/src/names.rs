//! The names of a document, each stored once: strings are interned as symbols, (namespace, local) pairs as
//! [`NameId`]s, and these with a prefix as qualified names. Comparisons compare numbers.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// A string of the document's table.
pub(crate) type Symbol = u32;

pub(crate) const EMPTY: Symbol = 0;
pub(crate) const XML: Symbol = 1;
pub(crate) const XMLNS: Symbol = 2;
pub(crate) const XML_URI: Symbol = 3;
pub(crate) const XMLNS_URI: Symbol = 4;

/// The namespace of the prefix `xml`.
pub const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";
/// The namespace of namespace declarations.
pub const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// A pair of namespace and local name, numbered within one document: two nodes of one document have
/// the same expanded name when their ids are equal. Nodes without a name have [`NameId::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(u32);

impl NameId {
    /// The id of text, comments and the root, which have no name.
    pub const NONE: Self = Self(0);

    pub(crate) fn numbered(index: usize) -> Self {
        Self(number(index))
    }

    /// The number, from 0 without gaps, so that it can index a table.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A name as written: the pair, and the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QName {
    pub(crate) prefix: Symbol,
    pub(crate) name: NameId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) uri: Symbol,
    pub(crate) local: Symbol,
}

/// A hash table of the indexes of a list. The hash is keyed, so that a document can't be prepared with
/// names that collide. A short list has no table and is searched.
#[derive(Debug, Clone, Default)]
struct Slots {
    table: Vec<u32>,
}

/// A key of the tables.
trait Keyed {
    /// Hashes by multiplication with a secret key; the upper half is folded in.
    fn hash(&self, key: u64) -> u64;
}

#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let bytes = product.to_le_bytes();
    let half = |from: usize| {
        let half = bytes.get(from..).and_then(<[u8]>::first_chunk::<8>);
        half.map_or(0, |half| u64::from_le_bytes(*half))
    };
    half(0) ^ half(8)
}

/// Fewer than 8 bytes as one number: of one length, different bytes make different numbers.
#[inline]
fn short(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            (u64::from(u32::from_le_bytes(*first)) << 32) | u64::from(u32::from_le_bytes(*last))
        }
        _ => bytes.iter().fold(0, |word, &byte| (word << 8) | u64::from(byte)),
    }
}

impl Keyed for str {
    fn hash(&self, key: u64) -> u64 {
        let bytes = self.as_bytes();
        let mut hash = mix(key, self.len() as u64);
        // The last word may overlap the one before it.
        let Some(last) = bytes.last_chunk::<8>() else {
            return mix(hash, short(bytes) ^ key.rotate_left(16));
        };
        for word in bytes.as_chunks::<8>().0 {
            hash = mix(hash, u64::from_le_bytes(*word) ^ key.rotate_left(32));
        }
        mix(hash, u64::from_le_bytes(*last) ^ key.rotate_left(16))
    }
}

impl Keyed for Pair {
    fn hash(&self, key: u64) -> u64 {
        mix(key, (u64::from(self.uri) << 32) | u64::from(self.local))
    }
}

impl Keyed for QName {
    fn hash(&self, key: u64) -> u64 {
        mix(key, (u64::from(self.prefix) << 32) | u64::from(self.name.0))
    }
}

/// A list of at most this many entries is searched rather than hashed.
const FEW: usize = 16;
const TABLE_MIN: usize = 64;
/// A table of at most this many entries is dropped once the document is parsed.
const KEPT_MIN: usize = 64;

impl Slots {
    /// A table that is used from the first entry on.
    fn hashed() -> Self {
        Self { table: vec![u32::MAX; TABLE_MIN] }
    }

    fn find(
        &self,
        hash: impl FnOnce() -> u64,
        len: usize,
        same: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if self.table.is_empty() {
            return (0..number(len)).find(|&id| same(id));
        }
        self.seek(hash(), same).ok()
    }

    /// An entry, or the slot where it would be.
    #[inline]
    fn seek(&self, hash: u64, same: impl Fn(u32) -> bool) -> Result<u32, usize> {
        let mask = self.table.len().wrapping_sub(1);
        let mut at = start(hash) & mask;
        loop {
            match self.table.get(at) {
                Some(&u32::MAX) | None => return Err(at),
                Some(&id) if same(id) => return Ok(id),
                Some(_) => at = at.wrapping_add(1) & mask,
            }
        }
    }

    /// Inserts the last of `len` entries in the slot `at`, which [`Self::seek`] found, unless the table is full.
    #[inline]
    fn insert_at(&mut self, at: usize, len: usize, hash: impl Fn(u32) -> u64) {
        let is_full = len.saturating_mul(3) >= self.table.len().saturating_mul(2);
        match self.table.get_mut(at).filter(|_| !is_full) {
            Some(slot) => *slot = number(len).wrapping_sub(1),
            None => self.insert(len, hash),
        }
    }

    /// Inserts the last of `len` entries.
    fn insert(&mut self, len: usize, hash: impl Fn(u32) -> u64) {
        if self.table.is_empty() && len <= FEW {
            return;
        }
        let mut from = number(len).saturating_sub(1);
        if len.saturating_mul(3) >= self.table.len().saturating_mul(2) {
            self.table.clear();
            let slots = len.saturating_mul(2).next_power_of_two().max(TABLE_MIN);
            self.table.resize(slots, u32::MAX);
            from = 0;
        }
        for id in from..number(len) {
            self.place(id, hash(id));
        }
    }

    fn place(&mut self, id: u32, hash: u64) {
        let mask = self.table.len().wrapping_sub(1);
        let mut at = start(hash) & mask;
        while self.table.get(at).is_some_and(|&slot| slot != u32::MAX) {
            at = at.wrapping_add(1) & mask;
        }
        if let Some(slot) = self.table.get_mut(at) {
            *slot = id;
        }
    }

    fn shrink(&mut self, len: usize) {
        if len <= KEPT_MIN {
            self.table = Vec::new();
        }
    }
}

#[inline]
fn start(hash: u64) -> usize {
    usize::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}

const MANY: u32 = u32::MAX;
const FIXED: [&str; 5] = ["", "xml", "xmlns", XML_NAMESPACE, XMLNS_NAMESPACE];

/// The symbol of a string in [`FIXED`], all of which differ in length.
#[inline]
fn fixed(text: &str) -> Option<Symbol> {
    let symbol = match text.len() {
        0 => EMPTY,
        3 => XML,
        5 => XMLNS,
        29 => XMLNS_URI,
        36 => XML_URI,
        _ => return None,
    };
    (FIXED.get(symbol as usize) == Some(&text)).then_some(symbol)
}

/// The secret hash key of this process. Neither hashes nor their order are visible outside.
static KEY: OnceLock<u64> = OnceLock::new();

/// The tables.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    key: u64,
    text: String,
    ends: Vec<u32>,
    symbol_slots: Slots,
    pairs: Vec<Pair>,
    /// The last symbol that is a local name: later ones are in no pair.
    last_local: Symbol,
    pair_slots: Slots,
    /// The only qualified name of each pair; [`MANY`] if there are several.
    sole_qnames: Vec<u32>,
    qnames: Vec<QName>,
    qname_slots: Slots,
}

impl Names {
    pub(crate) fn new() -> Self {
        let mut pairs = Vec::with_capacity(12);
        pairs.push(Pair { uri: EMPTY, local: EMPTY });
        let mut qnames = Vec::with_capacity(12);
        qnames.push(QName { prefix: EMPTY, name: NameId::NONE });
        Self {
            key: *KEY.get_or_init(|| RandomState::new().hash_one(0u8)),
            text: String::with_capacity(192),
            ends: Vec::with_capacity(24),
            symbol_slots: Slots::hashed(),
            pairs,
            sole_qnames: Vec::with_capacity(12),
            qnames,
            ..Self::none()
        }
    }

    /// A placeholder while the machine holds the tables.
    pub(crate) fn none() -> Self {
        Self {
            key: 0,
            text: String::new(),
            ends: Vec::new(),
            symbol_slots: Slots::default(),
            pairs: Vec::new(),
            last_local: EMPTY,
            pair_slots: Slots::default(),
            sole_qnames: Vec::new(),
            qnames: Vec::new(),
            qname_slots: Slots::default(),
        }
    }

    #[inline]
    pub(crate) fn str(&self, symbol: Symbol) -> &str {
        dynamic(&self.text, &self.ends, symbol)
    }

    pub(crate) fn text_len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn symbols_len(&self) -> usize {
        self.ends.len().saturating_add(FIXED.len())
    }

    pub(crate) fn find_symbol(&self, text: &str) -> Option<Symbol> {
        fixed(text).or_else(|| self.find_own(text, || text.hash(self.key)))
    }

    fn find_own(&self, text: &str, hash: impl FnOnce() -> u64) -> Option<Symbol> {
        let found = if self.symbol_slots.table.is_empty() {
            self.search(text)?
        } else {
            self.symbol_slots.seek(hash(), |index| self.is_own(index, text)).ok()?
        };
        Some(found.saturating_add(number(FIXED.len())))
    }

    #[inline]
    fn is_own(&self, index: u32, text: &str) -> bool {
        let end_of = |index: usize| self.ends.get(index).copied().unwrap_or(0) as usize;
        let start = (index as usize).checked_sub(1).map_or(0, end_of);
        let range = start..end_of(index as usize);
        range.len() == text.len() && self.text.as_bytes().get(range) == Some(text.as_bytes())
    }

    /// Finds a string without a table, by comparing those of the same length.
    fn search(&self, text: &str) -> Option<u32> {
        let len = number(text.len());
        let mut start = 0_u32;
        let found = self.ends.iter().position(|&end| {
            let from = std::mem::replace(&mut start, end);
            end.wrapping_sub(from) == len
                && self.text.get(from as usize..end as usize) == Some(text)
        });
        found.map(number)
    }

    pub(crate) fn symbol(&mut self, text: &str) -> Symbol {
        if let Some(found) = fixed(text) {
            return found;
        }
        let new = text.hash(self.key);
        let free = if self.symbol_slots.table.is_empty() {
            self.search(text).ok_or(usize::MAX)
        } else {
            self.symbol_slots.seek(new, |index| self.is_own(index, text))
        };
        let free = match free {
            Ok(found) => return found.saturating_add(number(FIXED.len())),
            Err(free) => free,
        };
        let id = number(self.symbols_len());
        self.text.push_str(text);
        self.ends.push(number(self.text.len()));
        let (text, ends, key) = (&self.text, &self.ends, self.key);
        let last = number(ends.len().wrapping_sub(1));
        let hash = |index: u32| match index == last {
            true => new,
            false => own(text, ends, index as usize).hash(key),
        };
        self.symbol_slots.insert_at(free, ends.len(), hash);
        id
    }

    pub(crate) fn find_name(&self, uri: Symbol, local: Symbol) -> Option<NameId> {
        if local > self.last_local {
            return None;
        }
        let pair = Pair { uri, local };
        let same = |id: u32| self.pairs.get(id as usize) == Some(&pair);
        self.pair_slots.find(|| pair.hash(self.key), self.pairs.len(), same).map(NameId)
    }

    pub(crate) fn name(&mut self, uri: Symbol, local: Symbol) -> NameId {
        if let Some(found) = self.find_name(uri, local) {
            return found;
        }
        self.last_local = self.last_local.max(local);
        let id = number(self.pairs.len());
        self.pairs.push(Pair { uri, local });
        let pairs = &self.pairs;
        let key = self.key;
        self.pair_slots.insert(pairs.len(), |id| pair(pairs, id).hash(key));
        NameId(id)
    }

    pub(crate) fn qname(&mut self, prefix: Symbol, name: NameId) -> u32 {
        let wanted = QName { prefix, name };
        if let Some(found) = self.find_qname(prefix, name) {
            return found;
        }
        let id = number(self.qnames.len());
        self.note_qname(name, id);
        self.qnames.push(wanted);
        let qnames = &self.qnames;
        let key = self.key;
        self.qname_slots.insert(qnames.len(), |id| qname(qnames, id).hash(key));
        id
    }

    pub(crate) fn find_qname(&self, prefix: Symbol, name: NameId) -> Option<u32> {
        let wanted = QName { prefix, name };
        let qnames = &self.qnames;
        let same = |id: u32| qname(qnames, id) == wanted;
        match self.sole_qnames.get(wanted.name.index()) {
            Some(&MANY) => self.qname_slots.find(|| wanted.hash(self.key), qnames.len(), same),
            sole => sole.copied().filter(|&id| same(id)),
        }
    }

    fn note_qname(&mut self, name: NameId, id: u32) {
        if self.sole_qnames.len() <= name.index() {
            self.sole_qnames.resize(self.pairs.len().max(name.index().saturating_add(1)), 0);
        }
        if let Some(sole) = self.sole_qnames.get_mut(name.index()) {
            *sole = if *sole == 0 { id } else { MANY };
        }
    }

    /// The qualified name of this name, if it is always written with the same prefix.
    pub(crate) fn sole_qname(&self, name: NameId) -> Option<u32> {
        self.sole_qnames.get(name.index()).copied().filter(|id| *id != MANY && *id != 0)
    }

    #[inline]
    pub(crate) fn get_qname(&self, id: u32) -> QName {
        qname(&self.qnames, id)
    }

    #[inline]
    pub(crate) fn get_pair(&self, name: NameId) -> Pair {
        pair(&self.pairs, name.0)
    }

    pub(crate) fn names_len(&self) -> usize {
        self.pairs.len()
    }

    /// Releases the memory that only parsing needs.
    pub(crate) fn shrink(&mut self) {
        self.symbol_slots.shrink(self.ends.len());
        self.pair_slots.shrink(self.pairs.len());
        self.qname_slots.shrink(self.qnames.len());
        shrink_text(&mut self.text);
        shrink(&mut self.ends);
        shrink(&mut self.pairs);
        shrink(&mut self.sole_qnames);
        shrink(&mut self.qnames);
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let slots = [&self.symbol_slots, &self.pair_slots, &self.qname_slots];
        let tables: usize = slots.iter().map(|slots| size_of_val(slots.table.as_slice())).sum();
        self.text.capacity()
            + size_of::<u32>() * self.ends.capacity()
            + size_of::<Pair>() * self.pairs.capacity()
            + size_of::<u32>() * self.sole_qnames.capacity()
            + size_of::<QName>() * self.qnames.capacity()
            + tables
    }
}

/// Fewer unused bytes are not worth a reallocation.
const SPARE_BYTES: usize = 64;
/// With this many bytes in use, unused bytes are released only if they are more than an eighth, since the others have
/// to be copied.
const COPIED_BYTES: usize = 4096;

/// Releases the unused capacity of a text, if it is worth it.
pub(crate) fn shrink_text(text: &mut String) {
    if is_much(text.capacity(), text.len()) {
        text.shrink_to_fit();
    }
}

/// Releases the unused capacity of a list, if it is worth it.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    let bytes = |items: usize| items.saturating_mul(size_of::<T>());
    if is_much(bytes(list.capacity()), bytes(list.len())) {
        list.shrink_to_fit();
    }
}

/// Whether the unused capacity is worth a reallocation.
fn is_much(capacity: usize, used: usize) -> bool {
    let kept = if used < COPIED_BYTES { SPARE_BYTES } else { used / 8 };
    capacity.wrapping_sub(used) > kept
}

#[inline]
fn dynamic<'t>(text: &'t str, ends: &[u32], symbol: Symbol) -> &'t str {
    match (symbol as usize).checked_sub(FIXED.len()) {
        Some(index) => own(text, ends, index),
        None => FIXED.get(symbol as usize).copied().unwrap_or(""),
    }
}

/// The string with this index among those that aren't fixed.
#[inline]
fn own<'t>(text: &'t str, ends: &[u32], index: usize) -> &'t str {
    let end = ends.get(index).copied().unwrap_or(0) as usize;
    let start = match index.checked_sub(1) {
        Some(before) => ends.get(before).copied().unwrap_or(0) as usize,
        None => 0,
    };
    text.get(start..end).unwrap_or("")
}

#[inline]
fn pair(pairs: &[Pair], id: u32) -> Pair {
    pairs.get(id as usize).copied().unwrap_or(Pair { uri: EMPTY, local: EMPTY })
}

#[inline]
fn qname(qnames: &[QName], id: u32) -> QName {
    qnames.get(id as usize).copied().unwrap_or(QName { prefix: EMPTY, name: NameId::NONE })
}

/// Sizes are below 2^32 by the limits on documents.
#[inline]
pub(crate) fn number(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
