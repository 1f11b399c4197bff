//! Calls that the server makes: callbacks of NFSv4, and what NLM and NSM tell clients.
//!
//! One thread looks after the service's clock and takes from it what is to be sent. What goes by a connection that a client
//! opened is handed to that connection's event loop; the rest is sent by [`crate::net::outbound`]. Answers go back to the service,
//! which knows what they are for.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nfs::service::{Callback, ConnectionId, Destination};

use crate::background::driver::join;
use crate::net::mailbox::{Mailbox, Message};
use crate::net::outbound::Outbound;
use crate::signal::Signal;

/// What makes calls.
pub(crate) trait Caller: Send + Sync {
    /// Lets time pass; the longest until it is to be called again.
    fn tick(&self) -> Duration;
    /// What is to be sent.
    fn take(&self) -> Vec<Callback>;
    /// One of them could not be sent, or was not answered in time.
    fn failed(&self, callback: u64);
    /// An answer came by a connection that we opened.
    fn answered(&self, record: &[u8]);
    /// Has `notify` called whenever there is something to take.
    fn on_callbacks(&self, notify: Box<dyn Fn() + Send + Sync>);
}

/// The id of the `number`th connection, which the loop `chosen` of `loops` serves.
pub(crate) fn connection_id(number: u64, chosen: usize, loops: usize) -> ConnectionId {
    ConnectionId(number * loops as u64 + chosen as u64)
}

/// Which of `loops` event loops serves a connection.
pub(crate) fn loop_of(connection: ConnectionId, loops: usize) -> usize {
    usize::try_from(connection.0 % loops as u64).expect("it is less than a number of loops")
}

/// The thread, and those that it employs.
pub(crate) struct Callbacks {
    thread: JoinHandle<()>,
    signal: Arc<Signal>,
    outbound: Outbound,
}

impl Callbacks {
    /// Sends what `caller` has to send, over the connections of the loops behind `mailboxes` and over its own.
    pub(crate) fn start(caller: Arc<dyn Caller>, mailboxes: Vec<Arc<Mailbox>>) -> io::Result<Callbacks> {
        let signal = Arc::new(Signal::default());
        let notified = Arc::clone(&signal);
        caller.on_callbacks(Box::new(move || notified.raise()));
        let outbound = Outbound::start(&caller)?;
        let (wait, queue) = (Arc::clone(&signal), outbound.queue());
        let thread = thread::Builder::new().name("callbacks".to_owned()).spawn(move || {
            let mut most = Duration::ZERO;
            while wait.wait(most) {
                most = caller.tick();
                for callback in caller.take() {
                    match callback.to {
                        Destination::Connection(connection) => {
                            let message = Message::Send(connection, callback.id, callback.record);
                            mailboxes[loop_of(connection, mailboxes.len())].send(message);
                        }
                        Destination::Address(_) | Destination::Program { .. } => {
                            if let Err(refused) = queue.push(callback) {
                                caller.failed(refused.id);
                            }
                        }
                    }
                }
            }
        })?;
        Ok(Callbacks { thread, signal, outbound })
    }

    /// Ends the threads; what was not sent is not.
    pub(crate) fn stop(self) {
        self.signal.stop();
        join(self.thread);
        self.outbound.stop();
    }
}

#[cfg(test)]
mod tests;
