//! Makes, lists and deletes quota trees of volumes of open pools.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use volume::ids::Ino;
use volume::request::{Access, Credentials, Durability, Error as EngineError, Request};
use volume::results::Whereabouts;
use volume::trees::{QuotaTree, TreeError, TreeState as EngineState};
use volume::{Progress, Volume};

use crate::clock::now;
use crate::error::{Error, ErrorKind};

use super::{failed, with_room};

/// How far a quota tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TreeState {
    /// Everything beneath its directory is in it.
    Ready,
    /// What its directory held before is being moved into it.
    Creating,
    /// What is in it is being moved out of it.
    Deleting,
    /// It cannot be: what was moved into it is moved out of it again.
    Refused,
}

impl TreeState {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TreeState::Ready => "ready",
            TreeState::Creating => "creating",
            TreeState::Deleting => "deleting",
            TreeState::Refused => "refused",
        }
    }
}

/// A quota tree to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewTree {
    /// The path of a directory in the volume, such as `/projects/atlas`.
    pub path: String,
}

/// A quota tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeInfo {
    /// Its number, which is the inode number of its directory.
    pub id: u64,
    /// The path of its directory, which clients may change; null if it cannot be found.
    pub path: Option<String>,
    /// How far it is.
    pub state: TreeState,
    /// Why it was refused; null unless it was.
    pub reason: Option<String>,
}

/// A page of quota trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TreeList {
    /// The trees, in the order of their numbers.
    pub trees: Vec<TreeInfo>,
    /// Where the next page begins; null after the last one.
    pub next: Option<u64>,
}

/// Makes a directory a quota tree. Returns its number, and what must be durable before anybody is told.
///
/// # Errors
/// There is no such directory, it cannot be a tree, or the pool takes no changes.
pub fn create(volume: &Volume, new: &NewTree) -> Result<(u64, Durability), Error> {
    let root = find(volume, &new.path)?;
    let (tree, after) = changed(|| volume.create_tree(root, now()))
        .map_err(|error| cannot(volume, &format!("the directory {:?}", new.path), error))?;
    Ok((tree.root.0, after))
}

/// Deletes a quota tree. Returns what must be durable before anybody is told.
///
/// # Errors
/// There is no such tree, or the pool takes no changes.
pub fn delete(volume: &Volume, id: u64) -> Result<Durability, Error> {
    changed(|| volume.delete_tree(Ino(id), now()))
        .map_err(|error| cannot(volume, &format!("tree {id}"), error))
}

/// Which quota trees are meant.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// All of them, beginning with this number.
    From(u64),
    /// The one with this number.
    Id(u64),
    /// The one of the directory with this path.
    Path(&'a str),
}

/// Lists up to `max` quota trees.
///
/// # Errors
/// They cannot be read, or there is no directory of this path.
pub fn list(volume: &Volume, which: Which<'_>, max: usize) -> Result<TreeList, Error> {
    let (first, last) = match which {
        Which::From(first) => (first, u64::MAX),
        Which::Id(id) => (id, id),
        Which::Path(path) => find(volume, path).map(|root| (root.0, root.0))?,
    };
    let mut trees = all(volume)?;
    trees.retain(|tree| (first..=last).contains(&tree.root.0));
    let next = trees.get(max).map(|tree| tree.root.0);
    trees.truncate(max);
    Ok(TreeList { trees: described(volume, &trees), next })
}

/// Returns the quota tree with this number, if there is one.
///
/// # Errors
/// It cannot be read.
pub fn one(volume: &Volume, id: u64) -> Result<Option<TreeInfo>, Error> {
    Ok(list(volume, Which::Id(id), 1)?.trees.pop())
}

fn described(volume: &Volume, trees: &[QuotaTree]) -> Vec<TreeInfo> {
    let roots: BTreeSet<Ino> = trees.iter().map(|tree| tree.root).collect();
    let places = volume.whereabouts(&roots, NAMES_READ_MAX);
    // A directory that could not be a tree may be gone.
    let is_there =
        |tree: &&QuotaTree| !matches!(tree.state, EngineState::Refused(_)) || places.contains_key(&tree.root);
    trees.iter().filter(is_there).map(|tree| describe(tree, &places)).collect()
}

/// Returns the numbers of the quota trees.
///
/// # Errors
/// They cannot be read.
pub(crate) fn numbers(volume: &Volume) -> Result<Vec<u64>, Error> {
    Ok(all(volume)?.iter().map(|tree| tree.root.0).collect())
}

fn all(volume: &Volume) -> Result<Vec<QuotaTree>, Error> {
    volume.trees().map_err(|error| failed("list the trees of", &volume.name(), volume.pool(), error))
}

/// Rounds of background work that may pass without a step of a walk.
const IDLE_ROUNDS_MAX: u32 = 20;

/// Names that are read to find the paths of directories, most of which the cache of names knows.
const NAMES_READ_MAX: u64 = 1_000_000;

fn describe(tree: &QuotaTree, places: &BTreeMap<Ino, Whereabouts>) -> TreeInfo {
    let (state, reason) = match tree.state {
        EngineState::Ready => (TreeState::Ready, None),
        EngineState::Creating => (TreeState::Creating, None),
        EngineState::Deleting => (TreeState::Deleting, None),
        EngineState::Refused(refusal) => (TreeState::Refused, Some(refusal.to_string())),
    };
    let path = places.get(&tree.root).and_then(|place| place.path.as_ref());
    TreeInfo {
        id: tree.root.0,
        path: path.map(|path| String::from_utf8_lossy(path).into_owned()),
        state,
        reason,
    }
}

/// Moves everything into trees that are being made, and out of those that are being deleted, in a pool that no server has open.
///
/// # Errors
/// It cannot be done now; a server, or the next command, goes on.
pub fn finish(volume: &Volume) -> Result<(), Error> {
    let pool = volume.pool();
    let cannot = |error| failed("finish the trees of", &volume.name(), pool, error);
    let mut idle = 0;
    while idle < IDLE_ROUNDS_MAX {
        idle += 1;
        while pool.step_trees(now()) == Progress::Worked {
            idle = 0;
        }
        let trees = volume.trees().map_err(cannot)?;
        let is_done = |tree: &QuotaTree| !matches!(tree.state, EngineState::Creating | EngineState::Deleting);
        if trees.iter().all(is_done) {
            return Ok(());
        }
        // The journal is full.
        pool.step_write_back(now(), true, true);
        while pool.step_commit(now()) == Progress::Worked {}
        pool.step_checkpoint(now(), true);
    }
    Err(cannot(EngineError::Busy))
}

/// Finds a directory by its path.
fn find(volume: &Volume, path: &str) -> Result<Ino, Error> {
    let credentials = Credentials::root();
    let mut at = Ino::ROOT;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let request = Request { credentials: &credentials, now: now(), access: Access::Blocking, key: None };
        let found =
            with_room(|| volume.lookup(&request, at, name.as_bytes()).map_err(|failure| failure.error));
        at = match found {
            Ok(found) => found.value.attributes.ino,
            // Nothing has a name that is too long, or holds a zero byte.
            Err(
                EngineError::NoEntry
                | EngineError::NotDirectory
                | EngineError::NameTooLong
                | EngineError::Invalid,
            ) => {
                return Err(missing(format!("the volume {:?} has no directory {path:?}", volume.name())));
            }
            Err(error) => return Err(failed("find a directory of", &volume.name(), volume.pool(), error)),
        };
    }
    Ok(at)
}

/// Tries a change until it is made, for as long as the pool asks for patience.
fn changed<T>(mut change: impl FnMut() -> Result<T, TreeError>) -> Result<T, TreeError> {
    let mut refused = None;
    let made = with_room(|| match change() {
        Ok(made) => Ok(Some(made)),
        Err(TreeError::Failed(error)) => Err(error),
        Err(other) => {
            refused = Some(other);
            Ok(None)
        }
    });
    match (made, refused) {
        (Ok(Some(made)), _) => Ok(made),
        (Ok(None), Some(other)) => Err(other),
        (Ok(None), None) => Err(TreeError::Missing),
        (Err(error), _) => Err(TreeError::Failed(error)),
    }
}

fn cannot(volume: &Volume, what: &str, error: TreeError) -> Error {
    let name = volume.name();
    match error {
        TreeError::Root => Error::usage(format!(
            "the root of a volume cannot be a quota tree: limit the volume {name:?} with `holdfast quota set --whole-volume`"
        )),
        TreeError::Exists => conflict(format!(
            "{what} of the volume {name:?} is already a quota tree, or is being made or deleted as one"
        )),
        TreeError::Nested => conflict(format!(
            "{what} of the volume {name:?} lies in a quota tree, or has one beneath it: trees do not nest"
        )),
        TreeError::Missing => missing(format!("the volume {name:?} has no quota {what}")),
        TreeError::TooMany => {
            conflict(format!("the volume {name:?} has as many quota trees as it may: delete one first"))
        }
        TreeError::Failed(EngineError::NotDirectory) => {
            Error::usage(format!("{what} of the volume {name:?} is not a directory"))
        }
        TreeError::Failed(EngineError::Stale) => {
            missing(format!("{what} of the volume {name:?} was removed meanwhile"))
        }
        TreeError::Failed(error) => failed("change the quota trees of", &name, volume.pool(), error),
    }
}

fn conflict(sentence: String) -> Error {
    Error { kind: ErrorKind::Conflict, sentence }
}

fn missing(sentence: String) -> Error {
    Error { kind: ErrorKind::NotFound, sentence }
}
