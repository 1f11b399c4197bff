//! What other threads tell an event loop.
//!
//! Announcements of progress are frequent (each sync is one) and only matter to a loop that has replies or calls
//! waiting. The loop says so in `waiting` before it looks at `progress` for the last time and sleeps; an announcer sets
//! `progress` before it looks at `waiting`. So either the loop sees the progress, or the announcer wakes it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::net::TcpStream;
use mio::{Registry, Token, Waker};
use nfs::service::{Connection as Ends, ConnectionId};
use parking_lot::Mutex;

use crate::net::workers::Finished;

/// A message to an event loop.
pub(crate) enum Message {
    /// Serve this connection.
    Connected(TcpStream, Ends),
    /// A worker has executed a call.
    Finished(Finished),
    /// Send a record of the callback of this number by this connection.
    Send(ConnectionId, u64, Vec<u8>),
    /// Finish what is in flight, then end.
    Drain,
}

/// The end of an event loop that other threads hold.
pub(crate) struct Mailbox {
    waker: Waker,
    messages: Mutex<Vec<Message>>,
    /// The waker was called since the messages were last taken.
    woken: AtomicBool,
    progress: AtomicBool,
    waiting: AtomicBool,
}

impl Mailbox {
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Mailbox> {
        Ok(Mailbox {
            waker: Waker::new(registry, token)?,
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

    /// Replies that wait for durability, and calls that found no room, may have become ready. Never blocks.
    pub(crate) fn announce_progress(&self) {
        self.progress.store(true, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    fn wake(&self) {
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

    /// Says, before the loop sleeps, whether anything there waits for progress; answers whether there was some.
    pub(crate) fn before_sleep(&self, waiting: bool) -> bool {
        self.waiting.store(waiting, Ordering::SeqCst);
        waiting && self.progress.swap(false, Ordering::SeqCst)
    }

    /// Answers whether there was progress, after the loop slept.
    pub(crate) fn after_sleep(&self) -> bool {
        self.waiting.store(false, Ordering::SeqCst);
        self.progress.swap(false, Ordering::SeqCst)
    }
}
