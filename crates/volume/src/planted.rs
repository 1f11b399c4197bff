//! Faults that the simulator plants into the engine, to prove that it finds them. There are none but in builds for tests: with
//! debug assertions and the feature `memory`.

#[cfg(all(debug_assertions, feature = "memory"))]
use std::cell::Cell;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A new object is in no quota tree.
    LoseTree,
    /// Limits are checked for unstable data, but nothing is reserved until it is written back.
    ReserveNothing,
    /// What was reserved stays reserved.
    ForgetRefund,
    /// The cleaner leaves out the last sector that mappings name of an extent, if it leaves out any.
    LoseSector,
}

#[cfg(all(debug_assertions, feature = "memory"))]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Plants a fault into all volumes that this thread uses, or removes it.
#[cfg(all(debug_assertions, feature = "memory"))]
pub fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

/// Whether this fault is planted.
#[cfg(all(debug_assertions, feature = "memory"))]
pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Whether this fault is planted: none is.
#[cfg(not(all(debug_assertions, feature = "memory")))]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}
