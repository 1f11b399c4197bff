//! The counted operations.

use volume::quota::{Owner, QuotaKind};
use wire::nfs3::{
    CommitArgs, CreateArgs, CreateHow3, CreateRes, DirOpArgs3, FileHandle3, Filename3, GetattrArgs,
    LookupArgs, MkdirArgs, MkdirRes, Procedure, ReadArgs, ReaddirplusArgs, ReaddirplusRes, RemoveArgs,
    Sattr3, StableHow, WriteArgs,
};
use wire::xdr::decode_all;

use super::{Record, Server, nfs4};

/// An operation.
pub(crate) struct Operation {
    /// Its name in the record.
    pub(crate) name: &'static str,
    /// Whether the volume is reopened first, so that everything is read from its index.
    pub(crate) is_cold: bool,
    pub(crate) prepare: fn(&mut Server, &Tree) -> Result<Prepared, String>,
}

/// The calls to be counted.
pub(crate) struct Prepared {
    /// The number of operations that they make.
    pub(crate) count: usize,
    /// The calls of a group are in flight together and share a commit.
    pub(crate) groups: Vec<Vec<Record>>,
    pub(crate) after: After,
}

/// The step that follows the calls and is counted with them.
#[derive(Clone, Copy)]
pub(crate) enum After {
    Nothing,
    WriteBack,
    Checkpoint,
}

const fn warm(name: &'static str, prepare: fn(&mut Server, &Tree) -> Result<Prepared, String>) -> Operation {
    Operation { name, is_cold: false, prepare }
}

/// All operations. Their order is part of the stream.
pub(crate) const OPERATIONS: &[Operation] = &[
    warm("NULL", null),
    warm("GETATTR", getattr),
    warm("NFSv4.2 GETATTR", nfs4::getattr),
    warm("LOOKUP", lookup),
    warm("NFSv4.2 LOOKUP", nfs4::lookup),
    warm("NFSv4.2 OPEN and CLOSE", nfs4::open_close),
    warm("READ 4 KiB, cached", read_small),
    warm("NFSv4.2 READ 4 KiB, cached", nfs4::read),
    warm("READ 1 MiB, cached", read_large),
    warm("CREATE", create),
    warm("REMOVE", remove),
    warm("WRITE 4 KiB FILE_SYNC", write_stable),
    warm("NFSv4.2 WRITE 4 KiB FILE_SYNC", nfs4::write),
    warm("WRITE 4 KiB UNSTABLE + COMMIT", write_commit),
    warm("WRITE 1 MiB UNSTABLE, and its write-back", write_large),
    warm("READDIRPLUS, a name", listing),
    warm("a checkpoint of created files, a file", checkpoint_of_files),
    warm("a checkpoint of random writes, a write", checkpoint_of_writes),
    warm("READ 4 KiB, cached, after random writes", read_small),
    warm("CREATE of a user", create_as_user),
    warm("CREATE of a user, in a quota tree", create_in_tree),
    warm("CREATE of a user, with limits on user, group, tree and volume", create_within_limits),
    Operation { name: "LOOKUP, from the index", is_cold: true, prepare: lookup_cold },
];

/// Calls in flight.
pub(crate) const GROUP: usize = 16;
/// The number of counted calls: of cheap ones, of changes, and of large ones.
pub(crate) const MANY: usize = 1024;
pub(crate) const SOME: usize = 512;
const FEW: usize = 16;

pub(crate) const NAMES: usize = 2000;
pub(crate) const SMALL: u32 = 4 << 10;
const LARGE: u32 = 1 << 20;
const LARGE_FILE_BYTES: u64 = 4 << 20;
const LISTING_BYTES: u32 = 32 << 10;

/// The files that exist before anything is counted.
pub(crate) struct Tree {
    /// A directory of [`NAMES`] empty files.
    pub(crate) full: Vec<u8>,
    /// A directory that is empty but for what operations create.
    empty: Vec<u8>,
    /// Files of [`LARGE_FILE_BYTES`], one for each call in flight.
    pub(crate) files: Vec<Vec<u8>>,
}

fn handle(bytes: &[u8]) -> FileHandle3<'_> {
    FileHandle3::new(bytes).expect("a handle that the server gave")
}

fn place<'a>(directory: &'a [u8], name: &'a str) -> DirOpArgs3<'a> {
    DirOpArgs3 { dir: handle(directory), name: Filename3(name.as_bytes()) }
}

fn mkdir(server: &mut Server, parent: &[u8], name: &str) -> Result<Vec<u8>, String> {
    mkdir_with(server, parent, name, Sattr3::default())
}

fn mkdir_with(server: &mut Server, parent: &[u8], name: &str, attributes: Sattr3) -> Result<Vec<u8>, String> {
    let arguments = MkdirArgs { place: place(parent, name), attributes };
    let record = server.record(Procedure::Mkdir, &arguments);
    let results = server.call(&record)?;
    let made: MkdirRes<'_> = decode_all(&results).map_err(|error| error.to_string())?;
    let made = made.map_err(|failed| format!("MKDIR: {:?}", failed.status))?;
    Ok(made.obj.ok_or("MKDIR returned no handle")?.as_bytes().to_vec())
}

fn create_record(server: &mut Server, directory: &[u8], name: &str) -> Record {
    let how = CreateHow3::Unchecked(Sattr3 { mode: Some(0o644), ..Sattr3::default() });
    server.record(Procedure::Create, &CreateArgs { place: place(directory, name), how })
}

fn write_record(server: &mut Server, file: &[u8], offset: u64, bytes: u32, stable: StableHow) -> Record {
    // All blocks differ.
    let first = offset.to_be_bytes()[4] ^ offset.to_be_bytes()[6];
    let data: Vec<u8> = (0..bytes).map(|at| at.to_be_bytes()[3] ^ at.to_be_bytes()[2] ^ first).collect();
    let arguments = WriteArgs { file: handle(file), offset, count: bytes, stable, data: (&data).into() };
    server.record(Procedure::Write, &arguments)
}

impl Tree {
    pub(crate) fn make(server: &mut Server) -> Result<Tree, String> {
        let root = server.mount()?;
        let (full, empty) = (mkdir(server, &root, "full")?, mkdir(server, &root, "empty")?);
        for number in 0..NAMES {
            let record = create_record(server, &full, &name(number));
            server.call(&record)?;
        }
        let mut files = Vec::new();
        for number in 0..GROUP {
            let record = create_record(server, &root, &format!("file-{number}"));
            let results = server.call(&record)?;
            let created: CreateRes<'_> = decode_all(&results).map_err(|error| error.to_string())?;
            let created = created.map_err(|failed| format!("CREATE: {:?}", failed.status))?;
            let file = created.obj.ok_or("CREATE returned no handle")?.as_bytes().to_vec();
            for offset in (0..LARGE_FILE_BYTES).step_by(LARGE as usize) {
                let record = write_record(server, &file, offset, LARGE, StableHow::Unstable);
                server.call(&record)?;
            }
            server.write_back();
            files.push(file);
        }
        Ok(Tree { full, empty, files })
    }
}

pub(crate) fn name(number: usize) -> String {
    format!("name-{number}")
}

/// Returns a number that looks random and is the same each time, by a multiplicative congruential generator.
pub(crate) fn scattered(number: usize, below: usize) -> usize {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 33).expect("31 bits") % below
}

/// Returns the offset of a small block anywhere in a large file.
pub(crate) fn scattered_offset(number: usize) -> u64 {
    let blocks = usize::try_from(LARGE_FILE_BYTES / u64::from(SMALL)).expect("a few thousand");
    scattered(number, blocks) as u64 * u64::from(SMALL)
}

/// Returns `count` calls, each an operation.
fn calls(
    server: &mut Server,
    count: usize,
    mut record: impl FnMut(&mut Server, usize) -> Record,
) -> Result<Prepared, String> {
    let records: Vec<Record> = (0..count).map(|number| record(server, number)).collect();
    let groups = records.chunks(GROUP).map(<[Record]>::to_vec).collect();
    Ok(Prepared { count, groups, after: After::Nothing })
}

/// Returns the same calls after executing them once, so that what they need is in memory.
fn cached(
    server: &mut Server,
    count: usize,
    record: impl FnMut(&mut Server, usize) -> Record,
) -> Result<Prepared, String> {
    let prepared = calls(server, count, record)?;
    for group in &prepared.groups {
        server.serve(group)?;
    }
    Ok(prepared)
}

fn null(server: &mut Server, _: &Tree) -> Result<Prepared, String> {
    cached(server, MANY, |server, _| server.record(Procedure::Null, &()))
}

fn getattr(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    cached(server, MANY, |server, number| {
        let object = handle(&tree.files[number % tree.files.len()]);
        server.record(Procedure::Getattr, &GetattrArgs { object })
    })
}

fn lookup_record(server: &mut Server, tree: &Tree, number: usize) -> Record {
    let name = name(scattered(number, NAMES));
    server.record(Procedure::Lookup, &LookupArgs { what: place(&tree.full, &name) })
}

fn lookup(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    cached(server, MANY, |server, number| lookup_record(server, tree, number))
}

fn lookup_cold(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    calls(server, SOME, |server, number| lookup_record(server, tree, number))
}

fn read_small(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let file = handle(&tree.files[0]);
    cached(server, MANY, |server, number| {
        let offset = scattered_offset(number);
        server.record(Procedure::Read, &ReadArgs { file, offset, count: SMALL })
    })
}

fn read_large(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let file = handle(&tree.files[0]);
    cached(server, FEW, |server, number| {
        let offset = number as u64 * u64::from(LARGE) % LARGE_FILE_BYTES;
        server.record(Procedure::Read, &ReadArgs { file, offset, count: LARGE })
    })
}

fn create(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    calls(server, SOME, |server, number| create_record(server, &tree.empty, &name(number)))
}

/// The user and group of calls that are not the superuser's.
const USER: u32 = 1000;

fn create_as_user(server: &mut Server, _: &Tree) -> Result<Prepared, String> {
    let directory = new_directory(server, "of-a-user")?;
    create_of_user(server, &directory)
}

fn create_in_tree(server: &mut Server, _: &Tree) -> Result<Prepared, String> {
    let directory = new_directory(server, "in-a-tree")?;
    server.make_tree(&directory)?;
    create_of_user(server, &directory)
}

fn create_within_limits(server: &mut Server, _: &Tree) -> Result<Prepared, String> {
    let directory = new_directory(server, "within-limits")?;
    let tree = server.make_tree(&directory)?;
    server.limit([
        Owner::new(QuotaKind::User, USER.into()),
        Owner::new(QuotaKind::Group, USER.into()),
        tree,
        Owner::VOLUME,
    ])?;
    create_of_user(server, &directory)
}

fn new_directory(server: &mut Server, name: &str) -> Result<Vec<u8>, String> {
    let root = server.mount()?;
    let attributes = Sattr3 { mode: Some(0o777), ..Sattr3::default() };
    mkdir_with(server, &root, name, attributes)
}

fn create_of_user(server: &mut Server, directory: &[u8]) -> Result<Prepared, String> {
    server.set_caller(USER);
    let prepared = calls(server, SOME, |server, number| create_record(server, directory, &name(number)));
    server.set_caller(0);
    prepared
}

fn remove(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    calls(server, SOME, |server, number| {
        server.record(Procedure::Remove, &RemoveArgs { object: place(&tree.empty, &name(number)) })
    })
}

/// Returns a stable WRITE of a small block.
fn stable_write(server: &mut Server, tree: &Tree, number: usize) -> Record {
    let file = &tree.files[number % tree.files.len()];
    write_record(server, file, scattered_offset(number), SMALL, StableHow::FileSync)
}

fn write_stable(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    calls(server, SOME, |server, number| stable_write(server, tree, number))
}

/// Prepares an unstable WRITE to each file, then a COMMIT of each.
fn write_commit(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let mut prepared = calls(server, SOME, |server, number| {
        let file = &tree.files[number % tree.files.len()];
        write_record(server, file, scattered_offset(number), SMALL, StableHow::Unstable)
    })?;
    let first = prepared.groups.len() * GROUP;
    for (group, writes) in prepared.groups.iter_mut().enumerate() {
        for (at, file) in tree.files.iter().enumerate() {
            let offset = scattered_offset(group * GROUP + at);
            let arguments = CommitArgs { file: handle(file), offset, count: SMALL };
            writes.push(server.record(Procedure::Commit, &arguments));
        }
    }
    Ok(Prepared { count: first, ..prepared })
}

fn write_large(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let prepared = calls(server, FEW, |server, number| {
        let offset = number as u64 * u64::from(LARGE) % LARGE_FILE_BYTES;
        write_record(server, &tree.files[1 + number / 4], offset, LARGE, StableHow::Unstable)
    })?;
    Ok(Prepared { after: After::WriteBack, ..prepared })
}

/// Prepares the calls that list a directory, by listing it once.
fn listing(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let (mut cookie, mut cookieverf, mut count, mut groups) = (0, [0; 8], 0, Vec::new());
    loop {
        let dir = handle(&tree.full);
        let arguments =
            ReaddirplusArgs { dir, cookie, cookieverf, dircount: LISTING_BYTES, maxcount: LISTING_BYTES };
        let record = server.record(Procedure::Readdirplus, &arguments);
        let results = server.call(&record)?;
        groups.push(vec![record]);
        let listed: ReaddirplusRes<'_> = decode_all(&results).map_err(|error| error.to_string())?;
        let listed = listed.map_err(|failed| format!("READDIRPLUS: {:?}", failed.status))?;
        for entry in listed.entries.iter() {
            cookie = entry.cookie;
            count += 1;
        }
        cookieverf = listed.cookieverf;
        if listed.eof {
            return Ok(Prepared { count, groups, after: After::Nothing });
        }
    }
}

/// Executes the calls uncounted, and prepares a checkpoint of their changes.
fn checkpoint_after(server: &mut Server, prepared: &Prepared) -> Result<Prepared, String> {
    for group in &prepared.groups {
        server.serve(group)?;
    }
    Ok(Prepared { count: prepared.count, groups: Vec::new(), after: After::Checkpoint })
}

fn checkpoint_of_files(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let created = create(server, tree)?;
    checkpoint_after(server, &created)
}

fn checkpoint_of_writes(server: &mut Server, tree: &Tree) -> Result<Prepared, String> {
    let written = write_stable(server, tree)?;
    checkpoint_after(server, &written)
}
