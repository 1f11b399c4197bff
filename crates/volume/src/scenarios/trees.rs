//! Quota trees: what is in a directory counts for its tree, and no limit of a tree is exceeded.

use super::world::{World, nothing};
use crate::api::ids::Ino;
use std::time::Duration;

use crate::api::quotas::{Exceeded, Grace, Limit, Limits, Owner, QuotaCounts, QuotaKind};
use crate::api::request::Error;
use crate::api::results::Stability;
use crate::api::trees::{Refusal, TreeError, TreeState};
use crate::background::Progress;

/// The quota of the tree of a directory.
fn tree(root: Ino) -> Owner {
    Owner::new(QuotaKind::Tree, root.0)
}

impl World {
    pub(super) fn tree(&mut self, root: Ino) -> Result<TreeState, TreeError> {
        let now = self.now();
        self.volume.create_tree(root, now).map(|(tree, _)| tree.state)
    }

    fn end_tree(&mut self, root: Ino) -> Result<(), TreeError> {
        let now = self.now();
        self.volume.delete_tree(root, now).map(drop)
    }

    /// Lets walks take steps until none has anything to do.
    fn walk(&mut self) {
        loop {
            let now = self.now();
            match self.volume.pool().step_trees(now) {
                Progress::Worked => self.commit(),
                Progress::Idle => return,
            }
        }
    }

    fn state(&self, root: Ino) -> Option<TreeState> {
        let trees = self.volume.trees().unwrap();
        trees.into_iter().find(|tree| tree.root == root).map(|tree| tree.state)
    }

    fn limit_tree(&mut self, root: Ino, bytes: Option<u64>, inodes: Option<u64>) -> Result<(), Error> {
        let limit = |hard| Limit { soft: None, hard };
        self.set_limits(tree(root), Limits { bytes: limit(bytes), inodes: limit(inodes) })
    }

    fn set_limits(&mut self, owner: Owner, limits: Limits) -> Result<(), Error> {
        let now = self.now();
        self.volume.set_quota(owner, Some(limits), now).map(drop)
    }

    fn used_by(&self, root: Ino) -> (u64, u64) {
        let quota = self.volume.quota(tree(root)).unwrap();
        (quota.bytes_used, quota.inodes_used)
    }

    /// Since when the soft limits of a tree are exceeded.
    fn exceeded_by(&self, root: Ino) -> Exceeded {
        self.volume.quota(tree(root)).unwrap().exceeded
    }

    /// Writes, and lets flushes go on until the volume says whether there is room.
    fn fill(&mut self, file: Ino, length: usize, how: Stability) -> Result<(), Error> {
        loop {
            match self.write_how(file, 0, &vec![7; length], how) {
                Err(Error::ObjectBusy) => drop(self.write_back()),
                written => return written.map(drop),
            }
        }
    }
}

#[test]
fn what_is_made_beneath_a_tree_counts_for_it() {
    let mut world = World::new();
    let root = world.mkdir(Ino::ROOT, "tree").unwrap();
    assert_eq!(world.tree(root), Ok(TreeState::Ready));
    let below = world.mkdir(root, "below").unwrap();
    let file = world.create(below, "file").unwrap();
    world.write(file, 0, &[1; 5000]).unwrap();
    world.run(|v, r| v.make_symlink(r, below, b"link", b"file", &Default::default(), &mut nothing)).unwrap();
    let outside = world.file("outside");
    world.write(outside, 0, &[1; 7000]).unwrap();
    assert_eq!(world.used_by(root), (5000, 4));
    world.check();
    world.reopen();
    assert_eq!((world.used_by(root), world.state(root)), ((5000, 4), Some(TreeState::Ready)));
    world.remove(below, "link").unwrap();
    world.truncate(file, 1000).unwrap();
    assert_eq!(world.used_by(root), (1000, 3));
    world.check();
}

#[test]
fn nothing_moves_from_one_tree_to_another() {
    let mut world = World::new();
    let [one, other] = ["one", "other"].map(|name| world.mkdir(Ino::ROOT, name).unwrap());
    assert_eq!([world.tree(one), world.tree(other)], [Ok(TreeState::Ready); 2]);
    let below = world.mkdir(one, "below").unwrap();
    let file = world.create(one, "file").unwrap();
    let outside = world.file("outside");
    for to in [(other, "x"), (Ino::ROOT, "x")] {
        assert_eq!(world.rename((one, "file"), to), Err(Error::CrossDevice));
        assert_eq!(world.rename((one, "below"), to), Err(Error::CrossDevice));
        assert_eq!(world.link(file, to.0, to.1), Err(Error::CrossDevice));
    }
    assert_eq!(world.rename((Ino::ROOT, "outside"), (one, "x")), Err(Error::CrossDevice));
    assert_eq!(world.link(outside, one, "x"), Err(Error::CrossDevice));
    // The directory of a tree is renamed where it is, and does not move.
    world.rename((Ino::ROOT, "one"), (Ino::ROOT, "renamed")).unwrap();
    let elsewhere = world.mkdir(Ino::ROOT, "elsewhere").unwrap();
    assert_eq!(world.rename((Ino::ROOT, "renamed"), (elsewhere, "one")), Err(Error::CrossDevice));
    // Within a tree everything is as ever.
    world.rename((one, "file"), (below, "file")).unwrap();
    world.link(file, one, "again").unwrap();
    assert_eq!(world.used_by(one), (0, 3));
    world.check();
}

#[test]
fn limits_of_a_tree_bind_everybody() {
    let mut world = World::new();
    let root = world.mkdir(Ino::ROOT, "tree").unwrap();
    world.tree(root).unwrap();
    for how in [Stability::Unstable, Stability::FileSync] {
        let used = world.used_by(root);
        world.limit_tree(root, Some(used.0 + 100_000), Some(used.1 + 1)).unwrap();
        let file = world.create(root, &format!("{how:?}")).unwrap();
        assert_eq!(world.create(root, "another"), Err(Error::QuotaExceeded));
        assert_eq!(world.mkdir(root, "another"), Err(Error::QuotaExceeded));
        assert_eq!(world.fill(file, 100_001, how), Err(Error::QuotaExceeded));
        world.fill(file, 100_000, how).unwrap();
        // Nobody else is concerned, and what is there can be written again.
        let outside = world.file(&format!("outside {how:?}"));
        world.fill(outside, 200_000, how).unwrap();
        world.fill(file, 90_000, how).unwrap();
        world.background();
        // A copy takes room of the tree that it is put into, though it shares the data.
        let cloned = world.run(|v, r| v.clone_range(r, (outside, 0), (file, 102_400), 4096));
        assert_eq!(cloned.map(drop), Err(Error::QuotaExceeded));
        let copied = world.run(|v, r| v.copy_range(r, (outside, 0), (file, 102_400), 4096));
        assert_eq!(copied.map(drop), Err(Error::QuotaExceeded));
        assert_eq!(world.used_by(root), (used.0 + 100_000, used.1 + 1));
        world.limit_tree(root, None, None).unwrap();
    }
    world.check();
}

#[test]
fn soft_limits_of_a_tree_may_be_exceeded_for_the_grace_period_over_restarts() {
    const SOFT: u64 = 1000;
    let mut world = World::new();
    let [bytes, inodes] = ["bytes", "inodes"].map(|name| world.mkdir(Ino::ROOT, name).unwrap());
    let file = world.create(bytes, "file").unwrap();
    for root in [bytes, inodes] {
        let made = world.tree(root).unwrap();
        assert_eq!(made == TreeState::Ready, root == inodes);
        world.walk();
    }
    // Limits of its own, and those of all other trees.
    let soft = |soft, hard| Limit { soft: Some(soft), hard: Some(hard) };
    let limits = Limits { bytes: soft(SOFT, 4 * SOFT), ..Limits::default() };
    world.set_limits(tree(bytes), limits).unwrap();
    let limits = Limits { inodes: soft(2, 5), ..Limits::default() };
    world.set_limits(Owner::others(QuotaKind::Tree), limits).unwrap();
    let grace = Grace { bytes: Duration::from_secs(100), inodes: Duration::from_secs(200) };
    let now = world.now();
    world.volume.set_grace(QuotaKind::Tree, Some(grace), now).unwrap();
    world.fill(file, 1000, Stability::FileSync).unwrap();
    world.create(inodes, "first").unwrap();
    assert_eq!([bytes, inodes].map(|root| world.exceeded_by(root)), [Exceeded::default(); 2]);
    world.fill(file, 1001, Stability::Unstable).unwrap();
    world.create(inodes, "second").unwrap();
    world.background();
    let [since_bytes, since_inodes] = [world.exceeded_by(bytes).bytes, world.exceeded_by(inodes).inodes];
    let (since_bytes, since_inodes) = (since_bytes.unwrap(), since_inodes.unwrap());
    for seed in 0..2 {
        world.crash(seed);
        assert_eq!(world.exceeded_by(bytes), Exceeded { bytes: Some(since_bytes), inodes: None });
        assert_eq!(world.exceeded_by(inodes), Exceeded { bytes: None, inodes: Some(since_inodes) });
        // The superuser is bound too, up to the hard limit meanwhile and to the soft one then.
        world.set_clock(since_bytes.plus(Duration::from_secs(99)));
        world.fill(file, 1002, Stability::FileSync).unwrap();
        world.set_clock(since_bytes.plus(Duration::from_secs(100)));
        assert_eq!(world.fill(file, 1003, Stability::FileSync), Err(Error::QuotaExceeded));
        world.fill(file, 500, Stability::FileSync).unwrap();
        world.set_clock(since_inodes.plus(Duration::from_secs(199)));
        world.create(inodes, &format!("third {seed}")).unwrap();
        world.set_clock(since_inodes.plus(Duration::from_secs(200)));
        assert_eq!(world.create(inodes, "fourth"), Err(Error::QuotaExceeded));
        let counts = QuotaCounts { exceeding: 2, refused_by_soft: 2, refused_by_hard: 0 };
        assert_eq!(world.volume.quota_counts()[1], counts);
        world.remove(inodes, &format!("third {seed}")).unwrap();
        world.check();
    }
    // What ceases to be exceeded may be exceeded again, for as long.
    world.truncate(file, SOFT).unwrap();
    world.remove(inodes, "second").unwrap();
    assert_eq!([bytes, inodes].map(|root| world.exceeded_by(root)), [Exceeded::default(); 2]);
    world.fill(file, 4000, Stability::Unstable).unwrap();
    assert_eq!(world.fill(file, 4001, Stability::Unstable), Err(Error::QuotaExceeded));
    for name in ["second", "third", "fourth"] {
        world.create(inodes, name).unwrap();
    }
    assert_eq!(world.create(inodes, "fifth"), Err(Error::QuotaExceeded));
    world.background();
    assert!(world.exceeded_by(bytes).bytes > Some(since_bytes));
    assert!(world.exceeded_by(inodes).inodes > Some(since_inodes));
    world.check();
}

#[test]
fn fsstat_shows_the_limits_of_a_tree() {
    let mut world = World::new();
    let root = world.mkdir(Ino::ROOT, "tree").unwrap();
    world.tree(root).unwrap();
    let file = world.create(root, "file").unwrap();
    let whole = world.run(|v, r| v.status(r)).unwrap();
    assert_eq!(world.run(|v, r| v.status_at(r, file)).unwrap(), whole);
    world.limit_tree(root, Some(1 << 20), Some(10)).unwrap();
    world.fill(file, 300_000, Stability::FileSync).unwrap();
    world.background();
    let seen = world.run(|v, r| v.status_at(r, file)).unwrap();
    assert_eq!((seen.bytes_total, seen.bytes_free, seen.bytes_used), (1 << 20, (1 << 20) - 300_000, 300_000));
    assert_eq!((seen.inodes_total, seen.inodes_free, seen.inodes_used), (10, 8, 2));
    let room = world.run(|v, r| v.quota_room(r, file)).unwrap();
    assert_eq!((room.hard, room.used), (Some((1 << 20) - 300_000), 300_000));
    // Unstable data counts when it is accepted.
    world.write_unstable(file, 300_000, &[1; 1000]);
    assert_eq!(world.run(|v, r| v.status_at(r, root)).unwrap().bytes_free, (1 << 20) - 301_000);
    let outside = world.run(|v, r| v.status_at(r, Ino::ROOT)).unwrap();
    assert_eq!(outside.bytes_total, world.run(|v, r| v.status(r)).unwrap().bytes_total);
}

#[test]
fn trees_do_not_nest_and_have_directories() {
    let mut world = World::new();
    let root = world.mkdir(Ino::ROOT, "tree").unwrap();
    let below = world.mkdir(root, "below").unwrap();
    let file = world.file("file");
    assert_eq!(world.tree(Ino::ROOT), Err(TreeError::Root));
    assert_eq!(world.tree(file), Err(TreeError::Failed(Error::NotDirectory)));
    assert_eq!(world.tree(below), Ok(TreeState::Ready));
    assert_eq!(world.tree(below), Err(TreeError::Exists));
    assert_eq!(world.tree(root), Err(TreeError::Nested));
    world.end_tree(below).unwrap();
    assert_eq!(world.end_tree(below), Err(TreeError::Missing));
    assert_eq!(world.tree(root), Ok(TreeState::Creating));
    assert_eq!(world.tree(below), Err(TreeError::Nested), "what was not met yet too");
    world.walk();
    assert_eq!(world.tree(below), Err(TreeError::Nested));
    assert_eq!(world.limit_tree(below, Some(1), None), Err(Error::NoEntry));
    world.check();
}

#[test]
fn a_removed_directory_takes_its_tree_and_limits_with_it() {
    let mut world = World::new();
    let root = world.mkdir(Ino::ROOT, "tree").unwrap();
    world.tree(root).unwrap();
    world.limit_tree(root, Some(1), Some(1)).unwrap();
    world.rmdir(Ino::ROOT, "tree").unwrap();
    assert_eq!((world.state(root), world.used_by(root)), (None, (0, 0)));
    assert_eq!(world.limit_tree(root, Some(1), None), Err(Error::NoEntry));
    assert!(world.volume.own.ledger.lock().quotas().by_owner().is_empty());
    world.check();
    world.reopen();
    assert!(world.volume.trees().unwrap().is_empty() && !world.volume.own.ledger.is_limited());
}

/// Makes a directory with 300 objects in it, of 60,000 bytes.
fn populated(world: &mut World) -> Ino {
    let root = world.mkdir(Ino::ROOT, "tree").unwrap();
    for number in 0..29 {
        let below = world.mkdir(root, &format!("d{number}")).unwrap();
        for number in 0..9 {
            let file = world.create(below, &format!("f{number}")).unwrap();
            if number < 5 {
                world.write(file, 0, &[3; 400]).unwrap();
            }
        }
    }
    let deep = world.mkdir(root, "deep").unwrap();
    for number in 0..8 {
        world.create(deep, &format!("f{number}")).unwrap();
    }
    let file = world.create(deep, "large").unwrap();
    world.write(file, 0, &[3; 2000]).unwrap();
    root
}

const POPULATED: (u64, u64) = (60_000, 301);

#[test]
fn a_directory_with_contents_becomes_a_tree_and_ceases_to_be_one() {
    let mut world = World::roomy();
    let root = populated(&mut world);
    assert_eq!(world.tree(root), Ok(TreeState::Creating));
    world.limit_tree(root, Some(61_000), Some(1000)).unwrap();
    world.walk();
    assert_eq!((world.state(root), world.used_by(root)), (Some(TreeState::Ready), POPULATED));
    world.check();
    let file = world.create(root, "new").unwrap();
    assert_eq!(world.fill(file, 1001, Stability::FileSync), Err(Error::QuotaExceeded));
    world.fill(file, 1000, Stability::FileSync).unwrap();
    world.end_tree(root).unwrap();
    assert_eq!(world.state(root), Some(TreeState::Deleting));
    world.fill(file, 2000, Stability::FileSync).unwrap();
    world.walk();
    assert_eq!((world.state(root), world.used_by(root)), (None, (0, 0)));
    world.check();
    // It can be one again.
    assert_eq!(world.tree(root), Ok(TreeState::Creating));
    world.walk();
    assert_eq!(world.used_by(root), (POPULATED.0 + 2000, POPULATED.1 + 1));
    world.check();
}

#[test]
fn what_goes_on_in_a_directory_that_becomes_a_tree_is_in_it() {
    let mut world = World::roomy();
    let root = populated(&mut world);
    let first = world.lookup(root, "d0").unwrap();
    let last = world.lookup(root, "deep").unwrap();
    world.tree(root).unwrap();
    let now = world.now();
    assert_eq!(world.volume.pool().step_trees(now), Progress::Worked);
    // The first was met, and the last was not.
    assert_eq!(world.rename((first, "f0"), (last, "x")), Err(Error::CrossDevice));
    assert_eq!(world.rename((last, "f0"), (first, "x")), Err(Error::CrossDevice));
    assert_eq!(world.rename((root, "deep"), (first, "x")), Err(Error::CrossDevice));
    world.rename((last, "f0"), (last, "renamed")).unwrap();
    world.rename((root, "deep"), (root, "renamed")).unwrap();
    world.rename((first, "f0"), (first, "renamed")).unwrap();
    let [in_first, in_last] = [first, last].map(|directory| world.create(directory, "new").unwrap());
    for file in [in_first, in_last] {
        world.write(file, 0, &[1; 10]).unwrap();
    }
    // What is beneath it and was not met may leave it.
    world.rename((last, "f1"), (Ino::ROOT, "left")).unwrap();
    world.check();
    world.walk();
    assert_eq!(world.state(root), Some(TreeState::Ready));
    assert_eq!(world.used_by(root), (POPULATED.0 + 20, POPULATED.1 + 1));
    world.check();
}

#[test]
fn unstable_data_moves_with_its_reservation() {
    let mut world = World::roomy();
    let root = populated(&mut world);
    let file = world.lookup(root, "deep").unwrap();
    let file = world.lookup(file, "large").unwrap();
    world.tree(root).unwrap();
    world.limit_tree(root, Some(100_000), None).unwrap();
    world.write_unstable(file, 2000, &[4; 30_000]);
    world.walk();
    let another = world.create(root, "another").unwrap();
    assert_eq!(world.fill(another, 10_001, Stability::FileSync), Err(Error::QuotaExceeded));
    world.fill(another, 10_000, Stability::FileSync).unwrap();
    world.background();
    assert_eq!(world.used_by(root), (100_000, POPULATED.1 + 1));
    assert_eq!(world.volume.own.ledger.lock().reserved(tree(root)), Default::default());
    world.check();
}

#[test]
fn a_file_with_a_name_outside_refuses_a_tree() {
    let mut world = World::roomy();
    let root = populated(&mut world);
    let deep = world.lookup(root, "deep").unwrap();
    let file = world.lookup(deep, "large").unwrap();
    let first = world.lookup(root, "d0").unwrap();
    world.link(file, first, "inside").unwrap();
    world.link(file, Ino::ROOT, "outside").unwrap();
    world.tree(root).unwrap();
    world.limit_tree(root, Some(1 << 20), None).unwrap();
    world.walk();
    assert_eq!(world.state(root), Some(TreeState::Refused(Refusal::Linked)));
    assert_eq!(world.used_by(root), (0, 0));
    assert!(!world.volume.own.ledger.is_limited());
    world.check();
    // With all names inside it can be.
    world.remove(Ino::ROOT, "outside").unwrap();
    world.tree(root).unwrap();
    world.walk();
    assert_eq!((world.state(root), world.used_by(root)), (Some(TreeState::Ready), POPULATED));
    world.check();
}

#[test]
fn a_file_that_loses_its_names_inside_meanwhile_is_in_no_tree() {
    let mut world = World::roomy();
    let root = populated(&mut world);
    let first = world.lookup(root, "d0").unwrap();
    let file = world.lookup(first, "f0").unwrap();
    world.link(file, Ino::ROOT, "outside").unwrap();
    world.tree(root).unwrap();
    let now = world.now();
    world.volume.pool().step_trees(now);
    world.remove(first, "f0").unwrap();
    world.walk();
    assert_eq!(world.state(root), Some(TreeState::Ready));
    assert_eq!(world.used_by(root), (POPULATED.0 - 400, POPULATED.1 - 1));
    world.check();
}

#[test]
fn a_tree_that_gets_beneath_refuses_the_one_above() {
    let mut world = World::roomy();
    let root = populated(&mut world);
    let above = world.mkdir(Ino::ROOT, "above").unwrap();
    let nested = world.mkdir(above, "nested").unwrap();
    world.tree(nested).unwrap();
    world.tree(root).unwrap();
    // Not met yet, so it takes in what is in no tree.
    let deep = world.lookup(root, "deep").unwrap();
    world.rename((Ino::ROOT, "above"), (deep, "above")).unwrap();
    world.walk();
    assert_eq!(world.state(root), Some(TreeState::Refused(Refusal::Nested)));
    assert_eq!((world.used_by(root), world.used_by(nested)), ((0, 0), (0, 1)));
    world.check();
}

#[test]
fn walks_go_on_after_a_crash() {
    for seed in 0..4 {
        let mut world = World::new();
        let root = populated(&mut world);
        world.tree(root).unwrap();
        world.limit_tree(root, Some(61_000), None).unwrap();
        for _ in 0..seed / 2 {
            let now = world.now();
            world.volume.pool().step_trees(now);
        }
        world.commit();
        if seed % 2 == 1 {
            world.checkpoint();
        }
        world.crash(seed);
        assert_eq!(world.state(root), Some(TreeState::Creating));
        world.check();
        world.walk();
        assert_eq!((world.state(root), world.used_by(root)), (Some(TreeState::Ready), POPULATED));
        world.check();
        world.end_tree(root).unwrap();
        let now = world.now();
        world.volume.pool().step_trees(now);
        world.commit();
        world.crash(seed);
        assert_eq!(world.state(root), Some(TreeState::Deleting));
        world.check();
        world.walk();
        assert_eq!((world.state(root), world.used_by(root)), (None, (0, 0)));
        world.check();
    }
}

#[test]
fn a_tree_that_is_being_made_can_be_deleted_or_removed() {
    let mut world = World::roomy();
    let root = populated(&mut world);
    world.tree(root).unwrap();
    let now = world.now();
    world.volume.pool().step_trees(now);
    world.end_tree(root).unwrap();
    world.walk();
    assert_eq!((world.state(root), world.used_by(root)), (None, (0, 0)));
    world.check();
    let small = world.mkdir(Ino::ROOT, "small").unwrap();
    world.create(small, "file").unwrap();
    world.tree(small).unwrap();
    world.remove(small, "file").unwrap();
    world.rmdir(Ino::ROOT, "small").unwrap();
    world.walk();
    assert_eq!((world.state(small), world.used_by(small)), (None, (0, 0)));
    world.check();
}
