//! Names and objects in a transaction: adding and removing names, and removing objects with their last name.

use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, Ino};
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::record::{CookieRecord, InodeRecord, NameRecord};
use crate::file::inodes::{InodeState, Presence};
use crate::transaction::change::Change;
use crate::volume::Volume;

impl Volume {
    /// Updates `ctime`, the version and, with `content`, `mtime`. The change time never repeats, so neither does an
    /// mtime that follows it.
    pub(crate) fn touch(&self, record: &mut InodeRecord, stamp: Time, content: bool) {
        record.ctime = stamp.max(record.ctime.next());
        if content {
            record.mtime = record.ctime;
        }
        record.change = self.next_change(record.change);
    }

    /// Adds a name to a directory; returns the directory's new record.
    pub(crate) fn add_name(
        &self,
        change: &mut Change<'_>,
        directory: (Ino, &InodeRecord),
        name: &[u8],
        object: (Ino, FileType),
        stamp: Time,
    ) -> InodeRecord {
        let (directory_ino, old) = directory;
        let (ino, file_type) = object;
        let mut record = old.clone();
        let cookie = record.next_cookie;
        record.next_cookie = Cookie(cookie.0 + 1);
        record.entries += 1;
        self.touch(&mut record, stamp, true);
        let epoch = record.epoch;
        change.put_new(key::name(directory_ino, name), NameRecord { epoch, ino, cookie, file_type }.encode());
        change
            .put(key::cookie(directory_ino, cookie), CookieRecord { epoch, ino, name: name.into() }.encode());
        record
    }

    /// Removes a name from a directory; returns the directory's new record.
    pub(crate) fn drop_name(
        &self,
        change: &mut Change<'_>,
        directory: (Ino, &InodeRecord),
        name: &[u8],
        found: &NameRecord,
        stamp: Time,
    ) -> InodeRecord {
        let (directory_ino, old) = directory;
        let mut record = old.clone();
        record.entries = record.entries.saturating_sub(1);
        self.touch(&mut record, stamp, true);
        change.forget(key::name(directory_ino, name));
        change.delete(key::cookie(directory_ino, found.cookie));
        record
    }

    /// Removes one name of an object. Returns its new record, or `None` if that was the last name and the object
    /// goes. A directory goes at once; the caller checked that it is empty. A held file stays, as an orphan. The
    /// caller commits the change.
    pub(crate) fn unlink(
        &self,
        change: &mut Change<'_>,
        state: &mut InodeState,
        stamp: Time,
    ) -> Option<InodeRecord> {
        let mut record = state.record().clone();
        let ino = state.ino;
        if record.links > 1 && record.file_type != FileType::Directory {
            record.links -= 1;
            self.touch(&mut record, stamp, false);
            change.put_inode(ino, &record);
            return Some(record);
        }
        if record.file_type == FileType::Regular && self.orphans.is_held(ino) {
            record.links = 0;
            self.touch(&mut record, stamp, false);
            change.put_inode(ino, &record);
            change.put_new(key::orphan(ino), Vec::new());
            self.orphans.add(ino);
            return Some(record);
        }
        self.remove_object(change, state);
        None
    }

    /// Journals the removal of an object.
    pub(crate) fn remove_object(&self, change: &mut Change<'_>, state: &InodeState) {
        let (ino, record) = (state.ino, state.record());
        if record.mapped_end > 0 || !record.pending_truncations.is_empty() || record.xattrs > 0 {
            // The checkpoint must see that the memtable's mappings of the file are dead.
            change.delete(key::inode(ino));
            change.put(key::reap(ino), Vec::new());
        } else {
            change.forget(key::inode(ino));
        }
        if record.file_type == FileType::Symlink {
            change.forget(key::symlink(ino));
        }
        change.add_usage(record, -signed(record.usage_bytes()), -1);
        self.space.removed();
    }

    /// Updates an object's state with the result of [`Volume::unlink`].
    pub(crate) fn set_unlinked(&self, state: &mut InodeState, record: Option<InodeRecord>) {
        match record {
            Some(record) => *state.record_mut() = record,
            None => {
                state.dirty.remove(0, u64::MAX);
                self.account_dirty(state);
                state.unsaved = false;
                state.presence = Presence::Absent;
            }
        }
    }
}

/// Converts a size to a difference.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).expect("a file is below 2^63 bytes")
}
