//! The agent: waits for a coordinator with the right token, and measures what its operator has allowed.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::line::{self, Direction, Streams};
use super::protocol::{
    GREETING_BYTES_MAX, REQUEST_BYTES_MAX, Request, Response, Task, VERSION, receive, send,
};
use super::token::Token;
use crate::client::{Identity, Server};
use crate::error::LoadError;
use crate::result::{Host, Measurement};
use crate::run::{Observer, Progress, RoundCount, measure};

/// Connections at a time: one coordinator; all others wait for their greeting, are reported_at that the agent is busy, or are
/// streams that measure TCP, a few of each client host and direction.
const CONNECTIONS_MAX: usize = 128;
/// How long a greeting, or sending anything, may take.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// A coordinator pings every second; one that is silent for so long is gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often an agent looks for connections and whether it should end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often it tells how a measurement goes, at most.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// Orders that wait.
const REQUESTS_QUEUED_MAX: usize = 16;

/// What an agent may connect to, as its operator gave it.
#[derive(Clone, Debug)]
pub struct Allowed {
    servers: Vec<Server>,
    line_rate_peer: Option<SocketAddr>,
}

impl Allowed {
    /// These servers, with their MOUNT ports and whether reserved ports are used; in whose name calls are made is for
    /// the coordinator to respond. And another agent, to which it may measure what TCP carries.
    #[must_use]
    pub fn new(servers: Vec<Server>, line_rate_peer: Option<SocketAddr>) -> Self {
        Self { servers, line_rate_peer }
    }

    /// The server of this address and export, if it is one of them.
    fn find(&self, task: &Task) -> Result<Server, LoadError> {
        let found = self
            .servers
            .iter()
            .find(|server| server.address.to_string() == task.address && server.export == task.export);
        let identity = Identity { uid: task.uid, gid: task.gid };
        found.map(|server| Server { identity, ..server.clone() }).ok_or_else(|| {
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
    busy: Mutex<()>,
}

impl Agent {
    /// Listens at an address.
    ///
    /// # Errors
    /// If it cannot.
    pub fn bind(address: SocketAddr, token: Token, allowed: Allowed) -> Result<Self, LoadError> {
        let words = |error: std::io::Error| LoadError::new(format!("cannot listen at {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(words)?;
        listener.set_nonblocking(true).map_err(words)?;
        Ok(Self { listener, token, allowed, connections: AtomicUsize::new(0), busy: Mutex::new(()) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the system does not log.
    pub fn address(&self) -> Result<SocketAddr, LoadError> {
        self.listener.local_addr().map_err(|error| LoadError::new(error.to_string()))
    }

    /// Serves coordinators, one after the other, until it should stop. What is worth a line in a log is reported_at.
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
                    log(
                        &match self.session(&stream, should_stop, &|words| log(&format!("{peer}: {words}"))) {
                            Ok(()) => format!("{peer}: ended"),
                            Err(error) => format!("{peer}: {error}"),
                        },
                    );
                    // The other side may be gone already.
                    let _ = stream.shutdown(Shutdown::Both);
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
    }

    /// One coordinator, from its greeting to its end.
    fn session(
        &self,
        stream: &TcpStream,
        should_stop: &(dyn Fn() -> bool + Sync),
        log: &dyn Fn(&str),
    ) -> Result<(), LoadError> {
        let (mut writer, entrance) = self.authenticate(stream)?;
        let welcome = Response::Welcome { version: VERSION, host: Host::this() };
        if let Entrance::Stream(direction, length) = entrance {
            send(&mut writer, &welcome)?;
            set_silence_timeout(stream, SILENCE_TIMEOUT)?;
            log(&format!("a stream: {direction:?}, {} s", length.as_secs_f64()));
            return line::serve(stream, direction, length, should_stop);
        }
        let writer = Mutex::new(writer);
        let Ok(_busy) = self.busy.try_lock() else {
            let why = "the agent is busy with another coordinator".to_owned();
            respond(&writer, &Response::Refused { why: why.clone() })?;
            return Err(LoadError::new(why));
        };
        respond(&writer, &welcome)?;
        log("coordinates");
        set_silence_timeout(stream, SILENCE_TIMEOUT)?;
        let (sender, requests) = sync_channel(REQUESTS_QUEUED_MAX);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(stream, &writer, sender));
            while let Ok(request) = requests.recv() {
                let mut remote = RemoteObserver::new(&writer, &requests, should_stop);
                let done = match request {
                    Request::Run(task) => {
                        log(&format!("{}, threads: {}", task.workload.name(), task.threads));
                        self.run(&task, &mut remote).map(|measurement| Response::Done { measurement })
                    }
                    Request::LineRate { peer, direction, length_ms } => {
                        log(&format!("TCP with {peer}: {direction:?}"));
                        let rate = self.line(peer, direction, length_ms, &mut remote);
                        rate.map(|bytes_per_s| Response::LineRate { bytes_per_s })
                    }
                    // What is reported_at to one that does nothing has come too late.
                    _ => continue,
                };
                let word = done.unwrap_or_else(|error| Response::Refused { why: error.to_string() });
                if respond(&writer, &word).is_err() || should_stop() {
                    break;
                }
            }
            drop(requests);
            let _ = stream.shutdown(Shutdown::Both);
            reader.join().unwrap_or_else(|_| Err(LoadError::new("the reader of requests has ended")))
        })
    }

    /// Lets in who knows the token; answers where to write to, and what for.
    fn authenticate(&self, mut stream: &TcpStream) -> Result<(TcpStream, Entrance), LoadError> {
        let prepared = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(GREETING_TIMEOUT)))
            .and_then(|()| stream.set_write_timeout(Some(GREETING_TIMEOUT)))
            .and_then(|()| stream.set_nodelay(true))
            .and_then(|()| stream.try_clone());
        let mut writer = prepared.map_err(|error| LoadError::new(error.to_string()))?;
        let mut refuse = |why: String| {
            // Whoever does not read it does not want to know.
            let _ = send(&mut writer, &Response::Refused { why: why.clone() });
            LoadError::new(why)
        };
        let (version, token, entrance) = match receive(&mut stream, GREETING_BYTES_MAX)? {
            Request::Hello { version, token } => (version, token, Entrance::Coordinator),
            Request::Stream { version, token, direction, length_ms } => {
                (version, token, Entrance::Stream(direction, Duration::from_millis(length_ms)))
            }
            _ => return Err(refuse("a greeting comes first".to_owned())),
        };
        match entrance {
            _ if !self.token.is(&token) => Err(refuse("the token is wrong".to_owned())),
            _ if version != VERSION => {
                Err(refuse(format!("the agent speaks version {VERSION} of the protocol, not {version}")))
            }
            Entrance::Stream(_, length) if length > line::DURATION_MAX => {
                Err(refuse(format!("a stream takes at most {} s", line::DURATION_MAX.as_secs())))
            }
            entrance => Ok((writer, entrance)),
        }
    }

    fn run(&self, task: &Task, remote: &mut RemoteObserver<'_>) -> Result<Box<Measurement>, LoadError> {
        let server = self.allowed.find(task)?;
        let options = task.options()?;
        measure(&server, &task.workload, &options, remote).map(Box::new)
    }

    /// What TCP carries to or from another agent, together with other hosts.
    fn line(
        &self,
        peer: SocketAddr,
        direction: Direction,
        length_ms: u64,
        remote: &mut RemoteObserver<'_>,
    ) -> Result<f64, LoadError> {
        self.allowed.check_peer(peer)?;
        let length = Duration::from_millis(length_ms);
        let streams = Streams::connect(peer, &self.token, direction, length)?;
        remote.before_stage("TCP line rate")?;
        streams.run()
    }
}

/// What a connection that was let in is for.
#[derive(Clone, Copy, Debug)]
enum Entrance {
    Coordinator,
    /// Bytes, for so long.
    Stream(Direction, Duration),
}

fn set_silence_timeout(stream: &TcpStream, reply_timeout: Duration) -> Result<(), LoadError> {
    stream.set_read_timeout(Some(reply_timeout)).map_err(|error| LoadError::new(error.to_string()))
}

fn respond(writer: &Mutex<TcpStream>, word: &Response) -> Result<(), LoadError> {
    send(&mut *writer.lock().unwrap_or_else(PoisonError::into_inner), word)
}

/// Reads requests until there are no more. Pings are answered whatever the agent does.
fn read(
    mut stream: &TcpStream,
    writer: &Mutex<TcpStream>,
    sender: SyncSender<Request>,
) -> Result<(), LoadError> {
    loop {
        match receive(&mut stream, REQUEST_BYTES_MAX) {
            Ok(Request::Ping { number }) => respond(writer, &Response::Pong { number })?,
            Ok(request) => {
                if sender.send(request).is_err() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Watches a measurement for the coordinator.
struct RemoteObserver<'s> {
    writer: &'s Mutex<TcpStream>,
    requests: &'s Receiver<Request>,
    should_stop: &'s (dyn Fn() -> bool + Sync),
    is_stopped: bool,
    last_round: Option<u64>,
    reported_at: Option<Instant>,
}

impl<'s> RemoteObserver<'s> {
    fn new(
        writer: &'s Mutex<TcpStream>,
        requests: &'s Receiver<Request>,
        should_stop: &'s (dyn Fn() -> bool + Sync),
    ) -> Self {
        Self { writer, requests, should_stop, is_stopped: false, last_round: None, reported_at: None }
    }

    /// Takes the requests that have come.
    fn listen(&mut self) {
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
}

impl Observer for RemoteObserver<'_> {
    fn before_stage(&mut self, stage: &'static str) -> Result<(), LoadError> {
        respond(self.writer, &Response::Ready { stage: stage.to_owned() })?;
        loop {
            match self.requests.recv_timeout(POLL_INTERVAL) {
                Ok(Request::Go) => return respond(self.writer, &Response::Begun),
                Ok(Request::Stop) => return Err(LoadError::new("stopped before it began")),
                Ok(_) | Err(std::sync::mpsc::RecvTimeoutError::Timeout) if !(self.should_stop)() => {}
                _ => return Err(LoadError::new("the coordinator is gone, or the agent was stopped")),
            }
        }
    }

    fn after_stage(&mut self) {
        self.is_stopped |= respond(self.writer, &Response::Ended).is_err();
    }

    fn progress(&mut self, progress: &Progress) {
        if !progress.is_measured
            || self.reported_at.is_some_and(|reported_at| reported_at.elapsed() < PROGRESS_INTERVAL)
        {
            return;
        }
        self.reported_at = Some(Instant::now());
        let word = Response::Progress {
            operations_per_s: progress.operations_per_s,
            bytes_per_s: progress.bytes_per_s,
            p50_ns: progress.p50_ns,
            p99_ns: progress.p99_ns,
            elapsed_s: progress.elapsed_s,
            errors: progress.errors,
        };
        self.is_stopped |= respond(self.writer, &word).is_err();
    }

    fn round(&mut self, round: RoundCount) {
        let RoundCount { number, operations, bytes } = round;
        self.is_stopped |= respond(self.writer, &Response::Round { number, operations, bytes }).is_err();
    }

    fn last_round(&mut self) -> Option<u64> {
        self.listen();
        self.last_round
    }

    fn is_interrupted(&mut self) -> bool {
        self.listen();
        self.is_stopped || (self.should_stop)()
    }

    fn note(&mut self, words: &str) {
        // It is for people, and the measurement does not depend on it.
        let _ = respond(self.writer, &Response::Note { words: words.to_owned() });
    }
}
