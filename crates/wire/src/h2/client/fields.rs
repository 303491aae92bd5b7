//! The fields that all requests of a connection share, encoded in advance.

use crate::h2::hpack::encode;
use crate::h2::hpack::table::{ENTRY_BYTES, STATIC};

/// The fields of a request, except for a bearer token.
#[derive(Debug)]
pub struct RequestFields {
    /// Encoding that adds the fields missing in the static table to the dynamic one.
    pub(super) added: Vec<u8>,
    /// Encoding that refers to these entries afterwards.
    pub(super) indexed: Vec<u8>,
    /// Encoding without the dynamic table.
    pub(super) plain: Vec<u8>,
    /// Size of these entries in the dynamic table.
    pub(super) table_bytes: usize,
    pub(super) is_head_method: bool,
}

impl RequestFields {
    /// `fields`: name and value, pseudo-fields first. Names are converted to lower case.
    #[must_use]
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut own = Self {
            added: Vec::new(),
            indexed: Vec::new(),
            plain: Vec::new(),
            table_bytes: 0,
            is_head_method: false,
        };
        let mut places = Vec::new();
        let mut entries = 0;
        for (name, value) in fields {
            let name = name.to_ascii_lowercase();
            own.is_head_method |= name == ":method" && value == "HEAD";
            if let Some(index) = STATIC.iter().position(|known| *known == (&name, value)) {
                encode::indexed(&mut own.added, index + 1);
                encode::indexed(&mut own.plain, index + 1);
                places.push(Place::Static(index + 1));
                continue;
            }
            let (name, value) = (name.as_bytes(), value.as_bytes());
            let known = STATIC.iter().position(|(known, _)| known.as_bytes() == name);
            encode::literal(&mut own.added, encode::ADDED, known.map(|at| at + 1), name, value);
            encode::literal(&mut own.plain, encode::NOT_ADDED, known.map(|at| at + 1), name, value);
            own.table_bytes += name.len() + value.len() + ENTRY_BYTES;
            places.push(Place::Dynamic(entries));
            entries += 1;
        }
        for place in places {
            // The newest entry has the lowest index.
            let index = match place {
                Place::Static(index) => index,
                Place::Dynamic(at) => STATIC.len() + entries - at,
            };
            encode::indexed(&mut own.indexed, index);
        }
        own
    }
}

/// Where a field is.
enum Place {
    Static(usize),
    /// As the n-th entry that was added.
    Dynamic(usize),
}
