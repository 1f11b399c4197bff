//! A small NFSv3 client with many calls in flight. It has its own codec, written from RFC 1813 and RFC 5531, so that it
//! does not share mistakes with Holdfast's.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::net::sockopt;

/// The program number of NFS.
pub(crate) const NFS: u32 = 100_003;
/// The program number of MOUNT.
pub(crate) const MOUNT: u32 = 100_005;

/// How long an attempt to connect may take: the kernel repeats its first segment after ever longer times.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How often TCP asks whether a silent connection lives. After a takeover, the machine
/// that then has the address answers that it is dead.
const KEEPALIVE: Duration = Duration::from_secs(5);

const HANDLE_BYTES_MAX: usize = 64;
const REPLY_BYTES_MAX: usize = 2 << 20;

/// NFS3_OK.
pub(crate) const OK: u32 = 0;
/// NFS3ERR_NOSPC.
pub(crate) const NOSPC: u32 = 28;

/// The procedures used here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Procedure {
    Null = 0,
    Getattr = 1,
    Setattr = 2,
    Lookup = 3,
    Read = 6,
    Write = 7,
    Create = 8,
    Mkdir = 9,
    Remove = 12,
    Rmdir = 13,
    Rename = 14,
    Readdirplus = 17,
    Fsstat = 18,
    Commit = 21,
}

/// The encoded arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Arguments(Vec<u8>);

impl Arguments {
    pub(crate) fn word(&mut self, word: u32) -> &mut Arguments {
        self.0.extend_from_slice(&word.to_be_bytes());
        self
    }

    pub(crate) fn long(&mut self, long: u64) -> &mut Arguments {
        self.0.extend_from_slice(&long.to_be_bytes());
        self
    }

    /// Encodes a handle, a name or data.
    pub(crate) fn opaque(&mut self, bytes: &[u8]) -> &mut Arguments {
        self.word(u32::try_from(bytes.len()).expect("arguments are short"));
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Encodes bytes without their length. Their number is a multiple of four.
    pub(crate) fn fixed(&mut self, bytes: &[u8]) -> &mut Arguments {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The encoded bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Encodes the attributes of a new object: only its mode.
    pub(crate) fn mode(&mut self, mode: u32) -> &mut Arguments {
        self.word(1).word(mode).word(0).word(0).word(0).word(0).word(0)
    }
}

/// The encoded results of a call.
#[derive(Debug)]
pub(crate) struct Results<'a>(&'a [u8]);

impl Results<'_> {
    /// Decodes the word at this offset.
    pub(crate) fn word(&self, at: usize) -> Result<u32, String> {
        let word = self.0.get(at..at + 4).and_then(|word| word.try_into().ok());
        word.map(u32::from_be_bytes).ok_or_else(|| "a reply is too short".to_owned())
    }

    /// Decodes the status, the first word of most results.
    pub(crate) fn status(&self) -> Result<u32, String> {
        self.word(0)
    }

    /// Checks that the status is one of these.
    pub(crate) fn expect(&self, what: &str, allowed: &[u32]) -> Result<u32, String> {
        let status = self.status()?;
        if allowed.contains(&status) { Ok(status) } else { Err(format!("{what}: status {status}")) }
    }

    /// Decodes the handle at this offset.
    pub(crate) fn handle(&self, at: usize) -> Result<Vec<u8>, String> {
        let length = usize::try_from(self.word(at)?).unwrap_or(usize::MAX);
        let handle = (length <= HANDLE_BYTES_MAX).then(|| self.0.get(at + 4..at + 4 + length)).flatten();
        handle.map(<[u8]>::to_vec).ok_or_else(|| "a reply has no handle".to_owned())
    }

    /// Decodes the data that READ returns, after attributes of the file. Returns whether it ends there.
    pub(crate) fn data(&self) -> Result<(&[u8], bool), String> {
        const ATTRIBUTES_BYTES: usize = 84;
        let after = if self.word(4)? == 1 { 8 + ATTRIBUTES_BYTES } else { 8 };
        let count = usize::try_from(self.word(after)?).unwrap_or(usize::MAX);
        let is_last = self.word(after + 4)? != 0;
        let data = self.0.get(after + 12..).and_then(|data| data.get(..count));
        data.map(|data| (data, is_last)).ok_or_else(|| "a reply of READ is too short".to_owned())
    }

    /// Decodes the handle of a new object, which follows the status and a flag.
    pub(crate) fn new_handle(&self) -> Result<Vec<u8>, String> {
        if self.word(4)? != 1 { Err("a reply has no handle".to_owned()) } else { self.handle(8) }
    }
}

/// A connection whose calls have the credentials of root.
pub(crate) struct Connection {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    program: u32,
    next_xid: u32,
    out: Vec<u8>,
    reply: Vec<u8>,
}

impl Connection {
    /// Connects to a program. `patience` limits each read and write.
    pub(crate) fn open(address: SocketAddr, program: u32, patience: Duration) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, patience.min(CONNECT_MAX))?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let reader = BufReader::with_capacity(256 << 10, stream.try_clone()?);
        // A server remembers the xids of an address for a while, so each connection starts elsewhere.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let next_xid = now.subsec_nanos().rotate_left(12);
        Ok(Connection { stream, reader, program, next_xid, out: Vec::new(), reply: Vec::new() })
    }

    /// Makes a call and waits for its results.
    pub(crate) fn call(&mut self, procedure: Procedure, arguments: &Arguments) -> io::Result<Results<'_>> {
        let xid = self.queue(procedure, &arguments.0);
        self.flush()?;
        if self.receive()? != xid {
            return Err(malformed());
        }
        Ok(self.results())
    }

    /// Makes a call whose status must be one of `allowed`.
    pub(crate) fn ask(
        &mut self,
        procedure: Procedure,
        allowed: &[u32],
        fill: impl FnOnce(&mut Arguments),
    ) -> Result<Results<'_>, String> {
        let mut arguments = Arguments::default();
        fill(&mut arguments);
        let results = self.call(procedure, &arguments).map_err(|error| format!("{procedure:?}: {error}"))?;
        results.expect(&format!("{procedure:?}"), allowed)?;
        Ok(results)
    }

    /// Creates a file or a folder and returns its handle.
    pub(crate) fn make(&mut self, what: Procedure, folder: &[u8], name: &str) -> Result<Vec<u8>, String> {
        let results = self.ask(what, &[OK], |arguments| {
            arguments.opaque(folder).opaque(name.as_bytes());
            if matches!(what, Procedure::Create) {
                // UNCHECKED.
                arguments.word(0);
            }
            arguments.mode(0o755);
        })?;
        results.new_handle()
    }

    /// Removes a name with REMOVE or RMDIR.
    pub(crate) fn drop_name(&mut self, how: Procedure, folder: &[u8], name: &str) -> Result<(), String> {
        let fill = |arguments: &mut Arguments| {
            arguments.opaque(folder).opaque(name.as_bytes());
        };
        self.ask(how, &[OK], fill).map(|_| ())
    }

    /// Makes `count` calls with at most `window` in flight. `arguments` and `take` receive the number of the call.
    pub(crate) fn many(
        &mut self,
        procedure: Procedure,
        count: usize,
        window: usize,
        mut arguments: impl FnMut(usize, &mut Arguments),
        mut take: impl FnMut(usize, &Results<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let first = self.next_xid;
        let (mut sent, mut received) = (0, 0);
        let mut body = Arguments::default();
        while received < count {
            while sent < count && sent - received < window {
                body.0.clear();
                arguments(sent, &mut body);
                self.queue(procedure, &body.0);
                sent += 1;
            }
            if self.reader.buffer().is_empty() {
                self.flush().map_err(|error| format!("{procedure:?}: {error}"))?;
            }
            let xid = self.receive().map_err(|error| format!("{procedure:?}: {error}"))?;
            let number = usize::try_from(xid.wrapping_sub(first)).unwrap_or(usize::MAX);
            if number >= sent {
                return Err(format!("{procedure:?}: a reply without a call"));
            }
            take(number, &self.results())?;
            received += 1;
        }
        Ok(())
    }

    fn queue(&mut self, procedure: Procedure, arguments: &[u8]) -> u32 {
        let xid = self.next_xid;
        self.next_xid = xid.wrapping_add(1);
        // AUTH_SYS of 20 bytes: stamp 0, no machine name, user 0, group 0, no further groups; no verifier.
        let credential = [1, 20, 0, 0, 0, 0, 0, 0, 0];
        let header = [xid, 0, 2, self.program, 3, procedure as u32];
        let length = (header.len() + credential.len()) * 4 + arguments.len();
        let mark = u32::try_from(length).expect("arguments are short") | 0x8000_0000;
        for word in [mark].iter().chain(&header).chain(&credential) {
            self.out.extend_from_slice(&word.to_be_bytes());
        }
        self.out.extend_from_slice(arguments);
        xid
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Reads a reply and returns its xid.
    fn receive(&mut self) -> io::Result<u32> {
        let mut mark = [0; 4];
        self.reader.read_exact(&mut mark)?;
        let length = usize::try_from(u32::from_be_bytes(mark) & 0x7fff_ffff).map_err(|_| malformed())?;
        if length > REPLY_BYTES_MAX {
            return Err(malformed());
        }
        self.reply.resize(length, 0);
        self.reader.read_exact(&mut self.reply)?;
        let header = Results(&self.reply);
        // A reply, accepted, no verifier, success.
        for (at, wanted) in [(4, 1), (8, 0), (12, 0), (16, 0), (20, 0)] {
            if header.word(at).map_err(|_| malformed())? != wanted {
                return Err(malformed());
            }
        }
        header.word(0).map_err(|_| malformed())
    }

    fn results(&self) -> Results<'_> {
        Results(self.reply.get(24..).unwrap_or_default())
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "malformed reply")
}
