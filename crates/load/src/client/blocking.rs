//! The client that prepares and cleans up: single or pipelined calls on one connection.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use wire::limits::RECORD_BYTES_MAX;
use wire::mount3::{self, DirPath, MntRes};
use wire::nfs3::{
    self, CreateArgs, CreateHow3, CreateRes, DirOpArgs3, Filename3, FsinfoArgs, FsinfoRes, FsstatArgs,
    FsstatRes, LookupArgs, LookupRes, MkdirArgs, MkdirRes, NfsStat3, Procedure, Sattr3,
};
use wire::portmap::{self, Mapping, PROTOCOL_TCP};
use wire::record::{Peek, RecordReader, peek, write_record};
use wire::rpc::{AcceptStat, RejectedReply, ReplyBody, ReplyHeader};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use super::{Handle, Server, encode_header, encoded_identity};
use crate::error::LoadError;

/// The time limit for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// Calls of [`BlockingClient::many`] in flight at a time.
const PIPELINE_MAX: usize = 256;

/// The server's transfer sizes (FSINFO), limited to what this client supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferSizes {
    /// Bytes of a READ.
    pub read_bytes: u32,
    /// Bytes of a WRITE.
    pub write_bytes: u32,
}

/// A blocking client.
#[derive(Debug)]
pub struct BlockingClient {
    stream: TcpStream,
    identity: Vec<u8>,
    next_xid: u32,
    received: Vec<u8>,
}

/// The encoded results of a call.
type Results = Vec<u8>;

impl BlockingClient {
    /// Connects to the server's NFS service.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn connect(server: &Server) -> Result<Self, LoadError> {
        Self::connect_port(server, server.address.port())
    }

    fn connect_port(server: &Server, port: u16) -> Result<Self, LoadError> {
        let stream = server.connect(port)?;
        let limits = stream
            .set_read_timeout(Some(REPLY_TIMEOUT))
            .and_then(|()| stream.set_write_timeout(Some(REPLY_TIMEOUT)));
        limits.map_err(|error| LoadError::new(error.to_string()))?;
        let next_xid = u32::try_from(crate::random::fresh_seed() >> 32).expect("32 bits");
        Ok(Self { stream, identity: encoded_identity(server.identity), next_xid, received: Vec::new() })
    }

    /// Asks MOUNT for the handle of the export.
    ///
    /// # Errors
    /// If the export does not exist, the server refuses, or its MOUNT service is not found.
    pub fn mount(server: &Server) -> Result<Handle, LoadError> {
        if let Some(port) = server.mount_port {
            return Self::mount_at(server, port)?.ok_or_else(|| {
                LoadError::new(format!(
                    "port {port} of {} does not serve MOUNT version 3",
                    server.address.ip()
                ))
            });
        }
        if let Some(handle) = Self::mount_at(server, server.address.port())? {
            return Ok(handle);
        }
        let port = Self::mount_port(server).map_err(|error| {
            LoadError::new(format!(
                "{} does not serve MOUNT at its NFS port, and rpcbind names no other port ({error}): use --mount-port"
            , server.address))
        })?;
        Self::mount_at(server, port)?
            .ok_or_else(|| LoadError::new("rpcbind names a port that does not serve MOUNT version 3"))
    }

    /// Mounts through one port. Returns none if that port does not serve MOUNT.
    fn mount_at(server: &Server, port: u16) -> Result<Option<Handle>, LoadError> {
        let mut client = Self::connect_port(server, port)?;
        let path = DirPath(server.export.as_bytes());
        let Ok(results) = client.call(mount3::PROGRAM, mount3::Procedure::Mnt.code(), &path)? else {
            return Ok(None);
        };
        match decode::<MntRes<'_>>("MNT", &results)? {
            Ok(mounted) => Ok(Some(Handle::of(mounted.fhandle))),
            Err(mount3::MountStat3::NoEnt) => {
                Err(LoadError::new(format!("{} has no export \"{}\"", server.address, server.export)))
            }
            Err(status) => Err(LoadError::new(format!(
                "{} refuses to mount \"{}\": {status}; some servers require --reserved-ports",
                server.address, server.export
            ))),
        }
    }

    /// Asks rpcbind for the port of MOUNT.
    fn mount_port(server: &Server) -> Result<u16, LoadError> {
        let mut client = Self::connect_port(server, portmap::PORT)?;
        let asked =
            Mapping { program: mount3::PROGRAM, version: mount3::VERSION, protocol: PROTOCOL_TCP, port: 0 };
        let mut call = Vec::new();
        let xid = client.xid();
        write_record(&mut call, |out| {
            for word in
                [xid, 0, 2, portmap::PROGRAM, portmap::VERSION_PORTMAP, portmap::Procedure::Get.code()]
            {
                out.u32(word);
            }
            out.raw(&[0; 16]);
            asked.encode(out);
        });
        client.send(&call)?;
        let results = client.receive(xid)?.map_err(|stat| LoadError::new(stat.to_string()))?;
        let port: u32 = decode("GETPORT", &results)?;
        u16::try_from(port)
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| LoadError::new("MOUNT is not registered"))
    }

    /// Asks for the transfer sizes.
    ///
    /// # Errors
    /// If FSINFO fails.
    pub fn sizes(&mut self, root: &Handle) -> Result<TransferSizes, LoadError> {
        let results = self.nfs(Procedure::Fsinfo, &FsinfoArgs { fsroot: root.wire() })?;
        let found = decode::<FsinfoRes>("FSINFO", &results)?
            .map_err(|failed| LoadError::status("FSINFO of the export", failed.status))?;
        let bytes_max = u32::try_from(wire::limits::DATA_BYTES_MAX).expect("a MiB");
        Ok(TransferSizes {
            read_bytes: found.rtmax.clamp(512, bytes_max) / 512 * 512,
            write_bytes: found.wtmax.clamp(512, bytes_max) / 512 * 512,
        })
    }

    /// Asks for the free space of the export (FSSTAT, RFC 1813 section 3.3.18).
    ///
    /// # Errors
    /// If FSSTAT fails.
    pub fn free_bytes(&mut self, root: &Handle) -> Result<u64, LoadError> {
        let results = self.nfs(Procedure::Fsstat, &FsstatArgs { fsroot: root.wire() })?;
        let space = decode::<FsstatRes>("FSSTAT", &results)?
            .map_err(|failed| LoadError::status("FSSTAT of the export", failed.status))?;
        Ok(space.abytes)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// If MKDIR fails.
    pub fn make_directory(&mut self, parent: &Handle, name: &str) -> Result<Handle, LoadError> {
        let made = self.make_many(Procedure::Mkdir, &[(*parent, name.to_owned())])?;
        made.first().copied().ok_or_else(|| LoadError::new("MKDIR gave no handle"))
    }

    /// Makes many directories (MKDIR) or empty files (CREATE) with pipelined calls. Returns their handles in order.
    ///
    /// # Errors
    /// If any call fails.
    pub(crate) fn make_many(
        &mut self,
        procedure: Procedure,
        wanted: &[(Handle, String)],
    ) -> Result<Vec<Handle>, LoadError> {
        let replies = self.many(procedure, wanted.len(), &mut |index, out| {
            let (parent, name) = &wanted[index];
            let place = DirOpArgs3 { dir: parent.wire(), name: Filename3(name.as_bytes()) };
            match procedure {
                Procedure::Mkdir => MkdirArgs { place, attributes: mode(0o755) }.encode(out),
                _ => CreateArgs { place, how: CreateHow3::Guarded(mode(0o644)) }.encode(out),
            }
        })?;
        let mut handles = Vec::with_capacity(wanted.len());
        for (results, (parent, name)) in replies.iter().zip(wanted) {
            let made = match procedure {
                Procedure::Mkdir => decode::<MkdirRes<'_>>("MKDIR", results)?,
                _ => decode::<CreateRes<'_>>("CREATE", results)?,
            };
            let doing = || format!("{} of {name} under {}", procedure.name(), "the export");
            match made.map_err(|failed| LoadError::status(&doing(), failed.status))?.obj {
                Some(handle) => handles.push(Handle::of(handle)),
                None => handles.push(self.lookup(parent, name)?),
            }
        }
        Ok(handles)
    }

    /// Looks up a name.
    ///
    /// # Errors
    /// If LOOKUP fails.
    pub fn lookup(&mut self, parent: &Handle, name: &str) -> Result<Handle, LoadError> {
        let what = DirOpArgs3 { dir: parent.wire(), name: Filename3(name.as_bytes()) };
        let results = self.nfs(Procedure::Lookup, &LookupArgs { what })?;
        let found = decode::<LookupRes<'_>>("LOOKUP", &results)?
            .map_err(|failed| LoadError::status(&format!("LOOKUP of {name}"), failed.status))?;
        Ok(Handle::of(found.object))
    }

    /// Calls an NFS procedure and returns its results.
    pub(crate) fn nfs(&mut self, procedure: Procedure, args: &impl Encode) -> Result<Results, LoadError> {
        self.call(nfs3::PROGRAM, procedure.code(), args)?.map_err(|stat| {
            LoadError::new(format!("the server did not execute {}: {stat}", procedure.name()))
        })
    }

    /// Makes many calls of one procedure with up to [`PIPELINE_MAX`] in flight. Returns their results in order.
    pub(crate) fn many(
        &mut self,
        procedure: Procedure,
        count: usize,
        args: &mut dyn FnMut(usize, &mut Encoder<'_>),
    ) -> Result<Vec<Results>, LoadError> {
        let first = self.next_xid;
        self.next_xid = self.next_xid.wrapping_add(u32::try_from(count).unwrap_or(u32::MAX));
        let xid_of = |index: usize| first.wrapping_add(u32::try_from(index).unwrap_or(u32::MAX));
        let mut results = vec![None; count];
        let (mut sent, mut answered) = (0, 0);
        let mut calls = Vec::new();
        while answered < count {
            // Refills half of the pipeline at a time, so that many calls share a system call.
            if sent < count && sent - answered <= PIPELINE_MAX / 2 {
                calls.clear();
                while sent < count && sent - answered < PIPELINE_MAX {
                    let identity = &self.identity;
                    write_record(&mut calls, |out| {
                        encode_header(out.buffer(), xid_of(sent), nfs3::PROGRAM, procedure.code(), identity);
                        args(sent, out);
                    });
                    sent += 1;
                }
                self.send(&calls)?;
            }
            let (xid, reply) = self.receive_any()?;
            let index = usize::try_from(xid.wrapping_sub(first)).unwrap_or(usize::MAX);
            let Some(place @ None) = results.get_mut(index) else {
                return Err(LoadError::new("the server replied to a call that was not made"));
            };
            let failed =
                |stat| LoadError::new(format!("the server did not execute {}: {stat}", procedure.name()));
            *place = Some(reply.map_err(failed)?);
            answered += 1;
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Makes a call. Returns its results, or why the server did not execute it.
    fn call(
        &mut self,
        program: u32,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<Result<Results, AcceptStat>, LoadError> {
        let xid = self.xid();
        let mut call = Vec::new();
        write_record(&mut call, |out| {
            encode_header(out.buffer(), xid, program, procedure, &self.identity);
            args.encode(out);
        });
        self.send(&call)?;
        self.receive(xid)
    }

    fn xid(&mut self) -> u32 {
        self.next_xid = self.next_xid.wrapping_add(1);
        self.next_xid.wrapping_sub(1)
    }

    fn send(&mut self, calls: &[u8]) -> Result<(), LoadError> {
        self.stream.write_all(calls).map_err(|error| lost(&error))
    }

    fn receive(&mut self, xid: u32) -> Result<Result<Results, AcceptStat>, LoadError> {
        let (got, results) = self.receive_any()?;
        if got == xid {
            Ok(results)
        } else {
            Err(LoadError::new("the server replied to a call that was not made"))
        }
    }

    /// Receives the next reply: its transaction ID and results.
    fn receive_any(&mut self) -> Result<(u32, Result<Results, AcceptStat>), LoadError> {
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

/// Returns attributes that set only the mode.
pub(crate) fn mode(mode: u32) -> Sattr3 {
    Sattr3 { mode: Some(mode), ..Sattr3::default() }
}

/// Decodes the results of a call.
pub(crate) fn decode<'a, T: Decode<'a>>(procedure: &str, results: &'a [u8]) -> Result<T, LoadError> {
    wire::xdr::decode_all(results)
        .map_err(|error| LoadError::new(format!("the reply to {procedure} cannot be decoded: {error}")))
}

/// Whether the name is gone after a removal.
pub(crate) fn is_gone(status: NfsStat3) -> bool {
    matches!(status, NfsStat3::Ok | NfsStat3::NoEnt)
}
