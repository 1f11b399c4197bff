//! The coordinator's connection to one agent, and what that agent does.

use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::Failure;
use crate::error::LoadError;
use crate::hosts::deadline::Deadline;
use crate::hosts::line::resolve;
use crate::hosts::protocol::{
    GREETING_BYTES_MAX, RESPONSE_BYTES_MAX, Request, Response, VERSION, receive_response, send,
};
use crate::hosts::token::Token;
use crate::result::{Host, Measurement};
use crate::run::Progress;

/// For connecting, a whole greeting, and sending any request.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// Responses of an agent that wait for the coordinator. When there are this many, its reader stops reading, so TCP slows
/// down that agent and no other.
const QUEUED_MAX: usize = 4;
/// Notes that an agent may send during a measurement: they are printed.
const NOTES_MAX: u32 = 100;

/// What the reader of an agent's responses delivers: the agent's index, and a response or why there are no more.
pub(super) type Message = (usize, Result<Response, LoadError>);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) host: Host,
    pub(super) state: AgentState,
    pub(super) heard_at: Instant,
    /// When it was sent [`Request::Go`], and when its [`Response::Begun`] arrived.
    pub(super) told_at: Option<Instant>,
    pub(super) began_at: Option<Instant>,
    pub(super) progress: Option<Progress>,
    stream: TcpStream,
    /// Holds a token for each queued response.
    queued: Receiver<()>,
    notes: u32,
}

#[derive(Debug)]
pub(super) enum AgentState {
    Idle,
    Preparing,
    Ready,
    Running,
    /// The stage is over; another stage or the result follows.
    Ended,
    Done(Box<Measurement>),
    /// The TCP rate, in bytes per second.
    Rated(f64),
    /// This measurement failed there.
    Failed,
    /// The connection is closed for good.
    Lost,
}

impl Link {
    /// Connects to an agent and greets it. From then on its responses are sent to `messages` under `index`.
    pub(super) fn connect(
        name: &str,
        token: &Token,
        index: usize,
        messages: &Sender<Message>,
    ) -> Result<Self, LoadError> {
        let failed = |error: std::io::Error| LoadError::new(error.to_string());
        let stream = TcpStream::connect_timeout(&resolve(name)?, GREETING_TIMEOUT).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let mut greeting = Deadline::new(&stream, GREETING_TIMEOUT);
        send(&mut greeting, &Request::Hello { version: VERSION, token: token.as_str().to_owned() })?;
        let host = match receive_response(&mut greeting, GREETING_BYTES_MAX)? {
            Response::Welcome { version: VERSION, host } => host,
            Response::Welcome { version, .. } => {
                return Err(LoadError::new(format!(
                    "it speaks version {version} of the protocol, not {VERSION}"
                )));
            }
            Response::Refused { why } => return Err(LoadError::new(why)),
            _ => return Err(LoadError::new("it sent no welcome")),
        };
        // The coordinator watches for silence itself.
        stream.set_read_timeout(None).map_err(failed)?;
        let (from, messages) = (stream.try_clone().map_err(failed)?, messages.clone());
        let (permits, queued) = sync_channel(QUEUED_MAX);
        // Ends with the connection or the coordinator.
        std::thread::spawn(move || read_responses(from, index, &permits, &messages));
        Ok(Self {
            name: name.to_owned(),
            host,
            state: AgentState::Idle,
            heard_at: Instant::now(),
            told_at: None,
            began_at: None,
            progress: None,
            stream,
            queued,
            notes: 0,
        })
    }

    /// Notes that a response was taken from the queue.
    pub(super) fn on_message(&mut self) {
        self.heard_at = Instant::now();
        // There is a token for each response, so one is available.
        let _ = self.queued.try_recv();
    }

    /// Whether the agent may send another note.
    pub(super) fn takes_note(&mut self) -> bool {
        self.notes = self.notes.saturating_add(1);
        self.notes <= NOTES_MAX
    }

    pub(super) const fn is_working(&self) -> bool {
        matches!(
            self.state,
            AgentState::Preparing | AgentState::Ready | AgentState::Running | AgentState::Ended
        )
    }

    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, AgentState::Running)
    }

    pub(super) const fn is_lost(&self) -> bool {
        matches!(self.state, AgentState::Lost)
    }

    /// Sends a request for new work.
    pub(super) fn begin(&mut self, request: &Request, failures: &mut Vec<Failure>) {
        (self.told_at, self.began_at, self.progress, self.notes) = (None, None, None, 0);
        self.heard_at = Instant::now();
        self.state = AgentState::Preparing;
        self.send(request, failures);
    }

    /// Sends a request. An agent that does not take it is lost.
    pub(super) fn send(&mut self, request: &Request, failures: &mut Vec<Failure>) {
        if let Err(error) = send(&mut Deadline::new(&self.stream, GREETING_TIMEOUT), request) {
            self.lose(&error.to_string(), failures);
        }
    }

    /// Closes the connection for good.
    pub(super) fn lose(&mut self, reason: &str, failures: &mut Vec<Failure>) {
        if !self.is_lost() {
            let without = if self.is_working() { "; the result is without it" } else { "" };
            failures.push(Failure(format!("agent {} was lost: {reason}{without}", self.name)));
            self.state = AgentState::Lost;
            self.close();
        }
    }

    pub(super) fn close(&self) {
        // The agent may have closed it already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Takes the result, if there is one, and leaves the agent idle unless it is lost.
    pub(super) fn take_result(&mut self) -> AgentState {
        let next = if self.is_lost() { AgentState::Lost } else { AgentState::Idle };
        std::mem::replace(&mut self.state, next)
    }
}

/// Reads an agent's responses until there are no more.
fn read_responses(mut from: TcpStream, index: usize, permits: &SyncSender<()>, messages: &Sender<Message>) {
    while permits.send(()).is_ok() {
        let message = receive_response(&mut from, RESPONSE_BYTES_MAX);
        let is_last = message.is_err();
        if messages.send((index, message)).is_err() || is_last {
            return;
        }
    }
}
