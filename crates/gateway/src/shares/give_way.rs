//! Which exchanges give way where places or memory run out.
//!
//! An exchange gives way when it has not moved for `GIVE_WAY_MS`. Clients with more than an even share give way before
//! others; exchanges that their client holds up before idle tunnels, and idle tunnels before requests that wait for
//! their upstream. A client keeps its places within its share, except for slow exchanges and idle tunnels.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use base::limits::HELD_SHARE;

use crate::tasks::watch::{GIVE_WAY_US, HeldBody, Place, Watch};

/// The places of a gate that one client's exchanges hold or wait for.
#[derive(Clone, Copy, Debug, Default)]
struct Having {
    places: usize,
    waiting: usize,
}

/// The reason for which an exchange does not move. The first gives way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Idle {
    /// The client does not send or read.
    Slow,
    Tunnel,
    /// It waits for its upstream. The youngest gives way first: the others have waited for their response longer.
    Waits,
}

/// Lets exchanges give way to those that wait at a gate.
///
/// - `is_at`: whether it is the gate of the API with a key.
/// - `limit`: places of the gate.
pub(super) fn at_gate(
    watches: &[Rc<Watch>],
    is_at: impl Fn(u32) -> bool,
    limit: usize,
    now_us: u64,
) {
    let mut clients = HashMap::<Option<u128>, Having>::new();
    for watch in watches {
        match watch.place() {
            Place::Holds(key) if is_at(key) => {
                clients.entry(watch.client()).or_default().places += 1;
            }
            Place::Waits(key) if is_at(key) => {
                clients.entry(watch.client()).or_default().waiting += 1;
            }
            Place::Holds(_) | Place::Waits(_) | Place::None => {}
        }
    }
    let even = limit.checked_div(clients.len()).unwrap_or(limit).max(1);
    // A proxy has many clients, and no share.
    let is_over = |client: Option<u128>, having: &Having| client.is_some() && having.places > even;
    let waiting: usize = clients.values().map(|having| having.waiting).sum();
    let needy = clients.iter().filter(|(client, having)| !is_over(**client, having));
    let needy: usize = needy.map(|(_, having)| having.waiting).sum();
    if needy > 0 {
        for watch in watches {
            let client = watch.client();
            let waits = matches!(watch.place(), Place::Waits(key) if is_at(key));
            if waits && clients.get(&client).is_some_and(|having| is_over(client, having)) {
                watch.give_way();
            }
        }
    }
    let mut idle: Vec<_> = watches
        .iter()
        .filter(|watch| matches!(watch.place(), Place::Holds(key) if is_at(key)))
        .filter_map(|watch| {
            let (why, since_us) = idle(watch, now_us)?;
            let client = watch.client();
            let is_over = clients.get(&client).is_some_and(|having| is_over(client, having));
            let order_us = if why == Idle::Waits { u64::MAX - since_us } else { since_us };
            Some((!is_over, why, order_us, watch))
        })
        .collect();
    idle.sort_unstable_by_key(|(is_within, why, order_us, _)| (*is_within, *why, *order_us));
    let mut given = 0;
    for (is_within, why, _, watch) in idle {
        let most = if why == Idle::Slow { waiting } else { needy };
        let Some(having) = clients.get_mut(&watch.client()) else { continue };
        let is_kept = why == Idle::Waits && (is_within || having.places <= even);
        if given < most && !is_kept {
            having.places = having.places.saturating_sub(1);
            given += 1;
            watch.give_way();
        }
    }
}

/// Why and since when it does not move, if that is long enough.
fn idle(watch: &Watch, now_us: u64) -> Option<(Idle, u64)> {
    let (why, since_us) = match watch.slow_since_us() {
        Some(since_us) => (Idle::Slow, since_us),
        None if watch.is_tunnel() => (Idle::Tunnel, watch.idle_since_us()),
        None => (Idle::Waits, watch.idle_since_us()),
    };
    (since_us.saturating_add(GIVE_WAY_US) <= now_us).then_some((why, since_us))
}

/// Lets bodies of which a part is held give way to those that wait for room, the slowest first. A body gives way only
/// to clients that hold no more than its own: so all that wait for each other do not wait for ever, and no client makes
/// room for itself at the cost of those that hold less.
///
/// - `used`: bytes held by a client.
/// - `free`: bytes that are free.
pub(crate) fn to_bodies(
    watches: &[Rc<Watch>],
    used: impl Fn(u128) -> usize,
    free: usize,
    now_us: u64,
) {
    let lack = |body: &HeldBody, client: Option<u128>| {
        let share = client.map(|client| {
            (free.saturating_mul(HELD_SHARE).saturating_sub(used(client))) / (HELD_SHARE + 1)
        });
        body.lacks.saturating_sub(share.unwrap_or(free).min(free))
    };
    let bodies = watches.iter().filter_map(|watch| {
        let (body, client) = (watch.held_body()?, watch.client());
        let used = client.map_or(body.bytes, &used);
        Some((watch, body, used, lack(&body, client)))
    });
    let mut bodies: Vec<_> = bodies.collect();
    let mut lacking: usize = bodies.iter().map(|(.., lack)| *lack).sum();
    let waiting = bodies.iter().filter(|(.., lack)| *lack > 0);
    let Some(least) = waiting.map(|(_, _, used, _)| *used).min() else { return };
    bodies.retain(|(_, body, used, _)| {
        *used >= least && body.since_us.saturating_add(GIVE_WAY_US) <= now_us
    });
    // Bodies that their clients hold up go first.
    bodies
        .sort_unstable_by_key(|(_, body, used, _)| (body.lacks > 0, body.since_us, Reverse(*used)));
    for (watch, body, _, lack) in bodies {
        if lacking == 0 {
            return;
        }
        lacking = lacking.saturating_sub(body.bytes.saturating_add(lack));
        watch.give_way();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::watch::Watches;

    /// The state of an exchange since a time.
    #[derive(Clone, Copy)]
    enum Does {
        Slow(u64),
        Tunnels(u64),
        Waits(u64),
        Queues,
    }
    use Does::{Queues, Slow, Tunnels, Waits};

    /// Checks the numbers of the exchanges of a gate, given by client, that give way.
    #[track_caller]
    fn check(limit: usize, exchanges: &[(u128, Does)], expect: &[usize]) {
        let watches = Watches::default();
        let add = |(client, does): &(u128, Does)| {
            let watch = watches.add();
            watch.belong_to_client(Some(*client).filter(|client| *client > 0));
            let moved_us = match does {
                Slow(since_us) | Tunnels(since_us) | Waits(since_us) => *since_us,
                Queues => 0,
            };
            watch.set(u64::MAX);
            watches.sweep(moved_us, 0);
            watch.has(if matches!(does, Queues) { Place::Waits(7) } else { Place::Holds(7) });
            watch.client_is_slow(matches!(does, Slow(_)), moved_us);
            watch.tunnels(matches!(does, Tunnels(_)));
            watch
        };
        let all: Vec<_> = exchanges.iter().map(add).collect();
        let elsewhere = watches.add();
        elsewhere.has(Place::Holds(8));
        elsewhere.client_is_slow(true, 1);
        at_gate(&watches.running(), |key| key == 7, limit, GIVE_WAY_US + 100);
        let given = all.iter().enumerate().filter(|(_, watch)| watch.is_expired());
        assert_eq!(given.map(|(number, _)| number).collect::<Vec<_>>(), expect);
        assert!(!elsewhere.is_expired(), "it has a place of another API");
    }

    #[test]
    fn nothing_gives_way_if_nothing_waits() {
        check(2, &[(1, Slow(1)), (1, Tunnels(1))], &[]);
    }

    #[test]
    fn slow_clients_give_way_to_all_the_slowest_first() {
        check(3, &[(1, Slow(30)), (1, Slow(20)), (1, Slow(40)), (1, Queues)], &[1]);
        check(
            3,
            &[(1, Slow(30)), (1, Slow(20)), (1, Slow(101)), (2, Queues), (2, Queues)],
            &[0, 1],
        );
    }

    #[test]
    fn idle_tunnels_give_way_the_longest_idle_first() {
        check(3, &[(1, Tunnels(9)), (2, Tunnels(8)), (3, Tunnels(101)), (4, Queues)], &[1]);
        check(2, &[(1, Tunnels(9)), (1, Tunnels(8)), (1, Queues)], &[1]);
        // Two of three is more than an even share: its tunnel gives way, although another is idle for longer.
        check(3, &[(1, Tunnels(9)), (1, Tunnels(8)), (2, Tunnels(1)), (3, Queues)], &[1]);
    }

    #[test]
    fn requests_that_wait_give_way_only_if_their_client_has_more_than_an_even_share() {
        check(3, &[(1, Waits(1)), (2, Waits(2)), (3, Waits(3)), (4, Queues)], &[]);
        let three = [(1, Waits(1)), (1, Waits(2)), (1, Waits(3))];
        // The youngest.
        check(3, &[&three[..], &[(2, Queues)]].concat(), &[2]);
        check(3, &[&three[..], &[(2, Queues), (2, Queues), (2, Queues)]].concat(), &[1, 2]);
        // Behind a proxy are many clients.
        check(3, &[(0, Waits(1)), (0, Waits(2)), (0, Waits(3)), (2, Queues)], &[]);
    }

    #[test]
    fn a_client_with_more_than_an_even_share_does_not_wait_before_others() {
        let two = [(1, Waits(1)), (1, Waits(2)), (1, Queues)];
        check(2, &[&two[..], &[(2, Queues)]].concat(), &[1, 2]);
        check(2, &[&two[..], &[(1, Queues)]].concat(), &[]);
    }

    /// Checks the numbers of the bodies (client, bytes held, bytes lacking, since when) that give way. `more`: other
    /// bytes held, by client.
    #[track_caller]
    fn check_bodies(
        free: usize,
        bodies: &[(u128, usize, usize, u64)],
        more: &[usize],
        expect: &[usize],
    ) {
        let watches = Watches::default();
        let all: Vec<_> = bodies.iter().map(|_| watches.add()).collect();
        for (watch, (client, bytes, lacks, since_us)) in all.iter().zip(bodies) {
            watch.belong_to_client(Some(*client));
            let (bytes, lacks, since_us) = (*bytes, *lacks, *since_us);
            watch.holds_body(Some(HeldBody { bytes, lacks, since_us }));
        }
        let used = |client: u128| {
            let own = bodies.iter().filter(|(of, ..)| *of == client).map(|(_, bytes, ..)| bytes);
            let more = usize::try_from(client).ok().and_then(|client| more.get(client));
            own.sum::<usize>() + more.copied().unwrap_or_default()
        };
        to_bodies(&watches.running(), used, free, GIVE_WAY_US + 100);
        let given = all.iter().enumerate().filter(|(_, watch)| watch.is_expired());
        assert_eq!(given.map(|(number, _)| number).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn the_slowest_bodies_make_room_for_those_that_wait_and_no_more_than_that() {
        let others = [(1, 30, 0, 20), (1, 30, 0, 10), (2, 60, 0, 30), (3, 60, 0, 101)];
        check_bodies(0, &[&others[..], &[(4, 0, 20, 90)]].concat(), &[], &[1]);
        check_bodies(0, &[&others[..], &[(4, 0, 50, 90)]].concat(), &[], &[0, 1]);
        check_bodies(0, &[&others[..], &[(4, 0, 500, 101)]].concat(), &[], &[0, 1, 2]);
        check_bodies(90, &[&others[..], &[(4, 0, 20, 90)]].concat(), &[], &[]);
    }

    #[test]
    fn bodies_that_all_wait_for_each_other_do_not_wait_for_ever() {
        let all: Vec<_> = (0..8_u8).map(|number| (number.into(), 10, 10, number.into())).collect();
        check_bodies(0, &all, &[], &[0, 1, 2, 3]);
        let own: Vec<_> = (0..8).map(|number| (1, 10, 10, number)).collect();
        check_bodies(0, &own, &[], &[0, 1, 2, 3]);
    }

    #[test]
    fn a_client_makes_no_room_at_the_cost_of_those_that_hold_less() {
        let bodies = [(1, 40, 10, 90), (1, 40, 0, 50), (2, 30, 0, 1)];
        check_bodies(5, &bodies, &[], &[1]);
        // All that the other holds counts, and not only its body that arrives.
        check_bodies(5, &bodies, &[0, 0, 60], &[2]);
        // There is room, but not for this client.
        check_bodies(30, &bodies, &[], &[1]);
    }
}
