//! The network between clients and server, time, and disturbances.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use nfs::charge::CopyTerms;
use nfs::service::{ConnectionId, Destination, Incoming, IncomingRecord, ReplyBuffer};
use wire::nfs4::*;

use super::client::{Choice, Client, Names, Phase, shared_name};
use super::message::{self, Results};
use super::op::{NameOp, Op, REGIONS};
use super::server::{LEASE, Reply, SentRequest, Server};
use super::state::{HeldState, StateKind};
use super::{Plan, Tally};
use crate::engine::START;
use crate::random::Random;

/// The number of trace lines kept.
const TRACE_LINES: usize = 60;
/// Rounds at the end before the run is given up.
const ATTEMPTS_MAX: usize = 3000;
/// How far the wall clock may be wrong, in seconds: more than two leases. Twice that and the time of a run are less than
/// the five minutes, by the wall clock, for which replies are remembered after a crash.
const WALL_CLOCK_ERROR_MAX: u64 = 75;
/// When the last long silence may begin, in nanoseconds after the start.
const LAST_LONG_SILENCE: i64 = 60_000_000_000;

/// A client's request, and what is known of it.
#[derive(Debug)]
pub(super) struct IssuedCall {
    pub(super) client: usize,
    pub(super) slot: usize,
    pub(super) xid: u32,
    pub(super) op: Op,
    pub(super) record: Vec<u8>,
    /// The server's answer since its last start.
    pub(super) answer: Option<Vec<u8>>,
    /// Whether the client received the answer.
    pub(super) delivered: bool,
    /// Whether an earlier instance of the server answered, and crashed before the client received it.
    pub(super) answered_before_crash: bool,
    /// When the server received what it answered last.
    pub(super) received_at: i64,
    /// The index of each region's last value when the request was executed.
    pub(super) region_marks: [usize; REGIONS],
}

/// The values that a region can have: the last one now, those from `safe` on after a crash.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) values: Vec<u64>,
    pub(super) safe: usize,
}

/// A file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) handle: Option<Vec<u8>>,
    pub(super) regions: Vec<Region>,
}

impl File {
    pub(super) fn new(handle: Option<Vec<u8>>) -> File {
        File { handle, regions: vec![Region { values: vec![0], safe: 0 }; REGIONS] }
    }
}

/// Clients, server, network and checker.
pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) random: Random,
    pub(super) now: i64,
    pub(super) server: Server,
    pub(super) clients: Vec<Client>,
    pub(super) calls: Vec<IssuedCall>,
    pub(super) files: Vec<File>,
    /// The state that the server must know.
    pub(super) held: Vec<HeldState>,
    /// When the server said that the client of a stateid was replaced by its next instance. Answers to what it received before may
    /// come later.
    pub(super) replaced: std::collections::BTreeMap<[u8; 12], i64>,
    /// The client and the file of each stateid that clients were told.
    pub(super) issued: std::collections::BTreeMap<[u8; 12], (usize, usize)>,
    /// Delegations returned before a crash, which may have brought them back: earlier requests may use them.
    pub(super) returned_before_crash: std::collections::BTreeSet<[u8; 12]>,
    pub(super) tally: Tally,
    /// The possible names of slots whose client ended.
    pub(super) abandoned: Vec<Vec<Names>>,
    root: Vec<u8>,
    requests: Vec<SentRequest>,
    replies: Vec<Reply>,
    trace: VecDeque<String>,
    /// A digest of all trace lines.
    digest: DefaultHasher,
    next_connection: u64,
    next_value: u64,
    done: usize,
    ending: bool,
    /// The adversary's own draws.
    pub(super) adversary: Random,
    /// Random numbers for setting the wall clock.
    administrator: Random,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> Result<World, String> {
        let mut random = Random::new(seed);
        let names: Vec<String> = (0..plan.files).map(shared_name).collect();
        let server = Server::new(&names, &mut random)?;
        let now = START + 1_000_000_000;
        let mut files = Vec::new();
        for name in &names {
            files.push(File::new(Some(server.handle_of(name, now)?)));
        }
        let root = server.root();
        let mut world = World {
            plan,
            random,
            now,
            server,
            clients: Vec::new(),
            calls: Vec::new(),
            files,
            held: Vec::new(),
            replaced: std::collections::BTreeMap::new(),
            issued: std::collections::BTreeMap::new(),
            returned_before_crash: std::collections::BTreeSet::new(),
            tally: Tally::default(),
            abandoned: Vec::new(),
            root,
            requests: Vec::new(),
            replies: Vec::new(),
            trace: VecDeque::new(),
            digest: DefaultHasher::new(),
            next_connection: 1,
            next_value: 1,
            done: 0,
            ending: false,
            adversary: Random::new(!seed),
            administrator: Random::new(seed.rotate_left(32)),
        };
        for _ in 0..plan.clients {
            world.add_client(None);
        }
        Ok(world)
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns a checksum of the events and of the device.
    pub(super) fn digest(&self) -> u64 {
        self.digest.finish() ^ self.server.media.disk().digest()
    }

    pub(super) fn done(&self) -> usize {
        self.done
    }

    pub(super) fn into_trace(self) -> Vec<String> {
        self.trace.into()
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.trace.len() == TRACE_LINES {
            self.trace.pop_front();
        }
        let line = format!("{:9.3} {}", (self.now - START) as f64 / 1e9, line());
        line.hash(&mut self.digest);
        self.trace.push_back(line);
    }

    /// Starts a client: a new one, or the next life of an earlier one.
    fn add_client(&mut self, before: Option<usize>) {
        let number = self.clients.len();
        let (minor, name) = match before {
            // Some come back with another address: to the server, those are other clients of the same name.
            Some(before) => {
                let earlier = &self.clients[before];
                let host = if number.is_multiple_of(3) { number } else { earlier.host };
                (earlier.minor, (earlier.name.clone(), host))
            }
            None => {
                let is_nfs40 = self.plan.nfs40 && self.random.chance(1, 3);
                let minor = if is_nfs40 { 0 } else { 1 + u32::from(self.random.chance(1, 2)) };
                (minor, (format!("client{number}"), number))
            }
        };
        let mut client = Client::new(minor, name, self.plan.slots, self.now);
        let connections = if minor == 0 { 1 } else { 2 };
        client.connections = (0..connections).map(|at| self.next_connection + at).collect();
        self.next_connection += connections;
        self.note(|| format!("client {number} of version 4.{minor} starts as {}", client.name));
        self.clients.push(client);
    }

    /// Ends a client. With `again` it continues as a new one without state.
    pub(super) fn end_client(&mut self, client: usize, again: bool) {
        self.note(|| format!("client {client} ends"));
        let ended = &mut self.clients[client];
        ended.phase = Phase::Gone;
        let names: Vec<_> = ended.slots.iter_mut().map(|slot| std::mem::take(&mut slot.names)).collect();
        self.abandoned.extend(names);
        if again {
            self.add_client(Some(client));
        } else if !self.ending {
            self.add_client(None);
        }
    }

    pub(super) fn run(&mut self) -> Result<(), String> {
        while self.done < self.plan.events {
            self.done += 1;
            self.step()?;
            if self.server.is_dead() {
                self.crash()?;
            }
            if self.plan.adversary && self.adversary.chance(1, 6) && !self.server.is_dead() {
                self.attack()?;
            }
        }
        self.end()
    }

    fn step(&mut self) -> Result<(), String> {
        let plan = self.plan;
        match self.random.below(200) {
            0..=59 => self.issue(),
            60..=114 => self.deliver_request()?,
            115..=159 => self.deliver_reply()?,
            160..=164 => {
                let written = self.server.resume_one(&mut self.random, self.now)?;
                self.accept_reply(written)?;
            }
            165..=180 => self.server.background(&mut self.random, self.now),
            181..=190 => self.pass_time(),
            191..=195 => self.send_again(),
            196 if plan.losses => self.close_connection()?,
            197 if plan.deaths && self.random.chance(1, 3) => self.disturb_client(),
            198 if plan.crashes && self.random.chance(1, 2) => {
                let boundaries = 1 + self.random.below(12);
                self.server.die_in(boundaries);
            }
            199 if plan.crashes && self.random.chance(1, 8) => self.crash()?,
            _ => {}
        }
        self.collect()
    }

    /// Takes what the server wants to send.
    fn collect(&mut self) -> Result<(), String> {
        let mut left = self.server.release()?;
        if !self.server.is_dead() {
            self.replies.append(&mut left);
        }
        for callback in self.server.service.take_callbacks() {
            self.call_back(callback.id, callback.to, &callback.record)?;
        }
        Ok(())
    }

    fn call_back(&mut self, id: u64, to: Destination, record: &[u8]) -> Result<(), String> {
        let now = self.server.clocks(self.now);
        let client = match to {
            Destination::Connection(connection) => {
                self.clients.iter().position(|client| client.connections.contains(&connection.0))
            }
            Destination::Address(address) => (0..self.clients.len())
                .rev()
                .find(|client| message::connection(self.clients[*client].host, 0).peer.ip() == address.ip()),
            Destination::Program { .. } => return Err("a callback to another program".to_owned()),
        };
        let decoded = message::decode_callback(record)?;
        if let Some(stateid) = decoded.recalled {
            self.note_recalled(stateid.other);
        }
        let alive = |client: usize| {
            let client = &self.clients[client];
            client.phase != Phase::Gone && client.partitioned_until <= self.now
        };
        let Some(client) = client.filter(|client| alive(*client)) else {
            self.server.service.callback_failed(id, now);
            return Ok(());
        };
        if self.plan.losses && self.random.chance(1, 8) {
            return Ok(());
        }
        self.note(|| format!("client {client} receives a callback: {:?}", decoded.recalled));
        if let Some(stateid) = decoded.recalled {
            self.return_delegation(client, stateid.other);
        }
        match to {
            Destination::Connection(connection) => {
                let connection = message::connection(self.clients[client].host, connection.0);
                let access = volume::request::Access::Cached;
                let record = &IncomingRecord::decode(&decoded.answer);
                let mut reply = ReplyBuffer::default();
                let incoming = Incoming { record, connection, now, access, copy_terms: CopyTerms::Free };
                let _ = self.server.service.handle(&incoming, &mut None, &mut reply);
                if !reply.into_bytes().is_empty() {
                    return Err("the server answered the answer to a callback".to_owned());
                }
            }
            _ => self.server.service.callback_answered(id, &decoded.answer, now),
        }
        Ok(())
    }

    /// Makes a client return a delegation, if it knows it.
    fn return_delegation(&mut self, client: usize, other: [u8; 12]) {
        let client = &mut self.clients[client];
        for slot in &mut client.slots {
            if let Some(held) = slot.known.iter().find(|held| held.stateid.other == other) {
                slot.duties.push_back(Op::Return { file: held.file, stateid: held.stateid });
                return;
            }
        }
        client.recalled.push(other);
    }

    /// A random client issues a request in a free slot.
    fn issue(&mut self) {
        let alive: Vec<usize> =
            (0..self.clients.len()).filter(|client| self.clients[*client].phase != Phase::Gone).collect();
        if alive.is_empty() {
            return;
        }
        let client = *self.random.pick(&alive);
        let slot = self.random.index(self.plan.slots);
        if self.clients[client].slots[slot].outstanding.is_none() {
            self.issue_in(client, slot);
        }
    }

    fn issue_in(&mut self, client: usize, slot: usize) {
        let mut choice = Choice {
            random: &mut self.random,
            shared: self.plan.files,
            next_file: self.files.len(),
            next_value: self.next_value,
            now: self.now,
            lease: i64::try_from(LEASE.as_nanos()).expect("a short lease"),
            ending: self.ending,
        };
        let Some(op) = self.clients[client].choose(client, slot, &mut choice) else { return };
        self.next_value += 1;
        if op.file() == Some(self.files.len()) {
            self.files.push(File::new(None));
        }
        let number = self.calls.len();
        let xid = u32::try_from(number).expect("few calls") + 1;
        let cache = !op.is_read_only() || self.random.chance(1, 2);
        let asking = &mut self.clients[client];
        if asking.minor > 0 && !matches!(op, Op::Exchange | Op::CreateSession | Op::Bind) {
            let sequence = &mut asking.slots[slot].sequence;
            *sequence = sequence.wrapping_add(1);
        }
        let own_names = asking.slots[slot].names.last().map(|names| after(names, &op));
        if let Some(names) = own_names.filter(|names| asking.slots[slot].names.last() != Some(names)) {
            asking.slots[slot].names.push(names);
        }
        asking.slots[slot].outstanding = Some(number);
        let handle = op.file().or_else(|| self.file_of(&op));
        let handle = handle.and_then(|file| self.files[file].handle.clone()).unwrap_or_default();
        let record =
            self.clients[client].requester(client, slot, cache).record(xid, &op, &handle, &self.root);
        self.note(|| format!("{client}.{slot} sends {number}: {op:?}"));
        let region_marks = [0; REGIONS];
        self.calls.push(IssuedCall {
            client,
            slot,
            xid,
            op,
            record,
            answer: None,
            delivered: false,
            answered_before_crash: false,
            received_at: 0,
            region_marks,
        });
        self.send(number);
    }

    /// Returns the file of an open that is to be confirmed.
    fn file_of(&self, op: &Op) -> Option<usize> {
        let stateid = op.uses()?;
        self.issued.get(&stateid.other).map(|(_, file)| *file)
    }

    /// Sends a request over one of the client's connections.
    fn send(&mut self, number: usize) {
        let call = &self.calls[number];
        let client = &self.clients[call.client];
        let connection = *self.random.pick(&client.connections);
        let connection = message::connection(client.host, connection);
        self.requests.push(SentRequest {
            call: number,
            record: call.record.clone(),
            connection,
            received_at: 0,
        });
    }

    /// A random client retransmits an unanswered request.
    fn send_again(&mut self) {
        let waiting: Vec<usize> = self
            .clients
            .iter()
            .filter(|client| client.phase != Phase::Gone)
            .flat_map(|client| client.slots.iter().filter_map(|slot| slot.outstanding))
            .collect();
        if !waiting.is_empty() {
            let number = *self.random.pick(&waiting);
            self.send(number);
        }
    }

    fn deliver_request(&mut self) -> Result<(), String> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let chosen = self.random.index(self.requests.len());
        let sent = self.requests.swap_remove(chosen);
        let call = &self.calls[sent.call];
        let client = &self.clients[call.client];
        let lost = self.plan.losses && self.random.chance(1, 12) || client.partitioned_until > self.now;
        // Nothing in NFSv4.0 keeps a request from being executed after a later one.
        let late = client.minor == 0 && call.delivered;
        if lost || late {
            return Ok(());
        }
        if self.plan.losses && self.random.chance(1, 10) {
            let again = SentRequest { record: sent.record.clone(), ..sent };
            self.requests.push(again);
        }
        let written = self.server.take(sent, self.now)?;
        self.accept_reply(written)
    }

    /// Judges and parks a reply.
    fn accept_reply(&mut self, written: Option<Reply>) -> Result<(), String> {
        let Some(written) = written else { return Ok(()) };
        if self.server.is_dead() {
            return Ok(());
        }
        self.judge_answer(written.call, written.received_at, &written.bytes)?;
        self.server.park(written);
        Ok(())
    }

    fn deliver_reply(&mut self) -> Result<(), String> {
        if self.replies.is_empty() {
            return Ok(());
        }
        let chosen = self.random.index(self.replies.len());
        let reply = self.replies.swap_remove(chosen);
        let client = &self.clients[self.calls[reply.call].client];
        let lost = self.plan.losses && self.random.chance(1, 12)
            || client.partitioned_until > self.now
            || !client.connections.contains(&reply.connection.0);
        if lost { Ok(()) } else { self.receive_reply(reply.call, &reply.bytes) }
    }

    /// A reply arrives at its client.
    fn receive_reply(&mut self, number: usize, bytes: &[u8]) -> Result<(), String> {
        let call = &self.calls[number];
        let (client, slot) = (call.client, call.slot);
        let waiting = &mut self.clients[client];
        if waiting.phase == Phase::Gone || waiting.slots[slot].outstanding != Some(number) {
            return Ok(());
        }
        let results = Results::parse(bytes, call.xid)?;
        if results.is_slot_refused() && results.status == NfsStat4::Delay {
            // The first transmission is still executing; the client retransmits.
            return Ok(());
        }
        waiting.slots[slot].outstanding = None;
        if waiting.minor == 0 {
            // See `deliver_request`.
            self.server.forget(number);
        }
        self.calls[number].delivered = true;
        let status = results.status;
        self.note(|| format!("{client}.{slot} receives {number}: {status:?}"));
        self.learn(number, &results)
    }

    /// Sets the wall clock, mostly by more than a lease. No client may notice.
    fn set_wall_clock(&mut self) {
        let seconds =
            i64::try_from(self.administrator.below(2 * WALL_CLOCK_ERROR_MAX)).expect("some minutes");
        let ahead = seconds - i64::try_from(WALL_CLOCK_ERROR_MAX).expect("some minutes");
        self.note(|| format!("the wall clock is set: {ahead} s ahead"));
        self.server.set_wall_clock(ahead);
    }

    fn pass_time(&mut self) {
        if self.administrator.chance(1, 50) {
            self.set_wall_clock();
        }
        let milliseconds = match self.random.below(200) {
            0 if self.plan.deaths && self.now - START < LAST_LONG_SILENCE => 40_000,
            1..=4 => 4000,
            5..=20 => 500,
            _ => 1 + self.random.below(30),
        };
        self.pass(i64::try_from(milliseconds).expect("less than a minute") * 1_000_000);
    }

    fn pass(&mut self, nanoseconds: i64) {
        self.now += nanoseconds;
        let _ = self.server.service.tick(self.server.clocks(self.now));
    }

    fn close_connection(&mut self) -> Result<(), String> {
        let client = self.random.index(self.clients.len());
        let which = self.random.index(self.clients[client].connections.len());
        let closed = self.clients[client].connections[which];
        // Requests in flight reach the server before the connection closes, or never.
        let (on_it, others) =
            std::mem::take(&mut self.requests).into_iter().partition(|sent| sent.connection.id.0 == closed);
        self.requests = others;
        let on_it: Vec<SentRequest> = on_it;
        for sent in on_it {
            if self.random.chance(1, 2) && self.clients[client].partitioned_until <= self.now {
                let late = self.clients[client].minor == 0 && self.calls[sent.call].delivered;
                let written = if late { None } else { self.server.take(sent, self.now)? };
                self.accept_reply(written)?;
            }
        }
        self.note(|| format!("connection {closed} of client {client} closes"));
        self.server.close(ConnectionId(closed), &mut self.random);
        self.clients[client].connections[which] = self.next_connection;
        self.clients[client].unbound = true;
        self.next_connection += 1;
        Ok(())
    }

    /// Partitions, kills or restarts a client.
    fn disturb_client(&mut self) {
        let alive: Vec<usize> =
            (0..self.clients.len()).filter(|client| self.clients[*client].phase != Phase::Gone).collect();
        let client = *self.random.pick(&alive);
        match self.random.below(4) {
            0 => self.end_client(client, true),
            1 => self.end_client(client, false),
            _ => {
                let seconds = i64::try_from(1 + self.random.below(50)).expect("less than a minute");
                self.note(|| format!("client {client} is partitioned for {seconds} s"));
                self.clients[client].partitioned_until = self.now + seconds * 1_000_000_000;
            }
        }
    }

    /// Crashes and restarts the server.
    fn crash(&mut self) -> Result<(), String> {
        self.requests.clear();
        self.replies.clear();
        self.now += 10_000_000 + i64::try_from(self.random.below(3000)).expect("a few seconds") * 1_000_000;
        let survival = self.server.crash(&mut self.random, self.now)?;
        self.tally.crashes += 1;
        self.note(|| format!("the server crashed, {survival:?} survived, and restarted"));
        let lease = i64::try_from(LEASE.as_nanos()).expect("a short lease");
        for client in 0..self.clients.len() {
            if self.now - self.clients[client].contact > lease {
                self.may_have_expired(client);
            }
        }
        for client in &mut self.clients {
            for connection in &mut client.connections {
                *connection = self.next_connection;
                self.next_connection += 1;
            }
            client.unbound = true;
            client.contact = client.contact.max(self.now);
        }
        self.judge_crash()
    }

    /// Lets every living client finish and give up its state. Then everything must exist and be free.
    fn end(&mut self) -> Result<(), String> {
        self.plan = Plan { losses: false, deaths: false, crashes: false, ..self.plan };
        self.ending = true;
        self.server.cancel_death();
        self.clients.iter_mut().for_each(|client| client.partitioned_until = 0);
        self.note(|| "the end begins".to_owned());
        let mut quiet = 0;
        for _ in 0..ATTEMPTS_MAX {
            self.round()?;
            quiet = if self.is_quiet() { quiet + 1 } else { 0 };
            if quiet > 2 {
                self.check_nothing_is_held()?;
                return self.judge_names(true);
            }
        }
        let waiting = self.clients.iter().enumerate().flat_map(|(number, client)| {
            client.slots.iter().enumerate().map(move |(slot, state)| (number, slot, state, client.phase))
        });
        let waiting: Vec<String> = waiting
            .filter(|(_, _, slot, phase)| {
                *phase != Phase::Gone && (slot.outstanding.is_some() || !slot.known.is_empty())
            })
            .map(|(client, slot, state, _)| {
                format!("{client}.{slot}: {:?} {:?}", state.outstanding, state.known)
            })
            .collect();
        Err(format!("the run does not end: {waiting:?}, {} calls pending", self.server.pending_count()))
    }

    /// Lets everything happen once.
    fn round(&mut self) -> Result<(), String> {
        self.pass(200_000_000);
        for client in 0..self.clients.len() {
            for slot in 0..self.plan.slots {
                match self.clients[client].slots[slot].outstanding {
                    _ if self.clients[client].phase == Phase::Gone => {}
                    Some(number) if self.requests.is_empty() => self.send(number),
                    Some(_) => {}
                    None => self.issue_in(client, slot),
                }
            }
        }
        for _ in 0..self.requests.len() {
            self.deliver_request()?;
        }
        for _ in 0..2 * self.server.pending_count() + 1 {
            let written = self.server.resume_one(&mut self.random, self.now)?;
            self.accept_reply(written)?;
        }
        self.deliver_all_replies()
    }

    /// Runs all background steps, and delivers every reply.
    fn deliver_all_replies(&mut self) -> Result<(), String> {
        self.server.run_all_steps(self.now);
        self.collect()?;
        while !self.replies.is_empty() {
            self.deliver_reply()?;
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        let quiet = |client: &Client| {
            let at_rest = |slot: &super::client::Slot| slot.outstanding.is_none() && slot.known.is_empty();
            client.phase == Phase::Gone || client.phase == Phase::Ready && client.slots.iter().all(at_rest)
        };
        self.clients.iter().all(quiet)
    }

    /// Checks that a new client can have every file for itself.
    fn check_nothing_is_held(&mut self) -> Result<(), String> {
        self.plan.slots = 1;
        for client in &mut self.clients {
            client.phase = Phase::Gone;
        }
        let number = self.clients.len();
        self.clients.push(Client::new(1, ("the last one".to_owned(), number), 1, self.now));
        self.clients[number].connections = vec![self.next_connection];
        while self.clients[number].phase != Phase::Ready {
            self.round()?;
        }
        // By now every dead client has been silent for longer than a lease.
        self.pass(i64::try_from(LEASE.as_nanos()).expect("a short lease") + 1_000_000_000);
        for file in 0..self.plan.files {
            let everything = super::op::LockRange { first: 0, last: u64::MAX };
            let open = Op::Open { file, name: shared_name(file), access: 3, deny: 3, how: None, want: 0 };
            self.retry_until_success(number, open)?;
            let known = self.clients[number].slots[0].known.iter();
            let mut open =
                known.filter(|held| matches!(held.kind, StateKind::Open { .. }) && held.file == file);
            let stateid = open.next_back().ok_or("the open is not known")?.stateid;
            self.retry_until_success(
                number,
                Op::Lock { file, open: stateid, locks: None, range: everything, exclusive: true },
            )?;
            for region in 0..REGIONS {
                self.retry_until_success(number, Op::Read { file, stateid, region, valid: true })?;
            }
        }
        Ok(())
    }

    /// Repeats an operation until it succeeds.
    fn retry_until_success(&mut self, client: usize, op: Op) -> Result<(), String> {
        for _ in 0..60 {
            self.clients[client].slots[0].duties.push_back(op.clone());
            self.clients[client].contact = self.now;
            let before = self.tally.succeeded;
            self.issue_in(client, 0);
            while self.clients[client].slots[0].outstanding.is_some() {
                self.round_for(client)?;
            }
            if self.tally.succeeded > before {
                return Ok(());
            }
            self.pass(1_000_000_000);
        }
        Err(format!("at the end a new client cannot do {op:?}"))
    }

    fn round_for(&mut self, client: usize) -> Result<(), String> {
        if self.requests.is_empty()
            && let Some(number) = self.clients[client].slots[0].outstanding
        {
            self.send(number);
        }
        self.deliver_request()?;
        let written = self.server.resume_one(&mut self.random, self.now)?;
        self.accept_reply(written)?;
        self.deliver_all_replies()
    }
}

/// Returns a slot's names after a successful operation.
fn after(names: &Names, op: &Op) -> Names {
    let mut names = names.clone();
    match op {
        Op::Open { file, name, how: Some(_), .. } if name.starts_with("own") => {
            names.insert(name.clone(), Some(*file));
        }
        Op::Name(NameOp::Directory(name)) => drop(names.insert(name.clone(), None)),
        Op::Name(NameOp::Remove(name)) => drop(names.remove(name)),
        Op::Name(NameOp::Rename(from, to)) => {
            let what = names.get(from).copied().flatten();
            // Two names of the same file: RENAME does nothing (RFC 8881 section 18.26.3).
            if what.is_none() || names.get(to).copied().flatten() != what {
                names.remove(from);
                names.insert(to.clone(), what);
            }
        }
        Op::Name(NameOp::Link(from, to)) => {
            let what = names.get(from).copied().flatten();
            names.insert(to.clone(), what);
        }
        _ => {}
    }
    names
}
