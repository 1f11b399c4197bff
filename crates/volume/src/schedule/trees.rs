//! Quota trees that are being made or deleted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::api::ids::{Cookie, Ino, ObjectId};
use crate::api::time::Time;
use crate::api::trees::Refusal;

/// Most refusals that are remembered.
const REFUSALS_MAX: usize = 64;

/// The walks that are to be done.
#[derive(Debug, Default)]
pub struct TreeJobs {
    /// Held while a walk takes a step, also across I/O, and while one is replaced.
    running: Mutex<()>,
    jobs: Mutex<Jobs>,
}

#[derive(Debug, Default)]
struct Jobs {
    /// Whether the walks that were not done when the pool was opened are among these.
    is_loaded: bool,
    walks: VecDeque<Walk>,
    /// Trees that were refused since the pool was opened.
    refused: VecDeque<(ObjectId, Refusal)>,
}

/// Which way objects go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Out of no tree into the tree.
    In,
    /// Out of the tree into none.
    Out,
}

/// A walk through everything beneath the directory of a tree.
///
/// A directory is moved before its names are read, and the names in the order of their cookies, which new names are given at
/// the end. So whatever is made in it later is in the right tree, and nothing that stays in it is missed. After a restart the
/// walk begins anew: what was moved is only looked at.
#[derive(Debug)]
pub struct Walk {
    /// The directory of the tree.
    pub root: ObjectId,
    /// Which way objects go.
    pub way: Way,
    /// The directories that are being read, from the root downwards.
    pub stack: Vec<Frame>,
    /// Files with several names, until all of these were met.
    pub links: BTreeMap<Ino, Links>,
    /// Walks that were done before, without knowing about all names.
    pub before: u32,
}

/// A directory that is being read.
#[derive(Debug)]
pub struct Frame {
    /// The directory.
    pub directory: Ino,
    /// The cookie after which the names that follow begin.
    pub after: Cookie,
    /// Names that were read.
    pub page: VecDeque<(Cookie, Arc<[u8]>)>,
    /// The next cookie that the directory would give a name, before names were read last.
    pub given: Cookie,
    /// Whether there were none.
    pub is_empty: bool,
}

/// What is known of a file with several names.
#[derive(Debug)]
pub struct Links {
    /// Its change time when the first name was met.
    pub ctime: Time,
    /// Whether it was different later.
    pub is_changed: bool,
    /// The names: directories, and cookies in them.
    pub names: BTreeSet<(Ino, Cookie)>,
}

impl Walk {
    /// Begins a walk. The root was moved.
    pub fn new(root: ObjectId, way: Way) -> Walk {
        let mut walk = Walk { root, way, stack: Vec::new(), links: BTreeMap::new(), before: 0 };
        walk.enter(root.ino);
        walk
    }

    /// Begins anew.
    pub fn repeat(&mut self) {
        *self = Walk { before: self.before + 1, ..Walk::new(self.root, self.way) };
    }

    /// Reads a directory next.
    pub fn enter(&mut self, directory: Ino) {
        let none = Cookie(0);
        let page = VecDeque::new();
        self.stack.push(Frame { directory, after: none, page, given: none, is_empty: false });
    }

    /// Returns the trees that objects leave and enter.
    pub fn trees(&self) -> (u64, u64) {
        match self.way {
            Way::In => (0, self.root.ino.0),
            Way::Out => (self.root.ino.0, 0),
        }
    }
}

impl TreeJobs {
    /// Waits until no walk takes a step; none does until the guard is dropped.
    pub fn run(&self) -> MutexGuard<'_, ()> {
        self.running.lock()
    }

    /// Adds the walks that remain from before the pool was opened, once.
    pub fn load(&self, find: impl FnOnce() -> Vec<Walk>) {
        if self.jobs.lock().is_loaded {
            return;
        }
        let found = find();
        let mut jobs = self.jobs.lock();
        for walk in found {
            if !jobs.walks.iter().any(|known| known.root == walk.root) {
                jobs.walks.push_back(walk);
            }
        }
        jobs.is_loaded = true;
    }

    /// Takes the next walk.
    pub fn take(&self) -> Option<Walk> {
        self.jobs.lock().walks.pop_front()
    }

    /// Puts a walk that is to go on behind the others.
    pub fn put(&self, walk: Walk) {
        self.jobs.lock().walks.push_back(walk);
    }

    /// Begins a walk; ends another one of the same tree.
    pub fn begin(&self, walk: Walk) {
        let mut jobs = self.jobs.lock();
        jobs.refused.retain(|(root, _)| *root != walk.root);
        jobs.walks.retain(|known| known.root != walk.root);
        jobs.walks.push_back(walk);
    }

    /// Forgets what is known of a tree: it was deleted, or is made anew.
    pub fn forget(&self, root: ObjectId) {
        let mut jobs = self.jobs.lock();
        jobs.refused.retain(|(refused, _)| *refused != root);
        jobs.walks.retain(|known| known.root != root);
    }

    /// Notes that a tree was refused.
    pub fn note_refused(&self, root: ObjectId, refusal: Refusal) {
        let mut jobs = self.jobs.lock();
        jobs.refused.push_back((root, refusal));
        if jobs.refused.len() > REFUSALS_MAX {
            jobs.refused.pop_front();
        }
    }

    /// Returns the trees that were refused.
    pub fn refused(&self) -> Vec<(ObjectId, Refusal)> {
        self.jobs.lock().refused.iter().copied().collect()
    }
}
