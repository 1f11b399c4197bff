//! Calls of the server to its clients: callbacks of NFSv4, granted locks of NLM and notices of NSM.
//!
//! One thread ticks the service and takes from it what must be sent. What goes by a connection of a client is handed to
//! that connection's event loop; the rest is sent by [`crate::net::outbound`]. Replies go back to the service.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nfs::service::{ConnectionId, Destination};

use crate::background::driver::join;
use crate::net::mailbox::{Mailbox, Message};
use crate::net::outbound::Outbound;
use crate::protocol::calls::Calls as _;
use crate::protocol::{NOT_SENT, Protocol};
use crate::signal::Signal;

/// Returns the id of the `number`th connection, which event loop `chosen` of `loops` serves.
pub(crate) fn connection_id(number: u64, chosen: usize, loops: usize) -> ConnectionId {
    ConnectionId(number * loops as u64 + chosen as u64)
}

/// Returns which of `loops` event loops serves a connection.
pub(crate) fn loop_of(connection: ConnectionId, loops: usize) -> usize {
    usize::try_from(connection.0 % loops as u64).expect("it is less than a number of loops")
}

/// The thread, and those that send.
pub(crate) struct Callbacks {
    thread: JoinHandle<()>,
    signal: Arc<Signal>,
    outbound: Outbound,
}

impl Callbacks {
    /// Sends the callbacks of the service, by connections of the loops that own `mailboxes` and by connections of its own, from
    /// the addresses of `listen`.
    pub(crate) fn start(
        protocol: Arc<Protocol>,
        mailboxes: Vec<Arc<Mailbox>>,
        listen: &[SocketAddr],
    ) -> io::Result<Callbacks> {
        let signal = Arc::new(Signal::default());
        let notified = Arc::clone(&signal);
        protocol.service().on_callbacks(Box::new(move || notified.raise()));
        let ended = Arc::clone(&protocol);
        let ended = move |callback, reply| ended.callback_ended(callback, reply);
        let outbound = Outbound::start(Arc::new(ended), listen)?;
        let (wait, queue) = (Arc::clone(&signal), outbound.queue());
        let thread = thread::Builder::new().name("callbacks".to_owned()).spawn(move || {
            let mut most = Duration::ZERO;
            while wait.wait(most) {
                most = protocol.tick();
                for callback in protocol.service().take_callbacks() {
                    protocol.await_tenure();
                    match callback.to {
                        Destination::Connection(connection) => {
                            let message = Message::Send(connection, callback.id, callback.record);
                            mailboxes[loop_of(connection, mailboxes.len())].send(message);
                        }
                        Destination::Address(_) | Destination::Program { .. } => {
                            if let Err(refused) = queue.push(callback) {
                                protocol.callback_ended(refused.id, Err(NOT_SENT.into()));
                            }
                        }
                    }
                }
            }
        })?;
        Ok(Callbacks { thread, signal, outbound })
    }

    /// Ends the threads; unsent callbacks are dropped.
    pub(crate) fn stop(self) {
        self.signal.stop();
        join(self.thread);
        self.outbound.stop();
    }
}
