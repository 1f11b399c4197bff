//! The coordinator: gives each agent its share of a measurement, starts all of them together, and adds up their results.

use std::fmt;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::line::Direction;
use super::merge::merge;
use super::protocol::{Request, Response};
use super::token::Token;
use crate::client::{BlockingClient, Server};
use crate::error::LoadError;
use crate::random::fresh_seed;
use crate::result::{Host, Measurement, Steady};
use crate::run::{Length, Observer, Options, Progress, RoundCount, check_space, measure};
use crate::workload::Workload;

mod cpu_meter;
mod joint_rounds;
mod joint_run;
mod link;
mod share;

use cpu_meter::CpuMeter;
use joint_rounds::{JointRounds, SILENCE_TIMEOUT};
use joint_run::{JointRun, StartSkew};
use link::{AgentState, Link, Message};
use share::share_of;

/// How often agents are pinged.
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// The time that a measurement may take beyond its length and its clean-up.
const GRACE: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Agents that were connected and greeted.
#[derive(Debug)]
pub struct Coordinator {
    links: Vec<Link>,
    /// Bounded: each reader waits when too many responses of its agent are queued.
    messages: Receiver<Message>,
    /// An agent that is silent for this long is lost.
    pub(super) silence_timeout: Duration,
}

/// The joint result of several hosts.
#[derive(Debug)]
pub struct Combined {
    /// The sum of all hosts that have a part in it.
    pub measurement: Measurement,
    /// What the result lacks.
    pub failures: Vec<Failure>,
    /// What a reader of the result should know.
    pub notes: Vec<String>,
}

impl From<Measurement> for Combined {
    fn from(measurement: Measurement) -> Self {
        Self { measurement, failures: Vec::new(), notes: Vec::new() }
    }
}

impl Combined {
    /// Returns all failures and notes as sentences, failures first.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        self.failures.iter().map(Failure::to_string).chain(self.notes.iter().cloned()).collect()
    }
}

/// Why a result is not whole, such as a lost agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failed: {}", self.0)
    }
}

impl Coordinator {
    /// Connects to agents, each given as `HOST:PORT`.
    ///
    /// # Errors
    /// If an agent cannot be reached, refuses the token, or speaks another version of the protocol.
    pub fn connect(agents: &[String], token: &Token) -> Result<Self, LoadError> {
        let (sender, messages) = channel();
        // Dropped, it closes its connections; also if a later agent refuses.
        let mut this = Self { links: Vec::new(), messages, silence_timeout: SILENCE_TIMEOUT };
        for name in agents {
            if this.links.iter().any(|link| link.name == *name) {
                return Err(LoadError::new(format!("agent {name} is named twice")));
            }
            let link = Link::connect(name, token, this.links.len(), &sender)
                .map_err(|error| LoadError::new(format!("agent {name}: {error}")))?;
            this.links.push(link);
        }
        if this.links.is_empty() {
            return Err(LoadError::new("no agent is named"));
        }
        Ok(this)
    }

    /// Returns the agents' hosts.
    #[must_use]
    pub fn hosts(&self) -> Vec<Host> {
        self.links.iter().map(|link| link.host.clone()).collect()
    }

    /// Measures on all hosts together: divides threads, connections, operations and working set among them, and merges
    /// their results.
    ///
    /// # Errors
    /// If no host has a result.
    pub fn measure(
        &mut self,
        server: &Server,
        workload: &Workload,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Combined, LoadError> {
        options.length.check(workload)?;
        // Agents compare only their shares. A coordinator may be unable to reach the server.
        if workload.stored_bytes(options.working_set_bytes, options.threads) > 0
            && let Ok((mut client, root)) = BlockingClient::open(server)
            && let Ok(free) = client.free_bytes(&root)
        {
            check_space(workload, options, free)?;
        }
        let rounds = match options.length {
            Length::Steady(rule) | Length::Joint(rule) => Some(JointRounds::new(rule, self.links.len())),
            Length::Time(_) | Length::Operations(_) => None,
        };
        let mut run = JointRun::new(rounds, CpuMeter::new(workload, options)?);
        let seed = options.seed.unwrap_or_else(fresh_seed);
        let options = Options { seed: Some(seed), ..options.clone() };
        for link in self.links.iter().filter(|link| link.is_lost()) {
            let sentence = format!("agent {} was lost before; the result is without it", link.name);
            run.failures.push(Failure(sentence));
        }
        self.assign_shares(server, workload, &options, &mut run);
        let agents_asked = self.indices(Link::is_working).len();
        self.wait_for_agents(&mut run, &options, observer)?;
        let (agents, parts): (Vec<usize>, Vec<Measurement>) = self.take_results().into_iter().unzip();
        if parts.is_empty() {
            let reason = run.failures.last().map(Failure::to_string);
            return Err(LoadError::new(reason.unwrap_or_else(|| "no agent has a result".to_owned())));
        }
        // Agents echo these, but what was asked is known here.
        let (name, workload, protocol) = (workload.name(), *workload, server.protocol);
        let whole = merge(&parts)?;
        let depth = whole.depth.min(options.depth);
        let mut whole = Measurement { name, workload, protocol, depth, seed, ..whole };
        whole.steady = run.rounds.as_ref().map(|rounds| Steady {
            window_s: whole.seconds,
            ..rounds.judge(&agents, rounds.last.unwrap_or_default())
        });
        whole.failed_hosts = run.failures.iter().map(|failure| failure.0.clone()).collect();
        let mut notes = Vec::new();
        whole.server = run.server_cost(&whole, &agents, agents_asked, &mut notes);
        if let Some(StartSkew { estimate, max }) = run.start_skew.filter(|_| parts.len() > 1) {
            notes.push(format!(
                "{}: {} hosts began within {:.0} µs of each other as round trips tell, and {:.0} µs at most.",
                whole.name,
                parts.len(),
                estimate.as_secs_f64() * 1e6,
                max.as_secs_f64() * 1e6
            ));
        }
        Ok(Combined { measurement: whole, failures: run.failures, notes })
    }

    /// Returns the bytes per second that TCP carries between all hosts together and one more agent, which the operators
    /// of the hosts have to allow.
    ///
    /// # Errors
    /// If a host has no result: the sum of the others would be too low a limit.
    pub(crate) fn line_rate(
        &mut self,
        peer: SocketAddr,
        direction: Direction,
        length: Duration,
        observer: &mut dyn Observer,
    ) -> Result<f64, LoadError> {
        let mut run = JointRun::new(None, None);
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        for link in self.links.iter_mut().filter(|link| !link.is_lost()) {
            link.begin(&Request::LineRate { peer, direction, length_ms }, &mut run.failures);
        }
        let length = Length::Time(length);
        let options = Options { length, cleanup: Duration::ZERO, ..Options::default() };
        self.wait_for_agents(&mut run, &options, observer)?;
        let mut sum = 0.0;
        for link in &mut self.links {
            if let AgentState::Rated(rate) = link.take_result() {
                sum += rate;
            }
        }
        match run.failures.first() {
            Some(failure) => Err(LoadError::new(failure.to_string())),
            None => Ok(sum),
        }
    }

    /// Sends every agent its share of a measurement.
    fn assign_shares(&mut self, server: &Server, workload: &Workload, options: &Options, run: &mut JointRun) {
        let present = self.links.iter().filter(|link| !link.is_lost()).count();
        for (part, link) in self.links.iter_mut().filter(|link| !link.is_lost()).enumerate() {
            if let Some(task) = share_of(server, workload, options, part, present) {
                link.begin(&Request::Run(Box::new(task)), &mut run.failures);
            }
        }
    }

    /// Waits until no agent is working.
    fn wait_for_agents(
        &mut self,
        run: &mut JointRun,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<(), LoadError> {
        while self.links.iter().any(Link::is_working) {
            match self.messages.recv_timeout(POLL_INTERVAL) {
                Ok((index, message)) => self.on_message(index, message, run, observer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(LoadError::new("all agents are lost")),
            }
            self.start_if_ready(run);
            self.keep_going(run, observer);
            self.give_up_silent_and_late(run, options);
        }
        Ok(())
    }

    /// Takes the measurements of the agents that have one, with the agents' indices.
    fn take_results(&mut self) -> Vec<(usize, Measurement)> {
        let take = |(index, link): (usize, &mut Link)| match link.take_result() {
            AgentState::Done(measurement) => Some((index, *measurement)),
            _ => None,
        };
        self.links.iter_mut().enumerate().filter_map(take).collect()
    }

    /// Handles what an agent sent.
    fn on_message(
        &mut self,
        index: usize,
        message: Result<Response, LoadError>,
        run: &mut JointRun,
        observer: &mut dyn Observer,
    ) {
        let Some(link) = self.links.get_mut(index) else { return };
        link.on_message();
        match message {
            Ok(Response::Preparing { fraction, bytes_per_s, elapsed_s }) if link.is_working() => {
                let fraction = Some(fraction.clamp(0.0, 1.0));
                link.progress = Some(Progress { fraction, bytes_per_s, elapsed_s, ..PREPARING });
                observer.progress(&least_prepared(self.links.iter().filter(|link| link.is_working())));
            }
            Ok(Response::Ready { .. }) if link.is_working() => {
                link.state = AgentState::Ready;
                link.progress = link.progress.take().filter(|progress| progress.is_measured);
            }
            Ok(Response::Begun) => link.began_at = Some(Instant::now()),
            Ok(Response::Ended) if link.is_running() => {
                link.state = AgentState::Ended;
                // Its rates no longer count; its errors do.
                link.progress = link.progress.take().map(|last| Progress { errors: last.errors, ..IDLE });
            }
            Ok(Response::Done { measurement }) if link.is_working() && run.is_early(&measurement) => {
                let sentence = "was stopped by its operator; the result is without it";
                run.failures.push(Failure(format!("agent {} {sentence}", link.name)));
                link.state = AgentState::Failed;
            }
            Ok(Response::Done { measurement }) if link.is_working() => {
                link.state = AgentState::Done(measurement);
            }
            Ok(Response::LineRate { bytes_per_s }) if link.is_working() => {
                link.state = AgentState::Rated(bytes_per_s);
            }
            Ok(Response::Round { number, operations, bytes }) => {
                let count = RoundCount { number, operations, bytes };
                let added = run.rounds.as_mut().map_or(Ok(()), |rounds| rounds.add(index, count));
                added.unwrap_or_else(|error| link.lose(&error.to_string(), &mut run.failures));
            }
            Ok(Response::Refused { why }) if link.is_working() => {
                run.failures.push(Failure(format!("agent {}: {why}", link.name)));
                link.state = AgentState::Failed;
            }
            Ok(Response::Progress { operations_per_s, bytes_per_s, p50_ns, p99_ns, elapsed_s, errors }) => {
                let rates =
                    Progress { operations_per_s, bytes_per_s, p50_ns, p99_ns, elapsed_s, errors, ..IDLE };
                link.progress = Some(rates);
                let working = self.links.iter().filter(|link| link.is_working());
                observer.progress(&sum(working.filter_map(|link| link.progress.as_ref())));
            }
            Ok(Response::Note { words }) if link.takes_note() => {
                observer.note(&format!("agent {}: {words}", link.name));
            }
            Ok(Response::Note { .. }) => link.lose("it sends notes without end", &mut run.failures),
            Ok(_) => {}
            Err(error) => link.lose(&error.to_string(), &mut run.failures),
        }
    }

    /// Starts a stage when all agents that work are ready for it.
    fn start_if_ready(&mut self, run: &mut JointRun) {
        let mut working = self.links.iter().filter(|link| link.is_working()).peekable();
        let is_ready =
            working.peek().is_some() && working.all(|link| matches!(link.state, AgentState::Ready));
        if is_ready && run.stopped_at.is_none() {
            for link in self.links.iter_mut().filter(|link| link.is_working()) {
                link.state = AgentState::Running;
                (link.told_at, link.began_at) = (Some(Instant::now()), None);
                link.send(&Request::Go, &mut run.failures);
            }
            run.began_at = Some(Instant::now());
            run.with_meter(CpuMeter::begin);
        }
    }

    /// Reads the meter, pings agents, and ends the steady-state window or the measurement when it is time.
    fn keep_going(&mut self, run: &mut JointRun, observer: &mut dyn Observer) {
        run.with_meter(CpuMeter::poll);
        if run.rounds.is_none() && !self.links.iter().any(Link::is_running) {
            run.end_stage();
        }
        run.start_skew = run.start_skew.or_else(|| StartSkew::of(&self.links));
        if run.pinged_at.elapsed() >= PING_INTERVAL {
            run.pinged_at = Instant::now();
            for link in self.links.iter_mut().filter(|link| !link.is_lost()) {
                link.send(&Request::Ping { number: 0 }, &mut run.failures);
            }
        }
        let is_interrupted = run.stopped_at.is_none() && observer.is_interrupted();
        if let Some(round) = run.decide_last_round(&self.indices(Link::is_running), is_interrupted) {
            self.send_to_working(&Request::EndWindow { round }, run);
        }
        if is_interrupted {
            run.stopped_at = Some(Instant::now());
            if run.rounds.is_none() {
                run.end_stage();
            }
            self.send_to_working(&Request::Stop, run);
        }
    }

    /// Drops agents that are silent or do not end in time.
    fn give_up_silent_and_late(&mut self, run: &mut JointRun, options: &Options) {
        // Phases and counts of operations have no time limit; an agent ends them if the server stops answering.
        let time = match options.length {
            Length::Time(time) => Some(options.warmup + time),
            Length::Steady(rule) | Length::Joint(rule) => Some(options.warmup + rule.duration_max),
            Length::Operations(_) => None,
        };
        let extra = options.cleanup + GRACE;
        let is_late = run.stopped_at.is_some_and(|at| at.elapsed() > extra)
            || run.began_at.zip(time).is_some_and(|(at, time)| at.elapsed() > time + extra);
        for link in self.links.iter_mut().filter(|link| link.is_working()) {
            if link.heard_at.elapsed() > self.silence_timeout {
                let reason = format!("it has said nothing for {} s", self.silence_timeout.as_secs_f64());
                link.lose(&reason, &mut run.failures);
            } else if is_late {
                link.lose("it did not end in time", &mut run.failures);
            }
        }
    }

    fn indices(&self, is_wanted: impl Fn(&Link) -> bool) -> Vec<usize> {
        let links = self.links.iter().enumerate();
        links.filter(|(_, link)| is_wanted(link)).map(|(index, _)| index).collect()
    }

    fn send_to_working(&mut self, request: &Request, run: &mut JointRun) {
        for link in self.links.iter_mut().filter(|link| link.is_working()) {
            link.send(request, &mut run.failures);
        }
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.links.iter().for_each(Link::close);
    }
}

/// Measures on these hosts together, or else on this one.
///
/// # Errors
/// If there is no result.
pub fn measure_on(
    hosts: Option<&mut Coordinator>,
    server: &Server,
    workload: &Workload,
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Combined, LoadError> {
    match hosts {
        None => measure(server, workload, options, observer).map(Combined::from),
        Some(hosts) => hosts.measure(server, workload, options, observer),
    }
}

/// The rates of hosts that do nothing.
const IDLE: Progress = Progress::idle("all hosts", true);
/// A stage of all hosts that is not measured, before it begins.
const PREPARING: Progress = Progress::idle("all hosts prepare", false);

/// Returns the progress of hosts that prepare a stage: how far the last of them is, and what all write together.
fn least_prepared<'l>(links: impl Iterator<Item = &'l Link>) -> Progress {
    links.fold(Progress { fraction: Some(1.0), ..PREPARING }, |least, link| {
        let prepares = matches!(link.state, AgentState::Preparing | AgentState::Ended);
        let part = link.progress.as_ref().filter(|progress| !progress.is_measured).unwrap_or(&PREPARING);
        let fraction = if prepares { part.fraction.unwrap_or(0.0) } else { 1.0 };
        Progress {
            fraction: least.fraction.map(|least| least.min(fraction)),
            elapsed_s: least.elapsed_s.max(part.elapsed_s),
            bytes_per_s: least.bytes_per_s + part.bytes_per_s,
            ..least
        }
    })
}

/// Adds up the current rates of hosts. Latencies are those of the slowest host.
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
