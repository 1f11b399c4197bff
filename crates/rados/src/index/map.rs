//! Where the blocks of an index are, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::names::OBJECT_BYTES;

/// The size of a block in bytes.
pub(super) const BLOCK_BYTES: u64 = 4096;
pub(super) const BLOCK: usize = 4096;

/// The most blocks that an object has.
pub(super) const SLOTS: u64 = OBJECT_BYTES / BLOCK_BYTES;
pub(super) const SLOTS_USIZE: usize = 1024;
const _: () = assert!(SLOTS_USIZE as u64 == SLOTS);

/// Where a block is: nowhere, if it was never written, or in a slot of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place(u64);

impl Place {
    /// A block of zeros.
    pub(super) const HOLE: Place = Place(0);

    pub(super) fn new(object: u64, slot: u64) -> Place {
        Place(object * SLOTS + slot + 1)
    }

    /// Returns the number of the object, and the slot in it.
    pub(super) fn get(self) -> Option<(u64, u64)> {
        let number = self.0.checked_sub(1)?;
        Some((number / SLOTS, number % SLOTS))
    }

    /// Whether `other` is the next slot of the same object.
    pub(super) fn is_before(self, other: Place) -> bool {
        self.0 + 1 == other.0 && !self.0.is_multiple_of(SLOTS)
    }

    pub(super) fn encode(self) -> u64 {
        self.0
    }

    pub(super) fn decode(number: u64) -> Place {
        Place(number)
    }
}

/// What one sync changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// The epoch of the writer.
    pub(super) epoch: u64,
    /// Length of the index in bytes.
    pub(super) length: u64,
    /// Number of the next object.
    pub(super) next: u64,
    /// Objects below this number may exist.
    pub(super) reserved: u64,
    /// Objects written: number, epoch, blocks.
    pub(super) written: Vec<(u64, u64, u32)>,
    /// Objects that were removed.
    pub(super) removed: Vec<u64>,
    /// Blocks with their new places.
    pub(super) moved: Vec<(u64, Place)>,
}

/// An object of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// The epoch in its name.
    pub(super) epoch: u64,
    pub(super) blocks: u32,
    /// Blocks that the map names.
    pub(super) live: u32,
}

/// The map of an index.
#[derive(Clone, Debug, Default)]
pub(super) struct Map {
    pub(super) length: u64,
    places: Vec<Place>,
    pub(super) objects: BTreeMap<u64, Packed>,
    /// Number of the next object.
    pub(super) next: u64,
    /// Objects below this number may exist, as the head says.
    pub(super) reserved: u64,
    /// The epoch of the last writer.
    pub(super) epoch: u64,
}

impl Map {
    pub(super) fn place(&self, block: u64) -> Place {
        usize::try_from(block).ok().and_then(|at| self.places.get(at)).copied().unwrap_or(Place::HOLE)
    }

    /// Notes that a block is at `place` now. Returns whether that is news.
    pub(super) fn put(&mut self, block: u64, place: Place) -> bool {
        let at = usize::try_from(block).expect("the map of an index fits memory");
        if at >= self.places.len() {
            self.places.resize(at + 1, Place::HOLE);
        }
        let old = std::mem::replace(&mut self.places[at], place);
        if old == place {
            return false;
        }
        self.count(old, |live| live.saturating_sub(1));
        self.count(place, |live| live + 1);
        true
    }

    fn count(&mut self, place: Place, change: impl FnOnce(u32) -> u32) {
        if let Some(packed) = place.get().and_then(|(object, _)| self.objects.get_mut(&object)) {
            packed.live = change(packed.live);
        }
    }

    /// Changes the length. Returns the blocks that were lost to it.
    pub(super) fn set_length(&mut self, length: u64) -> Vec<u64> {
        self.length = length;
        let first = length.div_ceil(BLOCK_BYTES);
        let end = self.places.len() as u64;
        let lost: Vec<u64> = (first..end).filter(|block| self.put(*block, Place::HOLE)).collect();
        self.places.truncate(usize::try_from(first).unwrap_or(usize::MAX));
        lost
    }

    /// Applies a record of the head.
    pub(super) fn apply(&mut self, change: &Change) -> io::Result<()> {
        for (number, epoch, blocks) in &change.written {
            self.objects.insert(*number, Packed { epoch: *epoch, blocks: *blocks, live: 0 });
        }
        self.set_length(change.length);
        for (block, place) in &change.moved {
            let is_known = place.get().is_none_or(|(object, slot)| {
                self.objects.get(&object).is_some_and(|packed| slot < u64::from(packed.blocks))
            });
            if !is_known || *block >= change.length.div_ceil(BLOCK_BYTES) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the head of the index contradicts itself",
                ));
            }
            self.put(*block, *place);
        }
        for number in &change.removed {
            self.objects.remove(number);
        }
        (self.next, self.reserved, self.epoch) = (change.next, change.reserved, change.epoch);
        Ok(())
    }

    /// Returns what a head that begins anew says.
    pub(super) fn whole(&self) -> Change {
        let blocks = (0..).zip(&self.places).filter(|(_, place)| **place != Place::HOLE);
        Change {
            epoch: self.epoch,
            length: self.length,
            next: self.next,
            reserved: self.reserved,
            written: self
                .objects
                .iter()
                .map(|(number, packed)| (*number, packed.epoch, packed.blocks))
                .collect(),
            removed: Vec::new(),
            moved: blocks.map(|(block, place)| (block, *place)).collect(),
        }
    }

    /// Returns the blocks whose places are in one of these objects.
    pub(super) fn blocks_in(&self, objects: &BTreeSet<u64>) -> Vec<u64> {
        let is_there = |place: &Place| place.get().is_some_and(|(object, _)| objects.contains(&object));
        (0..).zip(&self.places).filter(|(_, place)| is_there(place)).map(|(block, _)| block).collect()
    }
}
