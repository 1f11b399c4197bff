//! Wakes a background thread.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The state that the thread waits for.
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
    /// Wakes the thread.
    pub(crate) fn raise(&self) {
        self.state.lock().due = true;
        self.changed.notify_one();
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_one();
    }

    /// Sleeps until the signal is raised, at most for `most`. Returns false when the thread must end.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.due && !state.stopped {
            self.changed.wait_for(&mut state, most);
        }
        state.due = false;
        !state.stopped
    }
}
