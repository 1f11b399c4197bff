//! What clients hold: as a client was told, and as the server must know it. Both are kept by the same rules.

use wire::nfs4::{OpenDelegation4, ResOp4, Stateid4, share_access};

use super::message::Results;
use super::op::{Op, Range};

/// What something that is held is.
#[derive(Clone, Debug)]
pub(super) enum What {
    Open { access: u32, deny: u32 },
    Locks { open: [u8; 12], ranges: Vec<(Range, bool)> },
    Delegation { write: bool },
}

/// Something that a client holds.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) client: usize,
    pub(super) slot: usize,
    pub(super) file: usize,
    pub(super) stateid: Stateid4,
    pub(super) what: What,
    /// Whether the server must know it. After a crash that is so of what it had to make durable before it told.
    pub(super) certain: bool,
    /// Whether it was changed since by what need not be durable when it is told: a plain OPEN, OPEN_CONFIRM.
    pub(super) loose: bool,
    /// Whether it was taken away for somebody else since the server was started, and must not be accepted any more.
    pub(super) fenced: bool,
    /// When it was asked back.
    pub(super) recalled: Option<i64>,
}

impl Held {
    /// Somebody else got what it excludes.
    pub(super) fn take_away(&mut self) {
        (self.certain, self.fenced) = (false, true);
    }

    /// Of what a crash may have taken back nothing is certain but what is told now.
    fn doubt(&mut self) {
        match &mut self.what {
            _ if self.certain => {}
            What::Open { access, deny } => (*access, *deny) = (0, 0),
            What::Locks { ranges, .. } => ranges.clear(),
            What::Delegation { .. } => {}
        }
    }

    /// Whether it is in the way of an open by another owner.
    pub(super) fn forbids_open(&self, client: usize, slot: usize, access: u32, deny: u32) -> bool {
        match self.what {
            What::Open { access: its, deny: denied } => {
                (self.client, self.slot) != (client, slot) && (access & denied != 0 || deny & its != 0)
            }
            What::Locks { .. } => false,
            What::Delegation { .. } => {
                self.forbids_touch(client, access & share_access::WRITE != 0 || deny != 0)
            }
        }
    }

    /// Whether it is a delegation that somebody else must not find when it looks at a file, or changes it.
    pub(super) fn forbids_touch(&self, client: usize, changes: bool) -> bool {
        matches!(self.what, What::Delegation { write } if self.client != client && (write || changes))
    }

    /// Whether it is in the way of a lock.
    pub(super) fn forbids_lock(&self, client: usize, slot: usize, range: Range, exclusive: bool) -> bool {
        match &self.what {
            What::Locks { ranges, .. } if (self.client, self.slot) != (client, slot) => {
                ranges.iter().any(|(its, one)| its.overlaps(range) && (*one || exclusive))
            }
            _ => false,
        }
    }
}

/// Takes a range out of ranges.
fn cut(ranges: &mut Vec<(Range, bool)>, out: Range) {
    let mut left = Vec::new();
    for (range, exclusive) in ranges.drain(..) {
        if !range.overlaps(out) {
            left.push((range, exclusive));
            continue;
        }
        if range.first < out.first {
            left.push((Range { first: range.first, last: out.first - 1 }, exclusive));
        }
        if range.last > out.last {
            left.push((Range { first: out.last + 1, last: range.last }, exclusive));
        }
    }
    *ranges = left;
}

/// The delegation that an OPEN gave, and whether it is one to write.
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

/// Does to a table what an operation of a slot did that succeeded.
pub(super) fn apply(table: &mut Vec<Held>, (client, slot): (usize, usize), op: &Op, results: &Results<'_>) {
    let held = |file, stateid, what| Held {
        client,
        slot,
        file,
        stateid,
        what,
        certain: true,
        loose: false,
        fenced: false,
        recalled: None,
    };
    match op {
        Op::Open { file, access, deny, .. } => {
            let Some(stateid) = results.stateid() else { return };
            let mine = |held: &&mut Held| {
                held.stateid.other == stateid.other && matches!(held.what, What::Open { .. })
            };
            if let Some(known) = table.iter_mut().find(mine) {
                known.doubt();
                if let What::Open { access: its, deny: denied } = &mut known.what {
                    (*its, *denied) = (*its | access, *denied | deny);
                }
                (known.stateid, known.certain) = (stateid, true);
                known.loose |= *deny == 0;
            } else {
                table.push(held(*file, stateid, What::Open { access: *access, deny: *deny }));
            }
            if let Some((stateid, write)) = delegated(results) {
                table.push(held(*file, stateid, What::Delegation { write }));
            }
        }
        Op::Confirm { stateid } | Op::Unlock { stateid, .. } => {
            let known = table.iter_mut().find(|held| held.stateid.other == stateid.other);
            if let (Some(known), Some(told)) = (known, results.stateid()) {
                known.doubt();
                (known.stateid, known.certain) = (told, true);
                known.loose |= matches!(op, Op::Confirm { .. });
                if let (What::Locks { ranges, .. }, Op::Unlock { range, .. }) = (&mut known.what, op) {
                    cut(ranges, *range);
                }
            }
        }
        Op::Close { stateid, .. } => table.retain(|held| {
            let of_it = matches!(&held.what, What::Locks { open, .. } if *open == stateid.other);
            held.stateid.other != stateid.other && !of_it
        }),
        Op::Lock { file, open, range, exclusive, .. } => {
            let Some(told) = results.stateid() else { return };
            let known = table.iter().position(|held| held.stateid.other == told.other);
            let at = known.unwrap_or(table.len());
            if known.is_none() {
                table.push(held(*file, told, What::Locks { open: open.other, ranges: Vec::new() }));
            }
            table[at].doubt();
            (table[at].stateid, table[at].certain) = (told, true);
            if let What::Locks { ranges, .. } = &mut table[at].what {
                cut(ranges, *range);
                ranges.push((*range, *exclusive));
            }
        }
        Op::Return { stateid, .. } => table.retain(|held| held.stateid.other != stateid.other),
        _ => {}
    }
}
