//! What segments hold, for FSSTAT: a sum that is kept, so that a listing of attributes may ask once for each name.

use foldhash::{HashMap, HashSet};

use super::{LIVE_PERCENT_MAX, SegmentInfo};
use crate::api::ids::{Layer, SegmentId};

/// What segments hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The number of segments.
    pub segments: u64,
    /// Bytes of extents.
    pub bytes: u64,
    /// Bytes between those of segments that are too full to be cleaned.
    pub unused: u64,
    /// Bytes beyond those that files use, because a sector is kept as a whole, as of the last checkpoint.
    pub excess: u64,
}

impl Holding {
    /// Adds a segment with room for `usable` bytes. One that is settled as of `oldest` holds what is live in it, another one all that
    /// was written to it.
    fn add(&mut self, info: &SegmentInfo, oldest: Layer, usable: u64) {
        let is_settled = info.is_settled(oldest);
        let bytes = if is_settled { info.live } else { info.written };
        // Damaged counters may be of any size.
        self.bytes = self.bytes.saturating_add(bytes);
        if is_settled && info.live.saturating_mul(100) >= info.capacity.saturating_mul(LIVE_PERCENT_MAX) {
            self.unused += usable.saturating_sub(info.live);
        }
    }
}

/// The sum over the settled segments that have not changed since it was computed. The others are added at each call.
#[derive(Debug, Default)]
pub(super) struct Sum {
    /// The oldest memtable for which the sum was computed; none before the first call.
    oldest: Option<Layer>,
    unchanged: Holding,
    others: HashSet<SegmentId>,
}

impl Sum {
    /// Notes that a segment is made, changes or goes; `before` is its state so far.
    pub(super) fn note_change(&mut self, id: SegmentId, before: Option<&SegmentInfo>, usable: u64) {
        let Some(oldest) = self.oldest else { return };
        if !self.others.insert(id) {
            return;
        }
        let Some(before) = before else { return };
        // A sum of damaged counters cannot be taken apart.
        if self.unchanged.bytes == u64::MAX {
            self.oldest = None;
            return;
        }
        let mut part = Holding::default();
        part.add(before, oldest, usable);
        self.unchanged.bytes -= part.bytes;
        self.unchanged.unused -= part.unused;
    }

    /// Returns what these segments hold; `excess` is left at zero.
    pub(super) fn of(
        &mut self,
        infos: &HashMap<SegmentId, SegmentInfo>,
        oldest: Layer,
        usable: u64,
    ) -> Holding {
        if self.oldest != Some(oldest) {
            *self = Sum { oldest: Some(oldest), ..Sum::default() };
            for (id, info) in infos {
                if info.is_settled(oldest) {
                    self.unchanged.add(info, oldest, usable);
                } else {
                    self.others.insert(*id);
                }
            }
        }
        let mut all = Holding { segments: infos.len() as u64, ..self.unchanged };
        for info in self.others.iter().filter_map(|id| infos.get(id)) {
            all.add(info, oldest, usable);
        }
        all
    }
}
