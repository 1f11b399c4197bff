//! A volume and the model in lockstep: every reply is judged, and leaves only when the engine allows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use volume::ids::Ino;
use volume::request::{Access, Credentials, Durability, Durable, Journaled, Request};
use volume::time::Time;
use volume::{Progress, Volume};

use crate::call::{
    Attrs, Call, CallResult, EngineOnlyOp, Guard, ListingStart, Operation, OperationId, Success, Wcc,
};
use crate::engine::{START, Sizes, attributes, check_usage, create, open, walk};
use crate::media::{Halted, SimMedia};
use crate::model::recovery::{SafeRanges, Tree};
use crate::model::{Model, Observed};
use crate::random::Random;
use crate::transport::{CallStatus, DirectTransport, Replayed, Reply, ResolvedCall, Transport};
use crate::workload::{Event, Step};

/// When the first call arrives, nanoseconds since 1970.
pub const FIRST_CALL: i64 = START + 10_000_000_000;

/// How far the engine may be ahead of the clock after opening, nanoseconds.
const AHEAD_MAX_NANOS: i64 = 5_000_000_000;

/// How long the engine promises to remember answers, nanoseconds.
const REMEMBERED_NANOS: i64 = 300_000_000_000;

/// Attempts of a call that meets a limit, with a background step between two of them.
const ATTEMPTS_MAX: usize = 2000;

/// Attempts between two that an orphan is removed before.
const REAP_EVERY: usize = 5;

/// The time between two attempts, nanoseconds.
const WAIT_NANOS: i64 = 20_000_000;

/// A reply that waits for durability.
#[derive(Clone, Debug)]
struct Parked {
    id: OperationId,
    observed: Observed,
    after: Durability,
    seen: Vec<Attrs>,
}

/// A reply that left.
#[derive(Clone, Debug)]
pub struct Ack {
    /// The mark of the event that it left after.
    pub mark: u64,
    /// The operation.
    pub id: OperationId,
    /// What it showed.
    pub observed: Observed,
    seen: Vec<Attrs>,
}

/// The answer to a call that is remembered.
#[derive(Clone, Debug)]
struct Answered {
    outcome: CallResult,
    failure_attributes: Vec<Wcc>,
    mutation: u64,
    observed: Observed,
    /// Whether the call changed anything: only then must it never be executed again.
    changed: bool,
    at: i64,
}

/// The highest change value and ctime of an object shown before a crash, and its values after recovery.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown {
    change: u64,
    ctime: i64,
    change_left: u64,
    ctime_left: i64,
}

/// A volume, its model and its clients.
pub struct Run {
    /// The volume's media.
    pub media: SimMedia,
    /// The engine; `None` while the volume is being reopened.
    volume: Option<Arc<Volume>>,
    /// The model's present state.
    pub model: Model,
    /// The model before each mutation, by the number of mutations so far.
    pub history: BTreeMap<u64, Model>,
    /// The replies that left.
    pub acks: Vec<Ack>,
    /// The number of mutations after the event with this mark.
    pub asked: Vec<u64>,
    /// The number of replies whose durability failed; only faults may cause that.
    pub failed: u64,
    /// Whether faults are planned: failures are then not judged by the model.
    pub faulty: bool,
    /// Breaks the promise on purpose: replies leave at once.
    pub early_replies: bool,
    /// Breaks media on purpose: the sync that a background step halts at makes nothing durable.
    pub slow_syncs_lie: bool,
    /// A background step that has halted. It keeps locks: other steps but a commit have it end first.
    halted: Option<Halted>,
    sizes: Sizes,
    target: Box<dyn Transport>,
    parked: Vec<Parked>,
    now: i64,
    /// The latest time that the engine was given.
    latest: i64,
    /// The engine hands out no earlier time: after opening it continues past every time that may have been shown.
    floor: i64,
    /// Until the clock passes this time, replies may reveal the floor.
    floor_below: i64,
    /// Whether a reply has revealed the floor: one to a call that changes the time of an object once.
    floor_known: bool,
    random: Random,
    calls: BTreeMap<OperationId, ResolvedCall>,
    answered: BTreeMap<OperationId, Answered>,
    shown: BTreeMap<u64, Shown>,
    verifier: Option<[u8; 8]>,
    lost_verifiers: Vec<[u8; 8]>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("now", &self.now).field("parked", &self.parked).finish_non_exhaustive()
    }
}

impl Run {
    /// Creates a volume that is reached by engine calls.
    ///
    /// # Errors
    /// The volume cannot be created.
    pub fn new(sizes: Sizes, mut random: Random) -> Result<Run, String> {
        let media = SimMedia::new(sizes.log_bytes, sizes.capacity, random.fork());
        create(&media)?;
        let volume = open(&media, &sizes, START)?;
        let root = attributes(&volume, 1, START)?;
        let mut run = Run::of(media, volume, Model::new(&root), sizes, random);
        run.target = Box::new(DirectTransport::default());
        Ok(run)
    }

    fn of(media: SimMedia, volume: Arc<Volume>, model: Model, sizes: Sizes, random: Random) -> Run {
        Run {
            media,
            volume: Some(volume),
            asked: vec![model.mutations],
            model,
            history: BTreeMap::new(),
            acks: Vec::new(),
            failed: 0,
            faulty: false,
            early_replies: false,
            slow_syncs_lie: false,
            halted: None,
            sizes,
            target: Box::new(DirectTransport::default()),
            parked: Vec::new(),
            now: FIRST_CALL,
            latest: FIRST_CALL,
            floor: 0,
            floor_below: 0,
            floor_known: true,
            random,
            calls: BTreeMap::new(),
            answered: BTreeMap::new(),
            shown: BTreeMap::new(),
            verifier: None,
            lost_verifiers: Vec::new(),
        }
    }

    /// Reaches the volume through `target`.
    #[must_use]
    pub fn with_transport(mut self, target: Box<dyn Transport>) -> Run {
        self.target = target;
        self
    }

    /// Returns the engine.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        self.volume.as_ref().expect("a volume that cannot be opened again ends the run")
    }

    /// Returns the virtual time, nanoseconds since 1970.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Returns the sizes of the volume.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Continues after a crash with the recovered volume, whose state was found to be `state`. Returns the calls that
    /// clients retransmit.
    pub fn recovered(
        &mut self,
        media: SimMedia,
        volume: Arc<Volume>,
        state: &Model,
        tree: &Tree,
        mark: u64,
    ) -> Vec<OperationId> {
        for ack in self.acks.iter().filter(|ack| ack.mark <= mark) {
            for seen in &ack.seen {
                let shown = self.shown.entry(seen.ino).or_default();
                shown.change = shown.change.max(seen.change.unwrap_or(0));
                shown.ctime = shown.ctime.max(seen.ctime);
            }
        }
        for (ino, found) in &tree.objects {
            let shown = self.shown.entry(*ino).or_default();
            (shown.change_left, shown.ctime_left) =
                (found.seen_after.change.unwrap_or(0), found.seen_after.ctime);
        }
        // After the crash the engine remembers the answers that were in the journal.
        self.answered.retain(|_, answer| answer.mutation <= state.mutations && answer.changed);
        self.lost_verifiers.extend(self.verifier.take());
        self.floor_below = self.latest.max(self.floor) + AHEAD_MAX_NANOS;
        self.floor_known = false;
        self.halted = None;
        self.target.disconnect();
        (self.media, self.volume, self.model) = (media, Some(volume), state.clone());
        self.model.adopt(tree);
        self.restore_holds();
        self.history.clear();
        self.acks.clear();
        self.asked = vec![self.model.mutations];
        self.parked.clear();
        let again = self.calls.iter().filter(|(_, call)| call.operation.call.is_remembered());
        again.map(|(id, _)| *id).collect()
    }

    /// Holds files again, as a protocol does from its own records.
    fn restore_holds(&self) {
        for (ino, times) in self.model.held() {
            (0..times).for_each(|_| self.volume().hold(Ino(ino)));
        }
        self.volume().reap_orphans();
    }

    /// Returns the mark of the current event.
    #[must_use]
    pub fn mark(&self) -> u64 {
        self.asked.len() as u64
    }

    /// Executes an event.
    ///
    /// # Errors
    /// What the engine did wrong.
    pub fn step(&mut self, event: Event) -> Result<(), String> {
        self.media.set_mark(self.mark());
        match event {
            Event::Call(operation) => self.call(operation)?,
            Event::Repeat(id) => self.repeat(id)?,
            Event::Step(step) => self.background(step),
            Event::Clock(now) => (self.now, self.latest) = (now, self.latest.max(now)),
            Event::Capacity(bytes) => self.media.set_capacity(bytes),
            Event::Reopen => self.reopen()?,
        }
        self.asked.push(self.model.mutations);
        self.release()
    }

    /// Executes a background step.
    pub fn background(&mut self, step: Step) {
        self.background_at(step, self.now);
    }

    /// Executes a background step at its own time: a call that waits for background work must see time pass.
    fn background_at(&mut self, step: Step, now: i64) {
        let now = Time::from_nanos(now);
        if step != Step::Commit {
            self.halted = None;
        }
        let volume = self.volume();
        match step {
            Step::Commit => volume.step_commit(now),
            Step::WriteBack(everything) => volume.step_write_back(now, everything, true),
            Step::Checkpoint(force) => volume.step_checkpoint(now, force),
            Step::Clean => volume.step_clean(now, true),
            Step::SlowWriteBack(passing) => {
                self.halt(passing, move |volume| volume.step_write_back(now, true, true))
            }
            Step::SlowCheckpoint(passing) => {
                self.halt(passing, move |volume| volume.step_checkpoint(now, true))
            }
            Step::Resume => Progress::Idle,
        };
    }

    /// Runs a step in a thread of its own, until it halts at a sync or is done.
    fn halt(&mut self, passing: u32, step: impl FnOnce(&Volume) -> Progress + Send + 'static) -> Progress {
        let volume = Arc::clone(self.volume());
        let work = move || {
            step(&volume);
        };
        self.halted = Halted::run(work, passing, self.slow_syncs_lie);
        Progress::Worked
    }

    /// Lets a background step end that has halted.
    ///
    /// # Errors
    /// What the engine did wrong.
    pub fn resume(&mut self) -> Result<(), String> {
        self.step(Event::Step(Step::Resume))
    }

    /// Lets every reply leave that may.
    fn release(&mut self) -> Result<(), String> {
        let mark = self.mark();
        for parked in std::mem::take(&mut self.parked) {
            match self.volume().durability(parked.after) {
                Durable::NotYet if self.early_replies => {
                    self.acks.push(Ack { mark, id: parked.id, observed: parked.observed, seen: parked.seen });
                }
                Durable::Yes => {
                    self.acks.push(Ack { mark, id: parked.id, observed: parked.observed, seen: parked.seen });
                }
                Durable::NotYet => self.parked.push(parked),
                Durable::Failed if self.faulty => self.failed += 1,
                Durable::Failed => {
                    return Err(format!("the reply to operation {} failed without a fault", parked.id));
                }
            }
        }
        Ok(())
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.halted = None;
        let closed = self.volume().close(Time::from_nanos(self.now));
        if self.faulty {
            return Ok(());
        }
        closed.map_err(|error| format!("the volume cannot be closed: {error}"))?;
        self.release()?;
        if let Some(parked) = self.parked.first() {
            return Err(format!(
                "the reply to operation {} still waits after the volume was closed",
                parked.id
            ));
        }
        // Only one process at a time may have the volume open.
        self.target.disconnect();
        self.volume = None;
        self.volume = Some(open(&self.media, &self.sizes, self.now)?);
        self.restore_holds();
        self.answered.retain(|_, answer| answer.changed);
        self.verifier = None;
        self.model.declare_durable();
        self.floor_below = self.latest.max(self.floor) + AHEAD_MAX_NANOS;
        self.floor_known = false;
        self.history.clear();
        self.compare_all()
    }

    /// Compares the whole tree with the model.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare_all(&mut self) -> Result<(), String> {
        self.halted = None;
        while self.volume().step_write_back(Time::from_nanos(self.now), true, true) == Progress::Worked {}
        while self.volume().step_commit(Time::from_nanos(self.now)) == Progress::Worked {}
        self.model.written_back();
        let tree = walk(self.volume(), self.now)?;
        let mut settled = self.model.clone();
        settled.declare_durable();
        settled.compare(&tree, &SafeRanges::default())?;
        self.model.adopt_reads(&tree);
        check_usage(self.volume(), &tree, self.now)
    }

    fn resolve(&self, call: &Call) -> Option<(u64, u64)> {
        let (object, other) = match *call {
            Call::GetAttributes { object }
            | Call::SetAttributes { object, .. }
            | Call::Access { object, .. }
            | Call::ReadLink { object }
            | Call::Read { object, .. }
            | Call::Write { object, .. }
            | Call::Commit { object, .. }
            | Call::Limits { object }
            | Call::Configuration { object } => (object, object),
            Call::Lookup { directory, .. }
            | Call::Create { directory, .. }
            | Call::MakeDirectory { directory, .. }
            | Call::MakeSymlink { directory, .. }
            | Call::MakeNode { directory, .. }
            | Call::Remove { directory, .. }
            | Call::RemoveDirectory { directory, .. }
            | Call::ReadDirectory { directory, .. } => (directory, directory),
            Call::Rename { from, to, .. } => (from, to),
            Call::Link { object, directory, .. } => (object, directory),
            Call::EngineOnly(op) => op.objects(),
            Call::Status | Call::Nothing => (crate::call::Obj(0), crate::call::Obj(0)),
        };
        Some((self.model.ino(object)?, self.model.ino(other)?))
    }

    fn call(&mut self, operation: Operation) -> Result<(), String> {
        // Shrinking may have removed the operation that created the object.
        let Some((object, other)) = self.resolve(&operation.call) else { return Ok(()) };
        let guard = match operation.call {
            Call::SetAttributes { object, guard, .. } => match guard {
                Guard::No => None,
                Guard::Right => self.model.ctime(object).or(Some(0)),
                Guard::Wrong => Some(1),
            },
            _ => None,
        };
        let last = matches!(operation.call, Call::ReadDirectory { from: ListingStart::Last, .. });
        let cookie = if last { self.model.cursor(object) } else { 0 };
        let call = ResolvedCall { operation, object, other, guard, cookie };
        self.calls.insert(operation.id, call.clone());
        let reply = self.perform(&call)?;
        if reply.replayed == Replayed::Yes {
            return Err(format!(
                "operation {} got a remembered answer to its first transmission",
                operation.id
            ));
        }
        self.judge(&call, reply)
    }

    /// Returns the attributes that reveal how far the engine is ahead after opening. A RENAME may change the times of
    /// its directories up to three times; those of the moved object change once, but the reply does not show them.
    fn floor_evidence(&self, call: &Call, seen: &[Attrs]) -> Vec<Attrs> {
        match *call {
            Call::Rename { from, name, .. } => {
                let moved = self.model.ino(from).and_then(|from| self.model.child(from, &name.bytes()));
                moved.and_then(|moved| attributes(self.volume(), moved, self.now).ok()).into_iter().collect()
            }
            _ => seen.to_vec(),
        }
    }

    fn repeat(&mut self, id: OperationId) -> Result<(), String> {
        let Some(call) = self.calls.get(&id).cloned() else { return Ok(()) };
        // A crash may have undone the creation of the object, and another may have its inode number.
        if self.resolve(&call.operation.call) != Some((call.object, call.other)) {
            return Ok(());
        }
        // If the call is executed again, its guard may not match.
        if call.guard.is_some() {
            return Ok(());
        }
        let reply = self.perform(&call)?;
        let outcome = &reply.outcome;
        let Some(answer) = self.answered.get(&id).cloned() else {
            return match reply.replayed {
                Replayed::Yes => {
                    Err(format!("operation {id} did not survive, but its answer did: {outcome:?}"))
                }
                _ => self.judge(&call, reply),
            };
        };
        let same = (outcome, &reply.failure_attributes) == (&answer.outcome, &answer.failure_attributes);
        if reply.replayed == Replayed::Yes && !same {
            return Err(format!("operation {id}, repeated: {outcome:?}, expected {:?}", answer.outcome));
        }
        if reply.replayed == Replayed::Yes || reply.replayed == Replayed::Unknown && same {
            self.parked.push(Parked { id, observed: answer.observed, after: reply.after, seen: Vec::new() });
            return Ok(());
        }
        if (answer.at..=answer.at + REMEMBERED_NANOS).contains(&self.now) && answer.changed {
            return Err(format!(
                "operation {id} was executed again: {outcome:?}, first {:?}",
                answer.outcome
            ));
        }
        self.judge(&call, reply)
    }

    /// Judges an answer and parks its reply.
    fn judge(&mut self, call: &ResolvedCall, reply: Reply) -> Result<(), String> {
        let operation = &call.operation;
        let Reply { outcome, failure_attributes, after, state, .. } = reply;
        if self.faulty
            && matches!(outcome, Err(volume::request::Error::Io | volume::request::Error::ReadOnly))
        {
            return Ok(());
        }
        let before = self.model.clone();
        let mut seen = seen(&outcome);
        seen.extend(failure_attributes.iter().filter_map(|wcc| wcc.after));
        if !self.floor_known {
            self.learn_floor(&self.floor_evidence(&operation.call, &seen));
        }
        self.model.clock = self.now;
        let observed = self
            .model
            .judge(operation, self.now.max(self.floor), &outcome)
            .and_then(|observed| self.model.judge_failure_attributes(observed, &failure_attributes))
            .map_err(|wrong| format!("{operation:?}: {wrong}"))?;
        if !state.is_empty() && self.model.mutations == before.mutations {
            return Err(format!("{operation:?}: journaled {state:?}, but changed nothing"));
        }
        self.model.change_state(&state);
        let written = matches!(operation.call, Call::Write { length: 1.., .. }) && outcome.is_ok();
        let timed = !matches!(operation.call, Call::EngineOnly(op) if !op.is_timed());
        self.floor_known |= written || timed && self.model.mutations > before.mutations;
        if self.model.mutations > before.mutations {
            (before.mutations..self.model.mutations).for_each(|mutation| {
                self.history.insert(mutation, before.clone());
            });
        }
        self.check_shown(&seen).map_err(|wrong| format!("{operation:?}: {wrong}"))?;
        self.check_verifier(&outcome)?;
        if operation.call.is_remembered() {
            let changed = self.model.mutations > before.mutations;
            let mutation = self.model.mutations;
            let answer = Answered {
                outcome,
                failure_attributes,
                mutation,
                observed: observed.clone(),
                changed,
                at: self.now,
            };
            self.answered.insert(operation.id, answer);
        }
        self.parked.push(Parked { id: operation.id, observed, after, seen });
        Ok(())
    }

    /// Learns how far the engine is ahead of the clock after opening, from a time that nothing else explains.
    fn learn_floor(&mut self, seen: &[Attrs]) {
        let now = self.now.max(self.floor);
        let times = seen.iter().map(|seen| (seen.ino, seen.ctime));
        for (ino, time) in times {
            if time > now && time <= self.floor_below && !self.model.may_have_time(ino, time) {
                self.floor = self.floor.max(time);
            }
        }
    }

    /// Checks that change values and ctimes shown before a crash do not reappear for another state.
    fn check_shown(&self, seen: &[Attrs]) -> Result<(), String> {
        for seen in seen {
            let Some(shown) = self.shown.get(&seen.ino) else { continue };
            let change = seen.change.unwrap_or(u64::MAX);
            if change != shown.change_left && change <= shown.change {
                return Err(format!(
                    "inode {}: change {change} after {} was shown before the crash",
                    seen.ino, shown.change
                ));
            }
            if seen.ctime != shown.ctime_left && seen.ctime <= shown.ctime {
                let (ino, ctime) = (seen.ino, seen.ctime);
                return Err(format!(
                    "inode {ino}: ctime {ctime} after {} was shown before the crash",
                    shown.ctime
                ));
            }
        }
        Ok(())
    }

    fn check_verifier(&mut self, outcome: &CallResult) -> Result<(), String> {
        let (Ok(Success::Written { verifier, .. }) | Ok(Success::Committed { verifier, .. })) = outcome
        else {
            return Ok(());
        };
        if self.lost_verifiers.contains(verifier) {
            return Err("the write verifier of before the crash is used again".to_owned());
        }
        let known = *self.verifier.get_or_insert(*verifier);
        if known != *verifier && !self.faulty {
            return Err("the write verifier changed although nothing was lost".to_owned());
        }
        self.verifier = Some(*verifier);
        Ok(())
    }

    /// Judges a volume that stayed open after a fault of its media: only unstable data may be missing. Then continues
    /// from the state found. Returns false if that state cannot be read or written back.
    ///
    /// # Errors
    /// What was lost, or shown after it was lost.
    pub fn resync(&mut self) -> Result<bool, String> {
        for step in [Step::WriteBack(true), Step::Commit, Step::WriteBack(true), Step::Commit] {
            self.background(step);
        }
        if self.volume().refuses_changes().is_some() {
            return Ok(false);
        }
        self.release()?;
        let Ok(tree) = walk(self.volume(), self.now) else { return Ok(false) };
        let mut safe = SafeRanges::default();
        for ack in &self.acks {
            if let Some(range) = ack.observed.bytes {
                safe.add(ack.id, range, ack.observed.committed);
            }
        }
        let context = |wrong| format!("after a fault, while the volume is open: {wrong}");
        self.model.compare(&tree, &safe).map_err(context)?;
        let mut exact = self.model.clone();
        exact.declare_durable();
        if exact.compare(&tree, &SafeRanges::default()).is_err() {
            // Data was lost; its writer must be able to tell.
            self.lost_verifiers.extend(self.verifier.take());
        }
        self.model.adopt(&tree);
        self.history.clear();
        self.acks.clear();
        self.asked.fill(self.model.mutations);
        Ok(true)
    }

    /// Makes a call of a volume whose journal failed: a change must not succeed. Returns true if a change was refused.
    ///
    /// # Errors
    /// A change succeeded, or the reply never leaves.
    pub fn must_refuse(&mut self, operation: Operation) -> Result<bool, String> {
        let Some((object, other)) = self.resolve(&operation.call) else { return Ok(false) };
        let call = ResolvedCall { operation, object, other, guard: None, cookie: 0 };
        let reply = self.perform(&call)?;
        let changes =
            operation.call.is_remembered() || matches!(operation.call, Call::Write { length: 1.., .. });
        let leaves = self.volume().durability(reply.after);
        if leaves == Durable::NotYet {
            return Err(format!("{operation:?}: the journal failed, and the reply never leaves"));
        }
        if changes && (reply.outcome.is_err() || leaves == Durable::Failed) {
            return Ok(true);
        }
        let before = self.model.mutations;
        let judged = self.model.judge(&operation, self.now.max(self.floor), &reply.outcome);
        if !changes {
            // Unstable data may be gone; reads are judged only after the volume is reopened.
            return Ok(false);
        }
        let written = matches!(operation.call, Call::Write { .. });
        match judged.is_ok() && self.model.mutations == before && !written {
            true => Ok(false),
            false => Err(format!("{operation:?}: succeeded after the journal failed: {:?}", reply.outcome)),
        }
    }

    /// Attempts a change that the model is not told of.
    ///
    /// # Errors
    /// The engine's error.
    pub fn probe_change(&self) -> Result<(), volume::request::Error> {
        let credentials = Credentials::root();
        let now = Time::from_nanos(self.now);
        let request = Request { credentials: &credentials, now, access: Access::Blocking, key: None };
        let set = volume::attributes::SetAttributes::default();
        let made =
            self.volume().make_directory(&request, Ino::ROOT, b"probe", &set, &mut |_| Journaled::default());
        made.map(|_| ()).map_err(|failure| failure.error)
    }

    /// Removes an orphan that a call may wait for, as a background step of the server does.
    fn reap(&mut self, waiting: &ResolvedCall) -> Result<(), String> {
        let operation = Operation { call: Call::EngineOnly(EngineOnlyOp::ReapOrphan), ..waiting.operation };
        let step = ResolvedCall { operation, ..waiting.clone() };
        let volume = Arc::clone(self.volume());
        match self.target.attempt(&volume, &step, self.now, Access::Blocking) {
            CallStatus::Done(reply) => self.judge(&step, *reply),
            _ => Ok(()),
        }
    }

    /// Makes a call, first without media, and repeats it until it is answered.
    fn perform(&mut self, call: &ResolvedCall) -> Result<Reply, String> {
        let mut access = Access::Cached;
        for round in 0..ATTEMPTS_MAX {
            match self.target.attempt(
                self.volume.as_ref().expect("a volume that cannot be opened again ends the run"),
                call,
                self.now,
                access,
            ) {
                CallStatus::Done(reply) => return Ok(*reply),
                CallStatus::Wrong(wrong) => return Err(format!("{:?}: {wrong}", call.operation)),
                CallStatus::WouldBlock if access == Access::Blocking => {
                    return Err(format!("{:?}: would block although it may", call.operation));
                }
                CallStatus::WouldBlock => {
                    access = Access::Blocking;
                    if self.random.chance(1, 8) {
                        let step =
                            *self.random.pick(&[Step::Commit, Step::Checkpoint(true), Step::WriteBack(true)]);
                        self.background(step);
                    }
                }
                CallStatus::Busy => {
                    if round % REAP_EVERY == REAP_EVERY - 1 {
                        self.reap(call)?;
                    }
                    let steps = [Step::WriteBack(true), Step::Commit, Step::Checkpoint(true), Step::Clean];
                    let waited = i64::try_from(round).unwrap_or(0) * WAIT_NANOS;
                    self.background_at(steps[round % steps.len()], self.now + waited);
                }
            }
        }
        if self.faulty {
            let outcome = Err(volume::request::Error::Io);
            let (failure_attributes, state, after) = (Vec::new(), Vec::new(), Durability::NOW);
            return Ok(Reply { outcome, failure_attributes, state, after, replayed: Replayed::No });
        }
        Err(format!("{:?}: busy after all attempts; {:?}", call.operation, self.volume().gauges()))
    }
}

/// Returns all attributes that a result shows.
fn seen(outcome: &CallResult) -> Vec<Attrs> {
    let Ok(success) = outcome else { return Vec::new() };
    let after = |wcc: &Wcc| wcc.after;
    match success {
        Success::Attributes(seen)
        | Success::Limits { object: seen, .. }
        | Success::Configuration { object: seen, .. } => vec![*seen],
        Success::Set { object: wcc }
        | Success::Removed { directory: wcc }
        | Success::Written { object: wcc, .. }
        | Success::Committed { object: wcc, .. }
        | Success::Cloned { object: wcc, .. } => after(wcc).into_iter().collect(),
        Success::Found { object, directory } => std::iter::once(*object).chain(*directory).collect(),
        Success::Accessible { object, .. }
        | Success::Target { object, .. }
        | Success::Data { object, .. } => object.iter().copied().collect(),
        Success::Created { object, directory } => std::iter::once(*object).chain(after(directory)).collect(),
        Success::Renamed { from, to } => after(from).into_iter().chain(after(to)).collect(),
        Success::Linked { object, directory } => object.iter().copied().chain(after(directory)).collect(),
        Success::Listing { entries, directory, .. } => {
            entries.iter().filter_map(|entry| entry.attributes).chain(*directory).collect()
        }
        Success::Status { .. }
        | Success::Reaped(_)
        | Success::Sought(_)
        | Success::Xattr(_)
        | Success::Xattrs(_)
        | Success::Nothing => Vec::new(),
    }
}
