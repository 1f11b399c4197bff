//! Agents and coordinators in one process, on loopback addresses that the system chooses.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::deadline::Timeouts;
use super::protocol::{GREETING_BYTES_MAX, Request, Response, VERSION, receive, send};
use super::*;
use crate::client::Server;
use crate::limits::Scope;
use crate::random::{fresh_seed, generator};
use crate::result::{ErrorCount, Host, Latency, Phase, new_histogram};
use crate::run::tests::fake::{Fake, Fault};
use crate::run::{Length, Observer, Options, Progress, Unobserved};
use crate::steady::SteadyRule;
use crate::workload::{RateProcedure, Workload};

const TOKEN: &str = "a token for tests only";
const GETATTR: Workload = Workload::Rate { procedure: RateProcedure::Getattr };

fn token() -> Token {
    Token::new(TOKEN).unwrap()
}

/// An agent in a thread of its own.
struct TestAgent {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TestAgent {
    fn start(allowed: &[&Server]) -> Self {
        Self::start_with_peer(allowed, None)
    }

    fn start_with_peer(allowed: &[&Server], peer: Option<SocketAddr>) -> Self {
        let allowed = Allowed::new(allowed.iter().map(|server| (*server).clone()).collect(), peer);
        Self::run(Agent::bind("127.0.0.1:0".parse().unwrap(), token(), allowed).unwrap(), |_| ())
    }

    /// Starts an agent with short timeouts. Returns the lines of its log too.
    fn start_hasty() -> (Self, Receiver<String>) {
        let allowed = Allowed::new(Vec::new(), None);
        let mut agent = Agent::bind("127.0.0.1:0".parse().unwrap(), token(), allowed).unwrap();
        agent.timeouts = Timeouts { greeting: SHORT, silence: SHORT, stall: SHORT };
        let (sender, lines) = channel();
        (Self::run(agent, move |line| sender.send(line.to_owned()).unwrap()), lines)
    }

    fn run(agent: Agent, log: impl Fn(&str) + Sync + Send + 'static) -> Self {
        let address = agent.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || agent.serve(&|| stopped.load(Ordering::Relaxed), &log));
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for TestAgent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Starts a fake agent that sends a welcome and then runs `then`.
fn impostor(then: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _: Request = receive(&mut stream, GREETING_BYTES_MAX).unwrap();
        send(&mut stream, &Response::Welcome { version: VERSION, host: Host::this() }).unwrap();
        then(stream);
    });
    address
}

fn options(threads: u32, operations: u64) -> Options {
    Options { threads, length: Length::Operations(operations), seed: Some(3), ..Options::default() }
}

#[test]
fn two_agents_share_the_work_and_their_results_are_added_up() {
    let fake = Fake::start(Fault::None);
    let agents = [TestAgent::start(&[&fake.server]), TestAgent::start(&[&fake.server])];
    let names = agents.each_ref().map(|agent| agent.address.to_string());
    let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
    assert_eq!(coordinator.hosts().len(), 2);
    // The same agents measure twice.
    for threads in [5, 1] {
        let options = options(threads, 400);
        let Combined { measurement: whole, notes, failures } =
            coordinator.measure(&fake.server, &GETATTR, &options, &mut Unobserved).unwrap();
        assert_eq!((whole.operations, whole.latency.count, whole.threads), (400, 400, threads));
        assert_eq!((whole.seed, whole.connections, whole.errors.len()), (3, threads, 0));
        // A single thread needs a single host, and no common start.
        let told = notes.iter().filter(|note| note.contains("2 hosts began within")).count();
        assert_eq!((told, notes.len()), if threads > 1 { (1, 1) } else { (0, 0) }, "{notes:?}");
        assert_eq!(failures, []);
    }
    let tree = Workload::Metadata { files_per_directory: 5, directories_per_thread: 2, file_bytes: 0 };
    let Combined { measurement: whole, .. } =
        coordinator.measure(&fake.server, &tree, &options(4, 1), &mut Unobserved).unwrap();
    let phases: Vec<(&str, u64)> =
        whole.phases.iter().map(|phase| (phase.procedure.as_str(), phase.operations)).collect();
    assert_eq!(phases, [("CREATE", 40), ("STAT", 40), ("READ", 40), ("REMOVE", 40)]);
    assert_eq!(fake.objects(), 0);
}

#[test]
fn an_agent_connects_only_to_allowed_servers() {
    let (fake, other) = (Fake::start(Fault::None), Fake::start(Fault::None));
    let agent = TestAgent::start(&[&fake.server]);
    let mut coordinator = Coordinator::connect(&[agent.address.to_string()], &token()).unwrap();
    let elsewhere = Server { export: "/else".to_owned(), ..fake.server.clone() };
    for server in [&other.server, &elsewhere] {
        let error = coordinator.measure(server, &GETATTR, &options(1, 1), &mut Unobserved).unwrap_err();
        assert!(error.to_string().contains("not allowed here (--allow)"), "{error}");
    }
    assert!(other.volume.lock().unwrap().calls.is_empty());
    // The agent still serves what is allowed.
    coordinator.measure(&fake.server, &GETATTR, &options(1, 1), &mut Unobserved).unwrap();
}

#[test]
fn a_wrong_token_and_a_second_coordinator_are_refused() {
    let fake = Fake::start(Fault::None);
    let agent = TestAgent::start(&[&fake.server]);
    let names = [agent.address.to_string()];
    let wrong = Token::new("another token for tests").unwrap();
    let error = Coordinator::connect(&names, &wrong).unwrap_err();
    assert!(error.to_string().contains("the token is wrong"), "{error}");
    let first = Coordinator::connect(&names, &token()).unwrap();
    let error = Coordinator::connect(&names, &token()).unwrap_err();
    assert!(error.to_string().contains("busy"), "{error}");
    drop(first);
    let twice = [names[0].clone(), names[0].clone()];
    assert!(Coordinator::connect(&twice, &token()).is_err());
}

#[test]
fn a_lost_agent_is_reported_and_the_rest_counts() {
    let fake = Fake::start(Fault::None);
    let agent = TestAgent::start(&[&fake.server]);
    let dead = impostor(|mut stream| {
        let _: Request = receive(&mut stream, 1 << 20).unwrap();
    });
    let names = [agent.address.to_string(), dead];
    let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
    let Combined { measurement: whole, failures, .. } =
        coordinator.measure(&fake.server, &GETATTR, &options(2, 100), &mut Unobserved).unwrap();
    assert_eq!((whole.operations, whole.threads), (50, 1));
    let sentence = failures[0].to_string();
    assert!(sentence.starts_with("Failed: agent") && sentence.contains("was lost"), "{sentence}");
    assert!(whole.failed_hosts[0].contains("was lost"), "{:?}", whole.failed_hosts);
    // The remaining agent does all the work, and the result says so.
    let Combined { measurement: whole, failures, .. } =
        coordinator.measure(&fake.server, &GETATTR, &options(2, 100), &mut Unobserved).unwrap();
    assert_eq!(whole.operations, 100);
    assert!(failures[0].to_string().contains("was lost before"), "{failures:?}");
    assert_eq!(whole.failed_hosts.len(), 1);
}

fn until_steady(bound: f64, duration_max: Duration) -> Options {
    let rule = SteadyRule {
        round: Duration::from_millis(100),
        rounds: 3,
        spread: bound,
        slope: bound,
        duration_max,
    };
    Options { length: Length::Steady(rule), warmup: Duration::from_millis(50), ..options(4, 0) }
}

#[test]
fn hosts_become_steady_together_or_report_that_they_did_not() {
    let fake = Fake::start(Fault::None);
    let agents = [TestAgent::start(&[&fake.server]), TestAgent::start(&[&fake.server])];
    let names = agents.each_ref().map(|agent| agent.address.to_string());
    let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
    // The rates of a busy machine do not matter: one rule accepts every rate, the other none.
    for (bound, reached) in [(1e9, true), (0.0, false)] {
        let options = until_steady(bound, Duration::from_millis(800));
        let Combined { measurement: whole, notes, failures } =
            coordinator.measure(&fake.server, &GETATTR, &options, &mut Unobserved).unwrap();
        let steady = whole.steady.unwrap();
        assert_eq!((steady.reached, whole.threads, whole.interrupted), (reached, 4, false));
        assert!((steady.window_s - 0.3).abs() < 1e-9 && (whole.seconds - 0.3).abs() < 1e-9);
        assert_eq!(whole.operations, whole.latency.count);
        let end_s = whole.timeline.last().unwrap().at_s;
        assert!(reached || (end_s - 0.8).abs() < 1e-6, "{end_s}");
        assert_eq!((notes.len(), failures.len()), (1, 0), "{notes:?}");
    }
    let tree = Workload::Metadata { files_per_directory: 5, directories_per_thread: 2, file_bytes: 0 };
    let options = until_steady(1.0, Duration::from_secs(1));
    let why = coordinator.measure(&fake.server, &tree, &options, &mut Unobserved).unwrap_err();
    assert!(why.to_string().contains("no steady state"), "{why}");
    assert_eq!(fake.objects(), 0);
}

/// Acts once after some measured time, and may interrupt the measurement.
struct After<F> {
    seconds: f64,
    act: Option<F>,
    interrupts: bool,
    is_over: bool,
}

impl<F: FnOnce()> Observer for After<F> {
    fn progress(&mut self, progress: &Progress) {
        if progress.elapsed_s > self.seconds
            && let Some(act) = self.act.take()
        {
            act();
            self.is_over = self.interrupts;
        }
    }

    fn is_interrupted(&mut self) -> bool {
        self.is_over
    }
}

#[test]
fn an_interrupted_steady_state_run_keeps_the_last_common_rounds() {
    let fake = Fake::start(Fault::None);
    let agents = [TestAgent::start(&[&fake.server]), TestAgent::start(&[&fake.server])];
    let names = agents.each_ref().map(|agent| agent.address.to_string());
    let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
    let mut impatient = After { seconds: 1.5, act: Some(|| ()), interrupts: true, is_over: false };
    let options = until_steady(0.0, Duration::from_secs(3600));
    let Combined { measurement: whole, notes, failures } =
        coordinator.measure(&fake.server, &GETATTR, &options, &mut impatient).unwrap();
    assert!(whole.interrupted && !whole.steady.unwrap().reached && whole.operations > 0);
    assert!((whole.seconds - 0.3).abs() < 1e-9, "{}", whole.seconds);
    assert_eq!((whole.threads, whole.operations, notes.len()), (4, whole.latency.count, 1), "{notes:?}");
    assert_eq!(failures, []);
}

/// Collects the reported rates.
struct Rates(Vec<f64>);

impl Observer for Rates {
    fn progress(&mut self, progress: &Progress) {
        self.0.push(progress.operations_per_s);
    }
}

/// Interrupts a measurement that reports how far its preparation is.
#[derive(Default)]
struct Prepared(Option<Progress>);

impl Observer for Prepared {
    fn progress(&mut self, progress: &Progress) {
        if !progress.is_measured {
            self.0.get_or_insert_with(|| progress.clone());
        }
    }

    fn is_interrupted(&mut self) -> bool {
        self.0.is_some()
    }
}

#[test]
fn hosts_report_how_far_they_are_in_preparing() {
    let fake = Fake::start(Fault::None);
    let agents = [TestAgent::start(&[&fake.server]), TestAgent::start(&[&fake.server])];
    let names = agents.each_ref().map(|agent| agent.address.to_string());
    let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
    let mut prepared = Prepared::default();
    let options = Options { working_set_bytes: 2 << 30, ..options(2, 1) };
    let workload = Workload::SequentialRead { block_bytes: 1 << 20, shared_file: false };
    // It may end without a result.
    let _ = coordinator.measure(&fake.server, &workload, &options, &mut prepared);
    let progress = prepared.0.expect("a preparation that takes longer than an interval is reported");
    assert_eq!(progress.stage, "all hosts prepare");
    // The other host may not have reported yet.
    assert!(progress.fraction.is_some_and(|fraction| fraction < 1.0) && progress.bytes_per_s > 0.0);
}

#[test]
fn lost_hosts_leave_the_displayed_rates() {
    let fake = Fake::start(Fault::None);
    let agent = TestAgent::start(&[&fake.server]);
    let (operations_per_s, bytes_per_s, p50_ns, p99_ns, elapsed_s, errors) = (1e12, 0.0, 1, 1, 0.1, 0);
    let dead = impostor(move |mut stream| {
        let _: Request = receive(&mut stream, 1 << 20).unwrap();
        send(&mut stream, &Response::Ready { stage: "measure".to_owned() }).unwrap();
        while !matches!(receive(&mut stream, 1 << 20).unwrap(), Request::Go) {}
        send(&mut stream, &Response::Begun).unwrap();
        let progress =
            Response::Progress { operations_per_s, bytes_per_s, p50_ns, p99_ns, elapsed_s, errors };
        send(&mut stream, &progress).unwrap();
    });
    let mut coordinator = Coordinator::connect(&[agent.address.to_string(), dead], &token()).unwrap();
    let mut rates = Rates(Vec::new());
    let options = Options { length: Length::Time(Duration::from_millis(800)), ..options(2, 0) };
    coordinator.measure(&fake.server, &GETATTR, &options, &mut rates).unwrap();
    assert!(rates.0.iter().any(|rate| *rate >= 1e12));
    assert!(rates.0.last().is_some_and(|rate| *rate < 1e12), "{:?}", rates.0);
}

#[test]
fn remaining_hosts_become_steady_without_a_lost_one() {
    let fake = Fake::start(Fault::None);
    let agent = TestAgent::start(&[&fake.server]);
    let dead = impostor(|mut stream| {
        let _: Request = receive(&mut stream, 1 << 20).unwrap();
        send(&mut stream, &Response::Ready { stage: "measure".to_owned() }).unwrap();
        while !matches!(receive(&mut stream, 1 << 20).unwrap(), Request::Go) {}
        send(&mut stream, &Response::Begun).unwrap();
        send(&mut stream, &Response::Round { number: 1, operations: 1, bytes: 0 }).unwrap();
    });
    let names = [agent.address.to_string(), dead];
    let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
    let options = until_steady(1e9, Duration::from_secs(20));
    let Combined { measurement: whole, failures, .. } =
        coordinator.measure(&fake.server, &GETATTR, &options, &mut Unobserved).unwrap();
    assert!(whole.steady.unwrap().reached && whole.threads == 2 && (whole.seconds - 0.3).abs() < 1e-9);
    let sentence = failures[0].to_string();
    assert!(sentence.contains("was lost") && sentence.contains("without it"), "{sentence}");
}

#[test]
fn a_stopped_agent_has_no_part_in_the_result() {
    let fake = Fake::start(Fault::None);
    let timed = Options { length: Length::Time(Duration::from_millis(1500)), ..options(4, 0) };
    for (options, seconds) in [(until_steady(0.0, Duration::from_millis(1500)), 0.3), (timed, 1.5)] {
        let agents = [TestAgent::start(&[&fake.server]), TestAgent::start(&[&fake.server])];
        let names = agents.each_ref().map(|agent| agent.address.to_string());
        let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
        let stop = Arc::clone(&agents[1].stop);
        let act = Some(move || stop.store(true, Ordering::Relaxed));
        let mut operator = After { seconds: 0.15, act, interrupts: false, is_over: false };
        let Combined { measurement: whole, failures, .. } =
            coordinator.measure(&fake.server, &GETATTR, &options, &mut operator).unwrap();
        assert!(failures[0].to_string().contains("was stopped by its operator"), "{failures:?}");
        assert_eq!((whole.threads, whole.interrupted), (2, false));
        assert!((whole.seconds - seconds).abs() < 1e-9, "{}", whole.seconds);
    }
}

#[test]
fn a_silent_agent_is_dropped() {
    let fake = Fake::start(Fault::None);
    let (keep, kept) = std::sync::mpsc::channel();
    let mute = impostor(move |stream| keep.send(stream).unwrap());
    let mut coordinator = Coordinator::connect(&[mute], &token()).unwrap();
    coordinator.silence_timeout = Duration::from_millis(50);
    let error = coordinator.measure(&fake.server, &GETATTR, &options(1, 1), &mut Unobserved).unwrap_err();
    assert!(error.to_string().contains("has said nothing"), "{error}");
    drop(kept);
}

#[test]
fn processor_time_beside_the_coordinator_covers_all_hosts() {
    let fake = Fake::start(Fault::None);
    let agents = [TestAgent::start(&[&fake.server]), TestAgent::start(&[&fake.server])];
    let names = agents.each_ref().map(|agent| agent.address.to_string());
    let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
    let server_pids = vec![std::process::id()];
    let tree = Workload::Metadata { files_per_directory: 50, directories_per_thread: 2, file_bytes: 0 };
    let timed = Options { length: Length::Time(Duration::from_millis(300)), ..options(4, 0) };
    for (workload, options) in [
        (GETATTR, Options { warmup: Duration::from_millis(50), ..timed }),
        (GETATTR, options(4, 4000)),
        (GETATTR, until_steady(1e9, Duration::from_secs(2))),
        (tree, options(4, 1)),
    ] {
        let options = Options { server_pids: server_pids.clone(), ..options };
        let Combined { measurement: whole, .. } =
            coordinator.measure(&fake.server, &workload, &options, &mut Unobserved).unwrap();
        let cost = whole.server.unwrap();
        assert_eq!(cost.pid, std::process::id());
        // Clients, servers and other tests run in this process too.
        assert!(cost.cpu_seconds > 0.0 && cost.cpu_ns_per_operation > 0.0, "{options:?}: {cost:?}");
    }
    let gone = Options { server_pids: vec![u32::MAX], ..options(4, 10) };
    assert!(coordinator.measure(&fake.server, &GETATTR, &gone, &mut Unobserved).is_err());
    coordinator.measure(&fake.server, &GETATTR, &options(4, 10), &mut Unobserved).unwrap();
}

#[test]
fn no_processor_time_is_given_when_a_host_is_lost() {
    let fake = Fake::start(Fault::None);
    let agent = TestAgent::start(&[&fake.server]);
    let dead = impostor(|mut stream| {
        let _: Request = receive(&mut stream, 1 << 20).unwrap();
    });
    let mut coordinator = Coordinator::connect(&[agent.address.to_string(), dead], &token()).unwrap();
    let options = Options { server_pids: vec![std::process::id()], ..options(2, 100) };
    let Combined { measurement: whole, notes, .. } =
        coordinator.measure(&fake.server, &GETATTR, &options, &mut Unobserved).unwrap();
    assert!(whole.server.is_none());
    assert!(notes.iter().any(|note| note.contains("processor time is not known")), "{notes:?}");
}

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn tcp_is_measured_with_an_agent_at_its_other_end() {
    let fake = Fake::start(Fault::None);
    let far = TestAgent::start(&[]);
    let peer = Peer { address: far.address, token: token() };
    let scope = Scope { directory: None, peer: Some(&peer), length: SHORT };
    let agents = [(); 2].map(|()| TestAgent::start_with_peer(&[&fake.server], Some(far.address)));
    let names = agents.each_ref().map(|agent| agent.address.to_string());
    let mut coordinator = Coordinator::connect(&names, &token()).unwrap();
    for hosts in [None, Some(&mut coordinator)] {
        let limits = crate::limits::measure(&fake.server, &scope, hosts, &mut Unobserved).unwrap();
        assert_eq!(limits.tcp_peer, Some(far.address.to_string()));
        assert!(limits.tcp_bytes_per_s.unwrap() > 0.0 && limits.tcp_sent_bytes_per_s.unwrap() > 0.0);
        assert!(limits.null_calls_per_s.unwrap() > 0.0);
    }
    // Other measurements still work.
    coordinator.measure(&fake.server, &GETATTR, &options(2, 10), &mut Unobserved).unwrap();
}

#[test]
fn tcp_is_measured_only_with_the_allowed_peer() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let there = elsewhere.local_addr().unwrap();
    for peer in [None, Some("127.0.0.1:1".parse().unwrap())] {
        let agent = TestAgent::start_with_peer(&[], peer);
        let mut coordinator = Coordinator::connect(&[agent.address.to_string()], &token()).unwrap();
        let why = coordinator.line_rate(there, Direction::Send, SHORT, &mut Unobserved).unwrap_err();
        assert!(why.to_string().contains("not allowed here (--line-rate-peer)"), "{why}");
    }
    assert_eq!(elsewhere.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn streams_need_the_token_and_are_bounded() {
    let far = TestAgent::start(&[]);
    let wrong = Peer { address: far.address, token: Token::new("another token for tests").unwrap() };
    let why = wrong.rate(Direction::Receive, SHORT).unwrap_err().to_string();
    assert!(why.contains("the token is wrong"), "{why}");
    let right = Peer { address: far.address, token: token() };
    let why = right.rate(Direction::Receive, Duration::from_secs(61)).unwrap_err().to_string();
    assert!(why.contains("at most 60 s"), "{why}");
}

#[test]
fn a_limit_without_all_hosts_is_an_error() {
    let far = TestAgent::start(&[]);
    let agent = TestAgent::start_with_peer(&[], Some(far.address));
    let dead = impostor(|mut stream| {
        let _: Request = receive(&mut stream, 1 << 20).unwrap();
    });
    let mut coordinator = Coordinator::connect(&[agent.address.to_string(), dead], &token()).unwrap();
    let why = coordinator.line_rate(far.address, Direction::Receive, SHORT, &mut Unobserved).unwrap_err();
    assert!(why.to_string().contains("was lost"), "{why}");
    // A peer that accepts streams and then disappears.
    let gone = impostor(drop);
    let gone = Peer::parse(&gone, token()).unwrap();
    let why = gone.rate(Direction::Receive, SHORT).unwrap_err().to_string();
    assert!(why.contains("TCP line rate, agent"), "{why}");
}

/// Sends bytes one by one until the peer closes the connection, which must not take long.
fn trickle(mut stream: &TcpStream, mut bytes: impl Iterator<Item = u8>) {
    let began = Instant::now();
    while bytes.next().is_some_and(|byte| stream.write_all(&[byte]).is_ok()) {
        std::thread::sleep(Duration::from_millis(5));
        assert!(began.elapsed() < Duration::from_secs(30), "the agent waits on");
    }
}

#[test]
fn a_peer_that_trickles_bytes_is_dropped_at_its_deadline() {
    let (agent, lines) = TestAgent::start_hasty();
    let connect = || TcpStream::connect(agent.address).unwrap();
    let endless = || [0, 0, 0x10, 0].into_iter().chain(std::iter::repeat(b' '));
    // The greeting.
    trickle(&connect(), endless());
    assert!(lines.recv().unwrap().contains("did not answer in time"));
    // A request of a coordinator.
    let mut coordinator = connect();
    send(&mut coordinator, &Request::Hello { version: VERSION, token: TOKEN.to_owned() }).unwrap();
    trickle(&coordinator, endless());
    // A stream, before it begins and while it is measured.
    let (version, token, direction, length_ms) = (VERSION, TOKEN.to_owned(), Direction::Send, 100);
    for begins in [false, true] {
        let mut stream = connect();
        let token = token.clone();
        send(&mut stream, &Request::Stream { version, token, direction, length_ms }).unwrap();
        if begins {
            send(&mut stream, &Request::Go).unwrap();
        }
        trickle(&stream, endless());
    }
}

#[test]
fn the_log_of_an_agent_is_printable() {
    let (agent, lines) = TestAgent::start_hasty();
    let mut stream = TcpStream::connect(agent.address).unwrap();
    let greeting = br#"{"order":"\u001b[2Jcleared"}"#;
    let bytes = [&u32::try_from(greeting.len()).unwrap().to_be_bytes()[..], greeting].concat();
    stream.write_all(&bytes).unwrap();
    let line = lines.recv().unwrap();
    assert!(line.contains("?[2Jcleared") && !line.contains('\u{1b}'), "{line:?}");
}

#[test]
fn texts_of_agents_are_made_printable() {
    let fake = Fake::start(Fault::None);
    let (bad, good) = ("\u{1b}[31mred\u{202e}\n", "?[31mred??");
    let measurement = crate::run::measure(&fake.server, &GETATTR, &options(1, 10), &mut Unobserved).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _: Request = receive(&mut stream, GREETING_BYTES_MAX).unwrap();
        let host = Host { name: bad.to_owned(), cores: 1, kernel: bad.repeat(100), memory_bytes: None };
        send(&mut stream, &Response::Welcome { version: VERSION, host }).unwrap();
        let _: Request = receive(&mut stream, 1 << 20).unwrap();
        send(&mut stream, &Response::Note { words: bad.repeat(1000) }).unwrap();
        let mut measurement = Box::new(measurement);
        measurement.name = bad.to_owned();
        measurement.published = vec![bad.to_owned()];
        measurement.errors = vec![ErrorCount { cause: bad.to_owned(), count: 1 }];
        measurement.phases.push(Phase {
            procedure: bad.to_owned(),
            seconds: 1.0,
            operations: 1,
            operations_per_s: 1.0,
            latency: Latency::default(),
        });
        send(&mut stream, &Response::Done { measurement }).unwrap();
        let _: Request = receive(&mut stream, 1 << 20).unwrap();
        send(&mut stream, &Response::Refused { why: bad.to_owned() }).unwrap();
    });
    let mut coordinator = Coordinator::connect(&[address], &token()).unwrap();
    let host = coordinator.hosts().remove(0);
    assert_eq!((host.name.as_str(), host.kernel.chars().count()), (good, 256));
    let mut notes = Notes(Vec::new());
    let whole = coordinator.measure(&fake.server, &GETATTR, &options(1, 10), &mut notes).unwrap().measurement;
    assert_eq!((whole.name.as_str(), whole.published.len()), ("GETATTR", 0));
    assert_eq!((whole.errors[0].cause.as_str(), whole.phases[0].procedure.as_str()), (good, good));
    assert!(notes.0[0].contains(good) && notes.0[0].chars().count() < 1100, "{:?}", notes.0);
    let why = coordinator.measure(&fake.server, &GETATTR, &options(1, 10), &mut notes).unwrap_err();
    assert!(why.to_string().ends_with(good), "{why}");
}

/// Collects notes.
struct Notes(Vec<String>);

impl Observer for Notes {
    fn note(&mut self, words: &str) {
        self.0.push(words.to_owned());
    }
}

#[test]
fn an_agent_that_floods_the_coordinator_is_slowed_down() {
    const RESPONSES: u32 = 200;
    let (sender, sent) = channel();
    let flooding = impostor(move |mut stream| {
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let words = "x".repeat(1 << 20);
        let is_taken = |_: &u32| send(&mut stream, &Response::Note { words: words.clone() }).is_ok();
        sender.send((0..RESPONSES).take_while(is_taken).count()).unwrap();
    });
    // An idle coordinator takes nothing from its queue.
    let coordinator = Coordinator::connect(&[flooding], &token()).unwrap();
    let sent = sent.recv().unwrap();
    assert!(sent < RESPONSES as usize / 2, "{sent} MiB were taken");
    drop(coordinator);
}

#[test]
fn an_agent_that_sends_notes_without_end_is_lost_and_the_rest_counts() {
    let fake = Fake::start(Fault::None);
    let agent = TestAgent::start(&[&fake.server]);
    let noisy = impostor(|mut stream| {
        let note = Response::Note { words: "again".to_owned() };
        while send(&mut stream, &note).is_ok() {}
    });
    let mut coordinator = Coordinator::connect(&[agent.address.to_string(), noisy], &token()).unwrap();
    let mut notes = Notes(Vec::new());
    let combined = coordinator.measure(&fake.server, &GETATTR, &options(2, 100), &mut notes).unwrap();
    assert_eq!((combined.measurement.operations, notes.0.len()), (50, 100));
    assert!(combined.failures[0].to_string().contains("notes without end"), "{:?}", combined.failures);
}

#[test]
fn malformed_input_closes_only_its_connection() {
    let fake = Fake::start(Fault::None);
    let agent = TestAgent::start(&[&fake.server]);
    let seed = fresh_seed();
    println!("seed {seed}");
    let mut random = generator(seed, 0);
    let mut frame = Vec::new();
    send(&mut frame, &Request::Hello { version: VERSION, token: TOKEN.to_owned() }).unwrap();
    let mut stream = Vec::new();
    let (version, direction, length_ms) = (VERSION, Direction::Receive, 1000);
    send(&mut stream, &Request::Stream { version, token: TOKEN.to_owned(), direction, length_ms }).unwrap();
    let mut tries: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0; 4],
        vec![0xff; 4],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [&[0, 0, 0, 2], &b"{}"[..]].concat(),
        [&[0, 0, 0, 16], "[".repeat(16).as_bytes()].concat(),
        frame[..frame.len() - 1].to_vec(),
        [&frame[..], &[0xff; 4]].concat(),
        stream.clone(),
        [&stream[..], &frame[..]].concat(),
        [&frame[..], &[0, 0, 0, 3], b"{\"}"].concat(),
    ];
    for _ in 0..40 {
        let mut bytes = frame.clone();
        let place = random.usize(..bytes.len());
        bytes[place] ^= random.u8(1..);
        tries.push(bytes);
    }
    for bytes in tries {
        let mut stream = TcpStream::connect(agent.address).unwrap();
        // The agent may close the connection before it has read everything.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut said = Vec::new();
        if stream.read_to_end(&mut said).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock) {
            panic!("the agent holds on to {bytes:?}");
        }
    }
    let mut coordinator = Coordinator::connect(&[agent.address.to_string()], &token()).unwrap();
    coordinator.measure(&fake.server, &GETATTR, &options(1, 1), &mut Unobserved).unwrap();
}

#[test]
fn frames_must_be_bounded_and_complete() {
    let word = Response::Note { words: "x".repeat(100) };
    let mut frame = Vec::new();
    send(&mut frame, &word).unwrap();
    assert!(matches!(receive(&mut &frame[..], frame.len()), Ok(Response::Note { .. })));
    let refused = receive::<Response>(&mut &frame[..], frame.len() - 5).unwrap_err();
    assert!(refused.to_string().contains("are allowed"), "{refused}");
    for length in 0..frame.len() {
        assert!(receive::<Response>(&mut &frame[..length], 1 << 20).is_err());
    }
    let unknown = br#"{"word":"pong","number":1,"more":2}"#;
    let bytes = [&u32::try_from(unknown.len()).unwrap().to_be_bytes()[..], unknown].concat();
    assert!(receive::<Response>(&mut &bytes[..], 1 << 20).is_err());
}

#[test]
fn merged_percentiles_cover_all_operations() {
    let fake = Fake::start(Fault::None);
    let run = |operations| {
        crate::run::measure(&fake.server, &GETATTR, &options(1, operations), &mut Unobserved).unwrap()
    };
    let (mut one, mut two) = (run(10), run(20));
    let (mut all, mut left, mut right) = (new_histogram(), new_histogram(), new_histogram());
    for value in 1..2000u64 {
        all.saturating_record(value * value);
        if value % 5 == 0 { &mut left } else { &mut right }.saturating_record(value * value);
    }
    (one.latency, two.latency) = (Latency::of(&left), Latency::of(&right));
    (one.seconds, two.seconds) = (2.0, 3.0);
    let whole = merge(&[one.clone(), two.clone()]).unwrap();
    assert_eq!(whole.latency, Latency::of(&all));
    assert_eq!((whole.operations, whole.seconds, whole.operations_per_s), (30, 3.0, 10.0));
    two.latency.histogram = "nonsense".to_owned();
    assert!(merge(&[one, two]).is_err());
    assert!(merge(&[]).is_err());
}
