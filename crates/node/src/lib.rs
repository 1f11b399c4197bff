//! The agent of a machine, `holdfast node`: runs a server for each group of volumes that the machine serves, and moves the
//! group's addresses.
//!
//! A *group* is volumes and addresses that move between machines together, and one NFSv4 identity; one server process serves it
//! from one data directory, or one namespace of a pool of a Ceph cluster. For data directories on shared disks, the agent decides
//! nothing: a cluster manager, or an administrator, fences the machine that failed and tells the agent of another one to start its
//! groups. For groups in a Ceph cluster, the agents of all machines decide together, and leases make sure that one serves each.
//!
//! | module | holds |
//! |---|---|
//! | [`agent`] | the groups of a machine, and the commands for them |
//! | [`control`] | commands and answers, over a Unix socket |
//! | `coordination` | groups in a Ceph cluster: who tries to serve which |
//! | [`administration`] | the commands of administrators of such a cluster |
//! | [`beat`] | what machines of such a cluster say of themselves |
//! | `watching` | the lease of a group, watched |
//! | `records`, `shared` | what machines leave each other |
//! | `groups` | the groups of this machine |
//! | `group` | one group: its server, its addresses |
//! | `child` | the server, a child process |
//! | [`handover`] | what agent and server tell each other |
//! | `connections` | the list of connections that is left for the next machine |
//! | `monitor` | whether a server answers |
//! | `network` | what the agent does with addresses and connections |
//! | [`config`] | the agent's configuration |
//! | [`status`] | what the agent says of itself |
//! | [`metrics`] | the same for Prometheus |
//! | `limits` | times and limits, with their reasons |

pub mod administration;
pub mod agent;
pub mod beat;
mod child;
pub mod config;
mod connections;
pub mod control;
mod coordination;
mod group;
mod groups;
pub mod handover;
mod limits;
pub mod metrics;
mod monitor;
mod network;
mod records;
mod shared;
pub mod status;
mod watching;
