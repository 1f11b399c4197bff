//! Many clients of NFSv4, in bytes, on a network that loses and repeats, with a server that is crashed; and a checker.
//!
//! A virtual client speaks NFSv4.0, 4.1 or 4.2 through [`nfs::service::Service`]. It opens, locks, reads, writes, creates,
//! renames and removes; several of its requests are on their way at once, each in a slot of its session (in NFSv4.0: of
//! an open owner and a lock owner of its own). Requests and replies get lost, are repeated and overtake each other,
//! connections close, clients are cut off or die, and the server is crashed at boundaries of its media, with any part of
//! what was not synced surviving. After a crash clients send again what was not answered, and go on.
//!
//! The checker sees each request executed and each reply receive_reply. It demands:
//! - a request is executed once: a repetition gets the same reply, a name is made, renamed or removed once, also if the
//!   server crashed in between;
//! - what was acknowledged is there after every crash: names, and data that was written stably or committed;
//! - no two owners have locks that conflict, opens that deny each other, or delegations beside what conflicts with them;
//!   unless the client in the way had been silent for a lease, or had not returned a delegation for that long;
//! - what a server takes away it does not take from clients that keep their lease; and what it took away is worth nothing
//!   any more: no stateid is accepted that was given back, or for another file than its own, and none names two things;
//! - in the end everything can be had by a new client.
//!
//! | module | holds |
//! |---|---|
//! | `message` | COMPOUNDs and callbacks in bytes |
//! | `op` | what clients ask |
//! | `client` | what clients know, and choose |
//! | `held` | opens, locks and delegations, by the same rules for clients and checker |
//! | `server` | the service on simulated media |
//! | `world` | the network and its events |
//! | `judge` | the checker |

mod client;
mod judge;
mod message;
mod op;
mod server;
mod state;
mod world;

use world::World;

/// How much happens in one run, and what of it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Events.
    pub events: usize,
    /// Clients at the same time.
    pub clients: usize,
    /// Requests that a client may have on their way at once.
    pub slots: usize,
    /// Files that all of them open.
    pub files: usize,
    /// Whether some of them speak NFSv4.0.
    pub version_zero: bool,
    /// Whether messages get lost and are repeated, and connections close.
    pub losses: bool,
    /// Whether clients are cut off and die.
    pub deaths: bool,
    /// Whether the server is crashed.
    pub crashes: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            events: 2500,
            clients: 5,
            slots: 3,
            files: 3,
            version_zero: true,
            losses: true,
            deaths: true,
            crashes: true,
        }
    }
}

/// StateKind a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Requests that were answered, and the answer arrived.
    pub answered: u64,
    /// Of those, the ones that succeeded.
    pub succeeded: u64,
    /// Crashes of the server.
    pub crashes: u64,
    /// Delegations that were granted.
    pub delegations: u64,
    /// Locks that were granted.
    pub locks: u64,
    /// Clients that lost what they held, as their lease had ended.
    pub expired: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.answered += other.answered;
        self.succeeded += other.succeeded;
        self.crashes += other.crashes;
        self.delegations += other.delegations;
        self.locks += other.locks;
        self.expired += other.expired;
    }
}

/// A failure that replays.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// Its plan.
    pub plan: Plan,
    /// StateKind was wrong.
    pub wrong: String,
    /// StateKind happened last.
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

/// StateKind happens in a run of this seed, and what is on the device in the end, as a checksum.
///
/// # Errors
/// The first failure.
pub fn digest(seed: u64, plan: &Plan) -> Result<u64, String> {
    let mut world = World::new(seed, *plan)?;
    world.run()?;
    Ok(world.digest())
}

/// The same failure, or another one of this seed, with less that happens.
#[must_use]
pub fn minimize(failure: &Failure, tries: u64) -> Failure {
    let mut smallest = failure.clone();
    let simpler: [fn(&mut Plan); 7] = [
        |plan| plan.crashes = false,
        |plan| plan.losses = false,
        |plan| plan.deaths = false,
        |plan| plan.version_zero = false,
        |plan| plan.clients = plan.clients.div_ceil(2),
        |plan| plan.slots = 1,
        |plan| plan.files = 1,
    ];
    for change in simpler {
        let mut plan = smallest.plan;
        change(&mut plan);
        let seeds = failure.seed..failure.seed + tries;
        let found = seeds.filter_map(|seed| run(seed, &plan).err());
        // One with fewer events is easier to read.
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
