//! A process of a node: the lease machine, and the journal of its group while it owns it.

use cluster::{
    Action, Answer, CallId, Epoch, Event, Handover, Identity, Lease, LeaseRecord, Name, Phase, TERM, Time,
    Watched,
};
use volume::media::Tenure;

use super::Planted;
use super::journal::{IN_PLACE, Journal, OperationId, Progress, Purpose, Request};
use super::objects::{Operation, Outcome, SimObjects};

/// The lease object.
pub const LEASE: &str = "lease";

/// What a process does that others notice.
#[derive(Debug)]
pub enum Effect {
    /// It calls the store.
    Call(Request),
    /// It tells those who watch the lease.
    Notify,
    /// It opened the group.
    Opened,
    /// It answers a client.
    Reply(Reply),
    /// It tells a client that the store refused a change.
    ErrorReply,
    /// It found something wrong in the store.
    Wrong(String),
}

/// An answer to a client, which waits until everything it shows is durable.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// How many operations it shows.
    pub shown: usize,
    /// The operation that it acknowledges; none for a read.
    pub operation: Option<OperationId>,
    /// How many operations had been acknowledged when its call came.
    pub acknowledged_before: usize,
}

/// A process.
#[derive(Debug)]
pub struct Process {
    instance: u64,
    lease: Lease,
    journal: Option<Journal>,
    /// The seal that was asked for, and how many objects are to be sealed yet.
    seal: Option<(CallId, usize)>,
    leaving: Option<Handover>,
    parked: Vec<Reply>,
    planted: Planted,
    /// Fault: a deadline that counts from answers.
    late_deadline: Time,
    effects: Vec<Effect>,
}

/// Returns the name of a node.
pub fn name(node: usize) -> Name {
    Name::new(&format!("node-{node}")).expect("a number is plain")
}

/// Returns a store with the objects of a group that nobody has served yet.
pub fn new_group() -> SimObjects {
    let creator = Identity::new(name(0), 0, "").expect("no addresses are short");
    let lease = (LEASE, LeaseRecord::unowned(creator).encode());
    let mut store = SimObjects::default();
    for (object, bytes) in IN_PLACE.map(|object| (object, Vec::new())).into_iter().chain([lease]) {
        store.execute(object, &Operation::Create(bytes), Epoch::NONE).expect("nothing is sealed");
    }
    store
}

impl Process {
    /// Starts a process that takes the lease when it may.
    pub fn start(
        node: usize,
        instance: u64,
        now: Time,
        delay: std::time::Duration,
        planted: Planted,
    ) -> Process {
        let identity = Identity::new(name(node), instance, "").expect("no addresses are short");
        let mut lease = Lease::new(identity, now);
        lease.stand(now, delay);
        Process {
            instance,
            lease,
            journal: None,
            seal: None,
            leaving: None,
            parked: Vec::new(),
            planted,
            late_deadline: Time::ORIGIN,
            effects: Vec::new(),
        }
    }

    /// Goes on with what an earlier process of the node saw of the lease.
    pub fn inherit(&mut self, watched: Watched) {
        self.lease.inherit(watched);
    }

    /// What it saw of the lease.
    pub fn watched(&self) -> Option<Watched> {
        self.lease.watched()
    }

    pub fn instance(&self) -> u64 {
        self.instance
    }

    pub fn epoch(&self) -> Epoch {
        self.lease.epoch().unwrap_or(Epoch::NONE)
    }

    pub fn phase(&self) -> Phase {
        self.lease.phase()
    }

    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    pub fn wake(&self) -> Option<Time> {
        self.lease.wake()
    }

    pub fn tenure(&self, now: Time) -> Tenure {
        match self.lease.tenure(now) {
            Tenure::Paused if self.planted == Planted::DeadlineFromAnswer => {
                let is_held = self.lease.phase() == Phase::Owner && now < self.late_deadline;
                if is_held { Tenure::Held } else { Tenure::Paused }
            }
            tenure => tenure,
        }
    }

    /// Whether it executes calls now.
    pub fn can_execute(&self, now: Time) -> bool {
        let is_open = self.journal.as_ref().is_some_and(Journal::is_open);
        is_open && self.leaving.is_none() && self.tenure(now) == Tenure::Held
    }

    /// Gives the group up, once everything is durable.
    pub fn leave(&mut self, handover: Handover) {
        self.leaving = Some(handover);
    }

    /// Somebody says that the lease changed.
    pub fn on_notice(&mut self, now: Time) {
        self.lease.on_event(now, Event::Notified);
    }

    /// Executes a call of a client: an operation with this number, or a read.
    pub fn execute(&mut self, operation: Option<OperationId>, acknowledged_before: usize) {
        let Some(journal) = &mut self.journal else { return };
        let mut out = Vec::new();
        if let Some(operation) = operation {
            journal.execute(operation, &mut out);
        }
        self.parked.push(Reply { shown: journal.state().len(), operation, acknowledged_before });
        self.effects.extend(out.into_iter().map(Effect::Call));
        self.reply();
    }

    /// Does everything that is due, and returns what others notice of it.
    pub fn step(&mut self, now: Time) -> Vec<Effect> {
        loop {
            while let Some(action) = self.lease.poll(now) {
                self.act(action);
            }
            let opens_early = self.planted == Planted::ReadBeforeSeal && self.phase() == Phase::Sealing;
            if self.journal.is_none() && (self.phase() == Phase::Owner || opens_early) {
                self.open();
            }
            match (&self.leaving, &self.journal) {
                (Some(handover), Some(journal)) if journal.is_idle() && self.phase() == Phase::Owner => {
                    self.lease.give_up(now, handover.clone());
                }
                _ => return std::mem::take(&mut self.effects),
            }
        }
    }

    fn act(&mut self, action: Action) {
        let (call, operation) = match action {
            Action::Notify => return self.effects.push(Effect::Notify),
            Action::Seal { call, epoch } => {
                self.seal = Some((call, IN_PLACE.len()));
                // With the fault, the seal waits until everything was read.
                let has_read = self.journal.as_ref().is_some_and(Journal::is_open);
                if self.planted != Planted::ReadBeforeSeal || has_read {
                    self.send_seal(call, epoch);
                }
                return;
            }
            Action::Read { call } => (call, Operation::Read),
            Action::Write { call, version, record } => (call, Operation::Replace(version, record.encode())),
        };
        let (purpose, object) = (Purpose::Lease(call), LEASE.to_owned());
        self.effects.push(Effect::Call(Request { purpose, object, operation }));
    }

    fn send_seal(&mut self, call: CallId, epoch: Epoch) {
        self.effects.extend(IN_PLACE.iter().map(|object| {
            let (purpose, operation) = (Purpose::Seal(call), Operation::Seal(epoch));
            Effect::Call(Request { purpose, object: (*object).to_owned(), operation })
        }));
    }

    fn open(&mut self) {
        let unguarded = match self.planted {
            Planted::UnguardedAppend => Some(Purpose::Append),
            Planted::UnguardedHead => Some(Purpose::WriteHead),
            _ => None,
        };
        let mut out = Vec::new();
        self.journal = Some(Journal::open(self.epoch(), unguarded, &mut out));
        self.effects.extend(out.into_iter().map(Effect::Call));
    }

    /// Takes the answer to a call.
    pub fn on_answer(&mut self, now: Time, purpose: Purpose, outcome: Outcome) {
        match purpose {
            Purpose::Lease(call) => {
                let answer = match outcome {
                    Outcome::Read(version, bytes) => Answer::Read { version, bytes },
                    Outcome::Done(version) => Answer::Written { version },
                    Outcome::Refused => Answer::Refused,
                    Outcome::Missing | Outcome::Exists => Answer::Missing,
                };
                if matches!(answer, Answer::Written { .. }) {
                    self.late_deadline = now + TERM;
                }
                self.lease.on_event(now, Event::Answer { call, answer });
            }
            Purpose::Seal(call) => self.on_sealed(now, call, &outcome),
            _ => self.on_stored(now, purpose, outcome),
        }
    }

    fn on_sealed(&mut self, now: Time, call: CallId, outcome: &Outcome) {
        let Some((waiting, left)) = &mut self.seal else { return };
        if *waiting != call {
            return;
        }
        *left -= 1;
        let answer = match outcome {
            Outcome::Done(_) if *left > 0 => return,
            Outcome::Done(_) => Answer::Sealed,
            _ => Answer::Refused,
        };
        self.seal = None;
        self.lease.on_event(now, Event::Answer { call, answer });
    }

    fn on_stored(&mut self, now: Time, purpose: Purpose, outcome: Outcome) {
        let Some(journal) = &mut self.journal else { return };
        let mut out = Vec::new();
        let progress = journal.on_answer(purpose, outcome, self.instance, &mut out);
        self.effects.extend(out.into_iter().map(Effect::Call));
        match progress {
            Ok(Progress::None) => {}
            Ok(Progress::Opened) => {
                self.effects.push(Effect::Opened);
                if let (Planted::ReadBeforeSeal, Some((call, _))) = (self.planted, self.seal) {
                    self.send_seal(call, self.epoch());
                }
            }
            Ok(Progress::Durable) => self.reply(),
            Ok(Progress::Fenced) if self.planted == Planted::ErrorReplies => {
                self.effects.push(Effect::ErrorReply);
            }
            // The process ends before an error can reach a reply.
            Ok(Progress::Fenced) => self.lease.on_event(now, Event::Fenced),
            Err(wrong) => self.effects.push(Effect::Wrong(wrong)),
        }
    }

    /// Sends the replies that show nothing that is not durable.
    fn reply(&mut self) {
        let durable = self.journal.as_ref().map_or(0, Journal::durable);
        let (ready, parked) = self.parked.iter().partition(|reply| reply.shown as u64 <= durable);
        self.parked = parked;
        let ready: Vec<Reply> = ready;
        self.effects.extend(ready.into_iter().map(Effect::Reply));
    }
}
