//! Writing an index: objects of blocks, and the head.

use std::collections::BTreeSet;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::map::{BLOCK, BLOCK_BYTES, Change, Packed, Place, SLOTS_USIZE};
use super::{Dirty, PagedFile, Writer, head};
use crate::fence::{Pending, wait_for_all};
use crate::names::OBJECT_BYTES;
use crate::objects::Step;
use crate::space::Room;

/// Numbers of objects that the head permits to be used before it is written again.
const NUMBERS_AHEAD: u64 = 64;

/// How much longer than needed the head is made, bytes.
const HEAD_AHEAD_BYTES: u64 = 1 << 20;

/// Objects that are allocated beyond those that a reserved size needs: most syncs write some that are not full.
const OBJECTS_AHEAD: u64 = 4;

/// What opening an index allocates.
pub(crate) const OPENING_BYTES: u64 = 2 * OBJECTS_AHEAD * OBJECT_BYTES;

/// Objects of blocks that are written at the same time: 16 MiB.
const WRITES_MAX: usize = 4;

/// The head begins anew when it is this large, and twice as large as it was then.
const HEAD_BYTES_MIN: u64 = 1 << 20;

/// The least number of live blocks that a sync may rewrite. It rewrites no more than it writes anyway, beyond this.
const REWRITTEN_MIN: usize = 256;

/// An object with fewer live blocks than this is rewritten, if there are more objects than [`SMALL_OBJECTS_MAX`].
const SMALL_BLOCKS: u32 = 512;

/// Objects that are not full are tolerated up to this number.
const SMALL_OBJECTS_MAX: usize = 64;

impl PagedFile {
    /// Drops objects that were removed from the map.
    pub(super) fn forget(&self, writer: &mut Writer, objects: impl Iterator<Item = u64>) {
        let mut state = self.state();
        for object in objects {
            state.map.objects.remove(&object);
            writer.removed.push(object);
        }
    }

    /// Begins to write up to an object of the blocks that wait.
    pub(super) fn spill(&self, writer: &mut Writer) -> io::Result<()> {
        let (next, reserved) = {
            let state = self.state();
            (state.map.next, state.map.reserved)
        };
        if next >= reserved {
            self.reserve_numbers(writer, next + NUMBERS_AHEAD)?;
        }
        let (bytes, epoch) = (self.pack(writer), self.owned.epoch());
        let name = self.names.blocks(self.number, epoch, next);
        let parts = [IoSlice::new(&bytes)];
        writer.pending.push_back((next, self.owned.start_unguarded(&name, &[Step::Write(0, &parts)])));
        while writer.pending.len() > WRITES_MAX {
            self.wait_for_oldest(writer)?;
        }
        Ok(())
    }

    /// Moves the first blocks that wait to the next object, and returns its bytes.
    fn pack(&self, writer: &mut Writer) -> Arc<Vec<u8>> {
        let mut state = self.state();
        let number = state.map.next;
        state.map.next += 1;
        let rest = state.dirty.keys().nth(SLOTS_USIZE).copied();
        let rest = rest.map(|first| state.dirty.split_off(&first)).unwrap_or_default();
        let packed = std::mem::replace(&mut state.dirty, rest);
        let blocks = u32::try_from(packed.len()).expect("an object has few blocks");
        state.map.objects.insert(number, Packed { epoch: self.owned.epoch(), blocks, live: 0 });
        let mut bytes = Vec::with_capacity(packed.len() * BLOCK);
        for (slot, (block, dirty)) in (0..).zip(packed) {
            let place = Place::new(number, slot);
            state.map.put(block, place);
            writer.moved.insert(block);
            bytes.extend_from_slice(&dirty.bytes);
            if dirty.is_partial {
                self.cache.insert(place, dirty.bytes.into());
            }
        }
        let bytes = Arc::new(bytes);
        state.flying.insert(number, Arc::clone(&bytes));
        writer.written.push(number);
        bytes
    }

    fn wait_for_oldest(&self, writer: &mut Writer) -> io::Result<()> {
        let Some((number, pending)) = writer.pending.pop_front() else { return Ok(()) };
        pending.wait()?;
        self.state().flying.remove(&number);
        Ok(())
    }

    /// Has the head permit objects below `reserved`.
    fn reserve_numbers(&self, writer: &mut Writer, reserved: u64) -> io::Result<()> {
        let (length, next) = writer.stored;
        let change = Change { epoch: self.owned.epoch(), length, next, reserved, ..Change::default() };
        let mut bytes = Vec::new();
        head::encode(&change, &mut bytes);
        self.append(writer, &bytes)?;
        self.state().map.reserved = reserved;
        Ok(())
    }

    fn append(&self, writer: &mut Writer, bytes: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(bytes)];
        self.owned.change(&self.names.head(self.number), Step::Write(writer.head_bytes.0, &parts))?;
        writer.head_bytes.0 += bytes.len() as u64;
        writer.head_length = writer.head_length.max(writer.head_bytes.0);
        Ok(())
    }

    /// Allocates what writing `bytes` will need, so that a full pool takes it. `check` refuses what there is no room for.
    pub(super) fn allocate(
        &self,
        writer: &mut Writer,
        bytes: u64,
        check: fn(&Room, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let next = self.state().map.next;
        let (from, to) = (writer.allocated.max(next), next + bytes.div_ceil(OBJECT_BYTES) + OBJECTS_AHEAD);
        if to > from {
            check(&self.room, (to - from) * OBJECT_BYTES)?;
            if to > self.state().map.reserved {
                self.reserve_numbers(writer, to + NUMBERS_AHEAD)?;
            }
            let name = |object| self.names.blocks(self.number, self.owned.epoch(), object);
            let length = [Step::Create, Step::SetLength(OBJECT_BYTES)];
            let allocated: Vec<Pending> =
                (from..to).map(|object| self.owned.start_unguarded(&name(object), &length)).collect();
            if let Err(error) = wait_for_all(allocated) {
                // Those that were made are in the way of the next attempt.
                self.owned.remove_all((from..to).map(name))?;
                return Err(error);
            }
            writer.allocated = to;
        }
        let records = writer.head_bytes.0 + bytes.div_ceil(BLOCK_BYTES) * head::MOVED_BYTES;
        if records + HEAD_AHEAD_BYTES / 2 > writer.head_length {
            let length = records + HEAD_AHEAD_BYTES;
            self.owned.change(&self.names.head(self.number), Step::SetLength(length))?;
            writer.head_length = length;
        }
        Ok(())
    }

    /// Allocates what syncs may need, before anything is written that they would have to store: a write can be refused for want of
    /// space, but after a failed sync the index is closed. An index that is opened is written: a new owner needs them even when
    /// users have taken all that they may, so they come from what is set aside.
    fn prepare_sync(&self, writer: &mut Writer) -> io::Result<()> {
        let next = self.state().map.next;
        if writer.allocated >= next + OBJECTS_AHEAD {
            return Ok(());
        }
        self.allocate(writer, OBJECTS_AHEAD * OBJECT_BYTES, Room::check_own)
    }

    /// Has blocks of objects that are mostly dead, or small, written again.
    fn rewrite_some(&self) -> io::Result<()> {
        let blocks = {
            let state = self.state();
            let mut left = u32::try_from(state.dirty.len().max(REWRITTEN_MIN)).unwrap_or(u32::MAX);
            let is_crowded = state.map.objects.len() > SMALL_OBJECTS_MAX;
            let mut chosen = BTreeSet::new();
            for (number, packed) in &state.map.objects {
                let is_bad = packed.live * 2 < packed.blocks || is_crowded && packed.live < SMALL_BLOCKS;
                if is_bad && packed.live > 0 && packed.live <= left && !state.flying.contains_key(number) {
                    left -= packed.live;
                    chosen.insert(*number);
                }
            }
            if chosen.is_empty() { Vec::new() } else { state.map.blocks_in(&chosen) }
        };
        for block in blocks {
            let mut bytes = vec![0; BLOCK].into_boxed_slice();
            self.read_blocks(block * BLOCK_BYTES, &mut bytes)?;
            self.state().dirty.entry(block).or_insert(Dirty { bytes, is_partial: false });
        }
        Ok(())
    }

    /// Writes what the head lacks.
    fn write_head(&self, writer: &mut Writer) -> io::Result<()> {
        let mut bytes = Vec::new();
        let (whole, stored) = {
            let mut state = self.state();
            let map = &mut state.map;
            (map.epoch, map.reserved) =
                (self.owned.epoch(), (map.next + NUMBERS_AHEAD).max(writer.allocated));
            let written = writer.written.iter().filter_map(|number| {
                map.objects.get(number).map(|packed| (*number, packed.epoch, packed.blocks))
            });
            let blocks = map.length.div_ceil(BLOCK_BYTES);
            let moved = writer.moved.iter().filter(|block| **block < blocks);
            let change = Change {
                epoch: map.epoch,
                length: map.length,
                next: map.next,
                reserved: map.reserved,
                written: written.collect(),
                removed: writer.removed.clone(),
                moved: moved.map(|block| (*block, map.place(*block))).collect(),
            };
            head::encode(&change, &mut bytes);
            let (now, first) = writer.head_bytes;
            let is_long = now + bytes.len() as u64 > HEAD_BYTES_MIN.max(first * 2);
            let whole = is_long.then(|| {
                let mut whole = Vec::new();
                head::encode(&map.whole(), &mut whole);
                whole
            });
            (whole, (map.length, map.next))
        };
        if let Some(whole) = whole {
            let length = whole.len() as u64;
            writer.head_length = writer.head_length.max(length);
            let steps = [Step::Replace(&whole), Step::SetLength(writer.head_length)];
            self.owned.start_all(&self.names.head(self.number), &steps).wait()?;
            writer.head_bytes = (length, length);
        } else {
            self.append(writer, &bytes)?;
        }
        writer.moved.clear();
        writer.written.clear();
        writer.removed.clear();
        writer.stored = stored;
        Ok(())
    }

    /// Removes the objects without live blocks, as far as the head does not name them for any.
    fn remove_dead(&self, writer: &mut Writer) -> io::Result<()> {
        let dead: Vec<(u64, u64)> = {
            let state = self.state();
            let dead = state.map.objects.iter().filter(|(_, packed)| packed.live == 0);
            dead.map(|(number, packed)| (*number, packed.epoch)).collect()
        };
        let names = dead.iter().map(|(object, epoch)| self.names.blocks(self.number, *epoch, *object));
        self.owned.remove_all(names)?;
        self.forget(writer, dead.iter().map(|(number, _)| *number));
        Ok(())
    }

    pub(super) fn sync_all(&self, writer: &mut Writer) -> io::Result<()> {
        self.rewrite_some()?;
        while !self.state().dirty.is_empty() {
            self.spill(writer)?;
        }
        while !writer.pending.is_empty() {
            self.wait_for_oldest(writer)?;
        }
        self.write_head(writer)?;
        self.remove_dead(writer)
    }

    /// Passes a result on. After an error, the index is again as the last sync left it: an object that it refers to may be missing.
    pub(super) fn or_go_back(&self, writer: &mut Writer, result: io::Result<()>) -> io::Result<()> {
        result.inspect_err(|_| {
            // Nothing may be under way when its number is forgotten.
            let _ = wait_for_all(writer.pending.drain(..).map(|(_, pending)| pending));
            let (stored, next) = (writer.stored.1, self.state().map.next);
            let useless =
                (stored..next).map(|object| self.names.blocks(self.number, self.owned.epoch(), object));
            let removed = self.owned.remove_all(useless);
            if let Err(error) = removed.and_then(|()| self.load(writer)) {
                tracing::error!(%error, "the index cannot go back to what it was before a failed write");
            }
            // A removal may be late, so the numbers are not used again.
            let mut state = self.state();
            state.map.next = state.map.next.max(next);
        })
    }

    /// Changes a part of a block, or all of it.
    pub(super) fn write_block(&self, block: u64, within: usize, part: &[u8]) -> io::Result<()> {
        let is_partial = part.len() < BLOCK;
        let mut bytes: Box<[u8]> = if is_partial { vec![0; BLOCK].into() } else { part.into() };
        if is_partial {
            self.read_blocks(block * BLOCK_BYTES, &mut bytes)?;
            bytes[within..within + part.len()].copy_from_slice(part);
        }
        self.state().dirty.insert(block, Dirty { bytes, is_partial });
        Ok(())
    }

    pub(super) fn write_all(&self, writer: &mut Writer, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.prepare_sync(writer)?;
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let within = usize::try_from(at % BLOCK_BYTES).expect("within a block");
            let (part, after) = rest.split_at(rest.len().min(BLOCK - within));
            self.write_block(at / BLOCK_BYTES, within, part)?;
            at += part.len() as u64;
            rest = after;
            if self.state().dirty.len() >= SLOTS_USIZE {
                self.prepare_sync(writer)?;
                self.spill(writer)?;
            }
        }
        Ok(())
    }
}
