//! A connection to an upstream, from its lease until it is released.

use std::net::IpAddr;
use std::rc::Rc;

use wire::stream::Stream;

use super::{Passes, Pool};
use crate::buffer::{Buffer, Buffers};
use crate::flow::{BodyReader, OutFraming, Outflow};
use crate::forward::Upload;
use crate::own_connections::OwnConnection;
use crate::watch::Pace;

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
    _own: Option<OwnConnection>,
}

/// A connection's place among those in use.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) pool: Rc<Pool>,
    pub(super) idle_max: usize,
    pub(super) _passes: Passes,
}

impl Connection {
    pub(super) fn new(
        (stream, own): (Stream, Option<OwnConnection>),
        (ip, opened_us): (IpAddr, u64),
        lease: Lease,
    ) -> Self {
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
            _own: own,
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

    /// Releases what was lent.
    pub(crate) fn release_buffers(&mut self, buffers: &Buffers) {
        buffers.release(std::mem::take(&mut self.reader.buffer));
        self.out.release(buffers);
    }

    /// Returns it to its pool. Both bodies must be complete, nothing unread, and the buffers released.
    pub(crate) fn release(mut self: Box<Self>, now_us: u64) {
        let Some(Lease { pool, idle_max, _passes }) = self.lease.take() else { return };
        let (ip, opened_us) = (self.ip, self.opened_us);
        pool.change(|addresses| addresses.release((self, ip, opened_us), idle_max, now_us));
        if let Some(all) = pool.all.upgrade()
            && all.idle.get() > all.limits.idle_max
        {
            all.close_idle();
        }
    }
}
