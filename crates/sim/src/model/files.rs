//! SETATTR, READ, READLINK, WRITE and COMMIT in the model.

use volume::attributes::{FileType, SetAttributes, SetTime};
use volume::request::{Credentials, Error};
use volume::results::Stability;

use super::inode::{ChangeKind, Inode, PossibleTimes};
use super::quotas::Usage;
use super::{End, Expected, Judged, Model, Observed};
use crate::call::{Guard, Obj, OperationId, Success, payload};

/// The maximum size of a file: offsets stay positive in signed 64 bits.
pub(super) const FILE_BYTES_MAX: u64 = i64::MAX as u64;
/// The maximum bytes of one READ or WRITE.
pub(super) const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Returns the modes allowed after a change of data, size or owner: setuid is cleared, and setgid where it means
/// execution as the group. For the superuser, and where setgid means locking, both values are allowed.
pub(super) fn without_privileges(inode: &Inode, who: &Credentials) -> Vec<u32> {
    let mode = inode.mode_now();
    let cleared = mode & !0o4000 & if mode & 0o010 != 0 { !0o2000 } else { !0 };
    let mut modes = vec![cleared];
    if !modes.contains(&(cleared & !0o2000)) {
        modes.push(cleared & !0o2000);
    }
    if who.uid == 0 && !modes.contains(&mode) {
        modes.push(mode);
    }
    modes
}

/// Returns what a refused call shows: every mutation up to the last change of owner or mode.
pub(super) fn observed_by_refusal(inode: &Inode, call: &Judged<'_>) -> Observed {
    let refused = matches!(call.result, Err(Error::AccessDenied | Error::NotPermitted));
    Observed { mutation: if refused { inode.permission_changed_in } else { 0 }, ..Observed::default() }
}

impl Model {
    /// Judges the errors of SETATTR.
    fn judge_set(&self, who: &Credentials, inode: &Inode, set: &SetAttributes, expected: &mut Expected) {
        let (owner, root) = (inode.owned_by(who), who.uid == 0);
        expected.must(set.mode.is_some() && !owner, Error::NotPermitted);
        expected.must(set.uid.is_some_and(|uid| uid != inode.uid) && !root, Error::NotPermitted);
        let foreign = set.gid.is_some_and(|gid| gid != inode.gid && !(owner && who.in_group(gid)));
        expected.must(foreign && !root, Error::NotPermitted);
        // An owner may set the owner to itself; for others this is left open.
        expected.may((set.uid.is_some() || set.gid.is_some()) && !owner, Error::NotPermitted);
        let explicit = [set.atime, set.mtime].iter().any(|time| matches!(time, SetTime::To(_)));
        expected.must(explicit && !owner, Error::NotPermitted);
        let now = [set.atime, set.mtime].contains(&SetTime::Now);
        for error in [Error::AccessDenied, Error::NotPermitted] {
            expected.must(now && !owner && !inode.grants(who, 2), error);
        }
        // POSIX lets only the owner set one time to now and keep the other; not every server checks that.
        expected.may(now && !owner && set.atime != set.mtime, Error::NotPermitted);
        if let Some(size) = set.size {
            let (directory, regular) = (inode.is_directory(), inode.kind == FileType::Regular);
            expected.must(directory, Error::IsDirectory);
            expected.must(!regular, Error::Invalid);
            expected.must(regular && !owner && !inode.grants(who, 2), Error::AccessDenied);
            expected.must(size > FILE_BYTES_MAX, Error::FileTooLarge);
            expected.must(size > FILE_BYTES_MAX, Error::Invalid);
        }
    }

    pub(super) fn set_attributes(
        &mut self,
        call: &Judged<'_>,
        (object, set, guard): (Obj, &SetAttributes, Guard),
    ) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        let (ino, before) = self.existing_object(call, object)?;
        let mut expected = Expected::of_growth();
        self.judge_set(who, &before, set, &mut expected);
        self.require_room_for_new_owners(&mut expected, &before, (set.uid, set.gid));
        expected.must(guard == Guard::Wrong, Error::NotSync);
        expected.may(guard == Guard::Right && before.ctime.0.len() > 1, Error::NotSync);
        // Truncating works on a full disk; growing needs space for metadata, and none for its hole.
        expected.observed = observed_by_refusal(&before, call);
        let Success::Set { object: wcc } = self.decide(call, expected)? else { return call.unexpected() };
        if *set == SetAttributes::default() {
            let mutation = self.compare_wcc(&before, ino, wcc, "SETATTR")?;
            return Ok(Observed { mutation, ..Observed::default() });
        }
        match set.size {
            Some(size) => self.resize(id, who, now, ino, size),
            None => self.edit(ino).touch(now),
        }
        self.mutations += 1;
        let mutation = self.mutations;
        let inode = self.edit(ino);
        inode.changed_in = mutation;
        if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
            inode.permission_changed_in = mutation;
        }
        apply(inode, set, who, now);
        inode.log(id, ChangeKind::Touch);
        let observed = self.compare_wcc(&before, ino, wcc, "SETATTR")?.max(mutation);
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    /// Sets the size of a file. Setting the current size may or may not count as a change of content.
    pub(super) fn resize(&mut self, id: OperationId, who: &Credentials, now: i64, ino: u64, size: u64) {
        let inode = self.edit(ino);
        let same = inode.content.size == size;
        let mtime = inode.mtime.clone();
        inode.touch_content(now);
        if same {
            mtime.0.iter().for_each(|time| inode.mtime.or(*time));
        }
        let mut modes = without_privileges(inode, who);
        if !modes.contains(&inode.mode_now()) && same {
            modes.push(inode.mode_now());
        }
        inode.mode = modes;
        inode.content.set_size(size);
        inode.log(id, ChangeKind::Size(size));
    }

    pub(super) fn read_link(&mut self, call: &Judged<'_>, object: Obj) -> Result<Observed, End> {
        let Judged { now, .. } = *call;
        let ino = self.existing(call, object)?;
        let mut expected = Expected::default();
        expected.must(self.inodes[&ino].kind != FileType::Symlink, Error::Invalid);
        let Success::Target { target, object } = self.decide(call, expected)? else {
            return call.unexpected();
        };
        let inode = self.edit(ino);
        if *target != inode.target {
            return Err(format!("inode {ino}: the target is {:?}", target.escape_ascii().to_string()).into());
        }
        let clock = self.clock;
        let read = self.edit(ino);
        read.atime.or(now);
        read.atime.or(clock);
        Ok(Observed {
            mutation: self.compare_and_adopt(ino, object.as_ref(), "READLINK")?,
            ..Observed::default()
        })
    }

    pub(super) fn read(
        &mut self,
        call: &Judged<'_>,
        (object, offset, count): (Obj, u64, u32),
    ) -> Result<Observed, End> {
        let Judged { who, now, .. } = *call;
        let (ino, inode) = self.existing_object(call, object)?;
        let mut expected = Expected::default();
        expected.require_readable(&inode, who);
        expected.may(offset.saturating_add(u64::from(count)) > FILE_BYTES_MAX, Error::Invalid);
        expected.observed = observed_by_refusal(&inode, call);
        let Success::Data { bytes, eof, object } = self.decide(call, expected)? else {
            return call.unexpected();
        };
        let expected = inode.content.read(offset, u64::from(count.min(TRANSFER_BYTES_MAX)));
        if let Some(wrong) = difference(bytes, &expected) {
            return Err(format!("READ of inode {ino} at {offset}: {wrong}").into());
        }
        let end = offset.saturating_add(bytes.len() as u64);
        if *eof != (end >= inode.content.size) {
            return Err(
                format!("READ of inode {ino} to {end} of {}: eof is {eof}", inode.content.size).into()
            );
        }
        let clock = self.clock;
        let read = self.edit(ino);
        read.atime.or(now);
        read.atime.or(clock);
        let mutation = self.compare_and_adopt(ino, object.as_ref(), "READ")?;
        Ok(Observed { mutation, bytes: Some((ino, offset, end)), committed: false })
    }

    pub(super) fn write(
        &mut self,
        call: &Judged<'_>,
        (object, offset, length, stability): (Obj, u64, u32, Stability),
    ) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        let (ino, before) = self.existing_object(call, object)?;
        let mut expected = Expected::of_growth();
        expected.require_writable(&before, who);
        let end = offset.saturating_add(u64::from(length));
        expected.must(end > FILE_BYTES_MAX, Error::FileTooLarge);
        expected.must(end > FILE_BYTES_MAX, Error::Invalid);
        let more = before.content.holes(offset, end);
        self.require_room(&mut expected, who, (before.uid, before.gid), Usage::of_bytes(more));
        expected.observed = observed_by_refusal(&before, call);
        let Success::Written { count, committed, object, .. } = self.decide(call, expected)? else {
            return call.unexpected();
        };
        if *count != length || *committed < stability {
            return Err(format!(
                "WRITE of {length} bytes, {stability:?}: wrote {count}, committed {committed:?}"
            )
            .into());
        }
        let bytes = payload(id, length);
        let stable = *committed != Stability::Unstable;
        if length > 0 {
            let inode = self.edit(ino);
            inode.touch_content(now);
            inode.mode = without_privileges(inode, who);
            inode.content.write(offset, &bytes);
            inode.soft += u64::from(length);
            inode.log(id, ChangeKind::Write { offset, bytes: bytes.into(), stable });
        } else {
            self.edit(ino).maybe_touch(now);
            let mut mtime = self.inodes[&ino].ctime.clone();
            self.edit(ino).mtime.0.append(&mut mtime.0);
        }
        let observed = self.compare_wcc(&before, ino, object, "WRITE")?;
        // The journal is ordered: stable data proves all earlier mutations durable.
        let mutation = if stable && length > 0 { self.mutations } else { observed };
        let bytes = (stable && length > 0).then_some((ino, offset, end));
        Ok(Observed { mutation, bytes, committed: false })
    }

    pub(super) fn commit(
        &mut self,
        call: &Judged<'_>,
        (object, offset, count): (Obj, u64, u32),
    ) -> Result<Observed, End> {
        let Judged { who, .. } = *call;
        let (ino, before) = self.existing_object(call, object)?;
        let mut expected = Expected::default();
        expected.must(before.is_directory(), Error::IsDirectory);
        expected.must(before.kind != FileType::Regular, Error::Invalid);
        expected.may(!before.owned_by(who) && !before.grants(who, 2), Error::AccessDenied);
        expected.may(offset.saturating_add(u64::from(count)) > FILE_BYTES_MAX, Error::Invalid);
        let Success::Committed { object, .. } = self.decide(call, expected)? else {
            return call.unexpected();
        };
        let mutation = self.compare_wcc(&before, ino, object, "COMMIT")?;
        // A count of 0 means "to the end of the file" (RFC 1813 section 3.3.21).
        let end = if count == 0 { u64::MAX } else { offset.saturating_add(u64::from(count)) };
        Ok(Observed { mutation, bytes: Some((ino, offset, end)), committed: true })
    }
}

/// Applies SETATTR, apart from the size.
fn apply(inode: &mut Inode, set: &SetAttributes, who: &Credentials, now: i64) {
    if set.uid.is_some() || set.gid.is_some() {
        let mut modes = without_privileges(inode, who);
        // Setting the current owner may or may not count as a change.
        let same = set.uid.is_none_or(|uid| uid == inode.uid) && set.gid.is_none_or(|gid| gid == inode.gid);
        let directory = inode.is_directory();
        if (same || directory) && !modes.contains(&inode.mode_now()) {
            modes.push(inode.mode_now());
        }
        inode.mode = if directory { vec![inode.mode_now()] } else { modes };
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
    }
    if let Some(mode) = set.mode {
        let mode = mode & 0o7777;
        inode.mode = vec![mode];
        if who.uid != 0 && mode & 0o2000 != 0 && !who.in_group(inode.gid) {
            inode.mode = vec![mode & !0o2000];
        }
        if inode.kind == FileType::Symlink {
            inode.mode = Vec::new();
        }
        if set.uid.is_some() || set.gid.is_some() || set.size.is_some() {
            inode.mode.push(mode & !0o6000);
            inode.mode.push(mode & !0o4000);
        }
    }
    for (time, wish) in [(&mut inode.atime, set.atime), (&mut inode.mtime, set.mtime)] {
        match wish {
            SetTime::Keep => {}
            SetTime::Now => *time = PossibleTimes::at(now),
            SetTime::To(to) => *time = PossibleTimes::at(to.nanos()),
        }
    }
    if set.mtime == SetTime::Now {
        let (ctime, mtime) = (inode.ctime.clone(), &mut inode.mtime);
        ctime.0.iter().for_each(|time| mtime.or(*time));
    }
}

/// Describes where two byte strings differ first.
pub(super) fn difference(seen: &[u8], expected: &[u8]) -> Option<String> {
    if seen.len() != expected.len() {
        return Some(format!("{} bytes, expected {}", seen.len(), expected.len()));
    }
    let at = seen.iter().zip(expected).position(|(seen, expected)| seen != expected)?;
    let many = seen.iter().zip(expected).filter(|(seen, expected)| seen != expected).count();
    Some(format!(
        "{many} of {} bytes differ, the first at {at}: {:#x}, expected {:#x}",
        seen.len(),
        seen[at],
        expected[at]
    ))
}
