//! The agent: waits for a coordinator with the right token, and measures what its operator has allowed.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::protocol::{GREETING_BYTES_MAX, ORDER_BYTES_MAX, Order, Task, VERSION, Word, receive, send};
use super::token::Token;
use crate::client::{Identity, Server};
use crate::error::LoadError;
use crate::result::Host;
use crate::run::{Counted, Observer, Progress, measure};

/// Connections at a time; all but one wait for their greeting or are told that the agent is busy.
const CONNECTIONS_MAX: usize = 8;
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

/// The servers that an agent may measure, as its operator gave them.
#[derive(Clone, Debug)]
pub struct Allowed(Vec<Server>);

impl Allowed {
    /// These servers, with their MOUNT ports and whether reserved ports are used; in whose name calls are made is for
    /// the coordinator to say.
    #[must_use]
    pub fn new(servers: Vec<Server>) -> Self {
        Self(servers)
    }

    /// The server of this address and export, if it is one of them.
    fn find(&self, task: &Task) -> Result<Server, LoadError> {
        let found = self
            .0
            .iter()
            .find(|server| server.address.to_string() == task.address && server.export == task.export);
        let identity = Identity { uid: task.uid, gid: task.gid };
        found.map(|server| Server { identity, ..server.clone() }).ok_or_else(|| {
            LoadError::new(format!("{}:{} is not allowed here (--allow)", task.address, task.export))
        })
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
        let writer = Mutex::new(self.greet(stream)?);
        let Ok(_busy) = self.busy.try_lock() else {
            let why = "the agent is busy with another coordinator".to_owned();
            say(&writer, &Word::Refused { why: why.clone() })?;
            return Err(LoadError::new(why));
        };
        say(&writer, &Word::Welcome { version: VERSION, host: Host::this() })?;
        tell("coordinates");
        let limit = stream.set_read_timeout(Some(SILENCE_LIMIT));
        limit.map_err(|error| LoadError::new(error.to_string()))?;
        let (give, orders) = sync_channel(ORDERS_WAITING);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| read(stream, &writer, give));
            while let Ok(order) = orders.recv() {
                // What is told to one that does nothing has come too late.
                let Order::Run(task) = order else { continue };
                tell(&format!("{}, threads: {}", task.workload.name(), task.threads));
                let mut remote = Remote::new(&writer, &orders, should_stop);
                let word = match self.run(&task, &mut remote) {
                    Ok(measurement) => Word::Done { measurement: Box::new(measurement) },
                    Err(error) => Word::Refused { why: error.to_string() },
                };
                if say(&writer, &word).is_err() || should_stop() {
                    break;
                }
            }
            drop(orders);
            let _ = stream.shutdown(Shutdown::Both);
            reader.join().unwrap_or_else(|_| Err(LoadError::new("the reader of orders has ended")))
        })
    }

    /// Lets in who knows the token; answers where to write to.
    fn greet(&self, mut stream: &TcpStream) -> Result<TcpStream, LoadError> {
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
        match receive(&mut stream, GREETING_BYTES_MAX)? {
            Order::Hello { token, .. } if !self.token.is(&token) => {
                Err(refuse("the token is wrong".to_owned()))
            }
            Order::Hello { version: VERSION, .. } => Ok(writer),
            Order::Hello { version, .. } => {
                Err(refuse(format!("the agent speaks version {VERSION} of the protocol, not {version}")))
            }
            _ => Err(refuse("a greeting comes first".to_owned())),
        }
    }

    fn run(&self, task: &Task, remote: &mut Remote<'_>) -> Result<crate::result::Measurement, LoadError> {
        let server = self.allowed.find(task)?;
        let options = task.options()?;
        measure(&server, &task.workload, &options, remote)
    }
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
