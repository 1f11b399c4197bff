//! The control protocol: frames of JSON over TCP, each after its length in four bytes (big-endian).
//!
//! The coordinator sends [`Request`]s, the agent answers with [`Response`]s. Each direction begins with the protocol's
//! version. A frame's length is checked before the frame is read, and no frame longer than a greeting is read before the
//! token was checked.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::line::Direction;
use crate::client::Protocol;
use crate::error::LoadError;
use crate::result::{Host, Measurement};
use crate::run::{Connections, Length, Options};
use crate::steady::SteadyRule;
use crate::text;
use crate::workload::Workload;

/// The protocol version of this program.
pub(super) const VERSION: u32 = 4;

/// Bytes of a greeting.
pub(super) const GREETING_BYTES_MAX: usize = 8 << 10;
/// Bytes of a request.
pub(super) const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Bytes of a response. A measurement with all its histograms is shorter.
pub(super) const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// The longest measurement that an agent accepts.
const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Rounds of a steady-state window, and the bounds of their length. An agent keeps the counts of each round.
const ROUNDS_MAX: u32 = 100;
const ROUND_MIN: Duration = Duration::from_millis(100);
const ROUND_MAX: Duration = Duration::from_secs(600);

/// Characters of a text and of a name, and entries of a list, that are kept of a response.
const TEXT_CHARS_MAX: usize = 1000;
const NAME_CHARS_MAX: usize = 256;
const LIST_MAX: usize = 1000;

/// What a coordinator sends.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// The first message of a coordinator.
    Hello { version: u32, token: String },
    /// The first message of a stream, which [`Request::Go`] begins.
    Stream { version: u32, token: String, direction: Direction, length_ms: u64 },
    /// Measure TCP to or from another agent, beginning at [`Request::Go`].
    #[serde(rename = "line")]
    LineRate { peer: SocketAddr, direction: Direction, length_ms: u64 },
    /// Prepare a measurement and begin its first stage at [`Request::Go`].
    Run(Box<Task>),
    /// Begin the stage that is ready.
    Go,
    /// The steady-state window ends with this round.
    #[serde(rename = "end")]
    EndWindow { round: u64 },
    /// End the measurement with the result so far.
    Stop,
    /// Prove that the agent is alive.
    Ping { number: u64 },
}

/// What an agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Response {
    /// Accepts the first message.
    Welcome { version: u32, host: Host },
    /// The request failed.
    Refused { why: String },
    /// Answers [`Request::Ping`].
    Pong { number: u64 },
    /// How much of a stage that is not measured is done, from 0 to 1.
    Preparing { fraction: f64, bytes_per_s: f64, elapsed_s: f64 },
    /// A stage is prepared.
    Ready { stage: String },
    /// A stage has begun.
    Begun,
    /// A round of a steady-state measurement is over.
    Round { number: u64, operations: u64, bytes: u64 },
    /// A stage is over.
    Ended,
    /// The current rates.
    Progress {
        operations_per_s: f64,
        bytes_per_s: f64,
        p50_ns: u64,
        p99_ns: u64,
        elapsed_s: f64,
        errors: u64,
    },
    /// A sentence for the user.
    Note { words: String },
    /// The rate of a stream, or of all streams of this host.
    #[serde(rename = "line")]
    LineRate { bytes_per_s: f64 },
    /// The measurement is over; this is its result.
    Done { measurement: Box<Measurement> },
}

impl Response {
    /// Makes every text printable: another host wrote it, and terminals obey control characters.
    fn printable(mut self) -> Self {
        let text = |text: &mut String| *text = printable(text);
        let name = |name: &mut String| *name = text::printable(name, NAME_CHARS_MAX);
        match &mut self {
            Self::Welcome { host, .. } => {
                name(&mut host.name);
                name(&mut host.kernel);
            }
            Self::Refused { why } => text(why),
            Self::Ready { stage } => name(stage),
            Self::Note { words } => text(words),
            Self::Done { measurement } => {
                measurement.errors.truncate(LIST_MAX);
                measurement.phases.truncate(LIST_MAX);
                measurement.published.clear();
                name(&mut measurement.name);
                measurement.errors.iter_mut().for_each(|error| name(&mut error.cause));
                measurement.phases.iter_mut().for_each(|phase| name(&mut phase.procedure));
            }
            // Exhaustive, so that a new response is not forgotten.
            Self::Pong { .. } | Self::Begun | Self::Round { .. } => {}
            Self::Ended | Self::Preparing { .. } | Self::Progress { .. } | Self::LineRate { .. } => {}
        }
        self
    }
}

/// Makes a text of another host printable.
pub(super) fn printable(text: &str) -> String {
    text::printable(text, TEXT_CHARS_MAX)
}

/// Receives an agent's response, fit to be printed.
///
/// # Errors
/// As [`receive`].
pub(super) fn receive_response(from: &mut impl Read, bytes_max: usize) -> Result<Response, LoadError> {
    receive(from, bytes_max).map(Response::printable)
}

/// One agent's share of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub(super) address: String,
    pub(super) export: String,
    pub(super) protocol: Protocol,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) workload: Workload,
    pub(super) threads: u32,
    pub(super) depth: u32,
    pub(super) connections: u32,
    /// Whether `connections` counts those of each thread instead of all.
    pub(super) per_thread: bool,
    pub(super) event_loops: u32,
    pub(super) working_set_bytes: u64,
    pub(super) seed: u64,
    pub(super) warmup_ms: u64,
    /// The length of the measurement if neither `operations` nor `steady` is given.
    pub(super) length_ms: u64,
    pub(super) operations: Option<u64>,
    /// Measure until the coordinator finds the sum of all rates steady.
    pub(super) steady: Option<SteadyRule>,
    pub(super) verify: bool,
    pub(super) keep: bool,
    pub(super) cleanup_ms: u64,
}

impl Task {
    /// Returns the options of the measurement.
    ///
    /// # Errors
    /// If the measurement would take too long or too much memory.
    pub(super) fn options(&self) -> Result<Options, LoadError> {
        let times = [self.warmup_ms, self.length_ms, self.cleanup_ms].map(Duration::from_millis);
        if times.iter().any(|time| *time > DURATION_MAX) {
            return Err(LoadError::new("a measurement may take at most a week"));
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

/// Checks that a rule bounds the time and memory of a measurement.
fn checked(rule: SteadyRule) -> Result<SteadyRule, LoadError> {
    if rule.duration_max > DURATION_MAX
        || rule.rounds > ROUNDS_MAX
        || !(ROUND_MIN..=ROUND_MAX).contains(&rule.round)
    {
        return Err(LoadError::new(format!(
            "with several hosts, a steady-state window may have at most {ROUNDS_MAX} rounds of {} s to {} s",
            ROUND_MIN.as_secs_f64(),
            ROUND_MAX.as_secs()
        )));
    }
    Ok(rule)
}

/// Sends a frame.
///
/// # Errors
/// If the connection breaks or times out.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> Result<(), LoadError> {
    let mut frame = vec![0; 4];
    let failed = |error: &dyn std::fmt::Display| LoadError::new(format!("cannot send: {error}"));
    serde_json::to_writer(&mut frame, message).map_err(|error| failed(&error))?;
    let length = u32::try_from(frame.len() - 4).map_err(|error| failed(&error))?;
    for (to, from) in frame.iter_mut().zip(length.to_be_bytes()) {
        *to = from;
    }
    to.write_all(&frame).and_then(|()| to.flush()).map_err(|error| failed(&error))
}

/// Receives a frame of at most `bytes_max`.
///
/// # Errors
/// If the connection breaks or times out, or the frame is too long or does not hold such a message.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read, bytes_max: usize) -> Result<T, LoadError> {
    let mut length = [0; 4];
    from.read_exact(&mut length).map_err(|error| lost(&error))?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > bytes_max {
        return Err(LoadError::new(format!("a message of {length} bytes: at most {bytes_max} are allowed")));
    }
    // Memory grows with what arrives, not with what was announced.
    let mut frame = Vec::new();
    from.take(length as u64).read_to_end(&mut frame).map_err(|error| lost(&error))?;
    if frame.len() < length {
        return Err(LoadError::new("the connection ended within a message"));
    }
    serde_json::from_slice(&frame).map_err(|error| {
        LoadError::new(format!("a message cannot be decoded: {}", printable(&error.to_string())))
    })
}

fn lost(error: &std::io::Error) -> LoadError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => LoadError::new("the connection was closed"),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            LoadError::new("the peer did not answer in time")
        }
        _ => LoadError::new(format!("the connection broke: {error}")),
    }
}
