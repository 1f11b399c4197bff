//! The seam between event loops and what they serve: bytes of a call in, a reply and what it waits for out.

pub(crate) use nfs::service::HEAD_BYTES;
use nfs::service::{Connection, ConnectionId, Outcome, Progress};
use volume::bytes::Slice;
use volume::request::{Access, Durability, Durable};

/// The first [`HEAD_BYTES`] of a call; zeros where it was shorter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head(pub(crate) [u8; HEAD_BYTES]);

impl Head {
    /// The head of this call.
    pub(crate) fn of(call: &[u8]) -> Head {
        let mut head = [0; HEAD_BYTES];
        let length = call.len().min(HEAD_BYTES);
        head[..length].copy_from_slice(&call[..length]);
        Head(head)
    }

    fn word(&self, number: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.0[number * 4..number * 4 + 4]);
        u32::from_be_bytes(word)
    }

    /// The program called.
    pub(crate) fn program(&self) -> u32 {
        self.word(3)
    }

    /// The procedure called.
    pub(crate) fn procedure(&self) -> u32 {
        self.word(5)
    }
}

/// What a reply waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Number of the volume among those served.
    pub(crate) volume: usize,
    /// What must be durable there.
    pub(crate) after: Durability,
}

/// What became of a call.
pub(crate) type Handled = Outcome<Wait>;

/// What event loops serve.
pub(crate) trait Calls: Send + Sync {
    /// Executes a call and appends its reply, with its record mark, to `out`; without a reply, appends nothing. What is put
    /// into `tail`, which is empty, leaves right behind that. `progress` is kept for a call that is to be run again.
    fn handle(
        &self,
        call: &[u8],
        connection: Connection,
        access: Access,
        progress: &mut Option<Progress>,
        out: &mut Vec<u8>,
        tail: &mut Vec<Slice>,
    ) -> Handled;
    /// The most bytes that the reply to a call may have, with its record mark.
    fn reply_bytes_max(&self, call: &[u8]) -> usize;
    /// How many lines there are for calls that find no room; see [`crate::admission::lines`].
    fn lines(&self) -> usize;
    /// The line in which a call waits if it finds no room; none if it need not keep any order.
    fn line_of(&self, call: &[u8]) -> Option<usize>;
    /// A connection is closed.
    fn connection_closed(&self, connection: ConnectionId);
    /// The callback of this number could not be sent.
    fn callback_failed(&self, callback: u64);
    /// Calls were executed, and more do not follow at once: what they changed should become durable. A loop that is `idle`,
    /// with nothing else to do, may do that itself. Answers whether it did.
    fn commit(&self, idle: bool) -> bool;
    /// Whether a reply may leave.
    fn durable(&self, wait: Wait) -> Durable;
    /// Appends the reply, with its record mark, to a call whose effect was lost.
    fn failure_reply(&self, head: Head, out: &mut Vec<u8>);
}
