//! Times and bounds, with their reasons.

use std::time::Duration;

/// The time between two renewals of a lease, from sending to sending: a term holds four, so that one that is late or fails pauses
/// nobody.
pub const RENEWAL: Duration = Duration::from_millis(500);

/// How long a renewal permits its sender to execute, from when it was sent.
pub const TERM: Duration = Duration::from_secs(2);

/// How long a held lease must be seen unchanged before it is taken.
pub const WATCH: Duration = Duration::from_millis(2500);

/// How far a node's clock may be from the true rate, percent. A clock of a machine that works is wrong by a hundredth of one
/// percent at most.
pub const CLOCK_ERROR_PERCENT: u128 = 10;

// The slowest owner stops before the fastest watcher takes: TERM / (1 - e) < WATCH / (1 + e).
const _: () = assert!(
    TERM.as_nanos() * (100 + CLOCK_ERROR_PERCENT) < WATCH.as_nanos() * (100 - CLOCK_ERROR_PERCENT),
    "an owner must have stopped before another node takes its lease"
);

/// The time between two reads of a lease that somebody else holds, from sending to sending.
pub const POLL: Duration = Duration::from_millis(250);

/// A read of a lease that takes longer says that the store is slow, rather than the owner silent: watching begins anew.
pub const SLOW: Duration = Duration::from_millis(500);

/// How long after the last read of another process of the same machine its watch is continued. Meanwhile the store may have been
/// slow without anybody's noticing; a process needs a part of it to start and to connect.
pub const INHERITED_MAX: Duration = TERM;

/// How long to wait after a call failed, before the next one.
pub const ERROR_PAUSE: Duration = Duration::from_millis(250);

/// How long an answer is waited for at most before the lease is read again. It begins with [`TERM`], since a renewal that takes
/// longer permits nothing, and doubles with each answer that does not come.
pub const PATIENCE_MAX: Duration = Duration::from_secs(16);

/// A lease that is held and not renewed for so long is one whose owner may be gone: another node's server gets ready meanwhile, so
/// that it can take the lease after [`WATCH`]. Longer than two renewals and a poll.
pub const SILENT: Duration = Duration::from_millis(1300);

/// How much longer a node waits for each node that comes before it among those that may take a group.
pub const TURN: Duration = Duration::from_secs(1);

/// Interval between two heartbeats of a node.
pub const BEAT: Duration = RENEWAL;

/// A node that was not heard of for so long is taken for absent. Before [`WATCH`] ends, so that the next node is known by then.
pub const ABSENT_AFTER: Duration = Duration::from_millis(1800);
const _: () =
    assert!(ABSENT_AFTER.as_millis() > 3 * BEAT.as_millis() && ABSENT_AFTER.as_millis() < WATCH.as_millis());

/// A node that has been there for so long attracts groups.
pub const STEADY_AFTER: Duration = Duration::from_secs(10);

/// The longest name of a node or a group, bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The longest list of network addresses in a lease, bytes.
pub const ADDRESSES_BYTES_MAX: usize = 1024;

/// The most nodes of a cluster: each watches the leases of all groups.
pub const NODES_MAX: usize = 64;

/// The most groups of a cluster.
pub const GROUPS_MAX: usize = 256;

/// The most addresses of a group, counted once for each port.
pub const SOCKETS_MAX: usize = 32;
