//! Moves an IP address from one machine to another: what the Linux kernel and the neighbours have to be told.
//!
//! | module | holds |
//! |---|---|
//! | [`interface`] | a network interface |
//! | [`carrier`] | whether an interface has its link |
//! | [`holding`] | addresses with a lifetime that the kernel enforces |
//! | [`listening`] | sockets bound to an address that the machine does not have yet |
//! | [`connections`] | the connections of an address: which there are, and their end |
//! | [`announcement`] | gratuitous ARP, unsolicited neighbour advertisements |
//! | [`tickling`] | segments that make a client notice that its connection is gone |
//! | `silence` | nothing is sent from an address that was given up |
//! | `netlink` | messages to the kernel |
//!
//! All of it needs `CAP_NET_ADMIN` and `CAP_NET_RAW`, but for [`listening`] and [`carrier`].

pub mod announcement;
pub mod carrier;
pub mod connections;
pub mod holding;
pub mod interface;
pub mod listening;
mod netlink;
mod silence;
pub mod tickling;
