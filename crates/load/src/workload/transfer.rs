//! Reads and writes files, sequentially or at random offsets. Each thread has its own file or its own part of a
//! shared file.
//!
//! An operation transfers a block. A block larger than the server's transfer size is split into several calls, all in
//! flight together. If the server transfers less than requested, the rest is requested again, as clients do.

use fastrand::Rng;
use wire::nfs3::StableHow;

use super::actor::{Actor, Begun, OperationCount};
use super::{Plan, Setup, Stability, Stage, StageKind, Workload};
use crate::client::cause::Cause;
use crate::client::outbox::{CallTag, Outbox, Payload, SHARED_BYTES};
use crate::client::reply::Reply;
use crate::client::request::{File, Request, WriteRequest};
use crate::client::{Handle, TransferSizes};
use crate::error::LoadError;
use crate::random::generator;

mod verified_region;

use verified_region::VerifiedRegion;

const STAGES: &[Stage] = &[
    Stage { name: "fill", kind: StageKind::Prepare },
    Stage { name: "measure", kind: StageKind::Timed },
    Stage { name: "commit", kind: StageKind::Finish },
    Stage { name: "check", kind: StageKind::Finish },
];
const FILL: usize = 0;
const MEASURE: usize = 1;
const CHECK: usize = 3;

const PHASES: &[&str] = &["READ", "WRITE", "COMMIT"];
const READ: u8 = 0;
const WRITE: u8 = 1;
const COMMIT: u8 = 2;

/// The part number of COMMIT.
const COMMIT_PART: u32 = u32::MAX;

/// The pattern of the measured operations.
#[derive(Clone, Copy, Debug)]
struct AccessPattern {
    block_bytes: u64,
    /// The percentage of operations that read.
    read_percent: u64,
    is_random: bool,
    shared_file: bool,
    stability: Stability,
}

impl AccessPattern {
    fn of(workload: &Workload) -> Option<Self> {
        Some(match *workload {
            Workload::SequentialRead { block_bytes, shared_file } => {
                let stability = Stability::Unstable;
                Self { block_bytes, read_percent: 100, is_random: false, shared_file, stability }
            }
            Workload::SequentialWrite { block_bytes, shared_file, stability } => {
                Self { block_bytes, read_percent: 0, is_random: false, shared_file, stability }
            }
            Workload::Random { block_bytes, read_percent, stability } => {
                let read_percent = u64::from(read_percent);
                Self { block_bytes, read_percent, is_random: true, shared_file: false, stability }
            }
            _ => return None,
        })
    }

    /// Whether the files are written in full before the measurement.
    const fn needs_fill(&self) -> bool {
        self.is_random || self.read_percent > 0
    }

    const fn is_mix(&self) -> bool {
        self.read_percent > 0 && self.read_percent < 100
    }

    const fn stable(&self) -> StableHow {
        match self.stability {
            Stability::Unstable | Stability::Commit => StableHow::Unstable,
            Stability::DataSync => StableHow::DataSync,
            Stability::FileSync => StableHow::FileSync,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Read,
    Write,
    Commit,
}

/// An operation in flight.
#[derive(Clone, Debug, Default)]
struct Lane {
    kind: Kind,
    offset: u64,
    length: u64,
    /// The remaining offset and length of each call.
    parts: Vec<(u64, u32)>,
}

/// The state machine of a thread that reads and writes.
struct Transfer {
    pattern: AccessPattern,
    sizes: TransferSizes,
    file: File,
    file_bytes: u64,
    /// The offset of this thread's part of the file.
    base: u64,
    region_bytes: u64,
    /// The next sequential offset, relative to `base`.
    cursor: u64,
    stage: usize,
    lanes: Vec<Lane>,
    in_flight: u32,
    /// Whether unstable data was written since the last COMMIT.
    uncommitted: bool,
    verifier: Option<[u8; 8]>,
    random: Rng,
    verified: Option<VerifiedRegion>,
}

impl Transfer {
    /// Chooses the next operation of the stage.
    fn choose(&mut self) -> Result<(Kind, u64, u64), Begun> {
        match self.stage {
            FILL if self.cursor < self.region_bytes && self.pattern.needs_fill() => {
                let length = u64::from(self.sizes.write_bytes).min(self.region_bytes - self.cursor);
                self.cursor += length;
                Ok((Kind::Write, self.base + self.cursor - length, length))
            }
            MEASURE if self.pattern.is_random => self.choose_block(),
            MEASURE => self.choose_next(),
            CHECK => self.choose_written(),
            _ if self.uncommitted => self.choose_commit(),
            _ => Err(Begun::Exhausted),
        }
    }

    fn choose_commit(&mut self) -> Result<(Kind, u64, u64), Begun> {
        if self.in_flight > 0 {
            return Err(Begun::Wait);
        }
        self.uncommitted = false;
        Ok((Kind::Commit, self.base, self.region_bytes))
    }

    fn choose_next(&mut self) -> Result<(Kind, u64, u64), Begun> {
        if self.cursor >= self.region_bytes {
            if self.pattern.stability == Stability::Unstable && self.uncommitted {
                return self.choose_commit();
            }
            self.cursor = 0;
        }
        let offset = self.base + self.cursor;
        if self.verified.as_ref().is_some_and(|verified| verified.is_busy(offset, self.pattern.block_bytes)) {
            return Err(Begun::Wait);
        }
        self.cursor += self.pattern.block_bytes;
        let kind = if self.pattern.read_percent > 0 { Kind::Read } else { Kind::Write };
        Ok((kind, offset, self.pattern.block_bytes))
    }

    /// Chooses a block that was written, to read it back once for `--verify`.
    fn choose_written(&mut self) -> Result<(Kind, u64, u64), Begun> {
        let Some(verified) = self.verified.as_ref().filter(|_| self.pattern.read_percent < 100) else {
            return Err(Begun::Exhausted);
        };
        let block = self.pattern.block_bytes;
        while self.cursor < self.region_bytes {
            let offset = self.base + self.cursor;
            self.cursor += block;
            if verified.is_known(offset, block) {
                return Ok((Kind::Read, offset, block));
            }
        }
        Err(Begun::Exhausted)
    }

    fn choose_block(&mut self) -> Result<(Kind, u64, u64), Begun> {
        let block = self.pattern.block_bytes;
        let blocks = self.region_bytes / block;
        let kind = match self.pattern.read_percent {
            100 => Kind::Read,
            0 => Kind::Write,
            percent if self.random.u64(..100) < percent => Kind::Read,
            _ => Kind::Write,
        };
        let first = self.random.u64(..blocks);
        let Some(verified) = &self.verified else { return Ok((kind, self.base + first * block, block)) };
        // Only blocks that are not being written can be verified: takes the next free one.
        let candidates = (0..blocks).map(|step| self.base + (first + step) % blocks * block);
        let free = candidates.into_iter().find(|offset| !verified.is_busy(*offset, block));
        free.map(|offset| (kind, offset, block)).ok_or(Begun::Wait)
    }

    /// Sends the READ or WRITE of a part of an operation.
    fn send_part(&mut self, lane: usize, part: u32, out: &mut Outbox<'_>) {
        let Lane { kind, parts, .. } = &self.lanes[lane];
        let (offset, length) = parts[part as usize];
        if *kind == Kind::Read {
            let tag = CallTag { part, phase: None, skims: self.verified.is_none() };
            return out.call(tag, &Request::Read { file: &self.file, offset, count: length });
        }
        let is_fill = self.stage == FILL;
        let stable = if is_fill { StableHow::Unstable } else { self.pattern.stable() };
        let counted = self.pattern.stability == Stability::Commit && !self.pattern.is_mix() && !is_fill;
        let tag = CallTag { part, phase: counted.then_some(WRITE), skims: false };
        let request = WriteRequest { file: &self.file, offset, length, stable };
        match &self.verified {
            Some(verified) => {
                let mut make = |data: &mut [u8]| verified.make(data, offset);
                out.write(tag, &request, Payload::Made(&mut make));
            }
            None => {
                let start = self.random.u64(..SHARED_BYTES as u64);
                out.write(tag, &request, Payload::Any { start });
            }
        }
    }

    /// Sends the COMMIT of an operation, or the one that is an operation of its own.
    fn send_commit(&mut self, lane: usize, out: &mut Outbox<'_>) {
        let Lane { kind, offset, length, .. } = self.lanes[lane];
        // A count of 0 commits everything after the offset.
        let count = u32::try_from(length).unwrap_or(0);
        let phase = (kind != Kind::Commit).then_some(COMMIT);
        let tag = CallTag { part: COMMIT_PART, phase, skims: false };
        out.call(tag, &Request::Commit { file: &self.file, offset, count });
    }

    fn read_reply(
        &mut self,
        lane: usize,
        part: u32,
        reply: Reply<'_>,
        out: &mut Outbox<'_>,
    ) -> Result<u64, Cause> {
        let head = reply.read()?;
        let (offset, length) = self.lanes[lane].parts[part as usize];
        if head.count > length {
            return Err(Cause::Wrong("READ: more data than requested"));
        }
        // A file that is written from its front may not have reached its full size.
        let is_grown = self.stage != CHECK || self.pattern.needs_fill();
        if is_grown && head.eof && offset + u64::from(head.count) < self.file_bytes {
            return Err(Cause::Wrong("READ: end of file reported early"));
        }
        let moved = match &self.verified {
            None => head.count,
            Some(verified) => {
                let whole = VerifiedRegion::whole_blocks(head.count, length);
                let blocks = verified.check(&head.data[..whole as usize], offset)?;
                out.verified(blocks);
                whole
            }
        };
        self.rest(lane, part, moved, out, Cause::Wrong("READ: no data before the end of the file"))
    }

    fn write_reply(
        &mut self,
        lane: usize,
        part: u32,
        reply: Reply<'_>,
        out: &mut Outbox<'_>,
    ) -> Result<u64, Cause> {
        let written = reply.written()?;
        let (_, length) = self.lanes[lane].parts[part as usize];
        if written.count > length {
            return Err(Cause::Wrong("WRITE: count larger than the request"));
        }
        if self.stage != FILL && written.committed < self.pattern.stable() {
            return Err(Cause::Wrong("WRITE: less stable than requested"));
        }
        self.compare_verifier(written.verifier)?;
        let moved = if self.verified.is_some() {
            VerifiedRegion::whole_blocks(written.count, length)
        } else {
            written.count
        };
        let moved = self.rest(lane, part, moved, out, Cause::Wrong("WRITE: nothing was written"))?;
        if written.committed == StableHow::Unstable {
            self.uncommitted = true;
        }
        if self.stage == MEASURE && self.pattern.stability == Stability::Commit && out.is_complete_success() {
            self.uncommitted = false;
            self.send_commit(lane, out);
        }
        Ok(moved)
    }

    /// Requests the rest that a call did not transfer.
    fn rest(
        &mut self,
        lane: usize,
        part: u32,
        moved: u32,
        out: &mut Outbox<'_>,
        nothing: Cause,
    ) -> Result<u64, Cause> {
        let (offset, length) = &mut self.lanes[lane].parts[part as usize];
        if moved < *length {
            if moved == 0 {
                return Err(nothing);
            }
            *offset += u64::from(moved);
            *length -= moved;
            self.send_part(lane, part, out);
        }
        Ok(u64::from(moved))
    }

    fn compare_verifier(&mut self, got: [u8; 8]) -> Result<(), Cause> {
        match self.verifier.replace(got) {
            Some(before) if before != got => {
                Err(Cause::Wrong("the write verifier changed: the server may have lost unstable data"))
            }
            _ => Ok(()),
        }
    }
}

impl Actor for Transfer {
    fn enter(&mut self, stage: usize) {
        self.stage = stage;
        self.cursor = 0;
    }

    fn begin(&mut self, lane: usize, out: &mut Outbox<'_>) -> Begun {
        let (kind, offset, length) = match self.choose() {
            Ok(chosen) => chosen,
            Err(begun) => return begun,
        };
        let state = &mut self.lanes[lane];
        state.kind = kind;
        state.offset = offset;
        state.length = length;
        state.parts.clear();
        self.in_flight += 1;
        if kind == Kind::Commit {
            self.send_commit(lane, out);
            return Begun::Started;
        }
        if let Some(verified) = &mut self.verified {
            verified.begin(offset, length);
        }
        let bytes_max = if kind == Kind::Read { self.sizes.read_bytes } else { self.sizes.write_bytes };
        let mut done = 0;
        while done < length {
            let bytes = u32::try_from(length - done).unwrap_or(u32::MAX).min(bytes_max);
            state.parts.push((offset + done, bytes));
            done += u64::from(bytes);
        }
        for part in 0..u32::try_from(state.parts.len()).expect("a block has few parts") {
            self.send_part(lane, part, out);
        }
        Begun::Started
    }

    fn send(&mut self, lane: usize, part: u32, out: &mut Outbox<'_>) {
        match part {
            COMMIT_PART => self.send_commit(lane, out),
            part => self.send_part(lane, part, out),
        }
    }

    fn reply(
        &mut self,
        lane: usize,
        part: u32,
        reply: Reply<'_>,
        out: &mut Outbox<'_>,
    ) -> Result<u64, Cause> {
        if part == COMMIT_PART {
            let verifier = reply.committed()?;
            return self.compare_verifier(verifier).map(|()| 0);
        }
        match self.lanes[lane].kind {
            Kind::Read => self.read_reply(lane, part, reply, out),
            Kind::Write | Kind::Commit => self.write_reply(lane, part, reply, out),
        }
    }

    fn ended(&mut self, lane: usize, succeeded: bool) -> OperationCount {
        self.in_flight -= 1;
        let Lane { kind, offset, length, .. } = self.lanes[lane];
        if kind == Kind::Commit {
            return OperationCount { operations: 0, phase: Some(COMMIT) };
        }
        if let Some(verified) = &mut self.verified {
            verified.ended(offset, length, kind == Kind::Write, succeeded);
        }
        let phase = if kind == Kind::Read { READ } else { WRITE };
        OperationCount { operations: 1, phase: self.pattern.is_mix().then_some(phase) }
    }
}

/// Makes the files, and a state machine for each thread.
pub(super) fn plan(setup: &mut Setup<'_>, workload: &Workload) -> Result<Plan, LoadError> {
    let pattern = AccessPattern::of(workload).ok_or_else(|| LoadError::new("not a workload of files"))?;
    let threads = u64::from(setup.threads);
    let blocks = (setup.working_set_bytes / threads / pattern.block_bytes).max(1);
    let region_bytes = blocks * pattern.block_bytes;
    let names: Vec<(Handle, String)> = (0..if pattern.shared_file { 1 } else { setup.threads })
        .map(|thread| (setup.directory, format!("f{thread}")))
        .collect();
    let files = setup.client.make_files(&names)?;
    let mut actors: Vec<Box<dyn Actor>> = Vec::new();
    for thread in 0..threads {
        let index = if pattern.shared_file { 0 } else { thread };
        let file = files.get(usize::try_from(index).unwrap_or(0)).copied();
        let base = if pattern.shared_file { thread * region_bytes } else { 0 };
        // Other measurements have other seeds, so their files have other identities.
        let verified =
            setup.verify.then(|| VerifiedRegion::new(setup.seed.wrapping_add(index), base, region_bytes));
        actors.push(Box::new(Transfer {
            pattern,
            sizes: setup.sizes,
            file: file.ok_or_else(|| LoadError::new("CREATE gave no handle"))?,
            file_bytes: if pattern.shared_file { threads * region_bytes } else { region_bytes },
            base,
            region_bytes,
            cursor: 0,
            stage: FILL,
            lanes: vec![Lane::default(); setup.depth as usize],
            in_flight: 0,
            uncommitted: false,
            verifier: None,
            random: generator(setup.seed, thread),
            verified,
        }));
    }
    let smallest = u64::from(setup.sizes.read_bytes.min(setup.sizes.write_bytes));
    let parts_max = u32::try_from(pattern.block_bytes.div_ceil(smallest)).unwrap_or(u32::MAX);
    let fill_bytes = if pattern.needs_fill() { threads * region_bytes } else { 0 };
    Ok(Plan { stages: STAGES.to_vec(), phases: PHASES, actors, parts_max, fill_bytes, phase_operations: 0 })
}
