//! A server in memory for tests: the part of NFSv3 that workloads use, with faults on request.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use wire::limits::RECORD_BYTES_MAX;
use wire::list::List;
use wire::mount3::{self, MntOk, MntRes};
use wire::nfs3::*;
use wire::record::{RecordReader, write_record};
use wire::rpc::{AcceptStat, AuthFlavors, CallHeader, ReplyHeader, decode_call, encode_success};
use wire::xdr::{Decode, Decoder, Encode, Encoder};

use crate::client::Server;

/// What the server does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// READ returns the next block.
    OtherBlocks,
    /// READ and WRITE move a third of the requested bytes.
    Short,
    /// FSSTAT reports 20 GiB.
    SmallDisk,
    /// WRITE fails with NFS3ERR_NOSPC.
    NoSpace,
    /// Some REMOVEs fail.
    SomeRemovesFail,
    /// Some REMOVEs are put off.
    SomeRemovesDelayed,
    /// Every reply has a different write verifier.
    Forgetful,
    /// READ reports the end of the file early.
    EarlyEnd,
    /// Transaction IDs are wrong.
    OtherCalls,
    /// CREATE is not permitted.
    NoPermission,
    /// The first connections, which prepare, get answers; the others get none.
    Mute,
}

#[derive(Debug)]
enum Node {
    Directory(BTreeMap<Vec<u8>, u64>),
    File(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct Volume {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    pub(crate) calls: BTreeMap<&'static str, u64>,
    fault: Fault,
    replies: u64,
}

/// A running server. It ends with the test process.
pub(crate) struct Fake {
    pub(crate) server: Server,
    pub(crate) volume: Arc<Mutex<Volume>>,
}

impl Fake {
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let nodes = BTreeMap::from([(1, Node::Directory(BTreeMap::new()))]);
        let volume = Volume { nodes, next: 2, calls: BTreeMap::new(), fault, replies: 0 };
        let volume = Arc::new(Mutex::new(volume));
        let shared = Arc::clone(&volume);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let shared = Arc::clone(&shared);
                // The second connection prepares; those of the load come later.
                let mute = fault == Fault::Mute && number == 2;
                std::thread::spawn(move || serve(stream.unwrap(), &shared, mute));
            }
        });
        Self { server: Server::parse(&format!("{address}:/export")).unwrap(), volume }
    }

    /// Counts objects other than the root.
    pub(crate) fn objects(&self) -> usize {
        self.volume.lock().unwrap().nodes.len() - 1
    }

    pub(crate) fn calls(&self, procedure: Procedure) -> u64 {
        self.volume.lock().unwrap().calls.get(procedure.name()).copied().unwrap_or(0)
    }
}

fn serve(mut stream: TcpStream, volume: &Mutex<Volume>, mute: bool) {
    let mut reader = RecordReader::new(RECORD_BYTES_MAX);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let bytes = stream.read(&mut buffer).unwrap_or(0);
        if bytes == 0 {
            return;
        }
        let mut out = Vec::new();
        let mut input = &buffer[..bytes];
        while let Some(record) = reader.next(&mut input).unwrap() {
            let (call, args) = decode_call(record).unwrap();
            if !mute {
                write_record(&mut out, |out| volume.lock().unwrap().answer(&call, args, out));
            }
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn args<'a, T: Decode<'a>>(mut input: Decoder<'a>) -> T {
    let value = T::decode(&mut input).unwrap();
    input.finish().unwrap();
    value
}

fn number(handle: FileHandle3<'_>) -> u64 {
    u64::from_be_bytes(handle.as_bytes().try_into().unwrap())
}

/// Returns a third of `count`, but at least one whole block if `count` has one.
fn third(count: usize) -> usize {
    count.div_ceil(3).max(5000).min(count)
}

const NO_WCC: WccData = WccData { before: None, after: None };

impl Volume {
    fn answer(&mut self, call: &CallHeader<'_>, input: Decoder<'_>, out: &mut Encoder<'_>) {
        self.replies += 1;
        let xid = call.xid ^ if self.fault == Fault::OtherCalls { 0x4000_0000 } else { 0 };
        if call.program == mount3::PROGRAM {
            encode_success(out, xid);
            let root = 1u64.to_be_bytes();
            let fhandle = FileHandle3::new(&root).unwrap();
            let result: MntRes<'_> = Ok(MntOk { fhandle, auth_flavors: AuthFlavors::default() });
            return result.encode(out);
        }
        let Some(procedure) = Procedure::from_code(call.procedure).filter(|_| call.program == PROGRAM) else {
            return ReplyHeader::accepted(xid, AcceptStat::ProcUnavail).encode(out);
        };
        *self.calls.entry(procedure.name()).or_default() += 1;
        encode_success(out, xid);
        match procedure {
            Procedure::Null => args(input),
            Procedure::Getattr => self.getattr(args(input), out),
            Procedure::Access => {
                let asked: AccessArgs<'_> = args(input);
                let result: AccessRes = Ok(AccessOk { obj_attributes: None, access: asked.access });
                result.encode(out);
            }
            Procedure::Lookup => self.lookup(args(input), out),
            Procedure::Read => self.read(args(input), out),
            Procedure::Write => self.write(args(input), out),
            Procedure::Commit => {
                let _: CommitArgs<'_> = args(input);
                let result: CommitRes = Ok(CommitOk { file_wcc: NO_WCC, verf: self.verifier() });
                result.encode(out);
            }
            Procedure::Create => {
                let asked: CreateArgs<'_> = args(input);
                self.create(asked.place, Node::File(Vec::new()), out);
            }
            Procedure::Mkdir => {
                let asked: MkdirArgs<'_> = args(input);
                self.create(asked.place, Node::Directory(BTreeMap::new()), out);
            }
            Procedure::Setattr => {
                let _: SetattrArgs<'_> = args(input);
                let result: SetattrRes = Ok(SetattrOk { obj_wcc: NO_WCC });
                result.encode(out);
            }
            Procedure::Remove | Procedure::Rmdir => {
                let asked: RemoveArgs<'_> = args(input);
                self.remove(asked.object, procedure == Procedure::Rmdir, out);
            }
            Procedure::Readdir => self.readdir(args(input), out),
            Procedure::Readdirplus => self.readdirplus(args(input), out),
            Procedure::Fsinfo => self.fsinfo(out),
            Procedure::Fsstat => self.fsstat(out),
            other => panic!("{other:?}"),
        }
    }

    fn verifier(&self) -> WriteVerf3 {
        if self.fault == Fault::Forgetful { self.replies.to_be_bytes() } else { [7; 8] }
    }

    fn fsinfo(&self, out: &mut Encoder<'_>) {
        let result: FsinfoRes = Ok(FsinfoOk {
            obj_attributes: None,
            rtmax: 64 << 10,
            rtpref: 64 << 10,
            rtmult: 1,
            wtmax: 64 << 10,
            wtpref: 64 << 10,
            wtmult: 1,
            dtpref: 4096,
            maxfilesize: u64::MAX,
            time_delta: NfsTime3 { seconds: 0, nanoseconds: 1 },
            properties: 0,
        });
        result.encode(out);
    }

    fn fsstat(&self, out: &mut Encoder<'_>) {
        let bytes = if self.fault == Fault::SmallDisk { 20 << 30 } else { 1 << 50 };
        let result: FsstatRes = Ok(FsstatOk {
            obj_attributes: None,
            tbytes: bytes,
            fbytes: bytes,
            abytes: bytes,
            tfiles: 1 << 40,
            ffiles: 1 << 40,
            afiles: 1 << 40,
            invarsec: 0,
        });
        result.encode(out);
    }

    fn attributes(&self, node: u64) -> Fattr3 {
        let time = NfsTime3 { seconds: 0, nanoseconds: 0 };
        let (file_type, size) = match &self.nodes[&node] {
            Node::Directory(_) => (FileType3::Dir, 4096),
            Node::File(data) => (FileType3::Reg, data.len() as u64),
        };
        Fattr3 {
            file_type,
            mode: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            size,
            used: size,
            rdev: SpecData3 { major: 0, minor: 0 },
            fsid: 1,
            fileid: node,
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    fn getattr(&self, asked: GetattrArgs<'_>, out: &mut Encoder<'_>) {
        let result: GetattrRes = Ok(GetattrOk { obj_attributes: self.attributes(number(asked.object)) });
        result.encode(out);
    }

    fn names(&mut self, directory: FileHandle3<'_>) -> &mut BTreeMap<Vec<u8>, u64> {
        match self.nodes.get_mut(&number(directory)).unwrap() {
            Node::Directory(names) => names,
            Node::File(_) => panic!("not a directory"),
        }
    }

    fn lookup(&mut self, asked: LookupArgs<'_>, out: &mut Encoder<'_>) {
        let found = self.names(asked.what.dir).get(asked.what.name.0).copied();
        let Some(node) = found else {
            let failed = Failed { status: NfsStat3::NoEnt, body: PostOpAttr::None };
            let result: LookupRes<'_> = Err(failed);
            return result.encode(out);
        };
        let handle = node.to_be_bytes();
        let object = FileHandle3::new(&handle).unwrap();
        let obj_attributes = Some(self.attributes(node));
        let result: LookupRes<'_> = Ok(LookupOk { object, obj_attributes, dir_attributes: None });
        result.encode(out);
    }

    fn create(&mut self, place: DirOpArgs3<'_>, node: Node, out: &mut Encoder<'_>) {
        let status = match self.fault {
            Fault::NoPermission => Some(NfsStat3::Acces),
            _ => self.names(place.dir).contains_key(place.name.0).then_some(NfsStat3::Exist),
        };
        if let Some(status) = status {
            let result: CreateRes<'_> = Err(Failed { status, body: NO_WCC });
            return result.encode(out);
        }
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.names(place.dir).insert(place.name.0.to_vec(), id);
        let handle = id.to_be_bytes();
        let obj = FileHandle3::new(&handle);
        let result: CreateRes<'_> = Ok(CreateOk { obj, obj_attributes: None, dir_wcc: NO_WCC });
        result.encode(out);
    }

    fn remove(&mut self, object: DirOpArgs3<'_>, is_rmdir: bool, out: &mut Encoder<'_>) {
        let found = self.names(object.dir).get(object.name.0).copied();
        let status = match found.map(|node| &self.nodes[&node]) {
            None => NfsStat3::NoEnt,
            Some(Node::Directory(names)) if is_rmdir && !names.is_empty() => NfsStat3::NotEmpty,
            Some(Node::Directory(_)) if !is_rmdir => NfsStat3::IsDir,
            Some(Node::File(_)) if is_rmdir => NfsStat3::NotDir,
            Some(Node::File(_)) if self.fault == Fault::SomeRemovesFail && self.replies.is_multiple_of(3) => {
                NfsStat3::ServerFault
            }
            Some(Node::File(_))
                if self.fault == Fault::SomeRemovesDelayed && self.replies.is_multiple_of(5) =>
            {
                NfsStat3::Jukebox
            }
            Some(_) => NfsStat3::Ok,
        };
        let body = NO_WCC;
        let result: RemoveRes = if status == NfsStat3::Ok {
            self.names(object.dir).remove(object.name.0);
            self.nodes.remove(&found.unwrap());
            Ok(RemoveOk { dir_wcc: NO_WCC })
        } else {
            Err(Failed { status, body })
        };
        result.encode(out);
    }

    fn read(&mut self, asked: ReadArgs<'_>, out: &mut Encoder<'_>) {
        let fault = self.fault;
        let Some(Node::File(data)) = self.nodes.get(&number(asked.file)) else { panic!("not a file") };
        let size = data.len();
        let mut offset = usize::try_from(asked.offset).unwrap().min(size);
        let mut count = asked.count as usize;
        if fault == Fault::OtherBlocks {
            offset = (offset + 4096) % size;
        }
        if fault == Fault::Short {
            count = third(count);
        }
        if fault == Fault::EarlyEnd {
            count = 0;
        }
        let data = &data[offset..size.min(offset + count)];
        let end = usize::try_from(asked.offset).unwrap() + data.len();
        let eof = end >= size || fault == Fault::EarlyEnd;
        let count = u32::try_from(data.len()).unwrap();
        let file_attributes = self.replies.is_multiple_of(2).then(|| self.attributes(number(asked.file)));
        let result: ReadRes<'_> = Ok(ReadOk { file_attributes, count, eof, data });
        result.encode(out);
    }

    fn write(&mut self, asked: WriteArgs<'_>, out: &mut Encoder<'_>) {
        if self.fault == Fault::NoSpace {
            let failed = Failed { status: NfsStat3::NoSpc, body: NO_WCC };
            let result: WriteRes = Err(failed);
            return result.encode(out);
        }
        let is_short = self.fault == Fault::Short;
        let Some(Node::File(data)) = self.nodes.get_mut(&number(asked.file)) else { panic!("not a file") };
        assert_eq!(asked.count as usize, asked.data.len());
        let moved = if is_short { third(asked.data.len()) } else { asked.data.len() };
        let offset = usize::try_from(asked.offset).unwrap();
        data.resize(data.len().max(offset + moved), 0);
        data[offset..offset + moved].copy_from_slice(&asked.data.here()[..moved]);
        let count = u32::try_from(moved).unwrap();
        let (committed, verf) = (asked.stable, self.verifier());
        let result: WriteRes = Ok(WriteOk { file_wcc: NO_WCC, count, committed, verf });
        result.encode(out);
    }

    /// Returns some names after a cookie, and whether they are the last ones.
    fn some_names(&mut self, directory: FileHandle3<'_>, cookie: u64) -> (Vec<(u64, Vec<u8>, u64)>, bool) {
        let names = self.names(directory);
        let skip = usize::try_from(cookie).unwrap();
        let listed: Vec<_> = (cookie + 1..)
            .zip(names.iter().skip(skip).take(40))
            .map(|(cookie, (name, node))| (cookie, name.clone(), *node))
            .collect();
        let is_end = skip + listed.len() >= names.len();
        (listed, is_end)
    }

    fn readdir(&mut self, asked: ReaddirArgs<'_>, out: &mut Encoder<'_>) {
        let (names, eof) = self.some_names(asked.dir, asked.cookie);
        let entries: Vec<Entry3<'_>> = names
            .iter()
            .map(|(cookie, name, fileid)| Entry3 { fileid: *fileid, name: Filename3(name), cookie: *cookie })
            .collect();
        let entries = List::new(&entries);
        let result: ReaddirRes<'_> = Ok(ReaddirOk { dir_attributes: None, cookieverf: [1; 8], entries, eof });
        result.encode(out);
    }

    fn readdirplus(&mut self, asked: ReaddirplusArgs<'_>, out: &mut Encoder<'_>) {
        let (names, eof) = self.some_names(asked.dir, asked.cookie);
        let entries: Vec<EntryPlus3<'_>> = names
            .iter()
            .map(|(cookie, name, fileid)| EntryPlus3 {
                fileid: *fileid,
                name: Filename3(name),
                cookie: *cookie,
                name_attributes: None,
                name_handle: None,
            })
            .collect();
        let entries = List::new(&entries);
        let result: ReaddirplusRes<'_> =
            Ok(ReaddirplusOk { dir_attributes: None, cookieverf: [1; 8], entries, eof });
        result.encode(out);
    }
}
