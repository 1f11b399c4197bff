//! Checks that every object is in the quota tree that its directory is in.

use super::FaultKind;
use super::findings::Findings;
use super::tree::{Node, Tree};
use super::view::View;
use crate::api::ids::Ino;
use crate::api::trees::TreeState;
use crate::encoding::key;

/// Checks that each quota tree has a directory. One that is being left may have lost it: once empty, a directory can be removed, and
/// the walk deletes the tree at its end.
pub(super) fn check_roots(view: &View, tree: &Tree, findings: &mut Findings) {
    let kept =
        tree.quota_trees.iter().filter(|(_, state)| matches!(state, TreeState::Ready | TreeState::Creating));
    for (root, _) in kept {
        let is_lost = view.is_lost(&key::inode(view.volume.object(*root)));
        if !tree.is_directory(*root) && !is_lost {
            findings.add(FaultKind::Record, None, format!("quota tree {root} has no directory"));
        }
    }
}

/// Compares the quota tree of an object with that of the directory in which it has its first name. A file without a name stays in
/// its tree, wherever that went.
pub(super) fn check_tree(tree: &Tree, node: &Node, ino: Ino, add: &mut dyn FnMut(String)) {
    let Some(directory) = node.first.and_then(|(directory, _)| tree.nodes.get(&directory)) else { return };
    if directory.lost {
        return;
    }
    let state_of = |id: u64| tree.quota_trees.get(&Ino(id)).copied();
    let is_whole = matches!(state_of(ino.0), Some(TreeState::Ready | TreeState::Creating));
    let expected = if is_whole { ino.0 } else { directory.tree };
    // A walk refuses the tree above once it meets this one.
    if is_whole && state_of(directory.tree) == Some(TreeState::Ready) {
        add(format!("it is a quota tree, but lies in quota tree {}", directory.tree));
    }
    // A walk may have met the one and not yet the other; or two of them, if a tree is made where another one is left.
    let is_walked = |id: u64| state_of(id).is_some_and(|state| state != TreeState::Ready);
    let are_walked = [node.tree, expected].into_iter().all(|id| id == 0 || is_walked(id));
    if node.tree != expected && (is_whole || !are_walked) {
        let name = |id: u64| if id == 0 { "no quota tree".to_owned() } else { format!("quota tree {id}") };
        add(format!("it is in {}, but should be in {}", name(node.tree), name(expected)));
    }
}
