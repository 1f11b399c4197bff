//! The index: all records older than the journal, in a B-tree that only checkpoints write.
//!
//! One redb table of byte strings to byte strings, in a file that verifies every block it reads ([`CheckedFile`]).
//! Each commit is atomic and durable when it returns; redb records its free pages in the same commit
//! (`quick_repair`), so opening after a crash does not walk the tree.
//!
//! A failed write leaves the committed records as they were; [`Index::reopen`] continues from there, as after a full
//! disk. After a failed sync the state of the media is unknown, so the index stays closed until the next start.
//!
//! A block that cannot be read costs the records on its page and no others: [`Snapshot`] reads around it. It cannot be
//! written around, so transactions fail.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, Table, TableDefinition};

use crate::media::RandomFile;

mod bad_blocks;
mod checked_file;
mod committed;
mod error;
mod lost;
mod pages;
mod salvage;
mod slots;
mod walker;
mod warmth;

use bad_blocks::BadBlocks;
pub use checked_file::CheckedFile;
use committed::Committed;
pub use error::IndexError;
pub use lost::{Found, LostRange, LostRanges, VisitFound};
pub use salvage::{BadPage, Contents, Copied, Salvage, lost_ranges};
pub use walker::{Salvaged, Walker};
pub use warmth::ColdReads;
use warmth::Warmth;

const RECORDS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("records");

/// The part of the library's cache that a walker may use besides, once the index is damaged.
const WALKER_SHARE: usize = 16;
/// The lost ranges: `from` to `to`. There is no such table in an index that never lost any.
const LOST: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("lost");

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

/// Receives each key and value of a scan; breaks to end it.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// The index of an open volume.
pub struct Index {
    file: CheckedFile,
    cache_bytes: usize,
    warmth: Arc<Warmth>,
    /// Why there is none: the library cannot open the file, or a reopening failed.
    database: Result<Database, IndexError>,
    /// Held by a commit, and while a snapshot is made: the library's view and the header then belong to one commit.
    committing: Mutex<()>,
    lost: Arc<LostRanges>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("open", &self.database.is_ok()).finish_non_exhaustive()
    }
}

/// Figures about the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexStats {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of keys and values.
    pub stored_bytes: u64,
    /// Pages in use, in all kinds of trees.
    pub pages: u64,
    /// Levels of the tree.
    pub tree_height: u32,
}

impl Index {
    /// Creates an empty index in an empty file. A crash before this returns leaves none; the caller starts again with
    /// an empty file. `cache_bytes` bounds the library's page cache, including pages not written yet.
    pub fn create(file: Arc<dyn RandomFile>, cache_bytes: usize) -> Result<Index, IndexError> {
        let index = Index::attach(CheckedFile::create(file)?, cache_bytes)?;
        let update = index.begin()?;
        drop(update.records()?);
        update.commit()?;
        Ok(index)
    }

    /// Opens an index as the last commit left it. If the library cannot open it for damage, but records can be read,
    /// the index has snapshots and refuses transactions.
    pub fn open(file: Arc<dyn RandomFile>, cache_bytes: usize) -> Result<Index, IndexError> {
        Index::attach(CheckedFile::open(file)?, cache_bytes)
    }

    /// Reopens the file after an error. Older snapshots fail with [`IndexError::Closed`] once the index is changed
    /// thereafter, unless the requested pages are still in memory.
    pub fn reopen(&mut self) -> Result<(), IndexError> {
        // Two open databases on one file would destroy it.
        self.database = Err(IndexError::Closed);
        self.file = self.file.reopen()?;
        self.database = open_database(&self.file, self.cache_bytes)?;
        self.warmth = Arc::default();
        Ok(())
    }

    /// Returns the ranges of keys whose records were lost.
    pub fn lost(&self) -> &Arc<LostRanges> {
        &self.lost
    }

    /// Has later snapshots show the lost ranges that were committed.
    pub fn set_lost(&mut self, lost: LostRanges) {
        self.lost = Arc::new(lost);
    }

    /// Whether blocks of the file could not be read, or make no sense.
    pub fn is_damaged(&self) -> bool {
        !self.file.bad_blocks().is_empty()
    }

    /// Reads those blocks again; returns whether it is still damaged.
    pub fn look_again(&self) -> bool {
        self.file.look_again();
        self.is_damaged()
    }

    /// Returns what can be read of a damaged index.
    pub fn salvage(&self) -> Salvage {
        Salvage::of(self)
    }

    /// Returns the records as of the last commit. Cheap, but pages that it can see are not reused while it lives:
    /// drop it when the next one exists.
    pub fn snapshot(&self) -> Result<Snapshot, IndexError> {
        let committing = self.committing.lock();
        let table = self.database().and_then(open_records);
        if matches!(table, Err(IndexError::Closed)) && self.database.is_err() {
            return Err(IndexError::Closed);
        }
        let walker = Walker::open(self.file.clone(), self.cache_bytes / WALKER_SHARE);
        drop(committing);
        Ok(Snapshot {
            records: Committed::new(table, walker, Arc::clone(&self.warmth))?,
            warmth: Arc::clone(&self.warmth),
            lost: Arc::clone(&self.lost),
            bad: Arc::clone(self.file.bad_blocks()),
        })
    }

    /// Begins a transaction. There is one at a time: another call waits until it is done.
    pub fn begin(&self) -> Result<Update<'_>, IndexError> {
        let mut transaction = self.database()?.begin_write()?;
        transaction
            .set_durability(Durability::Immediate)
            .map_err(|error| IndexError::Io(error.to_string()))?;
        transaction.set_quick_repair(true);
        Ok(Update { transaction, index: self })
    }

    /// Returns figures for operators. Walks the whole index.
    pub fn stats(&self) -> Result<IndexStats, IndexError> {
        let update = self.begin()?;
        let stats = update.transaction.stats()?;
        update.abort()?;
        Ok(IndexStats {
            file_bytes: self.file.stored_len(),
            stored_bytes: stats.stored_bytes(),
            pages: stats.allocated_pages(),
            tree_height: stats.tree_height(),
        })
    }

    /// Returns the bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file.stored_len()
    }

    fn attach(file: CheckedFile, cache_bytes: usize) -> Result<Index, IndexError> {
        let database = open_database(&file, cache_bytes)?;
        let lost = Arc::new(salvage::lost_ranges(&file, cache_bytes)?);
        Ok(Index { file, cache_bytes, warmth: Arc::default(), database, committing: Mutex::default(), lost })
    }

    fn database(&self) -> Result<&Database, IndexError> {
        self.database.as_ref().map_err(IndexError::clone)
    }
}

/// Opens the library's view of a file. The inner error tells why it cannot be opened for damage, though records can be
/// read without it.
fn open_database(file: &CheckedFile, cache_bytes: usize) -> Result<Result<Database, IndexError>, IndexError> {
    let opened = Database::builder().set_cache_size(cache_bytes).create_with_backend(file.clone());
    match opened.map_err(IndexError::from) {
        Err(error @ (IndexError::Corrupt(_) | IndexError::Io(_))) => {
            match Walker::open(file.clone(), cache_bytes / WALKER_SHARE) {
                Ok(_) => {
                    if matches!(error, IndexError::Corrupt(_)) {
                        file.bad_blocks().note_damage();
                    }
                    Ok(Err(error))
                }
                Err(_) => Err(error),
            }
        }
        opened => opened.map(Ok),
    }
}

fn open_records(database: &Database) -> Result<ReadOnlyTable<&'static [u8], &'static [u8]>, IndexError> {
    Ok(database.begin_read()?.open_table(RECORDS)?)
}

/// The records as of one commit; share it in an `Arc`.
pub struct Snapshot {
    records: Committed,
    warmth: Arc<Warmth>,
    lost: Arc<LostRanges>,
    bad: Arc<BadBlocks>,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snapshot")
    }
}

impl Snapshot {
    /// Whether blocks of the file could not be read, or make no sense.
    pub fn is_damaged(&self) -> bool {
        !self.bad.is_empty()
    }

    /// Whether reads will mostly not need media, judged by recent reads. False once the index is damaged.
    pub fn is_warm(&self) -> bool {
        self.warmth.is_warm()
    }

    /// Returns the number of reads through snapshots that needed the file, since the index was opened.
    pub fn cold_reads(&self) -> ColdReads {
        self.warmth.cold_reads()
    }

    /// Returns the ranges of keys whose records were lost.
    pub fn lost(&self) -> &Arc<LostRanges> {
        &self.lost
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] or [`IndexError::Io`] if the record is lost or a block on the way to the key cannot be
    /// read, whatever else can; [`IndexError::Closed`] if the index was reopened and changed since.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.lost.check(key, self.warmth.watch(|| self.records.get(key))?)
    }

    /// Visits records with `from <= key < to`, in order, until `visit` breaks. Fails as [`Snapshot::get`] does, after
    /// it visited all records before the lost range, or before the block that cannot be read.
    pub fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), IndexError> {
        let scan = |visit: Visit<'_>| self.warmth.watch(|| self.records.scan(from, to, visit));
        self.lost.scan((from, to), scan, visit)
    }

    /// Like [`Snapshot::scan`], but says where records may be missing, and goes on.
    pub fn scan_around(&self, from: &[u8], to: &[u8], visit: VisitFound<'_>) -> Result<(), IndexError> {
        let scan = |visit: Visit<'_>| self.warmth.watch(|| self.records.scan(from, to, visit));
        self.lost.scan_around((from, to), scan, visit)
    }

    /// Returns the record with the greatest key in `from <= key < bound`. Fails with [`IndexError::Corrupt`] if a
    /// greater one may be lost.
    pub fn last_before(&self, from: &[u8], bound: &[u8]) -> Result<Option<Record>, IndexError> {
        let last = self.warmth.watch(|| self.records.last_before(from, bound))?;
        self.lost.check_last((from, bound), last)
    }
}

/// A transaction; dropped without [`Update::commit`], it has no effect.
pub struct Update<'i> {
    transaction: redb::WriteTransaction,
    /// It is not reopened beneath the transaction.
    index: &'i Index,
}

impl fmt::Debug for Update<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Update")
    }
}

impl Update<'_> {
    /// Opens the records for reading and changing. Open them once for many changes, as opening costs as much as a
    /// change.
    pub fn records(&self) -> Result<Records<'_>, IndexError> {
        Ok(Records { table: self.transaction.open_table(RECORDS)?, lost: Arc::clone(&self.index.lost) })
    }

    /// Replaces the lost ranges. The index shows them after [`Index::set_lost`], or once it is opened again.
    pub fn put_lost(&self, lost: &LostRanges) -> Result<(), IndexError> {
        let mut table = self.transaction.open_table(LOST)?;
        table.retain(|_, _| false)?;
        lost.iter().try_for_each(|range| table.insert(&*range.from, &*range.to).map(drop))?;
        Ok(())
    }

    /// Makes the transaction durable and visible to later snapshots. It is atomic; after a failed sync, only the next
    /// start shows whether it took effect.
    pub fn commit(self) -> Result<(), IndexError> {
        let _committing = self.index.committing.lock();
        Ok(self.transaction.commit()?)
    }

    /// Undoes it.
    pub fn abort(self) -> Result<(), IndexError> {
        Ok(self.transaction.abort()?)
    }
}

/// The records as a transaction sees and changes them; one at a time per [`Update`].
pub struct Records<'u> {
    table: Table<'u, &'static [u8], &'static [u8]>,
    lost: Arc<LostRanges>,
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Records")
    }
}

impl Records<'_> {
    /// Sets a record.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.table.insert(key, value)?;
        Ok(())
    }

    /// Sets a record; passes the replaced value to `old`, if any.
    pub fn replace<T>(
        &mut self,
        key: &[u8],
        value: &[u8],
        old: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, IndexError> {
        Ok(self.table.insert(key, value)?.map(|replaced| old(replaced.value())))
    }

    /// Removes a record, if present.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), IndexError> {
        self.table.remove(key)?;
        Ok(())
    }

    /// Removes a record, if present; passes its value to `old`.
    pub fn take<T>(&mut self, key: &[u8], old: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, IndexError> {
        Ok(self.table.remove(key)?.map(|removed| old(removed.value())))
    }

    /// Whether the record of this key is lost, if it is absent.
    pub fn is_lost(&self, key: &[u8]) -> bool {
        self.lost.covers(key)
    }

    /// Returns the value of a key, as changed by this transaction. Lost records are absent.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.table.get(key)?.map(|value| value.value().to_vec()))
    }

    /// Visits records with `from <= key < to`, as changed by this transaction, in order, until `visit` breaks. Lost
    /// records are passed over.
    pub fn scan(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), IndexError> {
        committed::scan(&self.table, from, to, visit).map_err(|(error, _)| error)
    }

    /// Returns the record with the greatest key in `from <= key < bound`, as changed by this transaction. Lost records
    /// are passed over.
    pub fn last_before(&self, from: &[u8], bound: &[u8]) -> Result<Option<Record>, IndexError> {
        committed::last_before(&self.table, from, bound)
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> IndexError {
        IndexError::from(redb::StorageError::Io(error))
    }
}

#[cfg(test)]
mod tests;
