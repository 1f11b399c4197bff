//! Which file is the index, and its replacement by another.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use volume::media::{DAMAGED_INDEXES_MAX, RandomFile as _, oldest_with};

use super::IndexFile;
use crate::durable::{remove_file, sync_directory};
use crate::error::{in_context, is_full};

/// Name of the index.
pub(crate) const INDEX: &str = "index";
/// Name of a file that may become the index.
const CREATED: &str = "index.new";
/// Name of the first index that was replaced; later ones end in a dot and a number, from 2 on.
const DAMAGED: &str = "index.damaged";

/// The index of an open volume, and the file that may replace it.
pub(crate) struct CurrentIndex {
    directory: PathBuf,
    files: Mutex<Files>,
}

struct Files {
    current: Arc<IndexFile>,
    created: Option<Arc<IndexFile>>,
}

/// Removes what an interrupted replacement of the index at `path` left in its directory.
fn sweep(directory: &Path, path: &Path) -> io::Result<()> {
    remove_file(&directory.join(CREATED))?;
    // An interrupted replacement may have given the index its second name already.
    let identity = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino()));
    let of_index = identity(path)?;
    for (_, damaged) in damaged_indexes(directory)? {
        if identity(&damaged)? == of_index {
            remove_file(&damaged)?;
        }
    }
    Ok(())
}

impl CurrentIndex {
    /// Opens the index in a volume's directory; if `permits_changes`, removes what an interrupted replacement left behind.
    pub(crate) fn open(directory: &Path, permits_changes: bool) -> io::Result<CurrentIndex> {
        let path = directory.join(INDEX);
        let current = Arc::new(IndexFile::open(&path)?);
        if permits_changes {
            sweep(directory, &path)?;
        }
        Ok(CurrentIndex {
            directory: directory.to_owned(),
            files: Mutex::new(Files { current, created: None }),
        })
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index.
    pub(crate) fn current(&self) -> Arc<IndexFile> {
        Arc::clone(&self.files().current)
    }

    /// Creates an empty file that may become the index.
    pub(crate) fn create(&self) -> io::Result<Arc<IndexFile>> {
        let path = self.directory.join(CREATED);
        let file = remove_file(&path).and_then(|()| IndexFile::create(&path));
        let file = Arc::new(file.map_err(|error| in_context("create", &path, &error))?);
        self.files().created = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Deletes the created file.
    pub(crate) fn discard(&self) -> io::Result<()> {
        let path = self.directory.join(CREATED);
        self.files().created = None;
        remove_file(&path).map_err(|error| in_context("delete", &path, &error))
    }

    /// Deletes the oldest replaced indexes that take at least `bytes`, if all do; returns what they took.
    pub(crate) fn free_damaged(&self, bytes: u64) -> io::Result<u64> {
        /// `st_blocks` counts in these units.
        const BLOCK_UNIT: u64 = 512;
        let _files = self.files();
        let kept = damaged_indexes(&self.directory)?;
        let size = |(_, path): &(u64, PathBuf)| fs::metadata(path).map(|file| file.blocks() * BLOCK_UNIT);
        let sizes = kept.iter().map(size).collect::<io::Result<Vec<u64>>>()?;
        let Some(count) = oldest_with(&sizes, bytes) else { return Ok(0) };
        for (_, path) in &kept[..count] {
            remove_file(path).map_err(|error| in_context("delete", path, &error))?;
        }
        sync_directory(&self.directory)?;
        Ok(sizes[..count].iter().sum())
    }

    /// Makes the created file the index. Keeps the old one under another name, and deletes the oldest of such files if
    /// there are too many. Returns the path of the old one, if it is kept.
    pub(crate) fn replace(&self) -> io::Result<Option<PathBuf>> {
        self.replace_with(Links { link: |from, to| fs::hard_link(from, to), exchange })
    }

    fn replace_with(&self, links: Links) -> io::Result<Option<PathBuf>> {
        let mut files = self.files();
        if files.created.is_none() {
            return Err(io::Error::other("no index was created that could replace the present one"));
        }
        let (index, created) = (self.directory.join(INDEX), self.directory.join(CREATED));
        let kept = damaged_indexes(&self.directory)?;
        let number = kept.last().map_or(1, |(number, _)| number + 1);
        let damaged = self.directory.join(name_of(number));
        let is_kept = swap(&index, &created, &damaged, links)?;
        files.created = None;
        // From here on a crash may leave either, so a full device is not something to wait for.
        let finish = || {
            sync_directory(&self.directory)?;
            IndexFile::open(&index)
        };
        let opened = finish().map_err(|error| {
            let error = in_context("replace", &index, &error);
            if is_full(&error) { io::Error::other(error) } else { error }
        })?;
        let old = std::mem::replace(&mut files.current, Arc::new(opened));
        // Frees what was reserved for its growth. Nothing depends on this, nor on the following.
        let _ = old.len().and_then(|length| old.set_len(length));
        let surplus = (kept.len() + 1).saturating_sub(DAMAGED_INDEXES_MAX);
        for (_, path) in kept.iter().take(surplus) {
            let _ = remove_file(path);
        }
        Ok(is_kept.then_some(damaged))
    }
}

/// How a file gets a second name, and how two files exchange their names.
#[derive(Clone, Copy)]
struct Links {
    link: fn(&Path, &Path) -> io::Result<()>,
    exchange: fn(&Path, &Path) -> io::Result<()>,
}

fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

/// Gives `created` the name `index`, and the old index the name `damaged`. A crash leaves either index, and what else it
/// leaves is removed when the volume is opened. Where files have one name and names cannot be exchanged, the old index
/// is not kept. Returns whether it is.
fn swap(index: &Path, created: &Path, damaged: &Path, links: Links) -> io::Result<bool> {
    /// Whether a file system lacks an operation. Linux answers EPERM if there are no hard links.
    fn is_lacking(error: &io::Error) -> bool {
        use io::ErrorKind::{InvalidInput, PermissionDenied, TooManyLinks, Unsupported};
        matches!(error.kind(), InvalidInput | PermissionDenied | TooManyLinks | Unsupported)
    }
    let replace = || fs::rename(created, index).map_err(|error| in_context("replace", index, &error));
    match (links.link)(index, damaged) {
        Ok(()) => return replace().map(|()| true),
        Err(error) if !is_lacking(&error) => return Err(in_context("create", damaged, &error)),
        Err(_) => {}
    }
    match (links.exchange)(created, index) {
        // From here on the new index has its name. If this fails, the old one is deleted at the next start.
        Ok(()) => Ok(fs::rename(created, damaged)
            .inspect_err(|error| {
                tracing::warn!(%error, "the damaged index could not be renamed, and is not kept");
            })
            .is_ok()),
        Err(error) if is_lacking(&error) => {
            replace()?;
            tracing::warn!("the file system has no hard links, so the damaged index is not kept");
            Ok(false)
        }
        Err(error) => Err(in_context("replace", index, &error)),
    }
}

fn name_of(number: u64) -> String {
    if number == 1 { DAMAGED.to_owned() } else { format!("{DAMAGED}.{number}") }
}

/// Lists the replaced indexes that are kept, with their numbers, oldest first.
fn damaged_indexes(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(DAMAGED)) else { continue };
        let number = match rest.strip_prefix('.') {
            Some(digits) => digits.parse().ok().filter(|number| name_of(*number).ends_with(rest)),
            None => rest.is_empty().then_some(1),
        };
        found.extend(number.map(|number| (number, directory.join(&name))));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use volume::media::RandomFile;

    use super::*;
    use crate::scratch::Scratch;

    /// Returns an index whose first byte is `mark`.
    fn index(scratch: &Scratch, mark: u8) -> CurrentIndex {
        fs::write(scratch.path().join(INDEX), [mark]).unwrap();
        CurrentIndex::open(scratch.path(), true).unwrap()
    }

    fn first_byte(file: &dyn RandomFile) -> u8 {
        let mut byte = [0];
        file.read_at(0, &mut byte).unwrap();
        byte[0]
    }

    fn names(scratch: &Scratch) -> Vec<String> {
        let entries = fs::read_dir(scratch.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn write(index: &CurrentIndex, mark: u8) {
        let file = index.create().unwrap();
        file.set_len(1).unwrap();
        file.write_at(0, &[mark]).unwrap();
        file.sync().unwrap();
    }

    #[test]
    fn replaced_indexes_are_kept_up_to_a_limit_and_stay_readable() {
        let scratch = Scratch::new();
        let index = index(&scratch, 0);
        let first = index.current();
        for mark in 1..=5 {
            write(&index, mark);
            let kept = index.replace().unwrap().unwrap();
            assert_eq!(fs::read(&kept).unwrap(), [mark - 1], "{kept:?}");
            assert_eq!(first_byte(&*index.current()), mark);
        }
        assert_eq!(first_byte(&*first), 0, "open files keep reading");
        assert_eq!(names(&scratch), ["index", "index.damaged.3", "index.damaged.4", "index.damaged.5"]);
        assert_eq!(fs::read(scratch.path().join("index.damaged.5")).unwrap(), [4]);
        assert_eq!(fs::read(scratch.path().join(INDEX)).unwrap(), [5]);
    }

    #[test]
    fn the_first_replaced_index_has_no_number() {
        let scratch = Scratch::new();
        let index = index(&scratch, 1);
        write(&index, 2);
        index.replace().unwrap();
        assert_eq!(names(&scratch), ["index", "index.damaged"]);
        assert!(index.replace().is_err(), "nothing was created");
        assert_eq!(first_byte(&*index.current()), 2);
    }

    #[test]
    fn remains_of_an_interrupted_replacement_are_removed() {
        let scratch = Scratch::new();
        let path = |name: &str| scratch.path().join(name);
        drop(index(&scratch, 1));
        fs::write(path("index.damaged"), [9]).unwrap();
        fs::write(path("index.damaged.x"), [9]).unwrap();
        fs::write(path("index.new"), [2]).unwrap();
        fs::hard_link(path("index"), path("index.damaged.2")).unwrap();
        let index = CurrentIndex::open(scratch.path(), true).unwrap();
        assert_eq!(first_byte(&*index.current()), 1);
        assert_eq!(names(&scratch), ["index", "index.damaged", "index.damaged.x"]);
    }

    #[test]
    fn an_index_is_replaced_where_files_have_one_name() {
        fn none(_: &Path, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
        for (exchange, names_then) in [
            (exchange as fn(&Path, &Path) -> io::Result<()>, &["index", "index.damaged"][..]),
            (none, &["index"]),
        ] {
            let scratch = Scratch::new();
            let index = index(&scratch, 1);
            let old = index.current();
            write(&index, 2);
            let kept = index.replace_with(Links { link: none, exchange }).unwrap();
            assert_eq!(names(&scratch), names_then);
            assert_eq!(kept, (names_then.len() > 1).then(|| scratch.path().join(DAMAGED)));
            assert_eq!((first_byte(&*index.current()), first_byte(&*old)), (2, 1));
            if names_then.len() > 1 {
                assert_eq!(fs::read(scratch.path().join(DAMAGED)).unwrap(), [1]);
            }
        }
        // Other failures leave the index, and are not worked around.
        let scratch = Scratch::new();
        let index = index(&scratch, 1);
        write(&index, 2);
        let full = |_: &Path, _: &Path| Err(io::ErrorKind::StorageFull.into());
        let error = index.replace_with(Links { link: full, exchange }).unwrap_err();
        assert!(is_full(&error), "{error}");
        assert_eq!(fs::read(scratch.path().join(INDEX)).unwrap(), [1]);
    }

    #[test]
    fn the_oldest_replaced_indexes_make_room_if_that_suffices() {
        let scratch = Scratch::new();
        let index = index(&scratch, 0);
        for mark in 1..=3 {
            let file = index.create().unwrap();
            file.set_len(1 << 20).unwrap();
            file.write_at(0, &[mark]).unwrap();
            index.replace().unwrap();
        }
        // The first one has a byte.
        assert_eq!(index.free_damaged(64 << 20).unwrap(), 0);
        assert_eq!(names(&scratch).len(), 4);
        assert!(index.free_damaged(1 << 20).unwrap() >= 1 << 20);
        assert_eq!(names(&scratch), ["index", "index.damaged.3"]);
        assert_eq!(index.free_damaged(0).unwrap() >> 20, 1);
        assert_eq!(index.free_damaged(1).unwrap(), 0);
        assert_eq!(names(&scratch), ["index"]);
    }

    #[test]
    fn a_discarded_file_leaves_the_index() {
        let scratch = Scratch::new();
        let index = index(&scratch, 1);
        write(&index, 2);
        index.discard().unwrap();
        index.discard().unwrap();
        assert!(index.replace().is_err());
        assert_eq!((names(&scratch), first_byte(&*index.current())), (vec!["index".to_owned()], 1));
    }
}
