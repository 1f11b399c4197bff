//! What a schedule consists of, and what happened in it.

use cluster::CLOCK_ERROR_PERCENT;

/// A fault that the proof must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// A new owner reads objects before it seals them.
    ReadBeforeSeal,
    /// Entries are written without regard to the epoch.
    UnguardedAppend,
    /// The head is written without regard to the epoch.
    UnguardedHead,
    /// The term of a renewal counts from its answer.
    DeadlineFromAnswer,
    /// A process whose change is refused tells its client.
    ErrorReplies,
}

/// What a schedule consists of.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The fault.
    pub planted: Planted,
    /// How far clocks may be from the true rate, percent.
    pub clock_error_percent: u64,
    /// Whether nothing happens but that the store hangs. Then no lease may change hands.
    pub only_hangs: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        let percent = u64::try_from(CLOCK_ERROR_PERCENT).expect("a percentage");
        Plan { planted: Planted::Nothing, clock_error_percent: percent, only_hangs: false }
    }
}

/// What happened in schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Times the lease was taken.
    pub takeovers: u64,
    /// Operations that were executed, and those of them that were acknowledged, or lost before that.
    pub executed: u64,
    /// See `executed`.
    pub acknowledged: u64,
    /// See `executed`.
    pub lost: u64,
    /// Reads that were executed.
    pub reads: u64,
    /// Changes in place that the store refused.
    pub refused: u64,
    /// Calls of clients that came to a paused owner.
    pub paused: u64,
    /// Faults.
    pub faults: u64,
    /// Calls that processes made before they were gone, and that were executed after it.
    pub late: u64,
}

impl Tally {
    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Tally) {
        self.takeovers += other.takeovers;
        self.executed += other.executed;
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.reads += other.reads;
        self.refused += other.refused;
        self.paused += other.paused;
        self.faults += other.faults;
        self.late += other.late;
    }
}
