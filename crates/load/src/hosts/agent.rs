//! The agent: waits for a coordinator with the right token, and measures what its operator has allowed.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::line::{self, Direction, Streams};
use super::protocol::{GREETING_BYTES_MAX, ORDER_BYTES_MAX, Order, Task, VERSION, Word, receive, send};
use super::token::Token;
use crate::client::{Identity, Server};
use crate::error::LoadError;
use crate::result::{Host, Measurement};
use crate::run::{Counted, Observer, Progress, measure};

/// Connections at a time: one coordinator; all others wait for their greeting, are told that the agent is busy, or are
/// streams that measure TCP, a few of each client host and direction.
const CONNECTIONS_MAX: usize = 128;
/// How long a greeting, or sending anything, may take.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// A coordinator pings every second; one that is silent for so long is gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// How often an agent looks for connections and whether it should end.
const LOOK: Duration = Duration::from_millis(20);
/// How often it tells how a measurement goes, at most.
const PROGRESS: Duration = Duration::from_millis(200);
/// Orders that wait.
const ORDERS_WAITING: usize = 16;

/// What an agent may connect to, as its operator gave it.
#[derive(Clone, Debug)]
pub struct Allowed {
    servers: Vec<Server>,
    line_rate_peer: Option<SocketAddr>,
}

impl Allowed {
    /// These servers, with their MOUNT ports and whether reserved ports are used; in whose name calls are made is for
    /// the coordinator to say. And another agent, to which it may measure what TCP carries.
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
    /// If the system does not tell.
    pub fn address(&self) -> Result<SocketAddr, LoadError> {
        self.listener.local_addr().map_err(|error| LoadError::new(error.to_string()))
    }

    /// Serves coordinators, one after the other, until it should stop. What is worth a line in a log is told.
    pub fn serve(&self, should_stop: &(dyn Fn() -> bool + Sync), tell: &(dyn Fn(&str) + Sync)) {
        std::thread::scope(|scope| {
            while !should_stop() {
                let Ok((stream, peer)) = self.listener.accept() else {
                    std::thread::sleep(LOOK);
                    continue;
                };
                if self.connections.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
                    self.connections.fetch_sub(1, Ordering::AcqRel);
                    continue;
                }
                scope.spawn(move || {
                    tell(
                        &match self.session(&stream, should_stop, &|words| tell(&format!("{peer}: {words}")))
                        {
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
        tell: &dyn Fn(&str),
    ) -> Result<(), LoadError> {
        let (mut writer, entrance) = self.greet(stream)?;
        let welcome = Word::Welcome { version: VERSION, host: Host::this() };
        if let Entrance::Stream(direction, length) = entrance {
            send(&mut writer, &welcome)?;
            set_patience(stream, SILENCE_LIMIT)?;
            tell(&format!("a stream: {direction:?}, {} s", length.as_secs_f64()));
            return line::serve(stream, direction, length, should_stop);
        }
        let writer = Mutex::new(writer);
        let Ok(_busy) = self.busy.try_lock() else {
            let why = "the agent is busy with another coordinator".to_owned();
            say(&writer, &Word::Refused { why: why.clone() })?;
            return Err(LoadError::new(why));
        };
        say(&writer, &welcome)?;
        tell("coordinates");
        set_patience(stream, SILENCE_LIMIT)?;
        let (give, orders) = sync_channel(ORDERS_WAITING);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(stream, &writer, give));
            while let Ok(order) = orders.recv() {
                let mut remote = Remote::new(&writer, &orders, should_stop);
                let done = match order {
                    Order::Run(task) => {
                        tell(&format!("{}, threads: {}", task.workload.name(), task.threads));
                        self.run(&task, &mut remote).map(|measurement| Word::Done { measurement })
                    }
                    Order::Line { peer, direction, length_ms } => {
                        tell(&format!("TCP with {peer}: {direction:?}"));
                        let rate = self.line(peer, direction, length_ms, &mut remote);
                        rate.map(|bytes_per_s| Word::Line { bytes_per_s })
                    }
                    // What is told to one that does nothing has come too late.
                    _ => continue,
                };
                let word = done.unwrap_or_else(|error| Word::Refused { why: error.to_string() });
                if say(&writer, &word).is_err() || should_stop() {
                    break;
                }
            }
            drop(orders);
            let _ = stream.shutdown(Shutdown::Both);
            reader.join().unwrap_or_else(|_| Err(LoadError::new("the reader of orders has ended")))
        })
    }

    /// Lets in who knows the token; answers where to write to, and what for.
    fn greet(&self, mut stream: &TcpStream) -> Result<(TcpStream, Entrance), LoadError> {
        let prepared = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(GREETING_LIMIT)))
            .and_then(|()| stream.set_write_timeout(Some(GREETING_LIMIT)))
            .and_then(|()| stream.set_nodelay(true))
            .and_then(|()| stream.try_clone());
        let mut writer = prepared.map_err(|error| LoadError::new(error.to_string()))?;
        let mut refuse = |why: String| {
            // Whoever does not read it does not want to know.
            let _ = send(&mut writer, &Word::Refused { why: why.clone() });
            LoadError::new(why)
        };
        let (version, token, entrance) = match receive(&mut stream, GREETING_BYTES_MAX)? {
            Order::Hello { version, token } => (version, token, Entrance::Coordinator),
            Order::Stream { version, token, direction, length_ms } => {
                (version, token, Entrance::Stream(direction, Duration::from_millis(length_ms)))
            }
            _ => return Err(refuse("a greeting comes first".to_owned())),
        };
        match entrance {
            _ if !self.token.is(&token) => Err(refuse("the token is wrong".to_owned())),
            _ if version != VERSION => {
                Err(refuse(format!("the agent speaks version {VERSION} of the protocol, not {version}")))
            }
            Entrance::Stream(_, length) if length > line::LENGTH_MAX => {
                Err(refuse(format!("a stream takes at most {} s", line::LENGTH_MAX.as_secs())))
            }
            entrance => Ok((writer, entrance)),
        }
    }

    fn run(&self, task: &Task, remote: &mut Remote<'_>) -> Result<Box<Measurement>, LoadError> {
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
        remote: &mut Remote<'_>,
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

fn set_patience(stream: &TcpStream, patience: Duration) -> Result<(), LoadError> {
    stream.set_read_timeout(Some(patience)).map_err(|error| LoadError::new(error.to_string()))
}

fn say(writer: &Mutex<TcpStream>, word: &Word) -> Result<(), LoadError> {
    send(&mut *writer.lock().unwrap_or_else(PoisonError::into_inner), word)
}

/// Reads orders until there are no more. Pings are answered whatever the agent does.
fn read(mut stream: &TcpStream, writer: &Mutex<TcpStream>, give: SyncSender<Order>) -> Result<(), LoadError> {
    loop {
        match receive(&mut stream, ORDER_BYTES_MAX) {
            Ok(Order::Ping { number }) => say(writer, &Word::Pong { number })?,
            Ok(order) => {
                if give.send(order).is_err() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Watches a measurement for the coordinator.
struct Remote<'s> {
    writer: &'s Mutex<TcpStream>,
    orders: &'s Receiver<Order>,
    should_stop: &'s (dyn Fn() -> bool + Sync),
    is_stopped: bool,
    last_round: Option<u64>,
    told: Option<Instant>,
}

impl<'s> Remote<'s> {
    fn new(
        writer: &'s Mutex<TcpStream>,
        orders: &'s Receiver<Order>,
        should_stop: &'s (dyn Fn() -> bool + Sync),
    ) -> Self {
        Self { writer, orders, should_stop, is_stopped: false, last_round: None, told: None }
    }

    /// Takes the orders that have come.
    fn listen(&mut self) {
        loop {
            match self.orders.try_recv() {
                Ok(Order::End { round }) => self.last_round = Some(round),
                Ok(Order::Stop) => self.is_stopped = true,
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

impl Observer for Remote<'_> {
    fn before_stage(&mut self, stage: &'static str) -> Result<(), LoadError> {
        say(self.writer, &Word::Ready { stage: stage.to_owned() })?;
        loop {
            match self.orders.recv_timeout(LOOK) {
                Ok(Order::Go) => return say(self.writer, &Word::Begun),
                Ok(Order::Stop) => return Err(LoadError::new("stopped before it began")),
                Ok(_) | Err(std::sync::mpsc::RecvTimeoutError::Timeout) if !(self.should_stop)() => {}
                _ => return Err(LoadError::new("the coordinator is gone, or the agent was stopped")),
            }
        }
    }

    fn after_stage(&mut self) {
        self.is_stopped |= say(self.writer, &Word::Ended).is_err();
    }

    fn progress(&mut self, progress: &Progress) {
        if !progress.is_measured || self.told.is_some_and(|told| told.elapsed() < PROGRESS) {
            return;
        }
        self.told = Some(Instant::now());
        let word = Word::Progress {
            operations_per_s: progress.operations_per_s,
            bytes_per_s: progress.bytes_per_s,
            p50_ns: progress.p50_ns,
            p99_ns: progress.p99_ns,
            elapsed_s: progress.elapsed_s,
            errors: progress.errors,
        };
        self.is_stopped |= say(self.writer, &word).is_err();
    }

    fn round(&mut self, round: Counted) {
        let Counted { number, operations, bytes } = round;
        self.is_stopped |= say(self.writer, &Word::Round { number, operations, bytes }).is_err();
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
        let _ = say(self.writer, &Word::Note { words: words.to_owned() });
    }
}
