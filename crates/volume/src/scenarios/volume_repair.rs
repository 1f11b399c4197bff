//! The repair of a pool with several volumes.

use std::sync::Arc;

use super::volumes::{NOW, assert_clean, content, fill, make, open, work};
use super::world::{OPTIONS, World};
use crate::api::ids::{Cookie, Ino, VolumeNumber};
use crate::api::quotas::QuotaKind;
use crate::encoding::key;
use crate::encoding::key::Key;
use crate::encoding::record::{NameRecord, UsageRecord};
use crate::media::Media;
use crate::media::memory::MemoryMedia;
use crate::offline::check::{CheckOptions, check};
use crate::offline::repair::{Repaired, repair};
use crate::tables::index::Index;

fn plant(disk: &Arc<MemoryMedia>, changes: &[(Key, Option<Vec<u8>>)]) {
    let index = Index::open(disk.index(), 1 << 20).unwrap();
    let update = index.begin().unwrap();
    let mut records = update.records().unwrap();
    for (key, value) in changes {
        match value {
            Some(value) => records.put(key, value).unwrap(),
            None => records.delete(key).unwrap(),
        }
    }
    drop(records);
    update.commit().unwrap();
}

fn mend(disk: &Arc<MemoryMedia>) -> Repaired {
    repair(&(Arc::clone(disk) as Arc<dyn Media>), &OPTIONS, 100, NOW).unwrap()
}

#[test]
fn each_volume_of_a_pool_is_repaired() {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let (one, other) = (make(&pool, "one", 11), make(&pool, "other", 12));
    let kept = fill(&world.volume, b"kept", &[1; 60_000]);
    fill(&one, b"f", &[2; 70_000]);
    let (named, nameless) = (fill(&other, b"f", &[3; 80_000]), fill(&other, b"g", &[4; 90_000]));
    work(&pool);
    pool.close(NOW).unwrap();
    let disk = world.disk.after_kill();
    assert!(!mend(&disk).is_replaced, "there is nothing to repair");

    let root = other.object(Ino::ROOT);
    let cookie = |name: &[u8]| -> Cookie {
        let value = pool.view().get(&key::name(root, name)).unwrap().unwrap();
        NameRecord::decode(&value).unwrap().cookie
    };
    let wrong = UsageRecord { bytes: 5, inodes: 1 };
    plant(
        &disk,
        &[
            (key::cookie(root, cookie(b"f")), None),
            (key::name(root, b"g"), None),
            (key::cookie(root, cookie(b"g")), None),
            (key::usage(one.number(), QuotaKind::Volume.byte(), 0), Some(wrong.encode().to_vec())),
            (key::inode(VolumeNumber(99).object(Ino(5))), Some(vec![0; 10])),
        ],
    );
    let report = check(&(Arc::clone(&disk) as Arc<dyn Media>), &CheckOptions::default()).unwrap();
    assert!(report.faults.iter().any(|fault| fault.what.contains("volume 99, which does not exist")));
    let repaired = mend(&disk);
    assert_clean(&disk);
    assert!(!mend(&disk).is_replaced, "nothing is left to be repaired");
    let tally = repaired.tally;
    assert_eq!((tally.names_restored, tally.objects_found, tally.records_dropped), (1, 1, 1), "{tally}");
    let paths: Vec<_> = repaired.changes.iter().filter_map(|change| change.path.clone()).collect();
    assert_eq!(paths, [format!("other:/lost+found/#{nameless}")]);

    let pool = open(&disk);
    let volume = |name| pool.volume(name).unwrap();
    assert_eq!(content(&volume("main"), kept), Ok(60_000));
    assert_eq!(content(&volume("other"), named), Ok(80_000));
    assert_eq!(content(&volume("other"), nameless), Ok(90_000));
    assert_eq!(pool.usage.of(volume("one").number()).bytes, 70_000);
    pool.delete_volume(&volume("other")).unwrap();
    work(&pool);
    assert!(pool.deletions.list().is_empty());
    assert_clean(&disk);
}
