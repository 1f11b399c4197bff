//! The agent: waits for a coordinator that knows the token, and measures what its operator has allowed.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::deadline::{Deadline, Timeouts};
use super::line::{self, Direction, Streams};
use super::protocol::{
    GREETING_BYTES_MAX, REQUEST_BYTES_MAX, Request, Response, Task, VERSION, printable, receive, send,
};
use super::token::Token;
use crate::client::{Identity, Server};
use crate::error::LoadError;
use crate::result::{Host, Measurement};
use crate::run::{Observer, Progress, RoundCount, measure};

/// Connections at a time: one coordinator, connections in their greeting or being refused, and streams that
/// measure TCP, a few per client host and direction.
const CONNECTIONS_MAX: usize = 128;
/// How often an agent looks for new connections and for the signal to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The least time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Requests that wait to be executed.
const REQUESTS_QUEUED_MAX: usize = 16;

/// What an agent may connect to, as its operator gave it.
#[derive(Clone, Debug)]
pub struct Allowed {
    servers: Vec<Server>,
    line_rate_peer: Option<SocketAddr>,
}

impl Allowed {
    /// Allows these servers, with their MOUNT ports and their use of reserved ports (the coordinator chooses the user and
    /// group), and TCP measurements with one other agent.
    #[must_use]
    pub fn new(servers: Vec<Server>, line_rate_peer: Option<SocketAddr>) -> Self {
        Self { servers, line_rate_peer }
    }

    /// Returns the server with this address and export, if it is allowed.
    fn find(&self, task: &Task) -> Result<Server, LoadError> {
        let found = self
            .servers
            .iter()
            .find(|server| server.address.to_string() == task.address && server.export == task.export);
        let identity = Identity { uid: task.uid, gid: task.gid };
        let protocol = task.protocol;
        found.map(|server| Server { identity, protocol, ..server.clone() }).ok_or_else(|| {
            LoadError::new(format!("{}:{} is not allowed here (--allow)", task.address, task.export))
        })
    }

    fn check_peer(&self, peer: SocketAddr) -> Result<(), LoadError> {
        if self.line_rate_peer == Some(peer) {
            return Ok(());
        }
        Err(LoadError::new(format!("{peer} is not allowed here (--line-rate-peer)")))
    }
}

/// An agent that listens.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    token: Token,
    allowed: Allowed,
    connections: AtomicUsize,
    /// Held by the connection of the coordinator that is being served.
    busy: Mutex<()>,
    pub(super) timeouts: Timeouts,
}

impl Agent {
    /// Listens on an address.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(address: SocketAddr, token: Token, allowed: Allowed) -> Result<Self, LoadError> {
        let failed = |error: std::io::Error| LoadError::new(format!("cannot listen on {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (connections, busy) = (AtomicUsize::new(0), Mutex::new(()));
        Ok(Self { listener, token, allowed, connections, busy, timeouts: Timeouts::DEFAULT })
    }

    /// Returns the address it listens on.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn address(&self) -> Result<SocketAddr, LoadError> {
        self.listener.local_addr().map_err(|error| LoadError::new(error.to_string()))
    }

    /// Serves coordinators, one at a time, until `should_stop`. Each line for the operator goes to `log`.
    pub fn serve(&self, should_stop: &(dyn Fn() -> bool + Sync), log: &(dyn Fn(&str) + Sync)) {
        std::thread::scope(|scope| {
            while !should_stop() {
                let Ok((stream, peer)) = self.listener.accept() else {
                    std::thread::sleep(POLL_INTERVAL);
                    continue;
                };
                if self.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                scope.spawn(move || {
                    // Lines quote what peers sent.
                    let log = |line: &str| log(&printable(&format!("{peer}: {line}")));
                    match self.session(&stream, should_stop, &log) {
                        Ok(()) => log("ended"),
                        Err(error) => log(&error.to_string()),
                    }
                    // The peer may have closed it already.
                    let _ = stream.shutdown(Shutdown::Both);
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
    }

    /// Serves one connection from its greeting to its end.
    fn session(
        &self,
        stream: &TcpStream,
        should_stop: &(dyn Fn() -> bool + Sync),
        log: &dyn Fn(&str),
    ) -> Result<(), LoadError> {
        let purpose = self.authenticate(stream)?;
        let writer = Writer { stream: Mutex::new(stream), timeouts: self.timeouts };
        let welcome = Response::Welcome { version: VERSION, host: Host::this() };
        match purpose {
            Purpose::Stream(direction, duration) => {
                writer.respond(&welcome)?;
                log(&format!("a stream: {direction:?}, {} s", duration.as_secs_f64()));
                line::serve(stream, direction, duration, &self.timeouts, should_stop)
            }
            Purpose::Coordinator => {
                let Ok(_busy) = self.busy.try_lock() else {
                    let why = "the agent is busy with another coordinator".to_owned();
                    writer.respond(&Response::Refused { why: why.clone() })?;
                    return Err(LoadError::new(why));
                };
                writer.respond(&welcome)?;
                log("coordinates");
                self.coordinate(&writer, stream, should_stop, log)
            }
        }
    }

    /// Executes a coordinator's requests until it leaves.
    fn coordinate(
        &self,
        writer: &Writer<'_>,
        stream: &TcpStream,
        should_stop: &(dyn Fn() -> bool + Sync),
        log: &dyn Fn(&str),
    ) -> Result<(), LoadError> {
        let (sender, requests) = sync_channel(REQUESTS_QUEUED_MAX);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read_requests(stream, writer, sender));
            while let Ok(request) = requests.recv() {
                let mut observer = RemoteObserver::new(writer, &requests, should_stop);
                let result = match request {
                    Request::Run(task) => {
                        log(&format!("{}, threads: {}", task.workload.name(), task.threads));
                        self.run(&task, &mut observer).map(|measurement| Response::Done { measurement })
                    }
                    Request::LineRate { peer, direction, length_ms } => {
                        log(&format!("TCP with {peer}: {direction:?}"));
                        let rate = self.line_rate(peer, direction, length_ms, &mut observer);
                        rate.map(|bytes_per_s| Response::LineRate { bytes_per_s })
                    }
                    // Sent before the coordinator heard that the measurement had ended.
                    _ => continue,
                };
                let response = result.unwrap_or_else(|error| Response::Refused { why: error.to_string() });
                if writer.respond(&response).is_err() || should_stop() {
                    break;
                }
            }
            drop(requests);
            let _ = stream.shutdown(Shutdown::Both);
            reader.join().unwrap_or_else(|_| Err(LoadError::new("the reader of requests has ended")))
        })
    }

    /// Checks the greeting of a connection and returns what the connection is for.
    fn authenticate(&self, stream: &TcpStream) -> Result<Purpose, LoadError> {
        let prepared = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
        prepared.map_err(|error| LoadError::new(error.to_string()))?;
        let mut greeting = Deadline::new(stream, self.timeouts.greeting);
        let request = receive(&mut greeting, GREETING_BYTES_MAX)?;
        let mut refuse = |why: String| {
            // Best effort: the peer may have gone.
            let _ = send(&mut greeting, &Response::Refused { why: why.clone() });
            LoadError::new(why)
        };
        let (version, token, purpose) = match request {
            Request::Hello { version, token } => (version, token, Purpose::Coordinator),
            Request::Stream { version, token, direction, length_ms } => {
                (version, token, Purpose::Stream(direction, Duration::from_millis(length_ms)))
            }
            _ => return Err(refuse("the first message must be a greeting".to_owned())),
        };
        match purpose {
            _ if !self.token.matches(&token) => Err(refuse("the token is wrong".to_owned())),
            _ if version != VERSION => {
                Err(refuse(format!("the agent speaks version {VERSION} of the protocol, not {version}")))
            }
            Purpose::Stream(_, duration) if duration > line::DURATION_MAX => {
                Err(refuse(format!("a stream takes at most {} s", line::DURATION_MAX.as_secs())))
            }
            purpose => Ok(purpose),
        }
    }

    fn run(&self, task: &Task, observer: &mut RemoteObserver<'_, '_>) -> Result<Box<Measurement>, LoadError> {
        let server = self.allowed.find(task)?;
        let options = task.options()?;
        measure(&server, &task.workload, &options, observer).map(Box::new)
    }

    /// Measures TCP to or from another agent, at the same time as other hosts.
    fn line_rate(
        &self,
        peer: SocketAddr,
        direction: Direction,
        length_ms: u64,
        observer: &mut RemoteObserver<'_, '_>,
    ) -> Result<f64, LoadError> {
        self.allowed.check_peer(peer)?;
        let duration = Duration::from_millis(length_ms);
        let streams = Streams::connect(peer, &self.token, direction, duration)?;
        observer.before_stage("TCP line rate")?;
        streams.run()
    }
}

/// What a connection that was let in is for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    Coordinator,
    /// TCP is measured, for this long.
    Stream(Direction, Duration),
}

/// Sends responses from several threads.
struct Writer<'s> {
    stream: Mutex<&'s TcpStream>,
    timeouts: Timeouts,
}

impl Writer<'_> {
    fn respond(&self, response: &Response) -> Result<(), LoadError> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Deadline::new(*stream, self.timeouts.silence);
        send(&mut deadline.with_stall_timeout(self.timeouts.stall), response)
    }
}

/// Queues requests until the connection ends. Answers pings at once, also during a measurement.
fn read_requests(
    stream: &TcpStream,
    writer: &Writer<'_>,
    sender: SyncSender<Request>,
) -> Result<(), LoadError> {
    loop {
        match receive(&mut Deadline::new(stream, writer.timeouts.silence), REQUEST_BYTES_MAX)? {
            Request::Ping { number } => writer.respond(&Response::Pong { number })?,
            request => {
                if sender.send(request).is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// Reports a measurement to the coordinator, and obeys it.
struct RemoteObserver<'s, 'c> {
    writer: &'s Writer<'c>,
    requests: &'s Receiver<Request>,
    should_stop: &'s (dyn Fn() -> bool + Sync),
    is_stopped: bool,
    last_round: Option<u64>,
    reported_at: Option<Instant>,
}

impl<'s, 'c> RemoteObserver<'s, 'c> {
    fn new(
        writer: &'s Writer<'c>,
        requests: &'s Receiver<Request>,
        should_stop: &'s (dyn Fn() -> bool + Sync),
    ) -> Self {
        Self { writer, requests, should_stop, is_stopped: false, last_round: None, reported_at: None }
    }

    /// Handles the requests that have arrived.
    fn poll_requests(&mut self) {
        loop {
            match self.requests.try_recv() {
                Ok(Request::EndWindow { round }) => self.last_round = Some(round),
                Ok(Request::Stop) => self.is_stopped = true,
                Ok(_) => {}
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.is_stopped = true;
                    return;
                }
            }
        }
    }

    /// Sends a response. A coordinator that cannot be reached stops the measurement.
    fn report(&mut self, response: &Response) {
        self.is_stopped |= self.writer.respond(response).is_err();
    }
}

impl Observer for RemoteObserver<'_, '_> {
    fn before_stage(&mut self, stage: &'static str) -> Result<(), LoadError> {
        self.writer.respond(&Response::Ready { stage: stage.to_owned() })?;
        loop {
            match self.requests.recv_timeout(POLL_INTERVAL) {
                Ok(Request::Go) => return self.writer.respond(&Response::Begun),
                Ok(Request::Stop) => return Err(LoadError::new("stopped before it began")),
                Ok(_) | Err(RecvTimeoutError::Timeout) if !(self.should_stop)() => {}
                _ => return Err(LoadError::new("the coordinator left, or the agent was stopped")),
            }
        }
    }

    fn after_stage(&mut self) {
        self.report(&Response::Ended);
    }

    fn progress(&mut self, progress: &Progress) {
        if self.reported_at.is_some_and(|at| at.elapsed() < PROGRESS_INTERVAL) {
            return;
        }
        self.reported_at = Some(Instant::now());
        if !progress.is_measured {
            let Progress { bytes_per_s, elapsed_s, .. } = *progress;
            let Some(fraction) = progress.fraction else { return };
            return self.report(&Response::Preparing { fraction, bytes_per_s, elapsed_s });
        }
        self.report(&Response::Progress {
            operations_per_s: progress.operations_per_s,
            bytes_per_s: progress.bytes_per_s,
            p50_ns: progress.p50_ns,
            p99_ns: progress.p99_ns,
            elapsed_s: progress.elapsed_s,
            errors: progress.errors,
        });
    }

    fn round(&mut self, round: RoundCount) {
        let RoundCount { number, operations, bytes } = round;
        self.report(&Response::Round { number, operations, bytes });
    }

    fn last_round(&mut self) -> Option<u64> {
        self.poll_requests();
        self.last_round
    }

    fn is_interrupted(&mut self) -> bool {
        self.poll_requests();
        self.is_stopped || (self.should_stop)()
    }

    fn note(&mut self, words: &str) {
        // Informative only: the measurement goes on if this does not arrive.
        let _ = self.writer.respond(&Response::Note { words: words.to_owned() });
    }
}
