use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use volume::ids::Ino;

use super::clients::{CreateSession, Exchanged, Introduction};
use super::files::OpenRequest;
use super::record::{CallbackSecurity, Channel, Principal};
use super::restart::{LostRecords, Records};
use super::sessions::Channels;
use super::*;
use crate::exports::HostAccess;
use crate::state::clients::owner_sequence::OwnerSequence;

mod clients;
mod damaged;
mod delegations;
mod distrust;
mod excluded;
mod late;
mod limits;
mod model;
mod opens;
mod parts;
mod races;
mod removal;
mod shares;
mod waiters;

/// The only volume.
const VOLUME: VolumeId = VolumeId(7);

/// Runs while a change is journaled; an error is that of the journal.
type Meanwhile = Box<dyn FnMut() -> Result<(), Error> + Send>;

/// Records in memory: what a volume would hold.
#[derive(Default)]
struct Memory {
    records: Mutex<BTreeMap<StateKey, Arc<[u8]>>>,
    held: Mutex<HashMap<FileId, i32>>,
    full: Mutex<bool>,
    meanwhile: Mutex<Option<Meanwhile>>,
    /// What hosts may do; others may write.
    accesses: Mutex<HashMap<IpAddr, HostAccess>>,
    /// How many changes of a list survive a crash.
    left: Mutex<Option<usize>>,
    /// How often it was asked whether something is durable.
    durability_asked: std::sync::atomic::AtomicUsize,
}

impl StateStore for Memory {
    fn home(&self) -> VolumeId {
        VOLUME
    }

    fn generation(&self) -> u32 {
        1
    }

    fn change(&self, volume: VolumeId, changes: &[StateChange]) -> Result<Durability, Error> {
        assert_eq!(volume, VOLUME);
        if *self.full.lock() {
            return Err(Error::Busy);
        }
        if let Some(meanwhile) = &mut *self.meanwhile.lock() {
            meanwhile()?;
        }
        let mut records = self.records.lock();
        for change in changes.iter().take(self.left.lock().unwrap_or(usize::MAX)) {
            match &change.value {
                Some(value) => drop(records.insert(change.key, Arc::clone(value))),
                None => drop(records.remove(&change.key)),
            }
        }
        Ok(Durability::NOW)
    }

    fn defer(&self, volume: VolumeId, key: StateKey, value: Arc<dyn DeferredValue>) -> Result<(), Error> {
        self.change(volume, &[StateChange { key, value: Some(value.make()) }]).map(drop)
    }

    fn journal_deferred(&self) {}

    fn durability(&self, _: DurabilityToken) -> Durable {
        self.durability_asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Durable::Yes
    }

    fn hold(&self, file: FileId) {
        *self.held.lock().entry(file).or_default() += 1;
    }

    fn release(&self, file: FileId) {
        *self.held.lock().entry(file).or_default() -= 1;
    }

    fn admits(&self, _: IpAddr) -> bool {
        true
    }

    fn access(&self, host: IpAddr, _: bool, _: VolumeId) -> HostAccess {
        self.accesses.lock().get(&host).copied().unwrap_or(HostAccess::Write)
    }

    fn handle(&self, file: FileId) -> Box<[u8]> {
        file.ino.0.to_be_bytes()[..].into()
    }
}

/// The shared state, its records, and the clock.
struct World {
    memory: Memory,
    state: SharedState,
    now: Time,
}

impl World {
    fn new() -> World {
        World::with(Config::default())
    }

    fn with(config: Config) -> World {
        let now = Time::from_parts(1_700_000_000, 0);
        World { memory: Memory::default(), state: SharedState::new(config, keys()), now }
    }

    fn context(&self) -> Context<'_> {
        Context { store: &self.memory, now: self.now }
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.plus(Duration::from_secs(seconds));
    }

    /// Kills the server and starts it again.
    fn restart(&mut self) {
        let lost = self.restart_with(|_| ());
        assert!(lost.is_nothing(), "{lost:?}");
    }

    /// Like [`World::restart`], with a change of the records that were read. Returns what was lost.
    fn restart_with(&mut self, change: impl FnOnce(&mut Records)) -> LostRecords {
        self.pass(2);
        self.state = SharedState::new(self.state.config().clone(), keys());
        self.memory.held.lock().clear();
        let mut records = Records::default();
        for (key, value) in self.memory.records.lock().iter() {
            records.add(VOLUME, key, value);
        }
        change(&mut records);
        self.state.restore(&self.context(), records)
    }

    fn exchange_id(&self, name: &[u8], verifier: u8, user: u32) -> Result<Exchanged, StateError> {
        exchange_id(&self.state, &self.context(), name, verifier, user)
    }

    fn create_session(
        &self,
        client: ids::ClientId,
        sequence: u32,
        back: u32,
    ) -> Result<SessionId, StateError> {
        create_session(&self.state, &self.context(), client, sequence, back)
    }

    /// Returns a confirmed client that has completed its reclaims.
    fn client(&self, name: &[u8], verifier: u8, back: u32) -> (Arc<Client>, SessionId) {
        client(&self.state, &self.context(), name, verifier, back)
    }

    fn open(
        &self,
        client: &Arc<Client>,
        owner: &[u8],
        file: FileId,
        mode: (u32, u32),
    ) -> Result<files::Opened, StateError> {
        let owner = client.open_owner(owner, || OwnerSequence::new(self.now));
        let mode = files::share::Mode::new(mode.0, mode.1).unwrap();
        self.state.hold_and_open(&self.context(), file, &OpenRequest { client, owner: &owner, mode })
    }
}

fn keys() -> IdKeys {
    IdKeys::new([7; 16], &[])
}

/// A user of host `host`.
fn user_at(user: u32, host: u8) -> Peer {
    Peer { principal: Principal::User(user), address: IpAddr::from([192, 0, 2, host]) }
}

pub(super) fn file(ino: u64) -> FileId {
    FileId { volume: VOLUME, ino: Ino(ino) }
}

fn refused<T: std::fmt::Debug>(result: Result<T, StateError>) -> StateError {
    match result {
        Err(error) if !matches!(error, StateError::Engine(_)) => error,
        other => panic!("{other:?}"),
    }
}

fn exchange_id(
    state: &SharedState,
    context: &Context<'_>,
    name: &[u8],
    verifier: u8,
    user: u32,
) -> Result<Exchanged, StateError> {
    let who = Introduction { name, verifier: [verifier; 8], peer: user_at(user, 1) };
    state.exchange_id(context, &who, 1, false)
}

fn create_session(
    state: &SharedState,
    context: &Context<'_>,
    client: ids::ClientId,
    sequence: u32,
    back: u32,
) -> Result<SessionId, StateError> {
    let channel =
        Channel { request_bytes: 4096, reply_bytes: 4096, cached_bytes: 512, operations: 8, slots: 4 };
    let wanted = CreateSession {
        client,
        sequence,
        peer: user_at(0, 1),
        flags: back,
        channels: Channels { fore: channel, back: channel },
        program: 0x4000_0000,
        security: CallbackSecurity::None,
        connection: ConnectionId(client.0),
    };
    state.create_session(context, &wanted).map(|(session, _)| session.id)
}

fn client(
    state: &SharedState,
    context: &Context<'_>,
    name: &[u8],
    verifier: u8,
    back: u32,
) -> (Arc<Client>, SessionId) {
    let exchanged = exchange_id(state, context, name, verifier, 0).unwrap();
    let session = create_session(state, context, exchanged.id, exchanged.sequence, back).unwrap();
    let client = Arc::clone(&state.session(session).unwrap().client);
    state.reclaim_complete(context, &client).unwrap();
    (client, session)
}

/// Waits until a modification of a file has begun.
fn wait_for_change(state: &SharedState, file: FileId) {
    let patience = std::time::Instant::now() + Duration::from_secs(20);
    while !is_changing(state, file) && std::time::Instant::now() < patience {
        std::thread::yield_now();
    }
}

fn is_changing(state: &SharedState, file: FileId) -> bool {
    let announced = state.modifications.announce(file);
    if announced {
        state.modifications.withdraw();
    }
    !announced
}
