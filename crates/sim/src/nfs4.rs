//! Many NFSv4 clients on a network that loses and repeats messages, a server that crashes, and a checker.
//!
//! A virtual client sends COMPOUNDs of NFSv4.0, 4.1 or 4.2 to [`nfs::service::Service`]. It opens, locks, reads,
//! writes, creates, renames and removes, with several requests in flight: each in a slot of its session, or, in
//! NFSv4.0, of an open owner and a lock owner of its own. Requests and replies are lost, repeated and reordered;
//! connections close; clients are partitioned or die; and the server crashes at boundaries of its media, with any part
//! of the unsynced data surviving. After a crash clients retransmit unanswered requests, and continue.
//!
//! The checker sees each request executed and each reply received. It demands:
//! - A request is executed once: a retransmission gets the same reply, and a name is created, renamed or removed once,
//!   even if the server crashed in between.
//! - What was acknowledged survives every crash: names, and data written stably or committed.
//! - No two owners have conflicting locks, opens that deny each other, or delegations that conflict with either, unless
//!   the client in the way was silent for a lease, or kept a recalled delegation for that long.
//! - The server revokes nothing from clients that renew their lease. What it revoked is worthless: it accepts no
//!   stateid that was returned or belongs to another file, and no stateid names two things.
//! - Finally a new client can have everything.
//! - An adversary who knows all handles, ids and requests achieves nothing from another address or for another principal,
//!   nor by guessing ids. However many clients it becomes, there is room for others.
//!
//! | module | holds |
//! |---|---|
//! | `message` | encodes COMPOUNDs and answers callbacks |
//! | `op` | the clients' operations |
//! | `client` | what clients know, and how they choose |
//! | `state` | opens, locks and delegations, by the same rules for clients and checker |
//! | `server` | the service on simulated media |
//! | `world` | the network and its events |
//! | `judge` | the checker |
//! | `adversary` | the adversary |

mod adversary;
mod client;
mod judge;
mod message;
mod op;
mod server;
mod state;
mod world;

use world::World;

/// The size of a run, and the failures in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of events.
    pub events: usize,
    /// The number of clients at a time.
    pub clients: usize,
    /// The maximum number of requests a client has in flight.
    pub slots: usize,
    /// The number of files that all clients open.
    pub files: usize,
    /// Whether some clients use NFSv4.0.
    pub nfs40: bool,
    /// Whether messages are lost and repeated, and connections close.
    pub losses: bool,
    /// Whether clients are partitioned and die.
    pub deaths: bool,
    /// Whether the server crashes.
    pub crashes: bool,
    /// Whether there is an adversary.
    pub adversary: bool,
    /// A planted fault: the server takes the adversary's address for the client's, as if it did not check it.
    pub takes_any_address: bool,
    /// A planted fault: the server takes the adversary for the client's own principal.
    pub takes_any_principal: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            events: 2500,
            clients: 5,
            slots: 3,
            files: 3,
            nfs40: true,
            losses: true,
            deaths: true,
            crashes: true,
            adversary: true,
            takes_any_address: false,
            takes_any_principal: false,
        }
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Replies received.
    pub answered: u64,
    /// Those of successful requests.
    pub succeeded: u64,
    /// Crashes of the server.
    pub crashes: u64,
    /// Delegations granted.
    pub delegations: u64,
    /// Locks granted.
    pub locks: u64,
    /// Clients whose state was revoked after their lease expired.
    pub expired: u64,
    /// Requests of the adversary that were refused.
    pub refused: u64,
}

impl Tally {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Tally) {
        self.answered += other.answered;
        self.succeeded += other.succeeded;
        self.crashes += other.crashes;
        self.delegations += other.delegations;
        self.locks += other.locks;
        self.expired += other.expired;
        self.refused += other.refused;
    }
}

/// A failure that replays.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// Its plan.
    pub plan: Plan,
    /// What was wrong.
    pub wrong: String,
    /// The last events.
    pub trace: Vec<String>,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.trace {
            writeln!(f, "    {line}")?;
        }
        write!(f, "seed {}, {:?}: {}", self.seed, self.plan, self.wrong)
    }
}

/// Runs one seed.
///
/// # Errors
/// The first failure.
pub fn run(seed: u64, plan: &Plan) -> Result<Tally, Failure> {
    let fail = |wrong, trace| Failure { seed, plan: *plan, wrong, trace };
    let mut world = World::new(seed, *plan).map_err(|wrong| fail(wrong, Vec::new()))?;
    match world.run() {
        Ok(()) => Ok(world.tally()),
        Err(wrong) => {
            let plan = Plan { events: world.done(), ..*plan };
            Err(Failure { seed, plan, wrong, trace: world.into_trace() })
        }
    }
}

/// Returns a checksum of this seed's events and of the final device.
///
/// # Errors
/// The first failure.
pub fn digest(seed: u64, plan: &Plan) -> Result<u64, String> {
    let mut world = World::new(seed, *plan)?;
    world.run()?;
    Ok(world.digest())
}

/// Returns this failure, or another one near this seed, with a smaller plan.
#[must_use]
pub fn minimize(failure: &Failure, tries: u64) -> Failure {
    let mut smallest = failure.clone();
    let simpler: [fn(&mut Plan); 8] = [
        |plan| plan.adversary = false,
        |plan| plan.crashes = false,
        |plan| plan.losses = false,
        |plan| plan.deaths = false,
        |plan| plan.nfs40 = false,
        |plan| plan.clients = plan.clients.div_ceil(2),
        |plan| plan.slots = 1,
        |plan| plan.files = 1,
    ];
    for change in simpler {
        let mut plan = smallest.plan;
        change(&mut plan);
        let seeds = failure.seed..failure.seed + tries;
        let found = seeds.filter_map(|seed| run(seed, &plan).err());
        // A failure with fewer events is easier to read.
        if let Some(found) = found.take(3).min_by_key(|failure| failure.plan.events)
            && plan != smallest.plan
        {
            smallest = found;
        }
    }
    while smallest.plan.events > 10 {
        let plan = Plan { events: smallest.plan.events * 3 / 4, ..smallest.plan };
        let Err(found) = run(smallest.seed, &plan) else { break };
        smallest = found;
    }
    smallest
}
