//! Quota trees are made, listed and deleted while volumes are served.

use crate::api::attributes::FileType;
use crate::api::ids::{Ino, ObjectId};
use crate::api::quotas::Owner;
use crate::api::request::{Access, Durability, Error, Failure, Promised};
use crate::api::time::Time;
use crate::api::trees::{QuotaTree, TreeError, TreeState};
use crate::encoding::key;
use crate::encoding::record::TreeRecord;
use crate::file::inodes::{InodeState, LockedInode};
use crate::limits::{DIRECTORY_DEPTH_MAX, TREES_MAX};
use crate::pool::Subject;
use crate::quotas::{Kinds, Owners};
use crate::schedule::trees::{Walk, Way};
use crate::transaction::attempt::Stop;
use crate::transaction::change::Change;
use crate::transaction::growth::move_growth;
use crate::transaction::objects::signed;
use crate::volume::Volume;

impl From<Error> for TreeError {
    fn from(error: Error) -> TreeError {
        TreeError::Failed(error)
    }
}

impl Volume {
    /// Makes a directory a quota tree. If the directory is empty, it is one at once; otherwise [`crate::Pool::step_trees`] moves what
    /// is beneath it into the tree. New objects in directories of a tree are in the tree. May read media.
    ///
    /// # Errors
    /// See [`TreeError`]; and those of every change.
    pub fn create_tree(&self, root: Ino, now: Time) -> Result<(QuotaTree, Durability), TreeError> {
        let _one_at_a_time = self.volume_changes.lock();
        let id = self.object(root);
        if root == Ino::ROOT {
            return Err(TreeError::Root);
        }
        let trees = self.tree_records(self.number())?;
        if trees.iter().any(|(known, _)| *known == id) {
            return Err(TreeError::Exists);
        }
        if trees.len() >= TREES_MAX {
            return Err(TreeError::TooMany);
        }
        for (other, record) in &trees {
            let is_unfinished = record.state != TreeState::Ready;
            if self.is_above(id, *other)? || is_unfinished && self.is_above(*other, id)? {
                return Err(TreeError::Nested);
            }
        }
        let made = self.run(Access::Blocking, |attempt| {
            let mut state = attempt.lock(id)?;
            let record = state.record();
            if record.file_type != FileType::Directory {
                return Err(Error::NotDirectory.into());
            }
            if record.tree != 0 {
                return Err(Error::CrossDevice.into());
            }
            let tree = if record.entries == 0 { TreeState::Ready } else { TreeState::Creating };
            let mut change = self.change_tree(&mut state, root.0, now, Volume::begin)?;
            change.put_inode(id, state.record());
            change.put_tree(id, tree);
            let seq = change.commit();
            state.journaled(seq);
            self.trees.forget(id);
            if tree == TreeState::Creating {
                self.trees.begin(Walk::new(id, Way::In));
            }
            Ok(Promised { value: tree, after: Durability::of(seq) })
        });
        match made {
            Ok(Promised { value, after }) => Ok((QuotaTree { root, state: value }, after)),
            Err(Failure { error: Error::CrossDevice, .. }) => Err(TreeError::Nested),
            Err(failure) => Err(failure.error.into()),
        }
    }

    /// Deletes a quota tree and its limits; the directory stays, and what is in it. Reads media.
    ///
    /// # Errors
    /// [`TreeError::Missing`]; and those of every change.
    pub fn delete_tree(&self, root: Ino, now: Time) -> Result<Durability, TreeError> {
        let _one_at_a_time = self.volume_changes.lock();
        let id = self.object(root);
        let _no_walk = self.trees.run();
        self.trees.load(|| self.unfinished_trees());
        match self.tree_state(id)? {
            None => Err(TreeError::Missing),
            Some(TreeState::Deleting | TreeState::Refused(_)) => Ok(self.everything_so_far()),
            Some(TreeState::Ready | TreeState::Creating) => {
                match self.begin_leaving(id, TreeState::Deleting, now) {
                    Err(Error::Stale) => Err(TreeError::Missing),
                    begun => Ok(begun?),
                }
            }
        }
    }

    /// Returns the quota trees in the order of their numbers, with those that were refused since the pool was opened. Reads media.
    ///
    /// # Errors
    /// `Io` if a record is lost.
    pub fn trees(&self) -> Result<Vec<QuotaTree>, Error> {
        let records = self.tree_records(self.number())?;
        let mut trees: Vec<QuotaTree> = records
            .iter()
            .map(|(id, TreeRecord { state })| QuotaTree { root: id.ino, state: *state })
            .collect();
        for (id, refusal) in self.trees.refused() {
            if id.volume == self.number() && !trees.iter().any(|tree| tree.root == id.ino) {
                trees.push(QuotaTree { root: id.ino, state: TreeState::Refused(refusal) });
            }
        }
        trees.sort_by_key(|tree| tree.root);
        Ok(trees)
    }

    /// Returns how far a quota tree is, if there is one of this directory. Reads media.
    fn tree_state(&self, id: ObjectId) -> Result<Option<TreeState>, Error> {
        let found = self.view().get(&key::tree(id));
        let of = Subject::Object(id);
        let found = found.map_err(|error| self.index_failed(of, &error))?;
        found.map(|value| Ok(self.decode(of, TreeRecord::decode(&value))?.state)).transpose()
    }

    /// Locks the directory of a quota tree that may be limited, so that the tree stays. Reads media.
    ///
    /// # Errors
    /// `NoEntry` if there is no such tree.
    pub(crate) fn lock_tree(&self, owner: Owner) -> Result<LockedInode, Error> {
        let id = self.object(Ino(owner.id));
        let locked = self.run(Access::Blocking, |attempt| {
            Ok(Promised { value: attempt.lock(id)?, after: Durability::NOW })
        });
        match locked {
            // It leaves its tree, or is removed with it, at once.
            Ok(Promised { value, .. }) if value.record().tree == owner.id => Ok(value),
            Ok(_) | Err(Failure { error: Error::Stale, .. }) => Err(Error::NoEntry),
            Err(failure) => Err(failure.error),
        }
    }

    /// Moves the directory of a tree out of it, and has what is in it follow. No walk may take a step.
    pub(crate) fn begin_leaving(
        &self,
        id: ObjectId,
        state: TreeState,
        now: Time,
    ) -> Result<Durability, Error> {
        let begun = self.run(Access::Blocking, |attempt| {
            let mut root = attempt.lock(id)?;
            let is_empty = root.record().entries == 0;
            let mut change = self.change_tree(&mut root, 0, now, Volume::begin_freeing)?;
            change.put_inode(id, root.record());
            change.remove_tree_quota(id);
            if is_empty {
                change.delete(key::tree(id));
            } else {
                change.put_tree(id, state);
            }
            let seq = change.commit();
            root.journaled(seq);
            if is_empty {
                self.trees.forget(id);
            } else {
                self.trees.begin(Walk::new(id, Way::Out));
            }
            Ok(Promised { value: (), after: Durability::of(seq) })
        });
        begun.map(|begun| begun.after).map_err(|failure| failure.error)
    }

    /// Moves a locked object with its usage to another tree, whatever the limits of that are: they refuse growth. The caller puts
    /// its record into the transaction that `begin` begins.
    pub(crate) fn change_tree<'v>(
        &'v self,
        state: &mut InodeState,
        tree: u64,
        now: Time,
        begin: impl FnOnce(&'v Volume) -> Result<Change<'v>, Error>,
    ) -> Result<Change<'v>, Stop> {
        let old = state.record().clone();
        let owners = Owners::new(tree, old.uid, old.gid);
        let growth = self.reserve_for_new_owners(state, (owners, Kinds::ALL), 0, now)?;
        let mut change = begin(self)?;
        change.move_usage(&old, tree, signed(old.usage_bytes()));
        move_growth(&mut change, state, owners, growth);
        state.record_mut().tree = tree;
        Ok(change)
    }

    /// Whether a directory is above another one.
    fn is_above(&self, above: ObjectId, below: ObjectId) -> Result<bool, Error> {
        let mut at = below;
        for _ in 0..DIRECTORY_DEPTH_MAX {
            if at.ino == Ino::ROOT {
                return Ok(false);
            }
            let parent = self.run(Access::Blocking, |attempt| {
                let state = attempt.lock(at)?;
                Ok(Promised { value: state.record().parent, after: Durability::NOW })
            });
            match parent {
                Ok(parent) => at = at.sibling(parent.value),
                // It was removed meanwhile.
                Err(Failure { error: Error::Stale, .. }) => return Ok(false),
                Err(failure) => return Err(failure.error),
            }
            if at == above {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
