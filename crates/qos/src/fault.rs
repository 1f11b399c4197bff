//! Faults that tests plant, to prove that the simulation finds them. None exists outside of tests.

#[cfg(test)]
use std::cell::Cell;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The next deadline is counted from the release of a call, not from its own deadline.
    CountFromRelease,
    /// What one gate charged stays charged when another refuses.
    ForgetRollback,
    /// A refund does nothing.
    ForgetRefund,
    /// Calls are released in the order of their arrival, without regard to clients.
    FirstComeFirstServed,
    /// Calls of connections that went away stay counted.
    ForgetForgets,
    /// A limit that is changed does not move deadlines.
    IgnoreChanges,
    /// A flow whose turn it is at one gate passes others whatever their debt.
    PassClosedGates,
    /// Calls that were refused are not told when there is room.
    KeepRoomSecret,
    /// What is owed is not charged.
    ForgetOwed,
    /// While calls wait, no more is owed than calls that are never held are charged.
    ForgiveOwed,
    /// A call passes as an overdraft although something is owed.
    OverdrawOwed,
    /// What is owed does not count in its client's share.
    ForgetOwedShare,
    /// Calls that have passed other limiters are refused if too much waits.
    RefuseOnTheWay,
}

#[cfg(test)]
thread_local! {
    static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Plants a fault into all limiters that this thread uses, or removes it.
#[cfg(test)]
pub(crate) fn plant(fault: Option<Fault>) {
    PLANTED.set(fault);
}

#[cfg(test)]
pub(crate) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

#[cfg(not(test))]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}
