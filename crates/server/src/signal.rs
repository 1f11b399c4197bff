//! Wakes a thread that waits for something to do.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// What a thread waits for.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: bool,
    stopped: bool,
}

impl Signal {
    /// There is something to do.
    pub(crate) fn raise(&self) {
        self.state.lock().due = true;
        self.changed.notify_one();
    }

    /// The thread is to end.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_one();
    }

    /// Sleeps until something is due, or for `most`; false when the thread is to end.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.due && !state.stopped {
            self.changed.wait_for(&mut state, most);
        }
        state.due = false;
        !state.stopped
    }
}
