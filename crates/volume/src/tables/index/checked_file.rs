//! A file of blocks that verifies each block it reads, beneath a library that does not.
//!
//! | bytes of the file | content |
//! |---|---|
//! | 0..488 | block 0, the library's header page: it uses the first 320 bytes |
//! | 488..496 | length of the file as the library sees it, 0 if that is not yet created |
//! | 496..504 | how many leading slots have durable labels |
//! | 504..512 | seal of bytes 0..504, as of block 0 |
//! | 512..4096 | unused |
//! | then slots of 1 MiB | 0..16 label: CRC32C of what follows, a mark, the number of the group that it holds |
//! | | 16..2048 seals of the group's 254 blocks, 8 bytes each |
//! | | 2048..2560 in the first slot: a copy of bytes 0..512 of the file |
//! | | the rest up to 4096 unused; then those blocks |
//!
//! [`super::slots`] decides which group lies in which slot.
//!
//! A seal is CRC32C over the block's number (8 bytes) and its data, and a mark ([`MARK`]), both big-endian. A seal
//! that is all zeros belongs to a block that was never written, which is refused like any other that does not verify:
//! the library reads only what it wrote. The number catches a block that was written to another's place. No checksum
//! of a block can catch an old version of both, left by a device that lost writes after their sync returned; media
//! promise not to. Seals lie apart so that blocks stay aligned: a page that the library writes consists of whole
//! pages of the kernel and the device, which need not read to write it.
//!
//! # What a crash may leave
//!
//! The library (redb 4.4) never overwrites a page that the last commit can reach, with one exception: the first 320
//! bytes of page 0, its header. A torn write of any other page leaves a block that does not match its seal, which
//! nobody reads: the next open begins from the header, and that names only pages synced before it was written. This
//! needs the library's two-phase commit, which `quick_repair` sets: first all pages and the unused one of the
//! header's two commit slots are written and synced, then one byte of the header is switched and synced. With it a
//! reopening takes the slot that the byte names and the record of free pages that belongs to it, and looks at no
//! half-written tree. Several seals share a sector. A write of one rewrites the bytes of the others as they are; so
//! whichever version of the sector is kept, the seals of blocks that were not written are right in it.
//!
//! The header is overwritten in place: god byte (which slot is valid, whether the last process closed the file),
//! counts of regions, two commit slots with a checksum each. Its bytes, the length and their seal lie together within
//! the first [`SECTOR_BYTES`] of the file, which media keep or lose as one. So there is always an old header or a new
//! one, never a mixture; and a flipped bit in the god byte, which the library could not see and which would turn it
//! back to an older commit whose pages were reused since, does not verify. The library made everything that differs
//! between the two versions durable in the right order: a new slot before the god byte that points to it, a new
//! length before the counts that need it, a shorter one after the counts that do not.
//!
//! Each change writes the copy right after the first sector, without a sync between. The copy is read only if the
//! first sector does not verify, so after damage, as a crash does not tear sectors. Both are states of the header since
//! the last sync or the one before, either of which a crash may leave, as above.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use redb::StorageBackend;

use super::bad_blocks::BadBlocks;
use super::slots::{BLOCK_BYTES, GROUP, SEAL_BYTES, Slot, Slots, group_of};
use crate::media::{RandomFile, SECTOR_BYTES};

const BLOCK: usize = 4096;

/// Marks the seal of a block that was written.
const MARK: u32 = 0x4846_4942;

const SEAL: usize = 8;

const SECTOR: usize = 512;

/// Where the copy of the first sector lies: in another block of the device, after the seals of the first slot.
const COPY_AT: u64 = BLOCK_BYTES + 2048;

/// Bytes of block 0 that can be used.
const HEADER: usize = 488;
const LENGTH_AT: usize = HEADER;
const LABELS_AT: usize = LENGTH_AT + 8;
const SEAL_AT: usize = SECTOR - SEAL;
const _: () =
    assert!(SECTOR as u64 == SECTOR_BYTES && BLOCK as u64 == BLOCK_BYTES && SEAL as u64 == SEAL_BYTES);

/// Most bytes by which the file grows ahead of need; otherwise each page would grow it.
const GROWTH_BYTES: u64 = 4 << 20;

/// A file that verifies each block it reads.
#[derive(Clone)]
pub struct CheckedFile {
    file: Arc<dyn RandomFile>,
    /// The first sector; what is in memory is what was last written.
    sector: Arc<Mutex<[u8; SECTOR]>>,
    slots: Arc<RwLock<Slots>>,
    /// Length of the file below; taken after `slots`.
    stored: Arc<Mutex<u64>>,
    bad: Arc<BadBlocks>,
    /// A sync failed: what media hold is unknown for as long as this process lives.
    sync_failed: Arc<AtomicBool>,
    /// How many times the file was reopened before.
    opening: u64,
    /// The greatest opening that changed blocks, among all of this file.
    changed_by: Arc<AtomicU64>,
}

impl fmt::Debug for CheckedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckedFile")
    }
}

impl CheckedFile {
    /// Returns a new file; `file` is empty.
    pub fn create(file: Arc<dyn RandomFile>) -> io::Result<CheckedFile> {
        if file.len()? != 0 {
            return Err(io::Error::other("the index file is not empty"));
        }
        Ok(CheckedFile {
            file,
            sector: Arc::new(Mutex::new([0; SECTOR])),
            slots: Arc::default(),
            stored: Arc::default(),
            bad: Arc::default(),
            sync_failed: Arc::default(),
            opening: 0,
            changed_by: Arc::default(),
        })
    }

    /// Opens an existing file.
    pub fn open(file: Arc<dyn RandomFile>) -> io::Result<CheckedFile> {
        let stored = file.len()?;
        if stored < SECTOR_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the index file is empty"));
        }
        let sector = first_sector(&*file)?;
        let blocks = number_in(&sector, LENGTH_AT).div_ceil(BLOCK_BYTES);
        let slots = Slots::load(&*file, stored, blocks, number_in(&sector, LABELS_AT))?;
        let bad = BadBlocks::default();
        bad.set_unknown_slots(slots.unknown());
        Ok(CheckedFile {
            file,
            sector: Arc::new(Mutex::new(sector)),
            slots: Arc::new(RwLock::new(slots)),
            stored: Arc::new(Mutex::new(stored)),
            bad: Arc::new(bad),
            sync_failed: Arc::default(),
            opening: 0,
            changed_by: Arc::default(),
        })
    }

    /// Returns the same file after an error, as it is now; refused after a failed sync.
    pub fn reopen(&self) -> io::Result<CheckedFile> {
        self.check_usable()?;
        let opening = self.opening + 1;
        let (changed_by, bad) = (Arc::clone(&self.changed_by), Arc::clone(&self.bad));
        let opened = CheckedFile::open(Arc::clone(&self.file))?;
        bad.set_unknown_slots(opened.slots.read().unknown());
        Ok(CheckedFile { opening, changed_by, bad, ..opened })
    }

    /// Whether the file was reopened and changed since: then what this one reads may belong to a later commit. Ask
    /// after reading.
    pub(super) fn is_superseded(&self) -> bool {
        self.changed_by.load(Ordering::SeqCst) > self.opening
    }

    /// Returns the blocks that could not be read.
    pub(super) fn bad_blocks(&self) -> &Arc<BadBlocks> {
        &self.bad
    }

    /// Reads the bad blocks again, and the labels that could not be read. Returns how many are good now.
    pub(super) fn look_again(&self) -> usize {
        let unknown = {
            let mut slots = self.slots.write();
            slots.look_again(&*self.file);
            slots.unknown()
        };
        let labels = self.bad.set_unknown_slots(unknown).saturating_sub(unknown);
        labels + self.bad.look_again(|block| self.try_read(block, &mut [0; BLOCK]).is_ok())
    }

    /// Checks that media can be read at all. Either place of the first sector may be damaged.
    pub(super) fn check_readable(&self) -> io::Result<()> {
        let mut sector = [0; SECTOR];
        self.file.read_at(0, &mut sector).or_else(|_| self.file.read_at(COPY_AT, &mut sector))
    }

    /// Returns the length of the underlying file, bytes.
    pub fn stored_len(&self) -> u64 {
        *self.stored.lock()
    }

    /// Refuses after a failed sync.
    pub(super) fn check_usable(&self) -> io::Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync of the index failed; restart the server"));
        }
        Ok(())
    }

    fn sync_file(&self) -> io::Result<()> {
        self.file.sync().inspect_err(|_| self.sync_failed.store(true, Ordering::Release))
    }

    /// Changes the first sector and its copy; `labels` slots have durable labels.
    fn change_sector(&self, labels: u64, change: impl FnOnce(&mut [u8; SECTOR])) -> io::Result<()> {
        self.grow_to(COPY_AT + SECTOR_BYTES)?;
        let mut sector = self.sector.lock();
        let mut changed = *sector;
        change(&mut changed);
        changed[LABELS_AT..][..8].copy_from_slice(&labels.to_be_bytes());
        let seal = seal(0, &changed[..SEAL_AT]);
        changed[SEAL_AT..].copy_from_slice(&seal);
        self.file.write_at(0, &changed)?;
        *sector = changed;
        self.file.write_at(COPY_AT, &changed)
    }

    /// Grows the underlying file to at least `needed` bytes.
    fn grow_to(&self, needed: u64) -> io::Result<()> {
        let mut stored = self.stored.lock();
        if needed <= *stored {
            return Ok(());
        }
        let ahead = needed.saturating_add((needed / 16).min(GROWTH_BYTES)).next_multiple_of(BLOCK_BYTES);
        // The device may lack room for growth ahead of need.
        let (length, result) = match self.file.set_len(ahead) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => (needed, self.file.set_len(needed)),
            result => (ahead, result),
        };
        result?;
        *stored = length;
        Ok(())
    }

    fn read_blocks(&self, first: u64, out: &mut [u8]) -> io::Result<()> {
        super::warmth::count_block_read();
        if self.try_read(first, out).is_ok() {
            return Ok(());
        }
        // The failure may pass. If it does not, it belongs to some of the blocks.
        let mut result = Ok(());
        for (number, block) in (first..).zip(out.chunks_exact_mut(BLOCK)) {
            result = result.and(self.try_read(number, block).inspect_err(|_| self.bad.add(number)));
        }
        result
    }

    fn try_read(&self, first: u64, out: &mut [u8]) -> io::Result<()> {
        let mut seals = vec![0; out.len() / BLOCK * SEAL];
        for run in runs(first, out.len() / BLOCK) {
            let slot =
                self.slots.read().get(run.group).ok_or_else(|| damaged(run.number, "was never written"))?;
            if slot.data_at(run.within) + run.data.len() as u64 > self.stored_len() {
                return Err(damaged(run.number, "was never written"));
            }
            self.file
                .read_at(slot.data_at(run.within), &mut out[run.data])
                .and_then(|()| self.file.read_at(slot.seal_at(run.within), &mut seals[run.seals]))
                .map_err(|error| damaged(run.number, &format!("cannot be read: {error}")))?;
        }
        let blocks = out.chunks_exact(BLOCK).zip(seals.chunks_exact(SEAL));
        (first..).zip(blocks).try_for_each(|(number, (data, seal))| verify(number, data, seal))
    }

    fn write_blocks(&self, first: u64, data: &[u8]) -> io::Result<()> {
        self.changed_by.fetch_max(self.opening, Ordering::SeqCst);
        let seals: Vec<u8> =
            (first..).zip(data.chunks_exact(BLOCK)).flat_map(|(number, block)| seal(number, block)).collect();
        for run in runs(first, data.len() / BLOCK) {
            let known = self.slots.read().get(run.group);
            let slot = known.map_or_else(|| self.slot_for(run.group), Ok)?;
            self.grow_to(slot.data_at(run.within) + run.data.len() as u64)?;
            self.file.write_at(slot.data_at(run.within), &data[run.data])?;
            self.file.write_at(slot.seal_at(run.within), &seals[run.seals])?;
        }
        self.bad.written(first, (data.len() / BLOCK) as u64);
        Ok(())
    }

    /// Assigns a slot to a group, unless another thread just did.
    fn slot_for(&self, group: u64) -> io::Result<Slot> {
        let mut slots = self.slots.write();
        if let Some(slot) = slots.get(group) {
            return Ok(slot);
        }
        self.grow_to(slots.next().data_at(0))?;
        slots.assign(&*self.file, group)
    }
}

impl StorageBackend for CheckedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(number_in(&self.sector.lock(), LENGTH_AT))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check_usable()?;
        if offset < BLOCK_BYTES {
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            let sector = self.sector.lock();
            let header = sector[..HEADER].get(from..from + out.len());
            out.copy_from_slice(header.ok_or_else(|| unsupported(offset, out.len()))?);
            return Ok(());
        }
        if !offset.is_multiple_of(BLOCK_BYTES) || !out.len().is_multiple_of(BLOCK) {
            return Err(unsupported(offset, out.len()));
        }
        self.read_blocks(offset / BLOCK_BYTES, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_usable()?;
        self.changed_by.fetch_max(self.opening, Ordering::SeqCst);
        let blocks = len.div_ceil(BLOCK_BYTES);
        let mut slots = self.slots.write();
        let (labels, kept) = (slots.durable(), slots.kept(blocks));
        self.change_sector(labels.min(kept), |sector| {
            sector[LENGTH_AT..][..8].copy_from_slice(&len.to_be_bytes());
        })?;
        if kept < labels {
            // The file may grow again, by slots without labels.
            self.sync_file()?;
        }
        let mut stored = self.stored.lock();
        let enough = slots.shrink(&*self.file, *stored, blocks)?;
        if enough < *stored {
            // A crash before this is durable only leaves a file that is longer than necessary.
            self.file.set_len(enough)?;
            *stored = enough;
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_usable()?;
        let labeled = self.slots.read().labeled();
        self.sync_file()?;
        self.slots.write().synced(labeled);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_usable()?;
        if offset < BLOCK_BYTES {
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            if from + data.len() > HEADER {
                return Err(unsupported(offset, data.len()));
            }
            let labels = self.slots.read().durable();
            return self
                .change_sector(labels, |sector| sector[from..from + data.len()].copy_from_slice(data));
        }
        if !offset.is_multiple_of(BLOCK_BYTES) || !data.len().is_multiple_of(BLOCK) {
            return Err(unsupported(offset, data.len()));
        }
        self.write_blocks(offset / BLOCK_BYTES, data)
    }
}

/// Reads the first sector, or its copy if it is damaged. The next change writes both.
fn first_sector(file: &dyn RandomFile) -> io::Result<[u8; SECTOR]> {
    let read = |at| {
        let mut sector = [0; SECTOR];
        file.read_at(at, &mut sector)?;
        verify(0, &sector[..SEAL_AT], &sector[SEAL_AT..]).map(|()| sector)
    };
    read(0).or_else(|error| {
        let copy = read(COPY_AT).map_err(|_| error)?;
        tracing::warn!("the first sector of the index is damaged; its copy is used");
        Ok(copy)
    })
}

/// Returns the number at an offset of the first sector.
fn number_in(sector: &[u8; SECTOR], at: usize) -> u64 {
    u64::from_be_bytes(sector[at..][..8].try_into().expect("eight bytes"))
}

/// Consecutive blocks of one group.
struct Run {
    number: u64,
    group: u64,
    /// Place of the first in its group.
    within: u64,
    /// Which part of the caller's data they are, and of its seals.
    data: std::ops::Range<usize>,
    seals: std::ops::Range<usize>,
}

/// Splits `count` blocks from `first` on at the ends of groups.
fn runs(first: u64, count: usize) -> impl Iterator<Item = Run> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let number = first + done as u64;
        let (group, within) = group_of(number);
        let left = usize::try_from(GROUP - within).expect("a group is small").min(count - done);
        let end = done + left;
        let run =
            Run { number, group, within, data: done * BLOCK..end * BLOCK, seals: done * SEAL..end * SEAL };
        done = end;
        (left > 0).then_some(run)
    })
}

fn seal(number: u64, data: &[u8]) -> [u8; SEAL] {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&number.to_be_bytes()), data);
    let mut seal = [0; SEAL];
    seal[..4].copy_from_slice(&checksum.to_be_bytes());
    seal[4..].copy_from_slice(&MARK.to_be_bytes());
    seal
}

fn verify(number: u64, data: &[u8], stored: &[u8]) -> io::Result<()> {
    if stored == seal(number, data) {
        return Ok(());
    }
    let never = stored.iter().all(|byte| *byte == 0);
    Err(damaged(number, if never { "was never written" } else { "does not verify" }))
}

fn damaged(number: u64, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("index block {number} {what}"))
}

/// The library reads and writes its header and whole pages; another release of it may differ.
fn unsupported(offset: u64, length: usize) -> io::Error {
    let text = format!("the index library touches {length} bytes at {offset}, which are not whole blocks");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
