//! State held by clients: what a client was told, and what the server must know. Both tables follow the same rules.

use wire::nfs4::{OpenDelegation4, ResOp4, Stateid4, share_access};

use super::message::Results;
use super::op::{LockRange, Op};

/// The kind of state.
#[derive(Clone, Debug)]
pub(super) enum StateKind {
    Open { access: u32, deny: u32 },
    Locks { open: [u8; 12], ranges: Vec<(LockRange, bool)> },
    Delegation { write: bool },
}

/// A piece of state held by a client.
#[derive(Clone, Debug)]
pub(super) struct HeldState {
    pub(super) client: usize,
    pub(super) slot: usize,
    pub(super) file: usize,
    pub(super) stateid: Stateid4,
    pub(super) kind: StateKind,
    /// Whether the server must know it. After a crash that holds for state that had to be durable when it was told.
    pub(super) certain: bool,
    /// Whether something that need not be durable has changed it since: a plain OPEN, OPEN_CONFIRM.
    pub(super) not_yet_durable: bool,
    /// Whether it was revoked since the server started, and must not be accepted.
    pub(super) revoked: bool,
    /// When it was recalled.
    pub(super) recalled: Option<i64>,
}

impl HeldState {
    /// Revokes the state: another client was granted conflicting state.
    pub(super) fn revoke(&mut self) {
        (self.certain, self.revoked) = (false, true);
    }

    /// Clears state that a crash may have undone: only the state reported now is certain.
    fn forget_uncertain(&mut self) {
        match &mut self.kind {
            _ if self.certain => {}
            StateKind::Open { access, deny } => (*access, *deny) = (0, 0),
            StateKind::Locks { ranges, .. } => ranges.clear(),
            StateKind::Delegation { .. } => {}
        }
    }

    /// Whether it conflicts with an open by another owner.
    pub(super) fn conflicts_with_open(&self, client: usize, slot: usize, access: u32, deny: u32) -> bool {
        match self.kind {
            StateKind::Open { access: its, deny: denied } => {
                (self.client, self.slot) != (client, slot) && (access & denied != 0 || deny & its != 0)
            }
            StateKind::Locks { .. } => false,
            StateKind::Delegation { .. } => {
                self.conflicts_with_io(client, access & share_access::WRITE != 0 || deny != 0)
            }
        }
    }

    /// Whether it is a delegation that conflicts with another client's access.
    pub(super) fn conflicts_with_io(&self, client: usize, changes: bool) -> bool {
        matches!(self.kind, StateKind::Delegation { write } if self.client != client && (write || changes))
    }

    /// Whether it conflicts with a lock.
    pub(super) fn conflicts_with_lock(
        &self,
        client: usize,
        slot: usize,
        range: LockRange,
        exclusive: bool,
    ) -> bool {
        match &self.kind {
            StateKind::Locks { ranges, .. } if (self.client, self.slot) != (client, slot) => {
                ranges.iter().any(|(its, one)| its.overlaps(range) && (*one || exclusive))
            }
            _ => false,
        }
    }
}

/// Subtracts a range from ranges.
fn subtract(ranges: &mut Vec<(LockRange, bool)>, out: LockRange) {
    let mut left = Vec::new();
    for (range, exclusive) in ranges.drain(..) {
        if !range.overlaps(out) {
            left.push((range, exclusive));
            continue;
        }
        if range.first < out.first {
            left.push((LockRange { first: range.first, last: out.first - 1 }, exclusive));
        }
        if range.last > out.last {
            left.push((LockRange { first: out.last + 1, last: range.last }, exclusive));
        }
    }
    *ranges = left;
}

/// Returns the delegation that an OPEN granted, and whether it is a write delegation.
fn delegated(results: &Results<'_>) -> Option<(Stateid4, bool)> {
    results.all.iter().find_map(|result| match result {
        ResOp4::Open(Ok(ok)) => match ok.delegation {
            OpenDelegation4::Read(given) => Some((given.stateid, false)),
            OpenDelegation4::Write(given) => Some((given.stateid, true)),
            _ => None,
        },
        _ => None,
    })
}

/// Applies a successful operation of a slot to a table.
pub(super) fn apply(
    table: &mut Vec<HeldState>,
    (client, slot): (usize, usize),
    op: &Op,
    results: &Results<'_>,
) {
    let held = |file, stateid, kind| HeldState {
        client,
        slot,
        file,
        stateid,
        kind,
        certain: true,
        not_yet_durable: false,
        revoked: false,
        recalled: None,
    };
    match op {
        Op::Open { file, access, deny, .. } => {
            let Some(stateid) = results.stateid() else { return };
            let mine = |held: &&mut HeldState| {
                held.stateid.other == stateid.other && matches!(held.kind, StateKind::Open { .. })
            };
            if let Some(known) = table.iter_mut().find(mine) {
                known.forget_uncertain();
                if let StateKind::Open { access: its, deny: denied } = &mut known.kind {
                    (*its, *denied) = (*its | access, *denied | deny);
                }
                (known.stateid, known.certain) = (stateid, true);
                known.not_yet_durable |= *deny == 0;
            } else {
                table.push(held(*file, stateid, StateKind::Open { access: *access, deny: *deny }));
            }
            if let Some((stateid, write)) = delegated(results) {
                table.push(held(*file, stateid, StateKind::Delegation { write }));
            }
        }
        Op::Confirm { stateid } | Op::Unlock { stateid, .. } => {
            let known = table.iter_mut().find(|held| held.stateid.other == stateid.other);
            if let (Some(known), Some(told)) = (known, results.stateid()) {
                known.forget_uncertain();
                (known.stateid, known.certain) = (told, true);
                known.not_yet_durable |= matches!(op, Op::Confirm { .. });
                if let (StateKind::Locks { ranges, .. }, Op::Unlock { range, .. }) = (&mut known.kind, op) {
                    subtract(ranges, *range);
                }
            }
        }
        Op::Close { stateid, .. } => table.retain(|held| {
            let of_it = matches!(&held.kind, StateKind::Locks { open, .. } if *open == stateid.other);
            held.stateid.other != stateid.other && !of_it
        }),
        Op::Lock { file, open, range, exclusive, .. } => {
            let Some(told) = results.stateid() else { return };
            let known = table.iter().position(|held| held.stateid.other == told.other);
            let at = known.unwrap_or(table.len());
            if known.is_none() {
                table.push(held(*file, told, StateKind::Locks { open: open.other, ranges: Vec::new() }));
            }
            table[at].forget_uncertain();
            (table[at].stateid, table[at].certain) = (told, true);
            if let StateKind::Locks { ranges, .. } = &mut table[at].kind {
                subtract(ranges, *range);
                ranges.push((*range, *exclusive));
            }
        }
        Op::Return { stateid, .. } => table.retain(|held| held.stateid.other != stateid.other),
        _ => {}
    }
}
