//! What an owner does with the objects of its group: a journal as small as can be that has all that matters. Entries are
//! written in place into a ring of objects, a checkpoint is an object that is written once, and a head, written in place, names
//! the last one.

use cluster::Epoch;

use super::objects::{Operation, Outcome};

/// Objects of the ring.
const RING: u64 = 3;
/// Entries in each.
const SLOTS: u64 = 3;
/// Entries after which a checkpoint is made.
const CHECKPOINT_ENTRIES: u64 = 5;
/// Bytes of an entry: epoch, number, operation.
const ENTRY_BYTES: usize = 24;

/// The objects that are changed in place.
pub const IN_PLACE: [&str; 4] = ["head", "ring.0", "ring.1", "ring.2"];

/// The object with the identity that clients see.
pub const IDENTITY: &str = "identity";

/// An operation that a client asked for, by number in the order of execution.
pub type OperationId = u64;

/// A call to the store.
#[derive(Clone, Debug)]
pub struct Request {
    /// What the caller needs the answer for.
    pub purpose: Purpose,
    /// The object.
    pub object: String,
    /// What to do with it.
    pub operation: Operation,
}

/// Why a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A call of the lease machine to the lease object.
    Lease(cluster::CallId),
    /// Part of a seal that the lease machine asked for.
    Seal(cluster::CallId),
    /// Opening: the head; the checkpoint that it names; the ring; the identity.
    ReadHead,
    /// See `ReadHead`.
    ReadCheckpoint,
    /// See `ReadHead`.
    ReadRing(u64),
    /// See `ReadHead`.
    ReadIdentity,
    /// Opening the first time.
    CreateIdentity,
    /// An entry.
    Append,
    /// A checkpoint, its name in the head, the removal of the one before.
    WriteCheckpoint,
    /// See `WriteCheckpoint`.
    WriteHead,
    /// See `WriteCheckpoint`.
    RemoveCheckpoint,
}

/// A checkpoint: its name and the number of the last entry in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Checkpoint {
    epoch: u32,
    number: u32,
    last: u64,
}

impl Checkpoint {
    fn object(self) -> String {
        format!("checkpoint.{}.{}", self.epoch, self.number)
    }

    fn encode(self) -> Vec<u8> {
        [&self.epoch.to_be_bytes()[..], &self.number.to_be_bytes(), &self.last.to_be_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Checkpoint {
        Checkpoint {
            epoch: u32::from_be_bytes(array(bytes, 0)),
            number: u32::from_be_bytes(array(bytes, 4)),
            last: u64::from_be_bytes(array(bytes, 8)),
        }
    }
}

/// What is known while the journal is being read.
#[derive(Debug, Default)]
struct Opening {
    checkpoint: Option<Checkpoint>,
    state: Option<Vec<OperationId>>,
    ring: Vec<(u64, Vec<u8>)>,
    identity: Option<u64>,
}

/// The journal of one owner.
#[derive(Debug)]
pub struct Journal {
    epoch: Epoch,
    opening: Option<Opening>,
    identity: u64,
    /// Everything that was executed, in order: the state of the group.
    state: Vec<OperationId>,
    /// The number of the last entry that is durable.
    durable: u64,
    appending: bool,
    checkpoint: Checkpoint,
    /// The checkpoint that is being made.
    next_checkpoint: Option<Checkpoint>,
    /// Fault: the guards of these changes are left out.
    unguarded: Option<Purpose>,
}

/// What the answer to a call leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing that others notice.
    None,
    /// The journal was read: this is the state.
    Opened,
    /// One more operation is durable.
    Durable,
    /// The store refused a change because of its epoch.
    Fenced,
}

impl Journal {
    /// Begins to open the journal as the owner of `epoch`.
    pub fn open(epoch: Epoch, unguarded: Option<Purpose>, out: &mut Vec<Request>) -> Journal {
        let mut read =
            |purpose, object: String| out.push(Request { purpose, object, operation: Operation::Read });
        read(Purpose::ReadHead, "head".to_owned());
        read(Purpose::ReadIdentity, IDENTITY.to_owned());
        (0..RING).for_each(|number| read(Purpose::ReadRing(number), format!("ring.{number}")));
        Journal {
            epoch,
            opening: Some(Opening::default()),
            identity: 0,
            state: Vec::new(),
            durable: 0,
            appending: false,
            checkpoint: Checkpoint::default(),
            next_checkpoint: None,
            unguarded,
        }
    }

    /// Whether operations can be executed.
    pub fn is_open(&self) -> bool {
        self.opening.is_none()
    }

    /// Whether everything that was executed is durable, and nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.is_open() && self.durable == self.state.len() as u64 && self.next_checkpoint.is_none()
    }

    /// Returns everything that was executed, in order.
    pub fn state(&self) -> &[OperationId] {
        &self.state
    }

    /// Returns how many of the operations in [`Journal::state`] are durable.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns what clients know the group by.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Executes an operation in memory.
    pub fn execute(&mut self, operation: OperationId, out: &mut Vec<Request>) {
        self.state.push(operation);
        self.go_on(out);
    }

    /// Takes the answer to a call. `instance` is a number that nobody else has.
    ///
    /// # Errors
    /// What is stored contradicts what owners write.
    pub fn on_answer(
        &mut self,
        purpose: Purpose,
        outcome: Outcome,
        instance: u64,
        out: &mut Vec<Request>,
    ) -> Result<Progress, String> {
        if outcome == Outcome::Refused {
            return Ok(Progress::Fenced);
        }
        match purpose {
            Purpose::Append => {
                self.durable += 1;
                self.appending = false;
                self.go_on(out);
                return Ok(Progress::Durable);
            }
            Purpose::WriteCheckpoint => {
                let head = self.next_checkpoint.expect("it was just written").encode();
                let operation = self.write(Purpose::WriteHead, 0, head);
                out.push(Request { purpose: Purpose::WriteHead, object: "head".to_owned(), operation });
            }
            Purpose::WriteHead => {
                let before = std::mem::replace(
                    &mut self.checkpoint,
                    self.next_checkpoint.take().expect("the head names it"),
                );
                if before != Checkpoint::default() {
                    let (object, purpose) = (before.object(), Purpose::RemoveCheckpoint);
                    out.push(Request { purpose, object, operation: Operation::Remove });
                }
                self.go_on(out);
            }
            Purpose::RemoveCheckpoint => {}
            _ => return self.on_opening(purpose, outcome, instance, out),
        }
        Ok(Progress::None)
    }

    /// Writes what is not durable yet, one entry at a time, and makes checkpoints.
    fn go_on(&mut self, out: &mut Vec<Request>) {
        let next = self.durable + 1;
        let has_room = next <= self.checkpoint.last + RING * SLOTS;
        if !self.appending && has_room && self.state.len() as u64 >= next {
            self.appending = true;
            let operation = self.state[index(self.durable)];
            let entry = [next.to_be_bytes(), operation.to_be_bytes(), u64::from(self.epoch.0).to_be_bytes()];
            let (object, slot) = (format!("ring.{}", next / SLOTS % RING), index(next % SLOTS));
            let operation = self.write(Purpose::Append, slot * ENTRY_BYTES, entry.concat());
            out.push(Request { purpose: Purpose::Append, object, operation });
        }
        if self.next_checkpoint.is_none() && self.durable >= self.checkpoint.last + CHECKPOINT_ENTRIES {
            let number = if self.checkpoint.epoch == self.epoch.0 { self.checkpoint.number + 1 } else { 1 };
            let next = Checkpoint { epoch: self.epoch.0, number, last: self.durable };
            self.next_checkpoint = Some(next);
            let bytes = self.state[..index(self.durable)].iter().flat_map(|id| id.to_be_bytes()).collect();
            let (object, purpose) = (next.object(), Purpose::WriteCheckpoint);
            out.push(Request { purpose, object, operation: Operation::Create(bytes) });
        }
    }

    fn write(&self, purpose: Purpose, offset: usize, bytes: Vec<u8>) -> Operation {
        let guard = (self.unguarded != Some(purpose)).then_some(self.epoch);
        Operation::Write { guard, offset, bytes }
    }

    fn on_opening(
        &mut self,
        purpose: Purpose,
        outcome: Outcome,
        instance: u64,
        out: &mut Vec<Request>,
    ) -> Result<Progress, String> {
        let Some(opening) = &mut self.opening else { return Ok(Progress::None) };
        match (purpose, outcome) {
            (Purpose::ReadHead, Outcome::Read(_, bytes)) => {
                let found = Checkpoint::decode(&bytes);
                opening.checkpoint = Some(found);
                if found == Checkpoint::default() {
                    opening.state = Some(Vec::new());
                } else {
                    let (object, purpose) = (found.object(), Purpose::ReadCheckpoint);
                    out.push(Request { purpose, object, operation: Operation::Read });
                }
            }
            (Purpose::ReadCheckpoint, Outcome::Read(_, bytes)) => {
                opening.state =
                    Some(bytes.chunks(8).map(|chunk| u64::from_be_bytes(array(chunk, 0))).collect());
            }
            (Purpose::ReadRing(number), Outcome::Read(_, bytes)) => opening.ring.push((number, bytes)),
            (Purpose::ReadIdentity, Outcome::Read(_, bytes)) => {
                opening.identity = Some(u64::from_be_bytes(array(&bytes, 0)));
            }
            (Purpose::ReadIdentity, Outcome::Missing) => {
                let operation = Operation::Create(instance.to_be_bytes().to_vec());
                out.push(Request {
                    purpose: Purpose::CreateIdentity,
                    object: IDENTITY.to_owned(),
                    operation,
                });
            }
            // Whether it was made now or by somebody before, what counts is what it holds.
            (Purpose::CreateIdentity, Outcome::Done(_) | Outcome::Exists) => {
                let (purpose, object) = (Purpose::ReadIdentity, IDENTITY.to_owned());
                out.push(Request { purpose, object, operation: Operation::Read });
            }
            (purpose, outcome) => return Err(format!("I2: opening met {outcome:?} at {purpose:?}")),
        }
        self.finish_opening()
    }

    /// Replays the ring, once everything was read.
    fn finish_opening(&mut self) -> Result<Progress, String> {
        let Some(Opening {
            checkpoint: Some(checkpoint),
            state: Some(state),
            ring,
            identity: Some(identity),
        }) = &self.opening
        else {
            return Ok(Progress::None);
        };
        if (ring.len() as u64) < RING {
            return Ok(Progress::None);
        }
        if state.len() as u64 != checkpoint.last {
            return Err(format!("I2: the checkpoint {checkpoint:?} has {} operations", state.len()));
        }
        let entries = ring.iter().flat_map(|(_, bytes)| bytes.chunks_exact(ENTRY_BYTES));
        let mut entries: Vec<(u64, OperationId)> = entries
            .map(|entry| (u64::from_be_bytes(array(entry, 0)), u64::from_be_bytes(array(entry, 8))))
            .filter(|(number, _)| *number > checkpoint.last)
            .collect();
        entries.sort_unstable();
        if entries.iter().zip(checkpoint.last + 1..).any(|((number, _), expected)| *number != expected) {
            return Err(format!("I2: after {checkpoint:?}, the ring has gaps: {entries:?}"));
        }
        let mut state = state.clone();
        state.extend(entries.iter().map(|(_, operation)| operation));
        (self.identity, self.checkpoint, self.durable) = (*identity, *checkpoint, state.len() as u64);
        self.state = state;
        self.opening = None;
        Ok(Progress::Opened)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("simulated groups are small")
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).unwrap_or([0; N])
}
