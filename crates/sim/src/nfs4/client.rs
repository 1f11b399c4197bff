//! Virtual clients: what they know, and which operation they choose next.

use std::collections::{BTreeMap, VecDeque};

use wire::nfs4::*;

use super::op::{CreateMode, LockRange, NameOp, Op, REGIONS, Requester};
use super::state::{HeldState, StateKind};
use crate::random::Random;

/// The names of a slot: each is a file with its number, or a directory.
pub(super) type Names = BTreeMap<String, Option<usize>>;

/// The phase of a client's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The server does not know it.
    New,
    /// It has a client id.
    HasClientId,
    /// It has a session, and must send RECLAIM_COMPLETE.
    HasSession,
    /// It works.
    Ready,
    /// It died, or lost its state and continues as another client.
    Gone,
}

/// A sequence of requests, one at a time: a slot of a session, or the owners of NFSv4.0.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) sequence: u32,
    pub(super) outstanding: Option<usize>,
    /// The state that the client holds in this slot, as far as it was told.
    pub(super) known: Vec<HeldState>,
    /// Stateids that it has closed, with their files.
    pub(super) old: Vec<(Stateid4, usize)>,
    /// Delegations returned since the server started. A crash may bring them back until a lease has passed.
    pub(super) returned: Vec<(Stateid4, usize)>,
    /// Operations to do next.
    pub(super) duties: VecDeque<Op>,
    pub(super) open_seqid: u32,
    pub(super) lock_seqid: u32,
    /// The possible sets of names; the last one if the outstanding request was executed.
    pub(super) names: Vec<Names>,
    /// The number of names created.
    pub(super) made: u32,
}

/// A client, from its start until it loses its state.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) minor: u32,
    pub(super) name: String,
    /// The number of its host, which decides its address.
    pub(super) host: usize,
    pub(super) phase: Phase,
    pub(super) clientid: ClientId4,
    pub(super) sessionid: SessionId4,
    pub(super) confirm: Verifier4,
    pub(super) create_sequence: u32,
    pub(super) connections: Vec<u64>,
    /// Whether callbacks need a connection.
    pub(super) unbound: bool,
    /// The end of the partition.
    pub(super) partitioned_until: i64,
    /// The last time the server received a request that renews the lease.
    pub(super) contact: i64,
    /// Whether it was silent for longer than a lease, so that its state may be revoked.
    pub(super) overdue: bool,
    pub(super) slots: Vec<Slot>,
    /// Delegations that were recalled before the client knew them.
    pub(super) recalled: Vec<[u8; 12]>,
}

/// What the choice of an operation depends on, besides the client.
pub(super) struct Choice<'a> {
    pub(super) random: &'a mut Random,
    pub(super) shared: usize,
    /// The number of the next new file.
    pub(super) next_file: usize,
    /// A value that was never written.
    pub(super) next_value: u64,
    pub(super) now: i64,
    pub(super) lease: i64,
    /// Whether the run is ending: clients begin nothing new.
    pub(super) ending: bool,
}

/// Returns the name of a shared file.
pub(super) fn shared_name(file: usize) -> String {
    format!("shared{file}")
}

impl Client {
    pub(super) fn new(minor: u32, (name, host): (String, usize), slots: usize, now: i64) -> Client {
        let slot = || Slot { names: vec![Names::new()], ..Slot::default() };
        Client {
            minor,
            name,
            host,
            phase: Phase::New,
            clientid: ClientId4::default(),
            sessionid: SessionId4::default(),
            confirm: Verifier4::default(),
            create_sequence: 0,
            connections: Vec::new(),
            unbound: false,
            partitioned_until: 0,
            contact: now,
            overdue: false,
            slots: (0..slots).map(|_| slot()).collect(),
            recalled: Vec::new(),
        }
    }

    /// Returns the requester of a slot. `number` distinguishes this life of the client from others.
    pub(super) fn requester(&self, number: usize, slot: usize, cache: bool) -> Requester {
        let [low, high, ..] = self.host.to_le_bytes();
        Requester {
            minor: self.minor,
            name: self.name.clone(),
            verifier: (number as u64 + 1).to_be_bytes(),
            clientid: self.clientid,
            sessionid: self.sessionid,
            confirm: self.confirm,
            create_sequence: self.create_sequence,
            slots: u32::try_from(self.slots.len()).expect("a few slots"),
            slot,
            sequence: self.slots[slot].sequence,
            open_seqid: self.slots[slot].open_seqid,
            lock_seqid: self.slots[slot].lock_seqid,
            cache,
            callback_address: format!("10.1.{high}.{low}.8.1"),
        }
    }

    /// Returns the slot's next operation; `None` if it has nothing to do.
    pub(super) fn choose(&mut self, number: usize, slot: usize, choice: &mut Choice<'_>) -> Option<Op> {
        let first = slot == 0;
        match self.phase {
            Phase::Gone => return None,
            Phase::New if self.minor == 0 => return first.then_some(Op::SetClient),
            Phase::New => return first.then_some(Op::Exchange),
            Phase::HasClientId if self.minor == 0 => return first.then_some(Op::ConfirmClient),
            Phase::HasClientId => return first.then_some(Op::CreateSession),
            Phase::HasSession => return first.then_some(Op::Complete),
            Phase::Ready => {}
        }
        if let Some(op) = self.slots[slot].duties.pop_front() {
            return Some(op);
        }
        if self.unbound && self.minor > 0 && choice.random.chance(1, 3) {
            return Some(Op::Bind);
        }
        if choice.now - self.contact > choice.lease / 3 {
            return Some(Op::Renew);
        }
        if choice.ending {
            return self.finish(slot);
        }
        let kind = choice.random.below(100);
        match kind {
            0..=1 => Some(Op::Renew),
            2..=21 => self.open_shared(slot, choice),
            22..=29 => self.create(number, slot, choice),
            30..=41 => self.name(number, slot, choice),
            _ => self.use_held(slot, kind, choice),
        }
    }

    /// Returns the operation that gives up some state.
    fn finish(&self, slot: usize) -> Option<Op> {
        let known = &self.slots[slot].known;
        let op = |held: &HeldState| match held.kind {
            StateKind::Open { .. } => Some(Op::Close { file: held.file, stateid: held.stateid }),
            StateKind::Delegation { .. } => Some(Op::Return { file: held.file, stateid: held.stateid }),
            StateKind::Locks { .. } => None,
        };
        known.iter().find_map(op)
    }

    fn open_shared(&self, slot: usize, choice: &mut Choice<'_>) -> Option<Op> {
        if self.slots[slot].known.len() > 6 {
            return self.finish(slot);
        }
        let random = &mut *choice.random;
        let file = random.index(choice.shared);
        let access = *random.pick(&[1, 2, 3, 3]);
        let deny = *random.pick(&[0, 0, 0, 0, 0, 0, 1, 2, 3]);
        let how = random.chance(1, 6).then_some(CreateMode::Unchecked);
        let want = *random.pick(&[0, 0, 0x100, 0x200, 0x300, 0x400]);
        Some(Op::Open { file, name: shared_name(file), access, deny, how, want })
    }

    /// Returns the only possible set of names while no request is outstanding.
    fn own(&self, slot: usize) -> &Names {
        self.slots[slot].names.last().expect("there is always one")
    }

    fn new_name(&mut self, number: usize, slot: usize) -> String {
        self.slots[slot].made += 1;
        format!("own{number}.{slot}.{}", self.slots[slot].made)
    }

    fn create(&mut self, number: usize, slot: usize, choice: &mut Choice<'_>) -> Option<Op> {
        if self.own(slot).len() >= 6 || self.slots[slot].known.len() > 6 {
            return self.finish(slot);
        }
        let how = *choice.random.pick(&[
            CreateMode::Unchecked,
            CreateMode::Guarded,
            CreateMode::Guarded,
            CreateMode::Exclusive,
        ]);
        let name = self.new_name(number, slot);
        Some(Op::Open { file: choice.next_file, name, access: 3, deny: 0, how: Some(how), want: 0 })
    }

    fn name(&mut self, number: usize, slot: usize, choice: &mut Choice<'_>) -> Option<Op> {
        let names: Vec<(String, bool)> =
            self.own(slot).iter().map(|(name, file)| (name.clone(), file.is_some())).collect();
        if names.is_empty() {
            return Some(Op::Name(NameOp::Directory(self.new_name(number, slot))));
        }
        let (chosen, is_file) = choice.random.pick(&names).clone();
        let full = names.len() >= 6;
        Some(Op::Name(match choice.random.below(8) {
            0 if !full => NameOp::Directory(self.new_name(number, slot)),
            1 if !full && is_file => NameOp::Link(chosen, self.new_name(number, slot)),
            2 | 3 => NameOp::Remove(chosen),
            4 if is_file => match names.iter().find(|(name, file)| *file && *name != chosen) {
                // Replaces another file, which may be open.
                Some((other, _)) => NameOp::Rename(chosen, other.clone()),
                None => NameOp::Remove(chosen),
            },
            _ => NameOp::Rename(chosen, self.new_name(number, slot)),
        }))
    }

    fn use_held(&mut self, slot: usize, kind: u64, choice: &mut Choice<'_>) -> Option<Op> {
        let known = &self.slots[slot].known;
        let opens: Vec<&HeldState> =
            known.iter().filter(|held| matches!(held.kind, StateKind::Open { .. })).collect();
        let random = &mut *choice.random;
        if opens.is_empty() {
            return Some(Op::Test {
                file: random.index(choice.shared),
                range: range(random),
                exclusive: true,
            });
        }
        let open = *random.pick(&opens);
        let (file, stateid) = (open.file, open.stateid);
        let region = random.index(REGIONS);
        let stable = *random.pick(&[
            StableHow4::Unstable,
            StableHow4::Unstable,
            StableHow4::DataSync,
            StableHow4::FileSync,
        ]);
        let value = choice.next_value;
        let locks =
            known.iter().find(|held| held.file == file && matches!(held.kind, StateKind::Locks { .. }));
        let (exclusive, range) = (random.chance(2, 3), range(random));
        Some(match kind {
            42..=55 => Op::Write { file, stateid, region, value, stable, valid: true },
            56..=65 => Op::Read { file, stateid, region, valid: true },
            66..=71 => Op::Close { file, stateid },
            72..=83 => {
                Op::Lock { file, open: stateid, locks: locks.map(|held| held.stateid), range, exclusive }
            }
            84..=88 => match locks {
                Some(held) => Op::Unlock { file, stateid: held.stateid, range },
                None => Op::Test { file, range, exclusive },
            },
            89 | 90 => Op::Truncate { file, stateid },
            91..=93 => Op::Commit { file },
            94 | 95 => {
                // The stateid of one file with the handle of another.
                let other = random.index(choice.shared);
                let valid = other == file;
                Op::Write { file: other, stateid, region, value, stable, valid }
            }
            96 | 97 => {
                let old = [&self.slots[slot].old[..], &self.slots[slot].returned].concat();
                if old.is_empty() {
                    return Some(Op::Renew);
                }
                let (stateid, file) = *random.pick(&old);
                Op::Write { file, stateid, region, value, stable, valid: false }
            }
            _ => match known.iter().find(|held| matches!(held.kind, StateKind::Delegation { .. })) {
                Some(held) => Op::Return { file: held.file, stateid: held.stateid },
                None => Op::Read { file, stateid, region, valid: true },
            },
        })
    }
}

/// Draws one of a few ranges, so that ranges often overlap.
fn range(random: &mut Random) -> LockRange {
    let first = random.below(8) * 100;
    let last = if random.chance(1, 8) { u64::MAX } else { first + 100 * (1 + random.below(3)) - 1 };
    LockRange { first, last }
}
