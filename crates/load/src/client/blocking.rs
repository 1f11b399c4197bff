//! The client that prepares and cleans up: single or pipelined calls on one connection.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use wire::record::write_record;
use wire::xdr::Encoder;

use super::cause::Cause;
use super::nfs4::{self, Caller, Login, Session};
use super::reply::{Plain, Reply};
use super::request::{File, IfExists, Place, Request};
use super::transport::Transport;
use super::{DELAY, DELAYS_MAX, Handle, Server, encode_request, is_delayed, mount, nfs3};
use crate::error::LoadError;
use crate::random::fresh_seed;

/// Calls of [`BlockingClient::many`] in flight at a time.
const PIPELINE_MAX: usize = 256;

/// The time limit for a reply when the client takes its leave.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(5);

/// Calls that keep a lease in its duration.
const RENEWALS_PER_LEASE: u32 = 3;

/// The open owner of files that are opened in advance.
const OWNER: &[u8] = b"holdfast bench";

/// The server's transfer sizes, limited to what this client supports.
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
    server: Server,
    transport: Transport,
    /// The state of a client of NFSv4.
    login: Option<Login>,
}

impl BlockingClient {
    /// Finds the export and connects to the server's NFS service. Returns the client with the handle of the export.
    ///
    /// # Errors
    /// If the server cannot be reached, refuses, or has no such export.
    pub fn open(server: &Server) -> Result<(Self, Handle), LoadError> {
        if server.protocol.minor().is_none() {
            let root = mount::mount(server)?;
            return Ok((Self::connect(server, None)?, root));
        }
        let mut client = Self::connect(server, None)?;
        let root = client.walk()?;
        Ok((client, root))
    }

    /// Connects to the server's NFS service. A client of NFSv4 calls itself `name`, or else has a new name.
    fn connect(server: &Server, name: Option<&str>) -> Result<Self, LoadError> {
        let mut transport = Transport::connect(server, server.address.port())?;
        let login = match server.protocol.minor() {
            None => None,
            Some(minor) => {
                let name =
                    name.map_or_else(|| format!("holdfast bench {:016x}", fresh_seed()), str::to_owned);
                Some(Login::new(&mut transport, minor, name)?)
            }
        };
        Ok(Self { server: server.clone(), transport, login })
    }

    /// Connects again, as the same client after a restart: an NFSv4 server drops the state that a measurement left.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses.
    pub(crate) fn restart(self) -> Result<Self, LoadError> {
        let server = self.server.clone();
        let name = self.login.as_ref().map(|login| login.name().to_owned());
        drop(self);
        Self::connect(&server, name.as_deref())
    }

    /// Walks from the root of an NFSv4 server to the export.
    fn walk(&mut self) -> Result<Handle, LoadError> {
        let Some(login) = &mut self.login else { return Err(LoadError::new("NFSv3 has no root")) };
        let mut at = login.root(&mut self.transport)?;
        let export = self.server.export.clone();
        for name in export.split('/').filter(|name| !name.is_empty()) {
            let place = Place { directory: &at, name: name.as_bytes() };
            at = match self.ask(&Request::Lookup(place), |reply| reply.found())? {
                Ok(found) => found.handle,
                Err(cause) if cause.status().is_some_and(|status| status.is_missing()) => {
                    let address = self.server.address;
                    return Err(LoadError::new(format!("{address} has no export \"{export}\"")));
                }
                Err(cause) => return Err(failed(&format!("the way to \"{export}\""), &cause)),
            };
        }
        Ok(at)
    }

    /// Makes sessions with this many slots each, if the server grants them. Clients of NFSv3 need none.
    pub(crate) fn sessions(&mut self, count: u32, slots: u32) -> Result<Vec<Session>, LoadError> {
        match &mut self.login {
            None => Ok(Vec::new()),
            Some(login) => login.create_sessions(&mut self.transport, count, slots),
        }
    }

    /// Keeps the lease while `work` runs.
    pub(crate) fn keep_lease<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let Some(login) = &mut self.login else { return work() };
        let transport = &mut self.transport;
        let interval = login.lease / RENEWALS_PER_LEASE;
        scope(|scope| {
            let (working, done) = channel::<()>();
            scope.spawn(move || {
                while done.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    // If this connection broke, the load says so.
                    if login.renew(transport).is_err() {
                        return;
                    }
                }
            });
            let result = work();
            drop(working);
            result
        })
    }

    /// Asks for the transfer sizes.
    ///
    /// # Errors
    /// If the call fails.
    pub fn sizes(&mut self, root: &Handle) -> Result<TransferSizes, LoadError> {
        let asked = self.ask(&Request::Sizes(root), |reply| reply.sizes())?;
        let sizes = asked.map_err(|cause| failed("the transfer sizes of the export", &cause))?;
        let bytes_max = u32::try_from(wire::limits::DATA_BYTES_MAX).expect("a MiB");
        let (read_max, write_max) = match &self.login {
            None => (bytes_max, bytes_max),
            Some(login) => (bytes_max.min(login.read_bytes), bytes_max.min(login.write_bytes)),
        };
        let bounded = |bytes: u64, max: u32| {
            u32::try_from(bytes).unwrap_or(u32::MAX).clamp(512, max.max(512)) / 512 * 512
        };
        Ok(TransferSizes {
            read_bytes: bounded(sizes.read_bytes, read_max),
            write_bytes: bounded(sizes.write_bytes, write_max),
        })
    }

    /// Asks for the free space of the export.
    ///
    /// # Errors
    /// If the call fails.
    pub fn free_bytes(&mut self, root: &Handle) -> Result<u64, LoadError> {
        let asked = self.ask(&Request::Space(root), |reply| reply.space())?;
        asked.map_err(|cause| failed("the free space of the export", &cause))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// If MKDIR fails.
    pub fn make_directory(&mut self, parent: &Handle, name: &str) -> Result<Handle, LoadError> {
        let made = self.make_directories(&[(*parent, name.to_owned())])?;
        made.first().copied().ok_or_else(|| LoadError::new("MKDIR gave no handle"))
    }

    /// Makes many directories with pipelined calls. Returns their handles in order.
    ///
    /// # Errors
    /// If any call fails.
    pub(crate) fn make_directories(&mut self, wanted: &[(Handle, String)]) -> Result<Vec<Handle>, LoadError> {
        let replies = self.many(wanted.len(), &|index| Request::Mkdir(place(&wanted[index])))?;
        let mut handles = Vec::with_capacity(wanted.len());
        for (results, (parent, name)) in replies.iter().zip(wanted) {
            let made = self.reply(results)?.made();
            match made.map_err(|cause| failed(&format!("{name} under the export"), &cause))? {
                Some(handle) => handles.push(handle),
                None => handles.push(self.lookup(parent, name)?),
            }
        }
        Ok(handles)
    }

    /// Makes many empty files with pipelined calls. Returns them in order, open if the protocol opens files.
    ///
    /// # Errors
    /// If any call fails.
    pub(crate) fn make_files(&mut self, wanted: &[(Handle, String)]) -> Result<Vec<File>, LoadError> {
        let create = |index: usize| Request::Create(place(&wanted[index]), IfExists::Fail);
        let replies = self.many(wanted.len(), &create)?;
        let mut files = Vec::with_capacity(wanted.len());
        for (results, (parent, name)) in replies.iter().zip(wanted) {
            let created = self.reply(results)?.created();
            match created.map_err(|cause| failed(&format!("{name} under the export"), &cause))?.file {
                Some(file) => files.push(file),
                None => files.push(File::unopened(self.lookup(parent, name)?)),
            }
        }
        Ok(files)
    }

    /// Makes many empty files, and leaves none of them open.
    ///
    /// # Errors
    /// If any call fails.
    pub(crate) fn make_closed_files(&mut self, wanted: &[(Handle, String)]) -> Result<(), LoadError> {
        let files = self.make_files(wanted)?;
        if !self.server.protocol.has_opens() {
            return Ok(());
        }
        for results in self.many(files.len(), &|index| Request::Close(&files[index]))? {
            self.reply(&results)?.plain(Plain::Close).map_err(|cause| failed("a new file", &cause))?;
        }
        Ok(())
    }

    /// Looks up a name.
    ///
    /// # Errors
    /// If LOOKUP fails.
    pub fn lookup(&mut self, parent: &Handle, name: &str) -> Result<Handle, LoadError> {
        let place = Place { directory: parent, name: name.as_bytes() };
        let found = self.ask(&Request::Lookup(place), |reply| reply.found())?;
        found.map(|found| found.handle).map_err(|cause| failed(name, &cause))
    }

    /// Makes a call and decodes its results.
    pub(crate) fn ask<T>(
        &mut self,
        request: &Request<'_>,
        decode: impl FnOnce(Reply<'_>) -> Result<T, Cause>,
    ) -> Result<Result<T, Cause>, LoadError> {
        let results = self.many(1, &|_| *request)?;
        let first = results.first().ok_or_else(|| LoadError::new("there is no reply"))?;
        Ok(decode(self.reply(first)?))
    }

    /// Returns the reply in the results of a call.
    pub(crate) fn reply<'r>(&self, results: &'r [u8]) -> Result<Reply<'r>, LoadError> {
        if self.login.is_none() {
            return Ok(Reply::V3(nfs3::Reply { results, cut: 0 }));
        }
        // The SEQUENCE was checked when the reply arrived.
        let after_sequence = nfs4::Results::after_sequence(results);
        after_sequence.map(Reply::V4).map_err(|cause| LoadError::new(cause.to_string()))
    }

    /// Makes many calls with up to [`PIPELINE_MAX`] in flight. Returns their results in order. Calls that the server asks to
    /// make again later are made again.
    pub(crate) fn many<'a>(
        &mut self,
        count: usize,
        request: &dyn Fn(usize) -> Request<'a>,
    ) -> Result<Vec<Vec<u8>>, LoadError> {
        let mut results = vec![None; count];
        let mut queue: VecDeque<usize> = (0..count).collect();
        let mut in_flight = HashMap::new();
        let (mut answered, mut must_wait, mut answered_at) = (0, false, Instant::now());
        while answered < count {
            // Refills half of the pipeline at a time, so that many calls share a system call.
            if !queue.is_empty() && in_flight.len() <= self.pipeline() / 2 {
                if std::mem::take(&mut must_wait) {
                    sleep(DELAY);
                }
                self.send_some(&mut queue, &mut in_flight, request)?;
            }
            let (xid, reply) = self.transport.receive_any()?;
            let Some((index, slot)) = in_flight.remove(&xid) else {
                return Err(LoadError::new("the server replied to a call that was not made"));
            };
            let name = nfs3::procedure(&request(index)).name();
            let reply =
                reply.map_err(|stat| LoadError::new(format!("the server did not execute {name}: {stat}")))?;
            if self.is_delayed(slot, &reply)? {
                must_wait = true;
                queue.push_back(index);
                if answered_at.elapsed() > DELAY * DELAYS_MAX {
                    let seconds = answered_at.elapsed().as_secs();
                    return Err(LoadError::new(format!("{name}: the server has put it off for {seconds} s")));
                }
            } else {
                results[index] = Some(reply);
                answered += 1;
                answered_at = Instant::now();
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Returns how many calls may be in flight.
    fn pipeline(&self) -> usize {
        self.login.as_ref().map_or(PIPELINE_MAX, |login| PIPELINE_MAX.min(login.session.slots() as usize))
    }

    /// Whether the server asks for the call to be made again later. Frees the slot of the call.
    fn is_delayed(&mut self, slot: u32, results: &[u8]) -> Result<bool, LoadError> {
        match &mut self.login {
            None => Ok(is_delayed(results)),
            Some(login) => {
                let answer = login.session.replied(slot, results, 0)?;
                Ok(matches!(answer, nfs4::Answer::Delayed(_)))
            }
        }
    }

    /// Sends queued calls until the pipeline is full.
    fn send_some<'a>(
        &mut self,
        queue: &mut VecDeque<usize>,
        in_flight: &mut HashMap<u32, (usize, u32)>,
        request: &dyn Fn(usize) -> Request<'a>,
    ) -> Result<(), LoadError> {
        let pipeline = self.pipeline();
        let mut calls = Vec::new();
        while in_flight.len() < pipeline {
            let Some(index) = queue.pop_front() else { break };
            let slot = match &mut self.login {
                None => 0,
                Some(login) => match login.session.take() {
                    Some(slot) => slot,
                    None => {
                        queue.push_front(index);
                        break;
                    }
                },
            };
            let xid = self.transport.xid();
            let caller = self.login.as_ref().map(|login| Caller {
                minor: login.minor,
                sequence: login.session.sequence(slot),
                owner: OWNER,
            });
            let identity = &self.transport.identity;
            write_record(&mut calls, |out: &mut Encoder<'_>| {
                encode_request(out.buffer(), xid, identity, caller.as_ref(), &request(index));
            });
            in_flight.insert(xid, (index, slot));
        }
        self.transport.send(&calls)
    }
}

impl Drop for BlockingClient {
    fn drop(&mut self) {
        if let Some(mut login) = self.login.take()
            && self.transport.limit(FAREWELL_TIMEOUT).is_ok()
        {
            // Best effort: what is left ends with the lease.
            let _ = login.log_out(&mut self.transport);
        }
    }
}

fn place(wanted: &(Handle, String)) -> Place<'_> {
    Place { directory: &wanted.0, name: wanted.1.as_bytes() }
}

/// Returns the error for a call of the preparation.
fn failed(what: &str, cause: &Cause) -> LoadError {
    LoadError::new(format!("{what}: {}", cause.explained()))
}
