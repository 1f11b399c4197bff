//! One call to a client: a query to its rpcbind if the port is not known, then the call itself. Nothing blocks.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use nfs::link_local::{Shown, socket_address};
use nfs::service::{Callback, Destination};
use wire::portmap;
use wire::record::{MARK_BYTES, RecordReader};

use super::Links;
use super::kept::Kept;
use super::sources::{Sources, connect_from};
use crate::limits::OUTBOUND_ANSWER_BYTES_MAX;
use crate::net::rpcbind;

/// A call in flight.
pub(super) struct Exchange {
    pub(super) callback: Callback,
    pub(super) begun: Instant,
    /// When it fails, whatever has arrived by then.
    pub(super) deadline: Instant,
    token: Token,
    stream: TcpStream,
    address: SocketAddr,
    question: Question,
    /// Bytes of the question that were sent.
    sent: usize,
    reader: RecordReader,
}

/// What is asked on the current connection.
enum Question {
    /// The port of a program: the call to rpcbind.
    Port(Vec<u8>),
    /// The callback; `reused` if an earlier call used the connection, so that the client may have closed it meanwhile.
    Call { reused: bool },
}

impl Exchange {
    /// Begins a call at the first of two times, over a kept connection if there is one; it fails at the second one.
    ///
    /// # Errors
    /// No connection can be begun.
    pub(super) fn begin(
        callback: Callback,
        (begun, deadline): (Instant, Instant),
        (registry, token): (&Registry, Token),
        Links { kept, sources }: &mut Links,
    ) -> Result<Exchange, (Callback, io::Error)> {
        let opened = match callback.to {
            Destination::Address(address) => match kept.take(address) {
                Some(stream) => Ok((stream, address, Question::Call { reused: true })),
                None => open(sources, address, Question::Call { reused: false }),
            },
            Destination::Program { host, program, version } => open(
                sources,
                SocketAddr::new(host, portmap::PORT),
                Question::Port(rpcbind::port_query(host, program, version)),
            ),
            Destination::Connection(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        let registered = opened.and_then(|(mut stream, address, question)| {
            register(registry, &mut stream, token).map(|()| (stream, address, question))
        });
        match registered {
            Ok((stream, address, question)) => {
                let reader = RecordReader::new(OUTBOUND_ANSWER_BYTES_MAX);
                Ok(Exchange { callback, begun, deadline, token, stream, address, question, sent: 0, reader })
            }
            Err(error) => Err((callback, error)),
        }
    }

    /// Sends and receives what it can without waiting. Returns the answer to the callback when it has arrived.
    ///
    /// # Errors
    /// The client cannot be reached, or broke the protocol.
    pub(super) fn advance(&mut self, registry: &Registry, sources: &Sources) -> io::Result<Option<Vec<u8>>> {
        loop {
            match self.talk() {
                Ok(None) => return Ok(None),
                Ok(Some(answer)) => match self.port(&answer)? {
                    None => return Ok(Some(answer)),
                    Some(address) => self.connect(registry, sources, address)?,
                },
                // The client has most likely closed the kept connection. A call that did arrive is repeated, as a
                // retransmission would.
                Err(_) if matches!(self.question, Question::Call { reused: true }) => {
                    self.connect(registry, sources, self.address)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Keeps the connection for a later call to the same address. Returns the callback's number. Programs are looked up each time.
    pub(super) fn finish(mut self, registry: &Registry, kept: &mut Kept) -> u64 {
        let is_reusable =
            matches!(self.callback.to, Destination::Address(_)) && self.reader.is_between_records();
        if registry.deregister(&mut self.stream).is_ok() && is_reusable {
            kept.put(self.address, self.stream);
        }
        self.callback.id
    }

    /// Returns where the callback goes, if `answer` is that of rpcbind.
    fn port(&self, answer: &[u8]) -> io::Result<Option<SocketAddr>> {
        let Destination::Program { host, program, version } = self.callback.to else { return Ok(None) };
        if matches!(self.question, Question::Call { .. }) {
            return Ok(None);
        }
        let port = rpcbind::port_in(host, answer).map_err(io::Error::other)?;
        let port = port.ok_or_else(|| not_offered(host, program, version))?;
        Ok(Some(SocketAddr::new(host, port)))
    }

    /// Continues with the callback over a new connection.
    fn connect(&mut self, registry: &Registry, sources: &Sources, address: SocketAddr) -> io::Result<()> {
        let (mut stream, address, question) = open(sources, address, Question::Call { reused: false })?;
        register(registry, &mut stream, self.token)?;
        // Dropping the old stream closes it, which ends its events.
        (self.stream, self.address, self.question) = (stream, address, question);
        (self.sent, self.reader) = (0, RecordReader::new(OUTBOUND_ANSWER_BYTES_MAX));
        Ok(())
    }

    /// Sends the rest of the question, and returns the answer when it is complete. A record that answers anything else is an
    /// error, and its connection is not used again.
    fn talk(&mut self) -> io::Result<Option<Vec<u8>>> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        let question = match &self.question {
            Question::Port(query) => query,
            Question::Call { .. } => &self.callback.record,
        };
        while self.sent < question.len() {
            match self.stream.write(&question[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if is_early(&error) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let mut buffer = [0; OUTBOUND_ANSWER_BYTES_MAX];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    let answer = self.reader.next(&mut &buffer[..count]);
                    let answer = answer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    if let Some(answer) = answer {
                        let is_reply = answer.first_chunk() == xid_of(question);
                        return if is_reply { Ok(Some(answer.to_vec())) } else { Err(another_call()) };
                    }
                }
                Err(error) if is_early(&error) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns the xid of a call with its record mark.
fn xid_of(call: &[u8]) -> Option<&[u8; 4]> {
    call.get(MARK_BYTES..)?.first_chunk()
}

fn open(
    sources: &Sources,
    address: SocketAddr,
    question: Question,
) -> io::Result<(TcpStream, SocketAddr, Question)> {
    let stream = match sources.towards(address.ip()) {
        Some(source) => connect_from(source, socket_address(address))?,
        None => TcpStream::connect(socket_address(address))?,
    };
    stream.set_nodelay(true)?;
    Ok((stream, address, question))
}

fn register(registry: &Registry, stream: &mut TcpStream, token: Token) -> io::Result<()> {
    registry.register(stream, token, Interest::READABLE | Interest::WRITABLE)
}

/// Whether the socket is not connected yet, or can take or give no more for now.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

fn another_call() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the client answered another call")
}

fn not_offered(host: IpAddr, program: u32, version: u32) -> io::Error {
    let host = Shown(host);
    let text = format!("{host} does not offer program {program}, version {version}, over TCP");
    io::Error::new(io::ErrorKind::NotFound, text)
}
