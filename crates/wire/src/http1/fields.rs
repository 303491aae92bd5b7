//! Field lines as offsets, and the fields that concern the connection.

use base::limits;

use super::{Known, KnownSet, Rejection, Side, Span, Version, find, known, scan};

/// One field line of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: Span,
    /// The value without surrounding white space; may be empty.
    pub value: Span,
    pub known: Known,
    /// Whether the field is not forwarded: hop-by-hop, by standard or because Connection names it, or a look-alike.
    pub hop: bool,
}

/// The protocol that the peer requests to switch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// None, or not a valid request to switch (HTTP/1.1, and `Connection: upgrade`).
    None,
    WebSocket,
    Other,
}

/// The fields of a head. Reused for the next head, to keep the capacity.
#[derive(Debug)]
pub(super) struct Fields {
    list: Vec<Field>,
    seen: KnownSet,
    repeated: KnownSet,
    /// Index in `list` of the first field of each kind. Outdated for kinds that are not in `seen`.
    first: [u8; KnownSet::CAPACITY],
}

const _: () = assert!(limits::HEADER_FIELDS_MAX <= u8::MAX as usize, "a place fits in a byte");

impl Clone for Fields {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    /// Keeps its memory.
    fn clone_from(&mut self, source: &Self) {
        let Self { list, seen, repeated, first } = source;
        self.list.clone_from(list);
        (self.seen, self.repeated, self.first) = (*seen, *repeated, *first);
    }
}

impl Default for Fields {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            seen: KnownSet::EMPTY,
            repeated: KnownSet::EMPTY,
            first: [0; KnownSet::CAPACITY],
        }
    }
}

/// The options in the Connection fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    close: bool,
    keep_alive: bool,
    pub(super) upgrade: bool,
    /// It names other fields, which may also be trailers.
    pub(super) names_fields: bool,
}

impl Options {
    /// Whether the connection persists. Source: RFC 9112 section 9.3.
    pub(super) fn persists(self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.close,
            Version::Http10 => self.keep_alive && !self.close,
        }
    }
}

impl Fields {
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.seen = KnownSet::EMPTY;
        self.repeated = KnownSet::EMPTY;
    }

    pub(super) fn list(&self) -> &[Field] {
        &self.list
    }

    pub(super) fn has(&self, known: Known) -> bool {
        self.seen.contains(known)
    }

    pub(super) fn has_several(&self, known: Known) -> bool {
        self.repeated.contains(known)
    }

    #[inline]
    pub(super) fn find(&self, known: Known) -> Option<&Field> {
        if !self.has(known) {
            return None;
        }
        self.list.get(usize::from(*self.first.get(known as usize)?))
    }

    pub(super) fn find_name(&self, buf: &[u8], name: &[u8]) -> Option<&Field> {
        self.list.iter().find(|field| field.name.of(buf).eq_ignore_ascii_case(name))
    }

    /// Reads the field lines from `start` to the empty line, and returns the end of the empty line. `None` if they are
    /// incomplete or malformed; `scan` determines which.
    #[inline]
    pub(super) fn read(&mut self, buf: &[u8], start: usize) -> Option<usize> {
        let mut at = start;
        loop {
            if let Some([b'\r', ending]) = buf.get(at..)?.first_chunk() {
                return if *ending == b'\n' { at.checked_add(2) } else { None };
            }
            let place = self.list.len();
            if place == limits::HEADER_FIELDS_MAX {
                return None;
            }
            let (field, next) = field_line(buf, at)?;
            if self.seen.contains(field.known) {
                self.repeated = self.repeated.with(field.known);
            } else {
                self.seen = self.seen.with(field.known);
                *self.first.get_mut(field.known as usize)? = u8::try_from(place).ok()?;
            }
            self.list.push(field);
            at = next;
        }
    }

    /// Reads the Connection fields, and marks those that they name as hop-by-hop.
    ///
    /// # Errors
    /// 400 (502): an element that is not a token, more elements than `CONNECTION_OPTIONS_MAX`, or one
    /// that would remove Host or Content-Length. Source: RFC 9110 section 7.6.1.
    pub(super) fn connection(&mut self, buf: &[u8], side: Side) -> Result<Options, Rejection> {
        let mut options = Options::default();
        let Some(first) = self.find(Known::Connection) else { return Ok(options) };
        if !self.has_several(Known::Connection) {
            // Fast path for nearly every head.
            let value = first.value.of(buf);
            if known::is_same(value, const { known::Key::of(b"keep-alive") }, 10) {
                options.keep_alive = true;
                return Ok(options);
            }
        }
        let mut count = 0;
        for index in 0..self.list.len() {
            let Some(field) = self.list.get(index) else {
                break;
            };
            if field.known != Known::Connection {
                continue;
            }
            for element in field.value.of(buf).split(|&byte| byte == b',') {
                let name = scan::trim(element);
                if name.is_empty() {
                    continue;
                }
                count += 1;
                if count > limits::CONNECTION_OPTIONS_MAX {
                    return Err(side.reject(400, "too many connection options"));
                }
                self.option(buf, name, side, &mut options)?;
            }
        }
        Ok(options)
    }

    fn option(
        &mut self,
        buf: &[u8],
        name: &[u8],
        side: Side,
        options: &mut Options,
    ) -> Result<(), Rejection> {
        if name.eq_ignore_ascii_case(b"close") {
            options.close = true;
        } else if name.eq_ignore_ascii_case(b"keep-alive") {
            options.keep_alive = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") {
            options.upgrade = true;
        } else if !find::is_token(name) {
            return Err(side.reject(400, "connection option is not a token"));
        } else if matches!(Known::of(name), Known::Host | Known::ContentLength) {
            return Err(side.reject(400, "connection option names a field that cannot be removed"));
        } else {
            options.names_fields |= !name.eq_ignore_ascii_case(b"te");
            let named = |field: &&mut Field| field.name.of(buf).eq_ignore_ascii_case(name);
            self.list.iter_mut().filter(named).for_each(|field| field.hop = true);
        }
        Ok(())
    }

    /// The protocol that the Upgrade field requests. Only one protocol, named once, can be `WebSocket`.
    pub(super) fn upgrade(&self, buf: &[u8], named: bool) -> Upgrade {
        match self.find(Known::Upgrade) {
            Some(field) if named => {
                let websocket = field.value.of(buf).eq_ignore_ascii_case(b"websocket")
                    && !self.has_several(Known::Upgrade);
                if websocket { Upgrade::WebSocket } else { Upgrade::Other }
            }
            Some(_) | None => Upgrade::None,
        }
    }
}

/// Reads the field line at `start`. Returns it and the start of the next line.
/// Source: RFC 9112 section 5.
#[inline]
fn field_line(buf: &[u8], start: usize) -> Option<(Field, usize)> {
    let line = buf.get(start..)?;
    let (name, [b':', after_colon @ ..]) = line.split_at_checked(find::name_len(line)?)? else {
        return None;
    };
    let known = Known::of(name);
    if !known.is_spelt_exactly() && !find::is_token(name) {
        return None;
    }
    let value_end = find::value_end(after_colon, 0)?;
    let (value, [b'\r', b'\n', ..]) = after_colon.split_at_checked(value_end)? else {
        return None;
    };
    let without_lead = scan::trim_start(value);
    let lead = value.len() - without_lead.len();
    let value = scan::trim_end(without_lead);
    let colon = start.checked_add(name.len())?;
    let value_start = colon.checked_add(1)?.checked_add(lead)?;
    let next = colon.checked_add(value_end)?.checked_add(b":\r\n".len())?;
    let value = Span::new(value_start, value_start.checked_add(value.len())?)?;
    let name = Span::new(start, colon)?;
    Some((Field { name, value, known, hop: known.is_dropped() }, next))
}
