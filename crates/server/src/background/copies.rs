//! The thread that continues copies after the reply to COPY, part by part.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::background::driver::join;
use crate::clock;
use crate::protocol::Protocol;
use crate::protocol::calls::Calls as _;
use crate::rates::Rates;
use crate::signal::Signal;

/// The thread.
pub(crate) struct Copies {
    thread: JoinHandle<()>,
    signal: Arc<Signal>,
}

impl Copies {
    /// Starts the thread for the copies of `protocol`, which pass the limits of `rates`.
    pub(crate) fn start(protocol: &Arc<Protocol>, rates: &Arc<Rates>) -> io::Result<Copies> {
        let (signal, protocol) = (Arc::new(Signal::default()), Arc::clone(protocol));
        let (begun, released) = (Arc::clone(&signal), Arc::clone(&signal));
        protocol.service().on_copies(Box::new(move || begun.raise()));
        rates.on_copies_released(Box::new(move || released.raise()));
        let rates = Arc::clone(rates);
        let wait = Arc::clone(&signal);
        let thread = thread::Builder::new().name("copies".to_owned()).spawn(move || {
            let mut most = Duration::ZERO;
            while wait.wait(most) {
                most = protocol.service().copy_some(clock::read(), &*rates);
                protocol.commit(false);
            }
        })?;
        Ok(Copies { thread, signal })
    }

    /// Ends the thread after its current part. Clients of unfinished copies are told after the next start.
    pub(crate) fn stop(self) {
        self.signal.stop();
        join(self.thread);
    }
}
