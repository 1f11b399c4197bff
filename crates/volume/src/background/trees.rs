//! Moves what is beneath the directory of a quota tree into the tree, or out of it: object by object, each in an entry of its own.
//!
//! While that goes on, RENAME and LINK refuse to take objects from one directory to another that is in another tree, or that
//! were not moved yet (`ops/rename.rs`, `ops/link.rs`). So what was moved stays beneath the directory of the tree, and what was not
//! is met later. A file with several names is moved into the tree only once all of them were met: one that is outside could
//! become the last.

use std::sync::Arc;

use crate::api::attributes::FileType;
use crate::api::ids::{Cookie, Ino, ObjectId, VolumeNumber};
use crate::api::request::{Access, Durability, Error, Failure, Promised};
use crate::api::time::Time;
use crate::api::trees::{Refusal, TreeState};
use crate::background::Progress;
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{CookieRecord, TreeRecord};
use crate::pool::{Pool, Subject};
use crate::schedule::trees::{Frame, Links, Walk, Way};
use crate::transaction::attempt::Stop;
use crate::volume::Volume;

/// Names that one step looks at: some milliseconds' work.
const NAMES_PER_STEP: usize = 256;

/// Names that are read at a time.
const PAGE: usize = 64;

/// Most files with several names of which some were not met.
const LINKED_MAX: usize = 100_000;

/// Most walks in which names of such files change meanwhile.
const WALKS_MAX: u32 = 4;

/// What became of a name.
enum Met {
    /// It is gone.
    Nothing,
    /// Its object is in the tree now, or has names that were not met. A directory is to be read.
    Moved { directory: Option<Ino> },
    /// Its object is in another tree.
    Foreign,
}

/// Why a walk stopped.
enum Halt {
    /// The tree cannot be.
    Refused(Refusal),
    /// It goes on later, or not if the volume is gone.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Failed(error)
    }
}

impl Pool {
    /// Moves a few objects into a quota tree that is being made, or out of one that is being deleted. May read media.
    pub fn step_trees(self: &Arc<Pool>, now: Time) -> Progress {
        let _one_at_a_time = self.trees.run();
        self.trees.load(|| self.unfinished_trees());
        let Some(mut walk) = self.trees.take() else { return Progress::Idle };
        let own = self.volumes.read().get(&walk.root.volume).cloned();
        let Some(own) = own else { return Progress::Worked };
        let volume = Volume::new(Arc::clone(self), own);
        match volume.walk_some(&mut walk, now) {
            Ok(true) => Progress::Worked,
            Ok(false) => {
                self.trees.put(walk);
                Progress::Worked
            }
            Err(Halt::Refused(refusal)) => volume.refuse_tree(walk, refusal, now),
            Err(Halt::Failed(Error::Stale)) => Progress::Worked,
            Err(Halt::Failed(error)) if error.is_busy() || error == Error::ReadOnly => {
                self.trees.put(walk);
                Progress::Idle
            }
            Err(Halt::Failed(_)) if walk.way == Way::In => volume.refuse_tree(walk, Refusal::Damaged, now),
            Err(Halt::Failed(error)) => {
                // It was logged what cannot be read. The next start tries again.
                let (volume, tree) = (volume.name(), walk.root.ino.0);
                tracing::error!(volume = %volume, tree, %error, "a quota tree cannot be deleted");
                Progress::Worked
            }
        }
    }

    /// Returns the walks that are not done, as the records of trees say. Those of a volume that has lost some stay as they are until
    /// it is repaired.
    pub(crate) fn unfinished_trees(&self) -> Vec<Walk> {
        let volumes: Vec<VolumeNumber> = self.volumes.read().keys().copied().collect();
        let records = volumes.into_iter().filter_map(|volume| self.tree_records(volume).ok()).flatten();
        let walk_of = |(root, TreeRecord { state })| match state {
            TreeState::Ready => None,
            TreeState::Creating => Some(Walk::new(root, Way::In)),
            TreeState::Deleting | TreeState::Refused(_) => Some(Walk::new(root, Way::Out)),
        };
        records.filter_map(walk_of).collect()
    }

    /// Returns the records of the trees of a volume. Reads media.
    pub(crate) fn tree_records(&self, volume: VolumeNumber) -> Result<Vec<(ObjectId, TreeRecord)>, Error> {
        let mut records = Vec::new();
        let read = self.view().each_of(volume, Table::Tree, &mut |key, value| {
            let record = TreeRecord::decode(value);
            records.extend(key::object(key).map(|root| (root, record)));
        });
        read.map_err(|error| self.index_failed(Subject::Pool, &error))?;
        let mut decoded = Vec::with_capacity(records.len());
        for (root, record) in records {
            decoded.push((root, self.decode(Subject::Object(root), record)?));
        }
        Ok(decoded)
    }
}

impl Volume {
    /// Goes on with a walk. Returns whether it is done.
    fn walk_some(&self, walk: &mut Walk, now: Time) -> Result<bool, Halt> {
        for _ in 0..NAMES_PER_STEP {
            let Some(frame) = walk.stack.last_mut() else { return self.end_walk(walk) };
            let Some((cookie, name)) = frame.page.front().cloned() else {
                if !self.read_names(frame, walk.way)? {
                    walk.stack.pop();
                }
                continue;
            };
            let directory = frame.directory;
            let met = match self.meet(walk, (directory, cookie), &name, now) {
                // What cannot be read stays in the tree, until a repair.
                Err(Error::Io) if walk.way == Way::Out => Met::Nothing,
                met => met?,
            };
            if let Some(frame) = walk.stack.last_mut() {
                frame.page.pop_front();
                frame.after = cookie;
            }
            match met {
                Met::Moved { directory: Some(directory) } => walk.enter(directory),
                Met::Foreign if walk.way == Way::In => return Err(Halt::Refused(Refusal::Nested)),
                _ => {}
            }
            if walk.links.len() > LINKED_MAX {
                return Err(Halt::Refused(Refusal::Linked));
            }
        }
        Ok(false)
    }

    /// Reads the next names of a directory. Returns whether there may be any.
    ///
    /// A name that is given to an object anew moves to the end, so that there are none only if that was found after all of them
    /// were given.
    fn read_names(&self, frame: &mut Frame, way: Way) -> Result<bool, Error> {
        let directory = self.object(frame.directory);
        let given = self.run(Access::Blocking, |attempt| {
            let state = attempt.lock(directory)?;
            Ok(done(state.record().next_cookie))
        });
        let given = match given {
            Ok(given) => given.value,
            Err(Failure { error: Error::Stale, .. }) => return Ok(false),
            Err(Failure { error: Error::Io, .. }) if way == Way::Out => return Ok(false),
            Err(failure) => return Err(failure.error),
        };
        if frame.is_empty && frame.given == given {
            return Ok(false);
        }
        frame.given = given;
        match self.names_after(directory, frame.after) {
            Err(Error::Io) if way == Way::Out => return Ok(false),
            names => frame.page.extend(names?),
        }
        frame.is_empty = frame.page.is_empty();
        Ok(true)
    }

    /// Returns the next names of a directory, in the order of their cookies.
    fn names_after(&self, directory: ObjectId, after: Cookie) -> Result<Vec<(Cookie, Arc<[u8]>)>, Error> {
        let of = Subject::Object(directory);
        let (from, to) =
            (key::cookie(directory, Cookie(after.0 + 1)), key::cookie(directory, Cookie(u64::MAX)));
        let found = self.view().scan(&from, &to, PAGE).map_err(|error| self.index_failed(of, &error))?;
        let decoded = found.into_iter().map(|(key, value)| {
            let cookie = key::parse(&key).and_then(|(_, _, fields)| key::second_number(fields)).map(Cookie);
            let cookie = cookie.ok_or_else(|| self.report(of, &"a name's key is malformed"))?;
            Ok((cookie, self.decode(of, CookieRecord::decode(&value))?.name.to_vec().into()))
        });
        decoded.collect()
    }

    /// Moves the object that a name refers to, if it still does and was not moved yet.
    fn meet(
        &self,
        walk: &mut Walk,
        (directory, cookie): (Ino, Cookie),
        name: &[u8],
        now: Time,
    ) -> Result<Met, Error> {
        let (leaves, enters) = walk.trees();
        let directory = self.object(directory);
        let met = self.run(Access::Blocking, |attempt| {
            let (mut held, [found]) = match attempt.lock_names([(directory, name)], &[]) {
                Err(Stop::Failed(Failure { error: Error::Stale, .. })) => return Ok(done(Met::Nothing)),
                locked => locked?,
            };
            let Some(found) = found.filter(|found| found.cookie == cookie) else {
                return Ok(done(Met::Nothing));
            };
            let state = held.get(directory.sibling(found.ino));
            let record = state.record();
            let is_directory = record.file_type == FileType::Directory;
            if record.tree != leaves && record.tree != enters {
                return Ok(done(Met::Foreign));
            }
            let (links, ctime) = (record.links, record.ctime);
            let is_linked = !is_directory && links > 1 && walk.way == Way::In;
            let name = (directory.ino, cookie);
            if record.tree == leaves && (!is_linked || walk.note_link(found.ino, name, (links, ctime))) {
                let mut change = self.change_tree(state, enters, now, Volume::begin_freeing)?;
                change.put_inode(state.id, state.record());
                let seq = change.commit();
                state.journaled(seq);
                walk.links.remove(&found.ino);
            }
            Ok(done(Met::Moved { directory: is_directory.then_some(found.ino) }))
        });
        met.map(|met| met.value).map_err(|failure| failure.error)
    }

    /// Ends a walk that met everything. Returns whether the tree is what it was to be; otherwise the walk begins anew.
    fn end_walk(&self, walk: &mut Walk) -> Result<bool, Halt> {
        let root = walk.root;
        if walk.way == Way::Out {
            let mut change = self.begin_freeing()?;
            change.delete(key::tree(root));
            change.commit();
            tracing::info!(event = "tree", volume = %self.name(), tree = root.ino.0, "quota tree deleted");
            return Ok(true);
        }
        if self.has_unmet_names(walk)? {
            walk.repeat();
            return Ok(false);
        }
        let ended = self.run(Access::Blocking, |attempt| {
            // Its record was removed with it.
            let _root = attempt.lock(root)?;
            let mut change = self.begin_freeing()?;
            change.put_tree(root, TreeState::Ready);
            change.commit();
            Ok(done(()))
        });
        ended.map_err(|failure| failure.error)?;
        tracing::info!(event = "tree", volume = %self.name(), tree = root.ino.0, "quota tree made");
        Ok(true)
    }

    /// Whether files with several names were not moved, but may be beneath the directory with all of them.
    ///
    /// # Errors
    /// One of them is not.
    fn has_unmet_names(&self, walk: &Walk) -> Result<bool, Halt> {
        let mut is_any_changed = false;
        for (ino, noted) in &walk.links {
            let seen = self.run(Access::Blocking, |attempt| {
                let state = attempt.lock(self.object(*ino))?;
                Ok(done((state.record().links, state.record().ctime)))
            });
            let (links, ctime) = match seen {
                Ok(seen) => seen.value,
                Err(Failure { error: Error::Stale, .. }) => continue,
                Err(failure) => return Err(failure.error.into()),
            };
            let is_changed = noted.is_changed || ctime != noted.ctime;
            if !is_changed && noted.names.len() < links as usize {
                return Err(Halt::Refused(Refusal::Linked));
            }
            is_any_changed |= is_changed;
        }
        if is_any_changed && walk.before >= WALKS_MAX {
            return Err(Halt::Refused(Refusal::Linked));
        }
        Ok(is_any_changed)
    }

    /// Has everything leave a tree that cannot be.
    fn refuse_tree(&self, walk: Walk, refusal: Refusal, now: Time) -> Progress {
        let root = walk.root;
        match self.begin_leaving(root, TreeState::Refused(refusal), now) {
            Ok(_) => {
                tracing::warn!(event = "tree", volume = %self.name(), tree = root.ino.0, %refusal, "a quota tree cannot be made");
                self.trees.note_refused(root, refusal);
                Progress::Worked
            }
            // It was removed, and its record with it.
            Err(Error::Stale) => Progress::Worked,
            Err(_) => {
                self.trees.put(walk);
                Progress::Idle
            }
        }
    }
}

impl Walk {
    /// Notes a name of a file with several. Returns whether all of them are known, and so beneath the directory: they did not change
    /// since the first was met, and names in directories that were moved cannot go elsewhere.
    fn note_link(&mut self, ino: Ino, name: (Ino, Cookie), (links, ctime): (u32, Time)) -> bool {
        let new = || Links { ctime, is_changed: false, names: Default::default() };
        let noted = self.links.entry(ino).or_insert_with(new);
        noted.is_changed |= noted.ctime != ctime;
        noted.names.insert(name);
        !noted.is_changed && noted.names.len() >= links as usize
    }
}

fn done<T>(value: T) -> Promised<T> {
    Promised { value, after: Durability::NOW }
}
