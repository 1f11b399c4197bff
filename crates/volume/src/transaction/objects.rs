//! Names and objects in a transaction: adding and removing names, and removing objects with their last name.

use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, Ino, ObjectId};
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::record::{CookieRecord, InodeRecord, NameRecord};
use crate::file::inodes::{InodeState, Presence};
use crate::pool::Pool;
use crate::quotas::Owners;
use crate::transaction::change::Change;

impl Pool {
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
        directory: (ObjectId, &InodeRecord),
        name: &[u8],
        object: (Ino, FileType),
        stamp: Time,
    ) -> InodeRecord {
        let (directory_id, old) = directory;
        let (ino, file_type) = object;
        let mut record = old.clone();
        let cookie = record.next_cookie;
        record.next_cookie = Cookie(cookie.0 + 1);
        record.entries += 1;
        self.touch(&mut record, stamp, true);
        change.put_new(key::name(directory_id, name), NameRecord { ino, cookie, file_type }.encode());
        change.put(key::cookie(directory_id, cookie), CookieRecord { ino, name: name.into() }.encode());
        record
    }

    /// Removes a name from a directory; returns the directory's new record.
    pub(crate) fn drop_name(
        &self,
        change: &mut Change<'_>,
        directory: (ObjectId, &InodeRecord),
        name: &[u8],
        found: &NameRecord,
        stamp: Time,
    ) -> InodeRecord {
        let (directory_id, old) = directory;
        let mut record = old.clone();
        record.entries = record.entries.saturating_sub(1);
        self.touch(&mut record, stamp, true);
        change.forget(key::name(directory_id, name));
        change.delete(key::cookie(directory_id, found.cookie));
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
        let id = state.id;
        if record.links > 1 && record.file_type != FileType::Directory {
            record.links -= 1;
            self.touch(&mut record, stamp, false);
            change.put_inode(id, &record);
            change.add_further_names(-1);
            return Some(record);
        }
        if record.file_type == FileType::Regular && self.orphans.is_held(id) {
            record.links = 0;
            self.touch(&mut record, stamp, false);
            change.put_inode(id, &record);
            change.put_new(key::orphan(id), Vec::new());
            self.orphans.add(id, Owners::of(&record));
            return Some(record);
        }
        self.remove_object(change, state);
        None
    }

    /// Journals the removal of an object.
    pub(crate) fn remove_object(&self, change: &mut Change<'_>, state: &InodeState) {
        let (id, record) = (state.id, state.record());
        if record.mapped_end > 0
            && let Some(own) = self.volumes.read().get(&id.volume)
        {
            own.note_unmapped(change.view().active.layer);
        }
        if record.mapped_end > 0 || !record.pending_truncations.is_empty() || record.xattrs > 0 {
            // The checkpoint must see that the memtable's mappings of the file are dead.
            change.delete(key::inode(id));
            change.put(key::reap(id), Vec::new());
        } else {
            change.forget(key::inode(id));
        }
        if record.file_type == FileType::Symlink {
            change.forget(key::symlink(id));
        }
        if record.tree == id.ino.0 {
            change.delete_tree(id);
        }
        change.add_usage(record, -signed(record.usage_bytes()), -1);
        self.space.removed();
    }

    /// Updates an object's state with the result of [`Pool::unlink`].
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
