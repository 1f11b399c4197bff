//! Finds the paths of objects. A directory's record names its parent, but records lead from names to objects and not back: so the
//! cached names are looked through first, and then names are read until those of the objects are found.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::api::attributes::FileType;
use crate::api::ids::{Ino, ObjectId, VolumeNumber};
use crate::api::results::Whereabouts;
use crate::bytes::Value;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::{InodeRecord, NameRecord};
use crate::pool::Pool;
use crate::tables::index::{Found, IndexError};
use crate::tables::memtable::Memtable;
use crate::tables::read_view::ReadView;
use crate::volume::Volume;

/// Names of one directory that are read at a time.
const PAGE: usize = 1024;

/// The deepest directory whose path is found.
const DEPTH_MAX: usize = 256;

impl Volume {
    /// Returns where objects are; of one with several names, one of them. Those that were removed are left out. What changes
    /// meanwhile may show as it was before.
    ///
    /// May read media, about `names_max` names at most; a path that is not found within that is not known. Operations never
    /// wait for this longer than for one another.
    pub fn whereabouts(&self, wanted: &BTreeSet<Ino>, names_max: u64) -> BTreeMap<Ino, Whereabouts> {
        let view = self.view();
        let mut present: BTreeMap<Ino, Whereabouts> = BTreeMap::new();
        for ino in wanted {
            let file_type = match record(&view, self.object(*ino)) {
                Ok(record) if record.links > 0 => Some(record.file_type),
                Err(Lost) => None,
                Ok(_) | Err(Removed) => continue,
            };
            present.insert(*ino, Whereabouts { file_type, path: None });
        }
        let mut paths = self.paths_of(self.number(), &present.keys().copied().collect(), names_max);
        present.iter_mut().for_each(|(ino, found)| found.path = paths.remove(ino).map(Arc::from));
        present
    }
}

impl Pool {
    /// Returns the paths that can be found of these objects; of an object with several names, one of them. May read media, about
    /// `names_max` names.
    pub(crate) fn paths_of(
        &self,
        volume: VolumeNumber,
        wanted: &BTreeSet<Ino>,
        names_max: u64,
    ) -> BTreeMap<Ino, Vec<u8>> {
        let mut search =
            Search { pool: self, view: self.view(), volume, budget: names_max, places: BTreeMap::new() };
        let is_directory = |ino: &&Ino| {
            let record = record(&search.view, volume.object(**ino));
            record.is_ok_and(|record| record.file_type == FileType::Directory)
        };
        let (directories, others): (BTreeSet<Ino>, BTreeSet<Ino>) = wanted.iter().partition(is_directory);
        let above = search.with_parents(directories.iter().copied());
        search.look_in_cache(above.union(&others).copied());
        search.scan(others.iter().copied());
        let found: Vec<Ino> =
            others.iter().filter_map(|ino| search.places.get(ino)).map(|(directory, _)| *directory).collect();
        let above = search.with_parents(found);
        search.look_in_cache(above);
        let path_of = |ino: &Ino| {
            let path = if directories.contains(ino) {
                search.path_of_directory(*ino)?
            } else {
                let (directory, name) = search.places.get(ino)?.clone();
                join(search.path_of_directory(directory)?, &name)
            };
            Some((*ino, if path.is_empty() { b"/".to_vec() } else { path }))
        };
        wanted.iter().filter_map(path_of).collect()
    }
}

/// Why there is no record of an object.
enum Missing {
    Removed,
    /// It cannot be read.
    Lost,
}

use Missing::{Lost, Removed};

fn record(view: &ReadView, object: ObjectId) -> Result<InodeRecord, Missing> {
    let value = view.get(&key::inode(object)).map_err(|_| Lost)?.ok_or(Removed)?;
    InodeRecord::decode(&value).map_err(|_| Lost)
}

fn join(mut directory: Vec<u8>, name: &[u8]) -> Vec<u8> {
    directory.push(b'/');
    directory.extend_from_slice(name);
    directory
}

/// A search for the names of objects of a volume.
struct Search<'p> {
    pool: &'p Pool,
    view: Arc<ReadView>,
    volume: VolumeNumber,
    /// Names that may still be read.
    budget: u64,
    /// The directory and the name of objects.
    places: BTreeMap<Ino, (Ino, Box<[u8]>)>,
}

impl Search<'_> {
    /// Returns directories with all directories above them. Those that are too deep are left out.
    fn with_parents(&self, directories: impl IntoIterator<Item = Ino>) -> BTreeSet<Ino> {
        let mut all = BTreeSet::new();
        for mut at in directories {
            let mut depth = 0;
            while depth < DEPTH_MAX && all.insert(at) {
                let Some(parent) = self.parent(at) else { break };
                (at, depth) = (parent, depth + 1);
            }
        }
        all
    }

    fn parent(&self, directory: Ino) -> Option<Ino> {
        Some(record(&self.view, self.volume.object(directory)).ok()?.parent)
    }

    /// Searches the cached names.
    fn look_in_cache(&mut self, wanted: impl IntoIterator<Item = Ino>) {
        let wanted = self.without_place(wanted);
        if wanted.is_empty() {
            return;
        }
        let places = &mut self.places;
        self.pool.name_cache.names_of(self.volume, &wanted, &mut |ino, directory, name| {
            places.insert(ino, (directory, name.into()));
        });
    }

    fn without_place(&self, wanted: impl IntoIterator<Item = Ino>) -> BTreeSet<Ino> {
        let is_unknown = |ino: &Ino| *ino != Ino::ROOT && !self.places.contains_key(ino);
        wanted.into_iter().filter(is_unknown).collect()
    }

    /// Searches all names. Lost names are passed over.
    fn scan(&mut self, wanted: impl IntoIterator<Item = Ino>) {
        let wanted = self.without_place(wanted);
        if wanted.is_empty() || self.budget == 0 {
            return;
        }
        let (places, budget, view) = (&mut self.places, &mut self.budget, &*self.view);
        let mut note = |key: &[u8], value: &[u8]| {
            let Ok(NameRecord { ino, .. }) = NameRecord::decode(value) else { return };
            if let (true, Some((_, _, fields))) = (wanted.contains(&ino), key::parse(key))
                && let (Some(directory), Some(name)) = (key::number(fields), fields.get(8..))
            {
                places.insert(ino, (Ino(directory), name.into()));
            }
        };
        view.active.each_of_in_parts(self.volume, Table::Name, &mut |key, slot| {
            slot.iter().for_each(|value| note(key, value))
        });
        if let Some(frozen) = &view.frozen {
            frozen.each_of_in_parts(self.volume, Table::Name, &mut |key, slot| {
                if view.active.get(key).is_none() {
                    slot.iter().for_each(|value| note(key, value));
                }
            });
        }
        let (from, to) = key::table_range(self.volume, Table::Name);
        // After an error the names found so far are used.
        let _ = view.index.scan_around(&from, &to, &mut |found| {
            *budget = budget.saturating_sub(1);
            if let Found::Record(key, value) = found {
                let key = Key::from(key);
                let is_in = |memtable: &Memtable| memtable.get(&key).is_some();
                if !is_in(&view.active) && !view.frozen.as_deref().is_some_and(is_in) {
                    note(&key, value);
                }
            }
            if *budget == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    /// Returns the path of a directory, without a slash at the end; `None` if it cannot be found.
    fn path_of_directory(&mut self, directory: Ino) -> Option<Vec<u8>> {
        let (mut at, mut names) = (directory, Vec::new());
        while at != Ino::ROOT {
            if names.len() >= DEPTH_MAX {
                return None;
            }
            if !self.places.contains_key(&at) {
                let parent = self.parent(at)?;
                let name = self.name_in(parent, at).ok()??;
                self.places.insert(at, (parent, name));
            }
            let (parent, name) = self.places.get(&at)?;
            names.push(name.clone());
            at = *parent;
        }
        Some(names.iter().rev().fold(Vec::new(), |path, name| join(path, name)))
    }

    /// Returns the name of an object in a directory.
    fn name_in(&mut self, directory: Ino, ino: Ino) -> Result<Option<Box<[u8]>>, IndexError> {
        let directory = self.volume.object(directory);
        let (first, to) = (key::name(directory, b""), key::name(directory.next(), b""));
        let mut from = first.clone();
        while self.budget > 0 {
            let page: Vec<(Key, Value)> = self.view.scan(&from, &to, PAGE)?;
            let is_ours = |value: &Value| NameRecord::decode(value).is_ok_and(|record| record.ino == ino);
            if let Some((key, _)) = page.iter().find(|(_, value)| is_ours(value)) {
                return Ok(key.get(first.len()..).map(Into::into));
            }
            self.budget = self.budget.saturating_sub(PAGE as u64);
            match page.last() {
                Some((last, _)) if page.len() == PAGE => from = last.successor(),
                _ => break,
            }
        }
        Ok(None)
    }
}
