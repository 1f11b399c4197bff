//! The order in which the data of files goes to segments: in portions, in which files take turns.
//!
//! A file that somebody waits for gets its first turn in the next portion, so a caller with little data waits briefly, however
//! much data others have. Half of each portion is for such files if there are any, a quarter for others that somebody waits for,
//! and a quarter for those that nobody waits for, so none starves.

use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::api::ids::ObjectId;
use crate::file::dirty::DirtyRange;
use crate::file::inodes::SharedInode;
use crate::limits::{EXTENT_BYTES_MAX, PORTION_BYTES, TRANSFER_BYTES_MAX};

/// A file that is being written back.
pub(crate) struct File {
    pub id: ObjectId,
    pub cell: SharedInode,
    /// The generations that are done with it once the ranges are saved.
    pub serves: Vec<u64>,
    /// Later generations, which are done with it once the data that is unstable by then is saved too.
    pub again: Vec<u64>,
    /// Whether somebody waits for it.
    pub is_requested: bool,
    /// What remains to be written, in file order.
    pub ranges: VecDeque<DirtyRange>,
    /// Ranges that were written, but not saved, as newer unstable data replaced them meanwhile.
    pub superseded: Vec<(u64, u64)>,
    /// Whether it accepts no more data until its ranges, which replaced superseded ones, are saved.
    pub is_set_aside: bool,
    /// Whether a part of it could not be saved.
    pub has_failed: bool,
}

impl File {
    pub fn new(id: ObjectId, cell: SharedInode, serves: Vec<u64>, is_requested: bool) -> File {
        let (again, ranges, superseded) = (Vec::new(), VecDeque::new(), Vec::new());
        File {
            id,
            cell,
            serves,
            again,
            is_requested,
            ranges,
            superseded,
            is_set_aside: false,
            has_failed: false,
        }
    }

    /// Takes its first ranges, up to about this effort, and returns their effort. It takes one at least, and divides neither an
    /// extent nor what is left of a WRITE, which a crash then takes back as a whole.
    fn take(&mut self, effort_max: u64, out: &mut Vec<DirtyRange>) -> u64 {
        let (mut effort, mut writes) = (0, HashSet::new());
        let (mut start, mut end) = (0, u64::MAX);
        while let Some(range) = self.ranges.front() {
            let is_of_extent = end == range.start && !end.is_multiple_of(EXTENT_BYTES_MAX as u64);
            if !writes.is_empty() && effort >= effort_max && !is_of_extent && !self.continues(&writes, start)
            {
                break;
            }
            effort += range.effort();
            (start, end) = (range.start, range.end);
            writes.insert(range.write);
            out.extend(self.ranges.pop_front());
        }
        effort
    }

    /// Whether ranges of these WRITEs remain; the last range taken began at `start`.
    fn continues(&self, writes: &HashSet<u64>, start: u64) -> bool {
        let reach = start.saturating_add(TRANSFER_BYTES_MAX.into());
        self.ranges.iter().take_while(|range| range.start < reach).any(|range| writes.contains(&range.write))
    }
}

/// Why a file has its turn.
#[derive(Clone, Copy)]
enum Queue {
    /// Somebody waits for it, and it had no turn since.
    First,
    /// Somebody waits for it.
    Requested,
    /// Nobody waits for it.
    Due,
}

impl Queue {
    /// Returns the effort of a turn.
    fn turn(self) -> u64 {
        match self {
            Queue::First => TRANSFER_BYTES_MAX.into(),
            // Longer turns keep more of a file together.
            Queue::Requested | Queue::Due => PORTION_BYTES / 4,
        }
    }
}

/// The files with data for segments, and whose turn is next.
#[derive(Default)]
pub(crate) struct Turns {
    files: BTreeMap<ObjectId, File>,
    /// May name files that have nothing left.
    queues: [VecDeque<ObjectId>; 3],
}

/// Parts of files that are written and synced together; a file may have several.
pub(crate) type Portion = Vec<(ObjectId, Vec<DirtyRange>)>;

impl Turns {
    /// Returns a file that takes turns.
    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut File> {
        self.files.get_mut(&id)
    }

    /// Adds a file that takes no turns yet.
    pub fn put(&mut self, file: File) {
        let queue = if file.is_requested { Queue::First } else { Queue::Due };
        self.queues[queue as usize].push_back(file.id);
        self.files.insert(file.id, file);
    }

    /// Moves a file that takes turns forward, because somebody waits for it now.
    pub fn hurry(&mut self, id: ObjectId) {
        if let Some(file) = self.files.get_mut(&id)
            && !file.is_requested
        {
            file.is_requested = true;
            self.queues[Queue::First as usize].push_back(id);
        }
    }

    /// Takes the data that is written next: of about this effort, or one range.
    pub fn next_portion(&mut self, effort_max: u64) -> Portion {
        let mut portion = Portion::new();
        let mut effort = 0;
        let shares = [
            (Queue::First, effort_max / 2),
            (Queue::Requested, effort_max / 4 * 3),
            (Queue::Due, effort_max),
            (Queue::Requested, effort_max),
            (Queue::First, effort_max),
        ];
        for (queue, up_to) in shares {
            while effort < up_to
                && let Some(id) = self.queues[queue as usize].pop_front()
            {
                let Some(file) = self.files.get_mut(&id).filter(|file| !file.ranges.is_empty()) else {
                    continue;
                };
                let mut ranges = Vec::new();
                effort += file.take(queue.turn().min(up_to - effort), &mut ranges);
                if !file.ranges.is_empty() {
                    let next = if file.is_requested { Queue::Requested } else { Queue::Due };
                    self.queues[next as usize].push_back(id);
                }
                match portion.last_mut() {
                    Some((last, taken)) if *last == id => taken.append(&mut ranges),
                    _ => portion.push((id, ranges)),
                }
            }
        }
        portion
    }

    /// Takes the files of a portion that have nothing left to be written.
    pub fn take_finished(&mut self, portion: &Portion) -> Vec<File> {
        let mut finished = Vec::new();
        for (id, _) in portion {
            if self.files.get(id).is_some_and(|file| file.ranges.is_empty()) {
                finished.extend(self.files.remove(id));
            }
        }
        finished
    }

    /// Takes all files.
    pub fn take_all(&mut self) -> Vec<File> {
        self.queues = Default::default();
        std::mem::take(&mut self.files).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::api::ids::Ino;
    use crate::bytes::Bytes;
    use crate::encoding::key::FIRST;
    use crate::file::inodes::InodeState;

    const MIB: u64 = 1 << 20;

    /// Returns a file with so much unstable data, in ranges of 64 KiB.
    fn file(number: u64, bytes: u64, is_requested: bool) -> File {
        let id = FIRST.object(Ino(number));
        let mut state = InodeState::new(id);
        for start in (0..bytes).step_by(64 << 10) {
            state.dirty.insert(start, Bytes::from(vec![0; 64 << 10]), start);
        }
        let ranges = state.dirty.ranges().cloned().collect();
        File { ranges, ..File::new(id, Arc::new(Mutex::new(state)), vec![1], is_requested) }
    }

    /// Returns the mebibytes that each file has in a portion, in their order.
    fn sizes(portion: &Portion) -> Vec<(u64, u64)> {
        let bytes = |ranges: &[DirtyRange]| ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        portion.iter().map(|(id, ranges)| (id.ino.0, bytes(ranges).div_ceil(MIB))).collect()
    }

    #[test]
    fn little_data_is_written_at_once_and_all_files_get_on() {
        let mut turns = Turns::default();
        turns.put(file(1, 64 * MIB, true));
        turns.put(file(2, 64 * MIB, false));
        let first = turns.next_portion(16 * MIB);
        assert_eq!(sizes(&first), [(1, 12), (2, 4)]);
        assert!(turns.take_finished(&first).is_empty());
        turns.put(file(3, MIB / 2, true));
        turns.put(file(4, 32 * MIB, true));
        let second = turns.next_portion(16 * MIB);
        assert_eq!(sizes(&second), [(3, 1), (4, 1), (1, 8), (4, 3), (2, 4)]);
        let finished = turns.take_finished(&second);
        assert_eq!(finished.iter().map(|file| file.id.ino.0).collect::<Vec<_>>(), [3]);
        let mut portions = 2;
        while !turns.files.is_empty() {
            let portion = turns.next_portion(16 * MIB);
            assert!(!portion.is_empty());
            turns.take_finished(&portion);
            portions += 1;
        }
        assert!((10..13).contains(&portions), "{portions}");
    }

    #[test]
    fn a_file_that_somebody_waits_for_at_last_has_its_turn_next() {
        let mut turns = Turns::default();
        for number in 0..100 {
            turns.put(file(number, MIB, false));
        }
        turns.hurry(FIRST.object(Ino(90)));
        let portion = turns.next_portion(4 * MIB);
        assert_eq!(sizes(&portion)[0], (90, 1));
        let finished = turns.take_finished(&portion);
        assert_eq!((finished[0].id.ino.0, finished.len()), (90, portion.len() - 1), "one is cut short");
    }

    #[test]
    fn a_turn_divides_neither_extents_nor_writes() {
        let mut file = file(1, 4 * MIB, true);
        let mut out = Vec::new();
        file.take(64 << 10, &mut out);
        assert_eq!(out.len(), 2);
        // The same WRITE surrounds others.
        for number in [2, 5, 9] {
            file.ranges[number].write = 77;
        }
        out.clear();
        file.take(192 << 10, &mut out);
        assert_eq!(out.len(), 10);
        assert_eq!(file.ranges.len(), 52);
    }
}
