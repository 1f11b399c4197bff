//! SEEK (RFC 7862 section 15.11).

use super::check_regular;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Failure, Promised, Request};
use crate::api::results::{Sought, SoughtContent};
use crate::file::extent_map::resolve_some;
use crate::file::inodes::LockedInode;
use crate::limits::SEEK_RUNS_MAX;
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::map_update::is_dense;
use crate::transaction::permission::check_read;
use crate::volume::Volume;

impl Volume {
    /// Returns where data or a hole begins at or after `offset`; the end of the file begins a hole. Unstable data is
    /// data.
    ///
    /// One call examines [`SEEK_RUNS_MAX`] runs of each layer, and may end before it finds anything; the caller continues
    /// from there. A search in several calls may or may not see concurrent changes.
    pub fn seek(
        &self,
        request: &Request<'_>,
        ino: Ino,
        offset: u64,
        content: SoughtContent,
    ) -> Answer<Sought> {
        let ino = self.object(ino);
        self.run(request.access, |attempt| {
            let mut state = attempt.lock(ino)?;
            let after = state.durability();
            let fail = |error| Stop::Failed(Failure { error, after });
            check_regular(state.record()).map_err(fail)?;
            check_read(request.credentials, state.record()).map_err(fail)?;
            let size = state.size();
            let value = match content {
                _ if offset >= size => Sought::Beyond,
                SoughtContent::Data => self.seek_data(attempt, &mut state, (offset, size))?,
                SoughtContent::Hole => self.seek_hole(attempt, &mut state, (offset, size))?,
            };
            Ok(Promised { value, after })
        })
    }

    fn seek_data(
        &self,
        attempt: &Attempt<'_>,
        state: &mut LockedInode,
        (at, size): (u64, u64),
    ) -> Result<Sought, Stop> {
        let view = self.view();
        let mut windows =
            |state: &mut crate::file::inodes::InodeState, range| attempt.window(&view, state, range);
        let (runs, to) = resolve_some(&view, state, (at, size), true, SEEK_RUNS_MAX, &mut windows)?;
        Ok(match runs.first() {
            Some(run) => Sought::At(run.start),
            None if to >= size => Sought::End,
            None => Sought::NotBefore(to),
        })
    }

    fn seek_hole(
        &self,
        attempt: &Attempt<'_>,
        state: &mut LockedInode,
        (at, size): (u64, u64),
    ) -> Result<Sought, Stop> {
        let record = state.record();
        if state.dirty.is_empty() && is_dense(record) && at < record.mapped_end {
            return Ok(Sought::At(record.mapped_end));
        }
        let view = self.view();
        let mut windows =
            |state: &mut crate::file::inodes::InodeState, range| attempt.window(&view, state, range);
        let (runs, to) = resolve_some(&view, state, (at, size), true, SEEK_RUNS_MAX, &mut windows)?;
        let mut cursor = at;
        for run in &runs {
            if run.start > cursor {
                break;
            }
            cursor = run.end;
        }
        Ok(if cursor < to || to >= size { Sought::At(cursor.min(size)) } else { Sought::NotBefore(to) })
    }
}
