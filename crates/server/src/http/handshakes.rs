//! Limits on TLS: each handshake costs a signature, any admitted host may begin one, and records without content cost too.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// Connections for which what their peers sent is decrypted, or steps of a handshake are computed, at once. One that waits for
/// its peer does not count.
const COMPUTED_MAX: usize = 2;

/// Handshakes of one host in each [`WINDOW`].
const PER_HOST_MAX: usize = 20;

/// The time in which handshakes are counted.
const WINDOW: Duration = Duration::from_secs(10);

/// Hosts that are told apart in a window. The others count as one.
const HOSTS_MAX: usize = 1024;

/// Handshakes of those others in each window: one for each of as many.
const OTHERS_MAX: usize = HOSTS_MAX;

/// The handshakes of a listener.
#[derive(Default)]
pub(super) struct Handshakes {
    rate: Mutex<Rate>,
    computed: [Mutex<()>; COMPUTED_MAX],
    /// The one of them that the next connection waits for.
    next: AtomicUsize,
}

/// The handshakes that began in a window.
#[derive(Default)]
struct Rate {
    began: Option<Instant>,
    by_host: HashMap<Option<IpAddr>, usize>,
    others: usize,
}

/// The right to compute what a peer sent.
pub(super) struct Permit<'a>(Option<MutexGuard<'a, ()>>);

impl Handshakes {
    /// Whether a host, as limits count it, may begin a handshake now; counts it.
    pub(super) fn begin(&self, host: Option<IpAddr>, now: Instant) -> bool {
        let mut rate = self.rate.lock();
        if rate.began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW) {
            *rate = Rate { began: Some(now), ..Rate::default() };
        }
        if rate.by_host.len() >= HOSTS_MAX && !rate.by_host.contains_key(&host) {
            rate.others += 1;
            return rate.others <= OTHERS_MAX;
        }
        let count = rate.by_host.entry(host).or_default();
        *count += 1;
        *count <= PER_HOST_MAX
    }

    /// Waits until what a peer sent may be computed.
    pub(super) fn permit(&self) -> Permit<'_> {
        let free = self.computed.iter().find_map(Mutex::try_lock);
        let wait = || self.computed[self.next.fetch_add(1, Ordering::Relaxed) % COMPUTED_MAX].lock();
        Permit(Some(free.unwrap_or_else(wait)))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(computed) = self.0.take() {
            // To the one that has waited longest: a peer that sends on and on must not go first again and again.
            MutexGuard::unlock_fair(computed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_begins_some_handshakes_in_a_window() {
        let (handshakes, now) = (Handshakes::default(), Instant::now());
        let host = |number: u8| Some(IpAddr::from([192, 0, 2, number]));
        let begun = |number, now| (0..100).filter(|_| handshakes.begin(host(number), now)).count();
        assert_eq!((begun(1, now), begun(2, now)), (PER_HOST_MAX, PER_HOST_MAX));
        assert_eq!((begun(1, now + WINDOW / 2), begun(1, now + WINDOW)), (0, PER_HOST_MAX));
    }

    #[test]
    fn very_many_hosts_do_not_lock_others_out() {
        let (handshakes, now) = (Handshakes::default(), Instant::now());
        let host = |number: usize| Some(IpAddr::from(u32::try_from(number).unwrap().to_be_bytes()));
        assert!((0..HOSTS_MAX + OTHERS_MAX).all(|number| handshakes.begin(host(number), now)));
        assert!(!handshakes.begin(host(HOSTS_MAX + OTHERS_MAX), now));
        assert!(handshakes.begin(host(0), now), "it is told apart");
    }

    #[test]
    fn two_are_computed_at_once() {
        let handshakes = Handshakes::default();
        let both = [handshakes.permit(), handshakes.permit()];
        std::thread::scope(|scope| {
            let third = scope.spawn(|| drop(handshakes.permit()));
            assert!(!third.is_finished());
            drop(both);
        });
        assert!(handshakes.computed.iter().all(|computed| !computed.is_locked()));
    }
}
