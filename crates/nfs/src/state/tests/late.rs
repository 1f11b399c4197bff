//! Whole calls on a name that another file takes, which is delegated, between the check for delegations and the change.

use std::thread;

use volume::attributes::SetAttributes;
use volume::media::memory::MemoryMedia;
use volume::request::{Access, Credentials, Journaled, Request};
use volume::results::CreateHow;
use volume::{CreateOptions, Options, Pool, Volume, VolumeOptions};
use wire::nfs3::{self, DirOpArgs3, FileHandle3, Filename3};
use wire::nfs4::compound::CompoundArgsEncoder;
use wire::nfs4::{self, ArgOp4, Component4, FileHandle4, PutfhArgs, Utf8Str4};
use wire::rpc::{AuthSys, CallHeader, Credential, Groups, OpaqueAuth};
use wire::xdr::{Encode, Encoder};

use super::*;
use crate::exports::{Export, Squash};
use crate::incoming::CopyTerms;
use crate::service::{Connection, Incoming, IncomingRecord, Outcome, ReplyBuffer, Service};
use crate::state::delegations::{Delegated, DelegationWant};

/// The size of each file.
const SIZE: u64 = 4096;

/// A server with one volume.
struct Server {
    service: Service,
    volume: Arc<Volume>,
    now: Time,
}

impl Server {
    fn new() -> Server {
        let media = MemoryMedia::always_powered(16 << 20, 4 << 30);
        let now = Time::from_parts(1_700_000_000, 0);
        let options = CreateOptions {
            pool: volume::ids::PoolId(1),
            journal_id: [7; 16],
            volume: VolumeOptions {
                id: VOLUME,
                name: "main".to_owned(),
                size: None,
                handle_secret: [7; 16],
                root_mode: 0o755,
                root_owner: (0, 0),
            },
            now,
        };
        Pool::create(media.as_ref(), &options).unwrap();
        let options = Options { memory: 64 << 20, segment_bytes: 4 << 20, cache_seed: Some(0) };
        let volume = Arc::new(Volume::open(media, &options, now).unwrap());
        let export = Export { squash: Squash::None, ..Export::new("/main", VOLUME) };
        let service = Service::new(vec![export], vec![Arc::clone(&volume)]).unwrap();
        Server { service, volume, now }
    }

    fn state(&self) -> &SharedState {
        &self.service.context.shared.state
    }

    fn with_request<T>(&self, run: impl FnOnce(&Request<'_>) -> T) -> T {
        let credentials = Credentials::root();
        run(&Request { credentials: &credentials, now: self.now, access: Access::Blocking, key: None })
    }

    fn create(&self, name: &str) -> FileId {
        let how = CreateHow::Guarded(SetAttributes { size: Some(SIZE), ..SetAttributes::default() });
        let nothing = &mut |_: &_| Journaled::default();
        let created = self.with_request(|request| {
            self.volume.create_file(request, Ino::ROOT, name.as_bytes(), &how, nothing)
        });
        FileId { volume: VOLUME, ino: created.unwrap().value.attributes.ino }
    }

    fn size(&self, file: FileId) -> u64 {
        self.with_request(|request| self.volume.attributes(request, file.ino)).unwrap().value.size
    }

    fn rename(&self, from: &str, to: &str) {
        let (from, to) = ((Ino::ROOT, from.as_bytes()), (Ino::ROOT, to.as_bytes()));
        let nothing = &mut |_: &_| Journaled::default();
        self.with_request(|request| self.volume.rename(request, from, to, nothing)).unwrap();
    }

    /// Delegates a file to another client.
    fn delegate(&self, file: FileId) {
        let (state, context) = (self.state(), self.service.context.state_context(self.now.into()));
        let (client, _) = client(state, &context, b"one", 1, nfs4::create_session_flag::CONN_BACK_CHAN);
        let owner = client.open_owner(b"o", || OwnerSequence::new(self.now));
        let opening =
            OpenRequest { client: &client, owner: &owner, mode: files::share::Mode::new(1, 0).unwrap() };
        let opened = state.hold_and_open(&context, file, &opening).unwrap();
        let (delegated, _) = state.delegate(&context, &opened.entry, DelegationWant::Any, false);
        assert!(matches!(delegated, Delegated::Read(_)), "no conflict");
    }

    /// Executes a call and returns its status.
    fn call(&self, (program, version, procedure): (u32, u32, u32), args: &[u8]) -> u32 {
        let groups = Groups::default();
        let credential =
            Credential::Sys(AuthSys { stamp: 1, machine_name: b"client", uid: 0, gid: 0, groups });
        let verifier = OpaqueAuth::NONE;
        let mut record = Vec::new();
        let header = CallHeader { xid: 1, program, version, procedure, credential, verifier };
        header.encode(&mut Encoder::new(&mut record));
        record.extend_from_slice(args);
        let (peer, local) = ("192.0.2.1:900".parse().unwrap(), "192.0.2.2:2049".parse().unwrap());
        let connection = Connection { peer, local, id: ConnectionId(9) };
        let (mut reply, mut progress) = (ReplyBuffer::default(), None);
        let record = &IncomingRecord::decode(&record);
        loop {
            let access = Access::Blocking;
            let incoming =
                Incoming { record, connection, now: self.now.into(), access, copy_terms: CopyTerms::Free };
            match self.service.handle(&incoming, &mut progress, &mut reply) {
                Outcome::Reply { .. } => break,
                Outcome::Busy(_) | Outcome::Later => {}
                other => panic!("{other:?}"),
            }
        }
        // After a record mark and a header of six words.
        u32::from_be_bytes(*reply.into_bytes()[28..].first_chunk().unwrap())
    }

    /// Executes a procedure of NFSv3.
    fn three(&self, procedure: nfs3::Procedure, args: &impl Encode) -> u32 {
        let mut bytes = Vec::new();
        args.encode(&mut Encoder::new(&mut bytes));
        self.call((nfs3::PROGRAM, nfs3::VERSION, procedure.code()), &bytes)
    }

    /// Executes an operation of NFSv4.0 with the root as current and saved directory.
    fn four(&self, operation: &ArgOp4<'_>) -> u32 {
        let root = self.root();
        let mut bytes = Vec::new();
        let mut out = Encoder::new(&mut bytes);
        let mut compound = CompoundArgsEncoder::begin(&mut out, Utf8Str4(b""), 0);
        compound.push(&ArgOp4::Putfh(PutfhArgs { object: FileHandle4::new(&root).unwrap() }));
        compound.push(&ArgOp4::Savefh);
        compound.push(operation);
        compound.finish();
        self.call((nfs4::PROGRAM, nfs4::VERSION, 1), &bytes)
    }

    fn root(&self) -> Vec<u8> {
        self.volume.handle(Ino::ROOT).to_bytes().to_vec()
    }

    fn three_remove(&self, name: &str) -> u32 {
        let root = self.root();
        self.three(nfs3::Procedure::Remove, &nfs3::RemoveArgs { object: place(&root, name) })
    }

    fn three_rename(&self, from: &str, to: &str) -> u32 {
        let root = self.root();
        let args = nfs3::RenameArgs { from: place(&root, from), to: place(&root, to) };
        self.three(nfs3::Procedure::Rename, &args)
    }

    /// CREATE of a name, which truncates an existing file.
    fn three_cut(&self, name: &str) -> u32 {
        let root = self.root();
        let how = nfs3::CreateHow3::Unchecked(nfs3::Sattr3 { size: Some(0), ..nfs3::Sattr3::default() });
        self.three(nfs3::Procedure::Create, &nfs3::CreateArgs { place: place(&root, name), how })
    }

    fn four_remove(&self, name: &str) -> u32 {
        self.four(&ArgOp4::Remove(nfs4::RemoveArgs { target: Component4(name.as_bytes()) }))
    }

    fn four_rename(&self, from: &str, to: &str) -> u32 {
        let (oldname, newname) = (Component4(from.as_bytes()), Component4(to.as_bytes()));
        self.four(&ArgOp4::Rename(nfs4::RenameArgs { oldname, newname }))
    }
}

fn place<'a>(directory: &'a [u8], name: &'a str) -> DirOpArgs3<'a> {
    DirOpArgs3 { dir: FileHandle3::new(directory).unwrap(), name: Filename3(name.as_bytes()) }
}

/// Runs an operation on the name `known`, whose file is not delegated at the check. Before the operation continues, a
/// delegated file takes the name, and `coming` names another file. Returns the status, and the number of recalls.
fn meanwhile(operation: impl Fn(&Server) -> u32 + Sync) -> (u32, usize) {
    let server = Server::new();
    let known = server.create("known");
    let delegated = server.create("delegated");
    server.create("free");
    server.delegate(delegated);
    let status = thread::scope(|scope| {
        // Keeps the operation from checking for delegations of the file.
        let looked_at = server.state().files.write(&known);
        let notifying = scope.spawn(|| operation(&server));
        wait_for_change(server.state(), known);
        server.rename("delegated", "known");
        server.rename("free", "coming");
        drop(looked_at);
        notifying.join().unwrap()
    });
    assert_eq!(server.size(delegated), SIZE, "its holders were not checked");
    (status, server.state().take_callbacks().len())
}

#[test]
fn remove_recalls_a_file_that_took_the_name_meanwhile() {
    assert_eq!(meanwhile(|server| server.three_remove("known")), (0, 1));
    assert_eq!(meanwhile(|server| server.four_remove("known")), (0, 1));
}

#[test]
fn rename_recalls_a_source_that_took_the_name_meanwhile() {
    assert_eq!(meanwhile(|server| server.three_rename("known", "new")), (0, 1));
    assert_eq!(meanwhile(|server| server.four_rename("known", "new")), (0, 1));
}

#[test]
fn rename_recalls_a_target_that_took_the_name_meanwhile() {
    assert_eq!(meanwhile(|server| server.three_rename("coming", "known")), (0, 1));
    assert_eq!(meanwhile(|server| server.four_rename("coming", "known")), (0, 1));
}

/// The name is looked up again, and the file recalled before it is truncated. NFSv4 truncates the file that it looked
/// up, by number.
#[test]
fn create_does_not_truncate_a_file_that_took_the_name_meanwhile() {
    let jukebox = nfs3::NfsStat3::Jukebox.code();
    assert_eq!(meanwhile(|server| server.three_cut("known")), (jukebox, 1));
}
