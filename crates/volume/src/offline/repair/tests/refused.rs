//! Repairs that are refused change nothing.

use std::sync::Arc;

use super::planted::{mend, try_mend};
use super::random::hurt;
use super::random_world::grown;
use crate::api::ids::Ino;
use crate::encoding::entry::Entry;
use crate::encoding::key;
use crate::encoding::key::FIRST;
use crate::encoding::record::{ExtentMapping, Source, UsageRecord};
use crate::media::memory::{MemoryMedia, Random};
use crate::offline::check::tests::planter::Planter;
use crate::offline::check::tests::world::report;
use crate::offline::check::{FaultKind, Obstacle};

/// Damages a block of the index that does not hold the record about the volume.
fn hurt_one(media: &Arc<MemoryMedia>) -> Arc<MemoryMedia> {
    for seed in 1..40 {
        let copy = media.after_kill();
        hurt(&copy, &mut Random::new(seed), 1);
        if report(&copy).faults.iter().any(|fault| fault.kind == FaultKind::Lost) {
            return copy;
        }
    }
    panic!("no such block was met")
}

#[test]
fn no_index_is_replaced_if_the_journal_is_damaged() {
    let media = grown(&mut Random::new(1));
    let planter = Planter { media, directory: Ino::ROOT, other: Ino::ROOT, file: Ino(2), symlink: Ino(2) };
    let mapping: ExtentMapping = ExtentMapping { start: 0, birth: 0, source: Source::Lost };
    let records = vec![(key::map(FIRST.object(planter.file), 10), Some(mapping.encode().into()))];
    planter.journal(&Entry { records, ..Default::default() });
    let media = hurt_one(&planter.media);
    let before = (report(&media), media.index_file().bytes());
    assert_eq!((before.0.obstacle, before.0.repairable_faults), (Some(Obstacle::Journal), 0));
    let refused = try_mend(&media).unwrap_err();
    assert!(refused.to_string().contains("journal entry"), "{refused}");
    assert!((report(&media), media.index_file().bytes()) == before);
    assert!(media.damaged_indexes().is_empty());
}

#[test]
fn indexes_that_are_kept_do_not_make_room_for_a_repair() {
    let planter = Planter::new();
    for number in 0..2 {
        planter.put(&key::usage(FIRST, 2, 70 + number), Some(&UsageRecord { bytes: 1, inodes: 1 }.encode()));
        assert!(mend(&planter.media).is_replaced);
    }
    let kept = planter.media.damaged_indexes();
    assert_eq!(kept.len(), 2);
    // Enough for the first copy, but not for both.
    hurt(&planter.media, &mut Random::new(1), 1);
    let needed = 2 * planter.media.index_file().bytes().len() as u64;
    let before = planter.media.index_file().bytes();
    for available in [1, needed - 1] {
        planter.media.set_available(available);
        let refused = try_mend(&planter.media).unwrap_err();
        assert!(refused.to_string().contains(&format!("need {needed} bytes of free space")), "{refused}");
        assert!(planter.media.index_file().bytes() == before);
        let now = planter.media.damaged_indexes();
        assert!(now.len() == 2 && now.iter().zip(&kept).all(|(now, then)| Arc::ptr_eq(now, then)));
    }
    planter.media.set_available(needed);
    mend(&planter.media);
    assert_eq!(planter.media.damaged_indexes().len(), 3);
}
