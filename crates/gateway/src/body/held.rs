//! Bodies held in memory, and their limits.
//!
//! A body is held only where a stage reads or rewrites it. The bytes are charged when they arrive, and never on the
//! promise of a length: to the limit of one body, to the worker's, and to its client's share of that. The charge lasts
//! as long as the bytes, wherever they are: with a message, in a queue for heavy work, on the way to a client.
//!
//! A client may hold up to `HELD_SHARE` times as much as is free: two thirds if no other client holds any, and never
//! all. A body that lacks room waits, and meanwhile those that arrive slowest give way ([`crate::shares::give_way`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use base::limits::{HELD_SHARE, HELD_STEP_BYTES};
use bytes::Bytes;
use model::{Denial, Fault};
use tokio::sync::Notify;

use super::{BodyError, Source};

/// The bytes that held bodies use, and data that mediation derives from them: a worker's, or a client's part of them.
/// Only the worker adds to them; threads for heavy work subtract bytes that they free.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBytes(Arc<Used>);

#[derive(Debug, Default)]
struct Used {
    bytes: AtomicUsize,
    /// Bodies that wait for room.
    waiting: AtomicUsize,
    freed: Notify,
}

impl HeldBytes {
    /// The limits of one exchange.
    ///
    /// - `client`: the bytes held by the exchange's client; `None` if it has no share of its own.
    /// - `body_max`, `all_max`: the limits of one body and of all, in bytes.
    /// - `wait_ms`: longest wait of a body for room.
    pub(crate) fn holding(
        &self,
        client: Option<&Self>,
        [body_max, all_max]: [usize; 2],
        wait_ms: u32,
    ) -> Holding {
        Holding { used: self.clone(), client: client.cloned(), body_max, all_max, wait_ms }
    }

    pub(crate) fn used(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Bodies that wait for room.
    pub(crate) fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Lets the bodies that wait look for room again, the newest first: its client has not given up.
    pub(crate) fn wake(&self) {
        (0..self.waiting()).for_each(|_| self.0.freed.notify_last());
    }

    fn add(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn subtract(&self, bytes: usize) {
        self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
        // One that begins to wait at this moment is woken by the next sweep.
        if self.waiting() > 0 {
            self.wake();
        }
    }
}

/// The limits of one exchange on held bytes.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    used: HeldBytes,
    client: Option<HeldBytes>,
    body_max: usize,
    all_max: usize,
    /// Longest wait of a body for room, in milliseconds.
    pub(crate) wait_ms: u32,
}

/// Why a body is not held.
#[derive(Debug)]
pub(crate) enum HoldError {
    /// It is larger than the limit of one body.
    TooLarge,
    /// The worker's bodies use all that they may, or the client's use its share.
    Exhausted,
    Body(BodyError),
}

impl Holding {
    /// For nothing yet.
    pub(crate) fn charge(&self) -> Charge {
        let (used, client) = (self.used.clone(), self.client.clone());
        Charge { used, client, all_max: self.all_max, bytes: 0 }
    }

    /// The same bytes, charged.
    ///
    /// # Errors
    /// The bytes do not fit the limits.
    pub(crate) fn hold(&self, bytes: Bytes) -> Result<Bytes, HoldError> {
        let mut charge = self.charge();
        charge.resize(bytes.len())?;
        Ok(charge.attach(bytes))
    }

    /// The error of a request that lacks room.
    pub(crate) fn exhausted() -> Box<Fault> {
        Fault::Denied(Denial::HeldBytesUsed).into()
    }

    /// Returns when there may be room for more.
    pub(crate) async fn freed(&self) {
        let _waiting = Waiting::new(&self.used.0.waiting);
        self.used.0.freed.notified().await;
    }
}

/// Counts a body that waits for room, until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes charged for data in memory, until dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    used: HeldBytes,
    client: Option<HeldBytes>,
    all_max: usize,
    bytes: usize,
}

impl Charge {
    /// # Errors
    /// The bytes do not fit the limits; the charge is unchanged.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), HoldError> {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            if !self.has_room(more) {
                return Err(HoldError::Exhausted);
            }
            self.used.add(more);
            if let Some(client) = &self.client {
                client.add(more);
            }
        } else {
            self.free(self.bytes.saturating_sub(bytes));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Number of bytes charged.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is room for `more` bytes: of all, and of the client's share.
    fn has_room(&self, more: usize) -> bool {
        let all = self.used.used().checked_add(more);
        let Some(left) = all.and_then(|all| self.all_max.checked_sub(all)) else { return false };
        let client = self.client.as_ref().map_or(0, HeldBytes::used);
        more == 0
            || self.client.is_none()
            || client.saturating_add(more) <= left.saturating_mul(HELD_SHARE)
    }

    fn free(&self, bytes: usize) {
        if let Some(client) = &self.client {
            client.subtract(bytes);
        }
        self.used.subtract(bytes);
    }

    /// The charge ends with the last clone of the bytes.
    fn attach(self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() { bytes } else { Bytes::from_owner(Charged { bytes, _charge: self }) }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.free(self.bytes);
        }
    }
}

struct Charged {
    bytes: Bytes,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body that is being read into memory.
#[derive(Debug)]
pub(crate) struct Hold {
    /// The bytes read so far. Their capacity is charged, until the body is complete.
    bytes: Vec<u8>,
    /// `None` when all of it was returned.
    charge: Option<Charge>,
    /// The body's length if that is known, else the limit.
    most: usize,
    body_max: usize,
    /// The charge that was refused for lack of room; 0 if none was.
    wanted: usize,
}

impl Hold {
    /// `announced`: its length, if it is known. Nothing is charged yet.
    ///
    /// # Errors
    /// It is too large.
    pub(crate) fn begin(holding: &Holding, announced: Option<u64>) -> Result<Self, HoldError> {
        let body_max = holding.body_max;
        let most = announced.map_or(body_max, |len| usize::try_from(len).unwrap_or(usize::MAX));
        if most > body_max {
            return Err(HoldError::TooLarge);
        }
        let charge = Some(holding.charge());
        Ok(Self { bytes: Vec::new(), charge, most, body_max, wanted: 0 })
    }

    /// Charges for `bytes` in all, then makes room for them.
    fn grow(&mut self, bytes: usize) -> Result<(), HoldError> {
        if bytes > self.body_max {
            return Err(HoldError::TooLarge);
        }
        if let Some(charge) = &mut self.charge {
            let bytes = bytes.max(charge.bytes);
            let resized = charge.resize(bytes);
            self.wanted = if resized.is_ok() { 0 } else { bytes };
            resized?;
        }
        self.bytes.reserve_exact(bytes.saturating_sub(self.bytes.len()));
        Ok(())
    }

    /// Makes room for `arrived` bytes, and for more if there is space: at most as much again, and a step.
    ///
    /// # Errors
    /// The body is too large, or lacks room.
    fn grow_after(&mut self, arrived: usize) -> Result<(), HoldError> {
        let next = arrived.saturating_mul(2).saturating_add(HELD_STEP_BYTES);
        self.grow(next.min(self.most).max(arrived)).or_else(|_| self.grow(arrived))
    }

    /// Moves the available data of `source`. Ready with the whole body at its end. May be called again after
    /// [`HoldError::Exhausted`].
    ///
    /// # Errors
    /// The body is too large, lacks room, or ended early.
    pub(crate) fn poll<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut S,
    ) -> Poll<Result<Bytes, HoldError>> {
        loop {
            while ready!(source.poll_read_to(cx, &mut self.bytes)).map_err(HoldError::Body)? {
                if self.bytes.len() == self.bytes.capacity() && self.bytes.len() < self.most {
                    self.grow_after(self.bytes.len())?;
                }
            }
            ready!(source.poll_fill(cx)).map_err(HoldError::Body)?;
            let piece = source.data();
            if piece.is_empty() {
                // Releases the capacity that was reserved for more.
                self.bytes.shrink_to_fit();
                let bytes = Bytes::from(std::mem::take(&mut self.bytes));
                let Some(mut charge) = self.charge.take() else { return Poll::Ready(Ok(bytes)) };
                let resized = charge.resize(bytes.len());
                return Poll::Ready(resized.map(|()| charge.attach(bytes)));
            }
            let len = self.bytes.len().saturating_add(piece.len());
            if len > self.charged() || len == self.charged() && len < self.most {
                self.grow_after(len)?;
            }
            self.bytes.extend_from_slice(piece);
            let count = piece.len();
            source.consume(count);
        }
    }

    /// Bytes read so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes that it is charged for.
    pub(crate) fn charged(&self) -> usize {
        self.charge.as_ref().map_or(0, |charge| charge.bytes)
    }

    /// Bytes that it lacks, if there was no room for them.
    pub(crate) fn lacks(&self) -> usize {
        self.wanted.saturating_sub(self.charged())
    }

    /// Looks for the room that there was not. Whether there is now.
    pub(crate) fn finds_room(&mut self) -> bool {
        self.grow_after(self.wanted).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use wire::http1::BodyFraming;
    use wire::stream::Stream;

    use super::*;
    use crate::body::buffer::Buffers;
    use crate::body::{BodyReader, Held, Http1Source};

    /// Holds a body of `len` bytes, of which `announced` were announced, while others use `used`. Returns the result,
    /// and the bytes charged.
    fn hold(len: usize, announced: Option<u64>, used: usize) -> (Result<usize, String>, usize) {
        let all = HeldBytes::default();
        let mut others = all.holding(None, [usize::MAX; 2], 0).charge();
        others.resize(used).unwrap();
        let holding = all.holding(None, [100_000, 150_000], 0);
        let mut source = Held::new(vec![b'x'; len].into());
        let mut cx = Context::from_waker(Waker::noop());
        let held = Hold::begin(&holding, announced).and_then(|mut hold| {
            let Poll::Ready(held) = hold.poll(&mut cx, &mut source) else { unreachable!() };
            held
        });
        let charged = all.used() - used;
        let found = held.as_ref().map(Bytes::len).map_err(|error| format!("{error:?}"));
        let copy = held.as_ref().ok().cloned();
        drop(held);
        assert_eq!(all.used(), used + charged, "the copy is charged");
        drop((copy, others));
        assert_eq!(all.used(), 0, "everything is released");
        (found, charged)
    }

    /// The beginning of a body that arrived with its head is in the buffer, the rest comes in pieces, and the next
    /// request follows at once.
    #[tokio::test(flavor = "current_thread")]
    async fn the_rest_of_a_body_is_read_to_its_place() {
        let body: Vec<u8> = (0..50_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        for (first, framing) in [
            (0, BodyFraming::Length(50_000)),
            (20, BodyFraming::Length(50_000)),
            (50_000, BodyFraming::Length(50_000)),
            (20, BodyFraming::Chunked),
        ] {
            let sent = match framing {
                BodyFraming::Chunked => [b"c350\r\n", body.as_slice(), b"\r\n0\r\n\r\n"].concat(),
                BodyFraming::Length(_) | BodyFraming::None => body.clone(),
            };
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let mut stream = Stream::Clear(listener.accept().await.unwrap().0);
            let buffers = Buffers::new(0);
            let mut reader = BodyReader::idle(buffers.body());
            while reader.buffer.free_space().len() < first && reader.buffer.grow() {}
            reader.buffer.free_space()[..first].copy_from_slice(&sent[..first]);
            reader.buffer.fill(first);
            reader.start_request(framing);
            let announced = reader.announced();
            let mut hold =
                Hold::begin(&HeldBytes::default().holding(None, [100_000; 2], 0), announced);
            let hold = hold.as_mut().unwrap();
            let client = async {
                for piece in sent[first..].chunks(20_000) {
                    client.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
                client.write_all(b"GET /").await.unwrap();
                client
            };
            let held = std::future::poll_fn(|cx| {
                let (reader, stream) = (&mut reader, &mut stream);
                hold.poll(cx, &mut Http1Source { reader, stream, buffers: &buffers })
            });
            let (mut client, held) = tokio::join!(client, held);
            assert!(held.unwrap() == body, "{first} {framing:?}");
            assert!(reader.is_done() && reader.consumed() == 50_000, "{first} {framing:?}");
            let is_buffered = first == body.len() || framing == BodyFraming::Chunked;
            assert_eq!(reader.buffer.is_absent(), !is_buffered, "{first} {framing:?}");
            client.shutdown().await.unwrap();
            let mut next = reader.buffer.filled().to_vec();
            stream.read_to_end(&mut next).await.unwrap();
            assert_eq!(next, b"GET /", "{first} {framing:?}");
        }
    }

    #[test]
    fn a_body_is_charged_for_its_length() {
        for (len, announced) in [(0, None), (0, Some(0)), (70_000, Some(70_000)), (70_000, None)] {
            assert_eq!(hold(len, announced, 0), (Ok(len), len), "{announced:?}");
        }
    }

    #[test]
    fn what_is_reserved_is_charged() {
        let holding = HeldBytes::default().holding(None, [100_000, 150_000], 0);
        let mut hold = Hold::begin(&holding, None).unwrap();
        for len in [1, 20_000, 30_001, 99_999] {
            hold.grow(len).unwrap();
            let charged = hold.charge.as_ref().map(|charge| charge.bytes);
            assert_eq!(charged, Some(hold.bytes.capacity()));
        }
    }

    #[test]
    fn a_body_above_its_limit_is_rejected_before_it_is_read_if_its_length_is_known() {
        for (len, announced) in [(100_000, None), (100_000, Some(100_000))] {
            assert_eq!(hold(len, announced, 0).0, Ok(100_000));
        }
        assert_eq!(hold(100_001, None, 0).0, Err("TooLarge".to_owned()));
        assert_eq!(hold(0, Some(100_001), 0), (Err("TooLarge".to_owned()), 0));
        assert_eq!(hold(0, Some(u64::MAX), 0), (Err("TooLarge".to_owned()), 0));
    }

    /// The first bytes of a body, of which the rest does not come.
    struct Stopped(&'static [u8]);

    impl Source for Stopped {
        fn poll_fill(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
            if self.0.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
        }

        fn data(&self) -> &[u8] {
            self.0
        }

        fn consume(&mut self, count: usize) {
            self.0 = &self.0[count..];
        }

        fn trailers(&self) -> &[u8] {
            &[]
        }
    }

    #[test]
    fn an_announced_length_is_not_charged_before_it_arrives() {
        let all = HeldBytes::default();
        let holding = all.holding(None, [1_000_000; 2], 0);
        let mut hold = Hold::begin(&holding, Some(1_000_000)).unwrap();
        assert_eq!(all.used(), 0);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(hold.poll(&mut cx, &mut Stopped(&[b'x'; 10])).is_pending());
        assert_eq!((all.used(), hold.charged()), (20 + HELD_STEP_BYTES, 20 + HELD_STEP_BYTES));
        assert!(hold.poll(&mut cx, &mut Stopped(&[b'x'; 100_000])).is_pending());
        assert_eq!(all.used(), 200_020 + HELD_STEP_BYTES);
    }

    #[test]
    fn a_body_goes_on_when_there_is_room() {
        let all = HeldBytes::default();
        let holding = all.holding(None, [100_000; 2], 0);
        let mut others = holding.charge();
        others.resize(60_000).unwrap();
        let mut hold = Hold::begin(&holding, Some(50_000)).unwrap();
        let mut cx = Context::from_waker(Waker::noop());
        let mut source = Held::new(vec![b'x'; 50_000].into());
        let polled = hold.poll(&mut cx, &mut source);
        assert!(matches!(polled, Poll::Ready(Err(HoldError::Exhausted))));
        assert!(!hold.finds_room() && hold.lacks() == 50_000);
        others.resize(50_000).unwrap();
        assert!(hold.finds_room() && hold.lacks() == 0);
        let Poll::Ready(Ok(bytes)) = hold.poll(&mut cx, &mut source) else { unreachable!() };
        assert_eq!((bytes.len(), all.used()), (50_000, 100_000));
    }

    #[test]
    fn a_client_holds_at_most_twice_as_much_as_is_left() {
        let all = HeldBytes::default();
        let most = |charge: &mut Charge| {
            (0..=90).take_while(|bytes| charge.resize(*bytes).is_ok()).last().unwrap()
        };
        let clients: [HeldBytes; 3] = Default::default();
        let mut charges: Vec<_> =
            clients.iter().map(|client| all.holding(Some(client), [90; 2], 0).charge()).collect();
        let held: Vec<_> = charges.iter_mut().map(most).collect();
        assert_eq!(held, [60, 20, 6]);
        let mut another = all.holding(Some(&clients[0]), [90; 2], 0).charge();
        assert!(another.resize(1).is_err());
        // A proxy has no share.
        assert!(all.holding(None, [90; 2], 0).charge().resize(4).is_ok());
        drop((charges, another));
        assert!(all.used() == 0 && clients.iter().all(|client| client.used() == 0));
    }

    #[test]
    fn a_body_is_rejected_if_others_use_the_memory() {
        assert_eq!(hold(50_000, Some(50_000), 100_000).0, Ok(50_000));
        assert_eq!(hold(50_000, None, 100_000).0, Ok(50_000));
        assert_eq!(hold(50_001, Some(50_001), 100_000), (Err("Exhausted".to_owned()), 0));
        assert_eq!(hold(50_001, None, 100_000).0, Err("Exhausted".to_owned()));
    }
}
