//! Which index of a pool is in use, and its replacement by another. An object of text says so:
//!
//! ```text
//! holdfast indexes 1
//! next 5
//! current 3
//! created 4
//! damaged 1 2
//! ```
//!
//! Each index has a number that is not used again. `created` is there while an index exists that may replace the current one.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use volume::media::{DAMAGED_INDEXES_MAX, oldest_with};

use super::{PagedFile, read_head, remove};
use crate::fence::Owned;
use crate::names::PoolNames;
use crate::objects::Step;
use crate::space::Room;

/// The first line.
const TITLE: &str = "holdfast indexes 1";

/// What the object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    next: u64,
    current: u64,
    created: Option<u64>,
    /// Replaced indexes that are kept, the oldest first.
    damaged: Vec<u64>,
}

impl Numbers {
    fn encode(&self) -> String {
        let mut text = format!("{TITLE}\nnext {}\ncurrent {}\n", self.next, self.current);
        if let Some(created) = self.created {
            text.push_str(&format!("created {created}\n"));
        }
        if !self.damaged.is_empty() {
            let damaged: Vec<String> = self.damaged.iter().map(u64::to_string).collect();
            text.push_str(&format!("damaged {}\n", damaged.join(" ")));
        }
        text
    }

    fn decode(bytes: &[u8]) -> Option<Numbers> {
        let mut lines = std::str::from_utf8(bytes).ok()?.lines().peekable();
        if lines.next()? != TITLE {
            return None;
        }
        let next = lines.next()?.strip_prefix("next ")?.parse().ok()?;
        let current = lines.next()?.strip_prefix("current ")?.parse().ok()?;
        let mut numbers = Numbers { next, current, ..Numbers::default() };
        if let Some(created) = lines.next_if(|line| line.starts_with("created ")) {
            numbers.created = Some(created.strip_prefix("created ")?.parse().ok()?);
        }
        if let Some(damaged) = lines.next_if(|line| line.starts_with("damaged ")) {
            let damaged = damaged.strip_prefix("damaged ")?.split(' ').map(str::parse);
            numbers.damaged = damaged.collect::<Result<_, _>>().ok()?;
        }
        lines.next().is_none().then_some(numbers)
    }
}

/// The index of an open pool, and the one that may replace it.
pub(crate) struct CurrentIndex {
    owned: Owned,
    names: PoolNames,
    room: Arc<Room>,
    files: Mutex<Files>,
}

struct Files {
    numbers: Numbers,
    current: Arc<PagedFile>,
}

impl CurrentIndex {
    /// Creates the first index of a pool.
    pub(crate) fn create_first(owned: &Owned, names: PoolNames, room: &Arc<Room>) -> io::Result<()> {
        let numbers = Numbers { next: 1, ..Numbers::default() };
        PagedFile::create(owned.clone(), names, 0, Arc::clone(room))?;
        owned.create(names.indexes(), numbers.encode().as_bytes())
    }

    /// Opens the index of a pool, which is sealed.
    pub(crate) fn open(owned: Owned, names: PoolNames, room: Arc<Room>) -> io::Result<CurrentIndex> {
        let mut numbers = read_numbers(&owned, names)?;
        if let Some(created) = numbers.created.take() {
            remove(&owned, names, created)?;
            owned.change(&names.indexes(), Step::Replace(numbers.encode().as_bytes()))?;
        }
        let current = PagedFile::open(owned.clone(), names, numbers.current, Arc::clone(&room))?;
        let files = Mutex::new(Files { numbers, current: Arc::new(current) });
        Ok(CurrentIndex { owned, names, room, files })
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the numbers, and notes them.
    fn put(&self, files: &mut Files, numbers: Numbers) -> io::Result<()> {
        self.owned.change(&self.names.indexes(), Step::Replace(numbers.encode().as_bytes()))?;
        files.numbers = numbers;
        Ok(())
    }

    /// Returns the index.
    pub(crate) fn current(&self) -> Arc<PagedFile> {
        Arc::clone(&self.files().current)
    }

    /// Creates an empty index that may become the index.
    pub(crate) fn create(&self) -> io::Result<Arc<PagedFile>> {
        let mut files = self.files();
        self.discard_in(&mut files)?;
        let number = files.numbers.next;
        let numbers = Numbers { next: number + 1, created: Some(number), ..files.numbers.clone() };
        self.put(&mut files, numbers)?;
        let created = PagedFile::create(self.owned.clone(), self.names, number, Arc::clone(&self.room))?;
        Ok(Arc::new(created))
    }

    /// Deletes the created index.
    pub(crate) fn discard(&self) -> io::Result<()> {
        self.discard_in(&mut self.files())
    }

    fn discard_in(&self, files: &mut Files) -> io::Result<()> {
        let Some(created) = files.numbers.created else { return Ok(()) };
        remove(&self.owned, self.names, created)?;
        let numbers = Numbers { created: None, ..files.numbers.clone() };
        self.put(files, numbers)
    }

    /// Makes the created index the index. Keeps the old one, and deletes the oldest of these if there are too many.
    pub(crate) fn replace(&self) -> io::Result<Option<PathBuf>> {
        let mut files = self.files();
        let Some(created) = files.numbers.created else {
            return Err(io::Error::other("no index was created that could replace the present one"));
        };
        let opened = PagedFile::open(self.owned.clone(), self.names, created, Arc::clone(&self.room))?;
        let old = files.numbers.current;
        let mut numbers = Numbers { current: created, created: None, ..files.numbers.clone() };
        numbers.damaged.push(old);
        self.put(&mut files, numbers)?;
        files.current = Arc::new(opened);
        let surplus = files.numbers.damaged.len().saturating_sub(DAMAGED_INDEXES_MAX);
        // Nothing depends on this.
        let _ = self.remove_damaged(&mut files, surplus);
        Ok(Some(PathBuf::from(self.names.head(old))))
    }

    /// Deletes the oldest replaced indexes that take at least `bytes`, if all do; returns what they took.
    pub(crate) fn free_damaged(&self, bytes: u64) -> io::Result<u64> {
        let mut files = self.files();
        let mut sizes = Vec::new();
        for number in &files.numbers.damaged {
            let map = read_head(&self.owned, self.names, *number)?.map;
            sizes
                .push(map.objects.values().map(|packed| u64::from(packed.blocks) * super::BLOCK_BYTES).sum());
        }
        match oldest_with(&sizes, bytes) {
            Some(count) => self.remove_damaged(&mut files, count),
            None => Ok(0),
        }
    }

    fn remove_damaged(&self, files: &mut Files, count: usize) -> io::Result<u64> {
        let mut freed = 0;
        for _ in 0..count {
            freed += remove(&self.owned, self.names, files.numbers.damaged[0])?;
            let mut numbers = files.numbers.clone();
            numbers.damaged.remove(0);
            self.put(files, numbers)?;
        }
        Ok(freed)
    }
}

/// Seals what is changed in place of the indexes of a pool: those that may still be written.
pub(crate) fn seal(owned: &Owned, names: PoolNames) -> io::Result<()> {
    owned.seal(names.indexes())?;
    let numbers = match read_numbers(owned, names) {
        // The pool is incomplete.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        numbers => numbers?,
    };
    owned.seal_all(
        [Some(numbers.current), numbers.created].into_iter().flatten().map(|number| names.head(number)),
    )
}

/// Removes all indexes of a pool.
pub(crate) fn remove_all(owned: &Owned, names: PoolNames) -> io::Result<()> {
    let numbers = match read_numbers(owned, names) {
        // Creation of the first index may have been interrupted: its head is written before the object that names it. A repeated copy of
        // the pool has the same id, and would find the head in its way.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return owned.remove_all([names.head(0)]),
        numbers => numbers?,
    };
    for number in numbers.damaged.iter().chain(&numbers.created).chain([&numbers.current]) {
        remove(owned, names, *number)?;
    }
    owned.remove_all([names.indexes()])
}

/// Returns the length of the index in use.
pub(crate) fn length(owned: &Owned, names: PoolNames) -> io::Result<u64> {
    let numbers = read_numbers(owned, names)?;
    Ok(read_head(owned, names, numbers.current)?.map.length)
}

fn read_numbers(owned: &Owned, names: PoolNames) -> io::Result<Numbers> {
    let object = names.indexes();
    let bytes = owned.read_whole(&object)?.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("the object {object} is missing: restore it"))
    })?;
    Numbers::decode(&bytes)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("the object {object} is damaged")))
}
