//! Byte buffers that belong to the worker, lent to connections while bytes are in flight.
//!
//! An idle connection holds no buffer, so that it costs little more than its socket. A buffer is zeroed
//! once, when it is created; lending it again neither allocates nor clears.

use std::rc::Rc;

use base::limits::{
    BODY_BUFFER_BYTES, HEAD_BUFFER_BYTES, HEAD_BYTES_MAX, LARGE_BUFFERS_MAX, PARKED_BYTES_MAX,
    RESPONSE_HEAD_BYTES_MAX, SPARE_BUFFERS_MAX, SPARE_HEADS_MAX, SPARE_PIPES_MAX,
};
use wire::splice::Pipe;

use super::spares::Spares;

/// A buffer with unread bytes between `start` and `end`, and free space after them.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Counts a lent one of `BODY_BUFFER_BYTES`.
    large: Option<Rc<()>>,
}

impl Buffer {
    fn zeroed(bytes: u32) -> Self {
        Self { bytes: vec![0; bytes as usize], ..Self::default() }
    }

    /// Bytes that were read and not consumed.
    pub(crate) fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Free space for the next read; empty if the buffer is full to its end.
    pub(crate) fn free_space(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    pub(crate) fn has_free_space(&self) -> bool {
        self.end < self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether a head whose first `looked_at` bytes were incomplete is worth parsing again: a line has ended since, or
    /// the buffer is full. A head that arrives byte by byte is thus parsed once per line.
    pub(crate) fn may_hold_head(&self, looked_at: usize) -> bool {
        let fresh = self.filled().get(looked_at..).unwrap_or_default();
        looked_at == 0 || !self.has_free_space() || fresh.contains(&b'\n')
    }

    /// Whether no buffer is lent: this is a placeholder.
    pub(crate) fn is_absent(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Marks `count` bytes of the free space as filled.
    pub(crate) fn fill(&mut self, count: usize) {
        self.end = self.end.saturating_add(count).min(self.bytes.len());
    }

    /// Drops `count` bytes from the front. An empty buffer starts over at 0.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start = self.start.saturating_add(count).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Moves the unread bytes to the front, so that all free space is contiguous.
    pub(crate) fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Doubles the buffer, up to the size of the largest head. Returns whether there is free space.
    pub(crate) fn grow(&mut self) -> bool {
        let larger = self.bytes.len().saturating_mul(2).min(LARGEST_HEAD);
        if larger > self.bytes.len() {
            self.bytes.resize(larger, 0);
        }
        self.has_free_space()
    }

    /// Makes free space if there is none: by moving the unread bytes, else by growing. Returns whether there is some.
    pub(crate) fn make_room(&mut self) -> bool {
        if !self.has_free_space() {
            self.compact();
        }
        self.has_free_space() || self.grow()
    }

    /// Copies the unread bytes of `other` if they fit.
    fn copy_from(&mut self, other: &Self) {
        let unread = other.filled();
        if let Some(free) = self.free_space().get_mut(..unread.len()) {
            free.copy_from_slice(unread);
            self.fill(unread.len());
        }
    }

    /// Drops the unread bytes.
    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }
}

/// One byte more than the largest head, to distinguish a larger one from one that just fits.
const LARGEST_HEAD: usize = if HEAD_BYTES_MAX > RESPONSE_HEAD_BYTES_MAX {
    HEAD_BYTES_MAX as usize + 1
} else {
    RESPONSE_HEAD_BYTES_MAX as usize + 1
};

/// A worker's spare buffers.
#[derive(Debug)]
pub(crate) struct Buffers {
    heads: Spares<Buffer>,
    bodies: Spares<Buffer>,
    texts: Spares<Vec<u8>>,
    /// Each lent buffer for a body holds a reference.
    large: Rc<()>,
    /// Each lent pipe holds a reference.
    pipes: Rc<Spares<Pipe>>,
    /// Maximum number of lent pipes.
    pipes_max: usize,
    /// How many are lent.
    #[cfg(test)]
    lent: std::cell::Cell<usize>,
}

/// A lent pipe. Dropping it makes it available again, unless it still holds bytes: then it is closed.
#[derive(Debug)]
pub(crate) struct LentPipe {
    /// `Some` until dropped.
    pipe: Option<Pipe>,
    spares: Rc<Spares<Pipe>>,
}

impl LentPipe {
    pub(crate) fn pipe(&mut self) -> Option<&mut Pipe> {
        self.pipe.as_mut()
    }

    pub(crate) fn held(&self) -> usize {
        self.pipe.as_ref().map_or(0, Pipe::held)
    }
}

impl Drop for LentPipe {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take_if(|pipe| pipe.held() == 0) {
            self.spares.keep(pipe, SPARE_PIPES_MAX);
        }
    }
}

impl Buffers {
    pub(crate) fn new(pipes_max: usize) -> Self {
        let (heads, bodies, texts) = (Spares::default(), Spares::default(), Spares::default());
        Self {
            heads,
            bodies,
            texts,
            large: Rc::default(),
            pipes: Rc::default(),
            pipes_max,
            #[cfg(test)]
            lent: std::cell::Cell::default(),
        }
    }

    /// A buffer for a head and the bytes that follow it.
    pub(crate) fn head(&self) -> Buffer {
        #[cfg(test)]
        self.lent.update(|lent| lent + 1);
        self.heads.lend().unwrap_or_else(|| Buffer::zeroed(HEAD_BUFFER_BYTES))
    }

    /// A buffer for a streaming body: a small one if `LARGE_BUFFERS_MAX` are lent, which happens when many receivers
    /// are slow.
    pub(crate) fn body(&self) -> Buffer {
        if !self.has_large() {
            return self.head();
        }
        #[cfg(test)]
        self.lent.update(|lent| lent + 1);
        let mut buffer = self.bodies.lend().unwrap_or_else(|| Buffer::zeroed(BODY_BUFFER_BYTES));
        buffer.large = Some(Rc::clone(&self.large));
        buffer
    }

    /// Whether another large buffer may be lent.
    fn has_large(&self) -> bool {
        Rc::strong_count(&self.large) <= LARGE_BUFFERS_MAX
    }

    /// An empty vector to write a head into.
    pub(crate) fn text(&self) -> Vec<u8> {
        #[cfg(test)]
        self.lent.update(|lent| lent + 1);
        self.texts.lend().unwrap_or_else(|| Vec::with_capacity(4096))
    }

    /// Replaces a head's buffer by a body's, with its unread bytes, unless too many are lent.
    pub(crate) fn enlarge(&self, buffer: &mut Buffer) {
        if buffer.bytes.len() <= HEAD_BUFFER_BYTES as usize && self.has_large() {
            let mut larger = self.body();
            larger.copy_from(buffer);
            let small = std::mem::replace(buffer, larger);
            self.release(small);
        }
    }

    /// Moves a few unread bytes to memory of their size, while more are waited for, or nothing can be sent: a client
    /// that sends its head slowly, or closes the window of its stream, holds no buffer.
    pub(crate) fn park(&self, buffer: &mut Buffer) {
        let unread = buffer.filled();
        if buffer.bytes.len() == HEAD_BUFFER_BYTES as usize && unread.len() <= PARKED_BYTES_MAX {
            let (bytes, end) = (unread.to_vec(), unread.len());
            self.release(std::mem::replace(buffer, Buffer { bytes, end, ..Buffer::default() }));
            #[cfg(test)]
            self.lent.update(|lent| lent + usize::from(!buffer.is_absent()));
        }
    }

    /// Undoes [`Buffers::park`], before the next read.
    pub(crate) fn unpark(&self, buffer: &mut Buffer) {
        if (1..=PARKED_BYTES_MAX).contains(&buffer.bytes.len()) {
            let mut larger = self.head();
            larger.copy_from(buffer);
            self.release(std::mem::replace(buffer, larger));
        }
    }

    /// Returns a buffer. One that grew is freed instead of kept.
    pub(crate) fn release(&self, mut buffer: Buffer) {
        #[cfg(test)]
        self.lent.update(|lent| lent - usize::from(!buffer.is_absent()));
        buffer.clear();
        buffer.large = None;
        let kept = match buffer.bytes.len() {
            len if len == HEAD_BUFFER_BYTES as usize => &self.heads,
            len if len == BODY_BUFFER_BYTES as usize => &self.bodies,
            _ => return,
        };
        kept.keep(buffer, SPARE_BUFFERS_MAX);
    }

    /// How many buffers and texts are lent.
    #[cfg(test)]
    pub(crate) fn lent(&self) -> usize {
        self.lent.get()
    }

    /// An empty pipe. `None` if `pipes_max` are in use, or the system has none.
    pub(crate) fn pipe(&self) -> Option<LentPipe> {
        if Rc::strong_count(&self.pipes) > self.pipes_max {
            return None;
        }
        let spare = self.pipes.lend();
        let pipe = Some(spare.or_else(|| Pipe::new().ok())?);
        Some(LentPipe { pipe, spares: Rc::clone(&self.pipes) })
    }

    pub(crate) fn release_text(&self, mut text: Vec<u8>) {
        #[cfg(test)]
        self.lent.update(|lent| lent - usize::from(text.capacity() > 0));
        if (1..=HEAD_BYTES_MAX as usize).contains(&text.capacity()) {
            text.clear();
            self.texts.keep(text, SPARE_HEADS_MAX);
        }
    }

    /// Frees spares that were not needed since the last call.
    pub(crate) fn trim(&self) {
        self.heads.trim();
        self.bodies.trim();
        self.texts.trim();
        self.pipes.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_buffer_keeps_the_unread_bytes() {
        let buffers = Buffers::new(1);
        let mut buffer = buffers.head();
        buffer.free_space()[..8].copy_from_slice(b"HEADbody");
        buffer.fill(8);
        buffer.consume(4);
        buffers.enlarge(&mut buffer);
        assert_eq!(buffer.filled(), b"body");
        assert_eq!(buffers.heads.len(), 1, "the small one is available again");
    }

    #[test]
    fn when_many_large_buffers_are_lent_others_are_small() {
        let buffers = Buffers::new(1);
        let mut lent: Vec<_> = (0..LARGE_BUFFERS_MAX).map(|_| buffers.body()).collect();
        assert!(lent.iter().all(|buffer| buffer.bytes.len() == BODY_BUFFER_BYTES as usize));
        let mut small = buffers.body();
        assert_eq!(small.bytes.len(), HEAD_BUFFER_BYTES as usize);
        buffers.enlarge(&mut small);
        assert_eq!(small.bytes.len(), HEAD_BUFFER_BYTES as usize);
        // Neither a head that has grown nor a buffer that is lost with its task is counted.
        let mut grown = buffers.head();
        while grown.bytes.len() < BODY_BUFFER_BYTES as usize {
            grown.grow();
        }
        buffers.release(grown);
        assert_eq!(buffers.body().bytes.len(), HEAD_BUFFER_BYTES as usize);
        drop(lent.pop());
        buffers.enlarge(&mut small);
        assert_eq!(small.bytes.len(), BODY_BUFFER_BYTES as usize);
    }

    #[test]
    fn a_few_bytes_are_parked_without_a_buffer() {
        let buffers = Buffers::new(1);
        let mut buffer = buffers.head();
        buffer.free_space()[..5].copy_from_slice(b"GET /");
        buffer.fill(5);
        buffers.park(&mut buffer);
        assert_eq!((buffer.filled(), buffer.bytes.len()), (&b"GET /"[..], 5));
        assert_eq!(buffers.heads.len(), 1, "the buffer is available again");
        buffers.unpark(&mut buffer);
        assert_eq!(buffer.filled(), b"GET /");
        assert!(buffer.has_free_space());
    }

    #[test]
    fn a_head_is_parsed_again_when_a_line_ends_or_the_buffer_is_full() {
        let mut buffer = Buffer::zeroed(8);
        let mut looked_at = 0;
        let mut parsed = String::new();
        for byte in *b"ab\ncdefg" {
            buffer.free_space()[0] = byte;
            buffer.fill(1);
            if buffer.may_hold_head(looked_at) {
                looked_at = buffer.filled().len();
                parsed += &format!("{looked_at} ");
            }
        }
        assert_eq!(parsed, "1 3 8 ");
    }

    #[test]
    fn compacting_makes_the_free_space_contiguous() {
        let mut buffer = Buffer::zeroed(16);
        buffer.free_space().copy_from_slice(b"0123456789abcdef");
        buffer.fill(16);
        buffer.consume(10);
        assert!(!buffer.has_free_space());
        buffer.compact();
        assert_eq!(buffer.filled(), b"abcdef");
        assert_eq!(buffer.free_space().len(), 10);
    }

    #[test]
    fn a_buffer_grows_to_the_largest_head_and_no_further() {
        let mut buffer = Buffer::zeroed(HEAD_BUFFER_BYTES);
        while buffer.grow() {
            let room = buffer.free_space().len();
            buffer.fill(room);
        }
        assert_eq!(buffer.filled().len(), HEAD_BYTES_MAX as usize + 1);
    }
}
