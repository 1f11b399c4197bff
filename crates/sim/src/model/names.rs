//! LOOKUP, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME and LINK in the model.

use std::rc::Rc;

use volume::attributes::{FileType, SetAttributes};
use volume::request::{Credentials, Error};

use super::inode::{ChangeKind, Entry, Inode};
use super::quotas::Usage;
use super::{End, Expected, Judged, Model, Observed, apply_create_attributes, judge_name};
use crate::call::{CreateHow, Name, NodeKind, Obj, OperationId, Success};

/// Returns the object that a MKNOD creates.
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
    /// Returns the object that a name refers to. Only directories hold names, `.` and `..` included.
    pub(crate) fn child(&self, directory: u64, name: &[u8]) -> Option<u64> {
        let inode = self.get(directory).filter(|inode| inode.is_directory())?;
        match name {
            b"." => Some(directory),
            b".." => Some(inode.parent),
            name => inode.entries.get(name).map(|entry| entry.ino),
        }
    }

    /// Returns the last mutation that the absence or presence of a name proves.
    fn name_changed_in(&self, directory: u64, name: &[u8]) -> u64 {
        self.get(directory).and_then(|inode| inode.name_changed_in.get(name).copied()).unwrap_or(0)
    }

    /// Returns what an error shows: that the name exists or not, or that permission is missing.
    fn observed_by_name(&self, call: &Judged<'_>, directory: u64, name: &[u8]) -> Observed {
        let mutation = match call.result {
            Err(Error::NoEntry | Error::Exists | Error::NotDirectory | Error::IsDirectory) => {
                self.name_changed_in(directory, name)
            }
            Err(Error::AccessDenied) => self.get(directory).map_or(0, |inode| inode.permission_changed_in),
            _ => 0,
        };
        Observed { mutation, ..Observed::default() }
    }

    /// Judges access to a directory.
    fn judge_directory(&self, ino: u64, who: &Credentials, wanted: u32, expected: &mut Expected) {
        let inode = self.get(ino).expect("an existing directory");
        expected.must(!inode.is_directory(), Error::NotDirectory);
        expected.must(inode.is_directory() && !inode.grants(who, wanted), Error::AccessDenied);
    }

    pub(super) fn lookup(&mut self, call: &Judged<'_>, directory: Obj, name: Name) -> Result<Observed, End> {
        let dir = self.existing(call, directory)?;
        let mut expected = Expected::default();
        let (name, child) = self.judge_use(call, (dir, name), 1, &mut expected);
        expected.must(child.is_none(), Error::NoEntry);
        let (Success::Found { object, directory }, Some(child)) = (self.decide(call, expected)?, child)
        else {
            return call.unexpected();
        };
        let observed = self.compare_and_adopt(child, Some(object), "LOOKUP object")?;
        let observed = observed
            .max(self.compare_and_adopt(dir, directory.as_ref(), "LOOKUP directory")?)
            .max(self.name_changed_in(dir, &name));
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    /// Judges the use of a name in a directory with the permission `wanted`. Returns its bytes and the object it names.
    fn judge_use(
        &self,
        call: &Judged<'_>,
        (dir, name): (u64, Name),
        wanted: u32,
        expected: &mut Expected,
    ) -> (Vec<u8>, Option<u64>) {
        self.judge_directory(dir, call.who, wanted, expected);
        let bytes = judge_name(name, expected);
        expected.observed = self.observed_by_name(call, dir, &bytes);
        let child = self.child(dir, &bytes);
        (bytes, child)
    }

    /// Judges the use of a name for a new entry of a directory. Returns its bytes.
    fn judge_new(&self, call: &Judged<'_>, place: (u64, Name), expected: &mut Expected) -> Vec<u8> {
        let (name, existing) = self.judge_use(call, place, 3, expected);
        expected.must(existing.is_some(), Error::Exists);
        let is_dot = name == b"." || name == b"..";
        for error in [Error::Exists, Error::Invalid, Error::IsDirectory] {
            expected.must(is_dot, error);
        }
        name
    }

    pub(super) fn make(
        &mut self,
        call: &Judged<'_>,
        (directory, name, mut new, set): (Obj, Name, Inode, &SetAttributes),
    ) -> Result<Observed, End> {
        let Judged { who, .. } = *call;
        let dir = self.existing(call, directory)?;
        let mut expected = Expected::of_growth();
        let name = self.judge_new(call, (dir, name), &mut expected);
        let device = matches!(new.kind, FileType::Block | FileType::Character);
        for error in [Error::NotPermitted, Error::AccessDenied] {
            expected.must(device && who.uid != 0, error);
        }
        expected.must(new.kind == FileType::Symlink && new.target.is_empty(), Error::Invalid);
        expected.may(new.kind == FileType::Symlink && new.target.is_empty(), Error::NoEntry);
        expected.must(new.target.len() > 4095, Error::NameTooLong);
        judge_owner(who, set, &mut expected);
        apply_create_attributes(&mut new, set, who, &self.inodes[&dir]);
        self.require_room(&mut expected, who, (new.uid, new.gid), Usage::ONE_OBJECT);
        let success = self.decide(call, expected)?;
        self.add_object(call, (dir, &name, new), success)
    }

    /// Adds the object that a successful call created.
    fn add_object(
        &mut self,
        call: &Judged<'_>,
        (dir, name, mut new): (u64, &[u8], Inode),
        success: &Success,
    ) -> Result<Observed, End> {
        let Judged { id, now, .. } = *call;
        let Success::Created { object, directory } = success else { return call.unexpected() };
        let ino = object.ino;
        if self.inodes.contains_key(&ino) || self.gone.contains_key(&ino) {
            return Err(format!("inode number {ino} was used before").into());
        }
        let before = Rc::clone(&self.inodes[&dir]);
        self.mutations += 1;
        (new.parent, new.changed_in, new.permission_changed_in) = (dir, self.mutations, self.mutations);
        new.base = new.content.clone();
        let is_directory = new.is_directory();
        self.inodes.insert(ino, Rc::new(new));
        Rc::make_mut(&mut self.born).insert(id, ino);
        let parent = self.edit(dir);
        parent.entries.insert(name.to_vec(), Entry { ino, cookie: None, cookie_at_most: u64::MAX });
        parent.links += u32::from(is_directory);
        parent.touch_content(now);
        self.finish_names(id, &[(dir, name)], &[]);
        self.compare_and_adopt(ino, Some(object), "new object")?;
        self.compare_wcc(&before, dir, directory, "directory")?;
        self.usage_changed_in = self.mutations;
        self.observed_now()
    }

    fn observed_now(&self) -> Result<Observed, End> {
        Ok(Observed { mutation: self.mutations, ..Observed::default() })
    }

    /// Marks directories and objects as changed by the last mutation.
    fn finish_names(&mut self, id: OperationId, names: &[(u64, &[u8])], others: &[u64]) {
        let mutation = self.mutations;
        for (directory, name) in names {
            self.name_changed(*directory, name);
        }
        for ino in names.iter().map(|(directory, _)| directory).chain(others) {
            if self.inodes.contains_key(ino) {
                let inode = self.edit(*ino);
                inode.changed_in = mutation;
                inode.log(id, ChangeKind::Touch);
            }
        }
    }

    pub(super) fn create(
        &mut self,
        call: &Judged<'_>,
        (directory, name, how): (Obj, Name, &CreateHow),
    ) -> Result<Observed, End> {
        let Judged { who, now, .. } = *call;
        let dir = self.existing(call, directory)?;
        let bytes = name.bytes();
        if let Some(existing) = self.child(dir, &bytes) {
            let inode = Rc::clone(&self.inodes[&existing]);
            let taken = match how {
                CreateHow::Unchecked(_) | CreateHow::UncheckedIf(..) => inode.kind == FileType::Regular,
                CreateHow::Guarded(_) => false,
                CreateHow::Exclusive(verifier) | CreateHow::ExclusiveWith(verifier, _) => {
                    inode.verifier == Some(*verifier)
                }
            };
            if taken {
                return self.open_existing(call, (dir, &bytes, existing, how));
            }
        }
        let mut expected = Expected::of_growth();
        let name = self.judge_new(call, (dir, name), &mut expected);
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
        judge_owner(who, &set, &mut expected);
        apply_create_attributes(&mut new, &set, who, &self.inodes[&dir]);
        self.require_room(&mut expected, who, (new.uid, new.gid), Usage::ONE_OBJECT);
        let success = self.decide(call, expected)?;
        if let (CreateHow::Exclusive(_), Success::Created { object, .. }) = (how, success) {
            // The engine may keep the verifier anywhere; many keep it in the times.
            (new.mode, new.atime) = (vec![object.mode], super::PossibleTimes::at(object.atime));
            new.mtime.or(object.mtime);
        }
        self.add_object(call, (dir, &name, new), success)
    }

    /// Judges a CREATE that opens an existing file.
    fn open_existing(
        &mut self,
        call: &Judged<'_>,
        (dir, name, ino, how): (u64, &[u8], u64, &CreateHow),
    ) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        let mut expected = Expected::of_growth();
        let inode = &self.inodes[&ino];
        // Setting the current size changes nothing.
        let size = if let CreateHow::Unchecked(set) | CreateHow::UncheckedIf(set, _) = how {
            set.size.filter(|size| *size != inode.content.size)
        } else {
            None
        };
        expected.must(!self.inodes[&dir].grants(who, 1), Error::AccessDenied);
        expected.may(!self.inodes[&dir].grants(who, 2), Error::AccessDenied);
        let exclusive = matches!(how, CreateHow::Exclusive(_) | CreateHow::ExclusiveWith(..));
        expected.may(exclusive && !inode.untouched, Error::Exists);
        expected.must(size.is_some() && !inode.grants(who, 2) && !inode.owned_by(who), Error::AccessDenied);
        expected.may(size.is_some() && !inode.grants(who, 2), Error::AccessDenied);
        expected.observed = self.observed_by_name(call, dir, name);
        let Success::Created { object, directory } = self.decide(call, expected)? else {
            return call.unexpected();
        };
        let mut observed = self.name_changed_in(dir, name);
        if let Some(size) = size {
            self.resize(id, who, now, ino, size);
            if self.inodes[&ino].ctime.latest() == object.ctime || self.inodes[&ino].ctime.0.len() == 1 {
                self.mutate(id, &[ino]);
            }
            observed = self.mutations;
        }
        observed = observed.max(self.compare_and_adopt(ino, Some(object), "the existing object")?);
        let before = Rc::clone(&self.inodes[&dir]);
        self.compare_wcc(&before, dir, directory, "directory")?;
        Ok(Observed { mutation: observed, ..Observed::default() })
    }

    /// Judges the removal of a name, the sticky bit included.
    fn judge_removal(&self, who: &Credentials, dir: u64, child: u64, expected: &mut Expected) {
        let (directory, object) = (&self.inodes[&dir], &self.inodes[&child]);
        let sticky = directory.mode_now() & 0o1000 != 0;
        let kept = sticky && !directory.owned_by(who) && !object.owned_by(who);
        expected.must(kept, Error::NotPermitted);
        expected.must(kept, Error::AccessDenied);
    }

    pub(super) fn remove(
        &mut self,
        call: &Judged<'_>,
        (directory, name, as_directory): (Obj, Name, bool),
    ) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        let dir = self.existing(call, directory)?;
        let mut expected = Expected::default();
        let (name, child) = self.judge_use(call, (dir, name), 3, &mut expected);
        expected.must(child.is_none(), Error::NoEntry);
        let dots = name == b"." || name == b"..";
        for error in [Error::Invalid, Error::NotEmpty, Error::Exists, Error::IsDirectory] {
            expected.must(dots, error);
        }
        if let (Some(child), false) = (child, dots) {
            self.judge_removal(who, dir, child, &mut expected);
            let victim = &self.inodes[&child];
            expected.must(as_directory && !victim.is_directory(), Error::NotDirectory);
            expected.must(!as_directory && victim.is_directory(), Error::IsDirectory);
            expected.must(!as_directory && victim.is_directory(), Error::NotPermitted);
            expected.must(as_directory && !victim.entries.is_empty(), Error::NotEmpty);
            expected.must(as_directory && !victim.entries.is_empty(), Error::Exists);
        }
        let (Success::Removed { directory }, Some(child)) = (self.decide(call, expected)?, child) else {
            return call.unexpected();
        };
        let before = Rc::clone(&self.inodes[&dir]);
        self.mutations += 1;
        self.remove_name(dir, &name, now);
        self.edit(dir).touch_content(now);
        self.finish_names(id, &[(dir, &name)], &[child]);
        self.usage_changed_in = self.mutations;
        self.compare_wcc(&before, dir, directory, "directory")?;
        self.observed_now()
    }

    /// Removes a name, and the object if that was its last.
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
        call: &Judged<'_>,
        (object, directory, name): (Obj, Obj, Name),
    ) -> Result<Observed, End> {
        let Judged { id, now, .. } = *call;
        let (ino, dir) = (self.existing(call, object)?, self.existing(call, directory)?);
        let mut expected = Expected::of_growth();
        let name = self.judge_new(call, (dir, name), &mut expected);
        expected.must(self.inodes[&ino].links == 0, Error::NoEntry);
        let is_directory = self.inodes[&ino].is_directory();
        for error in [Error::NotPermitted, Error::IsDirectory, Error::Invalid] {
            expected.must(is_directory, error);
        }
        self.require_room_for_name(&mut expected);
        let Success::Linked { object, directory } = self.decide(call, expected)? else {
            return call.unexpected();
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
        self.usage_changed_in = self.mutations;
        self.compare_and_adopt(ino, object.as_ref(), "linked object")?;
        self.compare_wcc(&before, dir, directory, "directory")?;
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

    /// Judges a rename. Returns the objects of both names.
    fn judge_rename(
        &self,
        who: &Credentials,
        (from, name): (u64, &[u8]),
        (to, as_name): (u64, &[u8]),
        expected: &mut Expected,
    ) -> (Option<u64>, Option<u64>) {
        let (moved, victim) = (self.child(from, name), self.child(to, as_name));
        expected.must(moved.is_none(), Error::NoEntry);
        let dots = [name, as_name].iter().any(|name| *name == b"." || *name == b"..");
        for error in [Error::Invalid, Error::Exists, Error::NotEmpty, Error::IsDirectory] {
            expected.must(dots, error);
        }
        let Some(moved) = moved.filter(|_| !dots) else { return (moved, victim) };
        self.judge_removal(who, from, moved, expected);
        let object = &self.inodes[&moved];
        if object.is_directory() && self.inodes[&to].is_directory() {
            expected.must(self.is_within(to, moved), Error::Invalid);
            expected.may(from != to && !object.grants(who, 2), Error::AccessDenied);
        }
        if let Some(victim) = victim.filter(|victim| *victim != moved) {
            self.judge_removal(who, to, victim, expected);
            let other = &self.inodes[&victim];
            let (onto_file, onto_directory) = (
                object.is_directory() && !other.is_directory(),
                !object.is_directory() && other.is_directory(),
            );
            expected.must(onto_file, Error::NotDirectory);
            expected.must(onto_directory, Error::IsDirectory);
            expected.must(onto_file || onto_directory, Error::Exists);
            let full = object.is_directory() && !other.entries.is_empty();
            expected.must(full, Error::NotEmpty);
            expected.must(full, Error::Exists);
        }
        (Some(moved), victim)
    }

    pub(super) fn rename(
        &mut self,
        call: &Judged<'_>,
        ((from, name), (to, as_name)): ((Obj, Name), (Obj, Name)),
    ) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        let (from, to) = (self.existing(call, from)?, self.existing(call, to)?);
        let mut expected = Expected::of_growth();
        self.judge_directory(from, who, 3, &mut expected);
        self.judge_directory(to, who, 3, &mut expected);
        let (name, as_name) = (judge_name(name, &mut expected), judge_name(as_name, &mut expected));
        let (moved, victim) = self.judge_rename(who, (from, &name), (to, &as_name), &mut expected);
        let (Success::Renamed { from: from_wcc, to: to_wcc }, Some(moved)) =
            (self.decide(call, expected)?, moved)
        else {
            return call.unexpected();
        };
        let (from_before, to_before) = (Rc::clone(&self.inodes[&from]), Rc::clone(&self.inodes[&to]));
        if victim != Some(moved) {
            self.mutations += 1;
            self.remove_name(to, &as_name, now);
            self.move_name((from, &name), (to, &as_name), moved, now);
            let mut others = vec![moved];
            others.extend(victim);
            self.finish_names(id, &[(from, &name), (to, &as_name)], &others);
            self.usage_changed_in = self.mutations;
        }
        let observed = self.compare_wcc(&from_before, from, from_wcc, "source directory")?;
        let observed = observed.max(self.compare_wcc(&to_before, to, to_wcc, "target directory")?);
        let observed =
            observed.max(self.name_changed_in(from, &name)).max(self.name_changed_in(to, &as_name));
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
        // A RENAME is up to three changes of names; an engine may count each.
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
            // The object's `..` changed, which may count as a change of its content.
            for time in object.ctime.0.clone() {
                object.mtime.or(time);
            }
            self.edit(from).links -= 1;
            self.edit(to).links += 1;
        }
    }
}

/// Only the superuser gives files away. Setting a group of one's own is allowed, or ignored.
fn judge_owner(who: &Credentials, set: &SetAttributes, expected: &mut Expected) {
    expected.may(who.uid != 0 && set.uid.is_some_and(|uid| uid != who.uid), Error::NotPermitted);
    expected.may(who.uid != 0 && set.gid.is_some_and(|gid| !who.in_group(gid)), Error::NotPermitted);
}
