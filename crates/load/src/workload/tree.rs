//! Many small files. Like mdtest: creates, stats, reads and removes all files, in separate phases, in directories
//! made in advance. Like `tar`: makes and removes directories along the way, and sets the data, mode and time of each
//! file.
//!
//! Where the protocol opens files, a file that is created or read is opened first and closed last.

use std::fmt::Write as _;

use fastrand::Rng;
use wire::nfs3::StableHow;

use super::actor::{Actor, Begun, OperationCount};
use super::{Plan, Setup, Stage, StageKind, Workload};
use crate::client::Handle;
use crate::client::cause::Cause;
use crate::client::outbox::{CallTag, Outbox, Payload, SHARED_BYTES};
use crate::client::reply::{Plain, Reply};
use crate::client::request::{File, IfExists, Place, Request, WriteRequest};
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
    Open,
    Read,
    Access,
    Close,
    Remove,
    Rmdir,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    /// The number of the file, or of the directory that is made or removed.
    number: u64,
    step: Step,
    /// The file, once it is known.
    file: File,
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

    /// Returns the directory of a file.
    fn directory(&self, file: u64) -> Option<Handle> {
        let index = usize::try_from(file / self.files_per_directory).unwrap_or(usize::MAX);
        self.directories.get(index).copied()
    }

    /// Begins MKDIR or RMDIR if one is due.
    fn begin_directory(&mut self, lane: usize, out: &mut Outbox<'_>) -> Option<Begun> {
        let ahead = self.next / self.files_per_directory;
        let (is_making, is_removing) =
            (self.action() == FileAction::Create, self.action() == FileAction::Remove);
        let step = if is_making && self.next < self.files() && ahead >= self.directories.len() as u64 {
            if self.next_directory > self.directories.len() as u64 {
                return Some(Begun::Wait);
            }
            Step::Mkdir
        } else if is_removing && ahead > self.next_directory {
            if self.in_flight > 0 {
                return Some(Begun::Wait);
            }
            Step::Rmdir
        } else {
            return None;
        };
        self.start(lane, self.next_directory, step, out);
        self.next_directory += 1;
        Some(Begun::Started)
    }

    /// Begins an operation with its first call.
    fn start(&mut self, lane: usize, number: u64, step: Step, out: &mut Outbox<'_>) {
        self.lanes[lane] = Lane { number, ..self.lanes[lane] };
        self.in_flight += 1;
        self.go_on(lane, step, out);
    }

    /// Sends the next call of an operation.
    fn go_on(&mut self, lane: usize, step: Step, out: &mut Outbox<'_>) {
        self.lanes[lane].step = step;
        self.send(lane, 0, out);
    }

    /// Closes the file, if the protocol opens files. This is the last call of an operation.
    fn close(&mut self, lane: usize, out: &mut Outbox<'_>) {
        if out.has_opens() {
            self.go_on(lane, Step::Close, out);
        }
    }

    /// Returns the file's data for `--verify`.
    fn data(&self, file: u64) -> Option<Vec<u8>> {
        let stamp = self.stamp?;
        let mut data = vec![0; self.file_bytes as usize];
        verify::fill(&mut data, stamp, file << 20, 1);
        Some(data)
    }

    /// Sends the data of a file.
    fn send_data(&mut self, file: &File, number: u64, out: &mut Outbox<'_>) {
        let (offset, length, stable) = (0, self.file_bytes, StableHow::FileSync);
        let request = WriteRequest { file, offset, length, stable };
        match self.data(number) {
            Some(data) => {
                let mut fill = |to: &mut [u8]| to.copy_from_slice(&data);
                out.write(CallTag::default(), &request, Payload::Made(&mut fill));
            }
            None => {
                let start = self.random.u64(..SHARED_BYTES as u64);
                out.write(CallTag::default(), &request, Payload::Any { start });
            }
        }
    }

    fn created(&mut self, lane: usize, reply: Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        let file = reply.created()?.file.ok_or(Cause::Wrong("CREATE: no handle in the reply"))?;
        self.lanes[lane].file = file;
        if self.file_bytes == 0 {
            self.finish_file(lane, out);
        } else {
            self.go_on(lane, Step::Write, out);
        }
        Ok(0)
    }

    fn written(&mut self, lane: usize, reply: Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        let written = reply.written()?;
        if written.count != self.file_bytes {
            return Err(Cause::Wrong("WRITE: only part of a small file was written"));
        }
        if written.committed != StableHow::FileSync {
            return Err(Cause::Wrong("WRITE: less stable than requested"));
        }
        self.finish_file(lane, out);
        Ok(u64::from(self.file_bytes))
    }

    /// Sets mode and time, like `tar`, or closes the file at once.
    fn finish_file(&mut self, lane: usize, out: &mut Outbox<'_>) {
        if self.is_archive { self.go_on(lane, Step::Setattr, out) } else { self.close(lane, out) }
    }

    /// Handles the size and handle of a file that was looked up or opened.
    fn found(
        &mut self,
        lane: usize,
        size: Option<u64>,
        file: File,
        out: &mut Outbox<'_>,
    ) -> Result<u64, Cause> {
        self.lanes[lane].file = file;
        if size.is_some_and(|size| size != u64::from(self.file_bytes)) {
            return Err(Cause::Wrong("LOOKUP: wrong file size"));
        }
        match (self.action(), self.file_bytes) {
            (FileAction::Stat, _) => {}
            // Opening a file calls ACCESS, or includes it; an empty file has nothing to read.
            (_, 0) if out.has_opens() => self.close(lane, out),
            (_, 0) => self.go_on(lane, Step::Access, out),
            _ => self.go_on(lane, Step::Read, out),
        }
        Ok(0)
    }

    fn read(&mut self, lane: usize, reply: Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        let head = reply.read()?;
        if head.count != self.file_bytes {
            return Err(Cause::Wrong("READ: only part of a small file"));
        }
        if let Some(stamp) = self.stamp {
            let data = &head.data[..head.count as usize];
            let checked = verify::check(data, stamp, self.lanes[lane].number << 20, 1);
            out.verified(checked.map_err(|mistake| Cause::Wrong(mistake.words()))?);
        }
        self.close(lane, out);
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
        let number = self.next;
        if self.directory(number).is_none() {
            return Begun::Exhausted;
        }
        self.next += 1;
        let step = match self.action() {
            FileAction::Create => Step::Create,
            FileAction::Read if out.has_opens() => Step::Open,
            FileAction::Stat | FileAction::Read => Step::Lookup,
            FileAction::Remove => Step::Remove,
        };
        self.start(lane, number, step, out);
        Begun::Started
    }

    fn send(&mut self, lane: usize, _: u32, out: &mut Outbox<'_>) {
        let Lane { number, step, file } = self.lanes[lane];
        self.name.clear();
        let (directory, named) = match step {
            Step::Mkdir | Step::Rmdir => (Some(self.parent), write!(self.name, "d{number}")),
            _ => (self.directory(number), write!(self.name, "file-{number:07}")),
        };
        named.expect("a String takes any text");
        // Without its directory a file would not have been begun.
        let directory = directory.unwrap_or(self.parent);
        let place = Place { directory: &directory, name: self.name.as_bytes() };
        let tag = CallTag::default();
        match step {
            Step::Mkdir => out.call(tag, &Request::Mkdir(place)),
            Step::Create => out.call(tag, &Request::Create(place, IfExists::Fail)),
            Step::Write => self.send_data(&file, number, out),
            Step::Setattr => out.call(tag, &Request::SetModeAndTime(&file)),
            Step::Lookup => out.call(tag, &Request::Lookup(place)),
            Step::Open => out.call(tag, &Request::Open(place)),
            Step::Read => {
                let (offset, count) = (0, self.file_bytes);
                let tag = CallTag { skims: self.stamp.is_none(), ..tag };
                out.call(tag, &Request::Read { file: &file, offset, count });
            }
            Step::Access => out.call(tag, &Request::Access(&file.handle)),
            Step::Close => out.call(tag, &Request::Close(&file)),
            Step::Remove => out.call(tag, &Request::Remove(place)),
            Step::Rmdir => out.call(tag, &Request::Rmdir(place)),
        }
    }

    fn reply(&mut self, lane: usize, _: u32, reply: Reply<'_>, out: &mut Outbox<'_>) -> Result<u64, Cause> {
        match self.lanes[lane].step {
            Step::Mkdir => {
                let handle = reply.made()?.ok_or(Cause::Wrong("MKDIR: no handle in the reply"))?;
                self.directories.push(handle);
                Ok(0)
            }
            Step::Create => self.created(lane, reply, out),
            Step::Write => self.written(lane, reply, out),
            Step::Setattr => {
                reply.plain(Plain::SetModeAndTime)?;
                self.close(lane, out);
                Ok(0)
            }
            Step::Lookup => {
                let found = reply.found()?;
                self.found(lane, found.size, File::unopened(found.handle), out)
            }
            Step::Open => {
                let opened = reply.opened()?;
                let file = opened.file.ok_or(Cause::Wrong("OPEN: no handle in the reply"))?;
                self.found(lane, opened.size, file, out)
            }
            Step::Read => self.read(lane, reply, out),
            Step::Access => reply.plain(Plain::Access).map(|()| 0),
            Step::Close => reply.plain(Plain::Close).map(|()| 0),
            Step::Remove => reply.plain(Plain::Remove).map(|()| 0),
            Step::Rmdir => reply.plain(Plain::Rmdir).map(|()| 0),
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
    let parents = setup.client.make_directories(&names)?;
    let mut actors: Vec<Box<dyn Actor>> = Vec::new();
    for (thread, parent) in (0u64..).zip(parents) {
        let wanted: Vec<_> = (0..directories).map(|directory| (parent, format!("d{directory}"))).collect();
        setup.has_made(thread, u64::from(setup.threads))?;
        let made = if is_archive { Vec::new() } else { setup.client.make_directories(&wanted)? };
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
            lanes: vec![
                Lane { number: 0, step: Step::Create, file: File::unopened(parent) };
                setup.depth as usize
            ],
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
