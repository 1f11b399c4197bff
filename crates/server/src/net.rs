//! Sockets, event loops, and workers.

pub(crate) mod acceptor;
pub(crate) mod buffers;
pub(crate) mod callbacks;
pub(crate) mod connection;
pub(crate) mod connection_shares;
pub(crate) mod connection_table;
pub(crate) mod datagrams;
pub(crate) mod deferred;
pub(crate) mod departure;
pub(crate) mod event_loop;
pub(crate) mod held;
pub(crate) mod interfaces;
pub(crate) mod listener;
pub(crate) mod loops;
pub(crate) mod mailbox;
pub(crate) mod outbound;
pub(crate) mod output;
pub(crate) mod parked;
pub(crate) mod rpcbind;
pub(crate) mod socket_buffers;
pub(crate) mod workers;
