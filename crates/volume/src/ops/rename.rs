//! RENAME (RFC 1813 section 3.3.14).

use parking_lot::MutexGuard;

use super::{check_directory, is_dot};
use crate::api::attributes::{FileType, Wcc};
use crate::api::ids::{Ino, ObjectId};
use crate::api::request::{Access, Answer, Credentials, Encode, Error, Failure, Promised, Request};
use crate::api::results::Renamed;
use crate::api::time::Time;
use crate::encoding::record::{InodeRecord, NameRecord};
use crate::limits::{DIRECTORY_DEPTH_MAX, DIRECTORY_LINKS_MAX};
use crate::transaction::attempt::{Attempt, LockedInodes, Stop};
use crate::transaction::change::Change;
use crate::transaction::permission;
use crate::transaction::permission::{EXECUTE, WRITE};
use crate::volume::{Volume, check_name};

/// Most ancestors of the new place of a directory that an event loop looks at.
const ANCESTORS_IN_PLACE_MAX: usize = 64;

/// A directory and a name in it.
type Name<'a> = (ObjectId, &'a [u8]);

/// A rename: what moves, and what it replaces.
struct Move<'a> {
    from: Name<'a>,
    to: Name<'a>,
    object: NameRecord,
    replaced: Option<NameRecord>,
}

impl Move<'_> {
    /// Returns what moves.
    fn object(&self) -> ObjectId {
        self.from.0.sibling(self.object.ino)
    }
}

impl Volume {
    /// Renames an object. An object that had the new name is replaced, atomically.
    ///
    /// # Errors
    /// `NameTooLong` for a directory whose new place is more than [`DIRECTORY_DEPTH_MAX`] directories below the root.
    pub fn rename(
        &self,
        request: &Request<'_>,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        encode: Encode<'_, Renamed>,
    ) -> Answer<Renamed> {
        let from = (self.object(from.0), from.1);
        let to = (self.object(to.0), to.1);
        if is_dot(from.1) || is_dot(to.1) {
            return Err(Error::Invalid.into());
        }
        check_name(from.1)?;
        check_name(to.1)?;
        self.run(request.access, |attempt| {
            let moves_directory = self.moves_directory(attempt, from, to)?;
            if moves_directory {
                self.prepare_move(request, attempt, from, to)?;
                #[cfg(test)]
                self.hooks.reach(crate::hooks::Point::MoveBegins);
            }
            let _one_at_a_time = if moves_directory { Some(self.begin_move(request.access)?) } else { None };
            let ancestors = if moves_directory { self.ancestors(attempt, to.0)? } else { Vec::new() };
            #[cfg(test)]
            if moves_directory {
                self.hooks.reach(crate::hooks::Point::AncestorsKnown);
            }
            let (mut held, [object, replaced]) = attempt.lock_names([from, to], &[])?;
            let Some(object) = object else { return Err(self.no_source(request, &mut held, from, to)) };
            if !moves_directory && from.0 != to.0 && object.file_type == FileType::Directory {
                return Err(Stop::Again);
            }
            let work = Move { from, to, object, replaced };
            if let Err(error) = self.check_rename(request.credentials, &mut held, &work, &ancestors) {
                return Err(held.fail(error));
            }
            let before = [from.0, to.0].map(|ino| held.get(ino).attributes().before());
            if replaced.is_some_and(|replaced| replaced.ino == object.ino) {
                // Two names of one object: nothing happens (POSIX rename).
                let [from, to] = [from.0, to.0].map(|ino| held.get(ino).attributes().unchanged());
                let renamed = Renamed { from, to, object: object.ino, replaced: None };
                return Ok(Promised { value: renamed, after: held.durability() });
            }
            // A name at another place of the index takes room there, and leaves behind what may be too little to be used. Without a
            // name that goes instead, the same few names moved again and again would use up all room.
            let mut change = if replaced.is_none() { self.begin()? } else { self.begin_freeing()? };
            let (stamp, _) = self.committer.stamp(request.now);
            let left = self.move_name(&mut change, &mut held, &work, stamp);
            let renamed = Renamed {
                from: Wcc { before: before[0], after: held.get(from.0).attributes() },
                to: Wcc { before: before[1], after: held.get(to.0).attributes() },
                object: object.ino,
                replaced: replaced.map(|replaced| replaced.ino),
            };
            let seq = change.commit_answered(request, held.durability(), &renamed, encode);
            if let (Some(replaced), Some(left)) = (replaced, left) {
                let state = held.get(to.0.sibling(replaced.ino));
                self.set_unlinked(state, left);
                state.seq = seq;
            }
            for id in [from.0, to.0, work.object()] {
                let state = held.get(id);
                state.journaled(seq);
            }
            Ok(Promised { value: renamed, after: held.durability() })
        })
    }

    /// Returns why there is nothing to rename.
    fn no_source(
        &self,
        request: &Request<'_>,
        held: &mut LockedInodes,
        from: Name<'_>,
        to: Name<'_>,
    ) -> Stop {
        for directory in [from.0, to.0] {
            let record = held.get(directory).record();
            let checked = check_directory(record)
                .and_then(|()| permission::check(request.credentials, record, EXECUTE));
            if let Err(error) = checked {
                return held.fail(error);
            }
        }
        held.fail(Error::NoEntry)
    }

    /// Whether a directory changes its parent. It must not end up below itself. Only such renames change who is below
    /// whom, so one at a time can look at all ancestors without holding their locks together.
    fn moves_directory(&self, attempt: &Attempt<'_>, from: Name<'_>, to: Name<'_>) -> Result<bool, Stop> {
        if from.0 == to.0 {
            return Ok(false);
        }
        let moved = attempt.name_unlocked(from.0, from.1)?;
        Ok(moved.is_some_and(|name| name.file_type == FileType::Directory))
    }

    /// Refuses a move of a directory that the caller may not make, and then has all ancestors of the new place loaded,
    /// so that nothing is read while other moves wait. All of this is checked again.
    ///
    /// # Errors
    /// `WouldBlock` in an event loop if there are more than [`ANCESTORS_IN_PLACE_MAX`] ancestors.
    fn prepare_move(
        &self,
        request: &Request<'_>,
        attempt: &mut Attempt<'_>,
        from: Name<'_>,
        to: Name<'_>,
    ) -> Result<(), Stop> {
        let (mut held, [object, _]) = attempt.lock_names([from, to], &[])?;
        let Some(object) = object else { return Err(self.no_source(request, &mut held, from, to)) };
        if let Err(error) =
            check_may_rename(request.credentials, &mut held, (from.0, to.0), from.0.sibling(object.ino))
        {
            return Err(held.fail(error));
        }
        drop(held);
        let max = match request.access {
            Access::Cached => ANCESTORS_IN_PLACE_MAX,
            Access::Blocking => DIRECTORY_DEPTH_MAX,
        };
        let mut id = to.0;
        for _ in 0..max {
            if id.ino == Ino::ROOT {
                return Ok(());
            }
            id = loop {
                match self.parent(attempt, id) {
                    // Read here, not by another attempt: that would begin below again.
                    Err(Stop::Missing(missing)) if request.access == Access::Blocking => {
                        attempt.load(&missing)?;
                    }
                    parent => break parent?,
                }
            };
        }
        let is_in_place = request.access == Access::Cached;
        Err(if is_in_place { Error::WouldBlock } else { Error::NameTooLong }.into())
    }

    /// Begins the move of a directory; until the guard is dropped, no other one can begin. It is held for moments only,
    /// but an event loop waits for nothing.
    fn begin_move(&self, access: Access) -> Result<MutexGuard<'_, ()>, Error> {
        match access {
            Access::Cached => self.own.directory_moves.try_lock().ok_or(Error::WouldBlock),
            Access::Blocking => Ok(self.own.directory_moves.lock()),
        }
    }

    /// Returns a directory and all its ancestors. While this runs no directory changes its parent.
    fn ancestors(&self, attempt: &Attempt<'_>, directory: ObjectId) -> Result<Vec<ObjectId>, Stop> {
        let mut ancestors = vec![directory];
        let mut id = directory;
        while id.ino != Ino::ROOT {
            id = self.parent(attempt, id)?;
            ancestors.push(id);
            if ancestors.len() > DIRECTORY_DEPTH_MAX {
                return Err(Error::NameTooLong.into());
            }
        }
        Ok(ancestors)
    }

    /// Returns the parent of a directory.
    fn parent(&self, attempt: &Attempt<'_>, directory: ObjectId) -> Result<ObjectId, Stop> {
        #[cfg(test)]
        self.hooks.reach(crate::hooks::Point::AncestorSeen);
        let state = attempt.lock(directory)?;
        let parent = state.record().parent;
        if state.record().file_type != FileType::Directory || parent == Ino(0) {
            return Err(Failure { error: Error::NotDirectory, after: state.durability() }.into());
        }
        Ok(directory.sibling(parent))
    }

    fn check_rename(
        &self,
        who: &Credentials,
        held: &mut LockedInodes,
        work: &Move<'_>,
        ancestors: &[ObjectId],
    ) -> Result<(), Error> {
        check_may_rename(who, held, (work.from.0, work.to.0), work.object())?;
        let record = |held: &mut LockedInodes, id: ObjectId| -> InodeRecord { held.get(id).record().clone() };
        let (to, object) = (record(held, work.to.0), record(held, work.object()));
        let is_directory = object.file_type == FileType::Directory;
        if is_directory && ancestors.contains(&work.object()) {
            return Err(Error::Invalid);
        }
        let changes_parent = work.from.0 != work.to.0;
        if is_directory && changes_parent {
            permission::check(who, &object, WRITE)?;
        }
        if let Some(replaced) = &work.replaced {
            if replaced.ino == work.object.ino {
                return Ok(());
            }
            let replaced = record(held, work.to.0.sibling(replaced.ino));
            permission::check_remove(who, &to, &replaced)?;
            match (is_directory, replaced.file_type == FileType::Directory) {
                (true, false) => return Err(Error::NotDirectory),
                (false, true) => return Err(Error::IsDirectory),
                (true, true) if replaced.entries > 0 => return Err(Error::NotEmpty),
                _ => {}
            }
        } else if is_directory && changes_parent && to.links >= DIRECTORY_LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        Ok(())
    }

    /// Journals the rename and updates the records of all but the replaced object. Returns what remains of that
    /// object, if there is one.
    fn move_name(
        &self,
        change: &mut Change<'_>,
        held: &mut LockedInodes,
        work: &Move<'_>,
        stamp: Time,
    ) -> Option<Option<InodeRecord>> {
        let is_directory = work.object.file_type == FileType::Directory;
        let changes_parent = work.from.0 != work.to.0;
        let record = self.drop_name(
            change,
            (work.from.0, held.get(work.from.0).record()),
            work.from.1,
            &work.object,
            stamp,
        );
        *held.get(work.from.0).record_mut() = record;
        let mut left = None;
        if let Some(replaced) = &work.replaced {
            let mut record =
                self.drop_name(change, (work.to.0, held.get(work.to.0).record()), work.to.1, replaced, stamp);
            if replaced.file_type == FileType::Directory {
                record.links -= 1;
            }
            *held.get(work.to.0).record_mut() = record;
            left = Some(self.unlink(change, held.get(work.to.0.sibling(replaced.ino)), stamp));
        }
        let target = (work.object.ino, work.object.file_type);
        let record =
            self.add_name(change, (work.to.0, held.get(work.to.0).record()), work.to.1, target, stamp);
        *held.get(work.to.0).record_mut() = record;
        let object = held.get(work.object()).record_mut();
        self.touch(object, stamp, false);
        if is_directory && changes_parent {
            object.parent = work.to.0.ino;
            held.get(work.from.0).record_mut().links -= 1;
            held.get(work.to.0).record_mut().links += 1;
        }
        for id in [work.from.0, work.to.0, work.object()] {
            change.put_inode(id, held.get(id).record());
        }
        left
    }
}

/// Checks that the caller may take an object out of one directory and put it into another.
fn check_may_rename(
    who: &Credentials,
    held: &mut LockedInodes,
    (from, to): (ObjectId, ObjectId),
    object: ObjectId,
) -> Result<(), Error> {
    let is_move = from != to;
    let [from, to, object] = [from, to, object].map(|id| held.get(id).record().clone());
    check_directory(&from)?;
    check_directory(&to)?;
    permission::check_remove(who, &from, &object)?;
    permission::check_change_names(who, &to)?;
    // A tree moves as a whole only within its parent, and so does what a tree that is being made or deleted has not met yet.
    if is_move && (from.tree != to.tree || object.tree != from.tree) {
        return Err(Error::CrossDevice);
    }
    Ok(())
}
