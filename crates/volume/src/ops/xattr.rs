//! GETXATTR, SETXATTR, LISTXATTRS and REMOVEXATTR (RFC 8276 section 8.4).

use std::sync::Arc;

use crate::api::attributes::{FileType, Wcc};
use crate::api::ids::{Ino, ObjectId};
use crate::api::request::{Access, Answer, Credentials, Encode, Error, Failure, Promised, Request};
use crate::api::results::{SetXattr, XattrNames};
use crate::encoding::key;
use crate::encoding::record::{InodeRecord, decode_xattr};
use crate::file::inodes::LockedInode;
use crate::limits::{
    NAME_BYTES_MAX, XATTR_BYTES_PER_FILE_MAX, XATTR_OVERHEAD_BYTES, XATTR_VALUE_BYTES_MAX,
    XATTRS_PER_FILE_MAX,
};
use crate::pool::Subject;
use crate::quotas::Owners;
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::change::Change;
use crate::transaction::growth::of_bytes;
use crate::transaction::permission;
use crate::transaction::permission::{READ, STICKY, WRITE};
use crate::volume::Volume;

/// Extended attributes that are read at once.
const XATTRS_AT_ONCE: usize = 256;

/// Returns the bytes of an attribute that count towards the limit of its file, and as usage.
fn charge(name: &[u8], value: &[u8]) -> u32 {
    u32::try_from(name.len() + value.len() + XATTR_OVERHEAD_BYTES).expect("both are bounded")
}

impl Volume {
    /// Returns the value of an extended attribute. `name` excludes the prefix `user.`.
    ///
    /// # Errors
    /// `NoEntry` if no attribute has this name.
    pub fn get_xattr(&self, request: &Request<'_>, ino: Ino, name: &[u8]) -> Answer<Arc<[u8]>> {
        let ino = self.object(ino);
        check_name(name)?;
        self.run(request.access, |attempt| {
            let state = attempt.lock(ino)?;
            let after = state.durability();
            let fail = |error| Stop::Failed(Failure { error, after });
            check(request.credentials, state.record(), READ).map_err(fail)?;
            let value = self.xattr(attempt, &state, name)?.ok_or_else(|| fail(Error::NoEntry))?;
            Ok(Promised { value, after })
        })
    }

    /// Sets an extended attribute: a value of at most [`XATTR_VALUE_BYTES_MAX`].
    ///
    /// # Errors
    /// `Exists` or `NoEntry` as `how` requires; `FileTooLarge` if the value is too long, `NoSpace` if the file's
    /// attributes together are.
    pub fn set_xattr(
        &self,
        request: &Request<'_>,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        encode: Encode<'_, Wcc>,
    ) -> Answer<Wcc> {
        let ino = self.object(ino);
        check_name(name)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Error::FileTooLarge.into());
        }
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let after = state.durability();
            let fail = |error| Stop::Failed(Failure { error, after });
            check(request.credentials, state.record(), WRITE).map_err(fail)?;
            let old = self.xattr(attempt, &state, name)?;
            match (&old, how) {
                (Some(_), SetXattr::Create) => return Err(fail(Error::Exists)),
                (None, SetXattr::Replace) => return Err(fail(Error::NoEntry)),
                _ => {}
            }
            let mut record = state.record().clone();
            record.xattrs += u32::from(old.is_none());
            record.xattr_bytes -= old.as_ref().map_or(0, |old| charge(name, old));
            record.xattr_bytes += charge(name, value);
            if record.xattr_bytes > XATTR_BYTES_PER_FILE_MAX {
                return Err(fail(Error::NoSpace));
            }
            let more = u64::from(record.xattr_bytes.saturating_sub(state.record().xattr_bytes));
            let growth = self.reserve_growth(request, Owners::of(state.record()), of_bytes(more))?;
            let mut change = self.begin_with_long_value(value.len())?;
            change.add_growth(growth.keep());
            let key = key::xattr(ino, name);
            match old {
                Some(_) => change.put(key, value.to_vec()),
                None => change.put_new(key, value.to_vec()),
            }
            self.change_xattrs(request, change, &mut state, record, encode)
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoEntry` if no attribute has this name.
    pub fn remove_xattr(
        &self,
        request: &Request<'_>,
        ino: Ino,
        name: &[u8],
        encode: Encode<'_, Wcc>,
    ) -> Answer<Wcc> {
        let ino = self.object(ino);
        check_name(name)?;
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let after = state.durability();
            let fail = |error| Stop::Failed(Failure { error, after });
            check(request.credentials, state.record(), WRITE).map_err(fail)?;
            let old = self.xattr(attempt, &state, name)?.ok_or_else(|| fail(Error::NoEntry))?;
            let mut record = state.record().clone();
            record.xattrs = record.xattrs.saturating_sub(1);
            record.xattr_bytes = record.xattr_bytes.saturating_sub(charge(name, &old));
            let mut change = self.begin_freeing()?;
            change.forget(key::xattr(ino, name));
            self.change_xattrs(request, change, &mut state, record, encode)
        })
    }

    /// Returns up to `max` names of extended attributes, in byte order, after the first `cookie` of them. Changes
    /// between two calls shift the names after them.
    ///
    /// # Errors
    /// With [`Access::Cached`] it is `WouldBlock` for a file that has any.
    pub fn list_xattrs(
        &self,
        request: &Request<'_>,
        ino: Ino,
        cookie: u64,
        max: usize,
    ) -> Answer<XattrNames> {
        let ino = self.object(ino);
        let look = || {
            self.run(request.access, |attempt| {
                let state = attempt.lock(ino)?;
                let after = state.durability();
                let fail = |error| Stop::Failed(Failure { error, after });
                check(request.credentials, state.record(), READ).map_err(fail)?;
                Ok(Promised { value: state.record().xattrs, after })
            })
        };
        let before = look()?;
        if before.value == 0 {
            let none = XattrNames { names: Vec::new(), end: true };
            return Ok(Promised { value: none, after: before.after });
        }
        if request.access == Access::Cached {
            return Err(Error::WouldBlock.into());
        }
        let skip = usize::try_from(cookie).unwrap_or(usize::MAX).min(XATTRS_PER_FILE_MAX);
        let max = max.min(XATTRS_PER_FILE_MAX);
        let found = self.xattr_names(ino, skip + max + 1)?;
        let end = found.len() <= skip + max;
        let names = XattrNames { names: found.into_iter().skip(skip).take(max).collect(), end };
        // Looked up last: each change that was seen was made under the file's lock, which also noted its entry there.
        Ok(Promised { value: names, after: before.after.and(look()?.after) })
    }

    /// Returns the first `max` names. The view is read in parts, each of bounded size, as others wait for its locks.
    fn xattr_names(&self, ino: ObjectId, max: usize) -> Result<Vec<Box<[u8]>>, Error> {
        let (first, to) = (key::xattr(ino, b""), key::xattr(ino.next(), b""));
        let (mut names, mut from) = (Vec::new(), Some(first.clone()));
        let view = self.view();
        while let Some(next) = from.filter(|_| names.len() < max) {
            let part = (max - names.len()).min(XATTRS_AT_ONCE);
            let (found, rest) = view
                .scan_some(&next, &to, part, XATTRS_AT_ONCE)
                .map_err(|error| self.index_failed(Subject::Object(ino), &error))?;
            from = match found.last() {
                Some((last, _)) if found.len() == part => Some(last.successor()),
                _ => rest,
            };
            names.extend(found.iter().map(|(key, _)| key.get(first.len()..).unwrap_or_default().into()));
        }
        Ok(names)
    }

    /// Returns the value of an attribute of a locked file.
    fn xattr(
        &self,
        attempt: &Attempt<'_>,
        state: &LockedInode,
        name: &[u8],
    ) -> Result<Option<Arc<[u8]>>, Stop> {
        if state.record().xattrs == 0 {
            return Ok(None);
        }
        let slot = attempt.record(&self.view(), &key::xattr(state.id, name))?;
        slot.map(|bytes| Ok(self.decode(Subject::Object(state.id), decode_xattr(&bytes))?.into())).transpose()
    }

    /// Journals a change of an attribute with the file's record.
    fn change_xattrs(
        &self,
        request: &Request<'_>,
        mut change: Change<'_>,
        state: &mut LockedInode,
        mut record: InodeRecord,
        encode: Encode<'_, Wcc>,
    ) -> Result<Promised<Wcc>, Stop> {
        let (before, shown) = (state.attributes().before(), state.durability());
        let (stamp, _) = self.committer.stamp(request.now);
        self.touch(&mut record, stamp, false);
        let bytes = i64::from(record.xattr_bytes) - i64::from(state.record().xattr_bytes);
        change.add_usage(&record, bytes, 0);
        change.put_inode(state.id, &record);
        *state.record_mut() = record;
        let wcc = Wcc { before, after: state.attributes() };
        state.journaled(change.commit_answered(request, shown, &wcc, encode));
        Ok(Promised { value: wcc, after: state.durability() })
    }
}

/// Checks a name: any bytes but NUL, as other systems end names with it.
fn check_name(name: &[u8]) -> Result<(), Error> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name.contains(&0) { Err(Error::Invalid) } else { Ok(()) }
}

/// Checks permission: read for attributes of a readable file, write for those of a writable one. Only files and
/// directories have them, as the modes of other objects do not cover them. In a sticky directory users share room for names, not
/// the directory itself, so only its owner changes its attributes, as on Linux.
fn check(who: &Credentials, record: &InodeRecord, wanted: u16) -> Result<(), Error> {
    if !matches!(record.file_type, FileType::Regular | FileType::Directory) {
        return Err(Error::NotPermitted);
    }
    if permission::owns(who, record) {
        return Ok(());
    }
    let is_sticky = record.file_type == FileType::Directory && record.mode & STICKY != 0;
    if is_sticky && wanted == WRITE {
        return Err(Error::NotPermitted);
    }
    permission::check(who, record, wanted)
}
