//! What TCP carries between a client host and the server's host: an agent that runs there sends or receives for whoever
//! knows the token, with the same code that measures TCP within a machine.
//!
//! A stream is a connection of its own: it begins with [`Request::Stream`], is let in, and waits for [`Request::Go`]; what
//! follows are bytes of no meaning. The end that receives is the end that measures, and the other one sends until it has
//! enough. If an agent measures, it answers with [`Response::LineRate`].

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::protocol::{GREETING_BYTES_MAX, Request, Response, VERSION, receive, send};
use super::token::Token;
use crate::client::configure;
use crate::error::LoadError;
use crate::limits::tcp;

/// Streams of each client host at once: one alone may not fill a fast line.
const STREAMS: usize = 4;

/// A stream is measured no longer, whoever asks.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(60);

/// How long connecting may take, a greeting, or a stream in which nothing moves; and how much longer than its time a stream
/// may go on until the end that measures has enough.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Where bytes go, as the client host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    /// To the client, as the data of READ.
    Receive,
    /// To the server, as the data of WRITE.
    Send,
}

/// An agent on the server's host.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it wants to be told.
    pub token: Token,
}

impl Peer {
    /// Understands `HOST:PORT`.
    ///
    /// # Errors
    /// If it has no address.
    pub fn parse(text: &str, token: Token) -> Result<Self, LoadError> {
        Ok(Self { address: resolve(text)?, token })
    }

    /// The bytes per second between this host and that one.
    ///
    /// # Errors
    /// If it cannot be reached, refuses, or ends early.
    pub(crate) fn rate(&self, direction: Direction, length: Duration) -> Result<f64, LoadError> {
        Streams::connect(self.address, &self.token, direction, length)?.run()
    }
}

/// The address of `HOST:PORT`.
///
/// # Errors
/// If there is none.
pub fn resolve(text: &str) -> Result<SocketAddr, LoadError> {
    let words = |why: &dyn std::fmt::Display| LoadError::new(format!("{text}: {why}"));
    let mut found = text.to_socket_addrs().map_err(|error| words(&error))?;
    found.next().ok_or_else(|| words(&"it has no address"))
}

/// Streams that were let in, and wait.
pub(super) struct Streams {
    address: SocketAddr,
    streams: Vec<TcpStream>,
    direction: Direction,
    length: Duration,
}

impl Streams {
    /// Connects to an agent, and to nothing else.
    ///
    /// # Errors
    /// If it cannot be reached or refuses.
    pub(super) fn connect(
        address: SocketAddr,
        token: &Token,
        direction: Direction,
        length: Duration,
    ) -> Result<Self, LoadError> {
        let streams = (0..STREAMS).map(|_| connect(address, token, direction, length));
        let streams = streams.collect::<Result<_, _>>().map_err(|error| named(address, &error))?;
        Ok(Self { address, streams, direction, length })
    }

    /// Measures them all at once: bytes per second of their sum.
    ///
    /// # Errors
    /// If one of them breaks.
    pub(super) fn run(self) -> Result<f64, LoadError> {
        let Self { address, streams, direction, length } = self;
        let rates: Result<Vec<f64>, LoadError> = std::thread::scope(|scope| {
            let run = |stream| scope.spawn(move || client(&stream, direction, length));
            let running: Vec<_> = streams.into_iter().map(run).collect();
            let ended = running.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(LoadError::new("the thread of a stream has ended")))
            });
            ended.collect()
        });
        rates.map(|rates| rates.into_iter().sum()).map_err(|error| named(address, &error))
    }
}

fn named(address: SocketAddr, error: &LoadError) -> LoadError {
    LoadError::new(format!("TCP line rate, agent {address}: {error}"))
}

fn broke(error: std::io::Error) -> LoadError {
    LoadError::new(format!("a stream broke: {error}"))
}

fn connect(
    address: SocketAddr,
    token: &Token,
    direction: Direction,
    length: Duration,
) -> Result<TcpStream, LoadError> {
    let mut stream = TcpStream::connect_timeout(&address, STALL_TIMEOUT).map_err(broke)?;
    limit(&stream).map_err(broke)?;
    let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let token = token.as_str().to_owned();
    send(&mut stream, &Request::Stream { version: VERSION, token, direction, length_ms })?;
    match receive(&mut stream, GREETING_BYTES_MAX)? {
        Response::Welcome { .. } => Ok(stream),
        Response::Refused { why } => Err(LoadError::new(super::printable(&why))),
        _ => Err(LoadError::new("it does not greet")),
    }
}

/// How long a stream of this length may go on.
fn longest(length: Duration) -> Duration {
    tcp::warmup(length) + length + STALL_TIMEOUT
}

fn limit(stream: &TcpStream) -> std::io::Result<()> {
    configure(stream)?;
    stream.set_read_timeout(Some(STALL_TIMEOUT))?;
    stream.set_write_timeout(Some(STALL_TIMEOUT))
}

/// The client's end of a stream; its bytes per second.
fn client(mut stream: &TcpStream, direction: Direction, length: Duration) -> Result<f64, LoadError> {
    send(&mut stream, &Request::Go)?;
    match direction {
        Direction::Receive => tcp::receive(stream, length).map_err(broke),
        Direction::Send => {
            let (began, most) = (Instant::now(), longest(length));
            stream.set_read_timeout(Some(most)).map_err(broke)?;
            let is_answered = AtomicBool::new(false);
            let answer = std::thread::scope(|scope| {
                let is_wanted = || !is_answered.load(Ordering::Relaxed) && began.elapsed() < most;
                scope.spawn(move || tcp::send(stream, &is_wanted));
                let answer = receive(&mut stream, GREETING_BYTES_MAX);
                is_answered.store(true, Ordering::Relaxed);
                answer
            });
            match answer? {
                Response::LineRate { bytes_per_s } => Ok(bytes_per_s),
                Response::Refused { why } => Err(LoadError::new(super::printable(&why))),
                _ => Err(LoadError::new("it does not say what it received")),
            }
        }
    }
}

/// The agent's end of a stream that was let in, to its end.
///
/// # Errors
/// If the other side does not begin, breaks the connection, or wants too much.
pub(super) fn serve(
    mut stream: &TcpStream,
    direction: Direction,
    length: Duration,
    should_stop: &dyn Fn() -> bool,
) -> Result<(), LoadError> {
    let Request::Go = receive(&mut stream, GREETING_BYTES_MAX)? else {
        return Err(LoadError::new("a stream was let in, and something else came"));
    };
    limit(stream).map_err(broke)?;
    match direction {
        Direction::Receive => {
            let (began, most) = (Instant::now(), longest(length));
            tcp::send(stream, &|| began.elapsed() < most && !should_stop());
            Ok(())
        }
        Direction::Send => {
            let bytes_per_s = tcp::receive(stream, length).map_err(broke)?;
            send(&mut stream, &Response::LineRate { bytes_per_s })?;
            // Closing with bytes unread could take the answer away.
            tcp::drain(stream, STALL_TIMEOUT).map_err(broke)
        }
    }
}
