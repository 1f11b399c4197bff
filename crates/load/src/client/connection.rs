//! A connection that carries load: queued calls and arriving replies.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};

use mio::net::TcpStream;

use super::reply_reader::ReplyReader;

/// Buffers per vectored write.
const PIECES_MAX: usize = 64;

/// Memory for calls that is kept once all of them are sent.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Data from the shared buffer, and its position in the stream.
#[derive(Debug)]
struct Insert {
    /// The data precedes this byte of `out`.
    at: usize,
    start: usize,
    end: usize,
}

/// A non-blocking connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// Queued calls, without the data of `inserts`.
    out: Vec<u8>,
    /// The length of the sent prefix of `out`.
    sent: usize,
    inserts: VecDeque<Insert>,
    /// The socket's send buffer is full.
    blocked: bool,
    /// Whether the connection is in [`Io::dirty`](outbox::Io).
    pub(crate) dirty: bool,
    pub(crate) incoming: ReplyReader,
}

/// The outcome of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// This many bytes arrived.
    Bytes(usize),
    /// Nothing has arrived.
    Nothing,
    /// The server closed the connection.
    End,
}

impl Connection {
    /// Wraps a non-blocking stream.
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            out: Vec::new(),
            sent: 0,
            inserts: VecDeque::new(),
            blocked: false,
            dirty: false,
            incoming: ReplyReader::default(),
        }
    }

    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Returns the buffer that calls are appended to.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Appends bytes of the shared buffer without copying them.
    pub(crate) fn insert(&mut self, start: usize, end: usize) {
        self.inserts.push_back(Insert { at: self.out.len(), start, end });
    }

    /// Notes that the socket accepts bytes again.
    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Sends as much as the socket accepts.
    pub(crate) fn flush(&mut self, shared: &[u8]) -> io::Result<()> {
        while !self.blocked && (self.sent < self.out.len() || !self.inserts.is_empty()) {
            let result = if self.inserts.is_empty() {
                self.stream.write(&self.out[self.sent..])
            } else {
                self.write_pieces(shared)
            };
            match result {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(bytes) => self.advance(bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.blocked = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.out.len() && self.inserts.is_empty() {
            self.out.clear();
            self.out.shrink_to(KEPT_BYTES_MAX);
            self.sent = 0;
        }
        Ok(())
    }

    fn write_pieces(&mut self, shared: &[u8]) -> io::Result<usize> {
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let mut count = 0;
        let mut from = self.sent;
        for insert in self.inserts.iter().take(PIECES_MAX / 2 - 1) {
            pieces[count] = IoSlice::new(&self.out[from..insert.at]);
            pieces[count + 1] = IoSlice::new(&shared[insert.start..insert.end]);
            count += 2;
            from = insert.at;
        }
        // The bytes between the last insert that fits and the next one may go along.
        let to = self.inserts.get(PIECES_MAX / 2 - 1).map_or(self.out.len(), |insert| insert.at);
        pieces[count] = IoSlice::new(&self.out[from..to]);
        self.stream.write_vectored(&pieces[..=count])
    }

    /// Drops sent bytes from the queue.
    fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let before = self.inserts.front().map_or(self.out.len(), |insert| insert.at) - self.sent;
            let step = before.min(bytes);
            self.sent += step;
            bytes -= step;
            let Some(insert) = self.inserts.front_mut() else { return };
            if step == before {
                let step = (insert.end - insert.start).min(bytes);
                insert.start += step;
                bytes -= step;
                if insert.start < insert.end {
                    return;
                }
                self.inserts.pop_front();
            }
        }
    }

    /// Reads what has arrived.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Ok(Received::End),
                Ok(bytes) => return Ok(Received::Bytes(bytes)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::Nothing),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
