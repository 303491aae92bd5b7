//! Waits for connections, and the limits on idle ones.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use model::ConnectionLimits;

use super::super::balance::tests::endpoint;
use base::SystemEntropy;

use super::*;
use crate::flow::Held;
use crate::forward::OwnBody;
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

/// Releases a connection to the endpoint with this number, at a time.
fn release(silence: &Silence, pools: &Pools, number: u16, now_us: u64) {
    let pool = pools.of(&endpoint(number));
    let lease = Lease { _passes: (pool.enter(), None), idle_max: 99, pool };
    let ip = [127, 0, 0, 1].into();
    Box::new(Connection::new((silence.stream(), None), (ip, 0), lease)).release(now_us);
}

#[test]
fn idle_connections_to_all_endpoints_together_are_limited() {
    let silence = Silence::new();
    let pools = Pools::new(Shared::new(1, &SystemEntropy), 8);
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

#[test]
fn idle_connections_make_room_when_descriptors_run_out() {
    let silence = Silence::new();
    let resources = Resources::new(silence.clock(), 0);
    let pools = Pools::new(Shared::new(1, &SystemEntropy), 8);
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
        assert!(failed.is_err_and(|failure| failure.endpoint_blameless));
        silence.lack_descriptors()
    };
    assert_eq!(attempts(), 1, "nothing can be closed");
    release(&silence, &pools, 1, 1);
    assert_eq!((attempts(), pools.all.idle.get()), (2, 0));
}
