//! Puts every object into the quota tree that its directory is in.

use std::collections::BTreeMap;

use super::pass::{Pass, each};
use crate::api::ids::Ino;
use crate::api::trees::TreeState;
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::TreeRecord;
use crate::tables::index::IndexError;

impl Pass<'_, '_> {
    /// Finds out which quota tree each object is in, now that all of them have a name. Drops trees without a directory.
    pub(super) fn mend_quota_trees(&mut self) -> Result<(), IndexError> {
        let mut trees: BTreeMap<Ino, TreeState> = BTreeMap::new();
        let view = self.view;
        each(view, self.volume, Table::Tree, &mut |fields, value| {
            let (Some(root), Ok(record)) = (key::number(fields).map(Ino), TreeRecord::decode(value)) else {
                return Ok(());
            };
            if self.objects.get(&root).is_some_and(|object| object.is_directory()) {
                trees.insert(root, record.state);
                return Ok(());
            }
            self.changes.tally.records_dropped += 1;
            self.out.delete(&key::tree(self.volume.object(root)))
        })?;
        let mut known: BTreeMap<Ino, Option<Ino>> = BTreeMap::from([(Ino::ROOT, None)]);
        let all: Vec<Ino> = self.objects.keys().copied().collect();
        for ino in all {
            let Some((directory, _)) = self.objects.get(&ino).and_then(|object| object.first) else {
                continue;
            };
            let above = if trees.contains_key(&ino) {
                Some(ino)
            } else {
                self.tree_above(directory, &trees, &mut known)
            };
            if let Some(object) = self.objects.get_mut(&ino) {
                object.tree = tree_of(above.and_then(|root| Some((root, *trees.get(&root)?))), object.tree);
            }
        }
        Ok(())
    }

    /// Returns the directory of the tree that a directory is in or beneath.
    fn tree_above(
        &self,
        directory: Ino,
        trees: &BTreeMap<Ino, TreeState>,
        known: &mut BTreeMap<Ino, Option<Ino>>,
    ) -> Option<Ino> {
        let (mut at, mut path) = (directory, Vec::new());
        let found = loop {
            if let Some(found) = known.get(&at) {
                break *found;
            }
            path.push(at);
            if trees.contains_key(&at) {
                break Some(at);
            }
            match self.objects.get(&at).and_then(|object| object.first) {
                Some((parent, _)) if path.len() <= self.objects.len() => at = parent,
                _ => break None,
            }
        };
        known.extend(path.into_iter().map(|at| (at, found)));
        found
    }
}

/// Returns the tree of an object that is in or beneath the directory of a tree, or of none. What a tree that is being made or
/// deleted has not met yet stays.
fn tree_of(above: Option<(Ino, TreeState)>, before: u64) -> u64 {
    match above {
        None => 0,
        Some((root, TreeState::Ready)) => root.0,
        Some((root, _)) if before == 0 || before == root.0 => before,
        Some((root, TreeState::Creating)) => root.0,
        Some(_) => 0,
    }
}
