//! The reference model: a volume as POSIX and RFC 1813 describe it, in ordered maps. It shares no code with the engine.
//!
//! The model does not predict replies, it judges them: [`Model::judge`] takes the engine's reply, reports what is
//! wrong, and adopts what the rules leave open:
//! - inode numbers, cookies and change values, as long as they are never reused and change values grow;
//! - which error is returned if several apply, and the errors marked `may` at each operation;
//! - mtime after a write: the new ctime, or the previous mtime advanced; atime: unchanged, or set by READ, READDIR and
//!   READLINK;
//! - modes of symlinks and of files created without one; setuid and setgid after root's chown, write or truncation;
//! - sizes of directories.
//!
//! A call gets DQUOT exactly if a limit leaves no room for what it adds.
//!
//! Every other attribute must be equal; ctime is exactly `max(now, previous + 1 ns)`.

mod content;
mod engine_only_ops;
mod files;
mod inode;
mod judged;
mod listing;
mod names;
pub mod quotas;
pub mod recovery;

use std::collections::BTreeMap;
use std::rc::Rc;

use volume::attributes::{FileType, SetAttributes, SetTime};
use volume::quota::{Limits, Owner};
use volume::request::{Credentials, Error};
use volume::state::StateChange;

use crate::call::{Attrs, Call, CallResult, Name, Obj, Operation, OperationId, Success, Wcc};
use inode::{ChangeKind, Inode, PossibleTimes};
use judged::{End, Expected, Judged};

/// A judgement, or what is wrong with the reply.
pub type Judgement<T> = Result<T, String>;

/// What a reply shows a client, and what must therefore survive once the reply has left.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// All mutations up to this one.
    pub mutation: u64,
    /// The stable bytes of an object: inode number, start and end.
    pub bytes: Option<(u64, u64, u64)>,
    /// Whether the operation was a COMMIT of that range.
    pub committed: bool,
}

/// Errors that are allowed besides those that the model finds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leniency {
    /// Changes other than removals may fail for want of space.
    pub full: bool,
}

/// The reference volume.
#[derive(Clone, Debug)]
pub struct Model {
    inodes: BTreeMap<u64, Rc<Inode>>,
    /// The removed objects, and the mutation that removed each.
    gone: Rc<BTreeMap<u64, u64>>,
    born: Rc<BTreeMap<OperationId, u64>>,
    /// The number of mutations so far. Mutations are changes of names and attributes; a crash keeps a prefix of them.
    pub mutations: u64,
    usage_changed_in: u64,
    /// The time of the clock, even where the engine is ahead of it.
    pub clock: i64,
    /// Other errors that are allowed.
    pub leniency: Leniency,
    /// The number of changes that failed because the device was full.
    pub refused: u64,
    cursors: Rc<BTreeMap<u64, u64>>,
    /// The records of protocol state.
    state: Rc<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// The limits that were set.
    quotas: Rc<BTreeMap<Owner, Limits>>,
}

impl Model {
    /// Returns a new volume whose root has these attributes.
    #[must_use]
    pub fn new(root: &Attrs) -> Model {
        let who = Credentials { uid: root.uid, gid: root.gid, groups: Vec::new() };
        let mut inode = Inode::new(FileType::Directory, &who, root.ctime, 0);
        inode.adopt(root);
        inode.parent = root.ino;
        Model {
            inodes: BTreeMap::from([(root.ino, Rc::new(inode))]),
            gone: Rc::default(),
            born: Rc::new(BTreeMap::from([(0, root.ino)])),
            mutations: 0,
            usage_changed_in: 0,
            clock: 0,
            leniency: Leniency::default(),
            refused: 0,
            cursors: Rc::default(),
            state: Rc::default(),
            quotas: Rc::default(),
        }
    }

    /// Returns the inode number of an object, if its creation succeeded.
    #[must_use]
    pub fn ino(&self, object: Obj) -> Option<u64> {
        self.born.get(&object.0).copied()
    }

    /// Returns the ctime of an existing object.
    #[must_use]
    pub fn ctime(&self, object: Obj) -> Option<i64> {
        self.get(self.ino(object)?).and_then(|inode| inode.ctime.0.first().copied())
    }

    /// Returns the cookie at which the last listing of a directory ended.
    #[must_use]
    pub fn cursor(&self, ino: u64) -> u64 {
        self.cursors.get(&ino).copied().unwrap_or(0)
    }

    /// Returns the existing objects and their types.
    pub fn objects(&self) -> impl Iterator<Item = (Obj, FileType)> {
        self.born.iter().filter_map(|(id, ino)| Some((Obj(*id), self.inodes.get(ino)?.kind)))
    }

    /// Returns a name that can be removed, and whether it names a directory.
    #[must_use]
    pub fn removable(&self) -> Option<(Obj, Name, bool)> {
        let object = |ino: u64| self.born.iter().find(|(_, born)| **born == ino).map(|(id, _)| Obj(*id));
        self.inodes.iter().find_map(|(ino, inode)| {
            let (name, directory) = inode.entries.iter().find_map(|(name, entry)| {
                let named = self.get(entry.ino)?;
                (named.entries.is_empty()).then_some((name, named.is_directory()))
            })?;
            let name = (0..Name::ALL).map(Name).find(|known| known.bytes() == *name)?;
            Some((object(*ino)?, name, directory))
        })
    }

    /// Returns all objects that ever existed.
    #[must_use]
    pub fn ever_born(&self) -> Vec<Obj> {
        self.born.keys().map(|id| Obj(*id)).collect()
    }

    /// Returns the inode numbers of removed objects.
    pub fn gone(&self) -> impl Iterator<Item = u64> {
        self.gone.keys().copied()
    }

    /// Whether `time` is, or may be, a time of an existing object.
    #[must_use]
    pub fn may_have_time(&self, ino: u64, time: i64) -> bool {
        self.get(ino).is_some_and(|inode| {
            [&inode.atime, &inode.mtime, &inode.ctime]
                .iter()
                .any(|when| (0..5).any(|ahead| when.is(time - ahead)))
        })
    }

    fn get(&self, ino: u64) -> Option<&Inode> {
        self.inodes.get(&ino).map(Rc::as_ref)
    }

    fn edit(&mut self, ino: u64) -> &mut Inode {
        Rc::make_mut(self.inodes.get_mut(&ino).expect("the model edits only existing objects"))
    }

    /// Counts a mutation of the attributes of these objects.
    fn mutate(&mut self, operation: OperationId, touched: &[u64]) {
        self.mutations += 1;
        let mutation = self.mutations;
        for ino in touched {
            if let Some(inode) = self.inodes.get_mut(ino) {
                let inode = Rc::make_mut(inode);
                inode.changed_in = mutation;
                inode.log(operation, ChangeKind::Touch);
            }
        }
    }

    fn name_changed(&mut self, directory: u64, name: &[u8]) {
        let mutation = self.mutations;
        self.edit(directory).name_changed_in.insert(name.to_vec(), mutation);
    }

    /// Judges the result of `operation`, executed at `now`, and applies the operation.
    ///
    /// # Errors
    /// What is wrong with the result.
    pub fn judge(&mut self, operation: &Operation, now: i64, result: &CallResult) -> Judgement<Observed> {
        let who = &operation.user.credentials();
        match self.follow(&Judged { id: operation.id, who, now, result }, operation.call) {
            Ok(observed) | Err(End::Failed(observed)) => Ok(observed),
            Err(End::Wrong(wrong)) => Err(wrong),
        }
    }

    fn follow(&mut self, call: &Judged<'_>, arguments: Call) -> Result<Observed, End> {
        let Judged { id, who, now, .. } = *call;
        match arguments {
            Call::GetAttributes { object } => self.get_attributes(call, object),
            Call::SetAttributes { object, set, guard } => self.set_attributes(call, (object, &set, guard)),
            Call::Lookup { directory, name } => self.lookup(call, directory, name),
            Call::Access { object, mask } => self.access(call, object, mask),
            Call::ReadLink { object } => self.read_link(call, object),
            Call::Read { object, offset, count } => self.read(call, (object, offset, count)),
            Call::Write { object, offset, length, stability } => {
                self.write(call, (object, offset, length, stability))
            }
            Call::Commit { object, offset, count } => self.commit(call, (object, offset, count)),
            Call::Create { directory, name, how } => self.create(call, (directory, name, &how)),
            Call::MakeDirectory { directory, name, set } => {
                let new = Inode::new(FileType::Directory, who, now, 0);
                self.make(call, (directory, name, new, &set))
            }
            Call::MakeSymlink { directory, name, length, set } => {
                let mut new = Inode::new(FileType::Symlink, who, now, 0);
                new.target = crate::call::target(id, length);
                self.make(call, (directory, name, new, &set))
            }
            Call::MakeNode { directory, name, kind, set } => {
                self.make(call, (directory, name, names::node(kind, who, now), &set))
            }
            Call::Remove { directory, name } => self.remove(call, (directory, name, false)),
            Call::RemoveDirectory { directory, name } => self.remove(call, (directory, name, true)),
            Call::Rename { from, name, to, as_name } => self.rename(call, ((from, name), (to, as_name))),
            Call::Link { object, directory, name } => self.link(call, (object, directory, name)),
            Call::ReadDirectory { directory, from, plus, .. } => {
                self.read_directory(call, (directory, from, plus))
            }
            Call::Status => self.status(call),
            Call::Limits { object } | Call::Configuration { object } => self.limits(call, object),
            Call::EngineOnly(op) => self.judge_engine_only_op(call, op),
            Call::Nothing => Ok(Observed::default()),
        }
    }

    /// Applies the changes of protocol state that were journaled with the last mutation.
    pub fn change_state(&mut self, changes: &[StateChange]) {
        if changes.is_empty() {
            return;
        }
        let state = Rc::make_mut(&mut self.state);
        for StateChange { key, value } in changes {
            match value {
                Some(value) => drop(state.insert(key.to_vec(), value.to_vec())),
                None => drop(state.remove(&**key)),
            }
        }
    }

    /// Judges the attributes that a failure shows; they must be unchanged.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn judge_failure_attributes(
        &mut self,
        mut observed: Observed,
        failure_attributes: &[Wcc],
    ) -> Judgement<Observed> {
        for wcc in failure_attributes {
            let Some(ino) = wcc.after.map(|seen| seen.ino) else { continue };
            let before = self.inodes.get(&ino).map(Rc::clone);
            let before = before.ok_or_else(|| format!("a failure shows inode {ino}, which is gone"))?;
            observed.mutation =
                observed.mutation.max(self.compare_wcc(&before, ino, wcc, "shown by a failure")?);
        }
        Ok(observed)
    }

    /// Compares the result with the errors that a call may fail with. Returns the success to be judged.
    fn decide<'a>(&mut self, call: &Judged<'a>, expected: Expected) -> Result<&'a Success, End> {
        expected.compare(call, self.leniency.full, &mut self.refused)
    }

    /// Returns the object's inode number. Ends the judgement of a call that names a removed object.
    fn existing(&self, call: &Judged<'_>, object: Obj) -> Result<u64, End> {
        let never = || End::Wrong("the harness used an object that never existed".to_owned());
        let ino = self.ino(object).ok_or_else(never)?;
        if self.inodes.contains_key(&ino) {
            return Ok(ino);
        }
        Err(match call.result {
            Err(Error::Stale) => End::Failed(Observed {
                mutation: self.gone.get(&ino).copied().unwrap_or(0),
                ..Observed::default()
            }),
            // Names and callers may be checked before objects.
            Err(
                Error::NotPermitted
                | Error::Invalid
                | Error::NameTooLong
                | Error::FileTooLarge
                | Error::Exists
                | Error::IsDirectory
                | Error::NotEmpty,
            ) => End::Failed(Observed::default()),
            other => End::Wrong(format!("inode {ino} is gone, but the result is {other:?}")),
        })
    }

    /// Returns the inode number and the state of the object; see [`Model::existing`].
    fn existing_object(&self, call: &Judged<'_>, object: Obj) -> Result<(u64, Rc<Inode>), End> {
        let ino = self.existing(call, object)?;
        Ok((ino, Rc::clone(&self.inodes[&ino])))
    }

    /// Compares attributes that a reply shows. Returns the last mutation that they prove.
    fn compare_and_adopt(&mut self, ino: u64, seen: Option<&Attrs>, what: &str) -> Judgement<u64> {
        let Some(seen) = seen else { return Ok(0) };
        if seen.ino != ino {
            return Err(format!("{what}: inode {}, expected {ino}", seen.ino));
        }
        let inode = self.edit(ino);
        inode.compare_and_adopt(seen).map_err(|wrong| format!("{what}, inode {ino}: {wrong}"))?;
        Ok(inode.changed_in)
    }

    /// Compares attributes before and after a change; `before` is the model's state before it.
    fn compare_wcc(&mut self, before: &Inode, ino: u64, wcc: &Wcc, what: &str) -> Judgement<u64> {
        if let Some((size, mtime, ctime)) = wcc.before {
            let size_fits =
                before.is_directory() || size == before.content.size.max(before.target.len() as u64);
            if !size_fits || !before.mtime.is(mtime) || !before.ctime.is(ctime) {
                return Err(format!(
                    "{what}, inode {ino}: the attributes before were ({size}, {mtime}, {ctime}), expected ({}, {:?}, {:?})",
                    before.content.size, before.mtime, before.ctime
                ));
            }
        }
        self.compare_and_adopt(ino, wcc.after.as_ref(), what)
    }

    fn get_attributes(&mut self, call: &Judged<'_>, object: Obj) -> Result<Observed, End> {
        let ino = self.existing(call, object)?;
        let Success::Attributes(seen) = self.decide(call, Expected::default())? else {
            return call.unexpected();
        };
        Ok(Observed { mutation: self.compare_and_adopt(ino, Some(seen), "GETATTR")?, ..Observed::default() })
    }

    /// Judges FSINFO and PATHCONF: the server's limits, and the object's attributes.
    fn limits(&mut self, call: &Judged<'_>, object: Obj) -> Result<Observed, End> {
        let ino = self.existing(call, object)?;
        let seen = match self.decide(call, Expected::default())? {
            Success::Limits { object, transfer, file_bytes, properties }
                if *transfer == [files::TRANSFER_BYTES_MAX; 2]
                    && *file_bytes == files::FILE_BYTES_MAX
                    && *properties == 0x1B =>
            {
                object
            }
            // No name is truncated, files are not given away, names keep their case.
            Success::Configuration { object, name_bytes: 255, posix: [true, true, true, true] } => object,
            Success::Attributes(object) => object,
            _ => return call.unexpected(),
        };
        Ok(Observed { mutation: self.compare_and_adopt(ino, Some(seen), "limits")?, ..Observed::default() })
    }

    fn access(&mut self, call: &Judged<'_>, object: Obj, mask: u32) -> Result<Observed, End> {
        let Judged { who, .. } = *call;
        let ino = self.existing(call, object)?;
        let Success::Accessible { granted, object } = self.decide(call, Expected::default())? else {
            return call.unexpected();
        };
        let inode = self.edit(ino);
        let (read, write, search) = (inode.grants(who, 4), inode.grants(who, 2), inode.grants(who, 1));
        let directory = inode.is_directory();
        // Each bit, its value by the mode, and whether the opposite is valid too: an owner may always read and write,
        // DELETE concerns the parent, and files have no entries to look up.
        let owner = who.uid == inode.uid && !directory;
        let bits = [
            (0x01, read, owner),
            (0x02, search && directory, false),
            (0x04, write, owner),
            (0x08, write, owner),
            (0x10, write && search && directory, true),
            (0x20, search && !directory, directory),
        ];
        for (bit, expected, free) in bits {
            let answered = granted & bit != 0;
            if answered && mask & bit == 0 || !free && mask & bit != 0 && answered != expected {
                return Err(format!(
                    "ACCESS {mask:x} of inode {ino} granted {granted:x}: bit {bit:x} should be {expected}"
                )
                .into());
            }
        }
        Ok(Observed {
            mutation: self
                .compare_and_adopt(ino, object.as_ref(), "ACCESS")?
                .max(self.inodes[&ino].permission_changed_in),
            ..Observed::default()
        })
    }

    fn status(&mut self, call: &Judged<'_>) -> Result<Observed, End> {
        let Success::Status { bytes_used, inodes_used } = self.decide(call, Expected::default())? else {
            return call.unexpected();
        };
        let inodes: u64 = self.inodes.values().map(|inode| inode.counted()).sum();
        let limits = self.limits_in_force(Owner::VOLUME);
        // Where more is used than a limit allows, NFSv3 shows that all of the limit is used.
        let fits = |seen: u64, used: u64, limit: Option<u64>| {
            seen == used || limit.is_some_and(|limit| seen == limit && limit < used)
        };
        if !fits(*inodes_used, inodes, limits.inodes.hard) {
            return Err(
                format!("FSSTAT counts {inodes_used} objects and further names, expected {inodes}").into()
            );
        }
        let bytes: u64 = self.inodes.values().map(|inode| inode.used()).sum();
        let free = self.inodes.values().any(|inode| inode.used_free || inode.soft > 0);
        if bytes_used.is_some_and(|used| !fits(used, bytes, limits.bytes.hard)) && !free {
            return Err(format!("FSSTAT counts {bytes_used:?} bytes, expected {bytes}").into());
        }
        Ok(Observed { mutation: self.usage_changed_in, ..Observed::default() })
    }
}

/// Judges a name as such. Returns its bytes.
fn judge_name(name: Name, expected: &mut Expected) -> Vec<u8> {
    let bytes = name.bytes();
    expected.must(bytes.len() > 255, Error::NameTooLong);
    let odd = bytes.is_empty() || bytes.contains(&b'/') || bytes.contains(&0);
    for error in [Error::Invalid, Error::AccessDenied, Error::NoEntry] {
        expected.must(odd, error);
    }
    bytes
}

/// Sets a new object's attributes as its creator asked.
fn apply_create_attributes(new: &mut Inode, set: &SetAttributes, who: &Credentials, directory: &Inode) {
    let inherits = directory.mode_now() & 0o2000 != 0;
    if inherits {
        new.gid = directory.gid;
    }
    if let Some(uid) = set.uid.filter(|_| who.uid == 0) {
        new.uid = uid;
    }
    if let Some(gid) = set.gid.filter(|gid| who.uid == 0 || who.in_group(*gid)) {
        new.gid = gid;
    }
    if let (Some(mode), true) = (set.mode, new.kind != FileType::Symlink) {
        let mode = mode & 0o7777;
        new.mode = vec![mode];
        if new.is_directory() && inherits {
            new.mode = vec![mode | 0o2000];
        } else if mode & 0o2000 != 0 && who.uid != 0 {
            // Linux clears setgid for a caller outside the group; POSIX keeps it.
            new.mode.push(mode & !0o2000);
        }
    }
    new.content.set_size(set.size.filter(|_| new.kind == FileType::Regular).unwrap_or(0));
    for (time, wish) in [(&mut new.atime, set.atime), (&mut new.mtime, set.mtime)] {
        if let SetTime::To(to) = wish {
            *time = PossibleTimes::at(to.nanos());
        }
    }
}
