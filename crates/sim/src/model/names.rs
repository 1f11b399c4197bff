//! The model's names: LOOKUP, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK.

use std::rc::Rc;

use volume::attributes::{FileType, SetAttributes};
use volume::request::{Credentials, Error};

use super::inode::{ChangeKind, Entry, Inode};
use super::{End, Model, Observed, Verdict, apply_create_attributes, judge_name, unexpected};
use crate::call::{CallResult, CreateHow, Name, NodeKind, Obj, OperationId, Success};

/// The object that a MKNOD makes.
pub(super) fn node(kind: NodeKind, who: &Credentials, now: i64) -> Inode {
    let (file_type, device) = match kind {
        NodeKind::Block(device) => (FileType::Block, device),
        NodeKind::Character(device) => (FileType::Character, device),
        NodeKind::Socket => (FileType::Socket, Default::default()),
        NodeKind::Fifo => (FileType::Fifo, Default::default()),
    };
    let mut inode = Inode::new(file_type, who, now, 0);
    inode.device = device;
    inode
}

impl Model {
    /// ChangeKind a name stands for.
    pub(crate) fn child(&self, directory: u64, name: &[u8]) -> Option<u64> {
        let inode = self.get(directory)?;
        match name {
            b"." => Some(directory),
            b".." => Some(inode.parent),
            name => inode.entries.get(name).map(|entry| entry.ino),
        }
    }

    /// ChangeKind the absence or presence of a name tells.
    fn named_by(&self, directory: u64, name: &[u8]) -> u64 {
        self.get(directory).and_then(|inode| inode.named_by.get(name).copied()).unwrap_or(0)
    }

    /// ChangeKind an error of an operation on a name tells: that the name is there or not, or that permission is missing.
    fn observed_by_name(&self, outcome: &CallResult, names: &[(u64, &[u8])]) -> Observed {
        let by = |(directory, name): &(u64, &[u8])| match outcome {
            Err(Error::NoEntry | Error::Exists | Error::NotDirectory | Error::IsDirectory)
                if names.len() == 1 =>
            {
                self.named_by(*directory, name)
            }
            Err(Error::AccessDenied) if names.len() == 1 => {
                self.get(*directory).map_or(0, |inode| inode.allowed_by)
            }
            _ => 0,
        };
        Observed { mutation: names.iter().map(by).max().unwrap_or(0), ..Observed::default() }
    }

    /// ChangeKind stands in the way of adding or removing names.
    fn judge_directory(&self, ino: u64, who: &Credentials, wanted: u32, verdict: &mut Verdict) {
        let inode = self.get(ino).expect("present");
        verdict.must(!inode.is_directory(), Error::NotDirectory);
        verdict.must(inode.is_directory() && !inode.grants(who, wanted), Error::AccessDenied);
    }

    pub(super) fn lookup(
        &mut self,
        who: &Credentials,
        directory: Obj,
        name: Name,
        outcome: &CallResult,
    ) -> Result<Observed, End> {
        let dir = self.present(directory, outcome)?;
        let mut verdict = Verdict::default();
        let (name, child) = self.judge_use(dir, who, 1, name, &mut verdict);
        verdict.must(child.is_none(), Error::NoEntry);
        let observed = self.observed_by_name(outcome, &[(dir, &name)]);
        self.decide_or(observed, &verdict, false, outcome)?;
        let (Ok(Success::Found { object, directory }), Some(child)) = (outcome, child) else {
            return Err(unexpected(outcome));
        };
        let observed = self.meet(child, Some(object), "LOOKUP object")?;
        let observed = observed
            .max(self.meet(dir, directory.as_ref(), "LOOKUP directory")?)
            .max(self.named_by(dir, &name));
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    /// ChangeKind stands in the way of using a name in a directory with the permission `wanted`; its bytes, and what it names.
    fn judge_use(
        &self,
        dir: u64,
        who: &Credentials,
        wanted: u32,
        name: Name,
        verdict: &mut Verdict,
    ) -> (Vec<u8>, Option<u64>) {
        self.judge_directory(dir, who, wanted, verdict);
        let bytes = judge_name(name, verdict);
        let child = self.child(dir, &bytes);
        (bytes, child)
    }

    /// ChangeKind stands in the way of a new name.
    fn judge_new(
        &self,
        who: &Credentials,
        dir: u64,
        name: Name,
        verdict: &mut Verdict,
    ) -> (Vec<u8>, Option<u64>) {
        let (bytes, existing) = self.judge_use(dir, who, 3, name, verdict);
        verdict.must(existing.is_some(), Error::Exists);
        let dots = bytes == b"." || bytes == b"..";
        for error in [Error::Invalid, Error::IsDirectory] {
            verdict.must(dots, error);
        }
        (bytes, existing)
    }

    pub(super) fn make(
        &mut self,
        id: OperationId,
        who: &Credentials,
        now: i64,
        (directory, name, mut new, set): (Obj, Name, Inode, &SetAttributes),
        outcome: &CallResult,
    ) -> Result<Observed, End> {
        let dir = self.present(directory, outcome)?;
        let mut verdict = Verdict::default();
        let (name, _) = self.judge_new(who, dir, name, &mut verdict);
        let device = matches!(new.kind, FileType::Block | FileType::Character);
        for error in [Error::NotPermitted, Error::AccessDenied] {
            verdict.must(device && who.uid != 0, error);
        }
        verdict.must(new.kind == FileType::Symlink && new.target.is_empty(), Error::Invalid);
        verdict.may(new.kind == FileType::Symlink && new.target.is_empty(), Error::NoEntry);
        verdict.must(new.target.len() > 4095, Error::NameTooLong);
        judge_owner(who, set, &mut verdict);
        let observed = self.observed_by_name(outcome, &[(dir, &name)]);
        self.decide_or(observed, &verdict, true, outcome)?;
        apply_create_attributes(&mut new, set, who, &self.inodes[&dir]);
        self.add(id, now, (dir, &name, new), outcome)
    }

    /// Adds a new object as a successful call did.
    fn add(
        &mut self,
        id: OperationId,
        now: i64,
        (dir, name, mut new): (u64, &[u8], Inode),
        outcome: &CallResult,
    ) -> Result<Observed, End> {
        let Ok(Success::Created { object, directory }) = outcome else {
            return Err(unexpected(outcome));
        };
        let ino = object.ino;
        if self.inodes.contains_key(&ino) || self.gone.contains_key(&ino) {
            return Err(format!("inode number {ino} was used before").into());
        }
        let before = Rc::clone(&self.inodes[&dir]);
        self.mutations += 1;
        (new.parent, new.changed_by, new.allowed_by) = (dir, self.mutations, self.mutations);
        new.base = new.content.clone();
        let is_directory = new.is_directory();
        self.inodes.insert(ino, Rc::new(new));
        Rc::make_mut(&mut self.born).insert(id, ino);
        let parent = self.edit(dir);
        parent.entries.insert(name.to_vec(), Entry { ino, cookie: None, cookie_at_most: u64::MAX });
        parent.links += u32::from(is_directory);
        parent.touch_content(now);
        self.finish_names(id, &[(dir, name)], &[]);
        self.meet(ino, Some(object), "new object")?;
        self.meet_wcc(&before, dir, directory, "directory")?;
        self.usage_by = self.mutations;
        self.observed_now()
    }

    fn observed_now(&self) -> Result<Observed, End> {
        Ok(Observed { mutation: self.mutations, ..Observed::default() })
    }

    /// Labels directories and objects with the mutation that was just counted.
    fn finish_names(&mut self, id: OperationId, names: &[(u64, &[u8])], others: &[u64]) {
        let mutation = self.mutations;
        for (directory, name) in names {
            self.name_changed(*directory, name);
        }
        for ino in names.iter().map(|(directory, _)| directory).chain(others) {
            if self.inodes.contains_key(ino) {
                let inode = self.edit(*ino);
                inode.changed_by = mutation;
                inode.log(id, ChangeKind::Touch);
            }
        }
    }

    pub(super) fn create(
        &mut self,
        id: OperationId,
        who: &Credentials,
        now: i64,
        (directory, name, how): (Obj, Name, &CreateHow),
        outcome: &CallResult,
    ) -> Result<Observed, End> {
        let dir = self.present(directory, outcome)?;
        let bytes = name.bytes();
        if let Some(existing) = self.child(dir, &bytes) {
            let inode = Rc::clone(&self.inodes[&existing]);
            let taken = match how {
                // The name `.` of a file is the file, but CREATE takes none by it.
                CreateHow::Unchecked(_) | CreateHow::UncheckedIf(..) => {
                    inode.kind == FileType::Regular && existing != dir
                }
                CreateHow::Guarded(_) => false,
                CreateHow::Exclusive(verifier) | CreateHow::ExclusiveWith(verifier, _) => {
                    inode.verifier == Some(*verifier)
                }
            };
            if taken {
                return self.take(id, who, now, (dir, &bytes, existing, how), outcome);
            }
        }
        let mut verdict = Verdict::default();
        let (name, _) = self.judge_new(who, dir, name, &mut verdict);
        let mut new = Inode::new(FileType::Regular, who, now, 0);
        let set = match how {
            CreateHow::Unchecked(set) | CreateHow::UncheckedIf(set, _) | CreateHow::Guarded(set) => *set,
            CreateHow::Exclusive(verifier) => {
                new.verifier = Some(*verifier);
                SetAttributes::default()
            }
            CreateHow::ExclusiveWith(verifier, set) => {
                new.verifier = Some(*verifier);
                *set
            }
        };
        judge_owner(who, &set, &mut verdict);
        let observed = self.observed_by_name(outcome, &[(dir, &name)]);
        self.decide_or(observed, &verdict, true, outcome)?;
        apply_create_attributes(&mut new, &set, who, &self.inodes[&dir]);
        if let (CreateHow::Exclusive(_), Ok(Success::Created { object, .. })) = (how, outcome) {
            // Where the verifier is kept is the engine's affair; many keep it in the times.
            (new.mode, new.atime) = (vec![object.mode], super::When::at(object.atime));
            new.mtime.or(object.mtime);
        }
        self.add(id, now, (dir, &name, new), outcome)
    }

    /// A CREATE that takes the file that is there.
    fn take(
        &mut self,
        id: OperationId,
        who: &Credentials,
        now: i64,
        (dir, name, ino, how): (u64, &[u8], u64, &CreateHow),
        outcome: &CallResult,
    ) -> Result<Observed, End> {
        let mut verdict = Verdict::default();
        let inode = &self.inodes[&ino];
        // The size that it has is nothing to set.
        let size = if let CreateHow::Unchecked(set) | CreateHow::UncheckedIf(set, _) = how {
            set.size.filter(|size| *size != inode.content.size)
        } else {
            None
        };
        verdict.must(!self.inodes[&dir].grants(who, 1), Error::AccessDenied);
        verdict.may(!self.inodes[&dir].grants(who, 2), Error::AccessDenied);
        let exclusive = matches!(how, CreateHow::Exclusive(_) | CreateHow::ExclusiveWith(..));
        verdict.may(exclusive && !inode.untouched, Error::Exists);
        verdict.must(size.is_some() && !inode.grants(who, 2) && !inode.owned_by(who), Error::AccessDenied);
        verdict.may(size.is_some() && !inode.grants(who, 2), Error::AccessDenied);
        let observed = self.observed_by_name(outcome, &[(dir, name)]);
        self.decide_or(observed, &verdict, true, outcome)?;
        let Ok(Success::Created { object, directory }) = outcome else {
            return Err(unexpected(outcome));
        };
        let mut observed = self.named_by(dir, name);
        if let Some(size) = size {
            self.resize(id, who, now, ino, size);
            if self.inodes[&ino].ctime.latest() == object.ctime || self.inodes[&ino].ctime.0.len() == 1 {
                self.mutate(id, &[ino]);
            }
            observed = self.mutations;
        }
        observed = observed.max(self.meet(ino, Some(object), "the existing object")?);
        let before = Rc::clone(&self.inodes[&dir]);
        self.meet_wcc(&before, dir, directory, "directory")?;
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    /// ChangeKind stands in the way of removing a name, the sticky bit included.
    fn judge_removal(&self, who: &Credentials, dir: u64, child: u64, verdict: &mut Verdict) {
        let (directory, object) = (&self.inodes[&dir], &self.inodes[&child]);
        let sticky = directory.mode_now() & 0o1000 != 0;
        let kept = sticky && !directory.owned_by(who) && !object.owned_by(who);
        verdict.must(kept, Error::NotPermitted);
        verdict.must(kept, Error::AccessDenied);
    }

    pub(super) fn remove(
        &mut self,
        id: OperationId,
        who: &Credentials,
        now: i64,
        (directory, name, as_directory): (Obj, Name, bool),
        outcome: &CallResult,
    ) -> Result<Observed, End> {
        let dir = self.present(directory, outcome)?;
        let mut verdict = Verdict::default();
        let (name, child) = self.judge_use(dir, who, 3, name, &mut verdict);
        verdict.must(child.is_none(), Error::NoEntry);
        let dots = name == b"." || name == b"..";
        for error in [Error::Invalid, Error::NotEmpty, Error::Exists, Error::IsDirectory] {
            verdict.must(dots, error);
        }
        if let (Some(child), false) = (child, dots) {
            self.judge_removal(who, dir, child, &mut verdict);
            let victim = &self.inodes[&child];
            verdict.must(as_directory && !victim.is_directory(), Error::NotDirectory);
            verdict.must(!as_directory && victim.is_directory(), Error::IsDirectory);
            verdict.must(!as_directory && victim.is_directory(), Error::NotPermitted);
            verdict.must(as_directory && !victim.entries.is_empty(), Error::NotEmpty);
            verdict.must(as_directory && !victim.entries.is_empty(), Error::Exists);
        }
        let observed = self.observed_by_name(outcome, &[(dir, &name)]);
        self.decide_or(observed, &verdict, false, outcome)?;
        let (Ok(Success::Removed { directory }), Some(child)) = (outcome, child) else {
            return Err(unexpected(outcome));
        };
        let before = Rc::clone(&self.inodes[&dir]);
        self.mutations += 1;
        self.remove_name(dir, &name, now);
        self.edit(dir).touch_content(now);
        self.finish_names(id, &[(dir, &name)], &[child]);
        self.usage_by = self.mutations;
        self.meet_wcc(&before, dir, directory, "directory")?;
        self.observed_now()
    }

    /// Takes a name away, and the object if that was its last.
    fn remove_name(&mut self, dir: u64, name: &[u8], now: i64) {
        let Some(entry) = self.edit(dir).entries.remove(name) else { return };
        let victim = self.edit(entry.ino);
        victim.links -= 1;
        victim.touch(now);
        if victim.is_directory() {
            self.edit(dir).links -= 1;
        } else if self.inodes[&entry.ino].links > 0 || self.inodes[&entry.ino].is_kept() {
            return;
        }
        self.inodes.remove(&entry.ino);
        Rc::make_mut(&mut self.gone).insert(entry.ino, self.mutations);
    }

    pub(super) fn link(
        &mut self,
        id: OperationId,
        who: &Credentials,
        now: i64,
        (object, directory, name): (Obj, Obj, Name),
        outcome: &CallResult,
    ) -> Result<Observed, End> {
        let (ino, dir) = (self.present(object, outcome)?, self.present(directory, outcome)?);
        let mut verdict = Verdict::default();
        let (name, _) = self.judge_new(who, dir, name, &mut verdict);
        verdict.must(self.inodes[&ino].links == 0, Error::NoEntry);
        let is_directory = self.inodes[&ino].is_directory();
        for error in [Error::NotPermitted, Error::IsDirectory, Error::Invalid] {
            verdict.must(is_directory, error);
        }
        let observed = self.observed_by_name(outcome, &[(dir, &name)]);
        self.decide_or(observed, &verdict, true, outcome)?;
        let Ok(Success::Linked { object, directory }) = outcome else {
            return Err(unexpected(outcome));
        };
        let before = Rc::clone(&self.inodes[&dir]);
        self.mutations += 1;
        let inode = self.edit(ino);
        inode.links += 1;
        inode.touch(now);
        let parent = self.edit(dir);
        parent.entries.insert(name.clone(), Entry { ino, cookie: None, cookie_at_most: u64::MAX });
        parent.touch_content(now);
        self.finish_names(id, &[(dir, &name)], &[ino]);
        self.meet(ino, object.as_ref(), "linked object")?;
        self.meet_wcc(&before, dir, directory, "directory")?;
        self.observed_now()
    }

    fn is_within(&self, mut inner: u64, outer: u64) -> bool {
        loop {
            if inner == outer {
                return true;
            }
            let parent = self.inodes[&inner].parent;
            if parent == inner {
                return false;
            }
            inner = parent;
        }
    }

    /// ChangeKind stands in the way of a rename, and the objects of both names.
    fn judge_rename(
        &self,
        who: &Credentials,
        (from, name): (u64, &[u8]),
        (to, as_name): (u64, &[u8]),
        verdict: &mut Verdict,
    ) -> (Option<u64>, Option<u64>) {
        let (moved, victim) = (self.child(from, name), self.child(to, as_name));
        verdict.must(moved.is_none(), Error::NoEntry);
        let dots = [name, as_name].iter().any(|name| *name == b"." || *name == b"..");
        for error in [Error::Invalid, Error::Exists, Error::NotEmpty, Error::IsDirectory] {
            verdict.must(dots, error);
        }
        let Some(moved) = moved.filter(|_| !dots) else { return (moved, victim) };
        self.judge_removal(who, from, moved, verdict);
        let object = &self.inodes[&moved];
        if object.is_directory() && self.inodes[&to].is_directory() {
            verdict.must(self.is_within(to, moved), Error::Invalid);
            verdict.may(from != to && !object.grants(who, 2), Error::AccessDenied);
        }
        if let Some(victim) = victim.filter(|victim| *victim != moved) {
            self.judge_removal(who, to, victim, verdict);
            let other = &self.inodes[&victim];
            let (onto_file, onto_directory) = (
                object.is_directory() && !other.is_directory(),
                !object.is_directory() && other.is_directory(),
            );
            verdict.must(onto_file, Error::NotDirectory);
            verdict.must(onto_directory, Error::IsDirectory);
            verdict.must(onto_file || onto_directory, Error::Exists);
            let full = object.is_directory() && !other.entries.is_empty();
            verdict.must(full, Error::NotEmpty);
            verdict.must(full, Error::Exists);
        }
        (Some(moved), victim)
    }

    pub(super) fn rename(
        &mut self,
        id: OperationId,
        who: &Credentials,
        now: i64,
        ((from, name), (to, as_name)): ((Obj, Name), (Obj, Name)),
        outcome: &CallResult,
    ) -> Result<Observed, End> {
        let (from, to) = (self.present(from, outcome)?, self.present(to, outcome)?);
        let mut verdict = Verdict::default();
        self.judge_directory(from, who, 3, &mut verdict);
        self.judge_directory(to, who, 3, &mut verdict);
        let (name, as_name) = (judge_name(name, &mut verdict), judge_name(as_name, &mut verdict));
        let (moved, victim) = self.judge_rename(who, (from, &name), (to, &as_name), &mut verdict);
        let observed = self.observed_by_name(outcome, &[(from, &name), (to, &as_name)]);
        self.decide_or(observed, &verdict, true, outcome)?;
        let (Ok(Success::Renamed { from: from_wcc, to: to_wcc }), Some(moved)) = (outcome, moved) else {
            return Err(unexpected(outcome));
        };
        let (from_before, to_before) = (Rc::clone(&self.inodes[&from]), Rc::clone(&self.inodes[&to]));
        if victim != Some(moved) {
            self.mutations += 1;
            self.remove_name(to, &as_name, now);
            self.move_name((from, &name), (to, &as_name), moved, now);
            let mut others = vec![moved];
            others.extend(victim);
            self.finish_names(id, &[(from, &name), (to, &as_name)], &others);
            self.usage_by = self.mutations;
        }
        let observed = self.meet_wcc(&from_before, from, from_wcc, "directory it left")?;
        let observed = observed.max(self.meet_wcc(&to_before, to, to_wcc, "directory it entered")?);
        let observed = observed.max(self.named_by(from, &name)).max(self.named_by(to, &as_name));
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    fn move_name(&mut self, (from, name): (u64, &[u8]), (to, as_name): (u64, &[u8]), moved: u64, now: i64) {
        self.edit(from).entries.remove(name);
        let entry = Entry { ino: moved, cookie: None, cookie_at_most: u64::MAX };
        self.edit(to).entries.insert(as_name.to_vec(), entry);
        self.edit(from).touch_content(now);
        if from != to {
            self.edit(to).touch_content(now);
        }
        // A rename is up to three changes of names: an engine may count each.
        for directory in [from, to] {
            let directory = self.edit(directory);
            directory.maybe_touch(now);
            directory.maybe_touch(now);
            let times = directory.ctime.clone();
            times.0.iter().for_each(|time| directory.mtime.or(*time));
        }
        let object = self.edit(moved);
        object.maybe_touch(now);
        if object.is_directory() && from != to {
            object.parent = to;
            // Its `..` changed, which some count as a change of its content.
            for time in object.ctime.0.clone() {
                object.mtime.or(time);
            }
            self.edit(from).links -= 1;
            self.edit(to).links += 1;
        }
    }
}

/// Only the superuser gives files away; to a group of one's own is allowed, or ignored.
fn judge_owner(who: &Credentials, set: &SetAttributes, verdict: &mut Verdict) {
    verdict.may(who.uid != 0 && set.uid.is_some_and(|uid| uid != who.uid), Error::NotPermitted);
    verdict.may(who.uid != 0 && set.gid.is_some_and(|gid| !who.in_group(gid)), Error::NotPermitted);
}
