//! Bodies held in memory, and what they may use.
//!
//! A body is held only where a stage reads or rewrites it. Its bytes are charged before they are read: to the limit of one
//! body, and to the worker's. The charge lasts as long as the bytes, wherever they are: with a message, in a queue for
//! heavy work, on the way to a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use base::limits::HELD_STEP_BYTES;
use bytes::Bytes;

use crate::flow::{BodyError, Source};

/// The bytes that a worker's held bodies use, and what mediation makes of them. Only the worker adds to them; threads for
/// heavy work subtract what they free.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldBytes(Arc<AtomicUsize>);

impl HeldBytes {
    /// `body_max`, `all_max`: the limits of one body and of all, in bytes.
    pub(crate) fn holding(&self, body_max: usize, all_max: usize) -> Holding {
        Holding { used: self.clone(), body_max, all_max }
    }

    pub(crate) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one exchange may hold.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    used: HeldBytes,
    body_max: usize,
    all_max: usize,
}

/// Why a body is not held.
#[derive(Debug)]
pub(crate) enum HoldError {
    /// It is larger than the limit of one body.
    TooLarge,
    /// The worker's bodies use all that they may.
    Exhausted,
    Body(BodyError),
}

impl Holding {
    /// For nothing yet.
    pub(crate) fn charge(&self) -> Charge {
        Charge { used: self.used.clone(), all_max: self.all_max, bytes: 0 }
    }

    /// The same bytes, charged.
    ///
    /// # Errors
    /// There is no room for them.
    pub(crate) fn hold(&self, bytes: Bytes) -> Result<Bytes, HoldError> {
        let mut charge = self.charge();
        charge.resize(bytes.len())?;
        Ok(charge.attach(bytes))
    }
}

/// What something in memory is charged for, until it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    used: HeldBytes,
    all_max: usize,
    bytes: usize,
}

impl Charge {
    /// # Errors
    /// There is no room; it is charged for what it was.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), HoldError> {
        let HeldBytes(used) = &self.used;
        if let Some(more) = bytes.checked_sub(self.bytes) {
            let next = used.load(Ordering::Relaxed).checked_add(more);
            next.filter(|next| *next <= self.all_max).ok_or(HoldError::Exhausted)?;
            used.fetch_add(more, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.bytes.saturating_sub(bytes), Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// The charge ends with the last clone of the bytes.
    fn attach(self, bytes: Bytes) -> Bytes {
        if bytes.is_empty() { bytes } else { Bytes::from_owner(Charged { bytes, _charge: self }) }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.used.0.fetch_sub(self.bytes, Ordering::Relaxed);
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
    /// Its capacity is what is charged, until all of it is there.
    bytes: Vec<u8>,
    /// `None` when all of it was returned.
    charge: Option<Charge>,
    body_max: usize,
}

impl Hold {
    /// `announced`: its length, if it is known.
    ///
    /// # Errors
    /// It is too large, or there is no room for it.
    pub(crate) fn begin(holding: &Holding, announced: Option<u64>) -> Result<Self, HoldError> {
        let charge = Some(holding.charge());
        let mut hold = Self { bytes: Vec::new(), charge, body_max: holding.body_max };
        if let Some(announced) = announced {
            hold.grow(usize::try_from(announced).unwrap_or(usize::MAX))?;
        }
        Ok(hold)
    }

    /// Charges for `bytes` in all, then makes room for them.
    fn grow(&mut self, bytes: usize) -> Result<(), HoldError> {
        if bytes > self.body_max {
            return Err(HoldError::TooLarge);
        }
        if let Some(charge) = &mut self.charge {
            charge.resize(bytes.max(charge.bytes))?;
        }
        self.bytes.reserve_exact(bytes.saturating_sub(self.bytes.len()));
        Ok(())
    }

    /// Moves what `source` has. Ready with all of it at its end.
    ///
    /// # Errors
    /// It is too large, there is no room for it, or it ended early.
    pub(crate) fn poll<S: Source>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut S,
    ) -> Poll<Result<Bytes, HoldError>> {
        loop {
            while ready!(source.poll_read_to(cx, &mut self.bytes)).map_err(HoldError::Body)? {}
            ready!(source.poll_fill(cx)).map_err(HoldError::Body)?;
            let piece = source.data();
            if piece.is_empty() {
                // Without what was reserved for more.
                self.bytes.shrink_to_fit();
                let bytes = Bytes::from(std::mem::take(&mut self.bytes));
                let Some(mut charge) = self.charge.take() else { return Poll::Ready(Ok(bytes)) };
                let resized = charge.resize(bytes.len());
                return Poll::Ready(resized.map(|()| charge.attach(bytes)));
            }
            let len = self.bytes.len().saturating_add(piece.len());
            let charged = self.charge.as_ref().map_or(0, |charge| charge.bytes);
            if len > charged {
                let step = charged.saturating_mul(2).max(HELD_STEP_BYTES);
                self.grow(step.min(self.body_max).max(len))?;
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
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use wire::http1::BodyFraming;
    use wire::stream::Stream;

    use super::*;
    use crate::buffer::Buffers;
    use crate::flow::{BodyReader, Held, Http1Source};

    /// What becomes of a body of `len` bytes, of which `announced` were announced, while others use `used`; and what is
    /// charged for it.
    fn hold(len: usize, announced: Option<u64>, used: usize) -> (Result<usize, String>, usize) {
        let all = HeldBytes::default();
        let mut others = all.holding(usize::MAX, usize::MAX).charge();
        others.resize(used).unwrap();
        let holding = all.holding(100_000, 150_000);
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

    /// The beginning of a body that arrived with its head is in the buffer, the rest comes in pieces, and the next request
    /// follows at once.
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
            let mut hold = Hold::begin(&HeldBytes::default().holding(100_000, 100_000), announced);
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
        let holding = HeldBytes::default().holding(100_000, 150_000);
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

    #[test]
    fn a_body_is_rejected_if_others_use_the_memory() {
        assert_eq!(hold(50_000, Some(50_000), 100_000).0, Ok(50_000));
        assert_eq!(hold(0, Some(50_001), 100_000), (Err("Exhausted".to_owned()), 0));
        assert_eq!(hold(50_001, None, 100_000).0, Err("Exhausted".to_owned()));
    }
}
