//! The agent of a machine, `holdfast node`: runs a server for each group of volumes that the machine serves, and moves the
//! group's addresses.
//!
//! A *group* is volumes and addresses that move between machines together, and one NFSv4 identity; one server process serves it
//! from one data directory. The agent decides nothing: a cluster manager, or an administrator, fences the machine that failed and
//! tells the agent of another one to start its groups.
//!
//! | module | holds |
//! |---|---|
//! | [`agent`] | the groups of a machine, and the commands for them |
//! | [`control`] | commands and answers, over a Unix socket |
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

pub mod agent;
mod child;
pub mod config;
mod connections;
pub mod control;
mod group;
pub mod handover;
mod limits;
pub mod metrics;
mod monitor;
mod network;
pub mod status;
