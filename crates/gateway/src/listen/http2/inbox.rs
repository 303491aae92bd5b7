//! Data that a stream has received and its handler has not read yet.

use std::rc::Rc;

use wire::http1::Rejection;

use crate::body::buffer::Buffers;
use crate::message::resources::Resources;
use crate::tasks::watch::{Place, Watch};

/// One stream's.
#[derive(Debug)]
pub(super) struct Inbox {
    /// At most the stream's window.
    pub(super) payload: Vec<u8>,
    /// Nothing follows.
    pub(super) ended: bool,
    /// Trailer lines, once `ended`.
    pub(super) trailers: Result<Vec<u8>, Rejection>,
    /// Kept for the next stream in this slot.
    watch: Option<Rc<Watch>>,
}

impl Inbox {
    const EMPTY: Self =
        Self { payload: Vec::new(), ended: false, trailers: Ok(Vec::new()), watch: None };

    /// Adds payload.
    pub(super) fn add(&mut self, payload: &[u8], buffers: &Buffers) {
        if self.payload.capacity() == 0 {
            self.payload = buffers.text();
        }
        self.payload.extend_from_slice(payload);
    }

    /// Exchanges the payload for the memory of payload read before.
    pub(super) fn take_payload(&mut self, mut read: Vec<u8>) -> Vec<u8> {
        read.clear();
        std::mem::replace(&mut self.payload, read)
    }
}

/// All streams' of a connection, by slot.
#[derive(Debug, Default)]
pub(super) struct Inboxes(Vec<Inbox>);

impl Inboxes {
    pub(super) fn get(&mut self, slot: usize) -> Option<&mut Inbox> {
        self.0.get_mut(slot)
    }

    /// Prepares `slot` for a new stream. `ended`: it has no body.
    pub(super) fn open(&mut self, slot: usize, ended: bool) {
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, || Inbox::EMPTY);
        }
        if let Some(inbox) = self.0.get_mut(slot) {
            inbox.payload.clear();
            (inbox.ended, inbox.trailers) = (ended, Ok(Vec::new()));
        }
    }

    /// Releases the memory of `slot`, whose stream has ended.
    pub(super) fn close(&mut self, slot: usize, buffers: &Buffers) {
        if let Some(inbox) = self.0.get_mut(slot) {
            buffers.release_text(std::mem::take(&mut inbox.payload));
            if let Some(watch) = &inbox.watch {
                watch.belong_to(None);
            }
        }
    }

    /// The watch of `slot`, without a deadline. `connection`: that of its connection.
    pub(super) fn watch(
        &mut self,
        slot: usize,
        connection: &Rc<Watch>,
        resources: &Resources,
    ) -> Rc<Watch> {
        let Some(inbox) = self.0.get_mut(slot) else { return resources.watches.add() };
        let watch = inbox.watch.get_or_insert_with(|| resources.watches.add());
        watch.set(u64::MAX);
        watch.client_is_slow(false, 0);
        watch.has(Place::None);
        watch.holds_body(None);
        watch.tunnels(false);
        watch.belong_to(Some(connection));
        Rc::clone(watch)
    }
}
