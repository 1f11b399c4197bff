//! The files of a volume that is not served, as far as they can be read: `holdfast dump --files`.
//!
//! Names are stored twice, by name and by cookie, so a name is found if either record can be read. Objects that no
//! readable name leads to are [`Files::nameless`]. Counts in the records of directories and files tell how much is
//! missing. Nothing on media is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::check::Summary;
use super::check::findings::Findings;
use super::check::view::View;
use super::contents::{Extents, VisitPart, runs};
use crate::api::attributes::{Attributes, FileType};
use crate::api::ids::{Cookie, Ino, VolumeNumber};
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{CookieRecord, InodeRecord, NameRecord, VolumeRecord, decode_xattr};
use crate::media::Media;
use crate::open::OpenError;
use crate::tables::index::IndexError;

pub use super::contents::Part;

/// Most problems of the journal that are kept.
const PROBLEMS_MAX: usize = 100;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name, as stored.
    pub name: Vec<u8>,
    /// The object.
    pub ino: Ino,
    /// Its type, if its record or its name can be read.
    pub file_type: Option<FileType>,
}

/// The names in a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by name.
    pub entries: Vec<Entry>,
    /// The number of further names that the directory had; `None` if its record is lost, so that the number is unknown.
    pub missing: Option<u64>,
}

/// Extended attributes of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xattrs {
    /// Names without the prefix `user.`, and values.
    pub found: Vec<(Vec<u8>, Vec<u8>)>,
    /// The number of further attributes that the object had.
    pub missing: u32,
}

/// An object without a readable name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nameless {
    /// The object.
    pub ino: Ino,
    /// The parent, if the object is a directory and its record is readable.
    pub parent: Option<Ino>,
}

/// The files of a volume, one at a time of its pool.
pub struct Files {
    media: Arc<dyn Media>,
    view: View,
    problems: Vec<String>,
}

/// Returns the names of the volumes of users in a pool that were not deleted, by their numbers. Reads the journal and few blocks
/// of the index.
///
/// # Errors
/// Nothing can be read, or a record about a volume is lost.
pub fn volume_names(media: &dyn Media) -> Result<Vec<String>, OpenError> {
    let mut view = View::open(media)?;
    view.require_volumes()?;
    view.replay(media.log().as_ref(), &mut Findings::new(0), &mut Summary::default());
    Ok(view.volumes.into_values().filter(is_shown).map(|record| record.name).collect())
}

/// Whether a volume is one of users, and was not deleted.
fn is_shown(record: &VolumeRecord) -> bool {
    !record.is_deleted && record.is_of_users()
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl Files {
    /// Opens a pool as of its last durable journal entry, or the last before damage to the journal, and shows its first
    /// volume.
    ///
    /// # Errors
    /// Nothing can be read: the index is missing, or its root is damaged.
    pub fn open(media: Arc<dyn Media>) -> Result<Files, OpenError> {
        let mut view = View::open(media.as_ref())?;
        view.survey(&mut |_, _| {})
            .map_err(|error| OpenError(format!("the index cannot be read: {error}")))?;
        let mut findings = Findings::new(PROBLEMS_MAX);
        view.replay(media.log().as_ref(), &mut findings, &mut Summary::default());
        let problems = findings.sentences();
        let mut files = Files { media, view, problems };
        let first = files.volumes().next().map(|(number, _)| number);
        files.view.volume = first.unwrap_or(files.view.volume);
        Ok(files)
    }

    /// Returns the volumes of users in the pool that were not deleted, with their names.
    pub fn volumes(&self) -> impl Iterator<Item = (VolumeNumber, &str)> {
        let volumes = self.view.volumes.iter().filter(|(_, record)| is_shown(record));
        volumes.map(|(number, record)| (*number, record.name.as_str()))
    }

    /// Shows the files of another volume of the pool.
    ///
    /// # Errors
    /// None has this name.
    pub fn select(&mut self, name: &str) -> Result<(), OpenError> {
        let found = self.volumes().find(|(_, known)| *known == name).map(|(number, _)| number);
        let Some(number) = found else {
            let names: Vec<&str> = self.volumes().map(|(_, name)| name).collect();
            return Err(OpenError(if names.is_empty() {
                format!("the pool has no volume {name:?}, and no other whose record can be read")
            } else {
                format!("the pool has no volume {name:?}, only {}", names.join(", "))
            }));
        };
        self.view.volume = number;
        Ok(())
    }

    /// Returns what is wrong with the volume as a whole, as sentences.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns the attributes of an object; `None` if its record is lost.
    pub fn attributes(&self, ino: Ino) -> Result<Option<Attributes>, IndexError> {
        Ok(self.inode(ino)?.map(|record| record.attributes(ino)))
    }

    /// Returns the names in a directory.
    pub fn list(&self, directory: Ino) -> Result<Listing, IndexError> {
        let mut found: BTreeMap<Vec<u8>, (Ino, Option<FileType>)> = BTreeMap::new();
        let (from, to) = (
            key::name(self.view.volume.object(directory), b""),
            key::name(self.view.volume.object(Ino(directory.0.saturating_add(1))), b""),
        );
        self.view.each_in(&from, &to, &mut |key, value| {
            let name = key::parse(key).and_then(|(_, _, fields)| fields.get(8..));
            if let (Some(name), Ok(record)) = (name, NameRecord::decode(value)) {
                found.insert(name.to_vec(), (record.ino, Some(record.file_type)));
            }
        })?;
        let (from, to) = (
            key::cookie(self.view.volume.object(directory), Cookie(0)),
            key::cookie(self.view.volume.object(Ino(directory.0.saturating_add(1))), Cookie(0)),
        );
        let mut listed: Vec<CookieRecord> = Vec::new();
        self.view.each_in(&from, &to, &mut |_, value| listed.extend(CookieRecord::decode(value).ok()))?;
        for record in listed {
            found.entry(record.name.to_vec()).or_insert((record.ino, None));
        }
        let count = found.len() as u64;
        let mut entries = Vec::with_capacity(found.len());
        for (name, (ino, of_name)) in found {
            let of_inode = self.inode(ino)?.map(|record| record.file_type);
            let file_type = match of_inode.or(of_name) {
                None => self.file_type(ino)?,
                known => known,
            };
            entries.push(Entry { name, ino, file_type });
        }
        let missing = self.inode(directory)?.map(|record| record.entries.saturating_sub(count));
        Ok(Listing { entries, missing })
    }

    /// Returns the objects, without those in `reached`, that lie in no other object without a name. Begin with these,
    /// add all that they lead to, and ask again: directories that lie below themselves come last.
    pub fn nameless(&self, reached: &BTreeSet<Ino>) -> Result<Vec<Nameless>, IndexError> {
        let mut candidates: BTreeMap<Ino, Option<Ino>> = BTreeMap::new();
        self.view.each(self.view.volume, Table::Inode, &mut |fields, value| {
            let (Some(ino), Ok(record)) = (key::number(fields).map(Ino), InodeRecord::decode(value)) else {
                return;
            };
            // Files without a name that clients held open were removed.
            let is_removed = record.links == 0 && record.file_type == FileType::Regular;
            if !reached.contains(&ino) && !is_removed {
                let parent = (record.file_type == FileType::Directory).then_some(record.parent);
                candidates.insert(ino, parent);
            }
        })?;
        let mut inside: BTreeSet<Ino> = BTreeSet::new();
        for table in [Table::Name, Table::Cookie] {
            self.view.each(self.view.volume, table, &mut |fields, value| {
                let ino = match table {
                    Table::Name => NameRecord::decode(value).map(|record| record.ino),
                    _ => CookieRecord::decode(value).map(|record| record.ino),
                };
                let (Some(directory), Ok(ino)) = (key::number(fields).map(Ino), ino) else { return };
                if !reached.contains(&directory) {
                    // A directory whose own record is lost.
                    candidates.entry(directory).or_insert(None);
                    inside.insert(ino);
                }
            })?;
        }
        let all = |ino: &Ino| Nameless { ino: *ino, parent: candidates.get(ino).copied().flatten() };
        let tops: Vec<Nameless> = candidates.keys().filter(|ino| !inside.contains(ino)).map(all).collect();
        Ok(if tops.is_empty() { candidates.keys().map(all).collect() } else { tops })
    }

    /// Returns the type of an object: as its record says or, if that is lost, as other records about it suggest.
    pub fn file_type(&self, ino: Ino) -> Result<Option<FileType>, IndexError> {
        if let Some(record) = self.inode(ino)? {
            return Ok(Some(record.file_type));
        }
        let next = Ino(ino.0.saturating_add(1));
        let tables = [
            (
                key::name(self.view.volume.object(ino), b""),
                key::name(self.view.volume.object(next), b""),
                FileType::Directory,
            ),
            (
                key::cookie(self.view.volume.object(ino), Cookie(0)),
                key::cookie(self.view.volume.object(next), Cookie(0)),
                FileType::Directory,
            ),
            (
                key::map(self.view.volume.object(ino), 0),
                key::map(self.view.volume.object(next), 0),
                FileType::Regular,
            ),
            (
                key::symlink(self.view.volume.object(ino)),
                key::symlink(self.view.volume.object(next)),
                FileType::Symlink,
            ),
        ];
        for (from, to, file_type) in tables {
            let mut has_any = false;
            self.view.each_in(&from, &to, &mut |_, _| has_any = true)?;
            if has_any {
                return Ok(Some(file_type));
            }
        }
        Ok(None)
    }

    /// Returns the target of a symbolic link, if it can be read.
    pub fn target(&self, ino: Ino) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.view.get(&key::symlink(self.view.volume.object(ino)))?.map(|target| target.to_vec()))
    }

    /// Returns the extended attributes of an object.
    pub fn xattrs(&self, ino: Ino) -> Result<Xattrs, IndexError> {
        let mut xattrs = Xattrs::default();
        let (from, to) = (
            key::xattr(self.view.volume.object(ino), b""),
            key::xattr(self.view.volume.object(Ino(ino.0.saturating_add(1))), b""),
        );
        self.view.each_in(&from, &to, &mut |key, value| {
            let name = key::parse(key).and_then(|(_, _, fields)| fields.get(8..));
            if let (Some(name), Ok(value)) = (name, decode_xattr(value)) {
                xattrs.found.push((name.to_vec(), value.to_vec()));
            }
        })?;
        let count = u32::try_from(xattrs.found.len()).unwrap_or(u32::MAX);
        xattrs.missing = self.inode(ino)?.map_or(0, |record| record.xattrs.saturating_sub(count));
        Ok(xattrs)
    }

    /// Visits the content of a regular file, in order. What is not visited is a hole.
    pub fn read(&self, ino: Ino, visit: VisitPart<'_>) -> Result<(), IndexError> {
        let inode = self.inode(ino)?;
        let mut extents = Extents::new(self.media.as_ref());
        runs(&self.view, ino, inode.as_ref(), &mut |run| extents.read(&self.view, &run, visit))
    }

    fn inode(&self, ino: Ino) -> Result<Option<InodeRecord>, IndexError> {
        Ok(self
            .view
            .get(&key::inode(self.view.volume.object(ino)))?
            .and_then(|value| InodeRecord::decode(&value).ok()))
    }
}
