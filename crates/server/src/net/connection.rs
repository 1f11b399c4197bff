//! One connection: the record that is arriving, the replies that are leaving, and what is in between.

use std::io::{self, Read as _, Write as _};
use std::time::Instant;

use mio::net::TcpStream;
use nfs::service::Connection as Ends;
use wire::limits::RECORD_BYTES_MAX;
use wire::record::RecordReader;

use crate::limits::{CONNECTION_BYTES_MAX, CONNECTION_CALLS_MAX};
use crate::net::buffers::Buffers;
use crate::net::output::Output;

/// A connection that is being served.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) ends: Ends,
    /// Tells it from others that had its place.
    pub(crate) generation: u64,
    pub(crate) reader: RecordReader,
    /// A call that waits until there is room for its reply; nothing behind it is looked at.
    pub(crate) waiting: Option<Waiting>,
    /// Bytes that were received and not looked at, because a limit was reached; those before `rest_taken` have been.
    pub(crate) rest: Vec<u8>,
    pub(crate) rest_taken: usize,
    /// Replies that may leave.
    pub(crate) output: Output,
    /// Calls that have not been answered.
    pub(crate) calls: usize,
    /// Bytes of those that were not executed yet.
    pub(crate) call_bytes: usize,
    /// Bytes of replies to them: reserved, or of those that wait.
    pub(crate) reply_bytes: usize,
    /// The socket may have something to read.
    pub(crate) readable: bool,
    /// The peer has said that it will send no more; what it sent before may still have to be read.
    pub(crate) closing: bool,
    /// All that the peer sent was read.
    pub(crate) ended: bool,
    /// It is in the loop's list of those to be served.
    pub(crate) listed: bool,
    /// It is in the loop's list of those to be written to.
    pub(crate) touched: bool,
    /// Bytes received and replied in the portion that is being served, or was last.
    pub(crate) portion_bytes: usize,
    /// It moved so much when it was served last that it stands behind those which ask little.
    pub(crate) is_heavy: bool,
    /// Bytes that the loop counts for what it receives, and for its output.
    pub(crate) counted_input: usize,
    pub(crate) counted_output: usize,
    /// When a byte moved last.
    pub(crate) moved: Instant,
}

/// A call that waits for room.
pub(crate) struct Waiting {
    pub(crate) call: Vec<u8>,
    /// What is to be reserved.
    pub(crate) reply_bytes: usize,
}

/// What a read brought.
pub(crate) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The peer has closed, or the connection is broken.
    End,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, ends: Ends, generation: u64) -> Connection {
        Connection {
            stream,
            ends,
            generation,
            reader: RecordReader::new(RECORD_BYTES_MAX),
            waiting: None,
            rest: Vec::new(),
            rest_taken: 0,
            output: Output::default(),
            calls: 0,
            call_bytes: 0,
            reply_bytes: 0,
            readable: false,
            closing: false,
            ended: false,
            listed: false,
            touched: false,
            portion_bytes: 0,
            is_heavy: false,
            counted_input: 0,
            counted_output: 0,
            moved: Instant::now(),
        }
    }

    /// Whether it holds as much as one connection may.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.is_some()
            || self.calls >= CONNECTION_CALLS_MAX
            || self.call_bytes + self.reply_bytes + self.unsent() >= CONNECTION_BYTES_MAX
    }

    /// Whether it may begin one more large reply; when memory is `tight`, only if none of its replies is left. If it may
    /// not, one of its own replies has to leave before.
    pub(crate) fn may_begin(&self, reply_bytes: usize, tight: bool) -> bool {
        let owed = self.reply_bytes + self.unsent();
        owed == 0 || (!tight && owed + reply_bytes <= CONNECTION_BYTES_MAX)
    }

    /// Whether there is something to take in.
    pub(crate) fn has_input(&self) -> bool {
        !self.rest.is_empty() || (self.readable && !self.ended)
    }

    /// Whether nothing is left to do for a peer that sends no more.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.waiting.is_none() && self.rest.is_empty() && self.calls == 0 && self.unsent() == 0
    }

    /// Bytes that wait for the socket to take them.
    pub(crate) fn unsent(&self) -> usize {
        self.output.unsent()
    }

    /// Bytes of memory that it holds for what it receives, apart from its calls.
    pub(crate) fn input_bytes(&self) -> usize {
        let waiting = self.waiting.as_ref().map_or(0, |waiting| waiting.call.capacity());
        self.reader.capacity() + self.rest.capacity() + waiting
    }

    /// Whether it is the peer that makes memory wait: it has sent a part of a record, or does not take replies.
    pub(crate) fn waits_for_peer(&self) -> bool {
        let may_go_on = !self.has_input() && !self.is_full();
        self.unsent() > 0 || (may_go_on && !self.reader.is_between_records())
    }

    /// Reads once.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Received {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Received::End,
                Ok(count) => {
                    self.moved = Instant::now();
                    // Less than asked for was all there is, and more will be a new event. Only an end that was announced
                    // along with these bytes will not, and is read at once.
                    self.readable = count == buffer.len() || self.closing;
                    return Received::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Received::Nothing;
                }
                Err(_) => return Received::End,
            }
        }
    }

    /// Writes what it can of the output, in as few system calls as the socket allows; an error means that the
    /// connection is lost.
    pub(crate) fn send(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        while self.unsent() > 0 {
            match self.output.with_parts(|parts| self.stream.write_vectored(parts)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.output.advance(count);
                    self.moved = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.output.compact();
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.output.clear(buffers);
        Ok(())
    }
}
