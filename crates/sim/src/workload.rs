//! Random operations: many clients and users, few names, small and large files, so that operations conflict.

use volume::attributes::{Device, FileType, SetAttributes, SetTime};
use volume::quota::{Limit, Limits, Owner};
use volume::results::{SetXattr, SoughtContent, Stability};
use volume::time::Time;

use crate::call::{
    Call, CreateHow, EngineOnlyOp, Guard, ListingStart, Name, NodeKind, Obj, Operation, OperationId, User,
};
use crate::model::Model;
use crate::model::quotas::LIMITED;
use crate::model::recovery::WINDOWS;
use crate::random::Random;

/// The next event of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// A call.
    Call(Operation),
    /// A client retransmits a call with the same xid.
    Repeat(OperationId),
    /// A background step.
    Step(Step),
    /// Later calls arrive at this time, nanoseconds since 1970.
    Clock(i64),
    /// The volume is closed and reopened.
    Reopen,
    /// The capacity of the device, bytes.
    Capacity(u64),
}

/// A background step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Commits one batch of journal entries.
    Commit,
    /// Runs one round of write-back: of all data, or of due data.
    WriteBack(bool),
    /// Runs a checkpoint: always, or if one is due.
    Checkpoint(bool),
    /// Runs one step of the cleaner.
    Clean,
    /// Runs write-back of all data in a thread that halts at a sync, after this many others.
    SlowWriteBack(u32),
    /// Runs a checkpoint in a thread that halts at a sync, after this many others.
    SlowCheckpoint(u32),
    /// Lets the step that has halted go on, and waits until it is done.
    Resume,
}

/// The parameters of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The maximum length of most writes, bytes.
    pub write_bytes: u64,
    /// The percentage of calls that the superuser makes.
    pub root_percent: u64,
    /// The percentage of events that are background steps.
    pub step_percent: u64,
    /// Whether the volume is sometimes closed and reopened.
    pub reopen: bool,
    /// How many of a thousand events begin a contention for few files, while a background step is inside a sync.
    pub contentions: u64,
    /// How many of a thousand events set or remove limits, or give files to others.
    pub limits: u64,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            write_bytes: 12_000,
            root_percent: 50,
            step_percent: 25,
            reopen: true,
            contentions: 15,
            limits: 8,
        }
    }
}

impl Profile {
    /// Returns a workload that meets limits all the time: few calls of the superuser, whom most do not bind, many
    /// changes of limits, and files that are given to others.
    #[must_use]
    pub fn limited() -> Profile {
        Profile { root_percent: 20, limits: 100, ..Profile::default() }
    }
}

/// Draws events.
#[derive(Clone, Debug)]
pub struct Workload {
    random: Random,
    profile: Profile,
    next: OperationId,
    now: i64,
    remembered: Vec<OperationId>,
    /// What is left of a contention, the next event last.
    contention: Vec<Contended>,
}

/// An event of a contention.
#[derive(Clone, Copy, Debug)]
enum Contended {
    /// A WRITE.
    Write,
    /// Another change of the same files, or a commit.
    Any,
    /// A step.
    Step(Step),
}

/// Files that calls of a contention are for.
const CONTENDED_FILES: usize = 4;

#[derive(Clone, Copy)]
enum CallKind {
    GetAttributes,
    SetAttributes,
    Lookup,
    Access,
    ReadLink,
    Read,
    Write,
    Commit,
    Create,
    MakeDirectory,
    MakeSymlink,
    MakeNode,
    Remove,
    RemoveDirectory,
    Rename,
    Link,
    ReadDirectory,
    Status,
    Limits,
    Configuration,
    Nothing,
    ChangeState,
    Hold,
    Release,
    ReapOrphan,
    LookupParent,
    CreateExclusive,
    Seek,
    Allocate,
    Deallocate,
    GetXattr,
    SetXattr,
    RemoveXattr,
    ListXattrs,
    Clone,
}

const MIX: [(u64, CallKind); 35] = [
    (6, CallKind::GetAttributes),
    (10, CallKind::SetAttributes),
    (6, CallKind::Lookup),
    (3, CallKind::Access),
    (2, CallKind::ReadLink),
    (12, CallKind::Read),
    (24, CallKind::Write),
    (5, CallKind::Commit),
    (14, CallKind::Create),
    (6, CallKind::MakeDirectory),
    (3, CallKind::MakeSymlink),
    (2, CallKind::MakeNode),
    (7, CallKind::Remove),
    (3, CallKind::RemoveDirectory),
    (9, CallKind::Rename),
    (4, CallKind::Link),
    (6, CallKind::ReadDirectory),
    (2, CallKind::Status),
    (1, CallKind::Limits),
    (1, CallKind::Configuration),
    (1, CallKind::Nothing),
    (3, CallKind::ChangeState),
    (4, CallKind::Hold),
    (3, CallKind::Release),
    (2, CallKind::ReapOrphan),
    (1, CallKind::LookupParent),
    (2, CallKind::CreateExclusive),
    (3, CallKind::Seek),
    (2, CallKind::Allocate),
    (6, CallKind::Deallocate),
    (2, CallKind::GetXattr),
    (5, CallKind::SetXattr),
    (2, CallKind::RemoveXattr),
    (1, CallKind::ListXattrs),
    (9, CallKind::Clone),
];

/// Draws a contention: files become unstable, a step halts at a sync, and then they change again.
fn contention(random: &mut Random) -> Vec<Contended> {
    let passing = u32::try_from(random.weighted(&[(4, 0_u64), (1, 1), (1, 2)])).unwrap_or(0);
    let step = random.weighted(&[(3, Step::SlowWriteBack(passing)), (1, Step::SlowCheckpoint(passing))]);
    let mut contention = vec![Contended::Step(Step::Resume)];
    contention.extend((0..1 + random.below(8)).map(|_| Contended::Any));
    contention.push(Contended::Step(step));
    contention.extend((0..1 + random.below(5)).map(|_| Contended::Write));
    contention
}

impl Workload {
    /// Returns a workload that starts at `now`.
    #[must_use]
    pub fn new(random: Random, profile: Profile, now: i64) -> Workload {
        Workload { random, profile, next: 1, now, remembered: Vec::new(), contention: Vec::new() }
    }

    /// Returns the next event; `model` knows which objects exist.
    pub fn next(&mut self, model: &Model) -> Event {
        if let Some(next) = self.contention.pop() {
            return self.contended(model, next);
        }
        let random = &mut self.random;
        if self.profile.contentions > 0 && random.chance(self.profile.contentions, 1000) {
            self.contention = contention(random);
        }
        if random.chance(self.profile.step_percent, 100) {
            return Event::Step(random.weighted(&[
                (10, Step::Commit),
                (2, Step::WriteBack(false)),
                (4, Step::WriteBack(true)),
                (1, Step::Checkpoint(false)),
                (2, Step::Checkpoint(true)),
                (3, Step::Clean),
            ]));
        }
        if random.chance(1, 12) {
            // Clocks mostly advance, sometimes go back, and sometimes leap.
            self.now += match random.below(20) {
                0 => -1_000_000,
                1 => 100_000_000_000_000,
                _ => 1 + i64::from(random.below(2_000_000_000).to_le_bytes()[2]) * 1_000_000,
            };
            return Event::Clock(self.now);
        }
        if self.profile.reopen && random.chance(1, 150) {
            return Event::Reopen;
        }
        if random.chance(3, 100) && !self.remembered.is_empty() {
            let recent = self.remembered.len().saturating_sub(12);
            return Event::Repeat(*random.pick(&self.remembered[recent..]));
        }
        if random.chance(self.profile.limits, 1000) {
            let call = if random.chance(1, 2) { self.set_quota(model) } else { self.give(model) };
            let operation = self.operation(call);
            if operation.call.is_remembered() {
                self.remembered.push(operation.id);
            }
            return Event::Call(operation);
        }
        let id = self.next;
        self.next += 1;
        let root = random.chance(self.profile.root_percent, 100);
        let user = if root { User::ROOT } else { User(random.below(u64::from(User::ALL)).to_le_bytes()[0]) };
        let client = random.below(3).to_le_bytes()[0];
        let kind = random.weighted(&MIX);
        let operation = Operation { id, client, user, call: self.call(kind, model) };
        if operation.call.is_remembered() {
            self.remembered.push(id);
        }
        Event::Call(operation)
    }

    fn contended(&mut self, model: &Model, next: Contended) -> Event {
        let files = model.objects().filter(|(_, kind)| *kind == FileType::Regular);
        let files: Vec<Obj> = files.map(|(object, _)| object).take(CONTENDED_FILES).collect();
        if files.is_empty() {
            self.contention.clear();
            return Event::Step(Step::Resume);
        }
        let object = *self.random.pick(&files);
        let call = match next {
            Contended::Step(step) => return Event::Step(step),
            Contended::Write => self.contend_write(object),
            Contended::Any => match self.random.below(12) {
                0 | 1 => {
                    let set =
                        SetAttributes { size: Some(self.contended_offset()), ..SetAttributes::default() };
                    Call::SetAttributes { object, set, guard: Guard::No }
                }
                2 | 3 => Call::Commit { object, offset: 0, count: 0 },
                4 => Call::Remove { directory: self.directory(model), name: self.name() },
                5 => Call::Read { object, offset: self.contended_offset(), count: 70_000 },
                6 => {
                    let (offset, length) = (self.contended_offset(), 4096 * (1 + self.random.below(8)));
                    Call::EngineOnly(EngineOnlyOp::Deallocate { object, offset, length })
                }
                7 | 8 => return Event::Step(Step::Commit),
                9 => {
                    let (to, count) = (*self.random.pick(&files), 4096 * (1 + self.random.below(16)));
                    let (offset, at) = (self.contended_offset(), self.contended_offset());
                    let copy = self.random.chance(1, 2);
                    Call::EngineOnly(EngineOnlyOp::Clone { object, offset, to, at, count, copy })
                }
                _ => self.contend_write(object),
            },
        };
        let operation = self.operation(call);
        if operation.call.is_remembered() {
            self.remembered.push(operation.id);
        }
        Event::Call(operation)
    }

    fn contend_write(&mut self, object: Obj) -> Call {
        let stability = self.random.weighted(&[(6, Stability::Unstable), (1, Stability::FileSync)]);
        let length = 4096 * (1 + self.random.below(24));
        let length = u32::try_from(length).unwrap_or(4096);
        Call::Write { object, offset: self.contended_offset(), length, stability }
    }

    fn contended_offset(&mut self) -> u64 {
        4096 * self.random.below(32)
    }

    fn object(&mut self, model: &Model, wanted: impl Fn(FileType) -> bool) -> Obj {
        if self.random.chance(1, 25) {
            return *self.random.pick(&model.ever_born());
        }
        let fitting: Vec<Obj> =
            model.objects().filter(|(_, kind)| wanted(*kind)).map(|(object, _)| object).collect();
        // The few oldest objects are the most popular.
        let popular = fitting.len().min(4);
        match fitting.len() {
            0 => Obj(0),
            _ if self.random.chance(1, 2) => *self.random.pick(&fitting[..popular]),
            _ => *self.random.pick(&fitting),
        }
    }

    fn directory(&mut self, model: &Model) -> Obj {
        self.object(model, |kind| kind == FileType::Directory)
    }

    fn file(&mut self, model: &Model) -> Obj {
        self.object(model, |kind| kind == FileType::Regular)
    }

    fn any(&mut self, model: &Model) -> Obj {
        self.object(model, |_| true)
    }

    fn name(&mut self) -> Name {
        let odd = self.random.chance(1, 30);
        Name(self.random.below(u64::from(if odd { Name::ALL } else { Name::ORDINARY })).to_le_bytes()[0])
    }

    fn mode(&mut self) -> u32 {
        *self
            .random
            .pick(&[0o644, 0o755, 0o777, 0o777, 0o600, 0o000, 0o4755, 0o2775, 0o6777, 0o1777, 0o2644, 0o311])
    }

    fn set_new(&mut self) -> SetAttributes {
        let mode = Some(self.mode());
        let uid = self.random.chance(1, 10).then(|| *self.random.pick(&[0, 1000, 1001]));
        SetAttributes { mode, uid, ..SetAttributes::default() }
    }

    fn time(&mut self) -> SetTime {
        match self.random.below(4) {
            0 => SetTime::Now,
            1 => SetTime::To(Time::from_nanos(self.now + 5_000_000_000)),
            _ => SetTime::To(Time::from_nanos(1_000_000_000_000_000_000)),
        }
    }

    fn offset(&mut self) -> u64 {
        let (start, length) = WINDOWS[self.random.weighted(&[(20, 0), (1, 1), (1, 2)])];
        let within = u64::from(length) / 2;
        let reach = *self.random.pick(&[8_000, 8_000, 40_000, within]);
        let offset = self.random.below(reach);
        start + if self.random.chance(1, 2) { offset / 4096 * 4096 } else { offset }
    }

    /// Returns the offset of a READ: mostly where data is, sometimes in the holes between and after it.
    fn read_offset(&mut self) -> u64 {
        let (start, length) = *self.random.pick(&WINDOWS);
        let end = start + u64::from(length);
        match self.random.below(12) {
            0 => end - self.random.below(9000),
            1 => start.saturating_sub(self.random.below(9000)),
            2 => end + self.random.below(1 << 30),
            3 => *self.random.pick(&[1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX - 5000, u64::MAX]),
            _ => self.offset(),
        }
    }

    /// Returns a size: mostly within the data, sometimes one that leaves a huge hole, sometimes an invalid one.
    fn size(&mut self) -> u64 {
        match self.random.below(16) {
            0 => (1 << 62) + self.random.below(100_000),
            1 => *self.random.pick(&[(1 << 63) - 1, 1 << 63, u64::MAX]),
            _ => self.offset(),
        }
    }

    fn length(&mut self) -> u32 {
        let entries_max = match self.random.below(12) {
            0 => 200_000,
            1 | 2 => 70_000,
            _ => self.profile.write_bytes,
        };
        let length = 1 + self.random.below(entries_max);
        let whole = if self.random.chance(1, 2) { length.div_ceil(4096) * 4096 } else { length };
        if self.random.chance(1, 60) { 0 } else { u32::try_from(whole).unwrap_or(4096) }
    }

    fn set(&mut self) -> SetAttributes {
        let mut set = SetAttributes::default();
        match self.random.below(12) {
            0..=4 => set.size = Some(self.size()),
            5 | 6 => set.mode = Some(self.mode()),
            7 => set.uid = Some(*self.random.pick(&[0, 1000, 1001])),
            8 => set.gid = Some(*self.random.pick(&[0, 100, 200, 300])),
            9 => set.mtime = self.time(),
            10 => (set.atime, set.mtime) = (SetTime::Now, SetTime::Now),
            _ => (set.atime, set.mode) = (self.time(), Some(self.mode())),
        }
        set
    }

    fn how(&mut self) -> CreateHow {
        match self.random.below(6) {
            0 | 1 => CreateHow::Guarded(self.set_new()),
            2 => CreateHow::Exclusive([self.random.below(3).to_le_bytes()[0]; 8]),
            3 => CreateHow::Unchecked(SetAttributes { size: Some(0), ..self.set_new() }),
            _ => CreateHow::Unchecked(self.set_new()),
        }
    }

    fn node(&mut self) -> NodeKind {
        let device = Device { major: 8, minor: 3 };
        *self.random.pick(&[
            NodeKind::Fifo,
            NodeKind::Fifo,
            NodeKind::Socket,
            NodeKind::Block(device),
            NodeKind::Character(device),
        ])
    }

    fn stability(&mut self) -> Stability {
        self.random.weighted(&[(6, Stability::Unstable), (1, Stability::DataSync), (4, Stability::FileSync)])
    }

    fn write(&mut self, model: &Model) -> Call {
        let stability = self.stability();
        // A WRITE that ends beyond the largest offset must be refused.
        let beyond = self.random.chance(1, 60);
        let offset = if beyond { (1 << 63) - self.random.below(1000) } else { self.offset() };
        let length = if beyond { 1001 } else { self.length() };
        Call::Write { object: self.file(model), offset, length, stability }
    }

    /// Returns an event that takes space: a large WRITE, or the creation of another file or directory.
    pub fn fill(&mut self, model: &Model) -> Event {
        let (directory, name) = (self.directory(model), self.name());
        let set = SetAttributes { mode: Some(0o777), ..SetAttributes::default() };
        let call = match self.random.below(8) {
            0 => Call::MakeDirectory { directory, name, set },
            1 | 2 => Call::Create { directory, name, how: CreateHow::Guarded(set) },
            _ => {
                let offset = self.random.below(300) << 10;
                let length = 4096 + self.random.below(190_000);
                let (object, stability) = (self.any_file(model), self.stability());
                Call::Write { object, offset, length: u32::try_from(length).unwrap_or(4096), stability }
            }
        };
        Event::Call(self.operation(call))
    }

    /// Returns any file; the oldest is as likely as the newest.
    fn any_file(&mut self, model: &Model) -> Obj {
        let files = model.objects().filter(|(_, kind)| *kind == FileType::Regular);
        let files: Vec<Obj> = files.map(|(object, _)| object).collect();
        if files.is_empty() { Obj(0) } else { *self.random.pick(&files) }
    }

    /// Returns a call of the superuser.
    pub fn operation(&mut self, call: Call) -> Operation {
        let id = self.next;
        self.next += 1;
        Operation { id, client: self.random.below(3).to_le_bytes()[0], user: User::ROOT, call }
    }

    fn call(&mut self, kind: CallKind, model: &Model) -> Call {
        let length = u16::try_from(self.random.weighted(&[(8, 20), (2, 255), (2, 3000), (1, 0), (1, 4095)]))
            .unwrap_or(1);
        match kind {
            CallKind::GetAttributes => Call::GetAttributes { object: self.any(model) },
            CallKind::SetAttributes => {
                let object = if self.random.chance(2, 3) { self.file(model) } else { self.any(model) };
                let guard = self.random.weighted(&[(10, Guard::No), (2, Guard::Right), (1, Guard::Wrong)]);
                Call::SetAttributes { object, set: self.set(), guard }
            }
            CallKind::Lookup => Call::Lookup { directory: self.directory(model), name: self.name() },
            CallKind::Access => Call::Access { object: self.any(model), mask: 0x3F },
            CallKind::ReadLink => {
                Call::ReadLink { object: self.object(model, |kind| kind == FileType::Symlink) }
            }
            CallKind::Read => {
                Call::Read { object: self.file(model), offset: self.read_offset(), count: self.length() }
            }
            CallKind::Write => self.write(model),
            CallKind::Commit => {
                let whole = self.random.chance(2, 3);
                let (offset, count) = if whole { (0, 0) } else { (self.offset(), self.length()) };
                Call::Commit { object: self.file(model), offset, count }
            }
            CallKind::Create => {
                Call::Create { directory: self.directory(model), name: self.name(), how: self.how() }
            }
            CallKind::MakeDirectory => Call::MakeDirectory {
                directory: self.directory(model),
                name: self.name(),
                set: self.set_new(),
            },
            CallKind::MakeSymlink => {
                let set = SetAttributes::default();
                Call::MakeSymlink { directory: self.directory(model), name: self.name(), length, set }
            }
            CallKind::MakeNode => {
                let (kind, set) = (self.node(), self.set_new());
                Call::MakeNode { directory: self.directory(model), name: self.name(), kind, set }
            }
            CallKind::Remove => Call::Remove { directory: self.directory(model), name: self.name() },
            CallKind::RemoveDirectory => {
                Call::RemoveDirectory { directory: self.directory(model), name: self.name() }
            }
            CallKind::Rename => Call::Rename {
                from: self.directory(model),
                name: self.name(),
                to: self.directory(model),
                as_name: self.name(),
            },
            CallKind::Link => {
                let object = if self.random.chance(5, 6) { self.file(model) } else { self.any(model) };
                Call::Link { object, directory: self.directory(model), name: self.name() }
            }
            CallKind::ReadDirectory => {
                let from = if self.random.chance(1, 3) { ListingStart::Start } else { ListingStart::Last };
                let (entries_max, plus) = (*self.random.pick(&[1, 2, 3, 5, 100]), self.random.chance(1, 2));
                Call::ReadDirectory { directory: self.directory(model), from, entries_max, plus }
            }
            CallKind::Status => Call::Status,
            CallKind::Limits => Call::Limits { object: self.any(model) },
            CallKind::Configuration => Call::Configuration { object: self.any(model) },
            CallKind::Nothing => Call::Nothing,
            _ => Call::EngineOnly(self.engine_only_op(kind, model)),
        }
    }

    /// Returns a CLONE, mostly of whole blocks or to the end of the file, or a COPY.
    fn clone_call(&mut self, model: &Model) -> EngineOnlyOp {
        let (object, to) = (self.file(model), self.file(model));
        let copy = self.random.chance(1, 2);
        let aligned = !copy && !self.random.chance(1, 12);
        let (mut offset, mut at) = (self.offset(), self.offset());
        let mut count = if self.random.chance(1, 4) { 0 } else { u64::from(self.length()) };
        if self.random.chance(1, 3) {
            (offset, at) = (0, 0);
        }
        if aligned {
            (offset, at, count) = (offset / 4096 * 4096, at / 4096 * 4096, count.div_ceil(4096) * 4096);
        }
        EngineOnlyOp::Clone { object, offset, to, at, count, copy }
    }

    /// Limits an owner to a little more than it uses, to less, or not at all.
    fn set_quota(&mut self, model: &Model) -> Call {
        let owner = *self.random.pick(&LIMITED);
        // Of others, the one who uses most stands for all.
        let is_meant = |(known, _): &(Owner, _)| {
            *known == owner || owner.is_others() && known.kind == owner.kind && known.may_be_limited()
        };
        let used = model.usage().into_iter().filter(is_meant).map(|(_, used)| used);
        let used = used.max_by_key(|used| used.bytes).unwrap_or_default();
        let random = &mut self.random;
        let bytes = random.chance(3, 4).then(|| used.bytes * random.below(4).min(1) + random.below(30_000));
        let inodes = random.chance(1, 2).then(|| used.inodes * random.below(4).min(1) + random.below(5));
        let hard = |hard| Limit { soft: None, hard };
        let limits = Limits { bytes: hard(bytes), inodes: hard(inodes) };
        let limits = random.chance(3, 4).then_some(limits);
        Call::EngineOnly(EngineOnlyOp::SetQuota { owner, limits })
    }

    /// Gives an object to another user, to another group, or to both.
    fn give(&mut self, model: &Model) -> Call {
        let object = if self.random.chance(4, 5) { self.file(model) } else { self.any(model) };
        let (user, group) = *self.random.pick(&[(true, false), (false, true), (true, true)]);
        let uid = user.then(|| *self.random.pick(&[0, 1000, 1001, 1002]));
        let gid = group.then(|| *self.random.pick(&[0, 100, 200, 300]));
        let set = SetAttributes { uid, gid, ..SetAttributes::default() };
        Call::SetAttributes { object, set, guard: Guard::No }
    }

    /// Returns one of a few extended attributes.
    fn key(&mut self) -> u8 {
        self.random.below(4).to_le_bytes()[0]
    }

    /// Returns a range of a file, rarely an invalid one.
    fn range(&mut self) -> (u64, u64) {
        let length = match self.random.below(20) {
            0 => 0,
            1 => 1 << 63,
            2 => 2 << 30,
            _ => u64::from(self.length()),
        };
        (self.offset(), length)
    }

    /// Returns a call that NFSv3 lacks.
    fn engine_only_op(&mut self, kind: CallKind, model: &Model) -> EngineOnlyOp {
        match kind {
            CallKind::ChangeState => {
                let key = self.random.below(6).to_le_bytes()[0];
                let value = self.random.weighted(&[(4, Some(60)), (1, Some(2048)), (1, Some(0)), (2, None)]);
                EngineOnlyOp::ChangeState { key, length: value }
            }
            CallKind::Hold => EngineOnlyOp::Hold { object: self.file(model) },
            CallKind::Release => {
                let held = model.held_objects();
                let object = if held.is_empty() { self.file(model) } else { *self.random.pick(&held) };
                EngineOnlyOp::Release { object }
            }
            CallKind::LookupParent => EngineOnlyOp::LookupParent { directory: self.directory(model) },
            CallKind::CreateExclusive => EngineOnlyOp::CreateExclusive {
                directory: self.directory(model),
                name: self.name(),
                verifier: [self.random.below(3).to_le_bytes()[0]; 8],
                set: self.set_new(),
            },
            CallKind::Seek => {
                let content = *self.random.pick(&[SoughtContent::Data, SoughtContent::Hole]);
                EngineOnlyOp::Seek { object: self.file(model), offset: self.read_offset(), content }
            }
            CallKind::Allocate => {
                let (offset, length) = self.range();
                EngineOnlyOp::Allocate { object: self.file(model), offset, length }
            }
            CallKind::Deallocate => {
                let (offset, length) = self.range();
                EngineOnlyOp::Deallocate { object: self.file(model), offset, length }
            }
            CallKind::Clone => self.clone_call(model),
            CallKind::GetXattr => EngineOnlyOp::GetXattr { object: self.any(model), key: self.key() },
            CallKind::SetXattr => {
                let length = self.random.weighted(&[(6, 50), (1, 0), (2, 5000), (1, 40_000), (1, u16::MAX)]);
                let how = *self.random.pick(&[
                    SetXattr::Either,
                    SetXattr::Either,
                    SetXattr::Create,
                    SetXattr::Replace,
                ]);
                EngineOnlyOp::SetXattr { object: self.any(model), key: self.key(), length, how }
            }
            CallKind::RemoveXattr => EngineOnlyOp::RemoveXattr { object: self.any(model), key: self.key() },
            CallKind::ListXattrs => EngineOnlyOp::ListXattrs { object: self.any(model) },
            _ => EngineOnlyOp::ReapOrphan,
        }
    }
}
