//! The open connections of a listener: how many there may be, which gives way to a new one, and the means to close them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::connection::Stream;
use super::response::SMALL_BYTES;
use super::{CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, REPLY_BYTES_MAX, STREAMS_MAX, STREAMS_PER_PEER_MAX};

/// How long a connection of a host without a token has for its handshake and a request before it gives way to one of another such
/// host, unless its host has several.
pub(super) const YOUNG_MAX: Duration = Duration::from_secs(2);

/// How long it is remembered that somebody at a host showed a token.
pub(super) const TRUST_MAX: Duration = Duration::from_secs(3600);

/// Most hosts that are remembered for a token.
pub(super) const TRUSTED_MAX: usize = CONNECTIONS_MAX;

/// The open connections.
#[derive(Default)]
pub(super) struct Connections {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: u64,
    open: HashMap<u64, Open>,
    /// When somebody at a host showed a token last.
    trusted: HashMap<IpAddr, Instant>,
}

/// What speaks for a connection when one must give way. The least goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Its host has shown no token lately.
    Stranger,
    /// Its host has, but not by this connection: an administrator who connects anew is not displaced by hosts that have none.
    OfTrustedHost,
    /// Its last request came from a known caller: a process of this machine, or the bearer of a token.
    Known,
}

struct Open {
    /// The host, as limits count it; none for processes of this machine, which have the permissions of the socket.
    origin: Option<IpAddr>,
    standing: Standing,
    began: Instant,
    /// It is sent a stream, which ends with it.
    is_stream: bool,
    /// Since when no answer is being made for it. `None` while one is, and for a stream.
    idle: Option<Instant>,
    /// The bytes of the reply that it is being sent.
    reply: usize,
    /// A second descriptor of the socket.
    stream: Box<dyn Stream>,
}

impl Connections {
    /// Adds a connection. If there are too many of its host, the one of them that has been idle longest is closed for it; if there
    /// are too many in all, one of a host that showed no token lately. Returns `None` if none may be closed.
    pub(super) fn add(&self, origin: Option<IpAddr>, stream: Box<dyn Stream>) -> Option<u64> {
        self.add_at(origin, stream, Instant::now())
    }

    /// As [`Connections::add`], at this time.
    pub(super) fn add_at(
        &self,
        origin: Option<IpAddr>,
        stream: Box<dyn Stream>,
        now: Instant,
    ) -> Option<u64> {
        let mut state = self.state.lock();
        let standing = state.standing_of(origin, now);
        if origin.is_some() && state.of(origin) >= CONNECTIONS_PER_PEER_MAX {
            state.close_idlest(|open| open.origin == origin)?;
        } else if state.open.len() >= CONNECTIONS_MAX {
            state.make_room(standing, now)?;
        }
        state.next += 1;
        let number = state.next;
        let open = Open { origin, standing, began: now, is_stream: false, idle: Some(now), reply: 0, stream };
        state.open.insert(number, open);
        Some(number)
    }

    /// Notes whether the caller of the request that arrives is known.
    pub(super) fn note_caller(&self, number: u64, is_known: bool) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        let Some(origin) = state.open.get(&number).map(|open| open.origin) else { return };
        if is_known {
            state.trust(origin, now);
        }
        let standing = if is_known { Standing::Known } else { state.standing_of(origin, now) };
        if let Some(open) = state.open.get_mut(&number) {
            open.standing = standing;
        }
    }

    /// Notes that a whole request has arrived and its answer is being made. Before and after that, the connection counts as idle: a
    /// peer that sends or receives slowly must not keep others out.
    pub(super) fn set_busy(&self, number: u64) {
        if let Some(open) = self.state.lock().open.get_mut(&number) {
            open.idle = None;
        }
    }

    /// Notes that a connection is sent a stream until it is closed, unless too many are, in all or of its host.
    pub(super) fn begin_stream(&self, number: u64) -> bool {
        let mut state = self.state.lock();
        let origin = state.open.get(&number).and_then(|open| open.origin);
        let streams = || state.open.values().filter(|open| open.is_stream);
        let of_host = streams().filter(|open| open.origin == origin).count();
        if streams().count() >= STREAMS_MAX || (origin.is_some() && of_host >= STREAMS_PER_PEER_MAX) {
            return false;
        }
        if let Some(open) = state.open.get_mut(&number) {
            open.is_stream = true;
        }
        true
    }

    /// Notes that the answer for a connection is made, and that this many bytes are being sent. If replies hold too much, others that
    /// are being sent are given up for it. A small one, such as a refusal, does not count, so nobody without a token cuts off others.
    pub(super) fn begin_reply(&self, number: u64, bytes: usize) {
        let mut state = self.state.lock();
        let Some(open) = state.open.get_mut(&number) else { return };
        open.idle = Some(Instant::now());
        if bytes <= SMALL_BYTES {
            return;
        }
        open.reply = bytes;
        while state.reply_bytes(|_| true) > REPLY_BYTES_MAX && state.close_slowest_reply(number).is_some() {}
    }

    /// Notes that a reply was sent.
    pub(super) fn end_reply(&self, number: u64) {
        if let Some(open) = self.state.lock().open.get_mut(&number) {
            open.reply = 0;
        }
    }

    /// Removes a connection.
    pub(super) fn remove(&self, number: u64) {
        self.state.lock().open.remove(&number);
    }

    /// Ends the reads and writes of all connections.
    pub(super) fn shut_down(&self) {
        for open in self.state.lock().open.values() {
            open.stream.shut_down();
        }
    }
}

impl State {
    fn of(&self, origin: Option<IpAddr>) -> usize {
        self.open.values().filter(|open| open.origin == origin).count()
    }

    /// Returns the bytes of the replies that some connections are being sent.
    fn reply_bytes(&self, of: impl Fn(&Open) -> bool) -> usize {
        self.open.values().filter(|open| of(open)).map(|open| open.reply).sum()
    }

    /// Closes the connection to which a reply has been sent for longest, of those of the host with the most bytes; not `but`.
    fn close_slowest_reply(&mut self, but: u64) -> Option<()> {
        let others = self.open.iter().filter(|(number, open)| **number != but && open.reply > 0);
        let slowest = others.max_by_key(|(number, open)| {
            let of_host = self.reply_bytes(|other| other.origin == open.origin);
            (of_host, Reverse(open.idle), Reverse(**number))
        });
        let number = *slowest?.0;
        self.open.remove(&number)?.stream.shut_down();
        Some(())
    }

    /// Returns what speaks for a connection of a host before it has shown a token.
    fn standing_of(&self, origin: Option<IpAddr>, now: Instant) -> Standing {
        let Some(host) = origin else { return Standing::Known };
        let shown = self.trusted.get(&host);
        match shown.is_some_and(|shown| now.saturating_duration_since(*shown) < TRUST_MAX) {
            true => Standing::OfTrustedHost,
            false => Standing::Stranger,
        }
    }

    /// Remembers that somebody at a host showed a token.
    fn trust(&mut self, origin: Option<IpAddr>, now: Instant) {
        let Some(host) = origin else { return };
        if self.trusted.len() >= TRUSTED_MAX && !self.trusted.contains_key(&host) {
            let oldest = self.trusted.iter().min_by_key(|(_, shown)| **shown).map(|(host, _)| *host);
            oldest.map(|oldest| self.trusted.remove(&oldest));
        }
        self.trusted.insert(host, now);
    }

    /// Closes an idle connection for a new one of any host. While there are strangers, it is one of them. It is not one that has
    /// just begun if a stranger comes, of another host: however many hosts without a token connect again and again, who gets a
    /// place has it for long enough to show one.
    fn make_room(&mut self, newcomer: Standing, now: Instant) -> Option<()> {
        let strangers = self.open.values().filter(|open| open.standing == Standing::Stranger);
        let mut by_host: HashMap<Option<IpAddr>, usize> = HashMap::new();
        strangers.for_each(|open| *by_host.entry(open.origin).or_default() += 1);
        if newcomer > Standing::Stranger || by_host.is_empty() {
            return self.close_idlest(|_| true);
        }
        let is_young = |open: &Open| now.saturating_duration_since(open.began) < YOUNG_MAX;
        let is_one = |open: &Open| by_host.get(&open.origin) == Some(&1);
        self.close_idlest(|open| open.standing == Standing::Stranger && !(is_young(open) && is_one(open)))
    }

    /// Closes an idle connection that `may` go: of those with the least standing the one idle longest. That ends its thread.
    fn close_idlest(&mut self, may: impl Fn(&Open) -> bool) -> Option<()> {
        let idle = self
            .open
            .iter()
            .filter(|(_, open)| may(open))
            .filter_map(|(number, open)| Some((open.standing, open.idle?, *number)));
        let (_, _, number) = idle.min()?;
        self.open.remove(&number)?.stream.shut_down();
        Some(())
    }
}
