//! Changes to a head, made between its arrival and its forwarding.

use wire::http1::{Field, Known, KnownSet, write};

/// Changes to a head. Empty in the ordinary case, when the fields are copied as they came. Method and path are not
/// here, but in [`Outgoing`](super::Outgoing): one message may go to several targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadEdits {
    /// The new status of a response.
    status: Option<u16>,
    /// The reason phrase of the status line.
    reason: Option<Box<[u8]>>,
    /// Whether a request's query is replaced by `query`.
    has_query: bool,
    query: Vec<u8>,
    removed: KnownSet,
    /// Removed names without a [`Known`] of their own, each followed by `:`, which no name contains.
    removed_names: Vec<u8>,
    /// Added field lines, each with its CRLF.
    lines: Vec<u8>,
}

impl HeadEdits {
    pub(crate) fn clear(&mut self) {
        self.status = None;
        self.reason = None;
        self.has_query = false;
        self.query.clear();
        self.removed = KnownSet::EMPTY;
        self.removed_names.clear();
        self.lines.clear();
    }

    /// Allocated bytes.
    pub(crate) fn capacity(&self) -> usize {
        let bytes = self.removed_names.capacity().saturating_add(self.lines.capacity());
        bytes.saturating_add(self.query.capacity())
    }

    /// The new status. The reason phrase is the standard one, unless [`Self::reason`] is set.
    pub(crate) fn status(&self) -> Option<u16> {
        self.status
    }

    pub(crate) fn reason(&self) -> Option<&[u8]> {
        self.reason.as_deref()
    }

    pub(crate) fn set_reason(&mut self, reason: &str) {
        self.reason = Some(reason.as_bytes().into());
    }

    pub(crate) fn set_status(&mut self, status: u16) {
        self.status = Some(status);
    }

    /// Replaces a request's query by the text written to the result; removes it if that stays empty.
    pub(crate) fn new_query(&mut self) -> &mut Vec<u8> {
        self.has_query = true;
        self.query.clear();
        &mut self.query
    }

    /// The new query, which is then no longer one of the changes.
    pub(crate) fn take_query(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.has_query).then(|| std::mem::take(&mut self.query))
    }

    /// The query of a request that came with `query`.
    pub(crate) fn query<'a>(&'a self, query: Option<&'a [u8]>) -> Option<&'a [u8]> {
        let new = self.query.as_slice();
        if self.has_query { Some(new).filter(|new| !new.is_empty()) } else { query }
    }

    /// Removes all fields of these kinds that the peer sent.
    pub(crate) fn remove_known(&mut self, names: KnownSet) {
        self.removed = self.removed.union(names);
    }

    /// Removes all fields of this name, also those added before.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        let known = Known::of(name);
        if stands_for_many(known) {
            if !self.has_removed_name(name) {
                self.removed_names.extend_from_slice(name);
                self.removed_names.push(b':');
            }
        } else {
            self.removed = self.removed.with(known);
        }
        let mut at = 0;
        while let Some(line) = line_at(&self.lines, at) {
            if value_of(line, name).is_some() {
                self.lines.drain(at..at + line.len());
            } else {
                at += line.len();
            }
        }
    }

    /// Adds a field. `name` must be a token.
    pub(crate) fn append(&mut self, name: &[u8], value: &[u8]) {
        write::field(&mut self.lines, name, value);
    }

    /// The added field lines, to append complete lines.
    pub(crate) fn lines_mut(&mut self) -> &mut Vec<u8> {
        &mut self.lines
    }

    /// Appends the fields that are left, without hop-by-hop fields and those in `drop`, then the added ones.
    pub(crate) fn write_fields(
        &self,
        out: &mut Vec<u8>,
        bytes: &[u8],
        fields: &[Field],
        drop: KnownSet,
    ) {
        self.write_fields_except(out, bytes, fields, drop, &[]);
    }

    /// The same; fields whose names are `listed` are left although they are in `drop`.
    pub(crate) fn write_fields_except(
        &self,
        out: &mut Vec<u8>,
        bytes: &[u8],
        fields: &[Field],
        drop: KnownSet,
        listed: &[String],
    ) {
        let drop = drop.union(self.removed);
        if self.removed_names.is_empty() && listed.is_empty() {
            write::fields(out, bytes, fields, drop);
        } else {
            let is_listed = |field: &Field| {
                let name = field.name.of(bytes);
                listed.iter().any(|listed| name.eq_ignore_ascii_case(listed.as_bytes()))
            };
            write::fields_where(out, bytes, fields, |field| {
                let drop = if is_listed(field) { self.removed } else { drop };
                self.keeps(bytes, field, drop)
            });
        }
        out.extend_from_slice(&self.lines);
    }

    /// The same, one by one.
    pub(crate) fn fields<'a>(
        &'a self,
        bytes: &'a [u8],
        fields: &'a [Field],
        drop: KnownSet,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let drop = drop.union(self.removed);
        let kept = fields.iter().filter(move |field| self.keeps(bytes, field, drop));
        let added = self.added().map(|line| {
            let name = line.get(..memchr::memchr(b':', line).unwrap_or_default());
            let name = name.unwrap_or_default();
            (name, value_of(line, name).unwrap_or_default())
        });
        kept.map(move |field| (field.name.of(bytes), field.value.of(bytes))).chain(added)
    }

    /// The value of the first field of this name that is left.
    pub(crate) fn find<'a>(
        &'a self,
        bytes: &'a [u8],
        fields: &'a [Field],
        name: &[u8],
    ) -> Option<&'a [u8]> {
        let kind = Known::of(name);
        let is_it = |field: &&Field| {
            field.known == kind
                && (!stands_for_many(kind) || field.name.of(bytes).eq_ignore_ascii_case(name))
                && self.keeps(bytes, field, self.removed)
        };
        if let Some(field) = fields.iter().find(is_it) {
            return Some(field.value.of(bytes));
        }
        self.added().find_map(|line| value_of(line, name))
    }

    /// The added field lines.
    fn added(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let line = line_at(&self.lines, at)?;
            at += line.len();
            Some(line)
        })
    }

    fn keeps(&self, bytes: &[u8], field: &Field, drop: KnownSet) -> bool {
        let is_removed =
            || stands_for_many(field.known) && self.has_removed_name(field.name.of(bytes));
        !field.hop && !drop.contains(field.known) && !is_removed()
    }

    fn has_removed_name(&self, name: &[u8]) -> bool {
        let mut names = self.removed_names.split(|byte| *byte == b':');
        !self.removed_names.is_empty() && names.any(|removed| removed.eq_ignore_ascii_case(name))
    }
}

/// Whether fields with several names are of this kind.
fn stands_for_many(kind: Known) -> bool {
    matches!(
        kind,
        Known::Other
            | Known::Conditional
            | Known::Control
            | Known::Identity
            | Known::LookAlike
            | Known::XForwarded
    )
}

/// The line that starts at `at`, with its CRLF. `None` at the end.
fn line_at(lines: &[u8], at: usize) -> Option<&[u8]> {
    let rest = lines.get(at..)?;
    rest.get(..=memchr::memchr(b'\n', rest)?)
}

/// The value of the field of this line, if that has this name.
fn value_of<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (known, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":")?;
    let is_it = known == name || known.eq_ignore_ascii_case(name);
    is_it.then(|| value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use base::Method;
    use wire::http1::ResponseHead;

    use super::*;

    const HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\nServer: x\r\nX-Mine: 1\r\nVary: a\r\nx-mine: 2\r\n\r\n";

    #[track_caller]
    fn check(edit: impl Fn(&mut HeadEdits), expect: &str) {
        let mut head = ResponseHead::default();
        head.parse(HEAD, Method::Get).unwrap();
        let mut edits = HeadEdits::default();
        edit(&mut edits);
        let mut out = Vec::new();
        edits.write_fields(&mut out, HEAD, head.fields(), KnownSet::EMPTY);
        assert_eq!(String::from_utf8(out).unwrap().replace("\r\n", "|"), expect);
        let mut listed = Vec::new();
        for (name, value) in edits.fields(HEAD, head.fields(), KnownSet::EMPTY) {
            write::field(&mut listed, name, value);
        }
        assert_eq!(String::from_utf8(listed).unwrap().replace("\r\n", "|"), expect, "one by one");
    }

    #[test]
    fn without_edits_the_fields_are_copied() {
        check(|_| {}, "Server: x|X-Mine: 1|Vary: a|x-mine: 2|");
    }

    #[test]
    fn remove_drops_every_field_of_the_name_in_any_case() {
        check(|edits| edits.remove(b"X-MINE"), "Server: x|Vary: a|");
        check(|edits| edits.remove(b"vary"), "Server: x|X-Mine: 1|x-mine: 2|");
    }

    #[test]
    fn append_adds_and_remove_drops_what_was_added() {
        check(
            |edits| edits.append(b"vary", b"b"),
            "Server: x|X-Mine: 1|Vary: a|x-mine: 2|vary: b|",
        );
        check(
            |edits| {
                edits.append(b"X-Mine", b"3");
                edits.append(b"Other", b"o");
                edits.remove(b"x-mine");
                edits.append(b"x-mine", b"4");
            },
            "Server: x|Vary: a|Other: o|x-mine: 4|",
        );
    }

    #[test]
    fn a_field_is_found_unless_it_was_removed() {
        let mut head = ResponseHead::default();
        head.parse(HEAD, Method::Get).unwrap();
        let mut edits = HeadEdits::default();
        let find = |edits: &HeadEdits, name: &[u8]| {
            let found = edits.find(HEAD, head.fields(), name);
            found.map(|value| String::from_utf8(value.to_vec()).unwrap())
        };
        for (name, value) in [("SERVER", "x"), ("x-mine", "1"), ("vary", "a")] {
            assert_eq!(find(&edits, name.as_bytes()).as_deref(), Some(value));
        }
        for name in [&b"vary"[..], b"X-Mine"] {
            edits.remove(name);
            assert_eq!(find(&edits, name), None);
            edits.append(name, b"new");
            assert_eq!(find(&edits, name).as_deref(), Some("new"));
        }
        assert_eq!(find(&edits, b"date"), None);
    }

    #[test]
    fn a_value_cannot_start_another_line() {
        check(
            |edits| edits.append(b"server", b"a\r\nEvil: b"),
            "Server: x|X-Mine: 1|Vary: a|x-mine: 2|server: a  Evil: b|",
        );
    }
}
