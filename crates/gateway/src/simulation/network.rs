//! Connections in memory: bytes arrive late, in pieces, or not at all, as the seed decides. Their allocations are not
//! counted.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::stream::Simulated;

use super::random::Random;
use super::state::{Event, State, Weather};

/// All connections, and the simulated time.
#[derive(Clone, Debug)]
pub(crate) struct Network(Arc<Mutex<State>>);

impl Network {
    pub(super) fn new(weather: Weather, random: Random, traced: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            now_us: 0,
            events: BTreeMap::new(),
            created: 0,
            random,
            weather,
            connections: Vec::new(),
            queue: VecDeque::new(),
            trace: traced.then(Vec::new),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now_us(&self) -> u64 {
        self.state().now_us
    }

    pub(super) fn log(&self, line: impl FnOnce() -> String) {
        self.state().log(line);
    }

    pub(super) fn take_trace(&self) -> Vec<String> {
        self.state().trace.take().unwrap_or_default()
    }

    /// A new connection: the client's side and the gateway's.
    pub(super) fn accept(&self) -> (End, End) {
        let connection = self.state().connect();
        (self.side(connection, 0), self.side(connection, 1))
    }

    /// Connects to an upstream: refused, never accepted, or after a while.
    pub(super) async fn connect(&self, port: u16) -> io::Result<End> {
        let (refused, unanswered, latency_us) = {
            let mut state = self.state();
            let Weather { refused, unanswered, latency_us, .. } = state.weather;
            let random = &mut state.random;
            (random.percent(refused), random.percent(unanswered), random.pause_us(latency_us))
        };
        if unanswered {
            return std::future::pending().await;
        }
        self.sleep(latency_us).await;
        if refused {
            self.log(|| format!("port {port} refuses"));
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let mut state = self.state();
        let connection = state.connect();
        state.queue.push_back((port, connection));
        state.log(|| format!("connection {connection} to port {port}"));
        drop(state);
        Ok(self.side(connection, 0))
    }

    /// The next connection to an upstream, with its port.
    pub(super) fn next_upstream(&self) -> Option<(u16, End)> {
        let (port, connection) = self.state().queue.pop_front()?;
        Some((port, self.side(connection, 1)))
    }

    fn side(&self, connection: usize, side: usize) -> End {
        let resets = std::sync::atomic::AtomicBool::new(false);
        End { network: self.clone(), connection, side, resets }
    }

    /// How often the gateway wrote to the client of `connection`, and to upstreams.
    pub(super) fn writes(&self, connection: usize) -> [usize; 2] {
        let state = self.state();
        let to_client = state.connections[connection].pipes[1].writes;
        let upstreams = state.connections.iter().enumerate().filter(|(at, _)| *at != connection);
        [to_client, upstreams.map(|(_, of)| of.pipes[0].writes).sum()]
    }

    pub(super) async fn sleep(&self, us: u64) {
        if us == 0 {
            return;
        }
        let until_us = self.now_us() + us;
        let mut armed = false;
        std::future::poll_fn(|cx| {
            let mut state = self.state();
            if state.now_us >= until_us {
                return Poll::Ready(());
            }
            if !armed {
                armed = true;
                state.schedule(until_us, Event::Timer(cx.waker().clone()));
            }
            Poll::Pending
        })
        .await;
    }

    /// When something happens next.
    pub(super) fn next_event_us(&self) -> Option<u64> {
        self.state().events.keys().next().map(|(at_us, ..)| *at_us)
    }

    /// Moves the time on to `now_us`, at most the time of the next event, and wakes the tasks of events due.
    pub(super) fn advance(&self, now_us: u64) {
        let mut state = self.state();
        state.now_us = now_us;
        while let Some(entry) = state.events.first_entry()
            && entry.key().0 <= now_us
        {
            match entry.remove() {
                Event::Timer(waker) => waker.wake(),
                Event::Arrival { connection, from } => {
                    let pipes = &mut state.connections[connection].pipes;
                    let reader = pipes[from].reader.take();
                    // A reset ends writes, too.
                    let reset = pipes[from].reset_us.is_some();
                    let writer = if reset { pipes[1 - from].writer.take() } else { None };
                    reader.into_iter().chain(writer).for_each(std::task::Waker::wake);
                }
            }
        }
    }
}

/// Runs `act`, whose allocations are not counted.
fn uncounted<T>(act: impl FnOnce() -> T) -> T {
    let mut result = None;
    allocation_counter::opt_out(|| result = Some(act()));
    result.expect("it ran")
}

/// One side of a connection. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) network: Network,
    pub(super) connection: usize,
    side: usize,
    resets: std::sync::atomic::AtomicBool,
}

impl End {
    pub(super) fn poll_read(
        &self,
        cx: &Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        uncounted(|| self.read(cx, buf))
    }

    fn read(&self, cx: &Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.network.state();
        let again = state.weather.again;
        if state.connections[self.connection].random.percent(again) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let poll = state.read(self.connection, self.side, buf);
        if poll.is_pending() {
            let pipe = &mut state.connections[self.connection].pipes[1 - self.side];
            pipe.reader = Some(cx.waker().clone());
        }
        poll
    }

    pub(super) fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        uncounted(|| self.write(cx, bytes))
    }

    fn write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.network.state();
        let again = state.weather.again;
        if state.connections[self.connection].random.percent(again) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let poll = state.write(self.connection, self.side, bytes);
        if poll.is_pending() {
            let pipe = &mut state.connections[self.connection].pipes[self.side];
            pipe.writer = Some(cx.waker().clone());
        }
        poll
    }

    /// Closes the sending side.
    pub(super) fn end(&self) {
        self.network.state().end(self.connection, self.side);
    }

    /// Whether the connection was broken by the network or by [`End::abort`], or ended by [`End::end`].
    pub(super) fn was_cut(&self) -> bool {
        let connection = &self.network.state().connections[self.connection];
        connection.broke || connection.pipes[self.side].ended_us.is_some()
    }

    /// Resets the connection at once.
    pub(super) fn abort(&self) {
        let mut state = self.network.state();
        let now_us = state.now_us;
        state.connections[self.connection].broke = true;
        state.log(|| format!("connection {} is reset", self.connection));
        state.reset(self.connection, self.side);
        state.connections[self.connection].pipes[1 - self.side].reset_us = Some(now_us);
        let from = 1 - self.side;
        state.schedule(now_us, Event::Arrival { connection: self.connection, from });
    }

    /// Sends pieces that arrive together, however full the connection is.
    pub(super) fn send_together(&self, pieces: [&[u8]; 2]) {
        let mut state = self.network.state();
        let (connection, side) = (self.connection, self.side);
        let at_us = state.arrival_us(connection, side);
        let pipe = &mut state.connections[connection].pipes[side];
        for piece in pieces {
            pipe.segments.push_back((at_us, piece.to_vec()));
            pipe.in_transit += piece.len();
        }
        state.schedule(at_us, Event::Arrival { connection, from: side });
        state.log(|| format!("connection {connection} side {side} sends garbage"));
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let resets = *self.resets.get_mut();
        self.network.state().close(self.connection, self.side, resets);
    }
}

impl Simulated for End {
    fn is_stale(&mut self) -> bool {
        let state = self.network.state();
        let pipe = &state.connections[self.connection].pipes[1 - self.side];
        let now_us = state.now_us;
        pipe.arrived(now_us) > 0 || pipe.is_ended(now_us) || pipe.is_reset(now_us)
    }

    fn reset_when_dropped(&self) {
        self.resets.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Self::poll_read(&self, cx, buf)
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Self::poll_write(&self, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        uncounted(|| {
            let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            self.write(cx, &bytes)
        })
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.end();
        Poll::Ready(Ok(()))
    }
}
