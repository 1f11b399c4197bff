//! Every limit of the server, with its reason.

use std::time::Duration;

use wire::limits::RECORD_BYTES_MAX;

/// Connections at once. One more waits in the listening socket's queue until one closes.
pub const CONNECTIONS_MAX: usize = 10_000;

/// Event loops. More cores than this are better used by workers.
pub const THREADS_MAX: usize = 64;

/// Threads for calls that wait for the disk.
pub const WORKERS_MAX: usize = 256;

/// Such threads unless told otherwise: enough requests in flight to keep an NVMe device busy.
pub const WORKERS_DEFAULT: usize = 16;

/// Bytes read from a socket at once, into a buffer that all connections of a loop share.
pub const READ_BYTES: usize = 256 << 10;

/// Bytes that a connection receives and is replied, after which the next one is served: a large call, or some hundred
/// small ones. A call is not interrupted.
pub const PORTION_BYTES: usize = 512 << 10;

/// A connection that moved so many bytes when it was served last stands behind those that move less.
pub const HEAVY_BYTES: usize = 64 << 10;

/// Bytes of one connection's replies that have not left and requests that have not been answered, after which
/// it is not read any more. One reply may exceed it. While a loop is short of memory, a connection gets no second large
/// reply before the first has left.
pub const CONNECTION_BYTES_MAX: usize = 4 << 20;

/// Bytes of replies that are sent before the end of a turn, so that large ones do not pile up in memory.
pub const SEND_EARLY_BYTES: usize = 256 << 10;

/// Bytes at the front of an output buffer that have left, after which the rest is moved there when the socket takes no
/// more.
pub const SENT_BYTES_KEPT_MAX: usize = 64 << 10;

/// Calls of one connection that have not been answered, after which it is not read any more. The Linux client sends
/// at most 128 per connection unless told otherwise.
pub const CONNECTION_CALLS_MAX: usize = 1024;

/// The least that one event loop has for all its connections, bytes: a few of the largest requests and replies. If the
/// `memory` setting allows no more, there are fewer loops than cores.
pub const LOOP_BYTES_MIN: usize = 8 << 20;

/// Bytes kept for what is taken in last: it is read before it is known how much memory it takes.
pub const REQUEST_SLACK_BYTES: usize = 2 * RECORD_BYTES_MAX;

/// Bytes of replies that only small ones may take: they are not asked for before they are made, but nothing is read while
/// there are more.
pub const SMALL_REPLIES_BYTES: usize = 1 << 20;

/// What keeping a call or a reply costs beside its bytes.
pub const DEFERRED_OVERHEAD_BYTES: usize = 256;

/// The part of its memory that a loop keeps as empty output buffers, for reuse: one in so many.
pub const BUFFER_SHARE: usize = 16;

/// How long a call that the engine found no room for waits, if no progress is announced before.
pub const BUSY_RETRY: Duration = Duration::from_millis(2);

/// How long a connection may hold memory without moving a byte while its loop is out of memory. Its client connects again
/// and asks again.
pub const STALL_MAX: Duration = Duration::from_secs(30);

/// A commit that takes longer is none for an event loop: two switches of threads take about as long.
pub const SHORT_COMMIT: Duration = Duration::from_micros(40);

/// So many commits in a row have to be short before event loops trust that the next one is.
pub const SHORT_COMMITS_MIN: u32 = 32;

/// How often a loop looks after connections that do nothing.
pub const TICK: Duration = Duration::from_secs(1);

/// The longest that a loop sleeps while replies wait, in case that progress is not announced.
pub const PARKED_CHECK: Duration = Duration::from_millis(100);

/// How long to wait before accepting again after the system ran out of descriptors or the limit was reached.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a stopping server waits for what is in flight.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Clients remembered as having been greeted in the log.
pub const CLIENTS_GREETED_MAX: usize = 4096;

/// Threads that call clients over connections of our own. A client that does not answer takes one for some seconds.
pub const OUTBOUND_THREADS: usize = 4;

/// Such calls that no thread has taken yet; one more fails at once.
pub const OUTBOUND_QUEUED: usize = 1024;

/// Such connections kept for the next call.
pub const OUTBOUND_KEPT: usize = 64;

/// The longest answer of a client to such a call, bytes.
pub const OUTBOUND_ANSWER_BYTES_MAX: usize = 4096;

// A loop can always take in one request of the largest size, and answer it: with the blocks that a reply is made from, it
// takes twice its size.
const _: () = assert!(LOOP_BYTES_MIN / 2 > REQUEST_SLACK_BYTES + RECORD_BYTES_MAX);
const _: () = assert!(LOOP_BYTES_MIN / 2 >= SMALL_REPLIES_BYTES + 2 * RECORD_BYTES_MAX);
// A portion that was read is begun.
const _: () = assert!(READ_BYTES < PORTION_BYTES && HEAVY_BYTES < READ_BYTES);
// One connection cannot use up its loop.
const _: () = assert!(CONNECTION_BYTES_MAX < LOOP_BYTES_MIN && CONNECTION_BYTES_MAX > 2 * RECORD_BYTES_MAX);
