//! Records that are never complete, and replies that are never read.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::super::super::lab::PORT;
use super::super::rpc::{self, Caller, Link, NFS3, record};
use super::super::{Scene, nfs3, places};
use crate::nfs::{Arguments, Procedure};

/// Data of the WRITE whose record is cut, and of the READs.
const DATA_BYTES: usize = 1 << 20;
/// Interval between bytes, or portions that are read.
const TRICKLE: Duration = Duration::from_secs(1);
/// Bytes of replies that a slow reader takes at once.
const PORTION_BYTES: usize = 4 << 10;
/// READs that a slow reader has sent.
const READS: usize = 16;
/// How long a large WRITE may take while others of its host hold halves from unprivileged ports.
const SERVED_AT_ONCE: Duration = Duration::from_secs(1);
/// How long an attacker waits for a connection.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) fn strange_halves(scene: &Scene) -> Result<String, String> {
    halves(scene, &repeated(20, |_| places::stranger(1)), true)
}

pub(super) fn few_halves(scene: &Scene) -> Result<String, String> {
    halves(scene, &repeated(20, |_| places::neighbour(1)), true)
}

pub(super) fn silent_halves(scene: &Scene) -> Result<String, String> {
    halves(scene, &repeated(20, |_| places::neighbour(1)), false)
}

pub(super) fn many_halves(scene: &Scene) -> Result<String, String> {
    halves(scene, &repeated(450, |_| places::neighbour(1)), true)
}

pub(super) fn spread_halves(scene: &Scene) -> Result<String, String> {
    halves(scene, &repeated(450, |number| places::neighbour(1 + u8::try_from(number / 2).unwrap_or(0))), true)
}

pub(super) fn halves_6(scene: &Scene) -> Result<String, String> {
    halves(scene, &repeated(450, |number| places::neighbour_6(1, 1 + number)), true)
}

fn repeated(count: u32, address: impl Fn(u32) -> std::net::IpAddr) -> Vec<Caller> {
    (0..count).map(|number| Caller::unprivileged(address(number), 0)).collect()
}

/// A connection that holds a part of a record. When the server closes it, the attacker makes another one.
struct Half {
    from: Caller,
    stream: Option<TcpStream>,
    sent: usize,
    last: Instant,
}

impl Half {
    /// Sends as much as the server takes of the first half, then a byte from time to time. Returns false if the connection
    /// was closed or cannot be made.
    fn push(&mut self, record: &[u8], trickles: bool) -> bool {
        let Some(stream) = &mut self.stream else {
            self.stream = rpc::connect(self.from, PORT, PATIENCE).ok();
            self.sent = 0;
            return self.stream.as_ref().is_some_and(|stream| stream.set_nonblocking(true).is_ok());
        };
        let half = record.len() / 2;
        let due = self.sent < half || trickles && self.last.elapsed() > TRICKLE;
        let more = if due { record.get(self.sent..half.max(self.sent + 1)) } else { None };
        let result = match more {
            Some(more) => stream.write(more),
            None => stream.read(&mut [0]).and_then(|_| Err(io::ErrorKind::UnexpectedEof.into())),
        };
        match result {
            Ok(sent) => {
                self.sent += sent;
                self.last = Instant::now();
                true
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(_) => {
                self.stream = None;
                false
            }
        }
    }
}

/// Returns the record of a WRITE of [`DATA_BYTES`], which is never executed.
pub(super) fn large_write(scene: &Scene) -> Vec<u8> {
    let mut arguments = Arguments::default();
    let length = u32::try_from(DATA_BYTES).expect("it is short");
    arguments.opaque(&scene.folder).long(0).word(length).word(2).opaque(&vec![0; DATA_BYTES]);
    record(1, NFS3, Procedure::Write as u32, 0, &arguments)
}

fn begun(callers: &[Caller]) -> Vec<Half> {
    let begin = |from: &Caller| Half { from: *from, stream: None, sent: 0, last: Instant::now() };
    callers.iter().map(begin).collect()
}

/// Holds 20 halves as a user of a host, whose kernel writes as fast as without them. A first
/// WRITE lets the server know the host as fast: large records of unknown hosts wait for one another, including those that the
/// previous attack left behind.
pub(super) fn own_halves(scene: &Scene) -> Result<String, String> {
    let record = large_write(scene);
    let mut all = begun(&repeated(20, |_| places::client(9)));
    let mut link = Link::open(Caller::host(places::client(9))).map_err(|why| why.to_string())?;
    let file = nfs3::create(&mut link, &scene.folder, b"own").map_err(|why| why.to_string())?;
    let mut write = || nfs3::write(&mut link, &file, 0, &vec![7; DATA_BYTES]).map_err(|why| why.to_string());
    write()?;
    let mut slowest = Duration::ZERO;
    while scene.goes_on() {
        for half in &mut all {
            half.push(&record, false);
        }
        let began = Instant::now();
        write()?;
        slowest = slowest.max(began.elapsed());
    }
    let said = format!("a WRITE of 1 MiB of the same host took at most {} ms", slowest.as_millis());
    if slowest > SERVED_AT_ONCE { Err(said) } else { Ok(said) }
}

fn halves(scene: &Scene, callers: &[Caller], trickles: bool) -> Result<String, String> {
    let record = large_write(scene);
    let mut all = begun(callers);
    let mut closed = 0;
    while scene.goes_on() {
        for half in &mut all {
            if scene.goes_on() && !half.push(&record, trickles) {
                closed += 1;
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    let held: usize = all.iter().filter(|half| half.stream.is_some()).map(|half| half.sent).sum();
    Ok(format!("{} KiB of records held at the end, {closed} connections closed or refused", held >> 10))
}

pub(super) fn trickled_replies(scene: &Scene) -> Result<String, String> {
    replies(scene, PORTION_BYTES)
}

pub(super) fn unread_replies(scene: &Scene) -> Result<String, String> {
    replies(scene, 0)
}

/// Asks for large replies on 60 connections and takes `portion` bytes of each from time to time.
fn replies(scene: &Scene, portion: usize) -> Result<String, String> {
    let calls = large_read(scene)?.repeat(READS);
    let open = || send(&calls, PORTION_BYTES);
    let mut all: Vec<Option<TcpStream>> = (0..60).map(|_| open().ok()).collect();
    let (mut closed, mut taken) = (0, 0);
    let mut buffer = vec![0; portion];
    while scene.goes_on() {
        for place in &mut all {
            let Some(stream) = place else {
                closed += 1;
                *place = open().ok();
                continue;
            };
            if portion == 0 {
                continue;
            }
            match stream.read(&mut buffer) {
                Ok(0) => *place = None,
                Ok(read) => taken += read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => *place = None,
            }
        }
        thread::sleep(TRICKLE);
    }
    Ok(format!("{} KiB taken, {closed} connections closed or refused", taken >> 10))
}

/// Sends calls by a new connection, which receives at most about `received_max` bytes before they are read.
pub(super) fn send(calls: &[u8], received_max: usize) -> io::Result<TcpStream> {
    let mut stream = rpc::connect(Caller::unprivileged(places::neighbour(1), 0), PORT, PATIENCE)?;
    sockopt::set_socket_recv_buffer_size(&stream, received_max)?;
    stream.write_all(calls)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Returns the record of a READ of [`DATA_BYTES`], of a file that has them.
pub(super) fn large_read(scene: &Scene) -> Result<Vec<u8>, String> {
    let file = large_file(scene).map_err(|why| format!("cannot begin: {why}"))?;
    let mut arguments = Arguments::default();
    arguments.opaque(&file).long(0).word(u32::try_from(DATA_BYTES).expect("it is short"));
    Ok(record(1, NFS3, Procedure::Read as u32, 0, &arguments))
}

/// Makes a file of the longest READ, as a host that the attacks before did not make known as slow.
fn large_file(scene: &Scene) -> Result<Vec<u8>, rpc::Failure> {
    let mut link = Link::open(Caller::host(places::client(9)))?;
    let file = nfs3::create(&mut link, &scene.folder, b"large")?;
    nfs3::write(&mut link, &file, 0, &vec![7; DATA_BYTES])?;
    Ok(file)
}
