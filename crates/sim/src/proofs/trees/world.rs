//! A volume whose directories become quota trees, and what is known of the trees after each change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use volume::attributes::{FileType, SetAttributes};
use volume::ids::Ino;
use volume::quota::{Limit, Limits, Owner, QuotaKind};
use volume::request::{Answer, Durability, Durable, Error, Request};
use volume::results::{CreateHow, Stability};
use volume::time::Time;
use volume::trees::{TreeError, TreeState};
use volume::{Pool, Progress, Volume};

use crate::engine::{Sizes, attributes, create, list, open_pool};
use crate::media::SimMedia;
use crate::proofs::requests::{ask, nothing, unless_busy};
use crate::random::Random;

/// Most objects besides the root.
const OBJECTS_MAX: usize = 60;

/// So often something is asked again that must wait for background work.
const TRIES: u32 = 4;

/// What administrators were told of trees: their directories, and the limits on bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    trees: BTreeMap<u64, Option<u64>>,
}

impl Known {
    /// Reads what a pool says. Trees that are being deleted are none any more.
    pub(super) fn observe(pool: &Arc<Pool>) -> Result<Known, String> {
        let mut known = Known::default();
        for volume in pool.volumes() {
            for tree in volume.trees().map_err(|error| format!("the trees: {error:?}"))? {
                if matches!(tree.state, TreeState::Ready | TreeState::Creating) {
                    known.trees.insert(tree.root.0, limit_of(&volume, tree.root.0)?);
                }
            }
        }
        Ok(known)
    }
}

fn owner(tree: u64) -> Owner {
    Owner::new(QuotaKind::Tree, tree)
}

fn limit_of(volume: &Volume, tree: u64) -> Result<Option<u64>, String> {
    let quota = volume.quota(owner(tree)).map_err(|error| format!("the quota of tree {tree}: {error:?}"))?;
    Ok(quota.limits.bytes.hard)
}

/// An object, by one of its names.
#[derive(Clone, Debug)]
struct Place {
    ino: u64,
    parent: u64,
    name: Vec<u8>,
    is_directory: bool,
    used: u64,
    size: u64,
}

/// Everything in a volume.
#[derive(Clone, Debug, Default)]
struct Contents {
    places: Vec<Place>,
}

impl Contents {
    fn read(volume: &Volume, now: i64) -> Result<Contents, String> {
        let mut contents = Contents::default();
        let mut left = vec![1];
        while let Some(parent) = left.pop() {
            for entry in list(volume, parent, now)? {
                if entry.name == b"." || entry.name == b".." {
                    continue;
                }
                let seen = attributes(volume, entry.ino, now)?;
                let is_directory = seen.kind == FileType::Directory;
                if is_directory {
                    left.push(entry.ino);
                }
                let used = if is_directory { 0 } else { seen.used };
                let (ino, name, size) = (entry.ino, entry.name, seen.size);
                contents.places.push(Place { ino, parent, name, is_directory, used, size });
            }
        }
        Ok(contents)
    }

    fn directories(&self) -> Vec<u64> {
        let below = self.places.iter().filter(|place| place.is_directory).map(|place| place.ino);
        std::iter::once(1).chain(below).collect()
    }

    /// Returns the directories from one upwards.
    fn upwards(&self, from: u64) -> Vec<u64> {
        let mut path = vec![from];
        while let Some(place) = self.places.iter().find(|place| Some(&place.ino) == path.last()) {
            path.push(place.parent);
        }
        path
    }

    /// Returns what is beneath a directory, with it: bytes and objects.
    fn usage(&self, root: u64) -> (u64, u64) {
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        for place in &self.places {
            if place.ino == root || self.upwards(place.parent).contains(&root) {
                seen.insert(place.ino, place.used);
            }
        }
        (seen.values().sum(), seen.len() as u64)
    }
}

/// What a step may act on.
struct Targets {
    contents: Contents,
    directory: u64,
    file: Option<Place>,
    below: Option<Place>,
    any: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Directory,
    File,
    Write,
    Unstable,
    Truncate,
    Remove,
    RemoveDirectory,
    Rename,
    Link,
    Tree,
    EndTree,
    Limit,
    Walk,
    Commit,
    WriteBack,
    Checkpoint,
}

const STEPS: [(u64, Step); 16] = [
    (7, Step::Directory),
    (10, Step::File),
    (10, Step::Write),
    (14, Step::Unstable),
    (3, Step::Truncate),
    (4, Step::Remove),
    (2, Step::RemoveDirectory),
    (8, Step::Rename),
    (2, Step::Link),
    (6, Step::Tree),
    (2, Step::EndTree),
    (5, Step::Limit),
    (6, Step::Walk),
    (14, Step::Commit),
    (4, Step::WriteBack),
    (5, Step::Checkpoint),
];

/// An open pool, and what a crash may leave of its trees.
pub(super) struct World {
    pub(super) media: SimMedia,
    pub(super) sizes: Sizes,
    pub(super) pool: Arc<Pool>,
    pub(super) volume: Volume,
    pub(super) now: i64,
    /// Whether changes count as acknowledged before they are durable.
    pub(super) is_hasty: bool,
    /// What is known after each change; first after opening.
    pub(super) history: Vec<Known>,
    /// What the replies of the changes wait for.
    after: Vec<Durability>,
    /// For each event so far: the last change acknowledged after it, and the last change then.
    pub(super) marks: Vec<(usize, usize)>,
    /// Most bytes that trees may use: their limits, unless more was moved into them.
    most: BTreeMap<u64, u64>,
    made: u64,
}

impl World {
    /// Creates a pool.
    pub(super) fn new(sizes: Sizes, random: Random) -> Result<World, String> {
        let media = SimMedia::new(sizes.log_bytes, sizes.capacity, random);
        create(&media)?;
        let now = crate::engine::START + 1_000_000;
        let pool = open_pool(&media, &sizes, now)?;
        World::resume(media, sizes, &pool, now, 0)
    }

    /// Goes on with a pool that was opened. Counts its usage anew.
    pub(super) fn resume(
        media: SimMedia,
        sizes: Sizes,
        pool: &Arc<Pool>,
        now: i64,
        made: u64,
    ) -> Result<World, String> {
        let volume = pool.volumes().into_iter().next().ok_or("no volume")?;
        let history = vec![Known::observe(pool)?];
        let mut world = World {
            media,
            sizes,
            pool: Arc::clone(pool),
            volume,
            now,
            is_hasty: false,
            history,
            after: vec![Durability::NOW],
            marks: Vec::new(),
            most: BTreeMap::new(),
            made,
        };
        world.count_anew()?;
        let is_quiet = world.is_quiet()?;
        for (tree, limit) in world.last().trees {
            // What a walk moves may exceed a limit.
            let limit = limit.filter(|_| is_quiet).unwrap_or(u64::MAX);
            let most = limit.max(world.used(tree)?.0);
            world.most.insert(tree, most);
        }
        Ok(world)
    }

    /// Returns how many things were made, so that names differ.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Makes one random event.
    pub(super) fn event(&mut self, random: &mut Random) -> Result<(), String> {
        self.now += 1_000_000;
        self.made += 1;
        self.media.set_mark(self.marks.len() as u64);
        let step = random.weighted(&STEPS);
        let number = self.marks.len();
        let context = |what| format!("event {number}, {step:?}: {what}");
        self.make(step, random).map_err(context)?;
        let durable = |wanted: &Durability| self.pool.durability(*wanted) == Durable::Yes;
        let acked = self.after.iter().take_while(|after| self.is_hasty || durable(after)).count() - 1;
        self.marks.push((acked, self.history.len() - 1));
        self.check_limits().map_err(context)
    }

    /// Checks that no limit is exceeded.
    fn check_limits(&mut self) -> Result<(), String> {
        for tree in self.volume.trees().map_err(|error| format!("{error:?}"))? {
            let tree_used = self.used(tree.root.0)?.0;
            match tree.state {
                TreeState::Ready => {
                    let most = self.most.get(&tree.root.0).copied().unwrap_or(u64::MAX);
                    if tree_used > most {
                        return Err(format!("tree {} uses {tree_used} bytes of {most}", tree.root));
                    }
                }
                // What is moved into it may exceed its limit, now or once it is written back.
                _ => drop(self.most.insert(tree.root.0, u64::MAX)),
            }
        }
        Ok(())
    }

    /// Chooses what a step may act on: half of the time something in a tree with a limit.
    fn targets(&self, random: &mut Random) -> Result<Targets, String> {
        let contents = Contents::read(&self.volume, self.now)?;
        let directories = contents.directories();
        let limited = self.last().trees.into_iter().filter_map(|(tree, limit)| limit.map(|_| tree));
        let limited: Vec<u64> = limited.collect();
        let is_aimed = !limited.is_empty() && random.chance(1, 2);
        let directory = *random.pick(if is_aimed { &limited } else { &directories });
        let (files, below): (Vec<Place>, Vec<Place>) =
            contents.places.iter().cloned().partition(|place| !place.is_directory);
        let is_in_limited =
            |place: &&Place| contents.upwards(place.parent).iter().any(|at| limited.contains(at));
        let aimed: Vec<Place> = files.iter().filter(is_in_limited).cloned().collect();
        let mut one_of = |places: &[Place]| (!places.is_empty()).then(|| random.pick(places).clone());
        let file = one_of(if is_aimed && !aimed.is_empty() { &aimed } else { &files });
        let (below, any) = (one_of(&below), one_of(&contents.places));
        Ok(Targets { contents, directory, file, below, any })
    }

    fn make(&mut self, step: Step, random: &mut Random) -> Result<(), String> {
        let now = Time::from_nanos(self.now);
        let targets = self.targets(random)?;
        let Targets { contents, directory: some_directory, file, below, any } = targets;
        let name = format!("n{}", self.made).into_bytes();
        let volume = self.volume.clone();
        match (step, file, any) {
            (Step::Commit, ..) => drop(self.pool.step_commit(now)),
            (Step::WriteBack, ..) => drop(self.pool.step_write_back(now, true, true)),
            (Step::Checkpoint, ..) => drop(self.pool.step_checkpoint(now, true)),
            (Step::Walk, ..) => self.walk()?,
            (Step::Directory | Step::File, ..) if contents.places.len() >= OBJECTS_MAX => {}
            (Step::Directory, ..) => {
                let set = SetAttributes::default();
                let made = self
                    .ask_again(|r| volume.make_directory(r, Ino(some_directory), &name, &set, &mut nothing));
                self.fits(made, some_directory, 0)?;
            }
            (Step::File, ..) => {
                let how = CreateHow::Guarded(SetAttributes::default());
                let made =
                    self.ask_again(|r| volume.create_file(r, Ino(some_directory), &name, &how, &mut nothing));
                self.fits(made, some_directory, 0)?;
            }
            (Step::Write | Step::Unstable, Some(file), _) => {
                let how = if matches!(step, Step::Write) { Stability::FileSync } else { Stability::Unstable };
                let (offset, length) = (random.below(20_000), 1 + random.index(20_000));
                let bytes = vec![5; length];
                let written = self.ask_again(|r| volume.write(r, Ino(file.ino), offset, &bytes[..], how));
                self.fits(written, file.parent, length as u64)?;
            }
            (Step::Truncate, Some(file), _) => {
                let size = random.below(file.size + 1);
                let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
                let cut = self.ask(|r| volume.set_attributes(r, Ino(file.ino), &set, None, &mut nothing));
                self.fits(cut, file.parent, 0)?;
            }
            (Step::Remove, Some(Place { parent, name, .. }), _) => {
                let removed = self.ask(|r| volume.remove(r, Ino(parent), &name, &mut nothing));
                self.unless_busy(removed)?;
            }
            (Step::RemoveDirectory, ..) => {
                let Some(Place { ino, parent, name, .. }) = below else { return Ok(()) };
                self.remove_directory(ino, parent, &name)?;
            }
            (Step::Rename, _, Some(place)) => self.rename(&contents, &place, some_directory, &name)?,
            (Step::Link, Some(file), _) => {
                let linked =
                    self.ask(|r| volume.link(r, Ino(file.ino), Ino(some_directory), &name, &mut nothing));
                match linked {
                    Err(Error::CrossDevice) => {}
                    linked => drop(self.unless_busy(linked)?),
                }
            }
            (Step::Tree, ..) => self.make_tree(&contents, some_directory)?,
            (Step::EndTree | Step::Limit, ..) => self.change_tree(step, random)?,
            _ => {}
        }
        Ok(())
    }

    /// Removes a directory, and its tree with it.
    fn remove_directory(&mut self, ino: u64, parent: u64, name: &[u8]) -> Result<(), String> {
        let volume = self.volume.clone();
        match self.ask(|r| volume.remove_directory(r, Ino(parent), name, &mut nothing)) {
            Err(Error::NotEmpty) => Ok(()),
            removed => {
                let mut known = self.last();
                if let Some(after) = self.unless_busy(removed)?
                    && known.trees.remove(&ino).is_some()
                {
                    self.push(known, after);
                }
                Ok(())
            }
        }
    }

    /// Moves an object. It may cross no tree; while directories become trees, it may stay for longer.
    fn rename(&mut self, contents: &Contents, place: &Place, to: u64, name: &[u8]) -> Result<(), String> {
        if place.is_directory && contents.upwards(to).contains(&place.ino) {
            return Ok(());
        }
        let volume = self.volume.clone();
        let moved =
            self.ask(|r| volume.rename(r, (Ino(place.parent), &place.name), (Ino(to), name), &mut nothing));
        let is_quiet = self.is_quiet()?;
        let roots: BTreeSet<u64> = self.last().trees.into_keys().collect();
        let tree_of = |directory: u64| contents.upwards(directory).into_iter().find(|at| roots.contains(at));
        let is_within =
            tree_of(place.parent) == tree_of(to) && !roots.contains(&place.ino) || place.parent == to;
        match moved {
            Err(Error::CrossDevice) if is_quiet && is_within => {
                Err("it stays in its tree, but XDEV".to_owned())
            }
            Err(Error::CrossDevice) => Ok(()),
            Ok(_) if is_quiet && !is_within => Err("it left its tree".to_owned()),
            moved => self.unless_busy(moved).map(drop),
        }
    }

    fn make_tree(&mut self, contents: &Contents, root: u64) -> Result<(), String> {
        let made = self.volume.create_tree(Ino(root), Time::from_nanos(self.now));
        let roots: Vec<u64> = self.last().trees.keys().copied().collect();
        let is_nested = roots
            .iter()
            .any(|other| contents.upwards(root).contains(other) || contents.upwards(*other).contains(&root));
        match made {
            Ok(_) if is_nested || root == 1 => Err(format!("a nested tree {root} was made")),
            Ok((tree, after)) => {
                let mut known = self.last();
                known.trees.insert(tree.root.0, None);
                self.most.insert(tree.root.0, u64::MAX);
                self.push(known, after);
                Ok(())
            }
            Err(TreeError::Root | TreeError::Exists | TreeError::Nested) => Ok(()),
            Err(TreeError::Failed(error)) => self.unless_busy(Err::<(), _>(error)).map(drop),
            Err(error) => Err(format!("{error:?}")),
        }
    }

    fn change_tree(&mut self, step: Step, random: &mut Random) -> Result<(), String> {
        let now = Time::from_nanos(self.now);
        let mut known = self.last();
        let trees: Vec<u64> = known.trees.keys().copied().collect();
        if trees.is_empty() {
            return Ok(());
        }
        let tree = *random.pick(&trees);
        if let Step::EndTree = step {
            match self.volume.delete_tree(Ino(tree), now) {
                Ok(after) => {
                    known.trees.remove(&tree);
                    self.push(known, after);
                    return Ok(());
                }
                Err(TreeError::Failed(error)) => return self.unless_busy(Err::<(), _>(error)).map(drop),
                Err(error) => return Err(format!("{error:?}")),
            }
        }
        let is_flushed = self.flush();
        let used = self.used(tree)?.0;
        let limit = random.chance(3, 4).then(|| 1 + used * random.below(2) + random.below(30_000));
        let limits =
            limit.map(|hard| Limits { bytes: Limit { soft: None, hard: Some(hard) }, ..Limits::default() });
        let set = self.volume.set_quota(owner(tree), limits, now);
        let most = if is_flushed { limit.unwrap_or(u64::MAX).max(used) } else { u64::MAX };
        self.most.insert(tree, most);
        if let Some(after) = self.unless_busy(set)? {
            known.trees.insert(tree, limit);
            self.push(known, after);
        } else {
            self.most.insert(tree, u64::MAX);
        }
        Ok(())
    }

    /// Lets a walk take a step. It may find that a directory cannot be a tree.
    fn walk(&mut self) -> Result<(), String> {
        self.pool.step_trees(Time::from_nanos(self.now));
        let known = Known::observe(&self.pool)?;
        if known != self.last() {
            let volume = self.volume.clone();
            let after = self.ask(|r| volume.status(r)).map_err(|error| format!("FSSTAT: {error:?}"))?;
            self.push(known, after);
        }
        Ok(())
    }

    /// Whether no tree is being made or deleted.
    fn is_quiet(&self) -> Result<bool, String> {
        let trees = self.volume.trees().map_err(|error| format!("{error:?}"))?;
        Ok(trees.iter().all(|tree| tree.state == TreeState::Ready))
    }

    /// Checks that what was refused for want of room does not fit into the tree of a directory.
    fn fits<T>(&mut self, done: Result<T, Error>, directory: u64, bytes: u64) -> Result<(), String> {
        if !matches!(done, Err(Error::QuotaExceeded)) {
            return self.unless_busy(done).map(drop);
        }
        if !self.is_quiet()? {
            // A file may be in the tree of another of its names, which was met first.
            return Ok(());
        }
        self.flush();
        let contents = Contents::read(&self.volume, self.now)?;
        let known = self.last();
        let limited = contents
            .upwards(directory)
            .into_iter()
            .find_map(|at| known.trees.get(&at).copied().flatten().map(|limit| (at, limit)));
        let Some((tree, limit)) = limited else { return Err("refused where nothing is limited".to_owned()) };
        let used = self.used(tree)?.0;
        if used.saturating_add(bytes) > limit {
            return Ok(());
        }
        Err(format!("{bytes} bytes were refused where {used} of {limit} are used"))
    }

    /// Lets walks go on until they are done, and what they did is durable.
    pub(super) fn finish_walks(&mut self) -> Result<(), String> {
        let now = Time::from_nanos(self.now);
        for _ in 0..200 {
            while self.pool.step_trees(now) == Progress::Worked {}
            let trees = self.volume.trees().map_err(|error| format!("{error:?}"))?;
            if trees.iter().all(|tree| matches!(tree.state, TreeState::Ready | TreeState::Refused(_))) {
                while self.pool.step_commit(now) == Progress::Worked {}
                return Ok(());
            }
            self.pool.step_write_back(now, true, true);
            self.pool.step_commit(now);
            self.pool.step_checkpoint(now, true);
        }
        Err("walks do not end".to_owned())
    }

    /// Compares the usage of trees with what is beneath their directories.
    pub(super) fn count_anew(&mut self) -> Result<(), String> {
        self.flush();
        let contents = Contents::read(&self.volume, self.now)?;
        for tree in self.volume.trees().map_err(|error| format!("{error:?}"))? {
            if tree.state != TreeState::Ready {
                continue;
            }
            let (counted, used) = (contents.usage(tree.root.0), self.used(tree.root.0)?);
            if counted != used {
                return Err(format!("tree {} uses {used:?}, but beneath it are {counted:?}", tree.root));
            }
        }
        Ok(())
    }

    fn used(&self, tree: u64) -> Result<(u64, u64), String> {
        let quota = self.volume.quota(owner(tree)).map_err(|error| format!("quota: {error:?}"))?;
        Ok((quota.bytes_used, quota.inodes_used))
    }

    /// Writes all unstable data back. Returns whether none is left.
    fn flush(&self) -> bool {
        self.pool.step_write_back(Time::from_nanos(self.now), true, true);
        self.pool.gauges().iter().any(|(name, value)| *name == "unstable_bytes" && *value == 0)
    }

    fn ask<T>(&self, operation: impl FnOnce(&Request<'_>) -> Answer<T>) -> Result<Durability, Error> {
        ask(Time::from_nanos(self.now), operation)
    }

    /// Like [`World::ask`], but asks again after background work, as the server does: callers who went away would leave an account
    /// that others wait for.
    fn ask_again<T>(&self, operation: impl Fn(&Request<'_>) -> Answer<T>) -> Result<Durability, Error> {
        let mut done = self.ask(&operation);
        for _ in 0..TRIES {
            match done {
                Err(error) if error.is_busy() => drop(self.unless_busy(done)),
                done => return done,
            }
            done = self.ask(&operation);
        }
        done
    }

    fn unless_busy<T>(&self, done: Result<T, Error>) -> Result<Option<T>, String> {
        unless_busy(&self.pool, Time::from_nanos(self.now), done)
    }

    fn last(&self) -> Known {
        self.history.last().cloned().unwrap_or_default()
    }

    fn push(&mut self, known: Known, after: Durability) {
        self.history.push(known);
        self.after.push(after);
    }
}
