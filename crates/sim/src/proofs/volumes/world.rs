//! A pool with several volumes, and what it holds after each change. Every change is one journal entry.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use volume::attributes::SetAttributes;
use volume::ids::{Ino, VolumeId};
use volume::quota::{Limit, Limits, Owner};
use volume::request::{Answer, Durability, Durable, Error, Promised, Request};
use volume::results::{CreateHow, Stability};
use volume::time::Time;
use volume::{Pool, Volume, VolumeOptions};

use crate::engine::{Sizes, create, list, open_pool, read_all, used_bytes};
use crate::media::SimMedia;
use crate::proofs::requests::{ask, nothing, unless_busy};
use crate::random::Random;

/// The file of each volume that takes unstable data, whose content is not compared.
const SCRATCH: &[u8] = b"scratch";
/// Most volumes at a time.
const VOLUMES_MAX: usize = 6;
/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 60_000;

/// What a pool holds.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The volumes by number.
    pub volumes: BTreeMap<u32, Known>,
    /// The numbers of all volumes that ever were.
    ever: BTreeSet<u32>,
}

/// A volume.
#[derive(Clone, Debug)]
pub(super) struct Known {
    name: String,
    size: Option<u64>,
    /// The quota of its bytes.
    quota: Option<u64>,
    files: BTreeMap<Vec<u8>, File>,
}

#[derive(Clone, Debug)]
struct File {
    ino: u64,
    bytes: Vec<u8>,
}

impl State {
    /// Reads what a pool holds.
    pub fn observe(pool: &Arc<Pool>, now: i64) -> Result<State, String> {
        let mut state = State::default();
        for volume in pool.volumes() {
            let mut files = BTreeMap::new();
            let entries = list(&volume, 1, now)?;
            for entry in entries.into_iter().filter(|entry| entry.ino != 1) {
                let bytes = read_all(&volume, entry.ino, now)?;
                files.insert(entry.name, File { ino: entry.ino, bytes });
            }
            let (name, size, quota) = (volume.name().to_string(), volume.size(), quota_of(&volume)?);
            let known = Known { name, size, quota, files };
            state.volumes.insert(volume.number().0, known);
        }
        Ok(state)
    }

    /// Compares with what was observed.
    pub fn compare(&self, seen: &State) -> Result<(), String> {
        let numbers = |state: &State| state.volumes.keys().copied().collect::<Vec<u32>>();
        if numbers(self) != numbers(seen) {
            return Err(format!("volumes {:?} are {:?}", numbers(self), numbers(seen)));
        }
        for (number, known) in &self.volumes {
            let found = &seen.volumes[number];
            let shown = |known: &Known| (known.name.clone(), known.size, known.quota);
            if shown(known) != shown(found) {
                return Err(format!("volume {number}, {:?}, is {:?}", shown(known), shown(found)));
            }
            known.compare(found).map_err(|wrong| format!("volume {number}: {wrong}"))?;
        }
        Ok(())
    }

    /// Takes over what only the model knows.
    pub fn recovered(&self, mut seen: State) -> State {
        seen.ever.clone_from(&self.ever);
        seen
    }
}

impl Known {
    fn compare(&self, found: &Known) -> Result<(), String> {
        let names = |known: &Known| {
            known.files.iter().map(|(name, file)| (name.clone(), file.ino)).collect::<Vec<_>>()
        };
        if names(self) != names(found) {
            return Err(format!("files {:?} are {:?}", names(self), names(found)));
        }
        let differs =
            |(name, file): &(&Vec<u8>, &File)| **name != SCRATCH && file.bytes != found.files[*name].bytes;
        match self.files.iter().find(differs) {
            Some((name, file)) => {
                let (wanted, got) = (file.bytes.len(), found.files[name].bytes.len());
                let name = String::from_utf8_lossy(name);
                Err(format!("file {name}: {got} bytes are not the {wanted} that were written"))
            }
            None => Ok(()),
        }
    }

    /// Returns the name and length of a file with known content.
    fn some_file(&self, random: &mut Random) -> Option<(Vec<u8>, File)> {
        let files: Vec<_> = self.files.iter().filter(|(name, _)| *name != SCRATCH).collect();
        if files.is_empty() {
            None
        } else {
            Some(*random.pick(&files)).map(|(name, file)| (name.clone(), file.clone()))
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Create,
    Rename,
    Resize,
    Limit,
    Delete,
    NewFile,
    Write,
    Remove,
    Truncate,
    Copy,
    Unstable,
    Commit,
    WriteBack,
    Checkpoint,
    Clean,
}

const STEPS: [(u64, Step); 15] = [
    (4, Step::Create),
    (2, Step::Rename),
    (2, Step::Resize),
    (2, Step::Limit),
    (3, Step::Delete),
    (8, Step::NewFile),
    (10, Step::Write),
    (4, Step::Remove),
    (3, Step::Truncate),
    (3, Step::Copy),
    (5, Step::Unstable),
    (12, Step::Commit),
    (3, Step::WriteBack),
    (5, Step::Checkpoint),
    (2, Step::Clean),
];

/// An open pool, and the states that a crash may leave.
pub(super) struct World {
    pub media: SimMedia,
    pub sizes: Sizes,
    pub pool: Arc<Pool>,
    pub now: i64,
    /// Whether changes count as acknowledged before they are durable: a planted fault.
    pub is_hasty: bool,
    /// The states after each change; first the one after opening.
    pub history: Vec<State>,
    /// What the replies of the changes wait for.
    after: Vec<Durability>,
    /// For each event so far: the last state acknowledged after it, and the last state then.
    pub marks: Vec<(usize, usize)>,
    /// Most bytes that may be used, by number of the volume.
    most: BTreeMap<u32, u64>,
    made: u64,
}

impl World {
    /// Creates a pool.
    pub fn new(sizes: Sizes, random: Random) -> Result<World, String> {
        let media = SimMedia::new(sizes.log_bytes, sizes.capacity, random);
        create(&media)?;
        let now = crate::engine::START + 1_000_000;
        let pool = open_pool(&media, &sizes, now)?;
        let mut start = State::observe(&pool, now)?;
        start.ever.extend(start.volumes.keys().copied());
        World::resume(media, sizes, pool, start, (now, 0))
    }

    /// Goes on with a pool that was opened and holds this.
    pub fn resume(
        media: SimMedia,
        sizes: Sizes,
        pool: Arc<Pool>,
        state: State,
        (now, made): (i64, u64),
    ) -> Result<World, String> {
        let mut most = BTreeMap::new();
        for volume in pool.volumes() {
            let used = used_bytes(&volume, now)?;
            let most_of_it = least(volume.size(), quota_of(&volume)?);
            most.insert(volume.number().0, most_of_it.max(used));
        }
        let history = vec![state];
        let after = vec![Durability::NOW];
        Ok(World { media, sizes, pool, now, is_hasty: false, history, after, marks: Vec::new(), most, made })
    }

    /// Returns how many things were made, so that names and contents differ.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Makes one random event.
    pub fn event(&mut self, random: &mut Random) -> Result<(), String> {
        self.now += 1_000_000;
        self.media.set_mark(self.marks.len() as u64);
        let step = random.weighted(&STEPS);
        let context = self.marks.len();
        self.make(step, random).map_err(|what| format!("event {context}, {step:?}: {what}"))?;
        let durable = |wanted: &Durability| self.pool.durability(*wanted) == Durable::Yes;
        let acked = self.after.iter().take_while(|after| self.is_hasty || durable(after)).count() - 1;
        self.marks.push((acked, self.history.len() - 1));
        for volume in self.pool.volumes() {
            let (used, most) = (used_bytes(&volume, self.now)?, self.most[&volume.number().0]);
            if used > most {
                return Err(format!(
                    "event {context}, {step:?}: volume {} uses {used} bytes of {most}",
                    volume.name()
                ));
            }
        }
        Ok(())
    }

    fn make(&mut self, step: Step, random: &mut Random) -> Result<(), String> {
        let now = Time::from_nanos(self.now);
        match step {
            Step::Commit => drop(self.pool.step_commit(now)),
            Step::WriteBack => drop(self.pool.step_write_back(now, true, true)),
            Step::Checkpoint => drop(self.pool.step_checkpoint(now, true)),
            Step::Clean => drop(self.pool.step_clean(now, true)),
            Step::Create => return self.create_volume(random),
            _ => {
                let volumes = self.pool.volumes();
                if volumes.is_empty() {
                    return self.create_volume(random);
                }
                let volume = random.pick(&volumes).clone();
                return match step {
                    Step::Rename | Step::Resize | Step::Limit | Step::Delete => {
                        self.change_volume(step, &volume, random)
                    }
                    _ => self.change_file(step, &volume, random),
                };
            }
        }
        Ok(())
    }

    fn create_volume(&mut self, random: &mut Random) -> Result<(), String> {
        if self.pool.volumes().len() >= VOLUMES_MAX {
            return Ok(());
        }
        self.made += 1;
        let size = random.chance(1, 3).then(|| 50_000 + random.below(100_000));
        let options = VolumeOptions {
            id: VolumeId(0x100 + self.made),
            name: format!("volume {}", self.made),
            size,
            handle_secret: [5; 16],
            root_mode: 0o777,
            root_owner: (0, 0),
        };
        let made = self.pool.create_volume(&options, Time::from_nanos(self.now));
        let Some(Promised { value, after }) = self.unless_busy(made.map_err(|failure| failure.error))? else {
            return Ok(());
        };
        let number = value.number().0;
        self.most.insert(number, size.unwrap_or(u64::MAX));
        let mut state = self.last();
        if !state.ever.insert(number) {
            return Err(format!("the number {number} of a new volume was used before"));
        }
        state.volumes.insert(number, Known { name: options.name, size, quota: None, files: BTreeMap::new() });
        self.push(state, after);
        Ok(())
    }

    fn change_volume(&mut self, step: Step, volume: &Volume, random: &mut Random) -> Result<(), String> {
        let number = volume.number().0;
        let mut state = self.last();
        let known = state.volumes.get_mut(&number).ok_or("a volume that was not made")?;
        let changed = match step {
            Step::Rename => {
                self.made += 1;
                known.name = format!("renamed {}", self.made);
                self.pool.rename_volume(volume, &known.name)
            }
            Step::Resize => {
                let is_flushed = self.flush();
                known.size = random.chance(2, 3).then(|| 1 + random.below(150_000));
                let used = used_bytes(volume, self.now)?;
                self.most.insert(number, most_with(is_flushed, least(known.size, known.quota).max(used)));
                self.pool.resize_volume(volume, known.size)
            }
            Step::Limit => {
                let is_flushed = self.flush();
                known.quota = random.chance(2, 3).then(|| 1 + random.below(150_000));
                let used = used_bytes(volume, self.now)?;
                self.most.insert(number, most_with(is_flushed, least(known.size, known.quota).max(used)));
                let limits = Limits { bytes: Limit { soft: None, hard: known.quota }, ..Limits::default() };
                let limits = known.quota.map(|_| limits);
                volume.set_quota(Owner::VOLUME, limits, Time::from_nanos(self.now))
            }
            _ => {
                state.volumes.remove(&number);
                self.pool.delete_volume(volume)
            }
        };
        if let Some(after) = self.unless_busy(changed)? {
            self.push(state, after);
        } else if let Step::Resize | Step::Limit = step {
            self.most.insert(number, u64::MAX);
        }
        Ok(())
    }

    fn change_file(&mut self, step: Step, volume: &Volume, random: &mut Random) -> Result<(), String> {
        let number = volume.number().0;
        let mut state = self.last();
        let known = state.volumes.get_mut(&number).ok_or("a volume that was not made")?;
        self.made += 1;
        let some = known.some_file(random);
        let (done, needs) = match (step, some) {
            (Step::Unstable, _) => return self.write_scratch(volume, random),
            (Step::Write, Some((name, file))) => self.write(volume, known, (name, file), random),
            (Step::Remove, Some((name, _))) => {
                known.files.remove(&name);
                (self.ask(|r| volume.remove(r, Ino::ROOT, &name, &mut nothing)), 0)
            }
            (Step::Truncate, Some((name, mut file))) => {
                file.bytes.truncate(random.index(file.bytes.len() + 1));
                let set = SetAttributes { size: Some(file.bytes.len() as u64), ..SetAttributes::default() };
                let ino = Ino(file.ino);
                known.files.insert(name, file);
                (self.ask(|r| volume.set_attributes(r, ino, &set, None, &mut nothing)), 0)
            }
            (Step::Copy, Some((from, source))) => {
                let Some((to, mut target)) = known.some_file(random).filter(|(to, _)| *to != from) else {
                    return Ok(());
                };
                let (length, needs) =
                    (source.bytes.len(), source.bytes.len().saturating_sub(target.bytes.len()));
                let mut count = 0;
                let copied = self.ask(|r| {
                    let ends = ((Ino(source.ino), 0), (Ino(target.ino), 0));
                    let copied = volume.copy_range(r, ends.0, ends.1, length as u64)?;
                    count = copied.value.count;
                    Ok(copied)
                });
                let count = usize::try_from(count).map_err(|error| error.to_string())?;
                target.bytes.resize(target.bytes.len().max(count), 0);
                target.bytes[..count].copy_from_slice(&source.bytes[..count]);
                known.files.insert(to, target);
                (copied, needs)
            }
            _ => {
                let name = format!("file {}", self.made).into_bytes();
                let made = self.new_file(volume, &name);
                if let Ok((ino, _)) = &made {
                    known.files.insert(name, File { ino: *ino, bytes: Vec::new() });
                }
                (made.map(|(_, after)| after), 0)
            }
        };
        if let Err(Error::NoSpace | Error::QuotaExceeded) = done {
            return self.check_full(volume, needs as u64);
        }
        if let Some(after) = self.unless_busy(done)? {
            self.push(state, after);
        }
        Ok(())
    }

    /// Writes a few bytes of a file into the journal. Returns also the bytes of them that are new.
    fn write(
        &self,
        volume: &Volume,
        known: &mut Known,
        (name, mut file): (Vec<u8>, File),
        random: &mut Random,
    ) -> (Result<Durability, Error>, usize) {
        let offset = random.index(file.bytes.len() + 1);
        let room = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX) - offset;
        let bytes = vec![self.made.to_le_bytes()[0]; (1 + random.index(20_000)).min(room).max(1)];
        let end = offset + bytes.len();
        let needs = end.saturating_sub(file.bytes.len());
        file.bytes.resize(file.bytes.len().max(end), 0);
        file.bytes[offset..end].copy_from_slice(&bytes);
        let ino = Ino(file.ino);
        known.files.insert(name, file);
        (self.ask(|r| volume.write(r, ino, offset as u64, &bytes[..], Stability::FileSync)), needs)
    }

    /// Writes unstable data, which a crash may take back.
    fn write_scratch(&mut self, volume: &Volume, random: &mut Random) -> Result<(), String> {
        let mut state = self.last();
        let known = state.volumes.get_mut(&volume.number().0).ok_or("a volume that was not made")?;
        let Some(file) = known.files.get(SCRATCH) else {
            let made = self.new_file(volume, SCRATCH);
            if let Some((ino, after)) = self.unless_busy(made)? {
                known.files.insert(SCRATCH.to_vec(), File { ino, bytes: Vec::new() });
                self.push(state, after);
            }
            return Ok(());
        };
        let (offset, length) = (random.below(400_000), 1 + random.index(90_000));
        let bytes = vec![9; length];
        let written = self.ask(|r| volume.write(r, Ino(file.ino), offset, &bytes[..], Stability::Unstable));
        match written {
            Err(Error::NoSpace | Error::QuotaExceeded) => self.check_full(volume, length as u64),
            written => self.unless_busy(written).map(drop),
        }
    }

    fn new_file(&self, volume: &Volume, name: &[u8]) -> Result<(u64, Durability), Error> {
        let mut ino = 0;
        let how = CreateHow::Guarded(SetAttributes::default());
        let after = self.ask(|r| {
            let made = volume.create_file(r, Ino::ROOT, name, &how, &mut nothing)?;
            ino = made.value.attributes.ino.0;
            Ok(made)
        })?;
        Ok((ino, after))
    }

    /// Writes all unstable data back. Returns whether nothing is left that was accepted before and may exceed a new limit.
    fn flush(&self) -> bool {
        self.pool.step_write_back(Time::from_nanos(self.now), true, true);
        self.pool.gauges().iter().any(|(name, value)| *name == "unstable_bytes" && *value == 0)
    }

    /// Checks that a volume whose size or quota refused some bytes has no room for them.
    fn check_full(&self, volume: &Volume, bytes: u64) -> Result<(), String> {
        self.pool.step_write_back(Time::from_nanos(self.now), true, true);
        let used = used_bytes(volume, self.now)?;
        match least(volume.size(), quota_of(volume)?) {
            most if used.saturating_add(bytes) > most => Ok(()),
            most => Err(format!("{bytes} bytes were refused where {used} of {most} are used")),
        }
    }

    fn ask<T>(&self, operation: impl FnOnce(&Request<'_>) -> Answer<T>) -> Result<Durability, Error> {
        ask(Time::from_nanos(self.now), operation)
    }

    fn unless_busy<T>(&self, done: Result<T, Error>) -> Result<Option<T>, String> {
        unless_busy(&self.pool, Time::from_nanos(self.now), done)
    }

    fn last(&self) -> State {
        self.history.last().cloned().unwrap_or_default()
    }

    fn push(&mut self, state: State, after: Durability) {
        self.history.push(state);
        self.after.push(after);
    }
}

/// Returns the quota of the bytes of a volume.
fn quota_of(volume: &Volume) -> Result<Option<u64>, String> {
    let quota = volume.quota(Owner::VOLUME).map_err(|error| format!("quota: {error:?}"))?;
    Ok(quota.limits.bytes.hard)
}

/// Returns the most that a volume may use, if nothing was accepted before it was limited.
fn most_with(is_flushed: bool, most: u64) -> u64 {
    if is_flushed { most } else { u64::MAX }
}

/// Returns the smaller of two limits.
fn least(size: Option<u64>, quota: Option<u64>) -> u64 {
    size.into_iter().chain(quota).min().unwrap_or(u64::MAX)
}
