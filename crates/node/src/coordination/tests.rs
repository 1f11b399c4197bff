use std::ffi::OsString;
use std::time::Instant;

use cluster::{ClusterConfig, Command, Epoch, Identity, LeaseRecord, LeaseState, Observed};

use super::*;
use crate::network::noted::Noted;
use crate::records::GroupRecords;

/// The records of a cluster in memory, with one group.
#[derive(Default)]
struct Memory {
    roster: Mutex<Option<Vec<u8>>>,
    nodes: Mutex<BTreeMap<String, Vec<u8>>>,
    lease: Mutex<Option<(Vec<u8>, u64)>>,
    released: Mutex<Vec<u64>>,
}

/// The records of its group.
struct Home(Arc<Memory>);

impl Records for Arc<Memory> {
    fn roster(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(lock(&self.roster).clone())
    }

    fn nodes(&self) -> io::Result<Vec<(String, Vec<u8>)>> {
        Ok(lock(&self.nodes).clone().into_iter().collect())
    }

    fn set_node(&self, node: &str, says: Option<&[u8]>) -> io::Result<()> {
        match says {
            Some(says) => drop(lock(&self.nodes).insert(node.to_owned(), says.to_vec())),
            None => drop(lock(&self.nodes).remove(node)),
        }
        Ok(())
    }

    fn watch(&self, _: &dyn Fn() -> Notified) -> io::Result<()> {
        Ok(())
    }

    fn notify(&self) -> io::Result<()> {
        Ok(())
    }

    fn group(&self, _: &str) -> io::Result<Arc<dyn GroupRecords>> {
        Ok(Arc::new(Home(Arc::clone(self))))
    }
}

impl GroupRecords for Home {
    fn lease(&self) -> io::Result<Option<(Vec<u8>, u64)>> {
        Ok(lock(&self.0.lease).clone())
    }

    fn connections(&self, _: usize) -> io::Result<Vec<u8>> {
        Ok(b"10.0.0.5:2049 10.0.0.9:700\n".to_vec())
    }

    fn set_connections(&self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn release_for(&self, instance: u64) -> io::Result<()> {
        lock(&self.0.released).push(instance);
        Ok(())
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// The node a of a cluster of a and b, with a script for a server.
struct World {
    memory: Arc<Memory>,
    groups: Arc<Groups>,
    network: Arc<Noted>,
    coordination: Coordination,
    membership: Mutex<Membership>,
}

/// Stands for the lease until it is stopped.
const STANDS: &str = "printf '{\"standing\":{\"instance\":7}}' >&0; exec sleep 60";

/// Takes the lease soon, and serves.
const SERVES: &str = "printf '{\"standing\":{\"instance\":7}}' >&0; sleep 0.3; printf '\"claimed\"' >&0; printf '\"ready\"' >&0;
    exec sleep 60";

impl World {
    fn new(script: &str) -> World {
        let memory = Arc::new(Memory::default());
        let (groups, network) = (Arc::new(Groups::default()), Arc::new(Noted::default()));
        let program = ["sh", "-c", script, "sh"].map(OsString::from).to_vec();
        let surface = Surface {
            node: name("a"),
            store: Location::parse("rados:nfs".as_ref()).unwrap().unwrap(),
            records: Arc::new(Arc::clone(&memory)),
            groups: Arc::clone(&groups),
            network: Arc::clone(&network) as Arc<dyn Network>,
            launch: Launch { node: "a".to_owned(), groups: Arc::new(1.into()), program },
            has_link: Arc::new(AtomicBool::new(true)),
        };
        let coordination = Coordination::start(surface).unwrap();
        let world = World { memory, groups, network, coordination, membership: Mutex::default() };
        let text = "[[group]]\nname = \"home\"\naddresses = [\"10.0.0.5/24\"]\n";
        for command in [
            Command::Add(name("a")),
            Command::Add(name("b")),
            Command::Apply(ClusterConfig::parse(text).unwrap()),
        ] {
            world.command(command);
        }
        world
    }

    fn command(&self, command: Command) {
        let mut membership = lock(&self.membership);
        membership.execute(command, &Observed::default()).unwrap();
        let roster = Roster { revision: 1, membership: membership.clone() };
        *lock(&self.memory.roster) = Some(roster.encode());
        self.coordination.stir();
    }

    fn state(&self) -> Option<State> {
        self.groups.statuses().first().map(|group| group.state)
    }

    /// Waits for a state, while the node `owner`, if there is one, renews its lease and sends heartbeats.
    fn await_state(&self, state: State, owner: Option<&str>, standing: bool) {
        let (begun, mut turns) = (Instant::now(), 0);
        while self.state() != Some(state) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?} rather than {state:?}", self.state());
            turns += 1;
            if let Some(owner) = owner {
                self.renew(owner, turns);
            }
            self.beat("b", turns, standing);
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn renew(&self, owner: &str, counter: u64) {
        let owner = Identity::new(name(owner), 7, "").unwrap();
        let record = LeaseRecord { epoch: Epoch(3), counter, owner, state: LeaseState::Held };
        *lock(&self.memory.lease) = Some((record.encode(), counter));
    }

    fn beat(&self, node: &str, count: u64, standing: bool) {
        let home = self.groups.statuses().into_iter().next();
        let groups = home.filter(|_| standing).map(|mut home| {
            home.state = State::Standby;
            home
        });
        let status =
            NodeStatus { node: node.to_owned(), has_link: true, groups: groups.into_iter().collect() };
        let beat = Beat { count, up_ms: 60_000, status };
        self.memory
            .as_ref()
            .nodes
            .lock()
            .unwrap()
            .insert(node.to_owned(), serde_json::to_vec(&beat).unwrap());
    }

    fn end(self) {
        self.coordination.stop();
        assert!(!lock(&self.memory.nodes).contains_key("a"), "others are told that it has gone");
        self.groups.all().iter().for_each(|group| group.end());
    }
}

#[test]
fn a_server_stands_for_a_group_that_nobody_serves_and_is_stopped_when_another_node_serves_it() {
    let world = World::new(STANDS);
    world.await_state(State::Standby, None, false);
    let begun = Instant::now();
    while Beat::read(&lock(&world.memory.nodes)["a"]).unwrap().standing().next() != Some("home") {
        assert!(begun.elapsed() < Duration::from_secs(5), "others are not told");
        thread::sleep(Duration::from_millis(50));
    }
    world.await_state(State::Stopped, Some("b"), false);
    assert_eq!(world.network.take(), [""; 0], "addresses are only for who has the lease");
    world.end();
}

#[test]
fn a_group_is_given_up_only_once_the_next_node_stands_and_at_once_by_a_node_that_is_fenced() {
    let world = World::new(SERVES);
    world.await_state(State::Serving, None, false);
    assert!(world.network.did("hold 10.0.0.5/24") && world.network.did("tickle 10.0.0.9:700"));
    world.command(Command::Move(name("home"), name("b")));
    for turn in 1..20 {
        world.renew("a", turn);
        world.beat("b", turn, false);
        thread::sleep(Duration::from_millis(100));
        assert_ne!(world.state(), Some(State::Stopped), "b is not ready");
    }
    world.await_state(State::Stopped, Some("a"), true);
    assert_eq!(*lock(&world.memory.released), [7], "the script does not stop in an orderly way");
    world.end();

    let world = World::new(SERVES);
    world.await_state(State::Serving, None, false);
    world.command(Command::Fence(name("a")));
    world.await_state(State::Stopped, Some("a"), false);
    world.end();
}

#[test]
fn a_group_that_is_starting_is_given_up_once_it_is_served() {
    let world = World::new("printf '\"claimed\"' >&0; sleep 1; printf '\"ready\"' >&0; exec sleep 60");
    world.await_state(State::Starting, None, false);
    world.command(Command::Move(name("home"), name("b")));
    world.await_state(State::Serving, Some("a"), true);
    world.await_state(State::Stopped, Some("a"), true);
    world.end();
}

#[test]
fn addresses_are_given_up_when_the_lease_is_not_renewed() {
    let world = World::new(SERVES);
    world.await_state(State::Serving, None, false);
    let (begun, mut turns) = (Instant::now(), 100);
    while !world.network.did("give up 10.0.0.5/24") {
        assert!(begun.elapsed() < Duration::from_secs(5));
        turns += 1;
        world.renew("a", turns);
        thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    world.end();
}

#[test]
fn servers_read_their_configuration_again_when_the_groups_are_applied_again() {
    let heard = std::env::temp_dir().join(format!("holdfast-applied-{}", std::process::id()));
    let script = format!(
        "trap 'echo again >> {}' HUP; {}",
        heard.display(),
        SERVES.replace("exec sleep 60", "while :; do sleep 0.02; done")
    );
    let world = World::new(&script);
    world.await_state(State::Serving, Some("a"), false);
    // What else is changed does not concern it.
    world.command(Command::Drain(name("b")));
    thread::sleep(POLL * 2);
    assert!(!heard.exists());
    let text = "[[group]]\nname = \"home\"\naddresses = [\"10.0.0.5/24\"]\n";
    world.command(Command::Apply(ClusterConfig::parse(text).unwrap()));
    let begun = Instant::now();
    while !heard.exists() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(world.groups.statuses()[0].restarts, 0);
    world.end();
    std::fs::remove_file(heard).unwrap();
}

#[test]
fn groups_come_and_go_with_the_configuration() {
    let world = World::new(STANDS);
    world.await_state(State::Standby, None, false);
    let other = "[[group]]\nname = \"other\"\naddresses = [\"10.0.0.6/24\"]\n";
    world.command(Command::Apply(ClusterConfig::parse(other).unwrap()));
    let begun = Instant::now();
    while world.groups.find("other").is_none() || world.groups.find("home").is_some() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        thread::sleep(Duration::from_millis(20));
    }
    world.end();
}
