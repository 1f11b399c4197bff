//! The coordinator: gives each agent its share of a measurement, lets all begin together, and adds up their results.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::line::{Direction, resolve};
use super::merge::merge;
use super::printable;
use super::protocol::{RESPONSE_BYTES_MAX, Request, Response, VERSION, receive, send};
use super::token::Token;
use crate::client::Server;
use crate::error::LoadError;
use crate::random::fresh_seed;
use crate::result::{Host, Measurement, ServerCost, Steady};
use crate::run::{Connections, Length, Observer, Options, Progress, RoundCount};
use crate::workload::Workload;

mod joint;
mod meter;
mod share;

use joint::JointRounds;
use meter::CpuMeter;
use share::share_of;

/// How long connecting, greeting, or sending anything may take.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
/// How often agents are asked whether they are there.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The silence that an agent is allowed.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// What a measurement may take beyond its own time, besides cleaning up.
const GRACE: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Agents, connected and greeted.
#[derive(Debug)]
pub struct Coordinator {
    links: Vec<Link>,
    messages: Receiver<(usize, Result<Response, LoadError>)>,
    /// One that has said nothing for so long is lost.
    pub(super) silence: Duration,
}

#[derive(Debug)]
struct Link {
    name: String,
    stream: TcpStream,
    host: Host,
    heard_at: Instant,
    state: AgentState,
    /// When it was told to go, and when it said that it began.
    went: Option<Instant>,
    began: Option<Instant>,
    last: Option<Progress>,
}

#[derive(Debug)]
enum AgentState {
    /// It has nothing to do.
    Idle,
    Preparing,
    Ready,
    TestAgent,
    /// The stage is over; what comes next is another one, or the result.
    Ended,
    Done(Box<Measurement>),
    /// What TCP carries, in bytes per second.
    Rated(f64),
    /// This measurement failed there.
    Failed,
    /// It is gone for good.
    Lost,
}

impl Link {
    const fn is_working(&self) -> bool {
        matches!(
            self.state,
            AgentState::Preparing | AgentState::Ready | AgentState::TestAgent | AgentState::Ended
        )
    }

    /// Forgets what it did before: something new is asked of it.
    fn prepare(&mut self) {
        (self.went, self.began, self.last, self.heard_at) = (None, None, None, Instant::now());
        self.state = AgentState::Preparing;
    }
}

impl Coordinator {
    /// Connects to agents, each `HOST:PORT`, and to nothing else.
    ///
    /// # Errors
    /// If one of them cannot be reached, refuses the token, or speaks another version.
    pub fn connect(agents: &[String], token: &Token) -> Result<Self, LoadError> {
        let (sender, messages) = channel();
        // What was connected is let go when it is dropped, also if the next agent refuses.
        let mut this = Self { links: Vec::new(), messages, silence: SILENCE_TIMEOUT };
        for name in agents {
            if this.links.iter().any(|link| link.name == *name) {
                return Err(LoadError::new(format!("agent {name} is named twice")));
            }
            let words = |why: &dyn std::fmt::Display| LoadError::new(format!("agent {name}: {why}"));
            let link = connect_agent(name, token).map_err(|error| words(&error))?;
            let (index, sender) = (this.links.len(), Sender::clone(&sender));
            let from = link.stream.try_clone().map_err(|error| words(&error))?;
            // Ends when the connection does.
            std::thread::spawn(move || read_responses(from, index, &sender));
            this.links.push(link);
        }
        if this.links.is_empty() {
            return Err(LoadError::new("no agent is named"));
        }
        Ok(this)
    }

    /// The agents' hosts.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        self.links.iter().map(|link| link.host.clone()).collect()
    }

    /// Measures on all hosts together: threads, connections, operations and working set are divided among them. Answers
    /// the sum, and what a reader must know about it.
    ///
    /// # Errors
    /// If no host has a result.
    pub fn measure(
        &mut self,
        server: &Server,
        workload: &Workload,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<(Measurement, Vec<String>), LoadError> {
        options.length.check(workload)?;
        let meter = CpuMeter::new(workload, options)?;
        let seed = options.seed.unwrap_or_else(fresh_seed);
        let mut notes = Vec::new();
        self.assign(server, workload, &Options { seed: Some(seed), ..options.clone() }, &mut notes);
        let joint = match options.length {
            Length::Steady(rule) | Length::Joint(rule) => Some(JointRounds::new(rule, self.links.len())),
            Length::Time(_) | Length::Operations(_) => None,
        };
        let mut run = JointRun { meter, ..JointRun::new(joint) };
        let asked = self.working().len();
        self.wait_for_agents(&mut run, options, observer, &mut notes)?;
        let (agents, parts): (Vec<usize>, Vec<Measurement>) = self.results().into_iter().unzip();
        if parts.is_empty() {
            return Err(LoadError::new(notes.pop().unwrap_or_else(|| "no agent has a result".to_owned())));
        }
        let mut whole = Measurement { seed, ..merge(&parts)? };
        whole.steady = run.joint.as_ref().map(|joint| Steady {
            window_s: whole.seconds,
            ..joint.judge(&agents, joint.last.unwrap_or_default())
        });
        whole.server = run.cost(&whole, &agents, asked, &mut notes);
        if let Some((estimate, most)) = run.skew.filter(|_| parts.len() > 1) {
            notes.push(format!(
                "{}: {} hosts began within {:.0} µs of each other as round trips tell, and {:.0} µs at most.",
                whole.name,
                parts.len(),
                estimate.as_secs_f64() * 1e6,
                most.as_secs_f64() * 1e6
            ));
        }
        Ok((whole, notes))
    }

    /// Bytes per second that TCP carries between all hosts together and an agent on another one, which theirs have to
    /// allow.
    ///
    /// # Errors
    /// If one of them has no result: the sum of the others would be too low a limit.
    pub(crate) fn line_rate(
        &mut self,
        peer: SocketAddr,
        direction: Direction,
        length: Duration,
        observer: &mut dyn Observer,
    ) -> Result<f64, LoadError> {
        let mut notes = Vec::new();
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        for link in self.links.iter_mut().filter(|link| !matches!(link.state, AgentState::Lost)) {
            link.prepare();
            send_request(link, &Request::LineRate { peer, direction, length_ms }, &mut notes);
        }
        let length = Length::Time(length);
        let options = Options { length, cleanup: Duration::ZERO, ..Options::default() };
        self.wait_for_agents(&mut JointRun::new(None), &options, observer, &mut notes)?;
        let mut sum = 0.0;
        for link in &mut self.links {
            match std::mem::replace(&mut link.state, AgentState::Idle) {
                AgentState::Rated(rate) => sum += rate,
                AgentState::Lost => link.state = AgentState::Lost,
                _ => {}
            }
        }
        match notes.into_iter().find(|note| note.starts_with("Failed")) {
            Some(why) => Err(LoadError::new(why)),
            None => Ok(sum),
        }
    }

    /// Waits until all agents have done what they were told to.
    fn wait_for_agents(
        &mut self,
        run: &mut JointRun,
        options: &Options,
        observer: &mut dyn Observer,
        notes: &mut Vec<String>,
    ) -> Result<(), LoadError> {
        while self.links.iter().any(Link::is_working) {
            match self.messages.recv_timeout(POLL_INTERVAL) {
                Ok((index, message)) => self.on_message(index, message, run, observer, notes),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::new("all agents are lost")),
            }
            self.supervise(run, options, observer, notes);
        }
        Ok(())
    }

    /// What the agents have measured; all that are left have nothing to do then.
    fn results(&mut self) -> Vec<(usize, Measurement)> {
        let take =
            |(index, link): (usize, &mut Link)| match std::mem::replace(&mut link.state, AgentState::Idle) {
                AgentState::Done(measurement) => Some((index, *measurement)),
                AgentState::Lost => {
                    link.state = AgentState::Lost;
                    None
                }
                _ => None,
            };
        self.links.iter_mut().enumerate().filter_map(take).collect()
    }

    /// Gives every agent that is there its share.
    fn assign(&mut self, server: &Server, workload: &Workload, options: &Options, notes: &mut Vec<String>) {
        let there: Vec<usize> = (0..self.links.len())
            .filter(|index| {
                self.links.get(*index).is_some_and(|link| !matches!(link.state, AgentState::Lost))
            })
            .collect();
        for (part, index) in there.iter().enumerate() {
            let Some(link) = self.links.get_mut(*index) else { continue };
            let Some(share_of) = share_of(server, workload, options, part, there.len()) else { continue };
            link.prepare();
            send_request(link, &Request::Run(Box::new(share_of)), notes);
        }
    }

    /// What an agent said.
    fn on_message(
        &mut self,
        index: usize,
        word: Result<Response, LoadError>,
        run: &mut JointRun,
        observer: &mut dyn Observer,
        notes: &mut Vec<String>,
    ) {
        let Some(link) = self.links.get_mut(index) else { return };
        link.heard_at = Instant::now();
        match word {
            Ok(Response::Ready { .. }) if link.is_working() => link.state = AgentState::Ready,
            Ok(Response::Begun) => link.began = Some(Instant::now()),
            Ok(Response::Ended) if matches!(link.state, AgentState::TestAgent) => {
                link.state = AgentState::Ended;
                // What it did last is not what it does now.
                link.last = link.last.take().map(|last| Progress { errors: last.errors, ..IDLE });
            }
            Ok(Response::Done { measurement }) if link.is_working() && run.is_early(&measurement) => {
                notes.push(format!(
                    "Failed: agent {} was stopped there before its time; the result is without it",
                    link.name
                ));
                link.state = AgentState::Failed;
            }
            Ok(Response::Done { measurement }) if link.is_working() => {
                link.state = AgentState::Done(measurement)
            }
            Ok(Response::LineRate { bytes_per_s }) if link.is_working() => {
                link.state = AgentState::Rated(bytes_per_s)
            }
            Ok(Response::Round { number, operations, bytes }) => {
                let heard = run
                    .joint
                    .as_mut()
                    .map(|joint| joint.heard(index, RoundCount { number, operations, bytes }));
                if let Some(Err(error)) = heard {
                    mark_lost(link, &error.to_string(), notes);
                }
            }
            Ok(Response::Refused { why }) if link.is_working() => {
                notes.push(format!("Failed: agent {}: {}", link.name, printable(&why)));
                link.state = AgentState::Failed;
            }
            Ok(Response::Progress { operations_per_s, bytes_per_s, p50_ns, p99_ns, elapsed_s, errors }) => {
                let (stage, is_measured) = ("all hosts", true);
                let progress = Progress {
                    stage,
                    is_measured,
                    elapsed_s,
                    operations_per_s,
                    bytes_per_s,
                    p50_ns,
                    p99_ns,
                    errors,
                };
                link.last = Some(progress);
                observer.progress(&sum(self
                    .links
                    .iter()
                    .filter(|link| link.is_working())
                    .filter_map(|link| link.last.as_ref())));
            }
            Ok(Response::Note { words }) => {
                observer.note(&format!("agent {}: {}", link.name, printable(&words)))
            }
            Ok(_) => {}
            Err(error) => mark_lost(link, &error.to_string(), notes),
        }
    }

    /// Sees what is to be done: letting all begin, asking whether they are there, stopping.
    fn supervise(
        &mut self,
        run: &mut JointRun,
        options: &Options,
        observer: &mut dyn Observer,
        notes: &mut Vec<String>,
    ) {
        let mut working = self.links.iter().filter(|link| link.is_working()).peekable();
        let is_ready =
            working.peek().is_some() && working.all(|link| matches!(link.state, AgentState::Ready));
        if is_ready && run.stopped.is_none() {
            for link in self.links.iter_mut().filter(|link| link.is_working()) {
                link.state = AgentState::TestAgent;
                (link.went, link.began) = (Some(Instant::now()), None);
                send_request(link, &Request::Go, notes);
            }
            run.began = Some(Instant::now());
            run.metered(CpuMeter::begin, notes);
        }
        run.metered(CpuMeter::look, notes);
        let mut working = self.links.iter().filter(|link| link.is_working());
        if run.joint.is_none() && !working.any(|link| matches!(link.state, AgentState::TestAgent)) {
            run.stage_is_over(notes);
        }
        run.skew = run.skew.or_else(|| skew(&self.links));
        if run.asked.elapsed() >= PING_INTERVAL {
            run.asked = Instant::now();
            for link in self.links.iter_mut().filter(|link| !matches!(link.state, AgentState::Lost)) {
                send_request(link, &Request::Ping { number: 0 }, notes);
            }
        }
        let is_interrupted = run.stopped.is_none() && observer.is_interrupted();
        if let Some(last) = run.last_round(&self.running(), is_interrupted, notes) {
            self.send_to_working(&Request::EndWindow { round: last }, notes);
        }
        if is_interrupted {
            run.stopped = Some(Instant::now());
            if run.joint.is_none() {
                run.stage_is_over(notes);
            }
            self.send_to_working(&Request::Stop, notes);
        }
        let time = match options.length {
            Length::Time(time) => Some(options.warmup + time),
            Length::Steady(rule) | Length::Joint(rule) => Some(options.warmup + rule.duration_max),
            Length::Operations(_) => None,
        };
        // Phases and counts of operations take what they take; a server that answers nothing ends them at the agent.
        let is_late = run.stopped.is_some_and(|at| at.elapsed() > options.cleanup + GRACE)
            || run.began.zip(time).is_some_and(|(at, time)| at.elapsed() > time + options.cleanup + GRACE);
        for link in self.links.iter_mut().filter(|link| link.is_working()) {
            if link.heard_at.elapsed() > self.silence {
                let why = format!("it has said nothing for {} s", self.silence.as_secs_f64());
                mark_lost(link, &why, notes);
            } else if is_late {
                mark_lost(link, "it did not end in time", notes);
            }
        }
    }
}

impl Coordinator {
    fn working(&self) -> Vec<usize> {
        (0..self.links.len()).filter(|index| self.links.get(*index).is_some_and(Link::is_working)).collect()
    }

    fn running(&self) -> Vec<usize> {
        let is_running = |link: &Link| matches!(link.state, AgentState::TestAgent);
        (0..self.links.len()).filter(|index| self.links.get(*index).is_some_and(is_running)).collect()
    }

    fn send_to_working(&mut self, order: &Request, notes: &mut Vec<String>) {
        self.links
            .iter_mut()
            .filter(|link| link.is_working())
            .for_each(|link| send_request(link, order, notes));
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        for link in &self.links {
            let _ = link.stream.shutdown(Shutdown::Both);
        }
    }
}

/// A measurement, as its coordinator sees it.
struct JointRun {
    began: Option<Instant>,
    asked: Instant,
    stopped: Option<Instant>,
    skew: Option<(Duration, Duration)>,
    /// For a steady state.
    joint: Option<JointRounds>,
    /// For the processor time of the server, as long as it can be taken.
    meter: Option<CpuMeter>,
}

impl JointRun {
    fn new(joint: Option<JointRounds>) -> Self {
        Self { began: None, asked: Instant::now(), stopped: None, skew: None, joint, meter: None }
    }

    /// Whether this ended before anyone here said so. What is cut off at another moment than the rest is no part of a rate.
    fn is_early(&self, measurement: &Measurement) -> bool {
        let is_cut = self.joint.as_ref().map_or(measurement.interrupted, |joint| joint.last.is_none());
        self.stopped.is_none() && is_cut
    }

    /// Which round ends the window, when that turns out: it is steady, or this is all that there is.
    fn last_round(&mut self, agents: &[usize], is_interrupted: bool, notes: &mut Vec<String>) -> Option<u64> {
        let is_open = self.stopped.is_none();
        let joint = self.joint.as_mut().filter(|joint| is_open && joint.last.is_none())?;
        let before = joint.judged;
        let verdict = joint.verdict(agents);
        joint.last = if is_interrupted { joint.complete(agents) } else { verdict };
        let (last, is_new) = (joint.last, joint.judged > before);
        if is_new {
            self.metered(CpuMeter::mark, notes);
        }
        last.map(|last| last as u64)
    }

    /// Asks the meter, which is given up if it fails.
    fn metered(&mut self, ask: fn(&mut CpuMeter) -> Result<(), LoadError>, notes: &mut Vec<String>) {
        if let Some(Err(error)) = self.meter.as_mut().map(ask) {
            notes.push(format!("Failed: the server's processor time is not known: {error}"));
            self.meter = None;
        }
    }

    /// What all agents do from now on does not count.
    fn stage_is_over(&mut self, notes: &mut Vec<String>) {
        self.metered(CpuMeter::mark, notes);
        if let Some(meter) = &mut self.meter {
            meter.end();
        }
    }

    /// What the measurement cost the server, if all that it did is part of the result of these agents.
    fn cost(
        &mut self,
        whole: &Measurement,
        agents: &[usize],
        asked: usize,
        notes: &mut Vec<String>,
    ) -> Option<ServerCost> {
        let meter = self.meter.as_mut()?;
        if agents.len() < asked {
            let why = "it worked for hosts that have no part in the result";
            notes.push(format!("{}: the server's processor time is not known: {why}.", whole.name));
            return None;
        }
        let (operations, bytes) = match &self.joint {
            // It is taken when a round is complete.
            Some(joint) if joint.judged == 0 => return None,
            Some(joint) => joint.all(agents),
            None => (whole.operations, whole.bytes),
        };
        meter.cost(operations, bytes)
    }
}

/// How far apart agents began: each did so between being told and being heard_at. The middles, and the worst case.
fn skew(links: &[Link]) -> Option<(Duration, Duration)> {
    let spans: Vec<(Instant, Instant)> = links
        .iter()
        .filter(|link| link.went.is_some() && !matches!(link.state, AgentState::Lost | AgentState::Failed))
        .map(|link| link.went.zip(link.began))
        .collect::<Option<_>>()?;
    let middles = || spans.iter().map(|(went, began)| *went + began.duration_since(*went) / 2);
    let estimate = middles().max()?.duration_since(middles().min()?);
    let first = spans.iter().map(|(went, _)| *went).min()?;
    let last = spans.iter().map(|(_, began)| *began).max()?;
    Some((estimate, last.duration_since(first)))
}

/// Sends an order; whoever cannot be told is lost.
fn send_request(link: &mut Link, order: &Request, notes: &mut Vec<String>) {
    if let Err(error) = send(&mut link.stream, order) {
        mark_lost(link, &error.to_string(), notes);
    }
}

fn mark_lost(link: &mut Link, why: &str, notes: &mut Vec<String>) {
    if !matches!(link.state, AgentState::Lost) {
        let without = if link.is_working() { "; the result is without it" } else { "" };
        notes.push(format!("Failed: agent {} was lost: {}{without}", link.name, printable(why)));
        link.state = AgentState::Lost;
        let _ = link.stream.shutdown(Shutdown::Both);
    }
}

/// Hosts that do nothing.
const IDLE: Progress = Progress {
    stage: "all hosts",
    is_measured: true,
    elapsed_s: 0.0,
    operations_per_s: 0.0,
    bytes_per_s: 0.0,
    p50_ns: 0,
    p99_ns: 0,
    errors: 0,
};

/// What all hosts do just now; latencies are those of the slowest.
fn sum<'p>(parts: impl Iterator<Item = &'p Progress>) -> Progress {
    parts.fold(IDLE, |sum, part| Progress {
        elapsed_s: sum.elapsed_s.max(part.elapsed_s),
        operations_per_s: sum.operations_per_s + part.operations_per_s,
        bytes_per_s: sum.bytes_per_s + part.bytes_per_s,
        p50_ns: sum.p50_ns.max(part.p50_ns),
        p99_ns: sum.p99_ns.max(part.p99_ns),
        errors: sum.errors.saturating_add(part.errors),
        ..sum
    })
}

/// Connects and greets.
fn connect_agent(name: &str, token: &Token) -> Result<Link, LoadError> {
    let words = |error: std::io::Error| LoadError::new(error.to_string());
    let mut stream = TcpStream::connect_timeout(&resolve(name)?, GREETING_TIMEOUT).map_err(words)?;
    stream.set_nodelay(true).map_err(words)?;
    stream.set_write_timeout(Some(GREETING_TIMEOUT)).map_err(words)?;
    stream.set_read_timeout(Some(GREETING_TIMEOUT)).map_err(words)?;
    send(&mut stream, &Request::Hello { version: VERSION, token: token.as_str().to_owned() })?;
    let host = match receive(&mut stream, super::protocol::GREETING_BYTES_MAX)? {
        Response::Welcome { version: VERSION, host } => host,
        Response::Welcome { version, .. } => {
            return Err(LoadError::new(format!(
                "it speaks version {version} of the protocol, not {VERSION}"
            )));
        }
        Response::Refused { why } => return Err(LoadError::new(printable(&why))),
        _ => return Err(LoadError::new("it does not greet")),
    };
    stream.set_read_timeout(None).map_err(words)?;
    let (heard_at, state) = (Instant::now(), AgentState::Idle);
    Ok(Link { name: name.to_owned(), stream, host, heard_at, state, went: None, began: None, last: None })
}

/// Reads what an agent says until there is no more.
fn read_responses(mut from: TcpStream, index: usize, sender: &Sender<(usize, Result<Response, LoadError>)>) {
    loop {
        let message = receive(&mut from, RESPONSE_BYTES_MAX);
        let is_over = message.is_err();
        if sender.send((index, message)).is_err() || is_over {
            return;
        }
    }
}
