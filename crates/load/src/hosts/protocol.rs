//! The control protocol: frames of JSON, each with its length in four bytes (big-endian) in front, over TCP.
//!
//! The coordinator sends [`Request`]s, the agent answers [`Response`]s. Each direction begins with the protocol's version; a
//! frame is refused by its length before it is read, and nothing longer than a token is read before the token was right.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::line::Direction;
use crate::error::LoadError;
use crate::result::{Host, Measurement};
use crate::run::{Connections, Length, Options};
use crate::steady::SteadyRule;
use crate::workload::Workload;

/// The version that this program speaks.
pub(super) const VERSION: u32 = 2;

/// Bytes of a frame that greets.
pub(super) const GREETING_BYTES_MAX: usize = 8 << 10;
/// Bytes of an order.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Bytes of an agent's word: a measurement with all its histograms takes less.
pub(super) const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// A measurement takes no longer, whatever is asked.
const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Rounds of a window that becomes steady, and how long each is, at least and at most: an agent keeps what was counted in
/// each of them.
const ROUNDS_MAX: u32 = 100;
const ROUND_MIN: Duration = Duration::from_millis(100);
const ROUND_MAX: Duration = Duration::from_secs(600);

/// What a coordinator sends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// The first one.
    Hello { version: u32, token: String },
    /// The first one of a stream of bytes, which [`Request::Go`] begins.
    Stream { version: u32, token: String, direction: Direction, length_ms: u64 },
    /// Measure what TCP carries to or from another agent, beginning when told.
    #[serde(rename = "line")]
    LineRate { peer: SocketAddr, direction: Direction, length_ms: u64 },
    /// Prepare a measurement and begin its first stage when told.
    Run(Box<Task>),
    /// Begin the stage that was announced.
    Go,
    /// End the window of a rate that was to become steady with this round.
    #[serde(rename = "end")]
    EndWindow { round: u64 },
    /// End, with the result so far.
    Stop,
    /// Are you there?
    Ping { number: u64 },
}

/// What an agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Response {
    /// To the first order.
    Welcome { version: u32, host: Host },
    /// What was asked is not done, and why.
    Refused { why: String },
    /// To [`Request::Ping`].
    Pong { number: u64 },
    /// A stage is prepared.
    Ready { stage: String },
    /// A stage has begun.
    Begun,
    /// A round is over, of a measurement that lasts until its rate is steady.
    Round { number: u64, operations: u64, bytes: u64 },
    /// A stage is over.
    Ended,
    /// How it is going.
    Progress {
        operations_per_s: f64,
        bytes_per_s: f64,
        p50_ns: u64,
        p99_ns: u64,
        elapsed_s: f64,
        errors: u64,
    },
    /// Something that people should know.
    Note { words: String },
    /// Bytes per second, of a stream or of all streams of this host.
    #[serde(rename = "line")]
    LineRate { bytes_per_s: f64 },
    /// The measurement is over.
    Done { measurement: Box<Measurement> },
}

/// A measurement for one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub(super) address: String,
    pub(super) export: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) workload: Workload,
    pub(super) threads: u32,
    pub(super) depth: u32,
    pub(super) connections: u32,
    /// `connections` is for each thread, not in all.
    pub(super) per_thread: bool,
    pub(super) event_loops: u32,
    pub(super) working_set_bytes: u64,
    pub(super) seed: u64,
    pub(super) warmup_ms: u64,
    /// How long is measured, without `operations` and `steady`.
    pub(super) length_ms: u64,
    pub(super) operations: Option<u64>,
    /// Until the rates of all hosts together are steady, as the coordinator sees it.
    pub(super) steady: Option<SteadyRule>,
    pub(super) verify: bool,
    pub(super) keep: bool,
    pub(super) cleanup_ms: u64,
}

impl Task {
    /// How to measure.
    ///
    /// # Errors
    /// If it would take too long, or too much memory.
    pub(super) fn options(&self) -> Result<Options, LoadError> {
        let times = [self.warmup_ms, self.length_ms, self.cleanup_ms].map(Duration::from_millis);
        if times.iter().any(|time| *time > DURATION_MAX) {
            return Err(LoadError::new("a measurement takes at most a week"));
        }
        let [warmup, length, cleanup] = times;
        let length = match (self.operations, self.steady) {
            (Some(operations), _) => Length::Operations(operations),
            (None, Some(rule)) => Length::Joint(checked(rule)?),
            (None, None) => Length::Time(length),
        };
        Ok(Options {
            threads: self.threads,
            depth: self.depth,
            connections: if self.per_thread {
                Connections::PerThread(self.connections)
            } else {
                Connections::Total(self.connections)
            },
            event_loops: self.event_loops.min(1024),
            working_set_bytes: self.working_set_bytes,
            seed: Some(self.seed),
            warmup,
            length,
            verify: self.verify,
            keep: self.keep,
            cleanup,
            ..Options::default()
        })
    }
}

/// A rule that takes no longer and no more memory than an agent grants.
fn checked(rule: SteadyRule) -> Result<SteadyRule, LoadError> {
    if rule.duration_max > DURATION_MAX
        || rule.rounds > ROUNDS_MAX
        || !(ROUND_MIN..=ROUND_MAX).contains(&rule.round)
    {
        return Err(LoadError::new(format!(
            "with several hosts, a steady rate is looked for in at most {ROUNDS_MAX} rounds of {} s to {} s",
            ROUND_MIN.as_secs_f64(),
            ROUND_MAX.as_secs()
        )));
    }
    Ok(rule)
}

/// Sends a frame.
///
/// # Errors
/// Of the connection.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> Result<(), LoadError> {
    let mut frame = vec![0; 4];
    let words = |error: &dyn std::fmt::Display| LoadError::new(format!("cannot send: {error}"));
    serde_json::to_writer(&mut frame, message).map_err(|error| words(&error))?;
    let length = u32::try_from(frame.len() - 4).map_err(|error| words(&error))?;
    for (to, from) in frame.iter_mut().zip(length.to_be_bytes()) {
        *to = from;
    }
    to.write_all(&frame).and_then(|()| to.flush()).map_err(|error| words(&error))
}

/// Receives a frame of at most so many bytes.
///
/// # Errors
/// Of the connection, or if the frame is too long or no such message.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read, most: usize) -> Result<T, LoadError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(|error| lost(&error))?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > most {
        return Err(LoadError::new(format!("a message of {length} bytes, of which {most} are allowed")));
    }
    // What was announced may never come, so memory grows with what does.
    let mut frame = Vec::new();
    from.take(length as u64).read_to_end(&mut frame).map_err(|error| lost(&error))?;
    if frame.len() < length {
        return Err(LoadError::new("the connection ended within a message"));
    }
    serde_json::from_slice(&frame)
        .map_err(|error| LoadError::new(format!("a message makes no sense: {error}")))
}

fn lost(error: &std::io::Error) -> LoadError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => LoadError::new("the connection was closed"),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            LoadError::new("it did not answer in time")
        }
        _ => LoadError::new(format!("the connection broke: {error}")),
    }
}
