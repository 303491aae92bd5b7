//! The fast path for most of a document: start tags whose names were predicted, with plain attributes, their end
//! tags, plain text, and elements that contain nothing else. Anything else is left to the general path.

use super::{Machine, Open, Phase, ScannedAttribute, Span, Step, View};
use crate::names::EMPTY;
use crate::namespaces::{Bindings, Mark, Prediction, Raw};
use crate::scan;

/// A tag with more attributes is left to the general path.
const ATTRIBUTES_MAX: usize = 8;

/// Receives the steps of the fast path.
pub(crate) trait StepSink {
    /// Whether the sink takes more than one step.
    const TAKES_ALL: bool;

    /// Steps follow. Returns how many nodes there are, attributes included.
    fn resume(&mut self) -> usize;
    /// An element without attributes and declarations.
    fn element(&mut self, qname: u32, at: u32);
    /// An element without declarations.
    fn tagged(&mut self, qname: u32, at: u32, attributes: &[ScannedAttribute]);
    /// An element that contains text alone, with its end.
    fn leaf(&mut self, qname: u32, at: u32, text: Span);
    fn text(&mut self, span: Span);
    fn end(&mut self);
    /// No more steps follow for now. Returns how many nodes there are by now.
    fn pause(&mut self) -> usize;
}

impl StepSink for Option<Step> {
    const TAKES_ALL: bool = false;

    #[inline]
    fn resume(&mut self) -> usize {
        0
    }

    #[inline]
    fn element(&mut self, qname: u32, at: u32) {
        *self = Some(Step::Start { qname, at });
    }

    #[inline]
    fn tagged(&mut self, qname: u32, at: u32, _: &[ScannedAttribute]) {
        *self = Some(Step::Start { qname, at });
    }

    #[inline]
    fn leaf(&mut self, qname: u32, at: u32, _: Span) {
        *self = Some(Step::Start { qname, at });
    }

    #[inline]
    fn text(&mut self, span: Span) {
        *self = Some(Step::Text(span));
    }

    #[inline]
    fn end(&mut self) {
        *self = Some(Step::End);
    }

    #[inline]
    fn pause(&mut self) -> usize {
        usize::from(matches!(self, Some(Step::Start { .. } | Step::Text(_))))
    }
}

impl Machine {
    /// Takes steps as long as the fast path applies.
    #[inline(never)]
    pub(crate) fn run<T: StepSink>(&mut self, view: View<'_>, to: &mut T) {
        // A step adds at most one node per byte, so that nodes need not be counted one by one.
        let room = self.limits.nodes.saturating_sub(self.nodes) as usize;
        let whole = view.source.as_bytes();
        let source = whole.get(..self.pos.saturating_add(room)).unwrap_or(whole);
        let rest = source.get(self.pos..).unwrap_or(&[]);
        let depth = self.limits.depth as usize;
        let is_limited =
            self.open.len() >= depth || (self.limits.name_bytes as usize) < scan::CLOSED_BYTES_MAX;
        if !self.is_quick() || !view.dtd.attributes.is_empty() || is_limited {
            return;
        }
        let (names, last, bindings) = self.namespaces.prediction();
        let Some(last) = names.named(last) else { return };
        let attributes_max = ATTRIBUTES_MAX.min(self.limits.attributes as usize);
        let (open, attributes) = (&mut self.open, &mut self.attributes);
        let mut quick = Quick { source, bindings, open, attributes, attributes_max, depth };
        let mut place = Place { rest, names, last };
        let nodes = to.resume();
        let mut goes_on = true;
        while goes_on {
            while let Some((next, more)) = quick.step(place, to) {
                (place, goes_on) = (next, more && T::TAKES_ALL);
                if !goes_on {
                    break;
                }
            }
            if goes_on {
                goes_on = false;
                if let Some((next, more)) = quick.tagged(place, to) {
                    (place, goes_on) = (next, more && T::TAKES_ALL);
                }
            }
        }
        let nodes = to.pause().wrapping_sub(nodes);
        let Place { rest, names: Prediction { environment, .. }, last } = place;
        let last = last.symbol();
        self.pos = source.len().wrapping_sub(rest.len());
        self.nodes = self.nodes.wrapping_add(offset(nodes));
        self.namespaces.seen_prediction(last, environment);
        if self.open.is_empty() {
            self.phase = Phase::Epilog;
        }
    }
}

/// The part of the machine that the fast path needs.
struct Quick<'m, 's> {
    source: &'s [u8],
    bindings: &'m mut Bindings,
    open: &'m mut Vec<Open>,
    /// Attributes of the last start tag that has any.
    attributes: &'m mut Vec<ScannedAttribute>,
    attributes_max: usize,
    /// Maximum number of open elements; at present there are fewer.
    depth: usize,
}

/// How far the fast path has come. Passed by value, so that it stays in registers.
#[derive(Clone, Copy)]
struct Place<'m, 's> {
    /// The rest of the source.
    rest: &'s [u8],
    names: Prediction<'m>,
    /// The last element that began.
    last: &'m Raw,
}

impl<'m, 's> Place<'m, 's> {
    /// The name of the start tag here, if it was predicted, and the source after it.
    #[inline(always)]
    fn started(&self) -> Option<(&'m Raw, &'s [u8])> {
        let [b'<', name @ ..] = enough(self.rest)? else { return None };
        let raw = self.names.after(self.last, name)?;
        Some((raw, name.get(raw.closing_len()..)?))
    }
}

/// The place after a step, and whether the fast path may apply to the next one; `None` if it does not apply to this
/// one.
type Stepped<'m, 's> = Option<(Place<'m, 's>, bool)>;

impl<'m, 's> Quick<'m, 's> {
    #[inline(always)]
    fn step<T: StepSink>(&mut self, place: Place<'m, 's>, to: &mut T) -> Stepped<'m, 's> {
        let rest = enough(place.rest)?;
        if rest.starts_with(b"</") {
            return self.end(place, to);
        }
        if rest.starts_with(b"<") {
            return self.start(place, to);
        }
        let (text, rest) = self.plain_text(rest)?;
        if !is_markup(rest) {
            return None;
        }
        to.text(text);
        Some((Place { rest, ..place }, true))
    }

    /// Takes a start tag, or a run of elements that contain only plain text and the start tag after them.
    #[inline(always)]
    fn start<T: StepSink>(&mut self, mut place: Place<'m, 's>, to: &mut T) -> Stepped<'m, 's> {
        let (mut raw, mut inside) = place.started()?;
        if T::TAKES_ALL && inside.first() != Some(&b'<') {
            while let Some((text, end)) = self.plain_text(inside)
                && raw.is_ended(end)
                && let Some(rest) = end.get(raw.end_len()..)
            {
                to.leaf(raw.as_element(), self.before(raw, inside), text);
                (place.rest, place.last) = (rest, raw);
                let Some(next) = place.started() else { return Some((place, true)) };
                (raw, inside) = next;
            }
        }
        let goes_on = self.open(raw, place);
        to.element(raw.as_element(), self.before(raw, inside));
        Some((Place { rest: inside, last: raw, ..place }, goes_on))
    }

    /// Splits `inside` after the plain text that it begins with; `None` if that text is empty.
    #[inline(always)]
    fn plain_text(&self, inside: &'s [u8]) -> Option<(Span, &'s [u8])> {
        let len = scan::short_text(inside);
        let behind = enough(inside.get(len..)?)?;
        (len > 0).then(|| (Span { start: self.at(inside), len: offset(len) }, behind))
    }

    /// Opens an element; returns whether another one may be opened.
    #[inline(always)]
    fn open(&mut self, raw: &Raw, place: Place<'m, 's>) -> bool {
        let mark = Mark { undo: self.bindings.undone(), environment: place.names.environment };
        self.open.push(Open { raw: raw.symbol(), mark });
        self.open.len() < self.depth
    }

    /// Takes a start tag with attributes, or an empty element.
    #[inline(never)]
    fn tagged<T: StepSink>(&mut self, place: Place<'m, 's>, to: &mut T) -> Stepped<'m, 's> {
        let [b'<', name @ ..] = place.rest else { return None };
        let names = place.names;
        let raw = names.element_after(place.last)?;
        let (mut rest, mut before) = (raw.behind(name)?, raw);
        let mut locals = [EMPTY; ATTRIBUTES_MAX];
        self.attributes.clear();
        let (inside, is_empty) = loop {
            match rest {
                [b'>', inside @ ..] => break (inside, false),
                // The end of the element belongs to the same step.
                [b'/', b'>', behind @ ..] if T::TAKES_ALL => break (behind, true),
                [b' ', attribute @ ..] => {
                    let (raw, qname) = names.attribute_after(before)?;
                    let [b'=', quote @ (b'"' | b'\''), value @ ..] = raw.behind(attribute)? else {
                        return None;
                    };
                    let len = scan::value(value, 0, *quote);
                    let [end, behind @ ..] = value.get(len..)? else { return None };
                    let count = self.attributes.len();
                    // Two attributes with one local name may have the same expanded name.
                    let repeats = locals.contains(&raw.local());
                    if end != quote || count >= self.attributes_max || repeats {
                        return None;
                    }
                    *locals.get_mut(count)? = raw.local();
                    let value = Span { start: self.at(value), len: offset(len) };
                    self.attributes.push(ScannedAttribute { qname, value, is_id: false });
                    (rest, before) = (behind, raw);
                }
                _ => return None,
            }
        };
        to.tagged(raw.as_element(), self.at(place.rest), self.attributes);
        let goes_on = is_empty || self.open(raw, place);
        if is_empty {
            to.end();
        }
        Some((Place { rest: inside, last: raw, ..place }, goes_on))
    }

    #[inline(always)]
    fn end<T: StepSink>(&mut self, mut place: Place<'m, 's>, to: &mut T) -> Stepped<'m, 's> {
        let &Open { raw, mark } = self.open.last()?;
        let raw = place.names.named(raw)?;
        if !raw.is_ended(place.rest) {
            return None;
        }
        place.rest = place.rest.get(raw.end_len()..)?;
        self.open.pop();
        self.bindings.leave(mark);
        place.names.environment = mark.environment;
        to.end();
        Some((place, !self.open.is_empty()))
    }

    /// The place of the start tag before `inside`.
    #[inline(always)]
    fn before(&self, raw: &Raw, inside: &[u8]) -> u32 {
        self.at(inside).wrapping_sub(offset(raw.tag_len()))
    }

    /// The place of `rest` in the source.
    #[inline(always)]
    fn at(&self, rest: &[u8]) -> u32 {
        offset(self.source.len().wrapping_sub(rest.len()))
    }
}

/// Most tags have at most this many bytes. With so many left, one comparison suffices for them.
const ENOUGH: usize = 18;

#[inline(always)]
fn enough(rest: &[u8]) -> Option<&[u8]> {
    (rest.len() >= ENOUGH).then_some(rest)
}

/// Whether `text` begins with a tag, or a processing instruction.
#[inline(always)]
fn is_markup(text: &[u8]) -> bool {
    matches!(text, [b'<', after, ..] if *after != b'!')
}

/// Documents have fewer bytes than `XML_BYTES_CEILING`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "offsets have 28 bits")]
fn offset(at: usize) -> u32 {
    at as u32
}
