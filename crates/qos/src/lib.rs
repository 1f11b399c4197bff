//! Limits on bytes and operations a second, for targets, volumes and clients; and the order in which calls wait for them. No
//! I/O, no clock: time comes with each call.
//!
//! A [`Limiter`] has a *gate* for each dimension that is limited. While nothing waits, a call costs a compare-and-swap at each
//! of its gates (`gate.rs`). A call that a gate refuses waits there, and clients go on in the order of start-time fair queueing
//! (`queue.rs`). How a call passes several gates, charged at all of them or at none, is told in `backlog.rs`.
//!
//! # What holds
//!
//! - In any time `t`, at most `rate x t + burst + call` passes a gate, where `call` is the largest one. If calls take more than half
//!   a burst, and others need a second busy gate, it is one call more. After an idle time the burst is used at once, so that
//!   the first ten seconds have 101 % of the rate with the default burst, and any later ones 100 %.
//! - While calls wait at a gate, it lets through what its rate allows, though each release is up to half a burst late.
//! - Clients that have calls waiting get equal shares at each gate, in its own units, of what they ask for.
//! - At a limit of bytes, a small call of a client that comes now and then waits for about one large call of others, not for one of
//!   each.
//! - Nothing waits for ever: a client with a call at a gate has its turn after each other client had one. At most [`HELD_MAX`] of
//!   calls waits at a gate, more only if the limit was lowered since, clients came for whom others had left no room, or calls came
//!   that had passed other limiters ([`Scheduler::go_on`]).
//! - Bytes that were moved before they were charged are owed ([`Scheduler::owe`]): nothing passes until they are paid, for at
//!   most [`OWED_MAX`].
//! - A call waits in one queue at a time, with nothing charged and no lock held.
//! - Calls that are never held are charged, up to 100 ms beyond the burst, and count in their client's share. Limits cannot bound
//!   them. They delay their client's other calls by a second at the rate for each other client, also after a change of the rate.
//!
//! # One lock for all that waits
//!
//! All queues are under one mutex, which is taken only for calls whose gates are busy. A queue per loop with a part of the rate
//! each would need no lock, but the parts would have to follow the load: a client whose connections are all in one loop would
//! get that loop's part only, and whatever moves parts between loops is wrong for as long as it lags. One queue is exact. A lock
//! per limiter would not do, since a call passes several limiters. A call that is held costs about a microsecond under the
//! lock, in two parts, so loops wait for each other when several hundred thousand calls a second are *held*: more than any limit
//! lets through that is worth setting. Calls that meet no busy gate never take the lock.
//!
//! Any loop may release calls of any other: [`Token`] names the loop that must execute the call, and the releasing loop sends it
//! there. All loops see one deadline, and the first that wakes up takes what is due.
//!
//! # How a loop uses it
//!
//! ```
//! use qos::{Call, ClientId, Cost, Dimension, Limits, LoopId, Released, Scheduler, Time, Token, Verdict};
//!
//! let scheduler = Scheduler::default();
//! let limits = Limits::NONE.with(Dimension::TotalBytes, 16 << 20)?;
//! let volume = [scheduler.limiter(Time::ORIGIN, &limits)];
//! let call = |number| Call {
//!     limiters: &volume,
//!     client: ClientId(1),
//!     cost: Cost::write(1 << 20),
//!     token: Token { event_loop: LoopId(0), call: number },
//! };
//! assert_eq!(scheduler.admit(Time::ORIGIN, &call(1)), Verdict::Admitted);
//! assert_eq!(scheduler.admit(Time::ORIGIN, &call(2)), Verdict::Held);
//!
//! let deadline = scheduler.next_deadline().expect("a call waits");
//! let mut released = Vec::new();
//! scheduler.release(deadline, &mut released);
//! assert!(matches!(released[..], [Released::Call { token, .. }] if token.call == 2));
//! # Ok::<(), qos::LimitsError>(())
//! ```

mod backlog;
mod call;
mod charges;
mod cost;
mod fault;
mod flow;
mod gate;
mod limiter;
mod limits;
mod queue;
mod scheduler;
#[cfg(test)]
mod simulation;
pub mod tiers;
mod time;

pub use backlog::RELEASED_MAX;
pub use call::{Call, ClientId, Counters, LIMITERS_MAX, LoopId, Released, Token, Verdict};
pub use cost::{Class, Cost};
pub use limiter::Limiter;
pub use limits::{
    BURST_DEFAULT, BURST_MAX, BURST_MIN, BYTES_PER_S_MIN, Dimension, Limits, LimitsError, OPS_PER_S_MIN,
    RATE_MAX,
};
pub use queue::{HELD_MAX, OWED_MAX};
pub use scheduler::Scheduler;
pub use time::Time;
