//! Limits the datagrams that are answered per second, for each origin and in total.

use std::collections::HashMap;
use std::net::IpAddr;

use volume::time::Time;

use crate::limits::{DATAGRAM_ORIGINS_MAX, DATAGRAMS_PER_SECOND_MAX, ORIGIN_DATAGRAMS_PER_SECOND_MAX};

const NANOS: i64 = 1_000_000_000;

/// The generic cell rate algorithm, with a burst of what a second allows: when the datagrams so far would have come, one after
/// another at the permitted rate.
#[derive(Clone, Copy, Debug, Default)]
struct Schedule(i64);

impl Schedule {
    /// Counts one more, unless it comes too early.
    fn admits(&mut self, per_second: u32, now: i64) -> bool {
        let interval = NANOS / i64::from(per_second);
        let is_early = self.0.max(now) + interval - now > NANOS;
        if !is_early {
            self.0 = self.0.max(now) + interval;
        }
        !is_early
    }
}

/// The datagrams of all origins.
#[derive(Debug, Default)]
pub(super) struct Rates {
    all: Schedule,
    origins: HashMap<IpAddr, Schedule>,
}

impl Rates {
    /// Counts a datagram of `origin` at this time of the steady clock. Returns whether it may be answered.
    pub(super) fn admits(&mut self, origin: IpAddr, now: Time) -> bool {
        let now = now.nanos();
        if !self.origins.contains_key(&origin) && self.origins.len() >= DATAGRAM_ORIGINS_MAX {
            // Those that may send as much as newcomers need not be known.
            self.origins.retain(|_, schedule| schedule.0 > now);
            if self.origins.len() >= DATAGRAM_ORIGINS_MAX {
                return false;
            }
        }
        let schedule = self.origins.entry(origin).or_default();
        schedule.admits(ORIGIN_DATAGRAMS_PER_SECOND_MAX, now)
            && self.all.admits(DATAGRAMS_PER_SECOND_MAX, now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    /// Sends datagrams of a host at once. Returns how many were admitted.
    fn send(rates: &mut Rates, host: IpAddr, count: u32, milliseconds: i64) -> u32 {
        let now = Time::from_nanos(milliseconds * 1_000_000);
        (0..count).map(|_| u32::from(rates.admits(host, now))).sum()
    }

    #[test]
    fn an_origin_has_its_rate_and_leaves_room_for_others() {
        let (rate, mut rates) = (ORIGIN_DATAGRAMS_PER_SECOND_MAX, Rates::default());
        assert_eq!(send(&mut rates, host(1), 3 * rate, 0), rate);
        assert_eq!(send(&mut rates, host(2), 10, 0), 10);
        assert_eq!(send(&mut rates, host(1), rate, 500), rate / 2);
        assert_eq!(send(&mut rates, host(1), 3 * rate, 60_000), rate);
    }

    #[test]
    fn all_together_have_a_rate() {
        let (mut rates, mut admitted) = (Rates::default(), 0);
        for number in 0..20 {
            admitted += send(&mut rates, host(number), ORIGIN_DATAGRAMS_PER_SECOND_MAX, 0);
        }
        assert_eq!(admitted, DATAGRAMS_PER_SECOND_MAX);
    }

    #[test]
    fn origins_are_bounded_and_idle_ones_give_way() {
        let mut rates = Rates::default();
        let most = u32::try_from(DATAGRAM_ORIGINS_MAX).unwrap();
        for number in 0..most {
            rates.admits(host(number), Time::EPOCH);
        }
        assert!(!rates.admits(host(most), Time::EPOCH));
        assert_eq!(send(&mut rates, host(most), 1, 60_000), 1);
        assert_eq!(rates.origins.len(), 1);
    }
}
