//! The Network Status Monitor, version 1 (X/Open XNFS version 3W chapter 11), by which hosts with locks learn of restarts.
//!
//! The status monitor of a host keeps a state number, which is odd while the host is up and grows with each restart. After
//! a restart it calls SM_NOTIFY at the status monitors of all hosts that it monitored.

use crate::limits::NLM_STRING_BYTES_MAX;

#[cfg(test)]
mod tests;

/// The program number.
pub const PROGRAM: u32 = 100_024;
/// The version number.
pub const VERSION: u32 = 1;

xdr! {
    /// The procedures (XNFS section 11.3). All but NULL, STAT and NOTIFY are for programs of the same host and have no
    /// messages here.
    ///
    /// | procedure | arguments | result |
    /// |---|---|---|
    /// | NULL | – | – |
    /// | STAT | [`SmName`] | [`SmStatRes`] |
    /// | NOTIFY | [`StatChge`] | – |
    pub enum Procedure {
        /// Do nothing.
        Null = 0,
        /// Check whether a host can be monitored.
        Stat = 1,
        /// Monitor a host.
        Mon = 2,
        /// Stop monitoring a host.
        Unmon = 3,
        /// Stop monitoring all hosts for a program.
        UnmonAll = 4,
        /// Simulate a restart of the host.
        SimuCrash = 5,
        /// A host has restarted.
        Notify = 6,
    }

    /// The name of a host.
    pub opaque HostName max NLM_STRING_BYTES_MAX;

    /// The arguments of STAT (sm_name).
    pub struct SmName<'a> {
        /// The host.
        pub mon_name: HostName<'a>,
    }

    /// Whether a host is monitored (XNFS section 11.2, res).
    pub enum SmRes {
        /// The host is monitored.
        Succ = 0,
        /// The host cannot be monitored.
        Fail = 1,
    }

    /// The result of STAT and MON (sm_stat_res).
    pub struct SmStatRes {
        /// Whether the host is monitored.
        pub res_stat: SmRes,
        /// The state of this status monitor.
        pub state: i32,
    }

    /// The arguments of NOTIFY (stat_chge).
    pub struct StatChge<'a> {
        /// The name by which the restarted host calls itself.
        pub mon_name: HostName<'a>,
        /// The new state of its status monitor.
        pub state: i32,
    }
}
