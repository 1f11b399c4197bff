//! What the reply to a COMPOUND waits for.

use std::sync::Arc;

use volume::request::{Durability, Durable};
use volume::volume::Volume;

/// The contents of a volume that must be durable.
pub(super) type Wait<'c> = (&'c Arc<Volume>, Durability);

/// What a reply waits for, by volume. Nearly always there is only one.
#[derive(Debug, Default)]
pub(super) struct Waits<'c> {
    first: Option<Wait<'c>>,
    others: Vec<Wait<'c>>,
}

impl<'c> Waits<'c> {
    /// Adds something to wait for.
    pub(super) fn add(&mut self, volume: &'c Arc<Volume>, after: Durability) {
        if after == Durability::NOW {
            return;
        }
        let Some(first) = &mut self.first else {
            self.first = Some((volume, after));
            return;
        };
        let mut known = std::iter::once(first).chain(&mut self.others);
        match known.find(|(other, _)| Arc::ptr_eq(other, volume)) {
            Some((_, all)) => *all = all.and(after),
            None => self.others.push((volume, after)),
        }
    }

    /// Returns all, durable or not.
    pub(super) fn iter(&self) -> impl Iterator<Item = Wait<'c>> {
        self.first.iter().chain(&self.others).copied()
    }

    /// Returns what is not durable yet, or never will be.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = Wait<'c>> {
        self.iter().filter(|(volume, after)| volume.durability(*after) != Durable::Yes)
    }
}
