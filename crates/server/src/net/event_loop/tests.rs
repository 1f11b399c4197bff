//! Event loops with a scripted service, over real sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64};

use nfs::admission::{Awaited, AwaitedLimit, Needs};
use nfs::charge::{Charge, Place, Work};
use nfs::limits::PAYLOAD_BYTES_MIN;
use nfs::service::{
    ArrivingPayload, CallId, ConnectionId, Incoming, IncomingRecord, KeptRecord, Outcome, Progress,
    ReplyBuffer, Wait,
};
use nfs::summary::{CallSummary, OperationId, Status, Transferred};
use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketType};
use volume::ids::{Seq, VolumeId};
use volume::media::memory::MemoryMedia;
use volume::request::{Access, Durability, Durable};
use volume::time::Time;
use volume::{CreateOptions, Options, Pool, Volume, VolumeOptions};
use wire::limits::RECORD_BYTES_MAX;
use wire::record::{MARK_BYTES, OpenRecord, write_record};
use wire::xdr::Encoder;

use super::*;
use crate::limits::{
    CONNECTION_BYTES_MAX, CONNECTIONS_MAX, LENT_BYTES_MAX, LONG_NICENESS, LOOP_BYTES_MIN, REQUESTS_EIGHTHS,
};
use crate::net::listener::listen_at;
use crate::net::loops::{LoopSettings, Loops};
use crate::rates::tests::{Scratch, rates_in};

mod callbacks;
mod connections;
mod leaving;
mod long_calls;
mod memory;
mod payloads;
mod places;
mod rates;
mod shares;
mod turns;

/// Procedures of the script. An argument follows the header.
const ECHO: u32 = 0;
/// Reply when the sequence of the argument is durable.
const WAIT: u32 = 1;
/// Reply where blocking is allowed, and the counter of turns is zero.
const BLOCK: u32 = 2;
/// Busy until the counter is zero.
const BUSY: u32 = 3;
/// Reply with the number of bytes in the argument.
const LARGE: u32 = 4;
const CLOSE: u32 = 5;
const NOTHING: u32 = 6;
/// Reply after the number of milliseconds in the argument.
const HOLD: u32 = 7;

/// As `LARGE`, where blocking is allowed.
const SLOW: u32 = 8;

/// Busy until there is room; takes one unit. To be put off takes the number of microseconds in the argument.
const TAKE: u32 = 9;

/// As `BLOCK`, with as many bytes behind the argument as it says, which are received apart.
const PAYLOAD: u32 = 10;

/// Obstructed until nothing is in the way any more. It keeps an order if the argument is not zero.
const OBSTRUCTED: u32 = 13;

/// Takes the number of microseconds in the argument.
const LONG: u32 = 11;

/// Takes as many, where blocking is allowed.
const LONG_BLOCK: u32 = 12;

/// Expected to wait for the journal. Busy until there is room for data, of which it takes one unit, if the argument is not zero.
const ELSEWHERE: u32 = 14;

/// Counts as a READ of as many bytes as the argument says, and replies with none.
const CHARGED: u32 = 15;

/// Counts as a READ of one byte of volume 1 and of as many of volume 2 as the argument says, where it reads them.
const APART: u32 = 16;

/// Gives its turn up again and again, after a millisecond each time, until nothing is in the way any more; then as `LARGE`.
const TURNS: u32 = 17;

/// Waits in the middle until nothing is in the way any more; then as `LARGE`.
const WAITS: u32 = 18;

/// Busy until nothing is in the way any more, where changes of the journal wait; then as `LARGE`.
const FULL: u32 = 19;

/// As `SLOW`, and takes two milliseconds.
const DISK: u32 = 20;

/// The argument of a failure reply.
const FAILED: u32 = u32::MAX;

/// The argument of the reply to a call that ended where it stood.
const ENDED: u32 = u32::MAX - 1;

/// The argument's place in a call, in words.
const ARGUMENT: usize = 10;

/// Where the payload of a call begins, in bytes.
const PAYLOAD_AT: usize = 4 * (ARGUMENT + 1);

struct Fake {
    volume: Arc<Volume>,
    durable: AtomicU64,
    failed: AtomicU64,
    busy: AtomicU64,
    blocked: AtomicU64,
    /// How often `BLOCK` gives its turn up.
    turns: AtomicU64,
    /// How nice the threads were that had its turns.
    niceness: Mutex<Vec<i32>>,
    room: AtomicU64,
    /// Whether nothing is in the way of `OBSTRUCTED`.
    is_free: AtomicBool,
    /// Of `TAKE`: the calls that were tried, and those that took room, in order.
    tried: Mutex<BTreeSet<u32>>,
    /// Of `PAYLOAD`: the data by xid, and whether it was received apart.
    payloads: Mutex<BTreeMap<u32, (Vec<u8>, bool)>>,
    taken: Mutex<Vec<u32>>,
    /// The connection of each call.
    connections: Mutex<Vec<ConnectionId>>,
    closed: Mutex<Vec<ConnectionId>>,
    /// Callbacks that could not be sent.
    unsent: Mutex<Vec<u64>>,
    /// Addresses that no export admits.
    strangers: Mutex<Vec<IpAddr>>,
}

impl Fake {
    fn new() -> Fake {
        Fake {
            volume: volume(1),
            durable: AtomicU64::default(),
            failed: AtomicU64::default(),
            busy: AtomicU64::default(),
            blocked: AtomicU64::default(),
            turns: AtomicU64::default(),
            niceness: Mutex::default(),
            room: AtomicU64::default(),
            is_free: AtomicBool::default(),
            tried: Mutex::default(),
            payloads: Mutex::default(),
            taken: Mutex::default(),
            connections: Mutex::default(),
            closed: Mutex::default(),
            unsent: Mutex::default(),
            strangers: Mutex::default(),
        }
    }
}

impl Fake {
    /// Takes a turn of `BLOCK`. Returns whether it is not the last.
    fn gives_turn_up(&self) -> bool {
        let mut niceness = self.niceness.lock();
        if niceness.len() < 10 {
            niceness.push(rustix::process::getpriority_process(None).unwrap());
        }
        take_one(&self.turns)
    }

    /// Tries to take room for a call of `TAKE`.
    fn takes_room(&self, xid: u32) -> bool {
        self.tried.lock().insert(xid);
        let takes = take_one(&self.room);
        if takes {
            self.taken.lock().push(xid);
        }
        takes
    }

    fn keep_payload(&self, record: &IncomingRecord<'_>) {
        let data = match record.payload() {
            Some(payload) => payload.data().slices().flatten().copied().collect(),
            None => record.bytes()[PAYLOAD_AT..].to_vec(),
        };
        self.payloads.lock().insert(word(record.bytes(), 0), (data, record.payload().is_some()));
    }
}

/// Takes one, if there is one.
fn take_one(count: &AtomicU64) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn word(bytes: &[u8], number: usize) -> u32 {
    u32::from_be_bytes(bytes[number * 4..number * 4 + 4].try_into().unwrap())
}

/// An empty volume in memory.
pub(crate) fn volume(id: u64) -> Arc<Volume> {
    volume_on(MemoryMedia::always_powered(16 << 20, 4 << 30), id)
}

/// An empty volume on these media.
pub(crate) fn volume_on(media: Arc<MemoryMedia>, id: u64) -> Arc<Volume> {
    let options = CreateOptions {
        pool: volume::ids::PoolId(id),
        journal_id: [2; 16],
        volume: VolumeOptions {
            id: VolumeId(id),
            name: "main".to_owned(),
            size: None,
            handle_secret: [1; 16],
            root_mode: 0o755,
            root_owner: (0, 0),
        },
        now: Time::EPOCH,
    };
    Pool::create(media.as_ref(), &options).unwrap();
    let options = Options { memory: 64 << 20, segment_bytes: 4 << 20, cache_seed: Some(0) };
    Arc::new(Volume::open(media, &options, Time::EPOCH).unwrap())
}

impl Calls for Fake {
    fn handle(&self, incoming: &Incoming<'_>, _: &mut Option<Progress>, out: &mut ReplyBuffer) -> Outcome {
        let (call, access) = (incoming.record.bytes(), incoming.access);
        let (xid, procedure, argument) = (word(call, 0), word(call, 5), word(call, ARGUMENT));
        self.connections.lock().push(incoming.connection.id);
        let mut reply = |length: usize| {
            let record = OpenRecord::begin(&mut out.bytes);
            Encoder::new(&mut out.bytes).u32(xid);
            Encoder::new(&mut out.bytes).u32(argument);
            out.bytes.extend(std::iter::repeat_n(7, length));
            record.seal(&mut out.bytes);
        };
        let mut summary = CallSummary::of_one(OperationId::default(), Status::OK);
        let now = Outcome::Reply { after: None, hold: Duration::ZERO, summary: summary.clone() };
        match procedure {
            WAIT => {
                reply(0);
                let durability = Durability::of(Seq(argument.into()));
                let pool = Arc::clone(self.volume.pool());
                Outcome::Reply { after: Some(Wait { pool, durability }), hold: Duration::ZERO, summary }
            }
            BLOCK | SLOW | DISK | PAYLOAD | LONG_BLOCK if access == Access::Cached => Outcome::WouldBlock,
            BLOCK if self.gives_turn_up() => Outcome::WouldBlock,
            BLOCK => {
                self.blocked.fetch_add(1, Ordering::SeqCst);
                reply(0);
                now
            }
            TURNS if access == Access::Cached || !self.is_free.load(Ordering::SeqCst) => {
                std::thread::sleep(Duration::from_millis(u64::from(access == Access::Blocking)));
                Outcome::WouldBlock
            }
            OBSTRUCTED | WAITS if !self.is_free.load(Ordering::SeqCst) => Outcome::Later,
            BUSY if take_one(&self.busy) => Outcome::Busy(None),
            FULL if !self.is_free.load(Ordering::SeqCst) => Outcome::Busy(None),
            PAYLOAD => {
                self.keep_payload(incoming.record);
                reply(0);
                now
            }
            LARGE | SLOW | DISK | CHARGED | APART | TURNS | WAITS | FULL => {
                std::thread::sleep(Duration::from_millis(if procedure == DISK { 2 } else { 0 }));
                reply(if matches!(procedure, CHARGED | APART) {
                    0
                } else {
                    usize::try_from(argument).unwrap()
                });
                summary.volume = Some(VolumeId(if procedure == APART { 2 } else { 1 }));
                summary.transferred = Transferred { read: argument, written: 0 };
                Outcome::Reply { after: None, hold: Duration::ZERO, summary }
            }
            TAKE if !self.takes_room(xid) => Outcome::Busy(None),
            ELSEWHERE if argument > 0 && !take_one(&self.room) => {
                Outcome::Busy(Some((VolumeId(1), AwaitedLimit::Data)))
            }
            LONG | LONG_BLOCK => {
                std::thread::sleep(Duration::from_micros(argument.into()));
                reply(0);
                now
            }
            CLOSE => Outcome::Close,
            NOTHING => Outcome::Nothing,
            HOLD => {
                reply(0);
                Outcome::Reply { after: None, hold: Duration::from_millis(argument.into()), summary }
            }
            _ => {
                reply(0);
                now
            }
        }
    }

    fn may_end(&self, record: &KeptRecord, _: Option<&Progress>, _: &Outcome) -> bool {
        matches!(word(record.decode().bytes(), 5), TURNS | WAITS | FULL)
    }

    fn end(&self, incoming: &Incoming<'_>, _: &mut Option<Progress>, out: &mut ReplyBuffer) -> Outcome {
        write_record(&mut out.bytes, |out| {
            out.u32(word(incoming.record.bytes(), 0));
            out.u32(ENDED);
        });
        let summary = CallSummary::of_one(OperationId::default(), Status::OK);
        Outcome::Reply { after: None, hold: Duration::ZERO, summary }
    }

    fn arriving(&self, start: &[u8], _: usize) -> Option<ArrivingPayload> {
        let length = usize::try_from(word(start.get(..PAYLOAD_AT)?, ARGUMENT)).unwrap();
        let is_large = word(start, 5) == PAYLOAD && length >= PAYLOAD_BYTES_MIN;
        is_large.then(|| ArrivingPayload::new(PAYLOAD_AT, self.volume.arriving(0, length)))
    }

    fn needs<'r>(&self, record: &IncomingRecord<'r>) -> Needs<'r> {
        let call = record.bytes();
        let reply_bytes_max = match word(call, 5) {
            LARGE | SLOW | DISK | TURNS | WAITS | FULL => {
                usize::try_from(word(call, ARGUMENT)).unwrap() + 100
            }
            _ => 100,
        };
        let (keeps_order, limit) = match word(call, 5) {
            TAKE => {
                std::thread::sleep(Duration::from_micros(word(call, ARGUMENT).into()));
                (true, AwaitedLimit::Data)
            }
            ELSEWHERE | FULL => (true, AwaitedLimit::Journal),
            OBSTRUCTED => (word(call, ARGUMENT) > 0, AwaitedLimit::Data),
            _ => (false, AwaitedLimit::Data),
        };
        let change = keeps_order.then_some((&call[..0], limit));
        Needs { reply_bytes_max, change }
    }

    fn queues(&self) -> usize {
        AwaitedLimit::COUNT
    }

    fn queue_of(&self, (_, limit): Awaited) -> Option<usize> {
        Some(limit.number())
    }

    fn expected_queue(&self, needs: &Needs<'_>, _: &Ends) -> Option<usize> {
        needs.change.map(|(_, limit)| limit.number())
    }

    fn charge(&self, record: &IncomingRecord<'_>, _: &Ends) -> Option<Charge> {
        charge_of(record)
    }

    fn note_held(&self, _: &IncomingRecord<'_>, _: Ends) {}

    fn admits(&self, client: IpAddr) -> bool {
        !self.strangers.lock().contains(&client)
    }

    fn connection_closed(&self, connection: ConnectionId) {
        self.closed.lock().push(connection);
    }

    fn callback_failed(&self, callback: u64) {
        self.unsent.lock().push(callback);
    }

    fn commit(&self, _: bool) -> bool {
        false
    }

    fn await_tenure(&self) {}

    fn durable(&self, wait: &Wait) -> Durable {
        if wait.durability.seq.0 <= self.durable.load(Ordering::SeqCst) {
            Durable::Yes
        } else if self.failed.load(Ordering::SeqCst) > 0 {
            Durable::Failed
        } else {
            Durable::NotYet
        }
    }

    fn failure_reply(&self, call: CallId, out: &mut Vec<u8>) {
        write_record(out, |out| {
            out.u32(call.xid);
            out.u32(FAILED);
        });
    }
}

/// What calls count towards rate limits: they read from volume 1, `LARGE` and `CHARGED` as many bytes as they say, and others
/// none; `HOLD` is urgent. `APART` reads from volume 2 as well.
fn charge_of(record: &IncomingRecord<'_>) -> Option<Charge> {
    let (header, arguments) = record.call().ok()?;
    let bytes = if matches!(header.procedure, LARGE | CHARGED) { arguments.clone().u32().ok()? } else { 0 };
    if header.procedure == APART {
        let bytes = arguments.clone().u32().ok()?;
        let place = |volume, bytes| Place { volume: VolumeId(volume), work: Work::read(bytes) };
        return Some(Charge::of_several(Work::read(bytes + 1), vec![place(1, 1), place(2, bytes)]));
    }
    let charge = Charge::of_one(Some(VolumeId(1)), Work::read(bytes));
    Some(if header.procedure == HOLD { charge.urgent() } else { charge })
}

struct Harness {
    fake: Arc<Fake>,
    loops: Loops,
    address: SocketAddr,
    rates: Arc<Rates>,
    _scratch: Scratch,
}

impl Harness {
    fn new(threads: usize) -> Harness {
        Harness::with("127.0.0.1:0", threads, CONNECTIONS_MAX)
    }

    fn with(address: &str, threads: usize, connections: usize) -> Harness {
        Harness::with_memory(address, threads, connections, 0)
    }

    /// Serves with this many bytes of memory for requests and replies, or the least.
    fn with_memory(address: &str, threads: usize, connections: usize, request_bytes: usize) -> Harness {
        let listener = listen_at(address.parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let fake = Arc::new(Fake::new());
        let tally = TallySettings { clients: 2, slow: Duration::from_secs(3600) };
        let scratch = Scratch::new();
        let rates = rates_in(&scratch.0, &[1, 2]);
        let settings = LoopSettings {
            threads,
            workers: 2,
            request_bytes,
            buffer_bytes: 1 << 30,
            connections,
            tally,
            ends_by_reset: false,
        };
        let loops =
            Loops::start(settings, vec![listener], Arc::clone(&fake) as Arc<dyn Calls>, Arc::clone(&rates))
                .unwrap();
        Harness { fake, loops, address, rates, _scratch: scratch }
    }

    fn client(&self) -> Client {
        Client::new(TcpStream::connect(self.address).unwrap())
    }

    /// Connects from another address of this machine.
    fn client_at(&self, client: &str) -> Client {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::new(client.parse().unwrap(), 0)).unwrap();
        rustix::net::connect(&socket, &self.address).unwrap();
        Client::new(TcpStream::from(socket))
    }

    /// Sums a counter over the loops.
    fn count(&self, counter: fn(&Counters) -> &AtomicU64) -> u64 {
        self.loops.counters.iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum()
    }

    fn announce(&self) {
        for mailbox in &self.loops.mailboxes {
            mailbox.announce_progress();
        }
    }

    fn held_bytes(&self) -> usize {
        self.loops.counters.iter().map(|counters| counters.held_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Long calls that ended to make room for others.
    fn calls_cut_short(&self) -> u64 {
        self.loops.counters.iter().map(|counters| counters.cut_short.load(Ordering::Relaxed)).sum()
    }

    /// Calls in retry queues.
    fn retry_queued(&self) -> usize {
        self.loops.counters.iter().map(|counters| counters.retry_queued.load(Ordering::Relaxed)).sum()
    }

    fn wait_until(&self, what: &str, condition: impl Fn(&Harness) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < Duration::from_secs(20), "{what} did not happen");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Client {
    stream: TcpStream,
}

fn call(xid: u32, procedure: u32, argument: u32, padding: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_record(&mut bytes, |out| {
        // The header has the credential and the verifier of AUTH_NONE: flavor and length.
        for value in [xid, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0, argument] {
            out.u32(value);
        }
        out.raw(&vec![0; padding]);
    });
    bytes
}

impl Client {
    fn new(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream }
    }

    fn send(&mut self, xid: u32, procedure: u32, argument: u32) {
        self.stream.write_all(&call(xid, procedure, argument, 0)).unwrap();
    }

    /// Returns the xid and the argument of the next reply, and the length of the rest.
    fn reply(&mut self) -> (u32, u32, usize) {
        self.try_reply().unwrap()
    }

    /// Does the same, or fails if the connection was closed.
    fn try_reply(&mut self) -> io::Result<(u32, u32, usize)> {
        let mut mark = [0; MARK_BYTES];
        self.stream.read_exact(&mut mark)?;
        let mut record = vec![0; usize::try_from(u32::from_be_bytes(mark) & !(1 << 31)).unwrap()];
        self.stream.read_exact(&mut record)?;
        Ok((word(&record, 0), word(&record, 1), record.len() - 8))
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

#[test]
fn many_calls_in_one_segment_are_all_answered() {
    let harness = Harness::new(2);
    for _ in 0..3 {
        let mut client = harness.client();
        let batch: Vec<u8> = (0..5000).flat_map(|xid| call(xid, ECHO, xid + 1, 0)).collect();
        let mut sender = client.stream.try_clone().unwrap();
        let sending = std::thread::spawn(move || sender.write_all(&batch).unwrap());
        for xid in 0..5000 {
            assert_eq!(client.reply(), (xid, xid + 1, 0));
        }
        sending.join().unwrap();
    }
    harness.loops.stop();
}

#[test]
fn calls_arrive_in_pieces_and_fragments() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    client.stream.set_nodelay(true).unwrap();
    for byte in call(1, ECHO, 9, 0) {
        client.stream.write_all(&[byte]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.reply(), (1, 9, 0));
    let whole = call(2, ECHO, 10, 600_000);
    let (first, second) = whole[MARK_BYTES..].split_at(1000);
    let mut fragments = Vec::new();
    fragments.extend(u32::try_from(first.len()).unwrap().to_be_bytes());
    fragments.extend(first);
    fragments.extend((u32::try_from(second.len()).unwrap() | 1 << 31).to_be_bytes());
    fragments.extend(second);
    client.stream.write_all(&fragments).unwrap();
    assert_eq!(client.reply(), (2, 10, 0));
    harness.loops.stop();
}

#[test]
fn replies_wait_for_durability_without_delaying_others() {
    let harness = Harness::new(2);
    let mut client = harness.client();
    client.send(1, WAIT, 20);
    client.send(2, WAIT, 10);
    client.send(3, ECHO, 0);
    assert_eq!(client.reply(), (3, 0, 0));
    harness.fake.durable.store(15, Ordering::SeqCst);
    harness.announce();
    assert_eq!(client.reply(), (2, 10, 0));
    harness.fake.durable.store(20, Ordering::SeqCst);
    harness.announce();
    assert_eq!(client.reply(), (1, 20, 0));
    client.send(4, WAIT, 21);
    harness.wait_until("parking", |harness| {
        harness.loops.counters.iter().any(|counters| counters.parked.load(Ordering::Relaxed) > 0)
    });
    harness.fake.failed.store(1, Ordering::SeqCst);
    harness.announce();
    assert_eq!(client.reply(), (4, FAILED, 0));
    harness.loops.stop();
}

#[test]
fn blocked_busy_and_refused_calls_end_as_they_should() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    client.send(1, BLOCK, 0);
    assert_eq!(client.reply(), (1, 0, 0));
    assert_eq!(harness.fake.blocked.load(Ordering::SeqCst), 1);
    harness.fake.busy.store(40, Ordering::SeqCst);
    for xid in 2..30 {
        client.send(xid, BUSY, 0);
    }
    let mut answered: Vec<u32> = (2..30).map(|_| client.reply().0).collect();
    answered.sort_unstable();
    assert_eq!(answered, (2..30).collect::<Vec<_>>());
    client.send(30, NOTHING, 0);
    client.send(31, HOLD, 50);
    let start = Instant::now();
    assert_eq!(client.reply(), (31, 50, 0));
    assert!(start.elapsed() >= Duration::from_millis(45));
    client.send(32, ECHO, 0);
    client.send(33, CLOSE, 0);
    assert_eq!(client.reply(), (32, 0, 0), "earlier replies are sent");
    assert!(client.is_closed());
    harness.loops.stop();
}

#[test]
fn a_long_call_takes_turns_with_others_until_its_client_is_gone() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    harness.fake.turns.store(5, Ordering::SeqCst);
    client.send(1, BLOCK, 0);
    assert_eq!(client.reply(), (1, 0, 0));
    assert_eq!(harness.fake.turns.load(Ordering::SeqCst), 0);
    harness.fake.turns.store(u64::MAX, Ordering::SeqCst);
    client.send(2, BLOCK, 0);
    client.send(3, SLOW, 0);
    assert_eq!(client.reply(), (3, 0, 0), "a worker serves others in between");
    // A malformed record closes the connection.
    client.stream.write_all(&u32::MAX.to_be_bytes()).unwrap();
    assert!(client.is_closed());
    harness.wait_until("the end of the call", |harness| {
        let before = harness.fake.turns.load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        before > 0 && before == harness.fake.turns.load(Ordering::SeqCst)
    });
    harness.loops.stop();
}

#[test]
fn what_remains_of_a_long_call_leaves_the_processor_to_others() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    harness.fake.turns.store(2, Ordering::SeqCst);
    client.send(1, BLOCK, 0);
    assert_eq!(client.reply(), (1, 0, 0));
    let own = rustix::process::getpriority_process(None).unwrap();
    let nicer = (own + LONG_NICENESS).min(19);
    assert_eq!(*harness.fake.niceness.lock(), [own, nicer, nicer]);
    harness.loops.stop();
}

#[test]
fn calls_outlive_the_last_connection_of_their_origin() {
    let harness = Harness::new(1);
    harness.fake.busy.store(3, Ordering::SeqCst);
    for procedure in [BLOCK, SLOW, BUSY] {
        let mut client = harness.client_at("127.0.0.2");
        let mut bytes = call(1, procedure, 10, 0);
        // A malformed record closes the connection while the call before it waits.
        bytes.extend(u32::MAX.to_be_bytes());
        client.stream.write_all(&bytes).unwrap();
        // If the two are read apart, the call may be answered before.
        let ended = client.stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "it stays open");
    }
    let mut other = harness.client();
    for xid in 0..10 {
        other.send(xid, BLOCK, 0);
        assert_eq!(other.reply(), (xid, 0, 0));
    }
    harness.loops.stop();
}

#[test]
fn records_over_the_limit_close_the_connection() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    client.stream.write_all(&(1_u32 << 31 | 64 << 20).to_be_bytes()).unwrap();
    assert!(client.is_closed());
    harness
        .wait_until("closing", |harness| harness.loops.counters[0].connections.load(Ordering::Relaxed) == 0);
    assert!(harness.held_bytes() == 0);
    harness.loops.stop();
}

#[test]
fn clients_that_do_not_read_cost_bounded_memory() {
    let harness = Harness::new(1);
    let mut client = harness.client();
    let mut sender = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        for xid in 0..20_000 {
            let argument = if xid < 64 { 1 << 20 } else { 0 };
            sender.write_all(&call(xid, LARGE, argument, 500)).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    // A growing vector may have twice the memory it needs.
    let bound = 2 * CONNECTION_BYTES_MAX + 4 * RECORD_BYTES_MAX;
    assert!(harness.held_bytes() <= bound, "{} bytes are held", harness.held_bytes());
    for xid in 0..20_000 {
        assert_eq!(client.reply().0, xid);
    }
    sending.join().unwrap();
    harness.loops.stop();
}

#[test]
fn records_complete_one_at_a_time_when_memory_is_short() {
    let harness = Harness::new(1);
    let size = 1 << 20;
    let whole = call(1, ECHO, 5, size);
    let mut clients: Vec<Client> = (0..40).map(|_| harness.client()).collect();
    // Each sends half a record, together more than the loop may hold.
    for client in &mut clients {
        client.stream.set_nonblocking(true).unwrap();
    }
    let mut sent = vec![0; clients.len()];
    let mut answered = 0;
    let start = Instant::now();
    let mut half = true;
    while answered < clients.len() {
        assert!(start.elapsed() < Duration::from_secs(60), "{answered} of {} were answered", clients.len());
        let mut moved = false;
        for (client, sent) in clients.iter_mut().zip(&mut sent) {
            let until = if half { whole.len() / 2 } else { whole.len() };
            if *sent < until
                && let Ok(count) = client.stream.write(&whole[*sent..until])
            {
                *sent += count;
                moved = true;
            }
            let mut reply = [0; 12];
            if *sent == whole.len() && client.stream.peek(&mut reply).is_ok_and(|count| count == 12) {
                *sent += 1;
                answered += 1;
            }
        }
        assert!(harness.held_bytes() <= LOOP_BYTES_MIN + 3 * RECORD_BYTES_MAX, "{}", harness.held_bytes());
        if !moved {
            half = false;
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    harness.loops.stop();
}

#[test]
fn stopping_finishes_calls_in_flight() {
    let harness = Harness::new(2);
    let mut client = harness.client();
    client.send(1, WAIT, 5);
    client.send(2, BLOCK, 0);
    assert_eq!(client.reply(), (2, 0, 0));
    let fake = Arc::clone(&harness.fake);
    let mailboxes = harness.loops.mailboxes.clone();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        fake.durable.store(5, Ordering::SeqCst);
        for mailbox in mailboxes {
            mailbox.announce_progress();
        }
    });
    harness.loops.stop();
    later.join().unwrap();
    assert_eq!(client.reply(), (1, 5, 0));
    assert!(client.is_closed());
}

#[test]
fn a_thousand_idle_connections_hold_little_memory() {
    let harness = Harness::new(2);
    let mut clients: Vec<Client> = (0..1000).map(|_| harness.client()).collect();
    for (xid, client) in (0..).zip(&mut clients) {
        client.stream.write_all(&call(xid, ECHO, 1, 100_000)).unwrap();
        assert_eq!(client.reply(), (xid, 1, 0));
    }
    harness.wait_until("giving memory back", |harness| harness.held_bytes() < 100_000);
    drop(clients);
    harness.wait_until("noticing", |harness| {
        harness.loops.counters.iter().all(|counters| counters.connections.load(Ordering::Relaxed) == 0)
    });
    harness.loops.stop();
}
