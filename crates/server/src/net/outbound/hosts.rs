//! Which host is called next. Hosts that answered lately come first, then unknown ones, and last those that
//! did not answer: each standing has slots of its own, and a call that is slow gives way to others. A host that did not
//! answer rests before it is called again. So hosts that do not answer cost others a second at most, however many they are.
//!
//! A host is an origin, as limits count hosts. At most one call to each is in flight. But an origin can have several machines, and a
//! machine several programs that are called: its lock manager, and clients of NFSv4.0 that any of its users may run. So silence is noted
//! for a single destination, which is an address and port, or a program: calls to others of the origin stay in line, and those to
//! destinations that answered lately come first.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use nfs::service::{Callback, Destination};

use crate::limits::{
    OUTBOUND_CALLS_MAX, OUTBOUND_HOSTS_MAX, OUTBOUND_QUEUED_MAX, OUTBOUND_QUEUED_PER_HOST_MAX, OUTBOUND_SLOW,
    OUTBOUND_WAIT_MAX,
};

/// How long a host rests that did not answer; twice as long after each further call that it did not answer.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(8);
/// How long it is remembered that a host did not answer.
const SILENCE_REMEMBERED: Duration = Duration::from_secs(60);
/// Destinations of a host that are remembered since they answered.
const ANSWERED_MAX: usize = 8;

/// What is known of a host; better ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It answered its last call promptly.
    Prompt,
    Unknown,
    /// It did not answer its last call, or slowly while others waited.
    Silent,
}

impl Standing {
    const ALL: [Standing; 3] = [Standing::Prompt, Standing::Unknown, Standing::Silent];

    /// Returns how many calls to such hosts may be in flight.
    const fn slots(self) -> usize {
        match self {
            Standing::Prompt | Standing::Unknown => OUTBOUND_CALLS_MAX * 3 / 4,
            Standing::Silent => OUTBOUND_CALLS_MAX / 8,
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was answered after this time.
    Answered(Duration),
    /// It failed at once: the host refused the connection, or broke the protocol.
    Failed,
    /// It was not answered in time.
    Silent,
}

struct Host {
    standing: Standing,
    /// When that was last found out.
    since: Instant,
    /// How long it rests after the next call that it does not answer.
    rest: Duration,
    /// When it may be called again.
    rested: Instant,
    /// When a call was last not answered.
    silent: Instant,
    is_called: bool,
    /// Whether the last call went before another one that had come earlier.
    overtook: bool,
    /// Calls that wait, with the times until which they do.
    line: VecDeque<(Callback, Instant)>,
    /// Destinations that answered their last call, the latest last.
    answered: VecDeque<Destination>,
}

impl Host {
    fn new(now: Instant) -> Host {
        Host {
            standing: Standing::Unknown,
            since: now,
            rest: REST_MIN,
            rested: now,
            silent: now,
            is_called: false,
            overtook: false,
            line: VecDeque::new(),
            answered: VecDeque::new(),
        }
    }

    fn has_answered(&self, call: &Callback) -> bool {
        self.answered.contains(&call.to)
    }

    /// Returns the place in line of the call that is made next: the first one to a destination that answered lately, or the first one
    /// of all. One that has waited for long has every second turn.
    fn next_in_line(&self, now: Instant) -> usize {
        let overdue = now + OUTBOUND_WAIT_MAX.saturating_sub(REST_MAX);
        if self.overtook && self.line.front().is_some_and(|(_, until)| *until <= overdue) {
            return 0;
        }
        self.line.iter().position(|(call, _)| self.has_answered(call)).unwrap_or(0)
    }

    /// Returns when it may be called again. For a destination that answered lately, it rests for a second at most after a silence.
    fn ready_at(&self, now: Instant) -> Instant {
        let next = self.line.get(self.next_in_line(now));
        match (next.is_some_and(|(call, _)| self.has_answered(call)), self.standing) {
            (true, Standing::Silent) => self.rested.min(self.silent + REST_MIN),
            (true, _) => self.rested.min(self.since),
            (false, _) => self.rested,
        }
    }

    fn note_answer(&mut self, to: Destination, has_answered: bool) {
        self.answered.retain(|other| *other != to);
        if has_answered {
            self.answered.push_back(to);
        }
        if self.answered.len() > ANSWERED_MAX {
            self.answered.pop_front();
        }
    }

    /// Returns the place in line of the last call to a destination that did not answer lately.
    fn last_unanswered(&self) -> Option<usize> {
        self.line.iter().rposition(|(call, _)| !self.has_answered(call))
    }

    /// Makes room in the line for a call to a destination that answered lately. Returns the call that leaves.
    fn displace_for(&mut self, call: &Callback) -> Option<Callback> {
        if !self.has_answered(call) {
            return None;
        }
        let at = self.last_unanswered()?;
        self.line.remove(at).map(|(call, _)| call)
    }

    fn is_idle(&self) -> bool {
        !self.is_called && self.line.is_empty()
    }
}

/// Why a call does not wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom(pub(super) u64, pub(super) &'static str);

/// The hosts that are called, are to be called, or were called lately.
#[derive(Default)]
pub(super) struct Hosts {
    hosts: HashMap<IpAddr, Host>,
    /// Hosts for which calls wait and none is in flight, by standing.
    next: [VecDeque<IpAddr>; 3],
    /// Calls in flight by standing.
    in_flight: [usize; 3],
    /// Calls in all lines.
    waiting: usize,
}

impl Hosts {
    /// Lets a call wait for its turn.
    ///
    /// # Errors
    /// [`NoRoom`] for this call, or for another one in its place. If the host's own line is full, that is its last call to a destination
    /// that did not answer lately; if there are too many in all, the last such call of the longest line. Lines of hosts that are known
    /// to be silent come first, and of equal ones that whose last call came last.
    pub(super) fn push(&mut self, host: IpAddr, callback: Callback, now: Instant) -> Result<(), NoRoom> {
        self.forget_one(host);
        let to = self.hosts.entry(host).or_insert_with(|| Host::new(now));
        let mut displaced = None;
        if to.line.len() >= OUTBOUND_QUEUED_PER_HOST_MAX {
            let no_room = |id| NoRoom(id, "too many calls wait for this client");
            let Some(other) = to.displace_for(&callback) else { return Err(no_room(callback.id)) };
            self.waiting -= 1;
            displaced = Some(no_room(other.id));
        }
        if to.is_idle() {
            if to.standing == Standing::Silent && now >= to.since + SILENCE_REMEMBERED {
                *to = Host::new(now);
            }
            self.next[to.standing as usize].push_back(host);
        }
        to.line.push_back((callback, now + OUTBOUND_WAIT_MAX));
        self.waiting += 1;
        match displaced {
            Some(displaced) => Err(displaced),
            None if self.waiting > OUTBOUND_QUEUED_MAX => self.shed(),
            None => Ok(()),
        }
    }

    fn shed(&mut self) -> Result<(), NoRoom> {
        let waiting = self.hosts.iter().filter(|(_, host)| !host.line.is_empty());
        let longest = waiting.max_by_key(|(_, host)| {
            let last = host.line.back().map(|(_, until)| *until);
            (host.standing == Standing::Silent, host.line.len(), host.standing, last)
        });
        let Some(address) = longest.map(|(address, _)| *address) else { return Ok(()) };
        let last = self.hosts.get_mut(&address).and_then(|host| {
            let at = host.last_unanswered().or_else(|| host.line.len().checked_sub(1))?;
            host.line.remove(at)
        });
        self.waiting -= usize::from(last.is_some());
        self.remove_if_nothing_waits(address);
        last.map_or(Ok(()), |(call, _)| Err(NoRoom(call.id, "many calls wait, most of them for this client")))
    }

    /// Forgets the idle host about which was learned longest ago, if there is no room for one more.
    fn forget_one(&mut self, newcomer: IpAddr) {
        if self.hosts.len() >= OUTBOUND_HOSTS_MAX && !self.hosts.contains_key(&newcomer) {
            let idle = self.hosts.iter().filter(|(_, host)| host.is_idle());
            if let Some(oldest) = idle.min_by_key(|(_, host)| host.since).map(|(address, _)| *address) {
                self.hosts.remove(&oldest);
            }
        }
    }

    /// Removes a host from those that are called next, if no call waits for it any more.
    fn remove_if_nothing_waits(&mut self, address: IpAddr) {
        let Some(host) = self.hosts.get(&address).filter(|host| host.line.is_empty()) else { return };
        self.next[host.standing as usize].retain(|next| *next != address);
        if host.is_idle() && host.standing == Standing::Unknown && host.answered.is_empty() {
            self.hosts.remove(&address);
        }
    }

    fn has_slot(&self, standing: Standing) -> bool {
        self.in_flight.iter().sum::<usize>() < OUTBOUND_CALLS_MAX
            && self.in_flight[standing as usize] < standing.slots()
    }

    /// Returns the first host of a standing that has rested.
    fn first_rested(&self, standing: Standing, now: Instant) -> Option<usize> {
        let has_rested = |address| self.hosts.get(address).is_some_and(|host| host.ready_at(now) <= now);
        self.next[standing as usize].iter().position(has_rested)
    }

    /// Returns the call to begin now, if there is one. [`Hosts::ended`] must follow.
    pub(super) fn begin_next(&mut self, now: Instant) -> Option<(IpAddr, Callback)> {
        for standing in Standing::ALL.into_iter().filter(|standing| self.has_slot(*standing)) {
            let Some(index) = self.first_rested(standing, now) else { continue };
            let address = self.next[standing as usize].remove(index)?;
            let host = self.hosts.get_mut(&address)?;
            let at = host.next_in_line(now);
            let (callback, _) = host.line.remove(at)?;
            (host.is_called, host.overtook) = (true, at != 0);
            self.in_flight[standing as usize] += 1;
            self.waiting -= 1;
            return Some((address, callback));
        }
        None
    }

    /// Returns the best standing of a host that only waits for a slot.
    pub(super) fn blocked(&self, now: Instant) -> Option<Standing> {
        let is_blocked =
            |standing: &Standing| !self.has_slot(*standing) && self.first_rested(*standing, now).is_some();
        Standing::ALL.into_iter().find(is_blocked)
    }

    /// Returns whether a call to `host` would leave its slot to hosts of a standing.
    pub(super) fn can_give_way(&self, host: IpAddr, to: Standing) -> bool {
        let has_all_its_slots = self.in_flight[to as usize] >= to.slots();
        self.hosts
            .get(&host)
            .is_some_and(|host| host.standing == to || host.standing > to && !has_all_its_slots)
    }

    /// Notes how the call to a host ended, which went to `to`. Returns the calls that would not be answered either.
    pub(super) fn ended(&mut self, address: IpAddr, to: Destination, how: Ending, now: Instant) -> Vec<u64> {
        let Some(host) = self.hosts.get_mut(&address) else { return Vec::new() };
        self.in_flight[host.standing as usize] -= 1;
        host.is_called = false;
        host.since = now;
        host.note_answer(to, matches!(how, Ending::Answered(_)));
        let mut lost = Vec::new();
        match how {
            Ending::Answered(after) => {
                host.standing = if after < OUTBOUND_SLOW { Standing::Prompt } else { Standing::Unknown };
                host.rest = REST_MIN;
            }
            Ending::Failed => host.standing = host.standing.max(Standing::Unknown),
            Ending::Silent => {
                host.standing = Standing::Silent;
                host.silent = now;
                host.rested = now + host.rest;
                host.rest = (2 * host.rest).min(REST_MAX);
                lost.extend(host.line.iter().filter(|(call, _)| call.to == to).map(|(call, _)| call.id));
                host.line.retain(|(call, _)| call.to != to);
                self.waiting -= lost.len();
            }
        }
        if host.line.is_empty() {
            self.remove_if_nothing_waits(address);
        } else {
            self.next[host.standing as usize].push_back(address);
        }
        lost
    }

    /// Removes the calls that have waited for too long.
    pub(super) fn take_late(&mut self, now: Instant) -> Vec<u64> {
        let mut late = Vec::new();
        let mut emptied = Vec::new();
        for (address, host) in &mut self.hosts {
            while host.line.front().is_some_and(|(_, until)| *until <= now) {
                late.extend(host.line.pop_front().map(|(callback, _)| callback.id));
                emptied.push(*address);
            }
        }
        self.waiting -= late.len();
        emptied.into_iter().for_each(|address| self.remove_if_nothing_waits(address));
        late
    }

    /// Returns when a waiting call is late or a host has rested, whichever is first.
    pub(super) fn next_change(&self, now: Instant) -> Option<Instant> {
        let of_host = |host: &Host| {
            let ((_, until), ready) = (host.line.front()?, host.ready_at(now));
            Some(if ready > now { ready.min(*until) } else { *until })
        };
        self.hosts.values().filter_map(of_host).min()
    }
}

#[cfg(test)]
mod tests;
