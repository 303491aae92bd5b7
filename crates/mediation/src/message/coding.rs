//! Compressed bodies: decoded when they are first read. Source: RFC 9110 section 8.4.1.

use std::io::{self, Read};

use expression::Budget;
use flate2::bufread::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

use super::Head;
use crate::error::{Code, Failure};
use crate::limits::{
    DECODED_BYTES_PER_STEP, DECODED_FREE_BYTES, DECODED_RATIO_MAX, GZIP_MEMBER_STEPS,
};

pub(super) const CONTENT_ENCODING: &str = "Content-Encoding";

/// The content coding of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    #[default]
    Identity,
    Gzip,
    /// The zlib format. Some senders leave out its header.
    Deflate,
    /// Another one, or several: the body cannot be read.
    Unknown(Box<str>),
}

impl Coding {
    pub(super) fn of(head: &dyn Head) -> Self {
        let Some(first) = head.field(CONTENT_ENCODING) else { return Self::Identity };
        // All fields of that name count.
        let mut all = String::new();
        head.fields(&mut |name, value| {
            if name.eq_ignore_ascii_case(CONTENT_ENCODING) {
                all.push_str(if all.is_empty() { "" } else { ", " });
                all.push_str(value);
            }
        });
        let all = if all.is_empty() { &*first } else { &all };
        let is_plain = |coding: &&str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
        let mut codings = all.split(',').map(str::trim).filter(|coding| !is_plain(coding));
        match (codings.next().map(str::to_ascii_lowercase).as_deref(), codings.next()) {
            (None, _) => Self::Identity,
            (Some("gzip" | "x-gzip"), None) => Self::Gzip,
            (Some("deflate"), None) => Self::Deflate,
            (Some(_), _) => Self::Unknown(all.escape_debug().to_string().into()),
        }
    }

    /// The most that `bytes` of this coding can become, in bytes; `most`: the limit of any body.
    pub(super) fn decoded_max(&self, bytes: usize, most: usize) -> usize {
        match self {
            Self::Identity | Self::Unknown(_) => bytes,
            Self::Gzip | Self::Deflate => {
                bytes.saturating_mul(DECODED_RATIO_MAX).max(DECODED_FREE_BYTES).min(most)
            }
        }
    }

    /// What `bytes` stand for. Work and memory are charged before they are used.
    ///
    /// # Errors
    /// An unknown coding, malformed bytes, more than [`Coding::decoded_max`], or the budget.
    pub(crate) fn decode(
        &self,
        bytes: &[u8],
        most: usize,
        budget: &Budget,
    ) -> Result<Vec<u8>, Failure> {
        let max = self.decoded_max(bytes.len(), most);
        match self {
            Self::Identity => Ok(bytes.to_vec()),
            Self::Gzip => {
                let members = Members { member: GzDecoder::new(bytes), budget };
                read(members, max, budget)
            }
            Self::Deflate => read(Inflater::new(bytes), max, budget),
            Self::Unknown(codings) => {
                let text = format!(
                    "a mediator cannot read a body with the content coding {codings}, only `gzip` and `deflate`"
                );
                Err(malformed(text))
            }
        }
    }
}

fn read(mut from: impl Read, max: usize, budget: &Budget) -> Result<Vec<u8>, Failure> {
    const FIRST: usize = 16 * 1024;
    let mut decoded = Vec::new();
    let mut end = 0;
    loop {
        if end == decoded.len() {
            // One byte more than allowed shows that there is more.
            let next = decoded.len().saturating_mul(2).max(FIRST).min(max.saturating_add(1));
            let more = next.saturating_sub(decoded.len());
            budget.charge_memory(more)?;
            budget.charge_steps((more / DECODED_BYTES_PER_STEP) as u64)?;
            decoded.reserve_exact(more);
            decoded.resize(next, 0);
        }
        let room = decoded.get_mut(end..).unwrap_or_default();
        let count = from.read(room).map_err(|error| {
            malformed(format!("the body is encoded, and cannot be decoded: {error}"))
        })?;
        end = end.saturating_add(count);
        if end > max {
            return Err(malformed(format!(
                "the body is encoded, and larger than {max} bytes when decoded"
            )));
        }
        if count == 0 {
            break;
        }
    }
    budget.release_memory(decoded.len().saturating_sub(end));
    decoded.truncate(end);
    decoded.shrink_to_fit();
    Ok(decoded)
}

fn malformed(text: String) -> Failure {
    Failure::new(Code::MALFORMED_BODY, text)
}

/// Reads `gzip`, which is one or several members. Source: RFC 1952 section 2.2.
struct Members<'b> {
    member: GzDecoder<&'b [u8]>,
    budget: &'b Budget,
}

impl Read for Members<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.member.read(to)?;
            let rest: &[u8] = self.member.get_ref();
            if count > 0 || to.is_empty() || rest.is_empty() {
                return Ok(count);
            }
            self.budget.charge_steps(GZIP_MEMBER_STEPS).map_err(io::Error::other)?;
            self.member = GzDecoder::new(rest);
        }
    }
}

/// Reads `deflate`, to its end and no further.
struct Inflater<'b> {
    rest: &'b [u8],
    state: Decompress,
    is_at_end: bool,
}

impl<'b> Inflater<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        // Source: RFC 1950 section 2.2.
        let has_header = match bytes {
            [first, second, ..] => {
                let both = u16::from_be_bytes([*first, *second]);
                first & 0x0f == 8 && both.is_multiple_of(31)
            }
            _ => false,
        };
        Self { rest: bytes, state: Decompress::new(has_header), is_at_end: false }
    }
}

impl Read for Inflater<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.is_at_end || to.is_empty() {
            return Ok(0);
        }
        let (read, written) = (self.state.total_in(), self.state.total_out());
        let status = self.state.decompress(self.rest, to, FlushDecompress::None)?;
        let count = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        let read = count(self.state.total_in(), read);
        self.rest = self.rest.get(read..).unwrap_or_default();
        let written = count(self.state.total_out(), written);
        self.is_at_end = status == Status::StreamEnd;
        if self.is_at_end && !self.rest.is_empty() {
            return Err(io::Error::other("unexpected data after its end"));
        }
        if !self.is_at_end && written == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;
    use crate::limits::DECODED_BYTES_MAX;
    use crate::message::PlainHead;
    use crate::message::{Body, Direction, Format, Message};

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn raw(text: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// Text that compresses by about four.
    fn text(len: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            b"abcd"[(state >> 24) as usize % 4]
        };
        (0..len).map(next).collect()
    }

    #[test]
    fn the_field_says_the_coding() {
        let of = |values: &[&str]| {
            let field = |value: &&str| ("content-encoding".to_owned(), (*value).to_owned());
            let fields = values.iter().map(field).collect();
            Coding::of(&PlainHead { fields, ..PlainHead::default() })
        };
        assert_eq!(of(&[]), Coding::Identity);
        assert_eq!(of(&["", "identity, "]), Coding::Identity);
        assert_eq!([of(&["GZIP"]), of(&["identity", "x-gzip"])], [Coding::Gzip, Coding::Gzip]);
        assert_eq!(of(&["deflate"]), Coding::Deflate);
        assert_eq!(of(&["gzip", "gzip"]), Coding::Unknown("gzip, gzip".into()));
        assert_eq!(of(&["br\u{1}"]), Coding::Unknown("br\\u{1}".into()));
    }

    #[test]
    fn a_body_is_what_its_head_said_when_it_came() {
        let fields = vec![("Content-Encoding".to_owned(), "gzip".to_owned())];
        let head = Box::new(PlainHead { fields, ..PlainHead::default() });
        let mut message = Message::new(Direction::Request, head, Body::streaming(Format::Text));
        message.remove_field("content-encoding");
        message.hold(gzip(b"plain"));
        assert_eq!(message.body.text(&Budget::default()).unwrap(), "plain");
    }

    #[test]
    fn each_coding_is_decoded_whatever_the_size() {
        for len in [0, 1, 16 * 1024, 16 * 1024 + 1, 1_000_000] {
            let text = text(len);
            let (first, second) = text.split_at(len / 3);
            let members = [gzip(first), gzip(second)].concat();
            for (coding, bytes) in [
                (Coding::Gzip, gzip(&text)),
                (Coding::Gzip, members),
                (Coding::Deflate, zlib(&text)),
                (Coding::Deflate, raw(&text)),
            ] {
                let budget = Budget::default();
                let decoded = coding.decode(&bytes, DECODED_BYTES_MAX, &budget).unwrap();
                assert!(decoded == text, "{coding:?} of {len} bytes");
                assert_eq!(budget.bytes_used(), len as u64, "{coding:?}");
            }
        }
    }

    #[test]
    fn what_is_cut_or_followed_by_something_is_malformed() {
        let text = text(100_000);
        for (coding, bytes) in [
            (Coding::Gzip, gzip(&text)),
            (Coding::Deflate, zlib(&text)),
            (Coding::Deflate, raw(&text)),
        ] {
            let cuts = (0..bytes.len()).step_by(977).chain([bytes.len() - 1]);
            for bytes in cuts.map(|end| bytes[..end].to_vec()).chain([[&*bytes, b"x"].concat()]) {
                let failure =
                    coding.decode(&bytes, DECODED_BYTES_MAX, &Budget::default()).unwrap_err();
                assert_eq!(failure.code, Code::MALFORMED_BODY, "{coding:?}: {failure}");
            }
        }
    }

    #[test]
    fn a_bomb_costs_no_more_than_it_may() {
        let zeros = vec![0; DECODED_BYTES_MAX + 1];
        // A ratio of about a thousand.
        for (len, fits) in [
            (DECODED_FREE_BYTES, true),
            (DECODED_FREE_BYTES + 1, false),
            (DECODED_BYTES_MAX + 1, false),
        ] {
            let decoded =
                Coding::Gzip.decode(&gzip(&zeros[..len]), DECODED_BYTES_MAX, &Budget::default());
            assert_eq!(decoded.is_ok(), fits, "{len}");
        }
        let failure =
            Coding::Gzip.decode(&gzip(b"").repeat(100_000), DECODED_BYTES_MAX, &Budget::default());
        assert!(failure.unwrap_err().message.contains("2000000 steps"));
        let large = text(DECODED_BYTES_MAX + 1);
        let budget = Budget::default();
        assert!(
            Coding::Gzip.decode(&gzip(&large[1..]), DECODED_BYTES_MAX, &budget).unwrap()
                == large[1..]
        );
        let failure =
            Coding::Gzip.decode(&gzip(&large), DECODED_BYTES_MAX, &Budget::default()).unwrap_err();
        assert!(failure.message.contains("larger than 10485760 bytes"), "{failure}");
        let failure = Coding::Gzip.decode(&gzip(&large), 1_000, &Budget::default()).unwrap_err();
        assert!(failure.message.contains("larger than 1000 bytes"), "as the host says: {failure}");
        let budget = Budget::new(1_000_000, 20_000);
        let failure = Coding::Gzip.decode(&gzip(&large), DECODED_BYTES_MAX, &budget).unwrap_err();
        assert!(failure.message.contains("more than 20000 bytes"), "{failure}");
    }
}
