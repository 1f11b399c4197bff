//! A small NFS client.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wire::mount3::{self, DirPath, MntRes};
use wire::nfs3::{
    self, CreateArgs, CreateHow3, CreateRes, DirOpArgs3, FileHandle3, Filename3, FsstatArgs, FsstatRes,
    LookupArgs, LookupRes, MkdirArgs, NfsStat3, ReadArgs, ReadRes, Sattr3, SetTime, StableHow, WriteArgs,
    WriteRes,
};
use wire::nlm4::{self, HostName, LockArgs, Netobj, Nlm4Lock, Nlm4Stats};
use wire::record::write_record;
use wire::rpc::{AuthSys, CallHeader, Credential, Groups, OpaqueAuth, ReplyHeader};
use wire::xdr::{Decode as _, Decoder, Encode};

/// A connection and the root directory of the mounted export.
pub(crate) struct Client {
    stream: TcpStream,
    xid: u32,
    /// The user and the group of each call; those of the superuser at first.
    pub(crate) caller: (u32, u32),
    pub(crate) root: Vec<u8>,
}

impl Client {
    /// Connects and mounts.
    pub(crate) fn mount(address: SocketAddr, path: &str) -> Client {
        let mut client = Client::connect(address);
        client.try_mount(path).unwrap();
        client
    }

    /// Mounts an export. Returns the name of the status if it is refused.
    pub(crate) fn try_mount(&mut self, path: &str) -> Result<(), String> {
        self.try_mount_bytes(path.as_bytes())
    }

    /// Mounts an export whose path may be any bytes.
    pub(crate) fn try_mount_bytes(&mut self, path: &[u8]) -> Result<(), String> {
        let path = DirPath(path);
        let result = self.call(mount3::PROGRAM, mount3::Procedure::Mnt as u32, &path).unwrap();
        let mounted = MntRes::decode(&mut Decoder::new(&result)).unwrap();
        self.root = mounted.map_err(|status| status.to_string())?.fhandle.as_bytes().to_vec();
        Ok(())
    }

    /// Connects.
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client { stream, xid: 1, caller: (0, 0), root: Vec::new() }
    }

    /// Makes a call. An error means that the connection is lost.
    fn call(&mut self, program: u32, procedure: u32, arguments: &impl Encode) -> io::Result<Vec<u8>> {
        self.send(program, procedure, arguments)?;
        let (xid, result) = self.receive()?;
        assert_eq!(xid, self.xid);
        Ok(result)
    }

    /// Sends a call without waiting for its reply.
    fn send(&mut self, program: u32, procedure: u32, arguments: &impl Encode) -> io::Result<()> {
        self.xid += 1;
        let credential = Credential::Sys(AuthSys {
            stamp: 0,
            machine_name: b"test",
            uid: self.caller.0,
            gid: self.caller.1,
            groups: Groups::new(&[]).unwrap(),
        });
        let header = CallHeader {
            xid: self.xid,
            program,
            version: if program == nlm4::PROGRAM { nlm4::VERSION } else { 3 },
            procedure,
            credential,
            verifier: OpaqueAuth::NONE,
        };
        let mut call = Vec::new();
        write_record(&mut call, |out| {
            header.encode(out);
            arguments.encode(out);
        });
        self.stream.write_all(&call)
    }

    /// Receives the next reply; returns its xid and the result.
    fn receive(&mut self) -> io::Result<(u32, Vec<u8>)> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark)?;
        let mut reply = vec![0; usize::try_from(u32::from_be_bytes(mark) & !(1 << 31)).unwrap()];
        self.stream.read_exact(&mut reply)?;
        let mut decoder = Decoder::new(&reply);
        let answered = ReplyHeader::decode(&mut decoder).unwrap();
        assert!(answered.is_success(), "{answered:?}");
        Ok((answered.xid, decoder.rest().to_vec()))
    }

    /// Sends a READ without waiting for the reply.
    pub(crate) fn ask_for(&mut self, handle: &[u8], offset: u64, count: u32) {
        let arguments = ReadArgs { file: FileHandle3::new(handle).unwrap(), offset, count };
        self.send(nfs3::PROGRAM, nfs3::Procedure::Read as u32, &arguments).unwrap();
    }

    /// Sends an unstable WRITE without waiting for the reply.
    pub(crate) fn hand_over(&mut self, handle: &[u8], offset: u64, data: &[u8]) {
        let arguments = WriteArgs {
            file: FileHandle3::new(handle).unwrap(),
            offset,
            count: u32::try_from(data.len()).unwrap(),
            stable: StableHow::Unstable,
            data: data.into(),
        };
        self.send(nfs3::PROGRAM, nfs3::Procedure::Write as u32, &arguments).unwrap();
    }

    /// Receives the next reply; returns the name of its status.
    pub(crate) fn take_status(&mut self) -> String {
        let (_, result) = self.receive().unwrap();
        NfsStat3::decode(&mut Decoder::new(&result)).unwrap().to_string()
    }

    /// Receives the next reply, which must be successful; returns the length of its result.
    pub(crate) fn take_reply(&mut self) -> usize {
        let (_, result) = self.receive().unwrap();
        assert_eq!(result.first_chunk(), Some(&[0; 4]), "a status other than NFS3_OK");
        result.len()
    }

    fn nfs(&mut self, procedure: nfs3::Procedure, arguments: &impl Encode) -> io::Result<Vec<u8>> {
        self.call(nfs3::PROGRAM, procedure as u32, arguments)
    }

    /// Creates a file with `data`, stable, and returns its handle.
    pub(crate) fn write_file(&mut self, name: &str, data: &[u8]) -> Vec<u8> {
        self.try_write_file(name, data).unwrap()
    }

    /// The same while the server may be killed, or may refuse the file.
    pub(crate) fn try_write_file(&mut self, name: &str, data: &[u8]) -> io::Result<Vec<u8>> {
        let root = self.root.clone();
        let attributes = Sattr3 {
            mode: Some(0o644),
            uid: None,
            gid: None,
            size: None,
            atime: SetTime::DontChange,
            mtime: SetTime::DontChange,
        };
        let place = place(&root, name);
        let arguments = CreateArgs { place, how: CreateHow3::Guarded(attributes) };
        let result = self.nfs(nfs3::Procedure::Create, &arguments)?;
        let created = CreateRes::decode(&mut Decoder::new(&result)).unwrap();
        let created = created.map_err(|failed| io::Error::other(format!("{:?}", failed.status)))?;
        let handle = created.obj.unwrap().as_bytes().to_vec();
        let arguments = WriteArgs {
            file: FileHandle3::new(&handle).unwrap(),
            offset: 0,
            count: u32::try_from(data.len()).unwrap(),
            stable: StableHow::FileSync,
            data: data.into(),
        };
        let result = self.nfs(nfs3::Procedure::Write, &arguments)?;
        let written = WriteRes::decode(&mut Decoder::new(&result)).unwrap();
        let written = written.map_err(|failed| io::Error::other(format!("{:?}", failed.status)))?;
        assert_eq!(written.count, arguments.count);
        Ok(handle)
    }

    /// Makes a directory in the root directory, and returns its handle.
    pub(crate) fn make_directory(&mut self, name: &str) -> Vec<u8> {
        let root = self.root.clone();
        let attributes = Sattr3 {
            mode: Some(0o777),
            uid: None,
            gid: None,
            size: None,
            atime: SetTime::DontChange,
            mtime: SetTime::DontChange,
        };
        let arguments = MkdirArgs { place: place(&root, name), attributes };
        let result = self.nfs(nfs3::Procedure::Mkdir, &arguments).unwrap();
        let created = CreateRes::decode(&mut Decoder::new(&result)).unwrap();
        created.unwrap().obj.unwrap().as_bytes().to_vec()
    }

    /// Returns the total and the free bytes that an object shows.
    pub(crate) fn space(&mut self, handle: &[u8]) -> (u64, u64) {
        let arguments = FsstatArgs { fsroot: FileHandle3::new(handle).unwrap() };
        let result = self.nfs(nfs3::Procedure::Fsstat, &arguments).unwrap();
        let shown = FsstatRes::decode(&mut Decoder::new(&result)).unwrap().unwrap();
        (shown.tbytes, shown.abytes)
    }

    /// Whether the root directory has this name.
    /// Locks a file by NLM for the owner `owner`; returns whether nobody else holds it.
    pub(crate) fn lock(&mut self, handle: &[u8], owner: &str) -> bool {
        let lock = LockArgs {
            cookie: Netobj(b"cookie"),
            block: false,
            exclusive: true,
            alock: Nlm4Lock {
                caller_name: HostName(owner.as_bytes()),
                fh: Netobj(handle),
                oh: Netobj(owner.as_bytes()),
                svid: 1,
                l_offset: 0,
                l_len: 1,
            },
            reclaim: false,
            state: 1,
        };
        let result = self.call(nlm4::PROGRAM, nlm4::Procedure::Lock as u32, &lock).unwrap();
        match nlm4::Res::decode(&mut Decoder::new(&result)).unwrap().stat {
            Nlm4Stats::Granted => true,
            Nlm4Stats::Denied => false,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn has_file(&mut self, name: &str) -> bool {
        let root = self.root.clone();
        let result = self.nfs(nfs3::Procedure::Lookup, &LookupArgs { what: place(&root, name) }).unwrap();
        LookupRes::decode(&mut Decoder::new(&result)).unwrap().is_ok()
    }

    /// Returns the number of the file with this name.
    pub(crate) fn inode(&mut self, name: &str) -> u64 {
        let root = self.root.clone();
        let result = self.nfs(nfs3::Procedure::Lookup, &LookupArgs { what: place(&root, name) }).unwrap();
        let found = LookupRes::decode(&mut Decoder::new(&result)).unwrap().unwrap();
        found.obj_attributes.unwrap().fileid
    }

    /// Returns the contents of a file.
    pub(crate) fn read_file(&mut self, handle: &[u8]) -> Vec<u8> {
        let arguments = ReadArgs { file: FileHandle3::new(handle).unwrap(), offset: 0, count: 1 << 20 };
        let result = self.nfs(nfs3::Procedure::Read, &arguments).unwrap();
        ReadRes::decode(&mut Decoder::new(&result)).unwrap().unwrap().data.to_vec()
    }
}

fn place<'a>(directory: &'a [u8], name: &'a str) -> DirOpArgs3<'a> {
    DirOpArgs3 { dir: FileHandle3::new(directory).unwrap(), name: Filename3(name.as_bytes()) }
}
