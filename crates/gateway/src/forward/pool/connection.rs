//! A connection to an upstream, from its lease until it is released.

use std::net::IpAddr;
use std::rc::Rc;

use wire::stream::Stream;

use super::{Passes, Pool};
use crate::body::buffer::{Buffer, Buffers};
use crate::body::{BodyReader, OutFraming, Outflow};
use crate::forward::Upload;
use crate::forward::connect::{Connected, Registered};
use crate::tasks::watch::Pace;

/// A connection to an upstream, and the exchange that it carries.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    /// The request.
    pub(crate) out: Outflow,
    pub(crate) upload: Upload,
    /// How fast the upload is.
    pub(crate) pace: Pace,
    /// The response's body.
    pub(crate) reader: BodyReader,
    /// The endpoint's.
    pub(crate) authority: Rc<str>,
    /// It may serve another request after this one.
    pub(crate) keep_alive: bool,
    /// It has served requests before, so the upstream may have closed it as idle.
    pub(crate) reused: bool,
    ip: IpAddr,
    opened_us: u64,
    /// `Some` while it is leased.
    pub(super) lease: Option<Lease>,
    _registered: Registered,
}

/// A connection's place among those in use.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) pool: Rc<Pool>,
    pub(super) idle_max: usize,
    pub(super) _passes: Passes,
}

impl Connection {
    pub(super) fn new(connected: Connected, opened_us: u64, lease: Lease) -> Self {
        let Connected { stream, ip, registered } = connected;
        Self {
            stream,
            out: Outflow::idle(),
            upload: Upload::Done,
            pace: Pace::new(0, opened_us),
            reader: BodyReader::idle(Buffer::default()),
            authority: Rc::default(),
            keep_alive: true,
            reused: false,
            ip,
            opened_us,
            lease: Some(lease),
            _registered: registered,
        }
    }

    /// Begins an exchange with the head of a request.
    pub(crate) fn begin(
        &mut self,
        (head, framing): (Vec<u8>, OutFraming),
        pace: Pace,
        authority: &Rc<str>,
    ) {
        self.out.begin(head, framing);
        (self.pace, self.upload) = (pace, Upload::Running);
        if !Rc::ptr_eq(&self.authority, authority) {
            self.authority = Rc::clone(authority);
        }
    }

    /// Releases lent buffers.
    pub(crate) fn release_buffers(&mut self, buffers: &Buffers) {
        buffers.release(std::mem::take(&mut self.reader.buffer));
        self.out.release(buffers);
    }

    /// Returns it to its pool. Both bodies must be complete, nothing unread, and the buffers released.
    pub(crate) fn release(mut self: Box<Self>, now_us: u64) {
        let Some(Lease { pool, idle_max, _passes }) = self.lease.take() else { return };
        let (ip, opened_us) = (self.ip, self.opened_us);
        let surplus =
            pool.change(|addresses| addresses.release((self, ip, opened_us), idle_max, now_us));
        if let Some(surplus) = surplus {
            surplus.stream.reset_when_dropped();
        }
        if let Some(all) = pool.all.upgrade()
            && all.idle.get() > all.limits.idle_max
        {
            all.close_idle();
        }
    }

    /// Records that the upstream has closed it, at the end of an exchange: it is not reset when it is dropped.
    pub(crate) fn is_closed_by_upstream(&mut self) {
        self.lease = None;
    }
}

/// One that is dropped while it is leased is reset: an upstream that hangs never closes its side, and would hold the
/// local port for a minute. Source: HAProxy resets connections to servers that it closes first (`linger_risk`).
impl Drop for Connection {
    fn drop(&mut self) {
        if self.lease.is_some() {
            self.stream.reset_when_dropped();
        }
    }
}
