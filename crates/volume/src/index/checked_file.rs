//! A file of blocks that verifies each block it reads, beneath a library that does not.
//!
//! A block of [`DATA_BYTES`] is stored with a trailer behind it: CRC32C over block number and data (4 bytes), and a mark
//! (4 bytes, [`MARK`]), both big-endian. Block `n` begins at `n * STRIDE`. A block that was never written is all zeros,
//! mark included, and is refused: the library reads only what it wrote. The number in the checksum catches a block that
//! was written to another's place. What no checksum of a block can catch is an old version of it, kept by a device that
//! lost a write after its sync returned; media promise not to.
//!
//! # What a crash may leave
//!
//! The library (redb 4.4) never overwrites a page that the last commit can reach, with one exception: the first 320 bytes
//! of page 0, its header. A torn write of any other page leaves a block that does not verify, which nobody reads: the
//! next open begins from the header, and that names only pages synced before it was written. This needs the library's
//! two-phase commit, which `quick_repair` sets: first all pages and the unused of the header's two commit slots are
//! written and synced, then one byte of the header is switched and synced. With it a reopening takes the slot that the
//! byte names and the record of free pages that belongs to it, and looks at no half-written tree.
//! Blocks do not begin on sectors, so a write of one block rewrites the ends of the sectors that it shares with its
//! neighbours; the neighbours' bytes in them are the same before and after, whichever is kept.
//!
//! The header is overwritten in place: god byte (which slot is valid, whether the last process closed the file), counts
//! of regions, two commit slots with a checksum each. It is not stored as the other blocks are: its bytes and its own
//! trailer lie together within the first [`SECTOR_BYTES`] of the file, which media keep or lose as one. So there is always
//! an old header or a new one, never a mixture; and a flipped bit in the god byte, which the library could not see and
//! which would turn it back to an older commit whose pages were reused since, does not verify. Everything in the two
//! versions that differs was made durable in the right order by the library: a new slot before the god byte that points
//! to it. The count of regions may be older than the length of the file; the library then goes by the length, which it
//! may, as the god byte still says that the file was not closed.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;

use crate::media::{RandomFile, SECTOR_BYTES};

/// Bytes of a block as the library sees it: its page size.
const DATA_BYTES: u64 = 4096;

/// Bytes of a block as it is stored.
const STRIDE: u64 = DATA_BYTES + TRAILER_BYTES as u64;

/// Marks a block that was written.
const MARK: u32 = 0x4846_4942;

const TRAILER_BYTES: usize = 8;
const DATA: usize = 4096;
const STORED: usize = DATA + TRAILER_BYTES;

/// Bytes of block 0 that can be used; the library needs 320.
const HEADER: usize = SECTOR - TRAILER_BYTES;
const SECTOR: usize = 512;
const _: () = assert!(SECTOR as u64 == SECTOR_BYTES && DATA as u64 == DATA_BYTES);

/// The file.
#[derive(Clone)]
pub struct CheckedFile {
    file: Arc<dyn RandomFile>,
    /// A sync failed: what media hold is unknown for as long as this process lives.
    sync_failed: Arc<AtomicBool>,
}

impl fmt::Debug for CheckedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckedFile")
    }
}

impl CheckedFile {
    /// Verifies the blocks of `file`.
    pub fn new(file: Arc<dyn RandomFile>) -> CheckedFile {
        CheckedFile { file, sync_failed: Arc::default() }
    }

    /// Length of the file below, bytes.
    pub fn stored_len(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// Whether the file below holds nothing.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.file.len()? == 0)
    }

    fn check_usable(&self) -> io::Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier sync of the index failed; restart the server"));
        }
        Ok(())
    }

    fn read_header(&self, offset: usize, out: &mut [u8]) -> io::Result<()> {
        let mut sector = [0; SECTOR];
        self.file.read_at(0, &mut sector)?;
        let (data, trailer) = sector.split_at(HEADER);
        verify(0, data, trailer)?;
        let wanted =
            data.get(offset..offset + out.len()).ok_or_else(|| unsupported(offset as u64, out.len()))?;
        out.copy_from_slice(wanted);
        Ok(())
    }

    fn write_header(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        // The library always writes all of it, so what is stored is not needed.
        if offset != 0 || bytes.len() > HEADER {
            return Err(unsupported(offset as u64, bytes.len()));
        }
        let mut sector = [0; SECTOR];
        sector[..bytes.len()].copy_from_slice(bytes);
        let trailer = trailer(0, &sector[..HEADER]);
        sector[HEADER..].copy_from_slice(&trailer);
        self.file.write_at(0, &sector)
    }
}

impl StorageBackend for CheckedFile {
    fn len(&self) -> io::Result<u64> {
        // A crash while the file grew may leave a part of a block.
        Ok(self.file.len()? / STRIDE * DATA_BYTES)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check_usable()?;
        if offset < DATA_BYTES {
            let offset = usize::try_from(offset).map_err(io::Error::other)?;
            return self.read_header(offset, out);
        }
        if !offset.is_multiple_of(DATA_BYTES) || !out.len().is_multiple_of(DATA) {
            return Err(unsupported(offset, out.len()));
        }
        let first = offset / DATA_BYTES;
        let mut stored = vec![0; out.len() / DATA * STORED];
        self.file.read_at(first * STRIDE, &mut stored)?;
        for ((number, stored), out) in
            (first..).zip(stored.chunks_exact(STORED)).zip(out.chunks_exact_mut(DATA))
        {
            let (data, trailer) = stored.split_at(DATA);
            verify(number, data, trailer)?;
            out.copy_from_slice(data);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_usable()?;
        let before = self.file.len()?;
        let result = self.file.set_len(len.div_ceil(DATA_BYTES) * STRIDE);
        if result.is_err() {
            // Part of the growth may have happened; without it the next opening finds the file as it was. If this
            // fails too, the library copes with the length.
            let _ = self.file.set_len(before);
        }
        result
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check_usable()?;
        self.file.sync().inspect_err(|_| self.sync_failed.store(true, Ordering::Release))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_usable()?;
        if offset < DATA_BYTES {
            let offset = usize::try_from(offset).map_err(io::Error::other)?;
            return self.write_header(offset, data);
        }
        if !offset.is_multiple_of(DATA_BYTES) || !data.len().is_multiple_of(DATA) {
            return Err(unsupported(offset, data.len()));
        }
        let first = offset / DATA_BYTES;
        let mut stored = Vec::with_capacity(data.len() / DATA * STORED);
        for (number, block) in (first..).zip(data.chunks_exact(DATA)) {
            stored.extend_from_slice(block);
            stored.extend_from_slice(&trailer(number, block));
        }
        self.file.write_at(first * STRIDE, &stored)
    }
}

fn trailer(number: u64, data: &[u8]) -> [u8; TRAILER_BYTES] {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&number.to_be_bytes()), data);
    let mut trailer = [0; TRAILER_BYTES];
    trailer[..4].copy_from_slice(&checksum.to_be_bytes());
    trailer[4..].copy_from_slice(&MARK.to_be_bytes());
    trailer
}

fn verify(number: u64, data: &[u8], stored: &[u8]) -> io::Result<()> {
    if stored == trailer(number, data) {
        return Ok(());
    }
    let what = if stored.iter().all(|byte| *byte == 0) { "was never written" } else { "does not verify" };
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("index block {number} {what}")))
}

/// The library reads and writes its header and whole pages; anything else would be a new release of it.
fn unsupported(offset: u64, length: usize) -> io::Error {
    let text = format!("the index library touches {length} bytes at {offset}, which are not whole blocks");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}
