//! Finds the paths of damaged objects for the log. Records lead from names to objects and not back, so this reads names
//! until it finds those of the objects: in the background, once for each object, and for many objects together.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::api::ids::{Ino, ObjectId, VolumeNumber};
use crate::background::Progress;
use crate::bytes::Value;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::{InodeRecord, NameRecord};
use crate::pool::Pool;
use crate::tables::index::{Found, IndexError};
use crate::tables::memtable::Memtable;
use crate::tables::read_view::ReadView;

/// Names that one step reads: about a second's work. What is not found among them stays without a path.
const NAMES_READ_MAX: u64 = 1_000_000;

/// Names of one directory that are read at a time.
const PAGE: usize = 1024;

/// The deepest directory whose path is found.
const DEPTH_MAX: usize = 256;

/// The directory and the name of objects.
type Places = BTreeMap<Ino, (Ino, Box<[u8]>)>;

impl Pool {
    /// Logs the paths of objects whose damage was reported since the last call. May read media.
    pub fn step_damaged_paths(&self) -> Progress {
        let wanted = self.damaged.take();
        if wanted.is_empty() {
            return Progress::Idle;
        }
        let volumes: BTreeSet<VolumeNumber> = wanted.iter().map(|id| id.volume).collect();
        for volume in volumes {
            let of_volume = wanted.iter().filter(|id| id.volume == volume).map(|id| id.ino).collect();
            for (ino, path) in self.paths_of(volume, &of_volume) {
                tracing::error!(pool_id = %self.pool_id(), volume = volume.0, inode = ino.0, path, "the damaged data belongs to this path");
            }
        }
        Progress::Worked
    }

    /// Returns the paths that can be found of these objects; of an object with several names, one of them.
    pub(crate) fn paths_of(&self, volume: VolumeNumber, wanted: &BTreeSet<Ino>) -> BTreeMap<Ino, String> {
        let view = self.view();
        let mut budget = NAMES_READ_MAX;
        let places = places_of(&view, volume, wanted, &mut budget);
        let path_of = |(ino, (directory, name)): (&Ino, &(Ino, Box<[u8]>))| {
            Some((*ino, join(&path_of_directory(&view, volume.object(*directory), &mut budget)?, name)))
        };
        let mut paths: BTreeMap<Ino, String> = places.iter().filter_map(path_of).collect();
        if wanted.contains(&Ino::ROOT) {
            paths.insert(Ino::ROOT, "/".to_owned());
        }
        paths
    }
}

fn join(directory: &str, name: &[u8]) -> String {
    format!("{directory}/{}", String::from_utf8_lossy(name))
}

/// Searches all names for those of `wanted`. Lost names are passed over.
fn places_of(view: &ReadView, volume: VolumeNumber, wanted: &BTreeSet<Ino>, budget: &mut u64) -> Places {
    let mut places = Places::new();
    let mut note = |key: &[u8], value: &[u8]| {
        let Ok(NameRecord { ino, .. }) = NameRecord::decode(value) else { return };
        if let (true, Some((_, _, fields))) = (wanted.contains(&ino), key::parse(key))
            && let (Some(directory), Some(name)) = (key::number(fields), fields.get(8..))
        {
            places.insert(ino, (Ino(directory), name.into()));
        }
    };
    view.active.each_of(volume, Table::Name, &mut |key, slot| slot.iter().for_each(|value| note(key, value)));
    if let Some(frozen) = &view.frozen {
        frozen.each_of(volume, Table::Name, &mut |key, slot| {
            if view.active.get(key).is_none() {
                slot.iter().for_each(|value| note(key, value));
            }
        });
    }
    let (from, to) = key::table_range(volume, Table::Name);
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
    places
}

/// Returns the path of a directory, without a slash at the end; `None` if it cannot be found.
fn path_of_directory(view: &ReadView, directory: ObjectId, budget: &mut u64) -> Option<String> {
    let (mut at, mut names) = (directory, Vec::new());
    while at.ino != Ino::ROOT {
        if names.len() >= DEPTH_MAX {
            return None;
        }
        let record = view.get(&key::inode(at)).ok()??;
        let parent = InodeRecord::decode(&record).ok()?.parent;
        names.push(name_in(view, at.sibling(parent), at.ino, budget).ok()??);
        at = at.sibling(parent);
    }
    Some(names.iter().rev().fold(String::new(), |path, name| join(&path, name)))
}

/// Returns the name of an object in a directory.
fn name_in(
    view: &ReadView,
    directory: ObjectId,
    ino: Ino,
    budget: &mut u64,
) -> Result<Option<Box<[u8]>>, IndexError> {
    let (first, to) = (key::name(directory, b""), key::name(directory.next(), b""));
    let mut from = first.clone();
    while *budget > 0 {
        let page: Vec<(Key, Value)> = view.scan(&from, &to, PAGE)?;
        let is_ours = |value: &Value| NameRecord::decode(value).is_ok_and(|record| record.ino == ino);
        if let Some((key, _)) = page.iter().find(|(_, value)| is_ours(value)) {
            return Ok(key.get(first.len()..).map(Into::into));
        }
        *budget = budget.saturating_sub(PAGE as u64);
        match page.last() {
            Some((last, _)) if page.len() == PAGE => from = last.successor(),
            _ => break,
        }
    }
    Ok(None)
}
