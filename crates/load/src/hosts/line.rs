//! The TCP line rate between a client host and the server's host: an agent that runs there sends or receives for
//! any peer that has the token, with the code that also measures TCP within a machine.
//!
//! A stream is a connection of its own. It begins with [`Request::Stream`], is let in, and waits for [`Request::Go`];
//! filler bytes follow. The receiving end measures, and the other one sends until the receiver has enough. An agent that
//! measures answers with [`Response::LineRate`].

use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::deadline::{Deadline, Timeouts};
use super::protocol::{GREETING_BYTES_MAX, Request, Response, VERSION, receive, receive_response, send};
use super::token::Token;
use crate::client::configure;
use crate::error::LoadError;
use crate::tcp_rate;

/// Streams of each client host at once: one alone may not fill a fast line.
const STREAMS: usize = 4;

/// The maximum duration of a stream.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(60);

/// Where bytes go, as the client host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Direction {
    /// To the client, as the data of READ.
    Receive,
    /// To the server, as the data of WRITE.
    Send,
}

/// An agent on the server's host, the other end of TCP.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it listens.
    pub address: SocketAddr,
    /// The token it expects.
    pub token: Token,
}

impl Peer {
    /// Parses `HOST:PORT`.
    ///
    /// # Errors
    /// If the host has no address.
    pub fn parse(text: &str, token: Token) -> Result<Self, LoadError> {
        Ok(Self { address: resolve(text)?, token })
    }

    /// Measures the bytes per second between this host and that one.
    ///
    /// # Errors
    /// If the agent cannot be reached, refuses, or ends early.
    pub(crate) fn rate(&self, direction: Direction, length: Duration) -> Result<f64, LoadError> {
        Streams::connect(self.address, &self.token, direction, length)?.run()
    }
}

/// Resolves `HOST:PORT`.
///
/// # Errors
/// If the host has no address.
pub fn resolve(text: &str) -> Result<SocketAddr, LoadError> {
    let failed = |why: &dyn std::fmt::Display| LoadError::new(format!("{text}: {why}"));
    let mut found = text.to_socket_addrs().map_err(|error| failed(&error))?;
    found.next().ok_or_else(|| failed(&"the host has no address"))
}

/// Streams that were let in and wait to begin.
pub(super) struct Streams {
    address: SocketAddr,
    streams: Vec<TcpStream>,
    direction: Direction,
    length: Duration,
}

impl Streams {
    /// Connects to an agent.
    ///
    /// # Errors
    /// If the agent cannot be reached or refuses.
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

    /// Runs all streams at once and returns the sum of their bytes per second.
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
    let timeout = Timeouts::DEFAULT.greeting;
    let stream = TcpStream::connect_timeout(&address, timeout).map_err(broke)?;
    configure(&stream).map_err(broke)?;
    let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let token = token.as_str().to_owned();
    let mut greeting = Deadline::new(&stream, timeout);
    send(&mut greeting, &Request::Stream { version: VERSION, token, direction, length_ms })?;
    match receive_response(&mut greeting, GREETING_BYTES_MAX)? {
        Response::Welcome { .. } => Ok(stream),
        Response::Refused { why } => Err(LoadError::new(why)),
        _ => Err(LoadError::new("the agent sent no welcome")),
    }
}

/// The longest that a stream may last if it is measured for this long.
fn longest(length: Duration, timeouts: &Timeouts) -> Duration {
    tcp_rate::warmup(length) + length + timeouts.stall
}

fn bounded<'s>(stream: &'s TcpStream, length: Duration, timeouts: &Timeouts) -> Deadline<'s> {
    Deadline::new(stream, longest(length, timeouts)).with_stall_timeout(timeouts.stall)
}

/// Runs the client's end of a stream and returns its bytes per second.
fn client(stream: &TcpStream, direction: Direction, length: Duration) -> Result<f64, LoadError> {
    let timeouts = Timeouts::DEFAULT;
    send(&mut Deadline::new(stream, timeouts.stall), &Request::Go)?;
    match direction {
        Direction::Receive => tcp_rate::receive(bounded(stream, length, &timeouts), length).map_err(broke),
        Direction::Send => {
            let is_answered = AtomicBool::new(false);
            let answer = std::thread::scope(|scope| {
                let is_wanted = || !is_answered.load(Ordering::Relaxed);
                scope.spawn(move || tcp_rate::send(bounded(stream, length, &timeouts), &is_wanted));
                let mut reader = Deadline::new(stream, longest(length, &timeouts));
                let answer = receive_response(&mut reader, GREETING_BYTES_MAX);
                is_answered.store(true, Ordering::Relaxed);
                answer
            });
            match answer? {
                Response::LineRate { bytes_per_s } => Ok(bytes_per_s),
                Response::Refused { why } => Err(LoadError::new(why)),
                _ => Err(LoadError::new("the agent did not report a rate")),
            }
        }
    }
}

/// Runs the agent's end of a stream that was let in, to its end.
///
/// # Errors
/// If the peer does not begin, breaks the connection, or is too slow.
pub(super) fn serve(
    stream: &TcpStream,
    direction: Direction,
    length: Duration,
    timeouts: &Timeouts,
    should_stop: &dyn Fn() -> bool,
) -> Result<(), LoadError> {
    let Request::Go = receive(&mut Deadline::new(stream, timeouts.silence), GREETING_BYTES_MAX)? else {
        return Err(LoadError::new("a stream that was let in must begin with a go"));
    };
    configure(stream).map_err(broke)?;
    let mut bytes = bounded(stream, length, timeouts);
    match direction {
        Direction::Receive => {
            tcp_rate::send(bytes, &|| !should_stop());
            Ok(())
        }
        Direction::Send => {
            let bytes_per_s = tcp_rate::receive(&mut bytes, length).map_err(broke)?;
            send(&mut bytes, &Response::LineRate { bytes_per_s })?;
            // Closing a socket with unread bytes could discard the answer.
            tcp_rate::drain(bytes).map_err(broke)
        }
    }
}
