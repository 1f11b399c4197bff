//! A gate at syncs: a thread halts before one of its syncs, until another thread lets it go on.
//!
//! Only one of the two threads runs at any time, so runs stay deterministic.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, spawn};

use super::MediaPart;

thread_local! {
    static GATE: RefCell<Option<Gate>> = const { RefCell::new(None) };
}

/// The gate of a thread that will halt.
#[derive(Debug)]
struct Gate {
    /// Syncs that pass before the one that halts.
    passing: u32,
    halted: Sender<()>,
    go_on: Receiver<()>,
    lies: bool,
}

/// Halts the thread if it has a gate and comes to it. A sync of the journal passes: other threads commit meanwhile. Returns
/// whether the sync must lie.
pub(super) fn reach(part: MediaPart) -> bool {
    let gate = GATE.with_borrow_mut(|gate| match gate {
        Some(next) if part != MediaPart::Log && next.passing > 0 => {
            next.passing -= 1;
            None
        }
        Some(_) if part != MediaPart::Log => gate.take(),
        _ => None,
    });
    let Some(gate) = gate else { return false };
    if gate.halted.send(()).is_ok() {
        // An error means the same: nobody holds it up any more.
        let _ = gate.go_on.recv();
    }
    gate.lies
}

/// Work in a thread that has halted before a sync. Dropping this lets it go on, and waits until it is done.
#[derive(Debug)]
pub struct Halted {
    go_on: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Halted {
    /// Runs `work` in a thread until it comes to a sync of a segment or the index, after this many others. Returns `None` if it
    /// was done before. If `lies`, that sync makes nothing durable.
    pub fn run(work: impl FnOnce() + Send + 'static, passing: u32, lies: bool) -> Option<Halted> {
        let ((halted, is_halted), (go_on, may_go_on)) = (channel(), channel());
        let thread = spawn(move || {
            let gate = Gate { passing, halted, go_on: may_go_on, lies };
            GATE.set(Some(gate));
            work();
            GATE.set(None);
        });
        let halted = Halted { go_on: Some(go_on), thread: Some(thread) };
        is_halted.recv().is_ok().then_some(halted)
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        self.go_on = None;
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(!matches!(ended, Some(Err(_))), "a background step panicked");
        }
    }
}
