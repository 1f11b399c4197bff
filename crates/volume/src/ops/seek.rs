//! SEEK (RFC 7862 section 15.11).

use super::check_regular;
use crate::api::ids::Ino;
use crate::api::request::{Answer, Durability, Failure, Promised, Request};
use crate::api::results::{Sought, SoughtContent};
use crate::file::extent_map::resolve_some;
use crate::file::inodes::LockedInode;
use crate::limits::SEEK_RUNS_MAX;
use crate::transaction::attempt::{Attempt, Stop};
use crate::transaction::map_update::is_dense;
use crate::transaction::permission::check_read;
use crate::volume::Volume;

/// Result of a bounded part of the search.
enum Step {
    Found(Sought),
    /// Nothing before this offset.
    On(u64),
}

impl Volume {
    /// Returns where data or a hole begins at or after `offset`; the end of the file begins a hole. Unstable data is
    /// data.
    ///
    /// A long search proceeds in steps, and may or may not see concurrent changes.
    pub fn seek(
        &self,
        request: &Request<'_>,
        ino: Ino,
        offset: u64,
        content: SoughtContent,
    ) -> Answer<Sought> {
        let mut at = offset;
        let mut after = Durability::NOW;
        loop {
            let step = self.run(request.access, |attempt| {
                let mut state = attempt.lock(ino)?;
                let after = state.durability();
                let fail = |error| Stop::Failed(Failure { error, after });
                check_regular(state.record()).map_err(fail)?;
                check_read(request.credentials, state.record()).map_err(fail)?;
                let size = state.size();
                let value = match content {
                    _ if at >= size && at == offset => Step::Found(Sought::Beyond),
                    SoughtContent::Data => self.seek_data(attempt, &mut state, (at, size))?,
                    SoughtContent::Hole => self.seek_hole(attempt, &mut state, (at, size))?,
                };
                Ok(Promised { value, after })
            })?;
            after = after.and(step.after);
            match step.value {
                Step::Found(value) => return Ok(Promised { value, after }),
                Step::On(next) => at = next,
            }
        }
    }

    fn seek_data(
        &self,
        attempt: &Attempt<'_>,
        state: &mut LockedInode,
        (at, size): (u64, u64),
    ) -> Result<Step, Stop> {
        let view = self.view();
        let mut windows =
            |state: &mut crate::file::inodes::InodeState, offset| attempt.window(&view, state, offset);
        let (runs, to) = resolve_some(&view, state, (at, size), true, SEEK_RUNS_MAX, &mut windows)?;
        Ok(match runs.first() {
            Some(run) => Step::Found(Sought::At(run.start)),
            None if to >= size => Step::Found(Sought::End),
            None => Step::On(to),
        })
    }

    fn seek_hole(
        &self,
        attempt: &Attempt<'_>,
        state: &mut LockedInode,
        (at, size): (u64, u64),
    ) -> Result<Step, Stop> {
        let record = state.record();
        if state.dirty.is_empty() && is_dense(record) && at < record.mapped_end {
            return Ok(Step::Found(Sought::At(record.mapped_end)));
        }
        let view = self.view();
        let mut windows =
            |state: &mut crate::file::inodes::InodeState, offset| attempt.window(&view, state, offset);
        let (runs, to) = resolve_some(&view, state, (at, size), true, SEEK_RUNS_MAX, &mut windows)?;
        let mut cursor = at;
        for run in &runs {
            if run.start > cursor {
                break;
            }
            cursor = run.end;
        }
        Ok(if cursor < to || to >= size { Step::Found(Sought::At(cursor.min(size))) } else { Step::On(to) })
    }
}
