//! An object in the model, and the comparison of its attributes with those that the engine shows.

use std::collections::BTreeMap;
use std::rc::Rc;

use volume::attributes::{Device, FileType};
use volume::request::Credentials;

use super::content::Content;
use crate::call::{Attrs, OperationId};

/// A time: one of these values, the likeliest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PossibleTimes(pub(crate) Vec<i64>);

impl PossibleTimes {
    pub(crate) fn at(time: i64) -> PossibleTimes {
        PossibleTimes(vec![time])
    }

    pub(crate) fn or(&mut self, time: i64) {
        if !self.0.contains(&time) {
            self.0.push(time);
        }
    }

    pub(crate) fn is(&self, time: i64) -> bool {
        self.0.contains(&time)
    }

    pub(crate) fn latest(&self) -> i64 {
        self.0.iter().copied().max().unwrap_or(i64::MIN)
    }

    /// Returns the time after a change at `now`: it always advances.
    fn advanced(&self, now: i64) -> PossibleTimes {
        let mut next = PossibleTimes::default();
        self.0.iter().for_each(|time| next.or(now.max(time + 1)));
        next
    }
}

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) ino: u64,
    /// Its cookie, once a listing has shown it.
    pub(crate) cookie: Option<u64>,
    /// The start of a listing that ended without the entry: its cookie cannot be larger.
    pub(crate) cookie_at_most: u64,
}

/// A change of a file's bytes or attributes. [`super::recovery`] decides which changes a crash may take back.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) operation: OperationId,
    pub(crate) kind: ChangeKind,
    /// The attributes after the change.
    pub(crate) stamp: Stamp,
}

#[derive(Clone, Debug)]
pub(crate) enum ChangeKind {
    Write {
        offset: u64,
        bytes: Rc<[u8]>,
        stable: bool,
    },
    Size(u64),
    /// The size became at least this.
    Grow(u64),
    /// The range from start to end was copied from an offset of another content.
    Copy(u64, u64, Rc<Content>, u64),
    /// The range from start to end became a hole.
    Punch(u64, u64),
    /// Only attributes changed.
    Touch,
}

#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    pub(crate) mtime: PossibleTimes,
    pub(crate) ctime: PossibleTimes,
    pub(crate) mode: Vec<u32>,
}

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) kind: FileType,
    /// The possible modes.
    pub(crate) mode: Vec<u32>,
    pub(crate) links: u32,
    /// The number of holds.
    pub(crate) held: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) device: Device,
    pub(crate) atime: PossibleTimes,
    pub(crate) mtime: PossibleTimes,
    pub(crate) ctime: PossibleTimes,
    /// The last change value seen.
    pub(crate) change: u64,
    /// Whether the change value must, or may, have grown since.
    pub(crate) change_must: bool,
    pub(crate) change_may: bool,
    pub(crate) content: Content,
    pub(crate) target: Vec<u8>,
    pub(crate) xattrs: Rc<BTreeMap<Vec<u8>, Vec<u8>>>,
    pub(crate) entries: BTreeMap<Vec<u8>, Entry>,
    pub(crate) parent: u64,
    /// The verifier of an exclusive create, and whether the object is unchanged since.
    pub(crate) verifier: Option<[u8; 8]>,
    pub(crate) untouched: bool,
    /// The content when all of it was last known to be safe, and the changes since.
    pub(crate) base: Content,
    pub(crate) base_stamp: Stamp,
    pub(crate) changes: Vec<Change>,
    /// Bytes written since all data was last known to be written back. Until then, overwritten bytes may count twice.
    pub(crate) soft: u64,
    /// Whether a crash left open which bytes are holes.
    pub(crate) used_free: bool,
    /// The last mutation of an attribute, and the last one of owner or mode.
    pub(crate) changed_in: u64,
    pub(crate) permission_changed_in: u64,
    /// The last mutation of an extended attribute.
    pub(crate) xattrs_changed_in: u64,
    /// The last mutation of each name in this directory.
    pub(crate) name_changed_in: BTreeMap<Vec<u8>, u64>,
}

impl Inode {
    /// Returns a new object, with the attributes that every creation sets.
    pub(crate) fn new(kind: FileType, who: &Credentials, now: i64, mutation: u64) -> Inode {
        let stamp = Stamp { mtime: PossibleTimes::at(now), ctime: PossibleTimes::at(now), mode: Vec::new() };
        Inode {
            kind,
            mode: Vec::new(),
            links: if kind == FileType::Directory { 2 } else { 1 },
            held: 0,
            uid: who.uid,
            gid: who.gid,
            device: Device::default(),
            atime: PossibleTimes::at(now),
            mtime: PossibleTimes::at(now),
            ctime: PossibleTimes::at(now),
            change: 0,
            change_must: true,
            change_may: true,
            content: Content::default(),
            target: Vec::new(),
            xattrs: Rc::default(),
            entries: BTreeMap::new(),
            parent: 0,
            verifier: None,
            untouched: true,
            base: Content::default(),
            base_stamp: stamp,
            changes: Vec::new(),
            soft: 0,
            used_free: false,
            changed_in: mutation,
            permission_changed_in: mutation,
            xattrs_changed_in: mutation,
            name_changed_in: BTreeMap::new(),
        }
    }

    /// Whether the object outlives its last name.
    pub(crate) fn is_kept(&self) -> bool {
        self.held > 0 && self.kind == FileType::Regular
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }

    pub(crate) fn mode_now(&self) -> u32 {
        self.mode.first().copied().unwrap_or(0)
    }

    /// Whether the mode bits grant `wanted` (4 read, 2 write, 1 execute).
    pub(crate) fn grants(&self, who: &Credentials, wanted: u32) -> bool {
        let mode = self.mode_now();
        if who.uid == 0 {
            return wanted & 1 == 0 || self.is_directory() || mode & 0o111 != 0;
        }
        let class = match () {
            () if who.uid == self.uid => mode >> 6,
            () if who.in_group(self.gid) => mode >> 3,
            () => mode,
        };
        class & wanted == wanted
    }

    pub(crate) fn owned_by(&self, who: &Credentials) -> bool {
        who.uid == 0 || who.uid == self.uid
    }

    /// Applies a change of attributes at `now`.
    pub(crate) fn touch(&mut self, now: i64) {
        self.ctime = self.ctime.advanced(now);
        (self.change_must, self.change_may, self.untouched) = (true, true, false);
    }

    /// Applies a change of content at `now`: mtime becomes the ctime, or advances by itself.
    pub(crate) fn touch_content(&mut self, now: i64) {
        let mut mtime = self.mtime.advanced(now);
        self.touch(now);
        self.ctime.0.iter().for_each(|time| mtime.or(*time));
        mtime.or(now);
        self.mtime = mtime;
    }

    /// Applies a change that an implementation may or may not count as one of attributes.
    pub(crate) fn maybe_touch(&mut self, now: i64) {
        for time in self.ctime.advanced(now).0 {
            self.ctime.or(time);
        }
        self.change_may = true;
    }

    pub(crate) fn stamp(&self) -> Stamp {
        Stamp { mtime: self.mtime.clone(), ctime: self.ctime.clone(), mode: self.mode.clone() }
    }

    /// Logs a change, for the crash that may follow.
    pub(crate) fn log(&mut self, operation: OperationId, kind: ChangeKind) {
        let stamp = self.stamp();
        if !matches!((&kind, self.changes.is_empty()), (ChangeKind::Touch, true)) {
            self.changes.push(Change { operation, kind, stamp });
        } else {
            self.base_stamp = stamp;
        }
    }

    /// Compares the attributes that writes do not change.
    pub(crate) fn compare_fixed(&self, seen: &Attrs) -> Result<(), String> {
        let differs = |what: &str, seen: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
            Err(format!("{what} is {seen:?}, expected {expected:?}"))
        };
        if seen.kind != self.kind {
            return differs("type", &seen.kind, &self.kind);
        }
        if seen.links != self.links {
            return differs("link count", &seen.links, &self.links);
        }
        if (seen.uid, seen.gid) != (self.uid, self.gid) {
            return differs("owner", &(seen.uid, seen.gid), &(self.uid, self.gid));
        }
        if matches!(self.kind, FileType::Block | FileType::Character) && seen.device != self.device {
            return differs("device", &seen.device, &self.device);
        }
        if !self.atime.is(seen.atime) {
            return differs("atime", &seen.atime, &self.atime);
        }
        Ok(())
    }

    /// Compares all attributes with those shown, and adopts what the rules leave open.
    pub(crate) fn compare_and_adopt(&mut self, seen: &Attrs) -> Result<(), String> {
        self.compare_fixed(seen)?;
        if !self.mode.is_empty() && !self.mode.contains(&seen.mode) {
            return Err(format!("mode is {:o}, expected one of {:?}", seen.mode, self.mode));
        }
        let size = match self.kind {
            FileType::Directory => seen.size,
            FileType::Symlink => self.target.len() as u64,
            _ => self.content.size,
        };
        if seen.size != size {
            return Err(format!("size is {}, expected {size}", seen.size));
        }
        let used = self.used();
        if self.kind == FileType::Regular
            && !self.used_free
            && !(used..=used + self.soft).contains(&seen.used)
        {
            return Err(format!("used is {}, expected {used} and at most {} more", seen.used, self.soft));
        }
        if !self.mtime.is(seen.mtime) {
            return Err(format!("mtime is {}, expected one of {:?}", seen.mtime, self.mtime));
        }
        if !self.ctime.is(seen.ctime) {
            return Err(format!("ctime is {}, expected one of {:?}", seen.ctime, self.ctime));
        }
        self.compare_change(seen)?;
        self.adopt(seen);
        Ok(())
    }

    /// Returns the bytes that it uses: those outside holes, and its extended attributes.
    pub(crate) fn used(&self) -> u64 {
        self.content.used() + self.xattr_bytes()
    }

    /// Returns the bytes of its extended attributes, each with 32 more.
    pub(crate) fn xattr_bytes(&self) -> u64 {
        self.xattrs.iter().map(|(name, value)| (name.len() + value.len() + 32) as u64).sum()
    }

    /// Returns how many objects it counts as: one, and one for each name beyond its first.
    pub(crate) fn counted(&self) -> u64 {
        if self.is_directory() { 1 } else { u64::from(self.links.max(1)) }
    }

    pub(crate) fn compare_change(&self, seen: &Attrs) -> Result<(), String> {
        let Some(change) = seen.change else { return Ok(()) };
        let fits = match (self.change_must, self.change_may) {
            (true, _) => change > self.change,
            (false, true) => change >= self.change,
            (false, false) => change == self.change,
        };
        if fits {
            Ok(())
        } else {
            Err(format!("change is {change} after {} ({:?})", self.change, self.change_must))
        }
    }

    /// Adopts the values shown where the rules allow several.
    pub(crate) fn adopt(&mut self, seen: &Attrs) {
        (self.mode, self.atime) = (vec![seen.mode], PossibleTimes::at(seen.atime));
        (self.mtime, self.ctime) = (PossibleTimes::at(seen.mtime), PossibleTimes::at(seen.ctime));
        if let Some(change) = seen.change {
            (self.change_must, self.change_may, self.change) = (false, false, change);
        }
        if let Some(last) = self.changes.last_mut() {
            last.stamp =
                Stamp { mtime: self.mtime.clone(), ctime: self.ctime.clone(), mode: self.mode.clone() };
        } else {
            self.base_stamp = self.stamp();
        }
    }
}
