//! CREATE, MKDIR, SYMLINK and MKNOD (RFC 1813 sections 3.3.8 to 3.3.11).

use super::setattr::permitted_mode;
use super::{check_directory, chosen, is_dot};
use crate::api::attributes::{Device, FileType, SetAttributes, Wcc};
use crate::api::ids::{Cookie, Ino, ObjectId};
use crate::api::request::{Answer, Encode, Error, Promised, Request};
use crate::api::results::{CreateHow, Created, NodeKind};
use crate::api::time::Time;
use crate::encoding::key;
use crate::encoding::record::{InodeRecord, NameRecord};
use crate::file::inodes::Presence;
use crate::limits::{DIRECTORY_LINKS_MAX, FILE_BYTES_MAX, SYMLINK_BYTES_MAX};
use crate::planted::{Fault, is_planted};
use crate::transaction::attempt::{Attempt, LockedInodes, Stop};
use crate::transaction::change::Change;
use crate::transaction::permission;
use crate::transaction::permission::{EXECUTE, SETGID};
use crate::volume::{Volume, check_name};

/// Mode of an object for which the client gave none.
const DEFAULT_FILE_MODE: u32 = 0o644;
const DEFAULT_DIRECTORY_MODE: u32 = 0o755;

/// The object to create.
struct New<'a> {
    file_type: FileType,
    set: SetAttributes,
    device: Device,
    target: &'a [u8],
    verifier: Option<[u8; 8]>,
    /// Which existing object is acceptable.
    existing: Existing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Refuse,
    Take,
    /// Only the one that the name referred to before.
    TakeKnown(Option<Ino>),
    /// Only one created with the same verifier.
    TakeOwn([u8; 8]),
}

impl<'a> New<'a> {
    fn plain(file_type: FileType, set: SetAttributes) -> New<'a> {
        New {
            file_type,
            set,
            device: Device::default(),
            target: &[],
            verifier: None,
            existing: Existing::Refuse,
        }
    }
}

fn exclusive(verifier: [u8; 8], set: SetAttributes) -> New<'static> {
    New {
        verifier: Some(verifier),
        existing: Existing::TakeOwn(verifier),
        ..New::plain(FileType::Regular, set)
    }
}

impl Volume {
    /// Creates a regular file.
    pub fn create_file(
        &self,
        request: &Request<'_>,
        directory: Ino,
        name: &[u8],
        how: &CreateHow,
        encode: Encode<'_, Created>,
    ) -> Answer<Created> {
        let directory = self.object(directory);
        let new = match how {
            CreateHow::Unchecked(set) => {
                New { existing: Existing::Take, ..New::plain(FileType::Regular, *set) }
            }
            CreateHow::UncheckedIf(set, known) => {
                New { existing: Existing::TakeKnown(*known), ..New::plain(FileType::Regular, *set) }
            }
            CreateHow::Guarded(set) => New::plain(FileType::Regular, *set),
            CreateHow::Exclusive(verifier) => exclusive(*verifier, SetAttributes::default()),
            CreateHow::ExclusiveWith(verifier, set) => exclusive(*verifier, *set),
        };
        self.make(request, directory, name, &new, encode)
    }

    /// Creates a directory.
    pub fn make_directory(
        &self,
        request: &Request<'_>,
        directory: Ino,
        name: &[u8],
        set: &SetAttributes,
        encode: Encode<'_, Created>,
    ) -> Answer<Created> {
        let directory = self.object(directory);
        let set = SetAttributes { size: None, ..*set };
        self.make(request, directory, name, &New::plain(FileType::Directory, set), encode)
    }

    /// Creates a symbolic link to `target`: 1 to 4095 bytes, without NUL.
    pub fn make_symlink(
        &self,
        request: &Request<'_>,
        directory: Ino,
        name: &[u8],
        target: &[u8],
        set: &SetAttributes,
        encode: Encode<'_, Created>,
    ) -> Answer<Created> {
        let directory = self.object(directory);
        if target.len() > SYMLINK_BYTES_MAX {
            return Err(Error::NameTooLong.into());
        }
        if target.is_empty() || target.contains(&0) {
            return Err(Error::Invalid.into());
        }
        let set = SetAttributes { mode: Some(0o777), size: None, ..*set };
        let new = New { target, ..New::plain(FileType::Symlink, set) };
        self.make(request, directory, name, &new, encode)
    }

    /// Creates a device node, socket or FIFO; only the superuser may create device nodes.
    pub fn make_node(
        &self,
        request: &Request<'_>,
        directory: Ino,
        name: &[u8],
        kind: NodeKind,
        set: &SetAttributes,
        encode: Encode<'_, Created>,
    ) -> Answer<Created> {
        let directory = self.object(directory);
        let (file_type, device) = match kind {
            NodeKind::Block(device) => (FileType::Block, device),
            NodeKind::Character(device) => (FileType::Character, device),
            NodeKind::Socket => (FileType::Socket, Device::default()),
            NodeKind::Fifo => (FileType::Fifo, Device::default()),
        };
        if matches!(kind, NodeKind::Block(_) | NodeKind::Character(_)) && request.credentials.uid != 0 {
            return Err(Error::NotPermitted.into());
        }
        let set = SetAttributes { size: None, ..*set };
        self.make(request, directory, name, &New { device, ..New::plain(file_type, set) }, encode)
    }

    fn make(
        &self,
        request: &Request<'_>,
        directory: ObjectId,
        name: &[u8],
        new: &New<'_>,
        encode: Encode<'_, Created>,
    ) -> Answer<Created> {
        if is_dot(name) {
            return Err(Error::Exists.into());
        }
        check_name(name)?;
        self.run(request.access, |attempt| {
            let (mut held, [found]) = attempt.lock_names([(directory, name)], &[])?;
            let state = held.get(directory);
            if let Err(error) = check_directory(state.record())
                .and_then(|()| permission::check(request.credentials, state.record(), EXECUTE))
            {
                return Err(held.fail(error));
            }
            match found {
                Some(found) => self.take_existing(request, attempt, held, directory, &found, new, encode),
                None => self.make_new(request, held, directory, name, new, encode),
            }
        })
    }

    /// Answers CREATE with an existing file. Only a given size is set on it (RFC 1813 section 3.3.8), as a change of
    /// its own.
    fn take_existing(
        &self,
        request: &Request<'_>,
        attempt: &Attempt<'_>,
        mut held: LockedInodes,
        directory: ObjectId,
        found: &NameRecord,
        new: &New<'_>,
        encode: Encode<'_, Created>,
    ) -> Result<Promised<Created>, Stop> {
        if let Existing::TakeKnown(known) = new.existing
            && known != Some(found.ino)
        {
            return Err(held.fail(Error::ObjectBusy));
        }
        let file = held.get(directory.sibling(found.ino));
        let acceptable = file.record().file_type == FileType::Regular
            && match new.existing {
                Existing::Refuse => false,
                Existing::Take | Existing::TakeKnown(_) => true,
                Existing::TakeOwn(verifier) => file.record().create_verifier == Some(verifier),
            };
        if !acceptable {
            return Err(held.fail(Error::Exists));
        }
        if let (Existing::Take | Existing::TakeKnown(_), Some(size)) = (new.existing, new.set.size)
            && (size != file.size() || !file.dirty.is_empty() || file.record().size != size)
        {
            return self.truncate_existing(
                request,
                attempt,
                held,
                directory,
                directory.sibling(found.ino),
                size,
                encode,
            );
        }
        let attributes = file.attributes();
        let wcc = held.get(directory).attributes().unchanged();
        Ok(Promised {
            value: Created { attributes, directory: wcc, is_new: false },
            after: held.durability(),
        })
    }

    fn truncate_existing(
        &self,
        request: &Request<'_>,
        attempt: &Attempt<'_>,
        mut held: LockedInodes,
        directory: ObjectId,
        ino: ObjectId,
        size: u64,
        encode: Encode<'_, Created>,
    ) -> Result<Promised<Created>, Stop> {
        let state = held.get(ino);
        if let Err(error) = permission::check_write(request.credentials, state.record()) {
            return Err(held.fail(error));
        }
        if size > FILE_BYTES_MAX {
            return Err(held.fail(Error::FileTooLarge));
        }
        let mut change = self.resize(request, attempt, state, size)?;
        let attributes = state.attributes();
        let directory = held.get(directory).attributes().unchanged();
        let created = Created { attributes, directory, is_new: false };
        change.put_inode(ino, held.get(ino).record());
        let seq = change.commit_answered(request, held.durability(), &created, encode);
        let state = held.get(ino);
        state.journaled(seq);
        Ok(Promised { value: created, after: held.durability() })
    }

    fn make_new(
        &self,
        request: &Request<'_>,
        mut held: LockedInodes,
        directory: ObjectId,
        name: &[u8],
        new: &New<'_>,
        encode: Encode<'_, Created>,
    ) -> Result<Promised<Created>, Stop> {
        let parent = held.get(directory);
        let old = parent.record().clone();
        let before = parent.attributes().before();
        if let Err(error) = check_new(request, &old, new) {
            return Err(held.fail(error));
        }
        // The new number is the highest of all, so locking it last keeps the lock order; no other thread can know it
        // yet.
        let id = self.object(self.own.new_ino());
        let cell = self.inodes.get(id, self.committer.durable(), self.flushed_generation());
        let mut state = cell.lock_arc();
        let mut change = self.begin_with_long_value(new.target.len())?;
        let (stamp, _) = self.committer.stamp(request.now);
        let record = self.new_record(request, directory, &old, new, stamp);
        let mut parent_record =
            self.add_name(&mut change, (directory, &old), name, (id.ino, new.file_type), stamp);
        if new.file_type == FileType::Directory {
            parent_record.links += 1;
        }
        self.put_new(&mut change, (directory, &parent_record), (id, &record), new.target);
        change.add_object(self, request, &record).map_err(|stop| held.or_fail(stop))?;
        let created = Created {
            attributes: record.attributes(id.ino),
            directory: Wcc { before, after: parent_record.attributes(directory.ino) },
            is_new: true,
        };
        let seq = change.commit_answered(request, held.durability(), &created, encode);
        if record.file_type == FileType::Directory {
            self.negative_lookups.directory_created(id);
        }
        state.presence = Presence::Present(record);
        state.seq = seq;
        drop(state);
        let parent = held.get(directory);
        *parent.record_mut() = parent_record;
        parent.journaled(seq);
        Ok(Promised { value: created, after: held.durability() })
    }

    fn put_new(
        &self,
        change: &mut Change<'_>,
        parent: (ObjectId, &InodeRecord),
        new: (ObjectId, &InodeRecord),
        target: &[u8],
    ) {
        let (id, record) = new;
        if !target.is_empty() {
            change.put_new(key::symlink(id), target.to_vec());
        }
        change.put_new(key::inode(id), record.encode());
        change.put_inode(parent.0, parent.1);
    }

    fn new_record(
        &self,
        request: &Request<'_>,
        directory: ObjectId,
        parent: &InodeRecord,
        new: &New<'_>,
        stamp: Time,
    ) -> InodeRecord {
        let who = request.credentials;
        let is_directory = new.file_type == FileType::Directory;
        let (uid, gid) = new_owners(request, parent, new);
        let default_mode = if is_directory { DEFAULT_DIRECTORY_MODE } else { DEFAULT_FILE_MODE };
        let mut mode = permitted_mode(who, gid, new.set.mode.unwrap_or(default_mode));
        if is_directory && parent.mode & SETGID != 0 {
            mode |= SETGID;
        }
        InodeRecord {
            file_type: new.file_type,
            mode,
            links: if is_directory { 2 } else { 1 },
            uid,
            gid,
            size: new.set.size.unwrap_or(new.target.len() as u64),
            used: 0,
            mapped_end: 0,
            device: new.device,
            atime: chosen(new.set.atime, stamp, stamp),
            mtime: chosen(new.set.mtime, stamp, stamp),
            ctime: stamp,
            change: self.next_change(0),
            parent: if is_directory { directory.ino } else { Ino(0) },
            next_cookie: if is_directory { Cookie::FIRST } else { Cookie(0) },
            entries: 0,
            tree: if is_planted(Fault::LoseTree) { 0 } else { parent.tree },
            create_verifier: new.verifier,
            truncations: 0,
            pending_truncations: Vec::new(),
            xattrs: 0,
            xattr_bytes: 0,
        }
    }
}

/// Returns the owner and the group of an object to be made: in a set-group-ID directory that of the directory.
fn new_owners(request: &Request<'_>, directory: &InodeRecord, new: &New<'_>) -> (u32, u32) {
    let who = request.credentials;
    let usual = if directory.mode & SETGID != 0 { directory.gid } else { who.gid };
    (new.set.uid.unwrap_or(who.uid), new.set.gid.unwrap_or(usual))
}

/// Checks whether the caller may create this object in this directory.
fn check_new(request: &Request<'_>, directory: &InodeRecord, new: &New<'_>) -> Result<(), Error> {
    let who = request.credentials;
    permission::check_change_names(who, directory)?;
    if new.file_type == FileType::Directory && directory.links >= DIRECTORY_LINKS_MAX {
        return Err(Error::TooManyLinks);
    }
    if new.set.size.is_some_and(|size| size > FILE_BYTES_MAX) {
        return Err(Error::FileTooLarge);
    }
    let takes_owner = new.set.uid.is_some_and(|uid| uid != who.uid);
    let inherits = |gid| gid == directory.gid && directory.mode & SETGID != 0;
    let takes_group = new.set.gid.is_some_and(|gid| !who.in_group(gid) && !inherits(gid));
    if who.uid != 0 && (takes_owner || takes_group) {
        return Err(Error::NotPermitted);
    }
    Ok(())
}
