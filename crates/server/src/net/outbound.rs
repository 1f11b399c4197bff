//! Connections that the server opens to clients, for calls that cannot use a connection of the client: callbacks of
//! NFSv4.0, granted locks of NLM, notices of NSM. They are few and small, so a handful of threads with blocking sockets
//! suffice.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nfs::service::{Callback, Destination};
use parking_lot::{Condvar, Mutex};
use wire::record::RecordReader;

use crate::background::driver::join;
use crate::limits::{OUTBOUND_ANSWER_BYTES_MAX, OUTBOUND_KEPT_MAX, OUTBOUND_QUEUED_MAX, OUTBOUND_THREADS};
use crate::net::rpcbind;

/// How long a client may take to accept a connection, and to answer a call.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection is kept for the next call.
const KEPT: Duration = Duration::from_secs(60);

/// Calls that no thread has taken yet.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    callbacks: VecDeque<Callback>,
    closed: bool,
}

impl Queue {
    /// Queues a call; returns it if the queue is full.
    pub(crate) fn push(&self, callback: Callback) -> Result<(), Callback> {
        let mut state = self.state.lock();
        if state.closed || state.callbacks.len() >= OUTBOUND_QUEUED_MAX {
            return Err(callback);
        }
        state.callbacks.push_back(callback);
        self.changed.notify_one();
        Ok(())
    }

    fn next(&self) -> Option<Callback> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(callback) = state.callbacks.pop_front() {
                return Some(callback);
            }
            self.changed.wait(&mut state);
        }
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

/// The threads and their queue.
pub(crate) struct Outbound {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

/// What is called when a callback was answered, or could not be sent.
type Ended = dyn Fn(u64, io::Result<Vec<u8>>) + Send + Sync;

impl Outbound {
    /// Starts the threads. Each result is passed to `ended`, with the number of the callback.
    pub(crate) fn start(ended: Arc<Ended>) -> io::Result<Outbound> {
        let (queue, kept) = (Arc::new(Queue::default()), Arc::new(Kept::default()));
        let mut threads = Vec::new();
        for number in 0..OUTBOUND_THREADS {
            let (queue, kept, ended) = (Arc::clone(&queue), Arc::clone(&kept), Arc::clone(&ended));
            let thread = thread::Builder::new().name(format!("outbound {number}"));
            threads.push(thread.spawn(move || {
                while let Some(callback) = queue.next() {
                    let reply = exchange(&kept, &callback);
                    if let Err(error) = &reply {
                        tracing::debug!(to = ?callback.to, %error, "callback failed");
                    }
                    ended(callback.id, reply);
                }
            })?);
        }
        Ok(Outbound { queue, threads })
    }

    /// Returns the queue of calls to be sent.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// Ends each thread after its current call.
    pub(crate) fn stop(self) {
        self.queue.close();
        for thread in self.threads {
            join(thread);
        }
    }
}

/// Connections that may be used again, each by one thread at a time.
#[derive(Default)]
struct Kept {
    streams: Mutex<HashMap<SocketAddr, (TcpStream, Instant)>>,
}

impl Kept {
    fn take(&self, address: SocketAddr) -> Option<TcpStream> {
        let mut streams = self.streams.lock();
        streams.retain(|_, (_, since)| since.elapsed() < KEPT);
        streams.remove(&address).map(|(stream, _)| stream)
    }

    fn put(&self, address: SocketAddr, stream: TcpStream) {
        let mut streams = self.streams.lock();
        if streams.len() < OUTBOUND_KEPT_MAX {
            streams.insert(address, (stream, Instant::now()));
        }
    }
}

/// Sends a call and waits for its answer.
fn exchange(kept: &Kept, callback: &Callback) -> io::Result<Vec<u8>> {
    let address = match callback.to {
        Destination::Address(address) => address,
        Destination::Program { host, program, version } => address_of(host, program, version)?,
        Destination::Connection(_) => return Err(io::ErrorKind::Unsupported.into()),
    };
    if let Some(mut stream) = kept.take(address) {
        // The client may have closed it. Then the call did not arrive, and is sent by a new connection.
        if let Ok(answer) = call(&mut stream, &callback.record) {
            kept.put(address, stream);
            return Ok(answer);
        }
    }
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let answer = call(&mut stream, &callback.record)?;
    kept.put(address, stream);
    Ok(answer)
}

/// Asks the rpcbind of a client where a program listens.
fn address_of(host: IpAddr, program: u32, version: u32) -> io::Result<SocketAddr> {
    let port = rpcbind::port_of(host, program, version).map_err(io::Error::other)?;
    port.map(|port| SocketAddr::new(host, port)).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{host} does not offer program {program} over TCP"))
    })
}

fn call(stream: &mut TcpStream, record: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(record)?;
    let mut reader = RecordReader::new(OUTBOUND_ANSWER_BYTES_MAX);
    let mut buffer = [0; OUTBOUND_ANSWER_BYTES_MAX];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let answer = reader.next(&mut &buffer[..count]);
        if let Some(answer) = answer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
            return Ok(answer.to_vec());
        }
    }
}

#[cfg(test)]
mod tests;
