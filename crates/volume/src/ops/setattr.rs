//! SETATTR (RFC 1813 section 3.3.2).

use super::{check_regular, chosen};
use crate::api::attributes::{SetAttributes, SetTime, Wcc};
use crate::api::ids::Ino;
use crate::api::request::{Answer, Credentials, Encode, Error, Failure, Promised, Request};
use crate::api::time::Time;
use crate::encoding::record::InodeRecord;
use crate::file::inodes::InodeState;
use crate::limits::{FILE_BYTES_MAX, PENDING_TRUNCATIONS_MAX};
use crate::quotas::{Kinds, Owners};
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::change::Change;
use crate::transaction::growth::move_growth;
use crate::transaction::objects::signed;
use crate::transaction::permission;
use crate::transaction::permission::{SETGID, WRITE, owns, without_privilege_bits};
use crate::volume::Volume;

impl Volume {
    /// Sets attributes; with `guard`, only if the change time still equals it.
    pub fn set_attributes(
        &self,
        request: &Request<'_>,
        ino: Ino,
        set: &SetAttributes,
        guard: Option<Time>,
        encode: Encode<'_, Wcc>,
    ) -> Answer<Wcc> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let after = state.durability();
            check(request.credentials, state.record(), set, guard)
                .map_err(|error| Stop::Failed(Failure { error, after }))?;
            let before = state.attributes().before();
            if *set == SetAttributes::default() {
                // Nothing was asked of anybody's rights, so nothing may change: neither times nor the verifier of a creation.
                return Ok(Promised { value: Wcc { before, after: state.attributes() }, after });
            }
            let old = state.record().clone();
            let owners = Owners::new(old.tree, set.uid.unwrap_or(old.uid), set.gid.unwrap_or(old.gid));
            if owners != Owners::of(&old) {
                // What they use is counted in records of their own. Other attributes take the place of those before.
                drop(self.begin()?);
            }
            // With the size that it will have.
            let freed = match set.size {
                Some(size) if owners != Owners::of(&old) => {
                    attempt.mapped_bytes(&mut state, size, old.mapped_end)?
                }
                _ => 0,
            };
            let growth = self.reserve_for_new_owners(&state, (owners, Kinds::NONE), freed, request.now)?;
            let mut change = match set.size {
                Some(size) => self.resize(request, attempt, &mut state, size)?,
                None => self.begin_freeing()?,
            };
            let (stamp, _) = self.committer.stamp(request.now);
            let mut record = state.record().clone();
            if set.size.is_none() {
                self.touch(&mut record, stamp, false);
            }
            apply(request.credentials, &mut record, set, stamp);
            if (record.uid, record.gid) != (old.uid, old.gid) {
                // The file's usage moves with it to the new owner and group.
                let bytes = signed(record.usage_bytes());
                change.add_usage(&old, -bytes, -1);
                change.add_usage(&record, bytes, 1);
                move_growth(&mut change, &mut state, owners, growth);
                if record.links == 0 {
                    self.orphans.change_owners(ino, owners);
                }
            }
            change.put_inode(ino, &record);
            *state.record_mut() = record;
            let wcc = Wcc { before, after: state.attributes() };
            state.journaled(change.commit_answered(request, after, &wcc, encode));
            Ok(Promised { value: wcc, after: state.durability() })
        })
    }

    /// Begins a transaction that changes the size of a locked file. The caller puts its record.
    pub(super) fn resize(
        &self,
        request: &Request<'_>,
        attempt: &Attempt<'_>,
        state: &mut InodeState,
        size: u64,
    ) -> Result<Change<'_>, Stop> {
        let mapped_end = state.record().mapped_end;
        if state.record().pending_truncations.len() >= PENDING_TRUNCATIONS_MAX {
            self.checkpoints.kick();
            return Err(Error::ObjectBusy.into());
        }
        if size < mapped_end && !state.record().can_be_truncated() {
            return Err(Error::NoSpace.into());
        }
        let freed = attempt.mapped_bytes(state, size, mapped_end)?;
        let mut change = self.begin_freeing()?;
        let (stamp, _) = self.committer.stamp(request.now);
        let record = state.record_mut();
        self.touch(record, stamp, true);
        if request.credentials.uid != 0 {
            record.mode = without_privilege_bits(record);
        }
        if size < mapped_end {
            record.truncate(size);
            self.own.note_unmapped(change.view().active.layer);
            record.mapped_end = size;
            record.used -= freed;
        }
        record.size = size;
        change.add_usage(state.record(), -signed(freed), 0);
        state.unstable_size = None;
        state.dirty.remove(size, u64::MAX);
        state.note_mapped(size, u64::MAX, -signed(freed));
        self.account_dirty(state);
        if freed > 0 {
            self.space.removed();
        }
        Ok(change)
    }
}

fn check(
    who: &Credentials,
    inode: &InodeRecord,
    set: &SetAttributes,
    guard: Option<Time>,
) -> Result<(), Error> {
    if guard.is_some_and(|guard| guard != inode.ctime) {
        return Err(Error::NotSync);
    }
    if let Some(size) = set.size {
        check_regular(inode)?;
        permission::check_write(who, inode)?;
        if size > FILE_BYTES_MAX {
            return Err(Error::FileTooLarge);
        }
    }
    let sets_owner = set.uid.is_some_and(|uid| uid != inode.uid);
    let sets_group = set.gid.is_some_and(|gid| gid != inode.gid);
    let joins = set.gid.is_none_or(|gid| who.in_group(gid) || gid == inode.gid);
    if who.uid != 0 && (sets_owner || (sets_group && !(owns(who, inode) && joins))) {
        return Err(Error::NotPermitted);
    }
    if set.need_owner() && !owns(who, inode) {
        return Err(Error::NotPermitted);
    }
    let sets_now = set.atime == SetTime::Now || set.mtime == SetTime::Now;
    if sets_now && !owns(who, inode) && !permission::may(who, inode, WRITE) {
        return Err(Error::AccessDenied);
    }
    Ok(())
}

/// Sets what was requested, apart from the size. Setuid and setgid are cleared when the owner changes, unless the
/// same request sets the mode.
fn apply(who: &Credentials, record: &mut InodeRecord, set: &SetAttributes, stamp: Time) {
    if set.uid.is_some() || set.gid.is_some() {
        record.mode = without_privilege_bits(record);
    }
    record.uid = set.uid.unwrap_or(record.uid);
    record.gid = set.gid.unwrap_or(record.gid);
    if let Some(mode) = set.mode {
        record.mode = permitted_mode(who, record.gid, mode);
    }
    record.atime = chosen(set.atime, record.atime, stamp);
    record.mtime = chosen(set.mtime, record.mtime, stamp);
    record.create_verifier = None;
}

/// Returns the mode that the caller may set on an object of that group: setgid only for a member of it.
pub(super) fn permitted_mode(who: &Credentials, gid: u32, mode: u32) -> u16 {
    let mode = u16::try_from(mode & 0o7777).expect("twelve bits");
    if who.uid == 0 || who.in_group(gid) { mode } else { mode & !SETGID }
}
