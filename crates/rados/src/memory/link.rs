//! A process's link to objects in memory. It can break: what is sent after that arrives late, or never.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

use crate::memory::{MemoryObjects, SHUT_DOWN, errno};
use crate::objects::{Done, Objects, Piece, Step};

/// What happens before a call.
type Event = Box<dyn FnOnce() + Send>;

/// When a link breaks. Calls are counted from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Break {
    /// With this call.
    At(u64),
    /// With the first change in place (one with a guard) from this call on.
    InPlace(u64),
}

/// One process's link to the objects.
pub(crate) struct Link {
    /// Tells the changes of processes apart.
    process: u64,
    objects: Arc<MemoryObjects>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Calls so far.
    calls: u64,
    /// With which call the link breaks, if it does.
    breaks: Option<Break>,
    is_broken: bool,
    events: BTreeMap<u64, Event>,
    /// Changes that were sent after the link broke.
    late: Vec<Late>,
    is_unguarded: bool,
    /// Whether the process has ended, and sends nothing more.
    has_ended: bool,
}

impl Link {
    pub(crate) fn new(objects: &Arc<MemoryObjects>, process: u64) -> Arc<Link> {
        Arc::new(Link { process, objects: Arc::clone(objects), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many calls were made.
    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Has the link break.
    pub(crate) fn break_with(&self, breaks: Break) {
        self.state().breaks = Some(breaks);
    }

    /// Whether it broke.
    pub(crate) fn is_broken(&self) -> bool {
        self.state().is_broken
    }

    /// Ends the process: what it sends from now on goes nowhere.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
    }

    /// Lets something happen before the call with this number.
    pub(crate) fn before_call(&self, number: u64, event: impl FnOnce() + Send + 'static) {
        self.state().events.insert(number, Box::new(event));
    }

    /// Omits the guards ([`Step::EpochIs`]) of all changes, or keeps them again.
    pub(crate) fn omit_guards(&self, omit: bool) {
        self.state().is_unguarded = omit;
    }

    /// Returns what was sent after the link broke, before the process ended.
    pub(crate) fn take_late(&self) -> Vec<Late> {
        std::mem::take(&mut self.state().late)
    }

    /// Counts a call. Returns whether it arrives.
    fn arrives(&self, is_in_place: bool) -> bool {
        let mut state = self.state();
        let number = state.calls;
        state.calls += 1;
        let event = state.events.remove(&number);
        state.is_broken |= state.breaks.is_some_and(|breaks| match breaks {
            Break::At(call) => number >= call,
            Break::InPlace(call) => number >= call && is_in_place,
        });
        let arrives = !state.has_ended && !state.is_broken;
        drop(state);
        if let Some(event) = event {
            event();
        }
        arrives
    }
}

/// What the owner learns of: it ends, as one that is shut out does.
fn broken() -> io::Error {
    errno(SHUT_DOWN)
}

impl Objects for Link {
    fn change(&self, object: &str, steps: &[Step<'_>], done: Done) {
        let is_guard = |step: &Step<'_>| matches!(step, Step::EpochIs(_));
        let arrives = self.arrives(steps.iter().any(is_guard));
        let mut steps = steps.to_vec();
        if self.state().is_unguarded {
            steps.retain(|step| !is_guard(step));
        }
        if arrives {
            return self.objects.change(object, &steps, done);
        }
        let steps = steps.iter().map(Sent::from).collect();
        let late = Late { process: self.process, object: object.to_owned(), steps };
        let mut state = self.state();
        if !state.has_ended {
            state.late.push(late);
        }
        drop(state);
        done(Err(broken()));
    }

    fn read(&self, pieces: &mut [Piece<'_>]) {
        if self.arrives(false) {
            return self.objects.read(pieces);
        }
        for piece in pieces {
            piece.result = Err(broken());
        }
    }

    fn length(&self, object: &str) -> io::Result<u64> {
        if self.arrives(false) { self.objects.length(object) } else { Err(broken()) }
    }

    fn pairs(&self, object: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
        if self.arrives(false) { self.objects.pairs(object) } else { Err(broken()) }
    }
}

/// A change that arrives late.
#[derive(Debug)]
pub(crate) struct Late {
    process: u64,
    object: String,
    steps: Vec<Sent>,
}

impl Late {
    /// Lets the change arrive. Nobody is told what became of it.
    fn arrive(&self, objects: &MemoryObjects) {
        let slices: Vec<IoSlice<'_>> = self.steps.iter().map(|step| IoSlice::new(step.bytes())).collect();
        let steps: Vec<Step<'_>> =
            self.steps.iter().zip(&slices).map(|(step, bytes)| step.as_step(bytes)).collect();
        objects.change(&self.object, &steps, Box::new(|_| ()));
    }
}

/// Lets changes arrive in any order, but those that one process sent to one object in the order in which they were sent.
pub(crate) fn arrive_in_any_order(objects: &MemoryObjects, late: Vec<Late>, rng: &mut Rng) {
    let mut ordered: BTreeMap<(u64, String), Vec<Late>> = BTreeMap::new();
    for change in late {
        ordered.entry((change.process, change.object.clone())).or_default().push(change);
    }
    let mut queues: Vec<_> = ordered.into_values().map(Vec::into_iter).collect();
    while !queues.is_empty() {
        let chosen = rng.usize(..queues.len());
        match queues[chosen].next() {
            Some(change) => change.arrive(objects),
            None => drop(queues.swap_remove(chosen)),
        }
    }
}

/// A [`Step`] with its own bytes.
#[derive(Debug)]
enum Sent {
    EpochIs(u64),
    EpochNotAbove(u64),
    SetEpoch(u64),
    VersionIs(u64),
    Create,
    Write(u64, Vec<u8>),
    SetLength(u64),
    Replace(Vec<u8>),
    PutPair(String, Vec<u8>),
    RemovePair(String),
    Remove,
}

impl From<&Step<'_>> for Sent {
    fn from(step: &Step<'_>) -> Sent {
        match *step {
            Step::EpochIs(epoch) => Sent::EpochIs(epoch),
            Step::EpochNotAbove(epoch) => Sent::EpochNotAbove(epoch),
            Step::SetEpoch(epoch) => Sent::SetEpoch(epoch),
            Step::VersionIs(version) => Sent::VersionIs(version),
            Step::Create => Sent::Create,
            Step::Write(offset, parts) => Sent::Write(offset, volume::media::concat(parts).into_owned()),
            Step::SetLength(length) => Sent::SetLength(length),
            Step::Replace(bytes) => Sent::Replace(bytes.to_vec()),
            Step::PutPair(key, value) => Sent::PutPair(key.to_owned(), value.to_vec()),
            Step::RemovePair(key) => Sent::RemovePair(key.to_owned()),
            Step::Remove => Sent::Remove,
        }
    }
}

impl Sent {
    /// Returns what is written, if something is.
    fn bytes(&self) -> &[u8] {
        if let Sent::Write(_, bytes) = self { bytes } else { &[] }
    }

    /// Returns the step; `written` is what [`Sent::bytes`] says.
    fn as_step<'a>(&'a self, written: &'a IoSlice<'a>) -> Step<'a> {
        match self {
            Sent::EpochIs(epoch) => Step::EpochIs(*epoch),
            Sent::EpochNotAbove(epoch) => Step::EpochNotAbove(*epoch),
            Sent::SetEpoch(epoch) => Step::SetEpoch(*epoch),
            Sent::VersionIs(version) => Step::VersionIs(*version),
            Sent::Create => Step::Create,
            Sent::Write(offset, _) => Step::Write(*offset, std::slice::from_ref(written)),
            Sent::SetLength(length) => Step::SetLength(*length),
            Sent::Replace(bytes) => Step::Replace(bytes),
            Sent::PutPair(key, value) => Step::PutPair(key, value),
            Sent::RemovePair(key) => Step::RemovePair(key),
            Sent::Remove => Step::Remove,
        }
    }
}
