//! Where the blocks of the index lie in its file: groups of blocks in slots, in the order of first use.
//!
//! The library doubles its file when it needs one more page, and then uses pages at both ends. So a group of blocks
//! gets its slot when one of its blocks is first written, and the file grows only as it is used: on a nearly full
//! device the index takes what it needs, and the space reserved after the end of the file suffices.
//!
//! Each slot names its group in a label. A label is replaced by one that says that the slot is free before the slot is
//! reused for another group, and the sync that makes the new label durable makes that one durable too. So two slots can
//! claim one group only after a crash before that sync. Neither then holds committed data: the library dropped the
//! group in a commit before its slot was freed, and the writes to the new slot were not synced. One is kept, the other
//! freed.
//!
//! A slot that was never used has a label of zeros. The first sector counts the leading slots whose labels are durable,
//! so a label among those that reads as zeros is damaged: its slot may hold sound blocks, and must not be taken for
//! free.

use std::collections::{BTreeSet, HashMap};
use std::io;

use crate::media::RandomFile;

/// Bytes of a block.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Bytes of a seal.
pub(super) const SEAL_BYTES: u64 = 8;

/// Blocks of a group. With the block of seals before them they take a mebibyte.
pub(super) const GROUP: u64 = 254;

/// Bytes of a slot's label, before its seals: checksum (4), [`MARK`] (4), group (8).
const LABEL: usize = 16;
const LABEL_BYTES: u64 = LABEL as u64;
const SLOT_BYTES: u64 = (1 + GROUP) * BLOCK_BYTES;
const MARK: u32 = 0x4846_4947;

/// The group in the label of a free slot. No file has as many groups.
const FREE: u64 = u64::MAX;

const _: () = assert!(LABEL_BYTES + GROUP * SEAL_BYTES <= BLOCK_BYTES);

/// Returns the group of block `number`, which is not 0, and the block's place in it.
pub(super) fn group_of(number: u64) -> (u64, u64) {
    ((number - 1) / GROUP, (number - 1) % GROUP)
}

/// The assignment of slots to groups.
#[derive(Debug, Default)]
pub(super) struct Slots {
    of_group: HashMap<u64, u64>,
    free: BTreeSet<u64>,
    /// Slots whose groups are unknown: their labels cannot be read, or do not verify.
    unknown: BTreeSet<u64>,
    /// Slots in all.
    count: u64,
    /// Leading slots that have labels. The others were never used, and are free.
    labeled: u64,
    /// Those of them whose labels are durable.
    durable: u64,
}

/// A place in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot(u64);

impl Slot {
    fn start(self) -> u64 {
        BLOCK_BYTES + self.0 * SLOT_BYTES
    }

    /// Returns the offset of the block at this place of the group.
    pub(super) fn data_at(self, within: u64) -> u64 {
        self.start() + (1 + within) * BLOCK_BYTES
    }

    /// Returns the offset of that block's seal.
    pub(super) fn seal_at(self, within: u64) -> u64 {
        self.start() + LABEL_BYTES + within * SEAL_BYTES
    }
}

impl Slots {
    /// Reads the labels of a file of `stored` bytes, in which the library sees `blocks` blocks. At least the first
    /// `durable` slots have labels.
    pub(super) fn load(file: &dyn RandomFile, stored: u64, blocks: u64, durable: u64) -> io::Result<Slots> {
        let count = stored.saturating_sub(BLOCK_BYTES).div_ceil(SLOT_BYTES);
        let mut slots = Slots { count, ..Slots::default() };
        for number in 0..count {
            // The failure of one read may pass.
            let label = match Slot(number).start() + LABEL_BYTES <= stored {
                true => read_label(file, number).or_else(|_| read_label(file, number)),
                false => Ok(None),
            };
            if matches!(label, Ok(None)) && number >= durable {
                slots.free.insert(number);
                continue;
            }
            slots.label_up_to(file, number)?;
            match label {
                Ok(Some(FREE)) => drop(slots.free.insert(number)),
                Ok(Some(group)) if group >= groups(blocks) || slots.of_group.contains_key(&group) => {
                    write_label(file, Slot(number), FREE)?;
                    slots.free.insert(number);
                }
                Ok(Some(group)) => drop(slots.of_group.insert(group, number)),
                // Reads of the group that it holds are refused, and nothing is written there.
                Ok(None) | Err(_) => drop(slots.unknown.insert(number)),
            }
        }
        if durable > count {
            // The file was cut.
            slots.unknown.insert(count);
            slots.labeled = count + 1;
        }
        slots.durable = durable.min(slots.labeled);
        Ok(slots)
    }

    /// Counts a slot as labeled. A crash may have kept its label and lost those of slots before it, which were never
    /// used then.
    fn label_up_to(&mut self, file: &dyn RandomFile, number: u64) -> io::Result<()> {
        for blank in self.labeled..number {
            if self.free.contains(&blank) {
                write_label(file, Slot(blank), FREE)?;
            }
        }
        self.labeled = number + 1;
        Ok(())
    }

    /// Returns how many leading slots have labels.
    pub(super) fn labeled(&self) -> u64 {
        self.labeled
    }

    /// Returns how many leading slots have durable labels.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Notes a sync that began when this number of leading slots had labels.
    pub(super) fn synced(&mut self, labeled: u64) {
        self.durable = labeled.min(self.labeled);
    }

    /// Returns how many slots may hold any group.
    pub(super) fn unknown(&self) -> usize {
        self.unknown.len()
    }

    /// Reads the labels of those slots again.
    pub(super) fn look_again(&mut self, file: &dyn RandomFile) {
        for number in std::mem::take(&mut self.unknown) {
            match read_label(file, number) {
                Ok(Some(group)) if !self.of_group.contains_key(&group) => {
                    self.of_group.insert(group, number);
                }
                _ => drop(self.unknown.insert(number)),
            }
        }
    }

    /// Returns the slot of a group, if any of its blocks was written.
    pub(super) fn get(&self, group: u64) -> Option<Slot> {
        self.of_group.get(&group).copied().map(Slot)
    }

    /// Returns the slot for the next new group.
    pub(super) fn next(&self) -> Slot {
        Slot(self.free.first().copied().unwrap_or(self.count))
    }

    /// Labels that slot; the file must be long enough. Refused while any slot may hold the group: if its label can be
    /// read again later, two slots would claim the group, and the older one would be kept.
    pub(super) fn assign(&mut self, file: &dyn RandomFile, group: u64) -> io::Result<Slot> {
        if !self.unknown.is_empty() {
            return Err(invalid("a label of a slot of the index cannot be read"));
        }
        let slot = self.next();
        write_label(file, slot, group)?;
        if !self.free.remove(&slot.0) {
            self.count += 1;
        }
        self.labeled = self.labeled.max(slot.0 + 1);
        self.of_group.insert(group, slot.0);
        Ok(slot)
    }

    /// Returns how many slots remain after [`Slots::shrink`], at most.
    pub(super) fn kept(&self, blocks: u64) -> u64 {
        let used =
            self.of_group.iter().filter(|(group, _)| **group < groups(blocks)).map(|(_, slot)| slot + 1);
        used.chain(self.unknown.iter().map(|slot| slot + 1)).max().unwrap_or(0)
    }

    /// Frees the slots of all groups beyond the first `blocks` blocks; returns the length that a file of `stored`
    /// bytes needs then. The first sector must count no more than [`Slots::kept`] labels durably: the file may grow
    /// again, by slots without labels.
    pub(super) fn shrink(&mut self, file: &dyn RandomFile, stored: u64, blocks: u64) -> io::Result<u64> {
        let mut dropped: Vec<(u64, u64)> = self
            .of_group
            .iter()
            .filter(|(group, _)| **group >= groups(blocks))
            .map(|(g, s)| (*g, *s))
            .collect();
        dropped.sort_unstable();
        for (group, slot) in dropped {
            write_label(file, Slot(slot), FREE)?;
            self.of_group.remove(&group);
            self.free.insert(slot);
        }
        while self.count > 0 && self.free.remove(&(self.count - 1)) {
            self.count -= 1;
        }
        let kept = self.kept(blocks).max(self.count);
        self.labeled = self.labeled.min(kept);
        self.durable = self.durable.min(kept);
        Ok(stored.min(Slot(self.count).start()))
    }
}

/// Returns the number of groups that `blocks` blocks reach into; block 0 is in none.
fn groups(blocks: u64) -> u64 {
    blocks.saturating_sub(1).div_ceil(GROUP)
}

fn write_label(file: &dyn RandomFile, slot: Slot, group: u64) -> io::Result<()> {
    let mut label = [0; LABEL];
    label[4..8].copy_from_slice(&MARK.to_be_bytes());
    label[8..].copy_from_slice(&group.to_be_bytes());
    let checksum = crc32c::crc32c(&label[4..]);
    label[..4].copy_from_slice(&checksum.to_be_bytes());
    file.write_at(slot.start(), &label)
}

/// Returns the group in a label, or [`FREE`]; `None` for a label of zeros.
fn read_label(file: &dyn RandomFile, slot: u64) -> io::Result<Option<u64>> {
    let mut label = [0; LABEL];
    file.read_at(Slot(slot).start(), &mut label)?;
    match parse(&label) {
        None if label == [0; LABEL] => Ok(None),
        None => Err(invalid("a label of a slot of the index does not verify")),
        group => Ok(group),
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn parse(label: &[u8; LABEL]) -> Option<u64> {
    let (checksum, rest) = label.split_first_chunk::<4>()?;
    let valid = u32::from_be_bytes(*checksum) == crc32c::crc32c(rest) && rest[..4] == MARK.to_be_bytes();
    valid.then(|| u64::from_be_bytes(rest[4..].try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::memory::MemoryFile;

    fn file_of(slots: u64) -> std::sync::Arc<MemoryFile> {
        MemoryFile::holding(vec![0; usize::try_from(BLOCK_BYTES + slots * SLOT_BYTES).unwrap()])
    }

    fn load(file: &MemoryFile, blocks: u64) -> Slots {
        Slots::load(file, file.len().unwrap(), blocks, 0).unwrap()
    }

    fn slot(slots: &Slots, group: u64) -> Option<u64> {
        slots.get(group).map(|slot| slot.0)
    }

    #[test]
    fn groups_keep_their_slots_until_they_shrink() {
        let file = file_of(4);
        let mut slots = load(&file, 1 + 10 * GROUP);
        for group in [7, 0, 3] {
            slots.assign(&*file, group).unwrap();
        }
        assert_eq!([7, 0, 3].map(|group| slot(&slots, group)), [Some(0), Some(1), Some(2)]);
        let again = load(&file, 1 + 10 * GROUP);
        assert_eq!([7, 0, 3, 1].map(|group| slot(&again, group)), [Some(0), Some(1), Some(2), None]);
        // Without groups 3 and 7 only one slot is needed, but the one that is needed is not the first.
        let length = slots.shrink(&*file, file.len().unwrap(), 1 + 2 * GROUP).unwrap();
        assert_eq!(length, BLOCK_BYTES + 2 * SLOT_BYTES);
        slots.assign(&*file, 7).unwrap();
        slots.assign(&*file, 3).unwrap();
        assert_eq!([7, 0, 3].map(|group| slot(&slots, group)), [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn one_of_two_slots_that_claim_a_group_is_freed() {
        let file = file_of(3);
        let mut slots = load(&file, 1 + 10 * GROUP);
        slots.assign(&*file, 5).unwrap();
        let mut label = [0; LABEL];
        file.read_at(Slot(0).start(), &mut label).unwrap();
        file.write_at(Slot(2).start(), &label).unwrap();
        let slots = load(&file, 1 + 10 * GROUP);
        assert_eq!((slot(&slots, 5), slots.next().0), (Some(0), 1));
        assert!(slots.free.contains(&2));
        assert_eq!([1, 2].map(|slot| read_label(&*file, slot).unwrap()), [Some(FREE); 2]);
        assert_eq!(slots.labeled(), 3);
    }

    #[test]
    fn a_slot_with_a_damaged_label_is_not_written_to() {
        let file = file_of(2);
        let mut slots = load(&file, 1 + 10 * GROUP);
        slots.assign(&*file, 5).unwrap();
        file.write_at(Slot(0).start() + 15, &[9]).unwrap();
        let slots = load(&file, 1 + 10 * GROUP);
        assert_eq!((slot(&slots, 5), slots.next().0), (None, 1));
    }

    #[test]
    fn no_group_gets_a_second_slot_while_a_label_is_unreadable() {
        let file = file_of(2);
        let mut slots = load(&file, 1 + 10 * GROUP);
        slots.assign(&*file, 5).unwrap();
        let label = usize::try_from(Slot(0).start()).unwrap();
        file.set_unreadable(label..label + 1);
        let mut slots = load(&file, 1 + 10 * GROUP);
        assert_eq!((slot(&slots, 5), slots.unknown()), (None, 1));
        assert!(slots.assign(&*file, 5).is_err());
        slots.look_again(&*file);
        assert_eq!(slots.unknown(), 1);
        file.set_unreadable(0..0);
        slots.look_again(&*file);
        assert_eq!((slot(&slots, 5), slots.unknown()), (Some(0), 0));
        slots.assign(&*file, 6).unwrap();
    }

    #[test]
    fn a_group_that_the_library_gave_up_is_free_after_a_crash() {
        let file = file_of(2);
        let mut slots = load(&file, 1 + 10 * GROUP);
        slots.assign(&*file, 5).unwrap();
        let slots = load(&file, 1 + 5 * GROUP);
        assert_eq!((slot(&slots, 5), slots.next().0), (None, 0));
    }

    #[test]
    fn a_durable_label_is_not_taken_for_one_that_was_never_written() {
        let file = file_of(3);
        let mut slots = load(&file, 1 + 10 * GROUP);
        slots.assign(&*file, 5).unwrap();
        slots.assign(&*file, 6).unwrap();
        assert_eq!((slots.labeled(), slots.durable()), (2, 0));
        slots.synced(2);
        let blank = |slot: u64| file.write_at(Slot(slot).start(), &[0; LABEL]).unwrap();
        let load = |durable| Slots::load(&*file, file.len().unwrap(), 1 + 10 * GROUP, durable).unwrap();
        blank(1);
        let damaged = load(slots.durable());
        assert_eq!((damaged.unknown(), damaged.labeled(), damaged.durable()), (1, 2, 2));
        // A crash lost a label that was not synced, which is made up for before a later one is relied on.
        blank(0);
        slots.assign(&*file, 7).unwrap();
        let crashed = load(0);
        assert_eq!((crashed.unknown(), crashed.next().0, crashed.labeled()), (0, 0, 3));
        assert_eq!(read_label(&*file, 0).unwrap(), Some(FREE));
        // A file that was cut.
        assert_eq!(load(u64::MAX).unknown(), 1);
    }

    #[test]
    fn slots_that_are_given_back_are_no_longer_counted() {
        let file = file_of(4);
        let mut slots = load(&file, 1 + 10 * GROUP);
        for group in [0, 5, 6] {
            slots.assign(&*file, group).unwrap();
        }
        slots.synced(3);
        assert_eq!(slots.kept(1 + 2 * GROUP), 1);
        slots.shrink(&*file, file.len().unwrap(), 1 + 2 * GROUP).unwrap();
        assert_eq!((slots.labeled(), slots.durable()), (1, 1));
    }
}
