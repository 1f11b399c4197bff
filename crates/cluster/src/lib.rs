//! Which node of a cluster serves a group of volumes. No I/O, no clock: time and results come in, calls to make go out.
//!
//! A *group* is volumes and addresses that move between nodes together. Its data is in a store that all nodes reach, as objects
//! with versions and attributes, and the store applies each operation on an object atomically. Its *lease* is one such object
//! ([`LeaseRecord`]); [`Lease`] is the state machine that takes it, keeps it and gives it up.
//!
//! # What holds
//!
//! Of the nodes of a group:
//!
//! - **One executes at any instant.** An owner executes until [`TERM`] after it *sent* the last renewal that was acknowledged,
//!   by its own clock. Others take the lease after they have seen it unchanged for [`WATCH`] by theirs, and the store refuses
//!   the change if the lease was renewed meanwhile. Only the rates of clocks matter: [`CLOCK_ERROR_PERCENT`] says how wrong
//!   they may be.
//! - **Nothing that was acknowledged is lost.** Each takeover raises the epoch, and *seals*: marks each object that is ever
//!   changed in place with the new epoch, before it reads any of them. Changes in place carry the epoch of their sender, and
//!   the store refuses those of an earlier one. All other objects are written once, under names that contain the epoch.
//! - **After a seal, nobody with a lower epoch changes anything**, however late its calls arrive.
//!
//! Which node is *meant* to serve each group is another matter, and does no harm if nodes disagree about it for a moment: a
//! [`plan`] follows from the [`Membership`] of the cluster, the groups of its [`ClusterConfig`], and the nodes that are up.
//!
//! The reasons for the times are in `docs/decisions/2026-11-25-leases-of-groups.md`.

mod agenda;
mod config;
mod lease;
mod limits;
mod membership;
mod name;
mod observed;
mod placement;
mod record;
mod roster;
mod time;

pub use agenda::{Sight, Surroundings, Task};
pub use config::{ClusterConfig, GroupConfig, Mistake};
pub use lease::{Action, Answer, CallId, End, Event, Handover, Lease, Phase, Takeover, Version, Watched};
pub use limits::{
    ABSENT_AFTER, ADDRESSES_BYTES_MAX, BEAT, CLOCK_ERROR_PERCENT, ERROR_PAUSE, GROUPS_MAX, INHERITED_MAX,
    NAME_BYTES_MAX, NODES_MAX, PATIENCE_MAX, POLL, RENEWAL, SILENT, SLOW, SOCKETS_MAX, STEADY_AFTER, TERM,
    TURN, WATCH,
};
pub use membership::{Command, Duty, Membership, Refusal};
pub use name::{Name, NameError};
pub use observed::{Observed, Presence};
pub use placement::{Move, Why, candidates, plan};
pub use record::{Damage, Epoch, Identity, LEASE_BYTES, LeaseRecord, LeaseState};
pub use roster::{NoRoster, Roster};
pub use time::Time;
