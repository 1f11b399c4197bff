//! Many small files. Like mdtest: creates, stats, reads and removes all files, in separate phases, in directories
//! made in advance. Like `tar`: makes and removes directories along the way, and sets the data, mode and time of each
//! file.

use std::fmt::Write as _;

use fastrand::Rng;
use wire::nfs3::{
    AccessArgs, AccessRes, CreateArgs, CreateHow3, CreateRes, DirOpArgs3, Filename3, LookupArgs, LookupRes,
    MkdirArgs, MkdirRes, NfsTime3, Procedure, ReadArgs, RemoveArgs, RemoveRes, RmdirArgs, Sattr3, SetTime,
    SetattrArgs, SetattrRes, StableHow, WriteRes, access,
};

use super::actor::{Actor, Begun, Cause, OperationCount, Reply, ok};
use super::{Plan, Setup, Stage, StageKind, Workload};
use crate::client::outbox::{CallTag, Outbox, Payload, SHARED_BYTES, WriteCall};
use crate::client::{Handle, mode};
use crate::error::LoadError;
use crate::random::generator;
use crate::verify;

const METADATA: &[&str] = &["CREATE", "STAT", "READ", "REMOVE"];
const SMALL_FILES: &[&str] = &["EXTRACT", "READ", "REMOVE"];

/// What a stage does with each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileAction {
    Create,
    Stat,
    Read,
    Remove,
}

const METADATA_ACTIONS: &[FileAction] =
    &[FileAction::Create, FileAction::Stat, FileAction::Read, FileAction::Remove];
const SMALL_FILES_ACTIONS: &[FileAction] = &[FileAction::Create, FileAction::Read, FileAction::Remove];

/// The call that an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Mkdir,
    Create,
    Write,
    Setattr,
    Lookup,
    Read,
    Access,
    Remove,
    Rmdir,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    file: u64,
    step: Step,
    handle: Option<Handle>,
}

/// The state machine of a thread, with its tree.
struct Tree {
    /// Whether it works like `tar` instead of mdtest.
    is_archive: bool,
    parent: Handle,
    directories: Vec<Handle>,
    directories_wanted: u64,
    files_per_directory: u64,
    file_bytes: u32,
    stage: usize,
    /// The index of the next file.
    next: u64,
    /// The index of the next directory to make or remove.
    next_directory: u64,
    /// Whether a MKDIR failed: this thread can do nothing more.
    is_lost: bool,
    in_flight: u32,
    lanes: Vec<Lane>,
    /// The identity of the blocks that `--verify` writes and expects.
    stamp: Option<u64>,
    random: Rng,
    name: String,
}

impl Tree {
    fn action(&self) -> FileAction {
        let all = if self.is_archive { SMALL_FILES_ACTIONS } else { METADATA_ACTIONS };
        all.get(self.stage).copied().unwrap_or(FileAction::Remove)
    }

    fn files(&self) -> u64 {
        self.files_per_directory * self.directories_wanted
    }

    /// Begins MKDIR or RMDIR if one is due.
    fn begin_directory(&mut self, lane: usize, out: &mut Outbox<'_>) -> Option<Begun> {
        let ahead = self.next / self.files_per_directory;
        let (is_making, is_removing) =
            (self.action() == FileAction::Create, self.action() == FileAction::Remove);
        self.name.clear();
        write!(self.name, "d{}", self.next_directory).expect("a String takes any text");
        let place = DirOpArgs3 { dir: self.parent.wire(), name: Filename3(self.name.as_bytes()) };
        if is_making && self.next < self.files() && ahead >= self.directories.len() as u64 {
            if self.next_directory > self.directories.len() as u64 {
                return Some(Begun::Wait);
            }
            out.call(CallTag::default(), Procedure::Mkdir, &MkdirArgs { place, attributes: mode(0o755) });
            self.lanes[lane].step = Step::Mkdir;
        } else if is_removing && ahead > self.next_directory {
            if self.in_flight > 0 {
                return Some(Begun::Wait);
            }
            out.call(CallTag::default(), Procedure::Rmdir, &RmdirArgs { object: place });
            self.lanes[lane].step = Step::Rmdir;
        } else {
            return None;
        }
        self.next_directory += 1;
        self.in_flight += 1;
        Some(Begun::Started)
    }

    /// Returns the file's data for `--verify`.
    fn data(&self, file: u64) -> Option<Vec<u8>> {
        let stamp = self.stamp?;
        let mut data = vec![0; self.file_bytes as usize];
        verify::fill(&mut data, stamp, file << 20, 1);
        Some(data)
    }

    fn created(&mut self, lane: usize, reply: &Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        let created = ok(Procedure::Create, reply.decode::<CreateRes<'_>>(Procedure::Create)?)?;
        let handle = created.obj.map(Handle::of).ok_or(Cause::Wrong("CREATE: no handle in the reply"))?;
        self.lanes[lane].handle = Some(handle);
        if self.file_bytes == 0 {
            self.finish_file(lane, &handle, out);
            return Ok(0);
        }
        let (offset, length, stable) = (0, self.file_bytes, StableHow::FileSync);
        let call = WriteCall { file: &handle, offset, length, stable };
        match self.data(self.lanes[lane].file) {
            Some(data) => {
                out.write(
                    CallTag::default(),
                    &call,
                    Payload::Made(&mut |to: &mut [u8]| to.copy_from_slice(&data)),
                );
            }
            None => {
                let start = self.random.u64(..SHARED_BYTES as u64);
                out.write(CallTag::default(), &call, Payload::Any { start });
            }
        }
        self.lanes[lane].step = Step::Write;
        Ok(0)
    }

    fn written(&mut self, lane: usize, reply: &Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        let written = ok(Procedure::Write, reply.decode::<WriteRes>(Procedure::Write)?)?;
        if written.count != self.file_bytes {
            return Err(Cause::Wrong("WRITE: only part of a small file was written"));
        }
        if written.committed != StableHow::FileSync {
            return Err(Cause::Wrong("WRITE: less stable than requested"));
        }
        if let Some(handle) = self.lanes[lane].handle {
            self.finish_file(lane, &handle, out);
        }
        Ok(u64::from(self.file_bytes))
    }

    /// Sets mode and time, like `tar`.
    fn finish_file(&mut self, lane: usize, handle: &Handle, out: &mut Outbox<'_>) {
        if !self.is_archive {
            return;
        }
        let mtime = SetTime::SetToClientTime(NfsTime3 { seconds: 1_000_000_000, nanoseconds: 0 });
        let attributes = Sattr3 { mode: Some(0o644), mtime, ..Sattr3::default() };
        let args = SetattrArgs { object: handle.wire(), new_attributes: attributes, guard: None };
        out.call(CallTag::default(), Procedure::Setattr, &args);
        self.lanes[lane].step = Step::Setattr;
    }

    fn found(&mut self, lane: usize, reply: &Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        let found = ok(Procedure::Lookup, reply.decode::<LookupRes<'_>>(Procedure::Lookup)?)?;
        let size = found.obj_attributes.map(|attributes| attributes.size);
        if size.is_some_and(|size| size != u64::from(self.file_bytes)) {
            return Err(Cause::Wrong("LOOKUP: wrong file size"));
        }
        if self.action() == FileAction::Stat {
            return Ok(0);
        }
        if self.file_bytes == 0 {
            // Opening a file calls ACCESS; an empty file has nothing to read.
            let args = AccessArgs { object: found.object, access: access::READ };
            out.call(CallTag::default(), Procedure::Access, &args);
            self.lanes[lane].step = Step::Access;
        } else {
            let args = ReadArgs { file: found.object, offset: 0, count: self.file_bytes };
            let whole = self.stamp.is_some();
            out.call(CallTag { whole, ..CallTag::default() }, Procedure::Read, &args);
            self.lanes[lane].step = Step::Read;
        }
        Ok(0)
    }

    fn read(&mut self, lane: usize, reply: &Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        let head = reply.read()?;
        if head.count != self.file_bytes {
            return Err(Cause::Wrong("READ: only part of a small file"));
        }
        if let Some(stamp) = self.stamp {
            let data = &head.data[..head.count as usize];
            let checked = verify::check(data, stamp, self.lanes[lane].file << 20, 1);
            out.verified(checked.map_err(|mistake| Cause::Wrong(mistake.words()))?);
        }
        Ok(u64::from(head.count))
    }
}

impl Actor for Tree {
    fn enter(&mut self, stage: usize) {
        self.stage = stage;
        self.next = 0;
        self.next_directory = 0;
        if self.is_archive && self.action() == FileAction::Create {
            self.directories.clear();
        }
    }

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        if self.is_lost {
            return Begun::Exhausted;
        }
        if self.is_archive
            && let Some(begun) = self.begin_directory(lane, out)
        {
            return begun;
        }
        if self.next >= self.files() {
            return Begun::Exhausted;
        }
        let file = self.next;
        let directory = usize::try_from(file / self.files_per_directory).unwrap_or(usize::MAX);
        let Some(dir) = self.directories.get(directory) else { return Begun::Exhausted };
        self.next += 1;
        self.in_flight += 1;
        self.name.clear();
        write!(self.name, "file-{file:07}").expect("a String takes any text");
        let place = DirOpArgs3 { dir: dir.wire(), name: Filename3(self.name.as_bytes()) };
        let part = CallTag::default();
        let step = match self.action() {
            FileAction::Create => {
                let how = CreateHow3::Guarded(mode(0o644));
                out.call(part, Procedure::Create, &CreateArgs { place, how });
                Step::Create
            }
            FileAction::Stat | FileAction::Read => {
                out.call(part, Procedure::Lookup, &LookupArgs { what: place });
                Step::Lookup
            }
            FileAction::Remove => {
                out.call(part, Procedure::Remove, &RemoveArgs { object: place });
                Step::Remove
            }
        };
        self.lanes[lane] = Lane { file, step, handle: None };
        Begun::Started
    }

    fn reply(&mut self, lane: usize, _: u32, reply: &Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        match self.lanes[lane].step {
            Step::Mkdir => {
                let made = ok(Procedure::Mkdir, reply.decode::<MkdirRes<'_>>(Procedure::Mkdir)?)?;
                let handle = made.obj.map(Handle::of).ok_or(Cause::Wrong("MKDIR: no handle in the reply"))?;
                self.directories.push(handle);
                Ok(0)
            }
            Step::Create => self.created(lane, reply, out),
            Step::Write => self.written(lane, reply, out),
            Step::Setattr => {
                ok(Procedure::Setattr, reply.decode::<SetattrRes>(Procedure::Setattr)?).map(|_| 0)
            }
            Step::Lookup => self.found(lane, reply, out),
            Step::Read => self.read(lane, reply, out),
            Step::Access => ok(Procedure::Access, reply.decode::<AccessRes>(Procedure::Access)?).map(|_| 0),
            Step::Remove => ok(Procedure::Remove, reply.decode::<RemoveRes>(Procedure::Remove)?).map(|_| 0),
            Step::Rmdir => ok(Procedure::Rmdir, reply.decode::<RemoveRes>(Procedure::Rmdir)?).map(|_| 0),
        }
    }

    fn ended(&mut self, lane: usize, succeeded: bool) -> OperationCount {
        self.in_flight -= 1;
        self.is_lost |= !succeeded && self.lanes[lane].step == Step::Mkdir;
        OperationCount { operations: 1, phase: u8::try_from(self.stage).ok() }
    }
}

/// Makes the directories that must exist in advance, and a state machine for each thread.
pub(super) fn plan(setup: &mut Setup<'_>, workload: &Workload) -> Result<Plan, LoadError> {
    let (is_archive, files_per_directory, directories, file_bytes) = match *workload {
        Workload::Metadata { files_per_directory, directories_per_thread, file_bytes } => {
            (false, files_per_directory, directories_per_thread, file_bytes)
        }
        Workload::SmallFiles { files_per_directory, directories_per_thread, file_bytes } => {
            (true, files_per_directory, directories_per_thread, file_bytes)
        }
        _ => return Err(LoadError::new("not a workload of small files")),
    };
    let file_bytes = u32::try_from(file_bytes).unwrap_or(u32::MAX);
    if file_bytes > setup.sizes.write_bytes.min(setup.sizes.read_bytes) {
        return Err(LoadError::new("the files are larger than the server's transfer size"));
    }
    let names = (0..setup.threads).map(|thread| (setup.directory, format!("t{thread}"))).collect::<Vec<_>>();
    let parents = setup.client.make_many(Procedure::Mkdir, &names)?;
    let mut actors: Vec<Box<dyn Actor>> = Vec::new();
    for (thread, parent) in (0u64..).zip(parents) {
        let wanted: Vec<_> = (0..directories).map(|directory| (parent, format!("d{directory}"))).collect();
        setup.has_made(thread, u64::from(setup.threads))?;
        let made = if is_archive { Vec::new() } else { setup.client.make_many(Procedure::Mkdir, &wanted)? };
        actors.push(Box::new(Tree {
            is_archive,
            parent,
            directories: made,
            directories_wanted: directories,
            files_per_directory,
            file_bytes,
            stage: 0,
            next: 0,
            next_directory: 0,
            is_lost: false,
            in_flight: 0,
            lanes: vec![Lane { file: 0, step: Step::Create, handle: None }; setup.depth as usize],
            stamp: setup.verify.then(|| setup.seed.wrapping_add(thread)),
            random: generator(setup.seed, thread),
            name: String::new(),
        }));
    }
    let phases = if is_archive { SMALL_FILES } else { METADATA };
    let stages = phases.iter().map(|name| Stage { name, kind: StageKind::Counted }).collect();
    let files = files_per_directory.saturating_mul(directories).saturating_mul(u64::from(setup.threads));
    Ok(Plan { stages, phases, actors, parts_max: 1, fill_bytes: 0, phase_operations: files })
}
