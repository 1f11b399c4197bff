//! Records that cannot be read. If the record of an open, a lock or a delegation is lost, its client loses all of them.
//! It then notices, because its session or lease is gone and it finds nothing to reclaim (RFC 8881 section 8.4.2.1,
//! NFS4ERR_NO_GRACE). If it kept the rest, it would rely on a lock that others can take.
//!
//! Hosts that use NLM have no lease. They remain known, so that the status monitor notifies them; they then try to
//! reclaim their locks, and are denied.

use std::collections::HashSet;

use volume::ids::VolumeId;

use super::Records;
use crate::state::ids::cipher::IdKeys;
use crate::state::ids::{ClientId, Other};
use crate::state::record::{ClientKind, Key};

/// Records of clients that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRecords {
    /// Volumes with records that could not be read. If there are any, no client of any volume keeps anything.
    pub unreadable: Vec<VolumeId>,
    /// Records that do not decode.
    pub damaged: usize,
    /// Clients that keep nothing of what they held.
    pub clients: usize,
}

impl LostRecords {
    /// Whether nothing is lost.
    pub fn is_nothing(&self) -> bool {
        *self == LostRecords::default()
    }
}

impl Records {
    /// Notes that records of `volume` could not be read, so that their clients are unknown.
    pub(crate) fn add_unreadable(&mut self, volume: VolumeId) {
        self.unreadable.push(volume);
    }

    /// Drops the state of each client that lost a record. Returns the keys of the dropped records.
    pub(super) fn drop_incomplete(&mut self, keys: &IdKeys) -> (LostRecords, Vec<(VolumeId, Key)>) {
        let damaged = std::mem::take(&mut self.damaged);
        let of_damaged: HashSet<ClientId> = damaged.iter().flat_map(|(_, key)| holders(keys, *key)).collect();
        let all = !self.unreadable.is_empty();
        let is_lost = |client: ClientId| all || of_damaged.contains(&client);
        let is_kept = |other: Other| !keys.clients_of_other(other).any(|(client, _)| is_lost(client));
        let known = self.clients.iter().filter(|(_, id, _)| is_lost(*id)).count();
        let unknown = damaged.iter().filter(|(_, key)| matches!(key, Key::Client(_))).count();
        let lost = LostRecords {
            unreadable: self.unreadable.clone(),
            damaged: damaged.len(),
            clients: known + unknown,
        };
        let mut dropped = damaged;
        self.clients.retain(|(volume, id, record)| {
            let keep = !is_lost(*id) || matches!(record.kind, ClientKind::Nlm(_));
            keep_or(keep, &mut dropped, *volume, Key::Client(*id))
        });
        self.sessions.retain(|(volume, id, _)| {
            let keep = !keys.clients_of_session(*id).any(|(client, _)| is_lost(client));
            keep_or(keep, &mut dropped, *volume, Key::Session(*id))
        });
        self.opens.retain(|(file, other, _)| {
            keep_or(is_kept(*other), &mut dropped, file.volume, Key::Open(file.ino, *other))
        });
        self.delegations.retain(|(file, other, _)| {
            keep_or(is_kept(*other), &mut dropped, file.volume, Key::Delegation(file.ino, *other))
        });
        self.lock_states.retain(|(file, other, _)| {
            keep_or(is_kept(*other), &mut dropped, file.volume, Key::LockState(file.ino, *other))
        });
        self.ranges.retain(|(file, other, first, _)| {
            keep_or(is_kept(*other), &mut dropped, file.volume, Key::Range(file.ino, *other, *first))
        });
        self.copies.retain(|(file, other)| {
            keep_or(is_kept(*other), &mut dropped, file.volume, Key::Copy(file.ino, *other))
        });
        (lost, dropped)
    }

    /// Returns the highest state of the status monitor or, if its record is lost, one that is no lower: the state grows by
    /// two with each start, the generation by at least one.
    pub(super) fn monitor_state(&self, lost: &LostRecords, generation: u32) -> Option<u32> {
        self.monitor.or((!lost.is_nothing()).then(|| generation.wrapping_mul(2)))
    }
}

fn keep_or(keep: bool, dropped: &mut Vec<(VolumeId, Key)>, volume: VolumeId, key: Key) -> bool {
    if !keep {
        dropped.push((volume, key));
    }
    keep
}

/// Returns the clients that may rely on a record, one for each key; wrong keys yield clients that do not exist. Empty if
/// clients notice the loss of the record by themselves.
fn holders(keys: &IdKeys, key: Key) -> Vec<ClientId> {
    match key {
        Key::Client(id) => vec![id],
        Key::Open(_, other)
        | Key::Delegation(_, other)
        | Key::LockState(_, other)
        | Key::Range(_, other, _) => keys.clients_of_other(other).map(|(client, _)| client).collect(),
        // A client without its session creates another; one that waits for a copy asks for its status.
        Key::Session(_) | Key::Copy(..) | Key::Monitor => Vec::new(),
    }
}
