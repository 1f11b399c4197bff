//! Compares random operations of several clients with a simple model: a table of modes, and a cell for each byte.

use super::stateids::IoMode;
use super::*;
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::{LockError, LockRequest, Locker};

const CLIENTS: usize = 3;
const FILES: usize = 2;
const OWNERS: usize = 2;
const BYTES: u64 = 16;
const STEPS: usize = 250;
const SEEDS: u64 = 60;

pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}

/// An open owner's state of a file.
#[derive(Clone, Debug, Default)]
struct Opened {
    /// Access and deny of its opens.
    modes: Vec<(u32, u32)>,
    stateid: Option<StateId>,
}

impl Opened {
    fn union(&self) -> (u32, u32) {
        self.modes.iter().fold((0, 0), |all, mode| (all.0 | mode.0, all.1 | mode.1))
    }
}

use ids::StateId;

struct Model {
    world: World,
    clients: Vec<(Arc<Client>, SessionId)>,
    verifiers: [u8; CLIENTS],
    opens: HashMap<(usize, usize, usize), Opened>,
    /// The stateid of each lock owner, and the open owner that it depends on.
    lockers: HashMap<(usize, usize, usize), (StateId, usize)>,
    cells: HashMap<(usize, usize, usize), Vec<Option<LockKind>>>,
    random: Random,
    seed: u64,
}

fn name(client: usize) -> Vec<u8> {
    format!("client {client}").into()
}

fn ino(number: usize) -> FileId {
    file(u64::try_from(number).unwrap() + 10)
}

impl Model {
    fn new(seed: u64) -> Model {
        let world = World::new();
        let clients = (0..CLIENTS).map(|client| world.client(&name(client), 0, 0)).collect();
        Model {
            world,
            clients,
            verifiers: [0; CLIENTS],
            opens: HashMap::new(),
            lockers: HashMap::new(),
            cells: HashMap::new(),
            random: Random::new(seed),
            seed,
        }
    }

    fn client(&self, client: usize) -> &Arc<Client> {
        &self.clients.get(client).unwrap().0
    }

    fn entry(&self, client: usize, stateid: StateId) -> Arc<stateids::entry::StateEntry> {
        let entry = self.world.state.entry(Caller::Session(self.client(client)), stateid.other);
        entry.unwrap_or_else(|status| panic!("seed {}: {status:?}", self.seed))
    }

    fn pick(&mut self) -> (usize, usize, usize) {
        (self.random.below(CLIENTS), self.random.below(FILES), self.random.below(OWNERS))
    }

    fn mode(&mut self) -> (u32, u32) {
        let access = 1 + u32::try_from(self.random.below(3)).unwrap();
        let deny = [0, 0, 0, 1, 2, 3].get(self.random.below(6)).copied().unwrap();
        (access, deny)
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..6 => self.open(),
            6 => self.downgrade(),
            7 | 8 => self.close(),
            9..14 => self.lock(),
            14..17 => self.unlock(),
            17 => self.check_io(),
            18 if self.random.below(4) == 0 => self.restart_client(),
            19 if self.random.below(3) == 0 => self.restart(),
            _ => {}
        }
        self.check();
    }

    fn open(&mut self) {
        let key @ (client, file, owner) = self.pick();
        let mode = self.mode();
        let conflicts = self.opens.iter().any(|(other, opened)| {
            let (access, deny) = opened.union();
            other.1 == file && (access & mode.1 != 0 || deny & mode.0 != 0)
        });
        let owner = format!("owner {owner}");
        let result = self.world.open(self.client(client), owner.as_bytes(), ino(file), mode);
        if conflicts {
            assert_eq!(refused(result), StateError::ShareDenied, "seed {}", self.seed);
            return;
        }
        let stateid = result.unwrap_or_else(|error| panic!("seed {}: {error:?}", self.seed)).stateid;
        let opened = self.opens.entry(key).or_default();
        if let Some(before) = opened.stateid {
            assert_eq!(stateid, StateId { seqid: before.seqid + 1, ..before }, "seed {}", self.seed);
        }
        opened.stateid = Some(stateid);
        opened.modes.push(mode);
    }

    fn downgrade(&mut self) {
        let key @ (client, ..) = self.pick();
        let to = self.mode();
        let Some(opened) = self.opens.get(&key).cloned() else { return };
        let stateid = opened.stateid.unwrap();
        let left: Vec<_> =
            opened.modes.iter().copied().filter(|mode| mode.0 & !to.0 == 0 && mode.1 & !to.1 == 0).collect();
        let left = Opened { modes: left, stateid: None };
        let mode = files::share::Mode::new(to.0, to.1).unwrap();
        let entry = self.entry(client, stateid);
        let result = self.world.state.downgrade(&self.world.context(), &entry, mode);
        if left.union() == to {
            let (stateid, _) = result.unwrap_or_else(|error| panic!("seed {}: {error:?}", self.seed));
            self.opens.insert(key, Opened { stateid: Some(stateid), ..left });
        } else {
            assert_eq!(refused(result), StateError::ModeNeverOpened, "seed {}", self.seed);
        }
    }

    fn close(&mut self) {
        let key @ (client, file, owner) = self.pick();
        let Some(opened) = self.opens.remove(&key) else { return };
        let entry = self.entry(client, opened.stateid.unwrap());
        self.world.state.close(&self.world.context(), &entry).unwrap();
        let gone = self.world.state.entry(Caller::Session(self.client(client)), entry.other);
        assert_eq!(gone.err(), Some(StateError::BadStateId), "seed {}", self.seed);
        let depends =
            |key: &(usize, usize, usize), open: usize| key.0 == client && key.1 == file && open == owner;
        let lost: Vec<_> =
            self.lockers.iter().filter(|(key, (_, open))| depends(key, *open)).map(|(key, _)| *key).collect();
        for key in lost {
            self.lockers.remove(&key);
            self.cells.remove(&key);
        }
    }

    fn range(&mut self) -> (usize, usize) {
        let max = usize::try_from(BYTES).unwrap();
        let (a, b) = (self.random.below(max), self.random.below(max));
        (a.min(b), a.max(b))
    }

    fn lock(&mut self) {
        let key @ (client, file, owner) = self.pick();
        let open_owner = self.random.below(OWNERS);
        let (first, last) = self.range();
        let kind = if self.random.below(2) == 0 { LockKind::Read } else { LockKind::Write };
        let known = self.lockers.get(&key).copied();
        let open_owner = known.map_or(open_owner, |(_, open)| open);
        let Some(opened) = self.opens.get(&(client, file, open_owner)).cloned() else { return };
        let lock_owner = self
            .client(client)
            .lock_owner(format!("locker {owner}").as_bytes(), || OwnerSequence::new(self.world.now));
        let open = self.entry(client, opened.stateid.unwrap());
        let entry = known.map(|(stateid, _)| self.entry(client, stateid));
        let by = match &entry {
            Some(entry) => Locker::Known(entry),
            None => Locker::New { open: &open, owner: &lock_owner },
        };
        let range = Range { first: u64::try_from(first).unwrap(), last: u64::try_from(last).unwrap() };
        let wanted = LockRequest { range, kind, waits: false };
        let result = self.world.state.lock(&self.world.context(), by, &wanted);
        let needed = if kind == LockKind::Read { 1 } else { 2 };
        let conflicts = self.cells.iter().any(|(other, cells)| {
            let held = cells.get(first..=last).unwrap().iter().flatten();
            *other != key && other.1 == file && held.copied().any(|held| held.conflicts(kind))
        });
        match result {
            Err(LockError::Failed(StateError::OpenMode)) => {
                assert_eq!(opened.union().0 & needed, 0, "seed {}", self.seed);
            }
            Err(LockError::Denied(_)) => assert!(conflicts, "seed {}", self.seed),
            Err(LockError::Failed(other)) => panic!("seed {}: {other:?}", self.seed),
            Ok((stateid, _)) => {
                assert!(!conflicts && opened.union().0 & needed != 0, "seed {}", self.seed);
                let cells =
                    self.cells.entry(key).or_insert_with(|| vec![None; usize::try_from(BYTES).unwrap()]);
                cells.get_mut(first..=last).unwrap().fill(Some(kind));
                self.lockers.insert(key, (stateid, open_owner));
            }
        }
    }

    fn unlock(&mut self) {
        let key @ (client, ..) = self.pick();
        let (first, last) = self.range();
        let Some((stateid, open)) = self.lockers.get(&key).copied() else { return };
        let entry = self.entry(client, stateid);
        let range = Range { first: u64::try_from(first).unwrap(), last: u64::try_from(last).unwrap() };
        let (after, _) = self.world.state.unlock(&self.world.context(), &entry, range).unwrap();
        assert_eq!(after, StateId { seqid: stateid.seqid + 1, ..stateid }, "seed {}", self.seed);
        self.lockers.insert(key, (after, open));
        self.cells.get_mut(&key).unwrap().get_mut(first..=last).unwrap().fill(None);
    }

    fn check_io(&mut self) {
        let key @ (client, number, _) = self.pick();
        let Some(opened) = self.opens.get(&key) else { return };
        let current = opened.stateid.unwrap();
        let caller = Caller::Session(self.client(client));
        let io = |stateid, of: usize, wanted| {
            self.world.state.check_io(&self.world.context(), caller, stateid, ino(of), wanted).map(drop)
        };
        let seed = self.seed;
        assert_eq!(io(current, number, IoMode::Read), Ok(()), "seed {seed}");
        let writes = io(current, number, IoMode::Write);
        let expected = if opened.union().0 & 2 != 0 { Ok(()) } else { Err(StateError::OpenMode) };
        assert_eq!(writes, expected, "seed {seed}");
        assert_eq!(refused(io(current, number + 1, IoMode::Read)), StateError::BadStateId, "seed {seed}");
        let later = StateId { seqid: current.seqid + 1, ..current };
        assert_eq!(refused(io(later, number, IoMode::Read)), StateError::BadStateId, "seed {seed}");
        if current.seqid > 1 {
            let older = StateId { seqid: current.seqid - 1, ..current };
            assert_eq!(refused(io(older, number, IoMode::Read)), StateError::OldStateId, "seed {seed}");
        }
        assert_eq!(io(StateId { seqid: 0, ..current }, number, IoMode::Read), Ok(()), "seed {seed}");
    }

    /// Restarts a client, which frees its state.
    fn restart_client(&mut self) {
        let client = self.random.below(CLIENTS);
        let verifier = self.verifiers.get_mut(client).unwrap();
        *verifier += 1;
        let verifier = *verifier;
        *self.clients.get_mut(client).unwrap() = self.world.client(&name(client), verifier, 0);
        self.opens.retain(|key, _| key.0 != client);
        self.lockers.retain(|key, _| key.0 != client);
        self.cells.retain(|key, _| key.0 != client);
    }

    /// Restarts the server, which changes nothing.
    fn restart(&mut self) {
        self.world.restart();
        for client in &mut self.clients {
            client.0 = Arc::clone(&self.world.state.session(client.1).unwrap().client);
        }
    }

    /// Checks that a stranger's conflicts are those of the model, and that exactly the files with state are held.
    fn check(&self) {
        for number in 0..FILES {
            for byte in 0..BYTES {
                let range = Range { first: byte, last: byte };
                let test = |kind| {
                    self.world.state.test_lock(&self.world.context(), ino(number), None, range, kind).is_err()
                };
                let index = usize::try_from(byte).unwrap();
                let held = || {
                    let of_file = self.cells.iter().filter(|(key, _)| key.1 == number);
                    of_file.filter_map(|(_, cells)| *cells.get(index).unwrap())
                };
                assert_eq!(test(LockKind::Write), held().next().is_some(), "seed {}", self.seed);
                let exclusive = held().any(|kind| kind == LockKind::Write);
                assert_eq!(test(LockKind::Read), exclusive, "seed {}", self.seed);
            }
            let open = self.opens.keys().any(|key| key.1 == number);
            let held = self.world.memory.held.lock().get(&ino(number)).copied().unwrap_or(0);
            assert_eq!(held, i32::from(open), "seed {}", self.seed);
        }
    }
}

#[test]
fn random_operations_agree_with_a_model() {
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = first.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    for seed in seeds {
        println!("seed {seed}");
        let mut model = Model::new(seed);
        (0..STEPS).for_each(|_| model.step());
    }
}
