//! Operations that NFSv3 lacks: protocol state, held files, exclusive creation with attributes, ranges, extended
//! attributes.

use std::rc::Rc;

use volume::attributes::FileType;
use volume::request::{Credentials, Error};
use volume::results::{SetXattr, Sought, SoughtContent};

use super::files::{FILE_BYTES_MAX, observed_by_refusal, without_privileges};
use super::inode::{ChangeKind, Inode};
use super::quotas::Usage;
use super::{End, Expected, Judged, Model, Observed};
use crate::call::{CreateHow, EngineOnlyOp, Name, Obj, Success, payload, xattr_name};

/// The name `..`.
const PARENT: Name = Name(11);

impl Model {
    /// Judges the result of a call that NFSv3 lacks, and applies the call.
    pub(super) fn judge_engine_only_op(
        &mut self,
        call: &Judged<'_>,
        op: EngineOnlyOp,
    ) -> Result<Observed, End> {
        let Judged { id, .. } = *call;
        match op {
            EngineOnlyOp::ChangeState { .. } => {
                let observed = Observed { mutation: self.mutations, ..Observed::default() };
                let mut expected = Expected::of_growth();
                expected.observed = observed;
                self.decide(call, expected)?;
                self.mutations += 1;
                Ok(Observed { mutation: self.mutations, ..Observed::default() })
            }
            EngineOnlyOp::Hold { object } => {
                let observed = self.get_attributes(call, object)?;
                if let (Some(ino), true) = (self.ino(object), call.result.is_ok()) {
                    self.edit(ino).held += 1;
                }
                Ok(observed)
            }
            EngineOnlyOp::Release { object } => {
                let ino = self.ino(object).filter(|ino| self.inodes.contains_key(ino));
                if let Some(ino) = ino.filter(|ino| self.inodes[ino].held > 0) {
                    self.edit(ino).held -= 1;
                }
                Ok(Observed::default())
            }
            EngineOnlyOp::ReapOrphan => self.reap_orphan(call),
            EngineOnlyOp::SetQuota { owner, limits } => self.set_quota(call, (owner, limits)),
            EngineOnlyOp::LookupParent { directory } if self.ino(directory) == self.ino(Obj(0)) => {
                let mut expected = Expected::default();
                expected.must(true, Error::NoEntry);
                self.decide(call, expected)?;
                Ok(Observed::default())
            }
            EngineOnlyOp::Clone { object, offset, to, at, count, copy } => {
                let unit = if copy { 1 } else { 4096 };
                self.clone_range(call, ((object, offset), (to, at), count, unit))
            }
            EngineOnlyOp::GetXattr { object, key } => self.get_xattr(call, (object, key)),
            EngineOnlyOp::ListXattrs { object } => self.list_xattrs(call, object),
            EngineOnlyOp::SetXattr { object, key, length, how } => {
                let value = payload(id, length.into());
                self.change_xattr(call, (object, key, Some((value, how))))
            }
            EngineOnlyOp::RemoveXattr { object, key } => self.change_xattr(call, (object, key, None)),
            EngineOnlyOp::Seek { object, offset, content } => self.seek(call, (object, offset, content)),
            EngineOnlyOp::Allocate { object, offset, length } => {
                self.change_range(call, (object, offset, length, true))
            }
            EngineOnlyOp::Deallocate { object, offset, length } => {
                self.change_range(call, (object, offset, length, false))
            }
            EngineOnlyOp::LookupParent { directory } => self.lookup(call, directory, PARENT),
            EngineOnlyOp::CreateExclusive { directory, name, verifier, set } => {
                let how = CreateHow::ExclusiveWith(verifier, set);
                self.create(call, (directory, name, &how))
            }
        }
    }

    fn seek(
        &mut self,
        call: &Judged<'_>,
        (object, offset, content): (Obj, u64, SoughtContent),
    ) -> Result<Observed, End> {
        let Judged { who, .. } = *call;
        let (ino, inode) = self.existing_object(call, object)?;
        let mut expected = Expected::default();
        expected.require_readable(&inode, who);
        let Success::Sought(sought) = self.decide(call, expected)? else { return call.unexpected() };
        let size = inode.content.size;
        let expected = if offset >= size {
            Sought::Beyond
        } else {
            let next = inode.content.next(offset, content == SoughtContent::Data);
            next.map_or(Sought::End, Sought::At)
        };
        // Where a crash left open which bytes are holes, only the end is certain.
        let free = inode.used_free && *sought != Sought::Beyond && expected != Sought::Beyond;
        if *sought != expected && !free {
            return Err(format!(
                "SEEK {content:?} of inode {ino} at {offset} of {size}: {sought:?}, expected {expected:?}"
            )
            .into());
        }
        let end = if let Sought::At(at) = sought { *at } else { size };
        Ok(Observed { bytes: Some((ino, offset, end.max(offset))), ..Observed::default() })
    }

    fn clone_range(
        &mut self,
        call: &Judged<'_>,
        ((object, offset), (to, at), count, unit): ((Obj, u64), (Obj, u64), u64, u64),
    ) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        let ((from, source), (to, before)) =
            (self.existing_object(call, object)?, self.existing_object(call, to)?);
        let rest = source.content.size.saturating_sub(offset);
        let asked = if count == 0 { rest } else { count };
        let mut expected = Expected::of_growth();
        expected.require_readable(&source, who);
        expected.require_writable(&before, who);
        expected.must(offset > source.content.size || asked > rest, Error::Invalid);
        let aligned = offset % unit == 0 && at % unit == 0 && (asked % unit == 0 || asked == rest);
        expected.must(!aligned, Error::Invalid);
        expected.must(at.saturating_add(asked) > FILE_BYTES_MAX, Error::FileTooLarge);
        let overlaps = from == to && at < offset.saturating_add(asked) && offset < at.saturating_add(asked);
        expected.must(overlaps, Error::Invalid);
        // The engine may copy a part, and refuse only what adds more than there is room for.
        let owners = (before.uid, before.gid);
        let added = |count| before.content.added_by_copy(&source.content, offset, at, count);
        let most = before.content.most_added_by_copy(&source.content, offset, at, asked);
        expected.may(self.judge_room(who, owners, Usage::of_bytes(most)).is_err(), Error::QuotaExceeded);
        let Success::Cloned { count, object: wcc } = self.decide(call, expected)? else {
            return call.unexpected();
        };
        if *count > asked || (*count == 0) != (asked == 0) {
            return Err(format!("CLONE of {asked} bytes copied {count}").into());
        }
        self.judge_room(who, owners, Usage::of_bytes(added(*count)))?;
        if *count > 0 {
            self.mutations += 1;
            let mutation = self.mutations;
            let content = Rc::new(source.content.clone());
            let inode = self.edit(to);
            inode.touch_content(now);
            inode.mode = without_privileges(inode, who);
            inode.changed_in = mutation;
            inode.used_free |= source.used_free;
            inode.content.copy(&content, offset, at, *count);
            inode.log(id, ChangeKind::Copy(at, at + count, content, offset));
            self.usage_changed_in = mutation;
        }
        let observed = self.compare_wcc(&before, to, wcc, "CLONE")?;
        let mutation = if *count > 0 { self.mutations } else { 0 };
        Ok(Observed { mutation: observed.max(mutation), ..Observed::default() })
    }

    fn get_xattr(&mut self, call: &Judged<'_>, (object, key): (Obj, u8)) -> Result<Observed, End> {
        let Judged { who, .. } = *call;
        let (ino, inode) = self.existing_object(call, object)?;
        let mut expected = Expected::default();
        judge_xattr(&inode, who, 4, &mut expected);
        let value = inode.xattrs.get(&xattr_name(key));
        expected.must(value.is_none(), Error::NoEntry);
        let observed = Observed { mutation: inode.xattrs_changed_in, ..Observed::default() };
        let failed =
            if matches!(call.result, Err(Error::NoEntry)) { observed.clone() } else { Observed::default() };
        expected.observed = failed;
        let Success::Xattr(seen) = self.decide(call, expected)? else { return call.unexpected() };
        if value != Some(seen) {
            return Err(format!("inode {ino}: wrong value of extended attribute {key}").into());
        }
        Ok(observed)
    }

    fn list_xattrs(&mut self, call: &Judged<'_>, object: Obj) -> Result<Observed, End> {
        let Judged { who, .. } = *call;
        let (ino, inode) = self.existing_object(call, object)?;
        let mut expected = Expected::default();
        judge_xattr(&inode, who, 4, &mut expected);
        let Success::Xattrs(seen) = self.decide(call, expected)? else { return call.unexpected() };
        if !seen.iter().eq(inode.xattrs.keys()) {
            return Err(format!(
                "inode {ino}: extended attributes {seen:?}, expected {:?}",
                inode.xattrs.keys()
            )
            .into());
        }
        Ok(Observed { mutation: inode.xattrs_changed_in, ..Observed::default() })
    }

    /// Judges SETXATTR and REMOVEXATTR.
    fn change_xattr(
        &mut self,
        call: &Judged<'_>,
        (object, key, new): (Obj, u8, Option<(Vec<u8>, SetXattr)>),
    ) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        let (ino, before) = self.existing_object(call, object)?;
        let name = xattr_name(key);
        let is_there = before.xattrs.contains_key(&name);
        let mut expected = Expected::default();
        expected.needs_space = new.is_some();
        judge_xattr(&before, who, 2, &mut expected);
        let how = new.as_ref().map(|(_, how)| *how);
        expected.must(is_there && how == Some(SetXattr::Create), Error::Exists);
        expected.must(!is_there && matches!(how, None | Some(SetXattr::Replace)), Error::NoEntry);
        let mut after = Rc::clone(&before.xattrs);
        match &new {
            Some((value, _)) => drop(Rc::make_mut(&mut after).insert(name, value.clone())),
            None => drop(Rc::make_mut(&mut after).remove(&name)),
        }
        let bytes: usize = after.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        expected.must(bytes > 128 << 10, Error::NoSpace);
        let more = (bytes as u64).saturating_sub(before.xattr_bytes());
        self.require_room(&mut expected, who, (before.uid, before.gid), Usage::of_bytes(more));
        let observed = matches!(call.result, Err(Error::NoEntry | Error::Exists));
        let observed =
            Observed { mutation: if observed { before.xattrs_changed_in } else { 0 }, ..Observed::default() };
        expected.observed = observed;
        let Success::Set { object: wcc } = self.decide(call, expected)? else { return call.unexpected() };
        self.mutations += 1;
        let mutation = self.mutations;
        let inode = self.edit(ino);
        inode.touch(now);
        (inode.xattrs, inode.xattrs_changed_in, inode.changed_in) = (after, mutation, mutation);
        inode.log(id, ChangeKind::Touch);
        self.usage_changed_in = mutation;
        let observed = self.compare_wcc(&before, ino, wcc, "an extended attribute")?.max(mutation);
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    /// Judges ALLOCATE and DEALLOCATE.
    fn change_range(
        &mut self,
        call: &Judged<'_>,
        (object, offset, length, allocates): (Obj, u64, u64, bool),
    ) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        let (ino, before) = self.existing_object(call, object)?;
        let end = offset.saturating_add(length);
        // A short hole needs room in the index.
        let mut expected = Expected::of_growth();
        expected.require_writable(&before, who);
        expected.must(length == 0, Error::Invalid);
        expected.must(end > FILE_BYTES_MAX, Error::FileTooLarge);
        // More than the device holds.
        expected.must(allocates && length > 1 << 30, Error::NoSpace);
        let more = if allocates { before.content.holes(offset, end) } else { 0 };
        self.require_room(&mut expected, who, (before.uid, before.gid), Usage::of_bytes(more));
        expected.observed = observed_by_refusal(&before, call);
        let Success::Set { object: wcc } = self.decide(call, expected)? else { return call.unexpected() };
        self.mutations += 1;
        let mutation = self.mutations;
        let inode = self.edit(ino);
        inode.touch_content(now);
        inode.mode = without_privileges(inode, who);
        inode.changed_in = mutation;
        let what = if !allocates {
            inode.content.punch(offset, end);
            ChangeKind::Punch(offset, end)
        } else {
            inode.content.set_size(inode.content.size.max(end));
            ChangeKind::Grow(end)
        };
        inode.log(id, what);
        self.usage_changed_in = mutation;
        let observed = self.compare_wcc(&before, ino, wcc, "ALLOCATE or DEALLOCATE")?.max(mutation);
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    /// Returns the held files, with the number of holds.
    pub fn held(&self) -> impl Iterator<Item = (u64, u32)> {
        self.inodes.iter().filter(|(_, inode)| inode.held > 0).map(|(ino, inode)| (*ino, inode.held))
    }

    /// Returns the held files as objects.
    #[must_use]
    pub fn held_objects(&self) -> Vec<Obj> {
        let held = |ino: &u64| self.inodes.get(ino).is_some_and(|inode| inode.held > 0);
        self.born.iter().filter(|(_, ino)| held(ino)).map(|(id, _)| Obj(*id)).collect()
    }

    /// Judges the removal of an orphan. The engine removes the one with the lowest number, or none if it is busy.
    fn reap_orphan(&mut self, call: &Judged<'_>) -> Result<Observed, End> {
        let leaves =
            |inode: &super::Inode| inode.kind == FileType::Regular && inode.links == 0 && inode.held == 0;
        let first = self.inodes.iter().find(|(_, inode)| leaves(inode)).map(|(ino, _)| *ino);
        match (call.result, first) {
            (Ok(Success::Reaped(0)), _) => {}
            (Ok(Success::Reaped(1)), Some(ino)) => {
                self.mutations += 1;
                self.usage_changed_in = self.mutations;
                self.inodes.remove(&ino);
                Rc::make_mut(&mut self.gone).insert(ino, self.mutations);
            }
            _ => {
                return Err(format!(
                    "unexpected result {:?}, expected the removal of {first:?}",
                    call.result
                )
                .into());
            }
        }
        Ok(Observed::default())
    }
}

/// Judges access to extended attributes: files and directories have them, and the mode bits for data (4 or 2) guard
/// them; those of a sticky directory are only its owner's to change.
fn judge_xattr(inode: &Inode, who: &Credentials, wanted: u32, expected: &mut Expected) {
    expected.must(!matches!(inode.kind, FileType::Regular | FileType::Directory), Error::NotPermitted);
    let is_sticky = inode.is_directory() && inode.mode_now() & 0o1000 != 0;
    expected.must(is_sticky && wanted == 2 && !inode.owned_by(who), Error::NotPermitted);
    expected.must(!inode.owned_by(who) && !inode.grants(who, wanted), Error::AccessDenied);
}
