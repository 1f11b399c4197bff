//! READ (RFC 1813 section 3.3.6).

use std::sync::Arc;
use std::time::Duration;

use super::check_regular;
use crate::api::ids::{ExtentId, Ino, ObjectId};
use crate::api::request::{Answer, Failure, Promised, Request};
use crate::api::results::{Piece, ReadData};
use crate::api::time::Time;
use crate::cache::blocks::{GROUP_BYTES, WHOLE_EXTENT, WHOLE_EXTENT_BYTES_MIN};
use crate::file::extent_map::{Location, MAPPINGS_LOST, Run, resolve_some};
use crate::file::inodes::LockedInode;
use crate::limits::READ_RUNS_MAX;
use crate::pool::Subject;
use crate::transaction::attempt::{Attempt, Missing, Stop};
use crate::transaction::permission::check_read;
use crate::volume::Volume;

/// A read updates an atime older than this even if the file did not change since, as `relatime` does.
const ATIME_AGE: Duration = Duration::from_secs(24 * 60 * 60);

impl Volume {
    /// Reads up to `count` bytes at `offset`. May return fewer before the end of a very fragmented file.
    pub fn read(&self, request: &Request<'_>, ino: Ino, offset: u64, count: u32) -> Answer<ReadData> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let after = state.durability();
            let fail = |error| Stop::Failed(Failure { error, after });
            check_regular(state.record()).map_err(fail)?;
            check_read(request.credentials, state.record()).map_err(fail)?;
            let size = state.size();
            let end = offset.saturating_add(u64::from(count)).min(size);
            let start = offset.min(end);
            let (pieces, end) = self.read_pieces(attempt, &mut state, start, end)?;
            self.note_read(&mut state, request.now);
            let data = ReadData {
                pieces,
                count: usize::try_from(end - start).expect("a READ is below 4 GiB"),
                eof: end >= size,
                attributes: state.attributes(),
            };
            Ok(Promised { value: data, after })
        })
    }

    fn read_pieces(
        &self,
        attempt: &Attempt<'_>,
        state: &mut LockedInode,
        start: u64,
        end: u64,
    ) -> Result<(Vec<Piece>, u64), Stop> {
        let view = self.view();
        let mut windows =
            |state: &mut crate::file::inodes::InodeState, range| attempt.window(&view, state, range);
        let (runs, end) = resolve_some(&view, state, (start, end), true, READ_RUNS_MAX, &mut windows)?;
        // A read ends before what is lost; one that begins there fails.
        let lost = runs.iter().position(|run| matches!(run.location, Location::Lost));
        let (runs, end) = match lost {
            Some(first) if runs[first].start == start => {
                let of = Subject::Data { of: state.id, from: start, to: runs[first].end };
                return Err(self.report(of, &MAPPINGS_LOST).into());
            }
            Some(first) => (&runs[..first], runs[first].start),
            None => (&runs[..], end),
        };
        let mut out = Output {
            volume: self,
            attempt,
            pieces: Vec::with_capacity(runs.len() + 1),
            missing: Vec::new(),
            id: state.id,
        };
        let mut cursor = start;
        for run in runs {
            out.zeros(run.start - cursor);
            out.run(run);
            cursor = run.end;
        }
        out.zeros(end - cursor);
        if out.missing.is_empty() {
            Ok((out.pieces, end))
        } else {
            Err(Stop::Missing(Missing::Blocks(out.missing)))
        }
    }

    /// Updates the access time as `relatime` does: in memory, saved by the next write-back.
    fn note_read(&self, state: &mut LockedInode, now: Time) {
        let record = state.record();
        let stale = record.atime <= record.mtime || record.atime <= record.ctime;
        // Each such file stays in memory until it is saved, and takes more than an unused inode.
        let has_room = || self.write_back.files() < self.limits.inodes() / 16;
        if (stale || now.since(record.atime) >= ATIME_AGE) && now > record.atime && has_room() {
            state.record_mut().atime = now;
            state.unsaved = true;
            let cell = Arc::clone(LockedInode::mutex(state));
            self.write_back.enter(state, &cell, now);
        }
    }
}

struct Output<'a> {
    volume: &'a Volume,
    attempt: &'a Attempt<'a>,
    pieces: Vec<Piece>,
    missing: Vec<((ExtentId, u32), Subject)>,
    id: ObjectId,
}

impl Output<'_> {
    fn zeros(&mut self, bytes: u64) {
        if bytes > 0 {
            self.pieces.push(Piece::Zeros(usize::try_from(bytes).expect("a READ is below 4 GiB")));
        }
    }

    fn run(&mut self, run: &Run) {
        let length = usize::try_from(run.end - run.start).expect("a READ is below 4 GiB");
        match &run.location {
            Location::Dirty(piece) => {
                let (bytes, start, end) = piece.slice(run.start, run.end);
                self.pieces.push(Piece::Data { bytes, start, end });
            }
            Location::Inline(bytes, from) => {
                let (bytes, begin) = bytes.shared();
                let start = begin + from;
                self.pieces.push(Piece::Data { bytes, start, end: start + length });
            }
            Location::Hole | Location::Lost => self.zeros(run.end - run.start),
            Location::Extent(id, offset) => self.extent(*id, *offset as usize, run),
        }
    }

    /// Adds the bytes of `run`, which begin at `offset` of an extent.
    fn extent(&mut self, id: ExtentId, offset: usize, run: &Run) {
        let length = usize::try_from(run.end - run.start).expect("a READ is below 4 GiB");
        let is_large = length >= WHOLE_EXTENT_BYTES_MIN;
        if is_large && self.piece(id, WHOLE_EXTENT, offset, offset + length) {
            return;
        }
        let (pieces, missing) = (self.pieces.len(), self.missing.len());
        let mut at = offset;
        while at < offset + length {
            let group = u32::try_from(at / GROUP_BYTES).expect("an extent is far below 4 GiB");
            let start = at % GROUP_BYTES;
            let end = GROUP_BYTES.min(start + offset + length - at);
            let length = end - start;
            if !self.piece(id, group, start, end)
                && (is_large || !self.piece(id, WHOLE_EXTENT, at, at + length))
            {
                let from = run.start + (at - offset) as u64;
                let of = Subject::Data { of: self.id, from, to: from + length as u64 };
                self.missing.push(((id, group), of));
            }
            at += length;
        }
        if is_large && self.missing.len() > missing {
            self.pieces.truncate(pieces);
            self.missing.truncate(missing);
            let of = Subject::Data { of: self.id, from: run.start, to: run.end };
            self.missing.push(((id, WHOLE_EXTENT), of));
        }
    }

    /// Adds `[start, end)` of a group of blocks, if it is in memory.
    fn piece(&mut self, id: ExtentId, group: u32, start: usize, end: usize) -> bool {
        let key = (id, group);
        let known = self.attempt.blocks(key).cloned().or_else(|| self.volume.blocks.get(&key));
        match known {
            Some(bytes) if bytes.len() >= end => {
                self.pieces.push(Piece::Data { bytes, start, end });
                true
            }
            _ => false,
        }
    }
}
