//! A connection for single or pipelined calls, with blocking I/O.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use wire::limits::RECORD_BYTES_MAX;
use wire::record::{Peek, RecordReader, peek, write_record};
use wire::rpc::{AcceptStat, RejectedReply, ReplyBody, ReplyHeader};
use wire::xdr::{Decode as _, Decoder, Encoder};

use super::{Server, encode_header, encoded_identity};
use crate::error::LoadError;

/// The time limit for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// The program, version and procedure of a call.
pub(crate) type ProcedureId = (u32, u32, u32);

/// The encoded results of a call, or why the server did not execute it.
pub(crate) type Received = Result<Vec<u8>, AcceptStat>;

/// A blocking connection.
#[derive(Debug)]
pub(crate) struct Transport {
    stream: TcpStream,
    pub(super) identity: Vec<u8>,
    next_xid: u32,
    received: Vec<u8>,
}

impl Transport {
    /// Connects to a port of the server.
    pub(crate) fn connect(server: &Server, port: u16) -> Result<Self, LoadError> {
        let stream = server.connect(port)?;
        let next_xid = u32::try_from(crate::random::fresh_seed() >> 32).expect("32 bits");
        let this =
            Self { stream, identity: encoded_identity(server.identity), next_xid, received: Vec::new() };
        this.limit(REPLY_TIMEOUT)?;
        Ok(this)
    }

    /// Sets the time limit for a reply.
    pub(crate) fn limit(&self, timeout: Duration) -> Result<(), LoadError> {
        let limits = self.stream.set_read_timeout(Some(timeout));
        limits
            .and_then(|()| self.stream.set_write_timeout(Some(timeout)))
            .map_err(|error| LoadError::new(error.to_string()))
    }

    /// Returns the connection. No call is in flight.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Makes a call. Returns its results, or why the server did not execute it.
    pub(crate) fn call(
        &mut self,
        procedure: ProcedureId,
        args: &dyn Fn(&mut Encoder<'_>),
    ) -> Result<Received, LoadError> {
        let xid = self.xid();
        let mut call = Vec::new();
        write_record(&mut call, |out| {
            encode_header(out.buffer(), xid, procedure, &self.identity);
            args(out);
        });
        self.send(&call)?;
        self.receive(xid)
    }

    /// Returns the next transaction ID.
    pub(crate) fn xid(&mut self) -> u32 {
        self.next_xid = self.next_xid.wrapping_add(1);
        self.next_xid.wrapping_sub(1)
    }

    pub(crate) fn send(&mut self, calls: &[u8]) -> Result<(), LoadError> {
        self.stream.write_all(calls).map_err(|error| lost(&error))
    }

    pub(crate) fn receive(&mut self, xid: u32) -> Result<Received, LoadError> {
        let (got, results) = self.receive_any()?;
        if got == xid {
            Ok(results)
        } else {
            Err(LoadError::new("the server replied to a call that was not made"))
        }
    }

    /// Receives the next reply: its transaction ID and results.
    pub(crate) fn receive_any(&mut self) -> Result<(u32, Received), LoadError> {
        let record = self.record()?;
        let mut input = Decoder::new(&record);
        let header = ReplyHeader::decode(&mut input)
            .map_err(|error| LoadError::new(format!("the server's reply cannot be decoded: {error}")))?;
        match header.body {
            ReplyBody::Accepted { stat: AcceptStat::Success, .. } => {
                Ok((header.xid, Ok(input.rest().to_vec())))
            }
            ReplyBody::Accepted { stat, .. } => Ok((header.xid, Err(stat))),
            ReplyBody::Denied(RejectedReply::AuthError(stat)) => Err(LoadError::new(format!(
                "the server rejected the credential (AUTH_SYS): {stat}; some servers require --reserved-ports"
            ))),
            ReplyBody::Denied(denied) => {
                Err(LoadError::new(format!("the server rejected the call: {denied}")))
            }
        }
    }

    /// Receives the next record.
    fn record(&mut self) -> Result<Vec<u8>, LoadError> {
        let failed =
            |error: wire::record::RecordError| LoadError::new(format!("the server's reply: {error}"));
        loop {
            match peek(&self.received, RECORD_BYTES_MAX).map_err(failed)? {
                Peek::Complete { record, used } => {
                    let record = record.to_vec();
                    self.received.drain(..used);
                    return Ok(record);
                }
                Peek::Incomplete { .. } => self.fill()?,
                Peek::Fragmented => {
                    let mut reader = RecordReader::new(RECORD_BYTES_MAX);
                    loop {
                        let mut rest = &self.received[..];
                        if let Some(record) = reader.next(&mut rest).map_err(failed)? {
                            let record = record.to_vec();
                            self.received = rest.to_vec();
                            return Ok(record);
                        }
                        self.received.clear();
                        self.fill()?;
                    }
                }
            }
        }
    }

    fn fill(&mut self) -> Result<(), LoadError> {
        let mut buffer = [0; 64 << 10];
        let bytes = loop {
            match self.stream.read(&mut buffer) {
                // A signal such as Ctrl-C: the observer is asked between calls.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| lost(&error))?,
            }
        };
        if bytes == 0 {
            return Err(LoadError::new("the server closed the connection"));
        }
        self.received.extend_from_slice(&buffer[..bytes]);
        Ok(())
    }
}

fn lost(error: &std::io::Error) -> LoadError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            LoadError::new(format!("the server did not answer within {} s", REPLY_TIMEOUT.as_secs()))
        }
        _ => LoadError::new(format!("the connection broke: {error}")),
    }
}
