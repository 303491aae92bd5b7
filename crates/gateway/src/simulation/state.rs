//! The state of the simulated network: data in transit, when it arrives, and the next event.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind};
use std::task::{Poll, Waker};

use tokio::io::ReadBuf;

use super::random::Random;

/// How a network behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// Longest time in transit, in microseconds.
    pub(super) latency_us: usize,
    /// Bytes in transit per direction.
    pub(super) capacity: usize,
    /// Chance that a read or write moves only a part, in percent.
    pub(super) cut: usize,
    /// Chance that a read or write has to be tried again, in percent.
    pub(super) again: usize,
    /// Chance that a connection breaks, in percent.
    pub(super) breaks: usize,
    /// Chance that a connection to an upstream is refused, and that it is never accepted, in percent.
    pub(super) refused: usize,
    pub(super) unanswered: usize,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) now_us: u64,
    /// By time; then by connection, since a sweep closes connections in any order; then in order of creation.
    pub(super) events: BTreeMap<(u64, usize, u64), Event>,
    pub(super) created: u64,
    pub(super) random: Random,
    pub(super) weather: Weather,
    pub(super) connections: Vec<Connection>,
    /// Connections to upstreams that are not accepted yet.
    pub(super) queue: VecDeque<(u16, usize)>,
    pub(super) trace: Option<Vec<String>>,
}

#[derive(Debug)]
pub(super) enum Event {
    /// Something arrived at the reader of a pipe.
    Arrival {
        connection: usize,
        from: usize,
    },
    Timer(Waker),
}

/// One connection. Side 0 is a client's, or the gateway's towards an upstream.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) random: Random,
    pub(super) pipes: [Pipe; 2],
    /// It breaks once its sides have sent so many bytes.
    pub(super) breaks_at: Option<usize>,
    pub(super) broke: bool,
    /// Sides that were dropped.
    pub(super) dropped: [bool; 2],
}

/// Data sent by one side.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    pub(super) segments: VecDeque<(u64, Vec<u8>)>,
    pub(super) in_transit: usize,
    pub(super) sent: usize,
    pub(super) writes: usize,
    pub(super) last_arrival_us: u64,
    /// When the end arrives.
    pub(super) ended_us: Option<u64>,
    /// When a reset arrives at the reader.
    pub(super) reset_us: Option<u64>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl Pipe {
    pub(super) fn arrived(&self, now_us: u64) -> usize {
        let here = self.segments.iter().take_while(|(at_us, _)| *at_us <= now_us);
        here.map(|(_, bytes)| bytes.len()).sum()
    }

    pub(super) fn is_reset(&self, now_us: u64) -> bool {
        self.reset_us.is_some_and(|at_us| at_us <= now_us)
    }

    pub(super) fn is_ended(&self, now_us: u64) -> bool {
        self.ended_us.is_some_and(|at_us| at_us <= now_us)
    }

    /// Moves arrived bytes to `to`, at most its length.
    pub(super) fn take(&mut self, to: &mut [u8]) {
        let mut filled = 0;
        while filled < to.len() {
            let (_, bytes) = self.segments.front_mut().unwrap();
            let count = bytes.len().min(to.len() - filled);
            to[filled..filled + count].copy_from_slice(&bytes[..count]);
            filled += count;
            if count == bytes.len() {
                self.segments.pop_front();
            } else {
                bytes.drain(..count);
            }
        }
        self.in_transit -= filled;
    }
}

impl State {
    pub(super) fn log(&mut self, line: impl FnOnce() -> String) {
        let now_us = self.now_us;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now_us:>10} us  {}", line()));
        }
    }

    pub(super) fn schedule(&mut self, at_us: u64, event: Event) {
        self.created += 1;
        let order = match &event {
            Event::Arrival { connection, from } => 2 * connection + from,
            Event::Timer(_) => usize::MAX,
        };
        self.events.insert((at_us, order, self.created), event);
    }

    pub(super) fn connect(&mut self) -> usize {
        let breaks = self.random.percent(self.weather.breaks);
        let breaks_at = breaks.then(|| self.random.size(20_000));
        let random = Random::new(self.random.next(), 0);
        self.connections.push(Connection {
            random,
            pipes: [Pipe::default(), Pipe::default()],
            breaks_at,
            broke: false,
            dropped: [false; 2],
        });
        self.connections.len() - 1
    }

    /// When something that `side` sends now arrives.
    pub(super) fn arrival_us(&mut self, connection: usize, side: usize) -> u64 {
        let Connection { random, pipes, .. } = &mut self.connections[connection];
        let latency_us = random.pause_us(self.weather.latency_us);
        let pipe = &mut pipes[side];
        pipe.last_arrival_us = pipe.last_arrival_us.max(self.now_us + latency_us);
        pipe.last_arrival_us
    }

    /// `side` sends a reset: the other side's reads and writes fail once it arrives.
    pub(super) fn reset(&mut self, connection: usize, side: usize) {
        let at_us = self.arrival_us(connection, side);
        self.connections[connection].pipes[side].reset_us.get_or_insert(at_us);
        self.schedule(at_us, Event::Arrival { connection, from: side });
    }

    /// Whether a read or write of `side` fails.
    pub(super) fn is_broken(&self, connection: usize, side: usize) -> bool {
        self.connections[connection].pipes[1 - side].is_reset(self.now_us)
    }

    pub(super) fn read(
        &mut self,
        connection: usize,
        side: usize,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let now_us = self.now_us;
        let pipe = &self.connections[connection].pipes[1 - side];
        let mut count = pipe.arrived(now_us).min(buf.remaining());
        if count == 0 {
            // As in Linux: data that arrived before a reset can still be read.
            if self.is_broken(connection, side) {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            let ended = pipe.is_ended(now_us) && pipe.in_transit == 0 || buf.remaining() == 0;
            return if ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let first = pipe.segments.front().map_or(count, |(_, bytes)| bytes.len());
        let random = &mut self.connections[connection].random;
        if random.percent(self.weather.cut) {
            count = if random.percent(50) { count.min(first) } else { random.between(1, count) };
        }
        let pipe = &mut self.connections[connection].pipes[1 - side];
        pipe.take(buf.initialize_unfilled_to(count));
        buf.advance(count);
        if let Some(writer) = pipe.writer.take() {
            writer.wake();
        }
        self.log(|| format!("connection {connection} side {side} reads {count}"));
        Poll::Ready(Ok(()))
    }

    pub(super) fn write(
        &mut self,
        connection: usize,
        side: usize,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_broken(connection, side) {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let (now_us, weather) = (self.now_us, self.weather);
        let Connection { pipes, dropped, breaks_at, .. } = &mut self.connections[connection];
        let pipe = &pipes[side];
        if pipe.ended_us.is_some() {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let mut count = bytes.len().min(weather.capacity.saturating_sub(pipe.in_transit));
        if count == 0 && !bytes.is_empty() {
            return Poll::Pending;
        }
        let sent = pipes[0].sent + pipes[1].sent;
        let breaks = breaks_at.is_some_and(|at| at <= sent);
        if let Some(at) = breaks_at {
            count = count.min(at.saturating_sub(sent).max(1));
        }
        if breaks {
            self.connections[connection].broke = true;
            for side in [0, 1] {
                self.connections[connection].pipes[side].reset_us = Some(now_us);
                self.schedule(now_us, Event::Arrival { connection, from: side });
            }
            self.log(|| format!("connection {connection} breaks"));
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        if dropped[1 - side] {
            // As in TCP: the write succeeds, and the reset that it causes arrives later.
            self.reset(connection, 1 - side);
            return Poll::Ready(Ok(count));
        }
        let random = &mut self.connections[connection].random;
        if count > 0 && random.percent(weather.cut) {
            count = random.between(1, count);
        }
        let at_us = self.arrival_us(connection, side);
        let pipe = &mut self.connections[connection].pipes[side];
        pipe.segments.push_back((at_us, bytes[..count].to_vec()));
        pipe.in_transit += count;
        pipe.sent += count;
        pipe.writes += 1;
        self.schedule(at_us, Event::Arrival { connection, from: side });
        self.log(|| {
            let shown = String::from_utf8_lossy(&bytes[..count.min(60)]).into_owned();
            format!("connection {connection} side {side} writes {count}: {shown:?}")
        });
        Poll::Ready(Ok(count))
    }

    pub(super) fn end(&mut self, connection: usize, side: usize) {
        if self.connections[connection].pipes[side].ended_us.is_none() {
            let at_us = self.arrival_us(connection, side);
            self.connections[connection].pipes[side].ended_us = Some(at_us);
            self.schedule(at_us, Event::Arrival { connection, from: side });
            self.log(|| format!("connection {connection} side {side} ends"));
        }
    }

    /// `side` is closed. As in TCP, the other side gets a reset if something is unread.
    pub(super) fn close(&mut self, connection: usize, side: usize, reset: bool) {
        self.connections[connection].dropped[side] = true;
        if reset || self.connections[connection].pipes[1 - side].in_transit > 0 {
            self.log(|| format!("connection {connection} side {side} resets"));
            self.reset(connection, side);
        } else {
            self.end(connection, side);
        }
        // The reader is gone, so no writer has to wait for it.
        if let Some(writer) = self.connections[connection].pipes[1 - side].writer.take() {
            writer.wake();
        }
    }
}
