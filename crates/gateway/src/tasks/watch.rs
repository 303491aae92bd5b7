//! Deadlines without timers: each connection stores its deadline, and the worker checks all of them every
//! `limits::SWEEP_MS`. Setting a deadline is a store to memory: it is reckoned from the last sweep, since reading the
//! clock costs more. The next sweep adds the difference, so that no deadline is early.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use base::limits;

/// [`limits::GIVE_WAY_MS`] in microseconds.
pub(crate) const GIVE_WAY_US: u64 = limits::GIVE_WAY_MS as u64 * 1_000;

/// One connection's deadline. `u64::MAX`: none.
#[derive(Debug)]
pub(crate) struct Watch {
    deadline_us: Cell<u64>,
    state: Cell<State>,
    /// Since when nothing but its client holds it up; `u64::MAX`: it does not.
    slow_since_us: Cell<u64>,
    /// The watch of a stream's connection, while the stream is open.
    connection: RefCell<Option<Rc<Self>>>,
    /// For a connection: since when its client holds up all of its streams, as of the last look at them; 0: it has
    /// none.
    streams_slow_since_us: Cell<u64>,
    /// When the last sweep found that a deadline had been set, which is done whenever something moves.
    moved_us: Cell<u64>,
    /// For a connection: its client, as [`crate::shares::clients`] knows it; `None` for one without a share of its own.
    client: Cell<Option<u128>>,
    /// The request's place in the shares.
    place: Cell<Place>,
    /// The exchange is a tunnel.
    is_tunnel: Cell<bool>,
    /// The part of its request's body that is held, until all of it is.
    held: Cell<Option<HeldBody>>,
    waker: RefCell<Option<Waker>>,
}

/// The place of a request in the shares of its client, of its API and of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    #[default]
    None,
    /// It waits for one in the share of the API with this key.
    Waits(u32),
    /// It has one there.
    Holds(u32),
}

/// A request's body of which a part is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBody {
    /// Bytes charged for it.
    pub(crate) bytes: usize,
    /// Bytes that it lacks to go on.
    pub(crate) lacks: usize,
    /// Since when it does not go on as fast as it should.
    pub(crate) since_us: u64,
}

/// The kind of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Set since the last sweep, and reckoned from it.
    New,
    Set,
    Expired,
    /// Expired before its time, so that others can go on.
    GivesWay,
}

impl Watch {
    /// Whether nothing but the client holds the exchange up, at `now_us`. The slowest of such exchanges give way when
    /// there are too many.
    pub(crate) fn client_is_slow(&self, is_slow: bool, now_us: u64) {
        let since_us = if is_slow { self.slow_since_us.get().min(now_us) } else { u64::MAX };
        self.slow_since_us.set(since_us);
    }

    pub(crate) fn has(&self, place: Place) {
        self.place.set(place);
    }

    pub(crate) fn place(&self) -> Place {
        self.place.get()
    }

    /// A part of its request's body is held, or all of it or nothing.
    pub(crate) fn holds_body(&self, body: Option<HeldBody>) {
        self.held.set(body);
    }

    pub(crate) fn held_body(&self) -> Option<HeldBody> {
        self.held.get()
    }

    pub(crate) fn tunnels(&self, is_tunnel: bool) {
        self.is_tunnel.set(is_tunnel);
    }

    pub(crate) fn is_tunnel(&self) -> bool {
        self.is_tunnel.get()
    }

    /// It is that of a connection of this client.
    pub(crate) fn belong_to_client(&self, client: Option<u128>) {
        self.client.set(client);
    }

    /// The client of its connection.
    pub(crate) fn client(&self) -> Option<u128> {
        let connection = self.connection.borrow();
        connection.as_ref().map_or(self.client.get(), |connection| connection.client.get())
    }

    /// Since when nothing but the client holds it up, if it does.
    pub(crate) fn slow_since_us(&self) -> Option<u64> {
        Some(self.slow_since_us.get()).filter(|since_us| *since_us < u64::MAX)
    }

    /// Since when nothing has moved, to within a sweep.
    pub(crate) fn idle_since_us(&self) -> u64 {
        self.moved_us.get()
    }

    /// It is that of a stream of `connection` from now on, or of none any longer.
    pub(crate) fn belong_to(&self, connection: Option<&Rc<Self>>) {
        self.connection.replace(connection.cloned());
    }

    /// Since when nothing but the client holds up the connection; `u64::MAX`: it does not, or this is a stream.
    fn connection_slow_since_us(&self) -> u64 {
        match (self.slow_since_us.get(), self.streams_slow_since_us.get()) {
            _ if self.connection.borrow().is_some() => u64::MAX,
            (u64::MAX, 0) => u64::MAX,
            (u64::MAX, streams_us) => streams_us,
            (own_us, _) => own_us,
        }
    }

    /// Sets the deadline, reckoned from the last sweep. It is no longer expired.
    pub(crate) fn set(&self, deadline_us: u64) {
        self.deadline_us.set(deadline_us);
        self.state.set(State::New);
    }

    /// Moves the deadline to `latest_us`, reckoned from the last sweep, if it is later.
    pub(crate) fn bring_forward(&self, latest_us: u64) {
        if latest_us < self.deadline_us.get() && !self.is_expired() {
            self.set(latest_us);
        }
    }

    pub(crate) fn is_expired(&self) -> bool {
        matches!(self.state.get(), State::Expired | State::GivesWay)
    }

    /// Whether the exchange is to end so that others can go on, and its client is not to blame.
    pub(crate) fn gives_way(&self) -> bool {
        self.state.get() == State::GivesWay && self.slow_since_us.get() == u64::MAX
    }

    /// Expires it, so that others can go on.
    pub(crate) fn give_way(&self) {
        self.state.set(State::GivesWay);
        self.wake();
    }

    /// `passed_us`: the time between the last two sweeps. Returns whether it has just expired.
    fn sweep(&self, now_us: u64, passed_us: u64) -> bool {
        if self.state.get() == State::New {
            // The deadline was set at some time between the two.
            self.deadline_us.set(self.deadline_us.get().saturating_add(passed_us));
            self.state.set(State::Set);
            self.moved_us.set(now_us);
        }
        let expires = self.deadline_us.get() <= now_us && !self.is_expired();
        if expires {
            self.state.set(State::Expired);
        }
        expires
    }

    /// Whether the deadline has passed; if not, registers the task to be woken when it does.
    pub(crate) fn poll_expired(&self, cx: &Context<'_>) -> bool {
        if self.is_expired() {
            return true;
        }
        let mut waker = self.waker.borrow_mut();
        match waker.as_ref() {
            Some(known) if known.will_wake(cx.waker()) => {}
            Some(_) | None => *waker = Some(cx.waker().clone()),
        }
        false
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }
}

/// Progress that is fast enough to extend a deadline. Otherwise a peer could hold an exchange for ever with a byte now
/// and then. Only time in which the peer holds it up counts, and the peer's arrears stay when others hold it up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes per second; 0: any progress counts.
    min_rate: u32,
    /// When it was looked at last, and whether the peer held it up from then on.
    seen_us: u64,
    holds_up: bool,
    /// For how long the peer has held it up since it was fast enough, and the bytes that had moved then.
    held_us: u64,
    moved: u64,
}

impl Pace {
    /// The peer holds it up from now on.
    pub(crate) fn new(min_rate: u32, now_us: u64) -> Self {
        Self { min_rate, seen_us: now_us, holds_up: true, held_us: 0, moved: 0 }
    }

    /// Whether the deadline is extended at `now_us`, when `moved` bytes have moved in all.
    pub(crate) fn is_kept(&mut self, moved: u64, now_us: u64) -> bool {
        if self.holds_up {
            let waited_us = now_us.saturating_sub(self.seen_us);
            self.held_us = self.held_us.saturating_add(waited_us);
        }
        self.seen_us = now_us;
        let bytes = moved.saturating_sub(self.moved);
        let due = u64::from(self.min_rate).saturating_mul(self.held_us) / 1_000_000;
        let kept = bytes > 0 && bytes >= due;
        if kept {
            self.restart(moved);
        }
        kept
    }

    /// Whether the peer holds it up, from the time that it was looked at last. Returns whether that is new.
    pub(crate) fn holds_up(&mut self, holds_up: bool) -> bool {
        std::mem::replace(&mut self.holds_up, holds_up) != holds_up
    }

    /// For how long the peer has held it up without being fast enough, in milliseconds.
    pub(crate) fn held_ms(&self) -> u32 {
        u32::try_from(self.held_us / 1_000).unwrap_or(u32::MAX)
    }

    /// The time before does not count, after which `moved` bytes had moved.
    pub(crate) fn restart(&mut self, moved: u64) {
        (self.held_us, self.moved) = (0, moved);
    }
}

/// The output of `future`, or `None` if the watch expires first.
pub(crate) async fn within<F: Future>(watch: &Watch, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if watch.poll_expired(cx) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// All of a worker's deadlines.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    all: RefCell<Vec<Rc<Watch>>>,
}

impl Watches {
    /// A new watch without deadline. It is swept until its owner drops it.
    pub(crate) fn add(&self) -> Rc<Watch> {
        let watch = Rc::new(Watch {
            deadline_us: Cell::new(u64::MAX),
            state: Cell::new(State::Set),
            slow_since_us: Cell::new(u64::MAX),
            connection: RefCell::new(None),
            streams_slow_since_us: Cell::new(0),
            moved_us: Cell::new(0),
            client: Cell::new(None),
            place: Cell::default(),
            is_tunnel: Cell::new(false),
            held: Cell::new(None),
            waker: RefCell::new(None),
        });
        self.all.borrow_mut().push(Rc::clone(&watch));
        watch
    }

    /// Wakes all tasks, because something other than the time changed.
    pub(crate) fn wake_all(&self) {
        self.all.borrow().iter().for_each(|watch| watch.wake());
    }

    /// All of them that are not expired.
    pub(crate) fn running(&self) -> Vec<Rc<Watch>> {
        let all = self.all.borrow();
        all.iter().filter(|watch| !watch.is_expired()).cloned().collect()
    }

    /// Expires those of the `count` slowest connections. One that has streams is as slow as the one that its client has
    /// held up for the shortest time.
    pub(crate) fn close_slowest(&self, count: usize, now_us: u64) {
        let all = self.all.borrow();
        all.iter().for_each(|watch| watch.streams_slow_since_us.set(0));
        for watch in all.iter() {
            if let Some(connection) = &*watch.connection.borrow() {
                let since_us = &connection.streams_slow_since_us;
                since_us.set(since_us.get().max(watch.slow_since_us.get()));
            }
        }
        let since_us = |watch: &Rc<Watch>| watch.connection_slow_since_us();
        let is_slow = |watch: &&Rc<Watch>| {
            since_us(watch).saturating_add(GIVE_WAY_US) <= now_us && !watch.is_expired()
        };
        let mut slow: Vec<_> = all.iter().filter(is_slow).collect();
        if slow.len() > count {
            slow.select_nth_unstable_by_key(count, |watch| since_us(watch));
            slow.truncate(count);
        }
        slow.iter().for_each(|watch| watch.give_way());
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    /// Wakes the tasks whose deadline has passed at `now_us`, and removes watches without owner. `passed_us`: the time
    /// since the last sweep.
    pub(crate) fn sweep(&self, now_us: u64, passed_us: u64) {
        let mut all = self.all.borrow_mut();
        all.retain(|watch| {
            if watch.sweep(now_us, passed_us) {
                watch.wake();
            }
            Rc::strong_count(watch) > 1
        });
        let room = all.len().saturating_mul(4).max(1_024);
        if all.capacity() > room {
            all.shrink_to(room / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passed_deadline_expires_and_setting_a_new_one_clears_it() {
        let watches = Watches::default();
        let (early, late) = (watches.add(), watches.add());
        early.set(100);
        late.set(200);
        watches.sweep(150, 0);
        let cx = Context::from_waker(Waker::noop());
        assert!(early.poll_expired(&cx) && !late.poll_expired(&cx));
        early.set(300);
        assert!(!early.poll_expired(&cx));
    }

    #[test]
    fn progress_below_the_least_rate_extends_no_deadline() {
        const S: u64 = 1_000_000;
        let mut pace = Pace::new(100, 0);
        assert!(pace.is_kept(1, 0), "at once");
        assert!(!pace.is_kept(2, S));
        assert!(!pace.is_kept(1_000, 10 * S), "99.9 bytes per second");
        assert!(pace.is_kept(1_001, 10 * S));
        pace.holds_up(false);
        assert!(!pace.is_kept(1_001, 60 * S), "nothing moved");
        pace.holds_up(true);
        assert!(pace.is_kept(1_101, 61 * S), "time with nothing to send does not count");
        // As much at once as it may take in ten seconds, every twenty seconds, after which others hold it up for a
        // moment.
        let mut sent = 1_101;
        for burst in 1..=3 {
            sent += 1_000;
            assert!(!pace.is_kept(sent, (61 + 20 * burst) * S), "burst {burst}");
            assert!(pace.holds_up(false) && pace.holds_up(true));
            assert_eq!(u64::from(pace.held_ms()), 20_000 * burst, "what it owes is not forgiven");
        }
        let mut any = Pace::new(0, 0);
        assert!(any.is_kept(1, 3_600 * S) && !any.is_kept(1, 3_601 * S), "nothing moved");
    }

    /// `streams`: since when each is slow, if it is. A connection without streams is idle.
    #[track_caller]
    fn check_closed(connections: &[&[Option<u64>]], expect: &[usize]) {
        let watches = Watches::default();
        let all: Vec<_> = connections.iter().map(|_| watches.add()).collect();
        let mut streams = Vec::new();
        for (connection, since) in all.iter().zip(connections) {
            connection.client_is_slow(since.is_empty(), 50);
            for since_us in *since {
                let stream = watches.add();
                stream.belong_to(Some(connection));
                stream.client_is_slow(since_us.is_some(), since_us.unwrap_or_default());
                streams.push(stream);
            }
        }
        watches.close_slowest(expect.len(), GIVE_WAY_US + 90);
        assert!(streams.iter().all(|stream| !stream.is_expired()));
        let closed = all.iter().enumerate().filter(|(_, connection)| connection.is_expired());
        assert_eq!(closed.map(|(at, _)| at).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn a_connection_is_as_slow_as_the_fastest_of_its_streams() {
        check_closed(&[&[], &[Some(10), Some(20)], &[Some(1), Some(60)]], &[1]);
        check_closed(&[&[], &[Some(10), Some(20)], &[Some(1), Some(60)]], &[0, 1]);
        check_closed(&[&[Some(1), None], &[Some(40)], &[]], &[1]);
        check_closed(&[&[Some(1), Some(2), None], &[None]], &[]);
        check_closed(&[&[Some(1), Some(95)]], &[]);
    }

    #[test]
    fn a_watch_without_owner_is_removed() {
        let watches = Watches::default();
        drop(watches.add());
        let _kept = watches.add();
        watches.sweep(0, 0);
        assert_eq!(watches.len(), 1);
    }

    /// When a deadline of `ms` is noticed that is set at `set_ms`, if the worker sweeps at these times.
    fn noticed(sweeps_ms: &[u64], set_ms: u64, ms: u64) -> u64 {
        let watches = Watches::default();
        let (watch, cx) = (watches.add(), Context::from_waker(Waker::noop()));
        let mut last_ms = 0;
        for now_ms in sweeps_ms {
            if (last_ms..*now_ms).contains(&set_ms) {
                watch.set((last_ms + ms) * 1_000);
            }
            watches.sweep(now_ms * 1_000, (now_ms - last_ms) * 1_000);
            last_ms = *now_ms;
            if watch.poll_expired(&cx) {
                return last_ms;
            }
        }
        u64::MAX
    }

    #[test]
    fn no_deadline_is_early_and_none_later_than_two_sweeps() {
        let regular: Vec<u64> = (1..100).map(|sweep| sweep * 100).collect();
        // Without eleven of them, as if the process had been stopped.
        let stopped: Vec<u64> =
            regular.iter().copied().filter(|at| !(200..1_300).contains(at)).collect();
        for set_ms in 0..2_000 {
            for ms in [1, 50, 100, 150, 1_000] {
                let late_ms = noticed(&regular, set_ms, ms).checked_sub(set_ms + ms);
                assert!(late_ms.is_some_and(|late| late <= 200), "{set_ms} + {ms}: {late_ms:?}");
                let noticed_ms = noticed(&stopped, set_ms, ms);
                assert!(noticed_ms >= set_ms + ms, "the worker was stopped: {set_ms} + {ms}");
            }
        }
    }

    #[test]
    fn an_earlier_deadline_is_kept_when_another_is_brought_forward() {
        let watches = Watches::default();
        let (watch, cx) = (watches.add(), Context::from_waker(Waker::noop()));
        watch.set(1_000);
        watch.bring_forward(300);
        watches.sweep(100, 100);
        // The same again, as reckoned from the second sweep: it does not move.
        watch.bring_forward(400);
        watches.sweep(399, 299);
        assert!(!watch.poll_expired(&cx));
        watches.sweep(400, 1);
        assert!(watch.poll_expired(&cx));
    }
}
