//! Times and limits of the agent, with their reasons.

use std::time::Duration;

/// Lifetime of an address that is not refreshed. If an agent hangs, another machine can be reached at its addresses once the kernel has
/// removed them, up to [`ADDRESS_LATE_MAX`] after this time.
pub(crate) const ADDRESS_LIFETIME: Duration = Duration::from_secs(3);

/// How much longer the kernel may keep such an address: it checks lifetimes once a second, and may put a check off by a quarter of a
/// second (`check_lifetime` of its `devinet.c`).
pub(crate) const ADDRESS_LATE_MAX: Duration = Duration::from_millis(1250);

/// How often addresses are refreshed.
pub(crate) const REFRESH: Duration = Duration::from_millis(500);

/// How often neighbours and clients are told of an address that has moved: the first message may be lost.
pub(crate) const ANNOUNCEMENTS: u32 = 4;

/// How long the link must have been gone for clients to be made to connect again. After a shorter time they go on by themselves as
/// soon, since TCP repeats what was lost after as long again at most.
pub(crate) const LINK_GONE_MIN: Duration = Duration::from_secs(1);

/// How long a server may take to open its data directory and serve. A journal of the default size is replayed in seconds.
pub(crate) const START_MAX: Duration = Duration::from_secs(120);

/// How long a server may take to stop in an orderly way. Killing it loses nothing, and clients wait meanwhile.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(1);

/// How often a server that ended is started again within [`RESTARTS_WITHIN`], before the group is given up here.
pub(crate) const RESTARTS_MAX: usize = 3;

/// See [`RESTARTS_MAX`].
pub(crate) const RESTARTS_WITHIN: Duration = Duration::from_secs(60);

/// How often the list of connections is stored for the next machine, if it has changed.
pub(crate) const RECORD_EVERY: Duration = Duration::from_secs(1);

/// The same for the first [`NEWCOMERS`] after a takeover, while all clients connect again: this machine may be lost too.
pub(crate) const RECORD_NEWCOMERS_EVERY: Duration = Duration::from_millis(200);

/// How long a group that stops waits for its last list to be stored. Its clients have no server meanwhile.
pub(crate) const RECORD_LAST_MAX: Duration = Duration::from_millis(500);

/// How long clients take to connect again after a takeover.
pub(crate) const NEWCOMERS: Duration = Duration::from_secs(10);

/// How long the connections to the previous machine stay in the list: their clients may not have noticed the takeover yet.
pub(crate) const FORMER_KEPT: Duration = Duration::from_secs(60);

/// Connections of a group that are stored.
pub(crate) const CONNECTIONS_MAX: usize = 10_000;

/// How long a server may take to answer NULL.
pub(crate) const MONITOR_MAX: Duration = Duration::from_secs(3);

/// How long the command that fences another machine may take.
pub(crate) const FENCE_MAX: Duration = Duration::from_secs(60);

/// Bytes of a command to the agent, or of its answer.
pub(crate) const MESSAGE_BYTES_MAX: u64 = 64 << 10;

/// Commands that the agent executes at once.
pub(crate) const COMMANDS_MAX: usize = 16;

/// Most addresses of a group, counted once for each port. Each has a socket for connections and one for datagrams, and all of them fit
/// into one message (`SCM_MAX_FD` of Linux is 253).
pub(crate) const SOCKETS_MAX: usize = 32;
