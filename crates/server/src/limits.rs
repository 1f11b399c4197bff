//! The limits of the server, with their reasons.

use std::time::Duration;

use nfs::limits::{PAYLOAD_BYTES_MIN, SMALL_REPLY_BYTES_MAX};
use wire::limits::RECORD_BYTES_MAX;

/// Connections at once, or half of the descriptors that the process may open if that is less. Before there are more, an
/// idle one of the origin that has the most is closed for each new one.
pub const CONNECTIONS_MAX: usize = 10_000;

/// Free places for connections, below which each new connection closes another. While there is no free place, none is
/// accepted.
pub const CONNECTIONS_SPARE: usize = 128;

/// Connections accepted before the thread that does so looks whether others have come elsewhere, or it must end. Each takes about
/// 10 µs.
pub const ACCEPTS_PER_TURN_MAX: usize = 64;

/// The number of connections of an origin that are compared to choose the one to close. Each choice looks at all of them, and a
/// host that connects continuously causes some thousand choices a second.
pub const GIVE_WAY_CHOICES_MAX: usize = 32;

/// The longest datagram that is answered, bytes: a call of RQUOTA with the longest path and credential is shorter.
pub const DATAGRAM_BYTES_MAX: usize = 2 << 10;

/// Datagrams of an origin that are answered in a second: more than a client's tools can ask for one after another, which is how they
/// report on many users.
pub const ORIGIN_DATAGRAMS_PER_SECOND_MAX: u32 = 5_000;

/// Datagrams that are answered in a second. Each takes some ten microseconds.
pub const DATAGRAMS_PER_SECOND_MAX: u32 = 20_000;

/// Origins whose datagrams are counted. While more send datagrams, newcomers are not answered.
pub const DATAGRAM_ORIGINS_MAX: usize = 4_096;

/// Datagrams of a socket that are answered before those of the next one.
pub const DATAGRAMS_PER_TURN_MAX: usize = 64;

/// Event loops. More cores than this are better used by workers.
pub const THREADS_MAX: usize = 64;

/// Threads for calls that wait for the disk.
pub const WORKERS_MAX: usize = 256;

/// Default number of these threads: enough requests in flight to keep an NVMe device busy.
pub const WORKERS_DEFAULT: usize = 16;

/// An origin may use this many times the threads that are free, see [`crate::net::workers`].
pub const WORKERS_SHARE: usize = 3;

/// How long calls of a connection may go on after its peer has closed its side: enough for one that reads the replies to what it
/// sent last, unless those need very long.
pub const LEAVING_MAX: Duration = Duration::from_secs(1);

/// How much nicer than event loops the threads are that continue long calls, or serve administrators at other hosts. Each gets a
/// tenth of a processor that a loop wants too, which suffices for it to release soon what the loop may wait for. Beside 320 long calls
/// of 16 hosts, 1 % of the small calls of others took over 96 to 155 ms without this, 21 to 43 ms with it, and no less with 19, where
/// the longest took up to 288 ms.
pub const LONG_NICENESS: i32 = 10;

/// Bytes read from a socket at once, into a buffer that all connections of a loop share.
pub const READ_BYTES: usize = 256 << 10;

/// Bytes read first of a record whose payload may be received apart: its mark and its header, which the Linux client fills
/// with less than half of this.
pub const FIRST_READ_BYTES: usize = 1 << 10;

/// Bytes that a connection receives and is sent before the next one is served: a large call, or some hundred small ones. A
/// call is not interrupted.
pub const PORTION_BYTES: usize = 512 << 10;

/// The time that calls of a connection are executed before the next one is served, if they take long. One call may take longer.
/// A connection whose calls took this long is heavy too.
pub const PORTION_MAX: Duration = Duration::from_millis(1);

/// The time that calls of light connections are executed before the loop looks for new events.
pub const TURN_MAX: Duration = Duration::from_millis(4);

/// Parked replies that are released at once. Each takes about a microsecond.
pub const RELEASED_AT_ONCE_MAX: usize = 1024;

/// Bytes of replies that are sent at the end of a turn, before the loop looks for new events. A system call may exceed it by what
/// one socket takes.
pub const SENT_PER_TURN_BYTES: usize = 4 << 20;

/// Connections to which replies are sent at the end of a turn. Each takes a few microseconds, for its system call.
pub const SENDS_PER_TURN_MAX: usize = 512;

/// A connection that moved this many bytes when it was last served is heavy, and is served after light ones.
pub const HEAVY_BYTES: usize = 64 << 10;

/// Bytes of one connection's unsent replies and unanswered requests, at which it is no longer read. One reply may exceed
/// it. While a loop is short of memory, a connection gets no second large reply before the first was sent.
pub const CONNECTION_BYTES_MAX: usize = 4 << 20;

/// Bytes of replies at which they are sent before the end of a turn, so that large ones do not pile up in memory.
pub const SEND_EARLY_BYTES: usize = 256 << 10;

/// Bytes at the front of an output buffer that were sent, at which the rest is moved to the front when the socket takes no
/// more.
pub const SENT_BYTES_KEPT_MAX: usize = 64 << 10;

/// Unanswered calls of one connection, at which it is no longer read. The Linux client sends at most 128 per connection by
/// default.
pub const CONNECTION_CALLS_MAX: usize = 1024;

/// The least memory of one event loop for all its connections, bytes: a few of the largest requests and replies. If the
/// `memory` setting is too small, there are fewer loops than cores.
pub const LOOP_BYTES_MIN: usize = 8 << 20;

/// The longest record that is small, bytes: it has headroom that larger ones leave, and if it has arrived completely, it needs
/// memory only if its call is kept. A socket receives more than this before it is read.
pub const SMALL_RECORD_BYTES_MAX: usize = 64 << 10;

/// Bytes of small calls that wait which each origin may keep beyond its share, as long as all together leave room for a large record:
/// some fifty calls.
pub const KEPT_CALLS_MIN: usize = 32 << 10;

/// Bytes that are read of a connection without looking at them first, if there is no room for [`READ_BYTES`]: about a hundred small
/// calls.
pub const LITTLE_READ_BYTES: usize = 16 << 10;

/// The most memory for a small reply and what it is made from, bytes: twice 64 KiB of data or names and what surrounds them. It
/// has headroom that larger ones leave.
pub const SMALL_REPLY_ROOM_MAX: usize = 2 * ((64 << 10) + SMALL_REPLY_BYTES_MAX);

/// The most memory for a reply, bytes, that is reserved only if its call is kept, or had to wait its turn.
pub const SHORT_REPLY_ROOM_MAX: usize = 2 * SMALL_REPLY_BYTES_MAX;

/// Bytes of the long calls of an origin, among records and among replies, that end after all others: more than a CLONE or COPY of
/// the Linux client takes.
pub const LONG_KEPT_BYTES: usize = SHORT_REPLY_ROOM_MAX;

/// Long calls that end at once, before the loop looks whether it has had its time. Each takes some 10 µs.
pub const LONG_ENDED_AT_ONCE_MAX: usize = 64;

/// Bytes of small records that a loop takes in beyond the shares of their origins, to see whether their calls can be executed at
/// once. Those that cannot keep it.
pub const LENT_BYTES_MAX: usize = 128 << 10;

/// The part of a loop's memory that is for requests, in eighths. Replies have the rest, since each of them takes twice its
/// size while it is made.
pub const REQUESTS_EIGHTHS: usize = 3;

/// Bytes of requests that only small records may take.
pub const SMALL_REQUESTS_BYTES: usize = 512 << 10;

/// Bytes of replies that only small ones may take.
pub const SMALL_REPLIES_BYTES: usize = 512 << 10;

/// Bytes of requests that an origin may hold, however little those hold that wait: one of the largest size, and what is there
/// beside it.
pub const ORIGIN_REQUESTS_MIN: usize = RECORD_BYTES_MAX + (512 << 10);

/// The same for replies.
pub const ORIGIN_REPLIES_MIN: usize = 2 * RECORD_BYTES_MAX;

/// The memory of a deferred call or a parked reply besides its bytes.
pub const DEFERRED_OVERHEAD_BYTES: usize = 256;

/// The divisor of the part of its memory that a loop keeps as empty output buffers.
pub const BUFFER_SHARE: usize = 16;

/// How long a call that met a limit of the engine waits, unless progress is announced before.
pub const BUSY_RETRY: Duration = Duration::from_millis(2);

/// How often the pause of a call is doubled that waits for something that is in the way of it alone: up to 32 ms.
pub const RETRY_DOUBLINGS_MAX: u32 = 4;

/// The least time between two tries of such calls of one origin, on average, while many of them wait. A try takes some
/// microseconds.
pub const RETRY_SPACING: Duration = Duration::from_micros(250);

/// How long a connection waits for memory before others that hold more than their share, or do not keep their pace, give way.
/// Records and replies of fast peers take less, so that nobody has to.
pub const WAIT_MAX: Duration = Duration::from_millis(100);

/// The least pace of a peer that sends a record or takes replies, bytes a second, while others wait for its memory. At this
/// pace the largest record takes four seconds. A client that is not answered for a minute repeats its call anyway.
pub const PACE_MIN: u32 = 256 << 10;

/// The time over which this pace is measured. Lost packets may stop a peer for a second.
pub const PACE_TIME: Duration = Duration::from_secs(2);

/// The least pace while only others of the peer's own origin wait for its memory, bytes a second: that of a host with 256 KiB a
/// second whose 16 connections, the most that Linux opens (`nconnect`), all send a record.
pub const OWN_PACE_MIN: u32 = PACE_MIN / 16;

/// The time over which that pace is measured, and after which one that waits for its origin's share may take the place of another.
pub const OWN_PACE_TIME: Duration = Duration::from_secs(4);

/// The least pace of a fast peer, bytes a second. Fast peers have half of the memory for themselves.
pub const FAST_PACE_MIN: u32 = 1 << 20;

/// The time over which the pace of fast peers is measured: nobody waits longer for a fast peer that stalls.
pub const FAST_PACE_TIME: Duration = Duration::from_millis(100);

/// How long origins that were fast lately go before those of which nothing is known. Many of these at once, each of which
/// is soon found not to be fast, then delay few.
pub const FAST_FIRST: Duration = Duration::from_secs(4);

/// The longest that a peer below the pace of fast ones may take for a record or replies without being known for it.
pub const NOT_FAST_TIME: Duration = Duration::from_secs(1);

/// The bytes that a connection moves in a tick if its peer counts as fast. A socket takes fewer from a server whose peer
/// takes none.
pub const FAST_TICK_BYTES: usize = 8 << 20;

/// How long it is remembered that an origin was fast, or was not.
pub const STANDING_REMEMBERED: Duration = Duration::from_secs(60);

/// For how long it is remembered that rate limits held a call of an origin, though its peers are fast.
pub const THROTTLED_REMEMBERED: Duration = Duration::from_secs(4);

/// Calls that rate limits have held are executed by workers from this size on, bytes of their records or of the memory that is reserved
/// for their replies. A worker costs some microseconds, as much as copying this.
pub const HELD_FOR_WORKERS_BYTES: usize = 16 << 10;

/// How often a loop looks for connections that must give way, while others wait.
pub const BLOCKED_CHECK: Duration = Duration::from_millis(20);

/// Connections that give way in one turn, for each half of the memory.
pub const EVICTIONS_PER_TURN_MAX: usize = 16;

/// The longest commit that an event loop should do itself: two context switches take about as long.
pub const SHORT_COMMIT: Duration = Duration::from_micros(40);

/// The number of short commits in a row after which event loops expect the next one to be short.
pub const SHORT_COMMITS_MIN: u32 = 32;

/// How often a loop checks idle connections.
pub const TICK: Duration = Duration::from_secs(1);

/// The longest sleep of a loop while replies wait, in case progress is not announced.
pub const PARKED_CHECK: Duration = Duration::from_millis(100);

/// How long to wait before accepting again after descriptors ran out.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long to wait before accepting again while there is no place for a connection. Other loops are about to close some.
pub const PLACE_PAUSE: Duration = Duration::from_millis(2);

/// How long a stopping server waits for calls in flight.
pub const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Clients whose first connection was logged and is remembered.
pub const KNOWN_CLIENTS_MAX: usize = 4096;

/// Calls to clients over connections of our own, at once; one to each host.
pub const OUTBOUND_CALLS_MAX: usize = 256;

/// Such calls that wait for their turn. If there is one more, the last one to the host that most of them are for fails, of those to
/// what did not answer lately; hosts that do not answer come before others. Of the calls that their thread has yet to take, a host may have an eighth of the places that
/// are free.
pub const OUTBOUND_QUEUED_MAX: usize = 1024;

/// How long such a call may wait for its turn.
pub const OUTBOUND_WAIT_MAX: Duration = Duration::from_secs(20);

/// A call that is not answered in this time is ended if others need its slot.
pub const OUTBOUND_SLOW: Duration = Duration::from_secs(1);

/// Hosts that are remembered to have answered such a call, or not.
pub const OUTBOUND_HOSTS_MAX: usize = 4096;

/// Queued calls to one host. More than a host needs: it is called once for each lock that it waits for, and for each
/// delegation that is recalled.
pub const OUTBOUND_QUEUED_PER_HOST_MAX: usize = 128;

/// How long such a call may take in all when its turn has come: to ask rpcbind, connect, and be answered.
pub const OUTBOUND_CALL_MAX: Duration = Duration::from_secs(10);

/// Such connections kept for the next call.
pub const OUTBOUND_KEPT_MAX: usize = 64;

/// The longest reply of a client to such a call, bytes.
pub const OUTBOUND_ANSWER_BYTES_MAX: usize = 4096;

/// Events that are kept in memory; a few hundred bytes each.
pub const EVENTS_MAX: usize = 1024;

/// Events that are sent to a follower at once.
pub const EVENTS_AT_ONCE_MAX: usize = 64;

/// Events or clients in one page of a list, unless fewer are asked for.
pub const PAGE_LENGTH_MAX: usize = 1000;

/// How long a request waits for the event loops to count connections, which they do once in a [`TICK`].
pub const CENSUS_MAX: Duration = Duration::from_secs(3);

/// How long an event loop counts activities after somebody has asked for them.
pub const ACTIVITY_WATCHED: Duration = Duration::from_secs(30);

/// Activities that an event loop counts one by one: operations of a client on a volume. Each takes some 200 bytes.
pub const ACTIVITIES_MAX: usize = 1024;

/// Files and directories that an event loop counts one by one while somebody asks for activities. Each takes some 150 bytes.
pub const OBJECTS_COUNTED_MAX: usize = 512;

/// After this time, what was done with an object weighs half as much when the hottest ones are chosen.
pub const OBJECTS_HALF_LIFE: Duration = Duration::from_secs(10);

/// Files and directories that are listed at once, as their paths are searched for.
pub const OBJECTS_LISTED_MAX: usize = 100;

/// The least time between two searches for the paths of hot objects.
pub const PATHS_SEARCHED_EVERY: Duration = Duration::from_secs(1);

/// How long a path that was found is shown before it is searched for again.
pub const PATHS_KEPT: Duration = Duration::from_secs(10);

/// How long an object whose name was not found is shown without one. Each search for it may read many names.
pub const NAMES_READ_EVERY: Duration = Duration::from_secs(60);

/// Names that a search reads if the cache does not have those that are wanted: a tenth of a second's work.
pub const NAMES_READ_MAX: u64 = 100_000;

/// The highest limit on operations a second that the configuration takes.
pub const RATE_OPS_MAX: usize = 1_000_000_000;

/// Part of a loop's memory that a client may fill with calls that rate limits hold.
pub const HELD_SHARE: usize = 16;

/// Part of a loop's memory that all clients may fill with them.
pub const HELD_ALL_SHARE: usize = 4;

/// Series that a scrape may have. What exceeds it is left out and counted.
pub const SERIES_MAX: usize = 20_000;

/// Clients that may be counted one by one. Each has several series of metrics.
pub const COUNTED_CLIENTS_MAX: usize = 64;

/// The longest threshold for slow operations.
pub const SLOW_OPERATION_MILLISECONDS_MAX: usize = 600_000;

/// Volumes whose calls a loop counts apart, from its start on; those of others count as calls about no volume. Counters take some
/// kilobytes, and stay when their volume is deleted.
pub const VOLUMES_COUNTED_MAX: usize = 4096;

/// Events of slow calls that a loop makes in a second. Each takes it some microseconds, and when a device stalls, all calls are
/// slow.
pub const SLOW_EVENTS_PER_SECOND_MAX: usize = 8;

// Each half of a loop's memory has room for a request of the largest size and for a reply, which takes twice its size because
// the blocks that it is made from count too.
const _: () =
    assert!(LOOP_BYTES_MIN / 8 * REQUESTS_EIGHTHS / 2 >= SMALL_REQUESTS_BYTES / 2 + RECORD_BYTES_MAX);
const _: () = assert!(
    LOOP_BYTES_MIN / 8 * (8 - REQUESTS_EIGHTHS) / 2 >= SMALL_REPLIES_BYTES / 2 + 2 * RECORD_BYTES_MAX
);
// So has it beside what small records take beyond the shares of their origins, and some of them beside each other.
const _: () = assert!(
    LOOP_BYTES_MIN / 8 * REQUESTS_EIGHTHS / 2
        >= SMALL_REQUESTS_BYTES / 2 + RECORD_BYTES_MAX + LENT_BYTES_MAX + DEFERRED_OVERHEAD_BYTES
);
const _: () =
    assert!(LENT_BYTES_MAX > SMALL_RECORD_BYTES_MAX && SMALL_REPLIES_BYTES / 2 > SMALL_REPLY_ROOM_MAX);
// One read is less than a portion.
const _: () = assert!(READ_BYTES < PORTION_BYTES && HEAVY_BYTES < READ_BYTES);
// A first read does not bring what is read into place.
const _: () = assert!(4 * FIRST_READ_BYTES < PAYLOAD_BYTES_MIN);
// What one turn accepts has places.
const _: () = assert!(ACCEPTS_PER_TURN_MAX < CONNECTIONS_SPARE && 2 * CONNECTIONS_SPARE < CONNECTIONS_MAX);
// One connection cannot use up its loop.
const _: () = assert!(CONNECTION_BYTES_MAX < LOOP_BYTES_MIN && CONNECTION_BYTES_MAX > 2 * RECORD_BYTES_MAX);
