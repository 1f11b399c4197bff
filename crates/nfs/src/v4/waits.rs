//! What the reply to a COMPOUND waits for.

use std::sync::Arc;

use volume::ids::VolumeId;
use volume::request::{Durability, Durable};
use volume::volume::Volume;

/// The contents of a volume that must be durable.
pub(super) type Wait<'c> = (&'c Arc<Volume>, Durability);

/// What a reply waits for. Nearly always there is only one.
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
        match known.find(|(other, all)| Arc::ptr_eq(other, volume) && includes_failures(*all, after)) {
            Some((_, all)) => *all = all.and(after),
            None => self.others.push((volume, after)),
        }
    }

    /// Returns those on which the reply depends: one that never will be durable, or those that are not yet.
    pub(super) fn decisive(&self) -> impl Iterator<Item = Wait<'c>> {
        let failed = self.iter().find(|(volume, after)| volume.durability(*after) == Durable::Failed);
        let others = self.iter().filter(is_outstanding).filter(move |_| failed.is_none());
        failed.into_iter().chain(others)
    }

    /// Returns all, durable or not.
    pub(super) fn iter(&self) -> impl Iterator<Item = Wait<'c>> {
        self.first.iter().chain(&self.others).copied()
    }

    /// Returns what is not durable yet, or never will be; none if there is nothing.
    ///
    /// # Errors
    /// [`Several`] are not durable yet.
    pub(super) fn only(&self) -> Result<Option<(VolumeId, Durability)>, Several> {
        if self.others.is_empty() {
            return Ok(self.first.filter(is_outstanding).map(|(volume, after)| (volume.id(), after)));
        }
        let mut outstanding = None;
        let mut is_only = true;
        for (volume, after) in self.iter() {
            match volume.durability(after) {
                Durable::Yes => {}
                // Whatever the others become, the reply is an error.
                Durable::Failed => return Ok(Some((volume.id(), after))),
                Durable::NotYet => is_only &= outstanding.replace((volume.id(), after)).is_none(),
            }
        }
        if is_only { Ok(outstanding) } else { Err(Several) }
    }
}

fn is_outstanding((volume, after): &Wait<'_>) -> bool {
    volume.durability(*after) != Durable::Yes
}

/// Whether waiting for both in one ([`Durability::and`]) shows a failure of each. Of the flushes of two files, the earlier may
/// fail and the later succeed.
fn includes_failures(one: Durability, other: Durability) -> bool {
    let (one, other) = (one.flush, other.flush);
    one.generation.min(other.generation) == 0
        || one.generation == other.generation
        || (one.file.is_some() && one.file == other.file)
}

/// A reply cannot wait for several things at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Several;

#[cfg(test)]
mod tests {
    use volume::ids::{Ino, ObjectId, VolumeNumber};
    use volume::request::FlushWait;

    use super::*;

    fn flush(generation: u64, ino: u64) -> Durability {
        let file = (ino > 0).then_some(ObjectId { volume: VolumeNumber(1), ino: Ino(ino) });
        Durability { flush: FlushWait { generation, file }, ..Durability::NOW }
    }

    #[test]
    fn the_flush_of_one_file_does_not_stand_for_an_earlier_one_of_another() {
        assert!(!includes_failures(flush(10, 1), flush(22, 2)));
        assert!(!includes_failures(flush(11, 0), flush(10, 1)));
        assert!(!includes_failures(flush(10, 0), flush(12, 0)));
        assert!(includes_failures(flush(10, 1), flush(22, 1)), "the later one includes what is unstable");
        assert!(includes_failures(flush(10, 1), flush(10, 2)), "it stands for all files");
        assert!(includes_failures(flush(10, 1), Durability::NOW));
    }
}
