//! The simulated device, and what a crash leaves of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use volume::ids::SegmentId;
use volume::media::{DAMAGED_INDEXES_MAX, SECTOR_BYTES, oldest_with};

use super::image::Image;
use crate::random::Random;

/// A number that identifies a file independently of its name, like an inode number.
pub(crate) type FileId = u64;
/// The log.
pub(crate) const LOG: FileId = 0;
/// The first index.
const INDEX: FileId = 1;

/// The byte where a blob was not written yet: a blob may reuse the space of a deleted one.
const STALE_BYTE: u8 = 0xa5;

/// A change that no sync covers.
#[derive(Clone, Debug)]
enum Unsynced {
    Write { offset: u64, bytes: Arc<[u8]> },
    Length(u64),
}

/// A creation or deletion that is not durable.
#[derive(Clone, Copy, Debug)]
enum NameChange {
    Created(SegmentId, FileId),
    Deleted(SegmentId),
}

/// A file: the bytes that its process sees, the durable bytes, and the changes between the two, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) current: Image,
    durable: Image,
    unsynced: Vec<Unsynced>,
    /// Bytes allocated beyond the length.
    pub(crate) reserved: u64,
}

impl File {
    /// Returns a new blob, whose space may have belonged to a deleted one.
    fn blob(capacity: u64) -> File {
        let mut file =
            File { current: Image::over(STALE_BYTE), durable: Image::over(STALE_BYTE), ..File::default() };
        file.set_len(capacity);
        file
    }

    pub(crate) fn set_len(&mut self, length: u64) {
        let grown = length.saturating_sub(self.current.len());
        self.reserved = self.reserved.saturating_sub(grown);
        self.current.set_len(length);
        self.unsynced.push(Unsynced::Length(length));
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.current.write(offset, bytes);
        self.unsynced.push(Unsynced::Write { offset, bytes: bytes.into() });
    }

    pub(crate) fn sync(&mut self) {
        self.durable = self.current.clone();
        self.unsynced.clear();
    }

    /// Applies a failed sync: some dirty sectors are written, the others never will be, and nothing is dirty.
    pub(crate) fn drop_dirty(&mut self, random: &mut Random) {
        let survival = Survival::Sectors(*random.pick(&[0, 0, 128, 230]));
        self.durable = self.survivors(random, survival);
        self.unsynced.clear();
    }

    pub(crate) fn allocated(&self) -> u64 {
        self.current.len() + self.reserved
    }

    /// Returns the durable bytes with the unsynced changes that `survival` keeps. Lengths survive as a prefix, as they
    /// go through the file system's journal; sectors survive independently.
    fn survivors(&self, random: &mut Random, survival: Survival) -> Image {
        let mut image = self.durable.clone();
        let lengths = self.unsynced.iter().filter(|change| matches!(change, Unsynced::Length(_))).count();
        let mut lengths_left = match survival {
            Survival::Everything => lengths,
            Survival::Nothing => 0,
            _ => random.index(lengths + 1),
        };
        let tear_at = random.index(self.unsynced.len() + 1);
        for (position, change) in self.unsynced.iter().enumerate() {
            match change {
                Unsynced::Length(length) if lengths_left > 0 => {
                    lengths_left -= 1;
                    image.set_len(*length);
                }
                Unsynced::Length(_) => {}
                Unsynced::Write { offset, bytes } => {
                    let keep = match survival {
                        Survival::Everything => 256,
                        Survival::Nothing => 0,
                        Survival::Sectors(keep) => keep,
                        Survival::TornTail if position < tear_at => 256,
                        Survival::TornTail if position == tear_at => 128,
                        Survival::TornTail => 0,
                    };
                    write_sectors(&mut image, *offset, bytes, keep, random);
                }
            }
        }
        image
    }
}

/// Writes each sector of `bytes` with a probability of `keep` in 256.
fn write_sectors(image: &mut Image, offset: u64, bytes: &[u8], keep: u64, random: &mut Random) {
    if keep == 256 {
        return image.write(offset, bytes);
    }
    let mut at = 0;
    while keep > 0 && at < bytes.len() {
        let position = offset + at as u64;
        let to_boundary = SECTOR_BYTES - position % SECTOR_BYTES;
        let end = bytes.len().min(at + usize::try_from(to_boundary).expect("below a sector"));
        if random.chance(keep, 256) {
            image.write(position, &bytes[at..end]);
        }
        at = end;
    }
}

/// The unsynced changes that survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All of them: the process was killed.
    Everything,
    /// None: nothing had left the cache.
    Nothing,
    /// Each sector with this probability in 256, in no order.
    Sectors(u64),
    /// The writes up to a random one, half of that one's sectors, and nothing after it.
    TornTail,
}

impl Survival {
    /// Draws one of them, losses of power more often than kills.
    #[must_use]
    pub fn draw(random: &mut Random) -> Survival {
        random.weighted(&[
            (2, Survival::Everything),
            (2, Survival::Nothing),
            (1, Survival::Sectors(25)),
            (3, Survival::Sectors(128)),
            (1, Survival::Sectors(230)),
            (3, Survival::TornTail),
        ])
    }
}

/// A bit flipped in durable data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitFlip {
    /// The part of the media.
    pub part: super::MediaPart,
    /// The segment, if the bit is in a blob.
    pub blob: Option<SegmentId>,
    /// The offset within the file.
    pub offset: u64,
    /// The bit within the byte.
    pub bit: u8,
}

/// The content of the device. Clones share pages.
#[derive(Clone, Debug)]
pub struct Disk {
    pub(crate) files: BTreeMap<FileId, File>,
    pub(crate) names: BTreeMap<SegmentId, FileId>,
    durable_names: BTreeMap<SegmentId, FileId>,
    name_changes: Vec<NameChange>,
    /// The index.
    pub(crate) index: FileId,
    /// The index that a crash without survivors leaves.
    durable_index: FileId,
    /// The file that may replace the index.
    created_index: Option<FileId>,
    /// Indexes that were replaced, oldest first.
    damaged_indexes: Vec<FileId>,
    next_file: FileId,
}

impl Disk {
    /// Returns a device with a log of zeros and an empty index, both durable.
    pub(crate) fn new(log_bytes: u64) -> Disk {
        let mut log = File::default();
        log.set_len(log_bytes);
        log.sync();
        Disk {
            files: BTreeMap::from([(LOG, log), (INDEX, File::default())]),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            index: INDEX,
            durable_index: INDEX,
            created_index: None,
            damaged_indexes: Vec::new(),
            next_file: 2,
        }
    }

    /// Returns the log, the index and what replaced it or may.
    fn unnamed(&self) -> Vec<FileId> {
        let mut files = vec![LOG, self.index];
        files.extend(self.created_index.iter().chain(&self.damaged_indexes));
        files
    }

    /// Creates an empty file that may replace the index.
    pub(crate) fn create_index(&mut self) -> FileId {
        let number = self.next_file;
        self.next_file += 1;
        self.files.insert(number, File::default());
        self.created_index = Some(number);
        number
    }

    /// Drops the file that may replace the index.
    pub(crate) fn discard_index(&mut self) {
        self.created_index = None;
    }

    /// Deletes the oldest replaced indexes that take at least `bytes`, if all do; returns what they took.
    pub(crate) fn free_damaged_indexes(&mut self, bytes: u64) -> u64 {
        let sizes: Vec<u64> = self.damaged_indexes.iter().map(|id| self.files[id].allocated()).collect();
        let Some(count) = oldest_with(&sizes, bytes) else { return 0 };
        self.damaged_indexes.drain(..count);
        sizes[..count].iter().sum()
    }

    /// Replaces the index, not yet durably; returns false if nothing was created.
    pub(crate) fn replace_index(&mut self) -> bool {
        let Some(created) = self.created_index.take() else { return false };
        self.damaged_indexes.push(std::mem::replace(&mut self.index, created));
        let surplus = self.damaged_indexes.len().saturating_sub(DAMAGED_INDEXES_MAX);
        self.damaged_indexes.drain(..surplus);
        true
    }

    /// Makes the replacement of the index durable.
    pub(crate) fn sync_index_name(&mut self) {
        self.durable_index = self.index;
    }

    pub(crate) fn file(&mut self, id: FileId) -> &mut File {
        self.files.get_mut(&id).expect("files stay while their device is used")
    }

    /// Returns the bytes allocated to files.
    pub(crate) fn allocated(&self) -> u64 {
        self.unnamed().iter().chain(self.names.values()).map(|id| self.files[id].allocated()).sum()
    }

    pub(crate) fn create(&mut self, id: SegmentId, capacity: u64) -> FileId {
        let number = self.next_file;
        self.next_file += 1;
        self.files.insert(number, File::blob(capacity));
        self.names.insert(id, number);
        self.name_changes.push(NameChange::Created(id, number));
        number
    }

    pub(crate) fn delete(&mut self, id: SegmentId) -> bool {
        self.name_changes.push(NameChange::Deleted(id));
        self.names.remove(&id).is_some()
    }

    /// Makes a file durable; the first sync of a new blob also syncs the directory.
    pub(crate) fn sync(&mut self, id: FileId) {
        self.file(id).sync();
        if self
            .name_changes
            .iter()
            .any(|change| matches!(change, NameChange::Created(_, file) if *file == id))
        {
            self.durable_names = self.names.clone();
            self.name_changes.clear();
        }
    }

    /// Returns the device after a crash.
    #[must_use]
    pub fn crash(&self, random: &mut Random, survival: Survival) -> Disk {
        let mut names = self.durable_names.clone();
        let changes = self.name_changes.len();
        let surviving = match survival {
            Survival::Everything => changes,
            Survival::Nothing => 0,
            _ => random.index(changes + 1),
        };
        for change in &self.name_changes[..surviving] {
            match change {
                NameChange::Created(id, file) => names.insert(*id, *file),
                NameChange::Deleted(id) => names.remove(id),
            };
        }
        // The directory keeps a replacement as a whole or not at all.
        let index = match survival {
            Survival::Everything => self.index,
            Survival::Nothing => self.durable_index,
            _ if self.index == self.durable_index => self.index,
            _ => *random.pick(&[self.index, self.durable_index]),
        };
        let damaged_indexes: Vec<FileId> =
            self.damaged_indexes.iter().copied().filter(|damaged| *damaged != index).collect();
        let mut files = BTreeMap::new();
        for id in [LOG, index].iter().chain(&damaged_indexes).chain(names.values()) {
            let file = &self.files[id];
            let image = file.survivors(random, survival);
            let reserved = file.reserved;
            files
                .insert(*id, File { current: image.clone(), durable: image, unsynced: Vec::new(), reserved });
        }
        Disk {
            files,
            durable_names: names.clone(),
            names,
            name_changes: Vec::new(),
            index,
            durable_index: index,
            created_index: None,
            damaged_indexes,
            next_file: self.next_file,
        }
    }

    /// Flips one durable bit; returns `None` if the draw hit a place that was never written.
    pub fn flip(&mut self, random: &mut Random) -> Option<BitFlip> {
        let blobs: Vec<(SegmentId, FileId)> = self.names.iter().map(|(id, file)| (*id, *file)).collect();
        let (part, blob, file) = match random.below(3) {
            0 => (super::MediaPart::Log, None, LOG),
            1 => (super::MediaPart::Index, None, self.index),
            _ if blobs.is_empty() => return None,
            _ => {
                let (id, file) = *random.pick(&blobs);
                (super::MediaPart::Blob, Some(id), file)
            }
        };
        self.flip_in(random, (part, blob, file))
    }

    /// Flips one durable bit of the index, like [`Disk::flip`].
    pub fn flip_in_index(&mut self, random: &mut Random) -> Option<BitFlip> {
        self.flip_in(random, (super::MediaPart::Index, None, self.index))
    }

    fn flip_in(
        &mut self,
        random: &mut Random,
        (part, blob, file): (super::MediaPart, Option<SegmentId>, FileId),
    ) -> Option<BitFlip> {
        let file = self.file(file);
        let (offset, bit) = (random.below(file.current.len()), random.below(8).to_le_bytes()[0]);
        (file.current.flip(offset, bit) && file.durable.flip(offset, bit)).then_some(BitFlip {
            part,
            blob,
            offset,
            bit,
        })
    }

    /// Returns a checksum of the content that a reader sees: equal for two runs that did the same.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut digest = 0xCBF2_9CE4_8422_2325_u64;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
            }
        };
        for (name, id) in
            [(0, &LOG), (1, &self.index)].into_iter().chain(self.names.iter().map(|(name, id)| (name.0, id)))
        {
            let file = &self.files[id];
            let mut bytes =
                vec![0; usize::try_from(file.current.len()).expect("simulated files fit in memory")];
            file.current.read(0, &mut bytes);
            add(&name.to_be_bytes());
            add(&bytes);
        }
        digest
    }
}
