//! Segments: append-only files of extents, and the streams that fill them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::api::ids::{Layer, SegmentId};
use crate::bytes::{Bytes, Pool};
use crate::encoding::record::{BLOCK, ExtentHeader, ExtentRecord, Kept, Piece};
use crate::limits::{EXTENT_BYTES_MAX, PORTION_BYTES};
use crate::media::{BLOCK_BYTES, Blob, Media};
use holding::Sum;

mod holding;
pub(crate) mod space;
mod stream;

pub use holding::Holding;
pub use stream::Stream;

/// Alignment of extents, so that their headers can be found.
const ALIGN: usize = 8;

/// Most segments kept open for reading.
const OPEN_BLOBS_MAX: usize = 256;

/// A segment of which this share of its capacity is live, in percent, is never cleaned: a new one would be as full. Of one with
/// extents of the largest size 97 % can be live.
pub const LIVE_PERCENT_MAX: u64 = 95;

/// First bytes of a segment, followed by its id.
const MAGIC: [u8; 8] = *b"HfSegmnt";

/// State of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentInfo {
    /// Bytes allocated to it.
    pub capacity: u64,
    /// Bytes written.
    pub written: u64,
    /// Stored bytes of its extents in the index's extent table that mappings name.
    pub live: u64,
    /// Extents written whose rows are not journaled yet.
    pub pending: u64,
    /// The newest memtable with a row for one of its extents.
    pub newest_layer: Layer,
    /// Whether nothing more will be appended.
    pub sealed: bool,
}

impl SegmentInfo {
    /// Whether all rows of its extents are in the index: it is sealed, and no memtable from `active` on names it.
    pub fn is_settled(&self, active: Layer) -> bool {
        self.sealed && self.pending == 0 && self.newest_layer < active
    }
}

/// All segments of a volume.
pub struct Segments {
    media: Arc<dyn Media>,
    capacity: u64,
    pool: Arc<Pool>,
    state: Mutex<Registry>,
    streams: Streams,
    /// Live bytes beyond those that files use, as of the last checkpoint: sectors of which mappings name a part.
    excess: AtomicU64,
}

/// The streams that append to segments, one for each background step that writes file data.
#[derive(Default)]
pub struct Streams {
    /// Of write-back.
    pub write_back: Mutex<Stream>,
    /// Of checkpoints.
    pub checkpoint: Mutex<Stream>,
    /// Of the cleaner.
    pub cleaner: Mutex<Stream>,
}

#[derive(Default)]
struct Registry {
    infos: HashMap<SegmentId, SegmentInfo>,
    blobs: HashMap<SegmentId, Arc<dyn Blob>>,
    spare: Vec<(SegmentId, Arc<dyn Blob>)>,
    next: u64,
    /// What is held.
    held: Sum,
}

impl Registry {
    /// Keeps a segment open, closing another if there are too many.
    fn keep_open(&mut self, id: SegmentId, blob: &Arc<dyn Blob>) {
        if self.blobs.len() >= OPEN_BLOBS_MAX {
            // Any victim will do: reopening a segment costs less than the read that needs it.
            let victim = self.blobs.keys().next().copied();
            victim.and_then(|victim| self.blobs.remove(&victim));
        }
        self.blobs.insert(id, Arc::clone(blob));
    }
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segments").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Segments {
    /// Returns the segments of a volume, of `capacity` bytes each; `next` is the first unused number.
    pub fn new(media: Arc<dyn Media>, capacity: u64, next: u64) -> Segments {
        Segments {
            media,
            capacity,
            pool: Arc::default(),
            state: Mutex::new(Registry { next, ..Registry::default() }),
            streams: Streams::default(),
            excess: AtomicU64::new(0),
        }
    }

    /// Sets the bytes of unused memory to keep.
    pub fn with_pool(self, bytes: u64) -> Segments {
        let pool = Arc::new(Pool::new(usize::try_from(bytes).unwrap_or(usize::MAX)));
        Segments { pool, ..self }
    }

    /// Returns the bytes of file data, with the overhead of extents, that a spare segment certainly takes. Its first block,
    /// the extent that does not fit at the end, and the padding at the end of each portion
    /// ([`crate::limits::PORTION_BYTES`]) are lost.
    pub fn usable_bytes(&self) -> u64 {
        let portions = self.capacity / PORTION_BYTES + 1;
        self.capacity.saturating_sub((4 + portions) * BLOCK_BYTES + EXTENT_BYTES_MAX as u64).max(1)
    }

    /// Returns the memory pool for file data.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The streams that append to these segments.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Seals open segments that are mostly dead, so that they can be deleted or cleaned. `oldest` is the oldest memtable.
    pub fn seal_dead_streams(&self, oldest: Layer) {
        let Streams { write_back, checkpoint, cleaner } = &self.streams;
        for stream in [write_back, checkpoint, cleaner] {
            // A stream in use is not dead.
            if let Some(mut stream) = stream.try_lock() {
                stream.seal_if_mostly_dead(self, oldest);
            }
        }
    }

    /// Returns the bytes that a new segment takes on the device.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    /// Adds a segment that existed before.
    pub fn load(&self, id: SegmentId, info: SegmentInfo) {
        let mut state = self.state.lock();
        state.held.note_change(id, None, self.usable_bytes());
        state.infos.insert(id, info);
    }

    /// Returns the next segment number.
    pub fn next(&self) -> SegmentId {
        SegmentId(self.state.lock().next)
    }

    /// Returns the number of spare segments: allocated and empty.
    pub fn spares(&self) -> usize {
        self.state.lock().spare.len()
    }

    /// Allocates a spare segment.
    pub fn add_spare(&self) -> io::Result<()> {
        let id = {
            let mut state = self.state.lock();
            state.next += 1;
            SegmentId(state.next - 1)
        };
        let blob = self.media.create_blob(id, self.capacity)?;
        self.state.lock().spare.push((id, blob));
        Ok(())
    }

    /// Deletes the spare segments, when a volume is closed.
    pub fn drop_spares(&self) {
        for (id, _) in std::mem::take(&mut self.state.lock().spare) {
            if let Err(error) = self.media.delete_blob(id) {
                tracing::warn!(segment = id.0, %error, "a spare segment could not be deleted; the next open will");
            }
        }
    }

    fn take_spare(&self) -> io::Result<(SegmentId, Arc<dyn Blob>)> {
        if self.state.lock().spare.is_empty() {
            self.add_spare()?;
        }
        let mut state = self.state.lock();
        let (id, blob) = state.spare.pop().ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        state.held.note_change(id, None, self.usable_bytes());
        state.infos.insert(id, SegmentInfo { capacity: self.capacity, ..SegmentInfo::default() });
        state.keep_open(id, &blob);
        Ok((id, blob))
    }

    /// Changes the state of a segment.
    pub fn update(&self, id: SegmentId, change: impl FnOnce(&mut SegmentInfo)) {
        let Registry { infos, held, .. } = &mut *self.state.lock();
        if let Some(info) = infos.get_mut(&id) {
            held.note_change(id, Some(info), self.usable_bytes());
            change(info);
        }
    }

    /// Records that the rows of this many extents were journaled into `layer`, or dropped.
    pub fn resolve_pending(&self, id: SegmentId, extents: u64, layer: Option<Layer>) {
        self.update(id, |info| {
            info.pending -= extents;
            info.newest_layer = info.newest_layer.max(layer.unwrap_or_default());
        });
    }

    /// Returns the state of a segment.
    pub fn info(&self, id: SegmentId) -> Option<SegmentInfo> {
        self.state.lock().infos.get(&id).copied()
    }

    /// Returns the states of all segments.
    pub fn infos(&self) -> Vec<(SegmentId, SegmentInfo)> {
        let mut all: Vec<_> = self.state.lock().infos.iter().map(|(id, info)| (*id, *info)).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// Compares what is live with the bytes that files use, both as of a checkpoint that left nothing to be freed.
    pub fn note_used(&self, used: u64) {
        let live = self.state.lock().infos.values().map(|info| info.live.min(info.capacity)).sum::<u64>();
        self.excess.store(live.saturating_sub(used), Ordering::Relaxed);
    }

    /// Returns what segments hold. Those that are settled as of `oldest` hold what is live in them, others all that was
    /// written to them.
    pub fn holding(&self, oldest: Layer) -> Holding {
        let Registry { infos, held, .. } = &mut *self.state.lock();
        let excess = self.excess.load(Ordering::Relaxed);
        Holding { excess, ..held.of(infos, oldest, self.usable_bytes()) }
    }

    /// Whether a checkpoint would delete segments: sealed, and without extents in the index or in a memtable older
    /// than `active`.
    pub fn has_dead(&self, active: Layer) -> bool {
        self.state.lock().infos.values().any(|info| info.live == 0 && info.is_settled(active))
    }

    /// Opens a segment for reading.
    pub fn blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        if let Some(blob) = self.state.lock().blobs.get(&id) {
            return Ok(Arc::clone(blob));
        }
        let blob = self.media.open_blob(id)?;
        self.state.lock().keep_open(id, &blob);
        Ok(blob)
    }

    /// Deletes a segment that nothing refers to.
    pub fn delete(&self, id: SegmentId) -> io::Result<()> {
        let mut state = self.state.lock();
        if let Some(info) = state.infos.remove(&id) {
            state.held.note_change(id, Some(&info), self.usable_bytes());
        }
        state.blobs.remove(&id);
        drop(state);
        match self.media.delete_blob(id) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads and verifies blocks `[first, last]` of an extent. What is not stored, and no mapping names, is zeros.
    pub fn read(&self, extent: &ExtentRecord, first: u32, last: u32) -> io::Result<Bytes> {
        let (from, after) = (first as usize * BLOCK, (last as usize).saturating_add(1));
        let to = after.saturating_mul(BLOCK).min(extent.length as usize);
        self.pool.filled(to.saturating_sub(from), |bytes| match extent.kept {
            Kept::Whole => self.read_stored(extent, first, bytes),
            Kept::Parts(_) => self.read_parts(extent, from, bytes),
        })
    }

    /// Reads and verifies whole extents. Successive ones in the same segment are read at once.
    pub fn read_whole(&self, extents: &[&ExtentRecord]) -> Vec<io::Result<Bytes>> {
        let are_at_once = |one: &&ExtentRecord, next: &&ExtentRecord| {
            one.segment == next.segment && one.kept == Kept::Whole && next.kept == Kept::Whole
        };
        let one_by_one = |run: &[&ExtentRecord]| -> Vec<_> {
            run.iter().map(|extent| self.read(extent, 0, u32::MAX)).collect()
        };
        let runs = extents.chunk_by(are_at_once);
        runs.flat_map(|run| match run {
            // If that fails, each has a result of its own.
            [_, _, ..] => {
                self.read_run(run).map_or_else(|_| one_by_one(run), |all| all.into_iter().map(Ok).collect())
            }
            _ => one_by_one(run),
        })
        .collect()
    }

    /// Reads extents that are stored as a whole in one segment.
    fn read_run(&self, extents: &[&ExtentRecord]) -> io::Result<Vec<Bytes>> {
        let Some(first) = extents.first() else { return Ok(Vec::new()) };
        let blob = self.blob(first.segment)?;
        let lengths = extents.iter().map(|extent| extent.length as usize);
        self.pool.filled_all(lengths, |buffers| {
            let offsets = extents.iter().map(|extent| extent.offset);
            let mut pieces: Vec<_> = offsets.zip(buffers).collect();
            blob.read_all(&mut pieces)?;
            extents.iter().zip(&pieces).try_for_each(|(extent, (_, bytes))| verify(extent, 0, bytes))
        })
    }

    /// Reads bytes of an extent of which only parts are stored, from offset `from` on.
    fn read_parts(&self, extent: &ExtentRecord, from: usize, bytes: &mut [u8]) -> io::Result<()> {
        bytes.fill(0);
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let pieces: Vec<Piece> = extent.pieces(offset(from), offset(from + bytes.len())).collect();
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(()) };
        let block = first.stored as usize / BLOCK;
        let end = (last.stored + (last.end - last.start)) as usize;
        let end = end.next_multiple_of(BLOCK).min(extent.stored as usize);
        let mut stored = vec![0; end - block * BLOCK];
        self.read_stored(extent, offset(block), &mut stored)?;
        for piece in pieces {
            let at = piece.stored as usize - block * BLOCK;
            let into = &mut bytes[piece.start as usize - from..piece.end as usize - from];
            into.copy_from_slice(&stored[at..at + into.len()]);
        }
        Ok(())
    }

    /// Reads and verifies stored bytes of an extent, from block `first` of them on.
    fn read_stored(&self, extent: &ExtentRecord, first: u32, bytes: &mut [u8]) -> io::Result<()> {
        let from = u64::from(first) * BLOCK as u64;
        self.blob(extent.segment)?.read_at(extent.offset + from, bytes)?;
        verify(extent, first, bytes)
    }
}

/// Verifies stored bytes of an extent, from block `first` of them on.
fn verify(extent: &ExtentRecord, first: u32, bytes: &[u8]) -> io::Result<()> {
    for (index, block) in bytes.chunks(BLOCK).enumerate() {
        let number = first as usize + index;
        let place = extent.offset + (number * BLOCK) as u64;
        if extent.checksums.get(number) != Some(&ExtentRecord::checksum(block, extent.segment, place)) {
            let what =
                format!("segment {} at {place}: the bytes do not match their checksum", extent.segment);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    }
    Ok(())
}

/// Finds the extents in a piece of a segment: `(offset after the header, header)`, and how far it searched. An extent
/// that ends after the piece is left for the next piece, which begins at it; with `is_last` there is no next piece.
pub fn find_extents(bytes: &[u8], is_last: bool) -> (Vec<(usize, ExtentHeader)>, usize) {
    let mut found = Vec::new();
    let mut at = 0;
    while at + ExtentHeader::BYTES <= bytes.len() {
        match ExtentHeader::decode(&bytes[at..]) {
            Some(header) => {
                let start = at + ExtentHeader::BYTES;
                match start.checked_add(header.length as usize).filter(|end| *end <= bytes.len()) {
                    Some(end) => {
                        found.push((start, header));
                        at = end.next_multiple_of(ALIGN);
                    }
                    // No extent of ours has such a header: it is file data or damage.
                    None if is_last || header.length as usize > EXTENT_BYTES_MAX => at += ALIGN,
                    None => return (found, at),
                }
            }
            None => at += ALIGN,
        }
    }
    (found, at.min(bytes.len()))
}

#[cfg(test)]
mod tests;
