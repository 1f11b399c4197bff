//! The objects of a volume: those whose records can be read, and those that other records prove to exist.

use super::pass::{Pass, each};
use crate::api::attributes::{Device, FileType};
use crate::api::ids::{Cookie, Ino};
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{InodeRecord, decode_xattr};
use crate::limits::{SYMLINK_BYTES_MAX, XATTR_OVERHEAD_BYTES};
use crate::offline::check::FaultKind;
use crate::tables::index::IndexError;

/// Mode of a directory whose record was lost.
const DIRECTORY_MODE: u16 = 0o700;
/// Mode of a symbolic link, which nothing depends on.
const SYMLINK_MODE: u16 = 0o777;
/// Mode of another object whose record was lost.
const FILE_MODE: u16 = 0o600;

/// An object, and what was counted of it.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub file_type: FileType,
    /// Whether it has no record, and gets a new one.
    pub is_new: bool,
    /// Of a directory: its parent as its record says.
    pub parent: Ino,
    /// Of a directory: the next cookie.
    pub next_cookie: Cookie,
    /// Whether its record says that it has no links.
    pub is_removed: bool,
    /// Whether it is kept without a name.
    pub is_orphan: bool,
    /// Names that it has.
    pub names: u32,
    /// The first of these: the directory, and the cookie there.
    pub first: Option<(Ino, Cookie)>,
    /// Of a directory: names in it.
    pub entries: u64,
    /// Of a directory: directories among these.
    pub subdirectories: u32,
    /// Of a directory: whether names in it were added or removed.
    pub is_changed: bool,
    /// Of a symbolic link: bytes of its target.
    pub target_bytes: Option<usize>,
    /// Bytes that its map covers.
    pub mapped: u64,
    /// Where its map ends.
    pub mapped_end: u64,
    /// The highest truncation count in its map.
    pub birth_max: u32,
    /// Extended attributes, and what they count towards their limit.
    pub xattrs: (u32, u32),
    /// The quota tree that it is in; zero for none.
    pub tree: u64,
}

impl Object {
    fn new(file_type: FileType) -> Object {
        Object {
            file_type,
            is_new: true,
            parent: Ino(0),
            next_cookie: Cookie(0),
            is_removed: false,
            is_orphan: false,
            names: 0,
            first: None,
            entries: 0,
            subdirectories: 0,
            is_changed: false,
            target_bytes: None,
            mapped: 0,
            mapped_end: 0,
            birth_max: 0,
            xattrs: (0, 0),
            tree: 0,
        }
    }

    fn of(record: &InodeRecord) -> Object {
        Object {
            is_new: false,
            parent: record.parent,
            next_cookie: record.next_cookie,
            is_removed: record.links == 0,
            tree: record.tree,
            ..Object::new(record.file_type)
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }
}

impl Pass<'_, '_> {
    /// Loads all objects, the lists of removed ones, and the targets of symbolic links.
    pub(super) fn load_objects(&mut self) -> Result<(), IndexError> {
        let view = self.view;
        each(view, self.volume, Table::Inode, &mut |fields, value| {
            if let (Some(ino), Ok(record)) = (key::number(fields), InodeRecord::decode(value)) {
                self.objects.insert(Ino(ino), Object::of(&record));
            }
            Ok(())
        })?;
        each(view, self.volume, Table::Reap, &mut |fields, _| {
            let of_volume = key::reaped(fields).filter(|id| id.volume == self.volume);
            self.reap.extend(of_volume.map(|id| id.ino));
            Ok(())
        })?;
        match self.objects.get(&Ino::ROOT) {
            Some(root) if root.is_directory() => {}
            _ => self.recreate(Ino::ROOT, FileType::Directory),
        }
        each(view, self.volume, Table::Orphan, &mut |fields, _| {
            self.load_orphan(Ino(key::number(fields).unwrap_or(0)))
        })?;
        each(view, self.volume, Table::Symlink, &mut |fields, value| {
            self.load_target(Ino(key::number(fields).unwrap_or(0)), value)
        })?;
        let is_useless =
            |object: &Object| object.file_type == FileType::Symlink && object.target_bytes.is_none();
        self.useless =
            self.objects.iter().filter(|(_, object)| is_useless(object)).map(|(ino, _)| *ino).collect();
        for ino in &self.useless {
            self.objects.remove(ino);
            self.out.delete(&key::inode(self.volume.object(*ino)))?;
        }
        Ok(())
    }

    /// Keeps a file without a name. If its record is lost, nobody can use it any more, and it is freed.
    fn load_orphan(&mut self, ino: Ino) -> Result<(), IndexError> {
        match self.objects.get_mut(&ino) {
            Some(object) if object.file_type == FileType::Regular => {
                object.is_orphan = true;
                Ok(())
            }
            Some(_) => self.out.delete(&key::orphan(self.volume.object(ino))),
            None => {
                self.out.delete(&key::orphan(self.volume.object(ino)))?;
                self.free(ino)
            }
        }
    }

    fn load_target(&mut self, ino: Ino, target: &[u8]) -> Result<(), IndexError> {
        let is_usable = !target.is_empty() && target.len() <= SYMLINK_BYTES_MAX && !target.contains(&0);
        let is_lost = self.is_lost(&key::inode(self.volume.object(ino))) && !self.reap.contains(&ino);
        if is_usable && is_lost && !self.objects.contains_key(&ino) {
            self.recreate(ino, FileType::Symlink);
        }
        match self.objects.get_mut(&ino) {
            Some(object) if is_usable && object.file_type == FileType::Symlink => {
                object.target_bytes = Some(target.len());
                Ok(())
            }
            _ => self.out.delete(&key::symlink(self.volume.object(ino))),
        }
    }

    /// Adds an object whose record is lost.
    pub(super) fn recreate(&mut self, ino: Ino, file_type: FileType) {
        let mut object = Object::new(file_type);
        // Beyond any cookie that the directory has handed out: each took an entry of the journal.
        object.next_cookie = Cookie(Cookie::FIRST.0.saturating_add(self.stamp.seq.0));
        self.objects.insert(ino, object);
        let what = match file_type {
            FileType::Directory => "its record was lost; it belongs to root now, with mode 0700",
            FileType::Regular => {
                "its record was lost; it belongs to root now, with mode 0600, and ends where its known data does"
            }
            _ => "its record was lost; it belongs to root now",
        };
        self.changes.list(FaultKind::Lost, ino, what);
        self.changes.tally.objects_recreated += 1;
    }

    /// Makes an empty directory of a number that was never used.
    pub(super) fn make_directory(&mut self) -> Ino {
        let after = self.objects.last_key_value().map_or(0, |(ino, _)| ino.0 + 1);
        let ino = Ino(self.next_ino.0.max(after));
        self.next_ino = Ino(ino.0 + 1);
        let directory = Object { next_cookie: Cookie::FIRST, ..Object::new(FileType::Directory) };
        self.objects.insert(ino, directory);
        ino
    }

    /// Has checkpoints free what is left of an object.
    pub(super) fn free(&mut self, ino: Ino) -> Result<(), IndexError> {
        if self.reap.insert(ino) {
            self.changes.tally.objects_freed += 1;
            self.out.put(&key::reap(self.volume.object(ino)), &[])?;
        }
        Ok(())
    }

    /// Counts extended attributes. Those of an object that does not exist are freed.
    pub(super) fn count_xattrs(&mut self) -> Result<(), IndexError> {
        let view = self.view;
        each(view, self.volume, Table::Xattr, &mut |fields, value| {
            let (Some(ino), Ok(value)) = (key::number(fields).map(Ino), decode_xattr(value)) else {
                return Ok(());
            };
            let Some(object) = self.objects.get_mut(&ino) else { return self.free(ino) };
            let bytes = fields.len() - 8 + value.len() + XATTR_OVERHEAD_BYTES;
            object.xattrs.0 += 1;
            object.xattrs.1 = object.xattrs.1.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
            Ok(())
        })
    }

    /// Returns what an object is whose record and name are lost, as other records about it suggest.
    pub(super) fn guess_type(&self, ino: Ino) -> Result<Option<FileType>, IndexError> {
        let next = Ino(ino.0.saturating_add(1));
        let tables = [
            (
                key::name(self.volume.object(ino), b""),
                key::name(self.volume.object(next), b""),
                FileType::Directory,
            ),
            (
                key::cookie(self.volume.object(ino), Cookie(0)),
                key::cookie(self.volume.object(next), Cookie(0)),
                FileType::Directory,
            ),
            (key::map(self.volume.object(ino), 0), key::map(self.volume.object(next), 0), FileType::Regular),
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

    /// Returns the record of an object that has none.
    pub(super) fn new_record(&self, object: &Object) -> InodeRecord {
        let time = self.stamp.time;
        InodeRecord {
            file_type: object.file_type,
            mode: match object.file_type {
                FileType::Directory => DIRECTORY_MODE,
                FileType::Symlink => SYMLINK_MODE,
                _ => FILE_MODE,
            },
            links: 0,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            mapped_end: 0,
            device: Device::default(),
            atime: time,
            mtime: time,
            ctime: time,
            change: 0,
            parent: Ino(0),
            next_cookie: Cookie(0),
            entries: 0,
            tree: 0,
            create_verifier: None,
            truncations: 0,
            pending_truncations: Vec::new(),
            xattrs: 0,
            xattr_bytes: 0,
        }
    }
}
