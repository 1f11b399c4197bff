//! Messages of other threads to an event loop.
//!
//! Announcements of progress are frequent (each sync is one) and matter only to a loop with waiting replies or calls. The
//! loop sets `waiting` before it checks `progress` for the last time and sleeps; an announcer sets `progress` before it
//! checks `waiting`. So either the loop sees the progress, or the announcer wakes it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::{Registry, Token, Waker};
use nfs::service::ConnectionId;
use parking_lot::Mutex;
use qos::Released;

use crate::connection_origin::ConnectionOrigin;
use crate::net::connection::Newcomer;
use crate::net::deferred::ExecutedCall;

/// A message to an event loop.
pub(crate) enum Message {
    /// Serve this connection.
    Connected(Newcomer),
    /// A worker has run a call.
    Executed(Box<ExecutedCall>),
    /// Send the callback of this number, a record, by this connection.
    Send(ConnectionId, u64, Vec<u8>),
    /// Close an idle connection of this origin, which has the most. This number of loops were asked before.
    GiveWay(ConnectionOrigin, usize),
    /// Rate limits have released this.
    Released(Released),
    /// Finish the calls in flight, then end.
    Drain,
}

/// The token of a loop's mailbox. Connections count from zero.
pub(crate) const MAILBOX: Token = Token(usize::MAX);

/// The queue of messages to a loop, and what wakes it.
pub(crate) struct Mailbox {
    waker: Waker,
    messages: Mutex<Vec<Message>>,
    /// The waker was called after the messages were last taken.
    woken: AtomicBool,
    progress: AtomicBool,
    waiting: AtomicBool,
}

impl Mailbox {
    pub(crate) fn new(registry: &Registry) -> io::Result<Mailbox> {
        Ok(Mailbox {
            waker: Waker::new(registry, MAILBOX)?,
            messages: Mutex::default(),
            woken: AtomicBool::new(false),
            progress: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
        })
    }

    pub(crate) fn send(&self, message: Message) {
        self.messages.lock().push(message);
        self.wake();
    }

    /// Announces that parked replies may have become durable, or that calls which met a limit may find room. Never blocks.
    pub(crate) fn announce_progress(&self) {
        self.progress.store(true, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Has the loop take a turn.
    pub(crate) fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            // It fails only when the loop is gone.
            let _ = self.waker.wake();
        }
    }

    /// Takes all messages, into a vector whose memory is reused.
    pub(crate) fn take(&self, messages: &mut Vec<Message>) {
        self.woken.store(false, Ordering::Release);
        std::mem::swap(&mut *self.messages.lock(), messages);
    }

    /// Notes, before the loop sleeps, whether it waits for progress. Returns whether there was some.
    pub(crate) fn before_sleep(&self, waiting: bool) -> bool {
        self.waiting.store(waiting, Ordering::SeqCst);
        waiting && self.progress.swap(false, Ordering::SeqCst)
    }

    /// Returns whether there was progress while the loop slept.
    pub(crate) fn after_sleep(&self) -> bool {
        self.waiting.store(false, Ordering::SeqCst);
        self.progress.swap(false, Ordering::SeqCst)
    }
}
