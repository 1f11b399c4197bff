//! Quotas limit what owners use, exactly.

use std::sync::Arc;

use super::volumes::{NOW, assert_clean, make, work};
use super::world::{World, nothing};
use crate::api::attributes::SetAttributes;
use crate::api::ids::Ino;
use crate::api::quotas::{Limit, Limits, Owner, QuotaKind};
use crate::api::request::{Access, Answer, Credentials, Error, Request};
use crate::api::results::{CreateHow, SetXattr, Stability};
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::record::{QuotaRecord, UsageRecord};
use crate::limits::QUOTAS_MAX;
use crate::media::memory::Random;
use crate::pool::Pool;
use crate::volume::Volume;

mod memory;
mod soft_limits;

/// A caller at a time.
struct Caller {
    who: Credentials,
    now: Time,
}

impl Caller {
    fn new(uid: u32, gid: u32) -> Caller {
        Caller { who: Credentials { uid, gid, groups: vec![gid, 7] }, now: NOW }
    }

    fn root() -> Caller {
        Caller { who: Credentials::root(), now: NOW }
    }

    /// Tries until the volume neither asks for patience nor for a flush.
    fn run<T>(
        &self,
        volume: &Volume,
        work_of: impl Fn(&Volume, &Request<'_>) -> Answer<T>,
    ) -> Result<T, Error> {
        let request = Request { credentials: &self.who, now: self.now, access: Access::Blocking, key: None };
        for _ in 0..100 {
            match work_of(volume, &request) {
                Err(failure) if failure.error.is_busy() => work(volume.pool()),
                result => return result.map(|promised| promised.value).map_err(|failure| failure.error),
            }
        }
        panic!("it stays busy");
    }

    fn create(&self, volume: &Volume, name: &str) -> Result<Ino, Error> {
        let how = CreateHow::Guarded(Default::default());
        let made = self.run(volume, |v, r| v.create_file(r, Ino::ROOT, name.as_bytes(), &how, &mut nothing));
        made.map(|made| made.attributes.ino)
    }

    fn write(
        &self,
        volume: &Volume,
        file: Ino,
        offset: u64,
        length: usize,
        how: Stability,
    ) -> Result<(), Error> {
        self.run(volume, |v, r| v.write(r, file, offset, &vec![5; length][..], how)).map(drop)
    }

    fn set(&self, volume: &Volume, file: Ino, set: SetAttributes) -> Result<(), Error> {
        self.run(volume, |v, r| v.set_attributes(r, file, &set, None, &mut nothing)).map(drop)
    }

    fn truncate(&self, volume: &Volume, file: Ino, size: u64) -> Result<(), Error> {
        self.set(volume, file, SetAttributes { size: Some(size), ..SetAttributes::default() })
    }

    fn chown(&self, volume: &Volume, file: Ino, uid: Option<u32>, gid: Option<u32>) -> Result<(), Error> {
        self.set(volume, file, SetAttributes { uid, gid, ..SetAttributes::default() })
    }

    fn remove(&self, volume: &Volume, name: &str) -> Result<(), Error> {
        self.run(volume, |v, r| v.remove(r, Ino::ROOT, name.as_bytes(), &mut nothing)).map(drop)
    }
}

/// Makes a volume in whose root everybody may make files.
fn volume(pool: &Arc<Pool>) -> Volume {
    volume_named(pool, "limited", 21)
}

fn volume_named(pool: &Arc<Pool>, name: &str, id: u64) -> Volume {
    let volume = make(pool, name, id);
    let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
    Caller::root().set(&volume, Ino::ROOT, set).unwrap();
    volume
}

/// Makes a volume in a pool of its own. The world holds the pool's disk.
fn limited() -> (World, Arc<Pool>, Volume) {
    let world = World::new();
    let pool = Arc::clone(world.volume.pool());
    let volume = volume(&pool);
    (world, pool, volume)
}

fn hard(bytes: Option<u64>, inodes: Option<u64>) -> Option<Limits> {
    let limit = |hard| Limit { soft: None, hard };
    Some(Limits { bytes: limit(bytes), inodes: limit(inodes) })
}

fn user(uid: u64) -> Owner {
    Owner::new(QuotaKind::User, uid)
}

fn group(gid: u64) -> Owner {
    Owner::new(QuotaKind::Group, gid)
}

fn set(volume: &Volume, owner: Owner, limits: Option<Limits>) {
    volume.set_quota(owner, limits, NOW).unwrap();
}

fn used(volume: &Volume, owner: Owner) -> (u64, u64) {
    let quota = volume.quota(owner).unwrap();
    (quota.bytes_used, quota.inodes_used)
}

fn assert_nothing_reserved(volume: &Volume, owners: &[Owner]) {
    for owner in owners {
        assert_eq!(volume.own.ledger.lock().reserved(*owner), UsageRecord::default(), "{owner:?}");
    }
}

const HOWS: [Stability; 2] = [Stability::Unstable, Stability::FileSync];

#[test]
fn each_limit_is_reached_and_not_exceeded() {
    let (world, pool, volume) = limited();
    let one = Caller::new(1001, 101);
    for (number, owner) in [user(1001), group(101), Owner::VOLUME].into_iter().enumerate() {
        for how in HOWS {
            let name = format!("{number}{how:?}");
            let file = one.create(&volume, &name).unwrap();
            work(&pool);
            let before = used(&volume, owner);
            set(&volume, owner, hard(Some(before.0 + 100_000), Some(before.1 + 1)));
            one.write(&volume, file, 0, 60_000, how).unwrap();
            assert_eq!(one.write(&volume, file, 60_000, 40_001, how), Err(Error::QuotaExceeded), "{owner:?}");
            one.write(&volume, file, 60_000, 40_000, how).unwrap();
            assert_eq!(one.write(&volume, file, 100_000, 1, how), Err(Error::QuotaExceeded));
            // What is there is written again, whether it is unstable or not.
            one.write(&volume, file, 10, 90_000, how).unwrap();
            work(&pool);
            one.write(&volume, file, 10, 90_000, how).unwrap();
            let xattr = |v: &Volume, r: &Request<'_>| {
                v.set_xattr(r, file, b"x", b"y", SetXattr::Create, &mut nothing)
            };
            assert_eq!(one.run(&volume, xattr).map(drop), Err(Error::QuotaExceeded));
            let full = |v: &Volume, r: &Request<'_>| v.copy_range(r, (file, 0), (file, 200_000), 1000);
            assert_eq!(one.run(&volume, full).map(drop), Err(Error::QuotaExceeded));
            let room = |v: &Volume, r: &Request<'_>| v.allocate(r, file, 200_000, 1000);
            assert_eq!(one.run(&volume, room).map(drop), Err(Error::QuotaExceeded));
            // One more object, and no other.
            let second = format!("{name}-second");
            one.create(&volume, &second).unwrap();
            assert_eq!(one.create(&volume, "third"), Err(Error::QuotaExceeded), "{owner:?}");
            one.remove(&volume, &second).unwrap();
            one.create(&volume, &second).unwrap();
            one.truncate(&volume, file, 99_000).unwrap();
            one.write(&volume, file, 99_000, 1000, how).unwrap();
            work(&pool);
            assert_eq!(used(&volume, owner).0, before.0 + 100_000);
            set(&volume, owner, None);
            one.write(&volume, file, 100_000, 1, how).unwrap();
            assert_nothing_reserved(&volume, &[owner]);
        }
    }
    assert_clean(&world.disk);
}

#[test]
fn the_superuser_exceeds_the_limits_of_persons_only() {
    let (_world, _pool, volume) = limited();
    let (one, root) = (Caller::new(1001, 101), Caller::root());
    let file = one.create(&volume, "file").unwrap();
    set(&volume, user(1001), hard(Some(1000), Some(1)));
    set(&volume, group(101), hard(Some(1000), Some(1)));
    root.write(&volume, file, 0, 5000, Stability::FileSync).unwrap();
    assert_eq!(used(&volume, user(1001)), (5000, 1));
    assert_eq!(one.write(&volume, file, 5000, 1, Stability::FileSync), Err(Error::QuotaExceeded));
    one.write(&volume, file, 0, 5000, Stability::FileSync).unwrap();
    let roots = root.create(&volume, "root's").unwrap();
    assert_eq!(
        root.chown(&volume, roots, Some(1001), None),
        Err(Error::QuotaExceeded),
        "of whom he gives it to"
    );
    set(&volume, Owner::VOLUME, hard(Some(6000), None));
    assert_eq!(root.write(&volume, roots, 0, 1001, Stability::Unstable), Err(Error::QuotaExceeded));
    root.write(&volume, roots, 0, 1000, Stability::Unstable).unwrap();
    for owner in [user(0), group(0), Owner::new(QuotaKind::Tree, 0), Owner::new(QuotaKind::Volume, 1)] {
        assert_eq!(volume.set_quota(owner, hard(Some(1), None), NOW), Err(Error::Invalid), "{owner:?}");
    }
    let upside_down = Limits { bytes: Limit { soft: Some(2), hard: Some(1) }, ..Limits::default() };
    assert_eq!(volume.set_quota(user(1), Some(upside_down), NOW), Err(Error::Invalid));
}

/// Whoever finds a file sees its attributes.
#[test]
fn what_limits_leave_is_shown_to_those_whom_they_bind() {
    let (_world, pool, volume) = limited();
    set(&volume, user(1001), hard(Some(10_000), None));
    set(&volume, group(101), hard(Some(20_000), None));
    set(&volume, Owner::VOLUME, hard(Some(1 << 20), None));
    let owner = Caller::new(1001, 101);
    let file = owner.create(&volume, "file").unwrap();
    owner.write(&volume, file, 0, 3000, Stability::FileSync).unwrap();
    work(&pool);
    let left = |caller: Caller| caller.run(&volume, |v, r| v.quota_room(r, file)).unwrap().hard;
    assert_eq!(left(owner), Some(7000));
    assert_eq!(left(Caller::root()), Some(7000));
    assert_eq!(left(Caller::new(1002, 101)), Some(17_000), "of the group");
    assert_eq!(left(Caller::new(1002, 102)), Some((1 << 20) - 3000), "of the volume");
}

#[test]
fn only_removed_files_that_count_have_a_caller_at_its_limit_wait() {
    let world = World::new();
    let volume = volume(world.volume.pool());
    for uid in [1001, 1002] {
        set(&volume, user(uid), hard(None, Some(1)));
    }
    let (one, other) = (Caller::new(1001, 101), Caller::new(1002, 102));
    let file = one.create(&volume, "full").unwrap();
    let leave = |caller: &Caller, name: &str| {
        let file = caller.create(&volume, name).unwrap();
        volume.hold(file);
        caller.remove(&volume, name).unwrap();
        volume.release(file);
        file
    };
    let refusal = |caller: &Caller| {
        let request = Request { credentials: &caller.who, now: NOW, access: Access::Blocking, key: None };
        let how = CreateHow::Guarded(Default::default());
        volume.create_file(&request, Ino::ROOT, b"more", &how, &mut nothing).unwrap_err().error
    };
    leave(&other, "left");
    // However many files of others leave, they make no room.
    assert_eq!(refusal(&one), Error::QuotaExceeded);
    assert_eq!(refusal(&other), Error::ObjectBusy, "the next step makes room");
    assert_eq!(volume.pool().step_orphans(NOW), Progress::Worked);
    // A file that leaves has a new owner, who is at his limit.
    one.remove(&volume, "full").unwrap();
    let left = leave(&other, "left");
    Caller::root().chown(&volume, left, Some(1001), None).unwrap();
    assert_eq!(refusal(&one), Error::ObjectBusy);
    assert_eq!(volume.pool().step_orphans(NOW), Progress::Worked);
    assert!(one.create(&volume, "full").unwrap() > file && other.create(&volume, "room").is_ok());
    assert_eq!([refusal(&one), refusal(&other)], [Error::QuotaExceeded; 2]);
}

#[test]
fn what_all_others_have_holds_for_those_without_limits_of_their_own() {
    let world = World::new();
    let volume = volume(world.volume.pool());
    set(&volume, Owner::others(QuotaKind::User), hard(Some(1000), None));
    set(&volume, user(1002), hard(Some(3000), None));
    // Without any limit.
    set(&volume, user(1003), hard(None, None));
    for (uid, most) in [(1001, Some(1000)), (1002, Some(3000)), (1003, None), (0, None)] {
        let caller = Caller::new(uid, 101);
        let file = caller.create(&volume, &uid.to_string()).unwrap();
        assert_eq!(
            caller.write(&volume, file, 0, 3000, Stability::Unstable).is_ok(),
            most != Some(1000),
            "{uid}"
        );
        let more = caller.write(&volume, file, 3000, 1, Stability::Unstable);
        assert_eq!(more.is_ok(), most != Some(3000), "{uid}");
        let quota = volume.quota(user(u64::from(uid))).unwrap();
        assert_eq!((quota.limits.bytes.hard, quota.is_default), (most, uid == 1001), "{uid}");
    }
    let listed = volume.quotas(QuotaKind::User, 0, 10).unwrap();
    assert_eq!(listed.iter().map(|quota| quota.owner.id).collect::<Vec<u64>>(), [0, 1001, 1002, 1003]);
    work(volume.pool());
    for from in 0..1005 {
        let page: Vec<u64> =
            volume.quotas(QuotaKind::User, from, 2).unwrap().iter().map(|quota| quota.owner.id).collect();
        let all = [0, 1001, 1002, 1003].into_iter().filter(|id| *id >= from);
        assert_eq!(page, all.take(2).collect::<Vec<u64>>(), "from {from}");
    }
    set(&volume, Owner::others(QuotaKind::User), None);
    let one = Caller::new(1001, 101);
    let file = one.create(&volume, "again").unwrap();
    one.write(&volume, file, 0, 5000, Stability::FileSync).unwrap();
}

#[test]
fn what_is_unstable_moves_to_the_new_owner() {
    let (world, pool, volume) = limited();
    let (one, root) = (Caller::new(1001, 101), Caller::root());
    for uid in [1001, 1002] {
        set(&volume, user(uid), hard(Some(10_000), None));
    }
    let file = one.create(&volume, "file").unwrap();
    one.write(&volume, file, 0, 10_000, Stability::Unstable).unwrap();
    root.chown(&volume, file, Some(1002), Some(102)).unwrap();
    // At once, before anything is written back.
    let second = one.create(&volume, "second").unwrap();
    one.write(&volume, second, 0, 10_000, Stability::Unstable).unwrap();
    assert_eq!(root.chown(&volume, second, Some(1002), None), Err(Error::QuotaExceeded));
    // To one without limits, and back.
    root.chown(&volume, second, Some(1003), None).unwrap();
    let third = one.create(&volume, "third").unwrap();
    one.write(&volume, third, 0, 1, Stability::Unstable).unwrap();
    assert_eq!(root.chown(&volume, second, Some(1001), None), Err(Error::QuotaExceeded));
    one.truncate(&volume, third, 0).unwrap();
    root.chown(&volume, second, Some(1001), None).unwrap();
    work(&pool);
    assert_eq!((used(&volume, user(1001)), used(&volume, user(1002))), ((10_000, 2), (10_000, 1)));
    assert_nothing_reserved(&volume, &[user(1001), user(1002), user(1003), group(101), group(102)]);
    assert_clean(&world.disk);
}

/// What the superuser writes may exceed the limits of users and groups, and is replaced by others without taking anything.
#[test]
fn unstable_data_of_the_superuser_above_a_limit_can_be_replaced() {
    let (_world, pool, volume) = limited();
    let (one, root) = (Caller::new(1001, 101), Caller::root());
    set(&volume, user(1001), hard(Some(10_000), None));
    let file = one.create(&volume, "file").unwrap();
    let copy = |v: &Volume, r: &Request<'_>| v.copy_range(r, (file, 20_000), (file, 0), 4096);
    for round in 0..2 {
        root.write(&volume, file, 0, 30_000, Stability::Unstable).unwrap();
        if round == 0 {
            one.write(&volume, file, 5000, 4096, Stability::FileSync).unwrap();
        } else {
            one.run(&volume, copy).unwrap();
        }
        one.write(&volume, file, 0, 30_000, Stability::Unstable).unwrap();
        for how in HOWS {
            assert_eq!(one.write(&volume, file, 29_999, 2, how), Err(Error::QuotaExceeded));
        }
    }
    work(&pool);
    assert_eq!(used(&volume, user(1001)), (30_000, 1));
    assert_nothing_reserved(&volume, &[user(1001)]);
}

#[test]
fn what_is_unstable_is_no_hole_to_allocate() {
    let (_world, _pool, volume) = limited();
    let (one, root) = (Caller::new(1001, 101), Caller::root());
    set(&volume, user(1001), hard(Some(10_000), None));
    let file = one.create(&volume, "file").unwrap();
    let allocate = |length| move |v: &Volume, r: &Request<'_>| v.allocate(r, file, 0, length);
    for who in [&one, &root] {
        who.write(&volume, file, 0, 10_000, Stability::Unstable).unwrap();
        one.run(&volume, allocate(10_000)).unwrap();
        assert_eq!(one.run(&volume, allocate(10_001)).map(drop), Err(Error::QuotaExceeded));
    }
}

#[test]
fn a_file_is_given_away_for_which_more_is_reserved_than_it_takes() {
    let (_world, pool, volume) = limited();
    let (one, root) = (Caller::new(1001, 101), Caller::root());
    set(&volume, user(1001), hard(Some(100_000), None));
    set(&volume, user(1002), hard(Some(10_001), None));
    let file = one.create(&volume, "file").unwrap();
    // With a hole, so that it is not searched for what a WRITE fills while there is plenty of room.
    one.write(&volume, file, 0, 10_000, Stability::FileSync).unwrap();
    one.write(&volume, file, 50_000, 1, Stability::FileSync).unwrap();
    one.write(&volume, file, 0, 10_000, Stability::Unstable).unwrap();
    root.chown(&volume, file, Some(1002), None).unwrap();
    work(&pool);
    assert_eq!((used(&volume, user(1001)), used(&volume, user(1002))), ((0, 0), (10_001, 1)));
    assert_nothing_reserved(&volume, &[user(1001), user(1002)]);
}

#[test]
fn a_file_is_given_away_by_the_size_that_the_same_call_gives_it() {
    let (world, pool, volume) = limited();
    let (one, root) = (Caller::new(1001, 101), Caller::root());
    set(&volume, user(1002), hard(Some(5000), None));
    let give =
        |file, size| root.set(&volume, file, SetAttributes { uid: Some(1002), size, ..Default::default() });
    for how in HOWS {
        let file = one.create(&volume, "file").unwrap();
        one.write(&volume, file, 0, 10_000, how).unwrap();
        for size in [None, Some(5001), Some(20_000)] {
            assert_eq!(give(file, size), Err(Error::QuotaExceeded), "{size:?}");
        }
        give(file, Some(5000)).unwrap();
        work(&pool);
        assert_eq!((used(&volume, user(1001)), used(&volume, user(1002))), ((0, 0), (5000, 1)));
        assert_nothing_reserved(&volume, &[user(1001), user(1002)]);
        root.remove(&volume, "file").unwrap();
        work(&pool);
    }
    let file = one.create(&volume, "emptied").unwrap();
    one.write(&volume, file, 0, 10_000, Stability::Unstable).unwrap();
    give(file, Some(0)).unwrap();
    work(&pool);
    assert_eq!(used(&volume, user(1002)), (0, 1));
    assert_clean(&world.disk);
}

#[test]
fn more_quotas_than_there_may_be_are_refused() {
    let (_world, _pool, volume) = limited();
    let record = QuotaRecord { limits: hard(Some(1), None), ..QuotaRecord::default() };
    let most = QUOTAS_MAX as u64;
    volume.own.ledger.lock().replace_quotas((1..=most).map(|uid| (user(uid), record)).collect());
    let put = |uid, limits| volume.set_quota(user(uid), limits, NOW).map(drop);
    assert_eq!(put(most + 1, hard(Some(1), None)), Err(Error::TooManyQuotas));
    put(1, hard(Some(2), None)).unwrap();
    put(1, None).unwrap();
    put(most + 1, hard(Some(1), None)).unwrap();
    assert!(Error::TooManyQuotas.to_string().ends_with(&most.to_string()));
}

#[test]
fn what_was_unstable_before_anything_was_limited_counts_for_a_new_owner() {
    let (_world, pool, volume) = limited();
    let (one, root) = (Caller::new(1001, 101), Caller::root());
    let file = one.create(&volume, "file").unwrap();
    one.write(&volume, file, 0, 10_000, Stability::Unstable).unwrap();
    set(&volume, user(1002), hard(Some(9999), None));
    assert_eq!(root.chown(&volume, file, Some(1002), None), Err(Error::QuotaExceeded));
    set(&volume, user(1002), hard(Some(10_000), None));
    root.chown(&volume, file, Some(1002), None).unwrap();
    work(&pool);
    assert_eq!(used(&volume, user(1002)), (10_000, 1));
}

#[test]
fn a_limit_that_is_set_while_data_is_unstable_counts_it() {
    let (_world, pool, volume) = limited();
    let one = Caller::new(1001, 101);
    let file = one.create(&volume, "file").unwrap();
    one.write(&volume, file, 0, 50_000, Stability::Unstable).unwrap();
    set(&volume, user(1001), hard(Some(60_000), None));
    assert_eq!(one.write(&volume, file, 50_000, 10_001, Stability::Unstable), Err(Error::QuotaExceeded));
    one.write(&volume, file, 50_000, 5000, Stability::Unstable).unwrap();
    // The newer limit counts what the older one does not.
    set(&volume, group(101), hard(Some(58_000), None));
    assert_eq!(one.write(&volume, file, 55_000, 3001, Stability::Unstable), Err(Error::QuotaExceeded));
    one.write(&volume, file, 55_000, 3000, Stability::Unstable).unwrap();
    work(&pool);
    assert_eq!(used(&volume, group(101)).0, 58_000);
    assert_nothing_reserved(&volume, &[user(1001), group(101)]);
}

#[test]
fn a_write_over_much_scattered_unstable_data_near_a_limit_waits_for_its_write_back() {
    let (_world, pool, volume) = limited();
    let one = Caller::new(1001, 101);
    let file = one.create(&volume, "file").unwrap();
    one.write(&volume, file, 0, 1, Stability::FileSync).unwrap();
    set(&volume, user(1001), hard(Some(10_000), None));
    work(&pool);
    for at in 1..100 {
        one.write(&volume, file, at * 100, 1, Stability::Unstable).unwrap();
    }
    let request = Request { credentials: &one.who, now: NOW, access: Access::Blocking, key: None };
    let whole = volume.write(&request, file, 0, &[5; 10_000][..], Stability::Unstable);
    assert_eq!(whole.map(drop).map_err(|failure| failure.error), Err(Error::ObjectBusy));
    one.write(&volume, file, 0, 10_000, Stability::Unstable).unwrap();
    assert_eq!(one.write(&volume, file, 10_000, 1, Stability::Unstable), Err(Error::QuotaExceeded));
}

/// What random operations leave of a file.
struct Model {
    ino: Ino,
    name: String,
    uid: u32,
    gid: u32,
    data: Vec<bool>,
}

impl Model {
    fn bytes(&self) -> u64 {
        self.data.iter().filter(|byte| **byte).count() as u64
    }

    fn is_of(&self, owner: Owner) -> bool {
        match owner.kind {
            QuotaKind::User => owner.id == u64::from(self.uid),
            QuotaKind::Group => owner.id == u64::from(self.gid),
            QuotaKind::Tree => false,
            QuotaKind::Volume => true,
        }
    }
}

/// Length limit of the files of random operations.
const FILE_BYTES: usize = 64 << 10;

/// Random operations on a few files, whose owners have hard limits.
struct RandomWork {
    random: Random,
    volume: Volume,
    files: Vec<Model>,
    /// Most bytes of each owner.
    limits: Vec<(Owner, u64)>,
}

impl RandomWork {
    fn new(seed: u64, pool: &Arc<Pool>) -> RandomWork {
        let mut random = Random::new(seed);
        let volume = volume(pool);
        let owners = [user(1), user(2), group(7), group(8), Owner::VOLUME];
        let limits: Vec<(Owner, u64)> =
            owners.into_iter().map(|owner| (owner, 60_000 + random.below(60_000))).collect();
        for (owner, most) in &limits {
            set(&volume, *owner, hard(Some(*most), None));
        }
        RandomWork { random, volume, files: Vec::new(), limits }
    }

    fn used(&self, owner: Owner) -> u64 {
        self.files.iter().filter(|file| file.is_of(owner)).map(Model::bytes).sum()
    }

    /// Returns what must become of growth of the owners that `grows` chooses.
    fn expected(&self, grows: &dyn Fn(Owner) -> bool, more: u64) -> Result<(), Error> {
        let fits = |(owner, most): &(Owner, u64)| !grows(*owner) || self.used(*owner) + more <= *most;
        if self.limits.iter().all(fits) { Ok(()) } else { Err(Error::QuotaExceeded) }
    }

    fn step(&mut self, place: &str) {
        for (owner, most) in &self.limits {
            assert!(self.used(*owner) <= *most, "{place}");
        }
        let uid = 1 + u32::try_from(self.random.below(2)).unwrap();
        let gid = 7 + u32::try_from(self.random.below(2)).unwrap();
        let caller = Caller { who: Credentials { uid, gid, groups: vec![7, 8] }, now: NOW };
        if self.files.len() < 4 {
            return self.make(&caller, place);
        }
        let at = self.random.index(self.files.len());
        match self.random.below(16) {
            0 => {
                let offset = self.random.index(FILE_BYTES);
                caller.truncate(&self.volume, self.files[at].ino, offset as u64).unwrap();
                self.files[at].data[offset..].fill(false);
            }
            1 => {
                let file = self.files.swap_remove(at);
                Caller::root().remove(&self.volume, &file.name).unwrap();
            }
            2 | 3 => self.give(at, uid, gid, place),
            4 => {
                self.volume.step_write_back(NOW, true, true);
            }
            5 => work(self.volume.pool()),
            _ => self.write(&caller, at, place),
        }
    }

    fn make(&mut self, caller: &Caller, name: &str) {
        let ino = caller.create(&self.volume, name).unwrap();
        let mode = SetAttributes { mode: Some(0o666), ..SetAttributes::default() };
        caller.set(&self.volume, ino, mode).unwrap();
        let (uid, gid) = (caller.who.uid, caller.who.gid);
        self.files.push(Model { ino, name: name.to_owned(), uid, gid, data: vec![false; FILE_BYTES] });
    }

    fn give(&mut self, at: usize, uid: u32, gid: u32, place: &str) {
        let file = &self.files[at];
        let grows = |owner: Owner| match owner.kind {
            QuotaKind::User => owner.id == u64::from(uid) && file.uid != uid,
            QuotaKind::Group => owner.id == u64::from(gid) && file.gid != gid,
            _ => false,
        };
        let expected = self.expected(&grows, file.bytes());
        let result = Caller::root().chown(&self.volume, file.ino, Some(uid), Some(gid));
        assert_eq!(result, expected, "{place}");
        if result.is_ok() {
            (self.files[at].uid, self.files[at].gid) = (uid, gid);
        }
    }

    fn write(&mut self, caller: &Caller, at: usize, place: &str) {
        let (offset, length) = (self.random.index(FILE_BYTES - 20_000), 1 + self.random.index(20_000));
        let how = HOWS[usize::from(self.random.below(3) == 0)];
        let file = &self.files[at];
        let more = file.data[offset..offset + length].iter().filter(|byte| !**byte).count() as u64;
        let expected = self.expected(&|owner| file.is_of(owner), more);
        let result = caller.write(&self.volume, file.ino, offset as u64, length, how);
        assert!(result == expected || more == 0 && result.is_ok(), "{place}: {result:?}");
        if result.is_ok() {
            self.files[at].data[offset..offset + length].fill(true);
        }
    }
}

#[test]
fn random_operations_are_refused_exactly_when_they_do_not_fit() {
    for seed in 0..16 {
        let world = World::new();
        let pool = Arc::clone(world.volume.pool());
        let mut random = RandomWork::new(seed, &pool);
        for step in 0..250 {
            random.step(&format!("seed {seed}, step {step}"));
        }
        work(&pool);
        for (owner, _) in &random.limits {
            assert_eq!(used(&random.volume, *owner).0, random.used(*owner), "seed {seed}: {owner:?}");
            assert_nothing_reserved(&random.volume, &[*owner]);
        }
        assert_clean(&world.disk);
    }
}

#[test]
fn many_writers_at_once_exceed_no_limit_together() {
    const MOST: u64 = 1_000_000;
    let world = World::roomy();
    let pool = Arc::clone(world.volume.pool());
    let volume = volume(&pool);
    set(&volume, group(7), hard(Some(MOST), Some(80)));
    set(&volume, Owner::others(QuotaKind::User), hard(Some(MOST / 2), None));
    let accepted: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..64_u32)
            .map(|number| {
                let volume = &volume;
                scope.spawn(move || {
                    let who = Credentials { uid: 1 + number % 3, gid: 7, groups: Vec::new() };
                    let request =
                        Request { credentials: &who, now: NOW, access: Access::Blocking, key: None };
                    let how = CreateHow::Guarded(Default::default());
                    let name = number.to_string();
                    let made =
                        volume.create_file(&request, Ino::ROOT, name.as_bytes(), &how, &mut nothing).unwrap();
                    let mut offset = 0;
                    loop {
                        match volume.write(
                            &request,
                            made.value.attributes.ino,
                            offset,
                            &[1; 777][..],
                            HOWS[number as usize % 2],
                        ) {
                            Ok(_) => offset += 777,
                            Err(failure) if failure.error.is_busy() => {
                                volume.step_write_back(NOW, true, true);
                            }
                            Err(failure) => {
                                assert_eq!(failure.error, Error::QuotaExceeded);
                                return offset;
                            }
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    work(&pool);
    assert_eq!(used(&volume, group(7)), (accepted, 64));
    assert!((MOST - 777..=MOST).contains(&accepted), "{accepted}");
    let one = Caller::new(9, 7);
    let made = (0..).take_while(|number| one.create(&volume, &format!("more{number}")).is_ok()).count();
    assert_eq!(made, 16);
    assert_nothing_reserved(&volume, &[group(7), user(1), user(2), user(3)]);
    assert_clean(&world.disk);
}
