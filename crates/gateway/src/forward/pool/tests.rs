//! Waits for connections, and the limits on idle ones.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use model::{Blame, ConnectionLimits};

use crate::forward::balance::tests::endpoint;
use base::SystemEntropy;

use super::*;
use crate::body::Held;
use crate::forward::connect::Registered;
use crate::forward::shared::Shared;
use crate::own_requests::own_body::OwnBody;
use crate::simulation::Silence;

/// Milliseconds until a request fails that waits `queued_ms` for the connection of another, and then connects.
fn failed_after(queued_ms: u64, latest_ms: u64) -> (u64, ConnectFailure) {
    let silence = Silence::new();
    let resources = Resources::new(silence.clock(), 0);
    let limits = ConnectionLimits { in_use_max: Some(1), ..ConnectionLimits::default() };
    let limits = SetLimits::new(&limits, 1);
    let pool = Pools::default().of(&endpoint(0));
    let mut other = limits.gate.as_ref().unwrap().try_pass();
    let tls = ClientTls::insecure();
    let leasing = Leasing {
        resources: &resources,
        freshness: Freshness::Any,
        tls: &tls,
        limits: &limits,
        connect_ms: 5_000,
        latest_us: resources.coarse_us() + latest_ms * 1_000,
    };
    let mut body = OwnBody::new(Held::default(), &resources);
    let mut lease = pin!(pool.lease(leasing, &mut body));
    let mut cx = Context::from_waker(Waker::noop());
    for ms in 0.. {
        if ms == queued_ms {
            other = None;
        }
        silence.advance(1);
        resources.sweep();
        match lease.as_mut().poll(&mut cx) {
            Poll::Pending => {}
            Poll::Ready(Ok(_)) => panic!("nobody answers"),
            Poll::Ready(Err(failure)) => return (ms, failure),
        }
    }
    drop(other);
    unreachable!()
}

#[test]
fn the_wait_for_other_connections_leaves_as_much_time_to_connect() {
    let (after_ms, failure) = failed_after(4_000, 60_000);
    assert!((9_000..9_010).contains(&after_ms), "{after_ms}");
    assert!(matches!(*failure.fault, Fault::ConnectTimeout { waited_ms: 5_000, .. }));
    assert!(!failure.endpoint_blameless);
    let (after_ms, failure) = failed_after(4_000, 6_000);
    assert!((6_000..6_010).contains(&after_ms), "{after_ms}");
    assert!(failure.endpoint_blameless, "there was no time left to connect");
    let (after_ms, failure) = failed_after(u64::MAX, 60_000);
    assert!((5_000..5_010).contains(&after_ms), "{after_ms}");
    assert!(failure.endpoint_blameless, "it is not the endpoint's queue");
}

fn pools(open_max: usize, idle_max: usize) -> Pools {
    Pools::new(Shared::new(1, &SystemEntropy), PoolLimits { open_max, idle_max })
}

/// Releases a connection to the endpoint with this number, at a time.
fn release(silence: &Silence, pools: &Pools, number: u16, now_us: u64) {
    let pool = pools.of(&endpoint(number));
    let lease = Lease { _passes: pool.enter(), idle_max: 99, pool };
    let ip = [127, 0, 0, 1].into();
    let connected = Connected { stream: silence.stream(), ip, registered: Registered::default() };
    Box::new(Connection::new(connected, now_us, lease)).release(now_us);
}

#[test]
fn idle_connections_to_all_endpoints_together_are_limited() {
    let silence = Silence::new();
    let pools = pools(99, 8);
    let idle = || {
        let mut idle = Vec::new();
        pools.each(|_, _, figures| idle.push(figures.idle));
        (idle, pools.all.idle.get())
    };
    for now_us in 1..=8 {
        release(&silence, &pools, if now_us < 4 { 1 } else { 2 }, now_us);
    }
    assert_eq!(idle(), (vec![3, 5], 8));
    release(&silence, &pools, 2, 9);
    assert_eq!(idle(), (vec![2, 6], 8), "the longest idle is closed");
    pools.sweep(u64::MAX);
    assert_eq!(pools.all.idle.get(), 0);
}

/// However few requests there are: mediation may send one to many endpoints.
#[test]
fn connections_to_all_endpoints_together_are_limited() {
    let silence = Silence::new();
    let resources = Resources::new(silence.clock(), 0);
    let pools = pools(3, 3);
    let (tls, limits) = (ClientTls::insecure(), SetLimits::new(&ConnectionLimits::default(), 1));
    let lease = |number, body| {
        let leasing = Leasing {
            resources: &resources,
            freshness: Freshness::Any,
            tls: &tls,
            limits: &limits,
            connect_ms: 5_000,
            latest_us: u64::MAX,
        };
        let pool = pools.of(&endpoint(number));
        async move { pool.lease(leasing, body).await }
    };
    let mut bodies = [(); 5].map(|()| OwnBody::new(Held::default(), &resources));
    let [one, two, three, four, five] = &mut bodies;
    let cx = &mut Context::from_waker(Waker::noop());
    let now_us = resources.coarse_us();
    (0..3).for_each(|_| release(&silence, &pools, 1, now_us));
    let (mut one, mut two) = (Box::pin(lease(1, one)), Box::pin(lease(1, two)));
    let Poll::Ready(Ok(first)) = one.as_mut().poll(cx) else { panic!("it is idle") };
    let Poll::Ready(Ok(_second)) = two.as_mut().poll(cx) else { panic!("it is idle") };
    assert_eq!(pools.all.idle.get(), 1);
    let mut three = pin!(lease(2, three));
    assert!(three.as_mut().poll(cx).is_pending(), "nobody answers");
    assert_eq!(pools.all.idle.get(), 0, "the idle one was closed in its place");
    let (mut four, mut five) = (pin!(lease(1, four)), pin!(lease(2, five)));
    assert!(four.as_mut().poll(cx).is_pending() && five.as_mut().poll(cx).is_pending());
    assert_eq!(pools.all.in_use.waiting(), 2);
    first.release(now_us);
    let Poll::Ready(Ok(_third)) = four.as_mut().poll(cx) else { panic!("there is room again") };
    assert!(five.as_mut().poll(cx).is_pending());
    (0..2).for_each(|_| {
        silence.advance(6_000);
        resources.sweep();
    });
    let Poll::Ready(Err(failed)) = five.as_mut().poll(cx) else { panic!("its time is up") };
    assert!(failed.endpoint_blameless);
    assert_eq!(*failed.fault, Fault::Denied(Denial::Overloaded));
}

#[test]
fn idle_connections_make_room_when_descriptors_run_out() {
    let silence = Silence::new();
    let resources = Resources::new(silence.clock(), 0);
    let pools = pools(99, 8);
    let (tls, limits) = (ClientTls::insecure(), SetLimits::new(&ConnectionLimits::default(), 1));
    let attempts = || {
        silence.lack_descriptors();
        let leasing = Leasing {
            resources: &resources,
            freshness: Freshness::Any,
            tls: &tls,
            limits: &limits,
            connect_ms: 5_000,
            latest_us: u64::MAX,
        };
        let (pool, mut body) = (pools.of(&endpoint(2)), OwnBody::new(Held::default(), &resources));
        let lease = pin!(pool.lease(leasing, &mut body));
        let Poll::Ready(failed) = lease.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it fails at once");
        };
        let failed = failed.expect_err("there is no descriptor");
        assert!(failed.endpoint_blameless && failed.fault.blame() == Blame::Gateway);
        silence.lack_descriptors()
    };
    assert_eq!(attempts(), 1, "nothing can be closed");
    release(&silence, &pools, 1, 1);
    assert_eq!((attempts(), pools.all.idle.get()), (2, 0));
}
